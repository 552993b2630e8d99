"""Write conf/schema.json, by which editors check a configuration: ``python -m tools.config_schema``.

Made of the options of the data sources, and of the keys that jobs/common/config.py reads.
"""

import json
from pathlib import Path
from typing import Any

from jobs.common.config import FILE, MIGRATING
from metadata_source.options import (
    CLUSTER_LOG_BY_NAME,
    CLUSTER_LOG_OPTIONS,
    CONTROLLER_SERVERS,
    CONTROLLERS,
    ENRICHMENTS,
    GROUP_LOG_OPTIONS,
    HOST_CHECK,
    OPTIONS,
    Option,
)

SCHEMA = Path(__file__).resolve().parents[1] / "conf" / "schema.json"
DURATION = {"type": "string", "pattern": r"^\s*\d+\s*[a-zA-Z]+\s*$", "examples": ["30s", "5m", "7d"]}
AGE = {"type": "string", "pattern": r"^\s*0*[1-9]\d*\s*([dD]|[dD][aA][yY][sS]?)\s*$", "examples": ["7d", "365d"]}
TEXT = {"type": ["string", "number", "boolean"]}
"""What YAML takes for a number or a truth is a text as well, as it is written."""
COUNT = {"type": "integer", "minimum": 0}
SET_BY_JOBS = {"cluster", "clusters", "newestStream", "doubtedClock", "resumeAt"}
OF_ONE_CLUSTER = {"clusterId", CONTROLLER_SERVERS}
"""Options of a data source that no key of `poll`, `groupLog` or `clusterLog` can be."""
OF_SOURCES = {"poll": OPTIONS, "groupLog": GROUP_LOG_OPTIONS, "clusterLog": CLUSTER_LOG_OPTIONS}
"""Key -> the options of the data source that it holds."""

MEANINGS: dict[str, Any] = {
    "lake": "Where the tables are: a folder, beside this file if it is relative, a URI, or {catalog: NAME}.",
    "checkpoints": "Where the streaming queries keep their place. Default: LAKE/checkpoints.",
    "clusters": "Alias -> how to reach that cluster. An alias is for good: history is kept by it.",
    "poll": "Options that hold for all clusters.",
    "groupLog": "Options of reading __consumer_offsets. Without this key nothing reads it.",
    "clusterLog": "Options of reading __cluster_metadata, of the clusters with kafka.controller.bootstrap.servers.",
    "history": {
        "pollsPerRound": "A round of history takes at most so many polls of each cluster.",
        "handOver": "Polls tell the history that the controllers' log told once nobody has read that log for so long.",
    },
    "retention": {
        "bronze": "Age in days at which days of bronze go, once they became history. Default: 7d.",
        "silver": "Age in days at which rows of silver go, by when they were over. Default: never.",
        "gold": "Age in days at which rows of gold go, by when they were over. Default: never.",
        "groupLag": "Age in days at which rows of gold.group_lag and gold.removed_commits_told go. Default: as gold.",
    },
    "thresholds": {
        "flaps": "A broker that leaves an ISR so many times within flapWindow is flapping.",
        "flapWindow": "See flaps.",
        "storm": "A group that rebalances so many times within stormWindow is in a storm.",
        "stormWindow": "See storm.",
        "crashLoop": "A client that joins a group so many times within crashLoopWindow is in a crash loop.",
        "crashLoopWindow": "See crashLoop.",
    },
    "validation": {"docs": "Folder of the data docs. Default: LAKE/quality/data_docs."},
    "status": {
        "window": "Polls and gaps of so long before now count.",
        "lastGoodPoll": "The last good poll of a cluster may be so old. Default: two intervals and two minutes.",
        "failures": "So many failed polls in a row are too many.",
        "unanswered": "So many answers in a row to a question of enrich that failed or were refused are too many.",
        "failedPercent": "More failed polls of a hundred are too many.",
        "latePercent": "More late polls of a hundred are too many.",
        "gaps": "More gaps are too many.",
        "lostOffsets": "More offsets of the group log that were gone unread are too many.",
        "behind": "History may be behind polls by so long.",
        "upkeep": "The last upkeep may be so long ago.",
        "lakeBytes": "The tables, with their logs, may be so large. Default: any size.",
    },
}
"""Key -> its meaning; of a section the meanings of its keys."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration."""
    sections = {key: _section(key, given) for key, given in FILE.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kafka-metadata-history",
        **_object(sections, required=["lake", "clusters"]),
    }


def _section(key: str, given: Any) -> dict[str, Any]:
    match key:
        case "lake":
            catalog = _object({"catalog": {"type": "string"}}, required=["catalog"])
            return {"description": MEANINGS[key], "oneOf": [TEXT, catalog]}
        case "checkpoints":
            return {"description": MEANINGS[key], "type": [*TEXT["type"], "null"]}
        case "clusters":
            of_controllers = [each for each in CLUSTER_LOG_BY_NAME.values() if each.name.startswith(CONTROLLERS)]
            own = _options([*(option for option in OPTIONS if option.per_cluster), *of_controllers])
            own[MIGRATING] = {"type": "boolean", "description": "It is on its way from ZooKeeper to KRaft."}
            one = _object(own, required=["kafka.bootstrap.servers"])
            return {"description": MEANINGS[key], "type": "object", "additionalProperties": one}
        case "poll" | "groupLog" | "clusterLog":
            of_all = (each for each in OF_SOURCES[key] if each.name not in OF_ONE_CLUSTER)
            options = _options(each for each in of_all if each.modes != ("batch",))
            return {"description": MEANINGS[key], **_object(options), "type": ["object", "null"]}
    meanings = MEANINGS[key]
    return {
        **_object({name: {"description": meanings[name], **_value(name)} for name in given}),
        "type": ["object", "null"],
    }


def _value(name: str) -> dict[str, Any]:
    """The type of a key of a section, which its name tells."""
    if name == "docs":
        return TEXT
    if name in MEANINGS["retention"]:
        return AGE
    is_time = name.endswith("Window") or name in {"window", "lastGoodPoll", "behind", "upkeep", "handOver"}
    return DURATION if is_time else COUNT


def _options(options: Any) -> dict[str, Any]:
    return {option.name: _option(option) for option in options if option.name not in SET_BY_JOBS}


def _option(option: Option) -> dict[str, Any]:
    meaning = {"description": option.meaning} | ({"default": option.default} if option.default is not None else {})
    if option.name == "enrich":
        beats = {kind: {**DURATION, "type": ["string", "null"]} for kind in ENRICHMENTS}
        return meaning | {"oneOf": [_object(beats), {"type": "string"}]}
    if option.name in {"topics", "kafka.bootstrap.servers"}:
        return meaning | {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
    if option.name.endswith(HOST_CHECK):
        return meaning | {"type": [*TEXT["type"], "null"]}
    return meaning | TEXT


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    return found | ({"required": required} if required else {})


def main() -> None:
    """Write the file."""
    SCHEMA.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
