"""Write conf/schema.json, by which editors check a configuration: ``python -m
tools.config_schema``.

Made of the options of the data sources, and of the keys that jobs/configuration/keys.py reads.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

from jobs.configuration.config import MIGRATING, Config, Thresholds
from jobs.configuration.keys import AUTO, CONTROLLER_RACKS, FILE, REQUIRED
from jobs.configuration.limits import Limits
from jobs.configuration.notify import KINDS
from jobs.configuration.severities import SEVERITIES, Severity
from jobs.configuration.spark import COORDINATE, OURS, SHA256
from metadata_source.options.cluster import field_of
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.options.table import (
    CLUSTER_LOG_BY_NAME,
    CLUSTER_LOG_OPTIONS,
    CONTROLLERS,
    GROUP_LOG_OPTIONS,
    HOST_CHECK,
    OF_ONE_CLUSTER,
    OPTIONS,
    TRANSACTION_LOG_OPTIONS,
    Option,
)
from metadata_source.references import REFERENCE
from schemas.incidents import SEVERITIES as LEVELS
from schemas.lake import Lake

SCHEMA = Path(__file__).resolve().parents[1] / "conf" / "schema.json"
DURATION = {
    "type": "string",
    "pattern": r"^\s*\d+\s*[a-zA-Z]+\s*$",
    "examples": ["30s", "5m", "7d"],
}
AGE = {
    "type": "string",
    "pattern": r"^\s*0*[1-9]\d*\s*([dD]|[dD][aA][yY][sS]?)\s*$",
    "examples": ["7d", "365d"],
}
TEXT = {"type": ["string", "number", "boolean"]}
"""What YAML takes for a number or a truth is a text as well, as it is written."""
COUNT = {"type": "integer", "minimum": 0}
_OF_TYPES = {int: COUNT, timedelta: DURATION, str: TEXT, Severity: TEXT}
OF_SOURCES = {
    "poll": OPTIONS,
    "groupLog": GROUP_LOG_OPTIONS,
    "transactionLog": TRANSACTION_LOG_OPTIONS,
    "clusterLog": CLUSTER_LOG_OPTIONS,
}
"""Key -> the options of the data source that it holds."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration."""
    sections = {key: _section(key, given) for key, given in FILE.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kafka-metadata-history",
        **_object(sections, required=[*REQUIRED]),
    }


def _section(key: str, given: Any) -> dict[str, Any]:
    if (of := {"notify": _of_notify, "spark": _of_spark}.get(key)) is not None:
        keys = {name: of(name) | {"description": says} for name, (_, says) in given.items()}
        return {**_object(keys), "type": ["object", "null"]}
    if isinstance(given, Mapping):
        keys = {
            name: _value(key, name, reader) | {"description": says}
            for name, (reader, says) in given.items()
        }
        return {**_object(keys), "type": ["object", "null"]}
    meaning = {"description": given[1]}
    match key:
        case "lake":
            catalog = _object({"catalog": {"type": "string"}}, required=["catalog"])
            return meaning | {"oneOf": [TEXT, catalog]}
        case "storage":
            return meaning | {"type": ["object", "null"], "additionalProperties": TEXT}
        case "upgrade":
            return meaning | {"enum": [AUTO, None]}
        case "checkpoints" | "spool":
            return meaning | {"type": [*TEXT["type"], "null"]}
        case "clusters":
            of_controllers = [
                each for each in CLUSTER_LOG_BY_NAME.values() if each.name.startswith(CONTROLLERS)
            ]
            own = _options([*(option for option in OPTIONS if option.per_cluster), *of_controllers])
            own[MIGRATING] = {
                "type": "boolean",
                "description": "It is on its way from ZooKeeper to KRaft.",
            }
            own[CONTROLLER_RACKS] = {
                "type": ["object", "null"],
                "description": "The racks of its controllers, by id: no answer of Kafka has them.",
                "patternProperties": {"^[0-9]+$": {**TEXT, "minLength": 1}},
                "additionalProperties": False,
            }
            one = _object(own, required=["kafka.bootstrap.servers"])
            return meaning | {"type": "object", "additionalProperties": one}
    of_all = (each for each in OF_SOURCES[key] if each.name not in OF_ONE_CLUSTER)
    options = _options(each for each in of_all if each.only is None or each.only[0] != "batch")
    return meaning | {**_object(options), "type": ["object", "null"]}


def _of_notify(name: str) -> dict[str, Any]:
    secret = {"type": "string", "pattern": f"^(?:{REFERENCE.pattern})$"}
    page = {"type": "string", "pattern": r"^[hH][tT][tT][pP][sS]?://[^\s/]"}
    url = {"oneOf": [secret, {**page, "pattern": r"^[hH][tT][tT][pP][sS]?://[^\s/@]+(/|$)"}]}
    kind = {"enum": [*KINDS]}
    match name:
        case "pages":
            return {"oneOf": [page, {"type": "null"}]}
        case "heartbeat":
            beat = _object({"url": url, "every": DURATION}, required=["url"])
            return {"oneOf": [beat, {"type": "null"}]}
        case "silences":
            keys = {
                "cluster": TEXT,
                "broker": COUNT,
                "kind": kind,
                "until": {"type": "string"},
                "marks": {"type": "boolean"},
            }
            either = {"anyOf": [{"required": ["until"]}, {"required": ["marks"]}]}
            return {"type": ["array", "null"], "items": _object(keys) | either}
    pagerduty = _object({"routingKey": secret, "url": url}, required=["routingKey"])
    by_url = _object({"url": url}, required=["url"])
    receivers = {
        "pagerduty": pagerduty,
        "alertmanager": by_url,
        "webhook": by_url,
        "apprise": _object({"url": secret}, required=["url"]),
    }
    narrows = {
        "severity": {"enum": [*LEVELS]},
        "clusters": {"oneOf": [TEXT, {"type": "array", "items": TEXT}]},
        "kinds": {"oneOf": [kind, {"type": "array", "items": kind}]},
    }
    one = _object({**receivers, **narrows}) | {
        "oneOf": [{"required": [receiver]} for receiver in receivers]
    }
    return {"type": ["object", "null"], "additionalProperties": one}


def _of_spark(name: str) -> dict[str, Any]:
    if name == "packages":
        checksum = {"type": ["string", "null"], "pattern": f"^({SHA256.pattern})?$"}
        of = {f"^{COORDINATE.pattern}$": checksum}
    else:
        own = "|".join(re.escape(each) for each in OURS)
        of = {rf"^(?!({own})$)spark\.": TEXT}
    return {
        "type": ["object", "null"],
        "patternProperties": of,
        "additionalProperties": False,
    }


def _value(section: str, name: str, reader: Callable[[str, Any], Any]) -> dict[str, Any]:
    """The type of a key of a section, by what its reader makes of it, and its default."""
    made = get_type_hints(reader)["return"]
    of = AGE if section == "retention" else _OF_TYPES[made]
    default = default_of(section, name)
    return of if default is None else of | {"default": default}


def default_of(section: str, name: str) -> str | int | None:
    """Return the default of a key of a section as a file has it; None for one that is no value."""
    if section == "severities":
        return str(SEVERITIES[name])
    field = field_of(name) + ("_retention" if section == "retention" else "")
    value = (vars(Config(Lake(root=""), "", {})) | vars(Thresholds()) | vars(Limits())).get(field)
    if isinstance(value, timedelta):
        units = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
        return next(
            f"{value // unit}{letter}" for letter, unit in units.items() if not value % unit
        )
    return value if isinstance(value, int) else None


def _options(options: Any) -> dict[str, Any]:
    return {option.name: _option(option) for option in options if not option.by_jobs}


def _option(option: Option) -> dict[str, Any]:
    default = option.default or option.derived
    meaning = {"description": option.meaning} | ({"default": default} if default else {})
    if option.name == "enrich":
        beats = {kind: {**DURATION, "type": ["string", "null"]} for kind in ENRICHMENTS}
        return meaning | {"oneOf": [_object(beats), {"type": "string"}]}
    if option.name in {"topics", "kafka.bootstrap.servers"}:
        return meaning | {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
    if option.name.endswith(HOST_CHECK):
        return meaning | {"type": [*TEXT["type"], "null"]}
    return meaning | TEXT


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }
    return found | ({"required": required} if required else {})


def main() -> None:
    """Write the file."""
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
