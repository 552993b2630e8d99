"""The JSON of pages as OpenAPI: made from the named questions and their filters."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from kafka_metadata_history.answers.questions import FILTERS, about, filters_of, names
from kafka_metadata_history.names import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable

_TIME: Final = "a time in ISO form, or how long ago"
_PARAMETERS: Final = {
    **FILTERS,
    "since": f"the begin of the window: {_TIME}",
    "until": f"the end of the window: {_TIME}; now unless given",
    "at": f"of when the state is: {_TIME}; the newest unless given",
    "from": f"the first time: {_TIME}",
    "to": f"the second time: {_TIME}; the newest state unless given",
    "kind": "of what is lost: broker, rack or controller",
    "lose": "its id, or several with commas; of a rack its name",
}
_PAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "/api": ("Each cluster's state now, and its open incidents", ("cluster",)),
    "/api/cluster": ("A cluster at a time", ("cluster", "at", "since", "until")),
    "/api/incident/{id}": ("An incident, its findings and its story", ("cluster",)),
    "/api/topic": ("A topic", ("cluster", "topic", "at", "since", "until")),
    "/api/broker": ("A broker", ("cluster", "broker", "at", "since", "until")),
    "/api/group": ("A group", ("cluster", "group", "at", "since", "until")),
    "/api/diff": (
        "Differences between two times",
        ("cluster", "from", "to", "topic", "broker", "group"),
    ),
    "/api/annotations": ("Incidents, as Grafana has annotations", ("cluster", "from", "to")),
    "/api/whatif": ("The effects of a loss", ("cluster", "kind", "lose", "at")),
}


def openapi() -> dict[str, Any]:
    """Return the description of all that is below /api."""
    paths = {path: _get(short, "", of) for path, (short, of) in _PAGES.items()}
    paths["/api/incident/{id}"]["get"]["parameters"] += [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    ]
    paths["/api/ask"] = _get("The named questions, by theme", "", ())
    for name in names():
        short, more = about(name)
        of = ("since", "until", *filters_of(name))
        paths[f"/api/ask/{name}"] = _get(short, more, of)
    return {
        "openapi": "3.1.0",
        "info": {"title": NAME, "version": version(NAME)},
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
        "paths": paths,
    }


def _get(short: str, more: str, parameters: Iterable[str]) -> dict[str, Any]:
    problem = {"type": "object", "properties": {"error": {"type": "string"}}}
    return {
        "get": {
            "summary": short,
            "description": more,
            "parameters": [
                {
                    "name": each,
                    "in": "query",
                    "description": _PARAMETERS[each],
                    "schema": {"type": "integer" if each == "broker" else "string"},
                }
                for each in parameters
            ],
            "responses": {
                "200": _json("The page as data: a key for each section.", {"type": "object"}),
                "400": _json("The question cannot be answered as it is.", problem),
                "401": {"description": "A token is needed."},
                "503": _json("Too many questions at once, or the lake cannot be read.", problem),
            },
        }
    }


def _json(text: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}
