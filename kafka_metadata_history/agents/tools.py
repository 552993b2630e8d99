"""The tools that agents have: the named questions, and what the commands of the same names say."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, create_model

from kafka_metadata_history.agents.bounded import Found
from kafka_metadata_history.answers.asking import answered, beside
from kafka_metadata_history.answers.asof.asked import Comparison, Thing, difference, state
from kafka_metadata_history.answers.questions import (
    FILTERS,
    QueryError,
    about,
    by_theme,
    filters_of,
    question,
)
from kafka_metadata_history.answers.whatif import written as of_losses
from kafka_metadata_history.answers.whatif.read import BROKER, CONTROLLER, RACK
from kafka_metadata_history.explained import explained
from kafka_metadata_history.recorded import without
from metadata_source.text import did_you_mean, printable
from schemas.lake import TABLES, VIEWS
from schemas.table import Table, View

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.configuration.config import Config
    from kafka_metadata_history.answers.asking import Answer, Asked

LIMIT: Final = 50
"""Rows of an answer, unless an agent says otherwise."""
MOST: Final = 500
"""Rows that it may ask for."""


class Arguments(BaseModel):
    """Of a tool. What is not declared is refused; no text is taken for a number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @property
    def most(self) -> int:
        """So many rows at most."""
        return int(getattr(self, "limit", MOST))


@dataclass(frozen=True)
class Tool:
    """`says`: what it answers. `call`: asks a lake, of a configuration, and raises QueryError and
    LakeError as commands do.
    """

    name: str
    says: str
    arguments: type[Arguments]
    call: Callable[[Asked, Config, Any], Found]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments, as short as can be: agents read those of all tools
        before they ask anything.
        """
        whole = self.arguments.model_json_schema()
        named = {name: _short(of) for name, of in whole.get("properties", {}).items()}
        return {
            "type": "object",
            "properties": named,
            "required": whole.get("required", []),
            "additionalProperties": False,
        }


def _short(of: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an argument without what its name says, and null as nothing."""
    either = [each for each in of.get("anyOf", ()) if each != {"type": "null"}]
    kept = {name: each for name, each in of.items() if name not in {"title", "anyOf"}}
    kept = {**kept, **(either[0] if either else {})}
    return {name: each for name, each in kept.items() if (name, each) != ("default", None)}


def tools() -> dict[str, Tool]:
    """Return all tools by name: those that explain first, then the questions by theme."""
    named = [_named(name) for of in by_theme().values() for name in of]
    return {each.name: each for each in (EXPLAIN, SHOW, DIFF, WHATIF, *named, TABLES_TOOL, SELECT)}


_AT: Final = "A time."
_NEWEST: Final = "A time. Default: the newest state."
_CLUSTER: Final = "This cluster alone, by its alias."
_ROWS: Final = Field(default=LIMIT, ge=1, le=MOST, description="Rows at most, the first ones.")


# --- named questions ---


def _named(name: str) -> Tool:
    short, more = about(name)
    narrowing = filters_of(name)
    fields: dict[str, Any] = {
        "since": (str, Field(default="1 day", description="Begin of the window.")),
        "until": (str | None, Field(default=None, description="Its end. Default: now.")),
    }
    for each in narrowing:
        kind = int if each == "broker" else str
        said = f"{FILTERS[each][0].upper()}{FILTERS[each][1:]}."
        fields[each] = (kind | None, Field(default=None, description=said))
    arguments = create_model(name, __base__=Arguments, **fields, limit=(int, _ROWS))
    narrow = f"narrow by {', '.join(['since and until', *narrowing])}, or raise limit"

    def call(lake: Asked, _: Config, given: Any) -> Found:
        values = given.model_dump(exclude={"limit"})
        since, until = values.pop("since"), values.pop("until")
        of = question(name, since, until, values, datetime.now(UTC))
        return _found(lake, answered(lake, of), narrow)

    # As agents have them: no options of a command.
    says = re.sub(r"--([a-z][a-z-]*)", lambda found: found[1].replace("-", "_"), more)
    return Tool(name, f"{short} {says}".strip(), arguments, call)


def _found(lake: Asked, answer: Answer, narrow: str) -> Found:
    return Found((), answer.rows, beside(lake, answer.lines), narrow)


# --- incidents, state, differences, losses ---


class _Explain(Arguments):
    incident: str | None = Field(
        default=None, description="Its id, or the beginning of it. Default: those that are open."
    )
    cluster: str | None = Field(default=None, description=_CLUSTER)


def _explain(lake: Asked, config: Config, given: _Explain) -> Found:
    say = explained(lake.ask, config, given.incident, given.cluster, now=datetime.now(UTC))
    return Found(say("text").splitlines())


EXPLAIN: Final = Tool(
    "explain",
    "Which incidents are open, or what happened in one of them? In which order, the cause and how "
    "sure it is, what is hurt, which logs to read. Begin with this one.",
    _Explain,
    _explain,
)


class _Show(Arguments):
    at: str | None = Field(default=None, description=_NEWEST)
    cluster: str | None = Field(default=None, description=_CLUSTER)
    topic: str | None = Field(default=None, description="The partitions of this topic.")
    broker: int | None = Field(default=None, description="This broker: what it leads and lacks.")
    group: str | None = Field(default=None, description="This group and its members.")
    limit: int = _ROWS


def _show(lake: Asked, _: Config, given: _Show) -> Found:
    of = Thing(given.topic, given.broker, given.group)
    answer = state(lake.ask, given.at, given.cluster, of, datetime.now(UTC))
    return _found(lake, answer, "narrow by cluster, or raise limit")


SHOW: Final = Tool(
    "show",
    "What is the state of clusters, a topic, a broker or a group, now or at a time? A row for each "
    "cluster, partition, broker or member, the worst first. Give one of topic, broker, group.",
    _Show,
    _show,
)


class _Diff(Arguments):
    t1: str | None = Field(default=None, description=_AT)
    t2: str | None = Field(default=None, description=_NEWEST)
    cluster: str | None = Field(default=None, description=_CLUSTER)
    topic: str | None = Field(default=None, description="This topic alone.")
    broker: int | None = Field(default=None, description="This broker alone.")
    group: str | None = Field(default=None, description="This group alone.")
    clusters: list[str] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="In place of t1 and t2: two clusters, whose settings are compared.",
    )
    at: str | None = Field(default=None, description=f"With clusters. {_NEWEST}")
    limit: int = _ROWS


def _diff(lake: Asked, _: Config, given: _Diff) -> Found:
    if given.t1 is None and given.t2 is not None:
        raise QueryError("t2 without t1: give t1, too")
    of = Comparison(
        [each for each in (given.t1, given.t2) if each is not None],
        None if given.clusters is None else (given.clusters[0], given.clusters[1]),
        given.at,
        given.cluster,
        Thing(given.topic, given.broker, given.group),
    )
    answer = difference(lake.ask, of, datetime.now(UTC), is_folded=not of.thing.given)
    return _found(lake, answer, "narrow by cluster, topic, broker or group, or raise limit")


DIFF: Final = Tool(
    "diff",
    "What differs between two times, or between the settings of two clusters? Brokers, leaders, "
    "replicas, topics, groups, settings. Many that are alike are one row, unless it is narrowed.",
    _Diff,
    _diff,
)


class _Whatif(Arguments):
    brokers: list[int] = Field(default=[], description="Brokers that are lost, by id.")
    controllers: list[int] = Field(default=[], description="Controllers that are lost, by id.")
    racks: list[str] = Field(default=[], description="Racks that are lost.")
    at: str | None = Field(default=None, description=_NEWEST)
    cluster: str | None = Field(default=None, description="This cluster. Default: the only one.")
    limit: int = _ROWS


def _whatif(lake: Asked, config: Config, given: _Whatif) -> Found:
    now = datetime.now(UTC)
    ids = ((BROKER, given.brokers), (CONTROLLER, given.controllers))
    lost = [(what, ",".join(map(str, of))) for what, of in ids if of]
    lost += [(RACK, each) for each in given.racks]
    found, record = without(
        lake, config, lost, given.cluster, given.at, now=now, controller_racks={}
    )
    changed = json.loads(of_losses.as_json(found, record, now))["partitions"]
    rows = pa.Table.from_pylist(changed) if changed else None
    return Found(
        of_losses.as_text(found, record, now).splitlines(),
        rows,
        narrow="lines have the counts of all; raise limit",
    )


WHATIF: Final = Tool(
    "whatif",
    "What would the loss of brokers, racks or controllers do? Which partitions go offline or under "
    "min ISR, who leads then, whether the quorum holds. By the record: nothing is stopped.",
    _Whatif,
    _whatif,
)


# --- SQL ---


class _Tables(Arguments):
    name: str | None = Field(default=None, description="Its columns, as of 'gold.isr_episodes'.")


def _tables(lake: Asked, _: Config, given: _Tables) -> Found:
    all_of_them: tuple[Table | View, ...] = (*TABLES, *VIEWS)
    known = {each.full_name: each for each in all_of_them if each.schema != "internal"}
    if given.name is None:
        rows = [{"name": name, "comment": each.comment} for name, each in sorted(known.items())]
        return Found(rows=pa.Table.from_pylist(rows))
    if given.name not in known:
        hint = did_you_mean(given.name, known, "call it without a name for all")
        raise QueryError(printable(f"{given.name}: no such table; {hint}"))
    schema = lake.ask(f"SELECT * FROM {given.name} LIMIT 0").schema  # noqa: S608 - our own
    of = known[given.name]
    said = (
        {each.name: each.comment for each in of.columns}
        if isinstance(of, Table)
        else dict(of.meanings)
    )
    columns = [
        {"name": each.name, "type": str(each.type), "comment": said.get(each.name)}
        for each in schema
    ]
    return Found([of.comment], pa.Table.from_pylist(columns))


TABLES_TOOL: Final = Tool(
    "tables",
    "Which tables and columns are there for select?",
    _Tables,
    _tables,
)


class _Select(Arguments):
    sql: str = Field(description="One SELECT in Spark's SQL, over the tables that `tables` lists.")
    limit: int = _ROWS


def _select(lake: Asked, _: Config, given: _Select) -> Found:
    # One row more than is shown, so that it is known whether there are more, and no more are made.
    sql = given.sql.strip().removesuffix(";")
    rows = lake.own(f"SELECT * FROM (\n{sql}\n) LIMIT {given.limit + 1}")  # noqa: S608 - read only
    return Found(rows=rows, narrow="there may be many more: narrow it in SQL, or raise limit")


SELECT: Final = Tool(
    "select",
    "What does a query in SQL answer? Read only, within a time limit. A named question knows more "
    "about causes and gaps: look for one first.",
    _Select,
    _select,
)
