"""The configuration file of the jobs: YAML, checked whole before anything starts."""

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from metadata_source.options import BY_NAME, GROUP_LOG_BY_NAME, duration_ms, parse, parse_group_log
from schemas.lake import Lake

_KEYS = ("lake", "checkpoints", "clusters", "poll", "groupLog", "retention", "thresholds", "validation")
_SHARED_OPTIONS = GROUP_LOG_BY_NAME.keys() & BY_NAME.keys() - {"requesttimeout"}
"""Options of `poll` that hold for reading the log as well: how to reach a cluster, what must not be stored."""
_RETENTION_KEYS = ("bronze",)
_COUNTS = {"flaps": 1, "storm": 2, "crashLoop": 2}
"""Thresholds that are counts -> the smallest that makes sense."""
_WINDOWS = ("flapWindow", "stormWindow", "crashLoopWindow")
_VALIDATION_KEYS = ("docs",)
_DAYS = re.compile(r"(\d+)\s*(?:d|days?)")
_URI = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)
FIRST_VERSION_WITH_CLUSTER_ID = 2
_BRONZE_RETENTION = timedelta(days=7)


class ConfigError(ValueError):
    """Raised when a configuration cannot be meant as it is. One line: file, key, what to do."""


@dataclass(frozen=True)
class Thresholds:
    """From when on something is called so.

    A broker that leaves an ISR `flaps` times within `flap_window` is flapping. A group that rebalances `storm` times within
    `storm_window` is in a storm, and a client that joins it anew `crash_loop` times within `crash_loop_window` in a crash loop.
    """

    flaps: int = 3
    flap_window: timedelta = timedelta(minutes=10)
    storm: int = 5
    storm_window: timedelta = timedelta(minutes=10)
    crash_loop: int = 3
    crash_loop_window: timedelta = timedelta(minutes=10)


@dataclass(frozen=True)
class Config:
    """A checked configuration.

    `clusters`: alias -> options of that cluster. `poll`: options of the data source that hold for all clusters, by
    the names that the data source gives them. Secrets are still references. `docs`: the folder for data docs; None where
    nothing says it. `group_log`: options of the data source that reads the coordinators' log; None where it is not read.
    """

    lake: Lake
    checkpoints: str
    clusters: Mapping[str, Mapping[str, str]]
    poll: Mapping[str, str]
    bronze_retention: timedelta
    thresholds: Thresholds = field(default_factory=Thresholds)
    docs: str | None = None
    group_log: Mapping[str, str] | None = None

    def checkpoint(self, query: str) -> str:
        """The checkpoint folder of a streaming query."""
        return f"{self.checkpoints.rstrip('/')}/{query}"

    def source_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options for the stream `kafka_metadata`; `cluster_ids` are the ids that the lake knows the aliases by."""
        known = {alias: {"clusterId": id_} for alias, id_ in cluster_ids.items()}
        clusters = {alias: {**known.get(alias, {}), **options} for alias, options in self.clusters.items()}
        return {**self.poll, "clusters": json.dumps(clusters)}

    def group_log_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options for the stream `kafka_group_log`, to the same clusters. Raises ValueError where the log is not to be read."""
        if self.group_log is None:
            raise ValueError("groupLog is missing: an empty mapping reads the log of every cluster")
        polling = self.source_options(cluster_ids)
        clusters = {
            alias: {name: value for name, value in options.items() if name.lower() in GROUP_LOG_BY_NAME}
            for alias, options in json.loads(polling["clusters"]).items()
        }
        common = {name: value for name, value in self.poll.items() if name.lower() in _SHARED_OPTIONS}
        return {**common, **self.group_log, "clusters": json.dumps(clusters)}


def load(path: str) -> Config:
    """Read and check the file at `path`. Raises ConfigError."""
    try:
        content = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    try:
        return _config(_mapping("the file", content))
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML libraries keep the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """The mapping of `node`."""
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _config(content: Mapping[str, Any]) -> Config:
    _known_keys(content, _KEYS, "")
    for key in ("lake", "clusters"):
        if key not in content:
            raise ValueError(f"{key} is missing")
    lake = _lake(content["lake"])
    if content.get("checkpoints") is not None:
        checkpoints = _place("checkpoints", content["checkpoints"])
    elif lake.root is not None:
        checkpoints = f"{lake.root.rstrip('/')}/checkpoints"
    else:
        raise ValueError("checkpoints is missing: a lake in a catalog has no folder of its own to keep them in")
    clusters = {
        alias: _texts(f"clusters.{alias}", options)
        for alias, options in _mapping("clusters", content["clusters"]).items()
    }
    poll = _source_texts("poll", content.get("poll") or {})
    config = Config(
        lake,
        checkpoints,
        clusters,
        poll,
        _retention(content.get("retention") or {}),
        _thresholds(content.get("thresholds") or {}),
        _docs(content.get("validation") or {}, lake),
        _source_texts("groupLog", content["groupLog"] or {}) if "groupLog" in content else None,
    )
    # The data source knows its options; a mistake should show here, not in the first batch.
    for cluster in parse(config.source_options({}), "stream").clusters:
        if cluster.metadata_version is not None and cluster.metadata_version < FIRST_VERSION_WITH_CLUSTER_ID:
            raise ValueError(
                f"metadataVersion {cluster.metadata_version}: history needs the cluster's id, which answers have from "
                f"{FIRST_VERSION_WITH_CLUSTER_ID} on"
            )
    if config.group_log is not None:
        if any(name.lower() == "clienthashkey" for name in config.group_log):
            raise ValueError(
                "groupLog.clientHashKey: stands under poll, for what is polled of groups and their log alike"
            )
        parse_group_log(config.group_log_options({}), "stream")
    return config


def _source_texts(key: str, value: Any) -> dict[str, str]:
    texts = _texts(key, value)
    for name in texts:
        if name.lower() in {"cluster", "clusters", "clusterid"}:
            raise ValueError(f"{key}.{name}: what is of one cluster only stands under clusters")
    return texts


def _lake(value: Any) -> Lake:
    if isinstance(value, str) and value:
        return Lake(root=_place("lake", value))
    if isinstance(value, Mapping):
        _known_keys(value, ("catalog",), "lake.")
        if isinstance(value.get("catalog"), str) and value["catalog"]:
            return Lake(catalog=value["catalog"])
    raise ValueError("lake is neither a folder or URI nor {catalog: NAME}")


def _place(name: str, value: Any) -> str:
    """A URI as it is, a folder of this machine as a whole path."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is not a folder or URI")
    return value if _URI.match(value) else str(Path(value).expanduser().resolve())


def _retention(value: Any) -> timedelta:
    retention = _mapping("retention", value)
    _known_keys(retention, _RETENTION_KEYS, "retention.")
    return _duration("retention.bronze", retention["bronze"]) if "bronze" in retention else _BRONZE_RETENTION


def _thresholds(value: Any) -> Thresholds:
    thresholds = _mapping("thresholds", value)
    _known_keys(thresholds, (*_COUNTS, *_WINDOWS), "thresholds.")
    counts = {
        _field(key): _count(f"thresholds.{key}", thresholds[key], least)
        for key, least in _COUNTS.items()
        if key in thresholds
    }
    windows = {_field(key): _duration(f"thresholds.{key}", thresholds[key]) for key in _WINDOWS if key in thresholds}
    return Thresholds(**counts, **windows)


def _count(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: {value!r} is not a whole number from {least} on")
    return value


def _field(key: str) -> str:
    """flapWindow -> flap_window."""
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", key)


def _docs(value: Any, lake: Lake) -> str | None:
    validation = _mapping("validation", value)
    _known_keys(validation, _VALIDATION_KEYS, "validation.")
    if "docs" in validation:
        docs = _place("validation.docs", validation["docs"])
        if _URI.match(docs):
            raise ValueError(
                f"validation.docs: {docs} is not a folder of this machine, the only place that data docs can be"
            )
        return docs
    return f"{lake.root}/quality/data_docs" if lake.root is not None and not _URI.match(lake.root) else None


def duration(text: str) -> timedelta:
    """Days (`7d`, `2 days`), or what the data source's options take for a duration. Raises ValueError."""
    if days := _DAYS.fullmatch(text.strip().lower()):
        return timedelta(days=int(days[1]))
    return timedelta(milliseconds=duration_ms(text))


def _duration(name: str, value: Any) -> timedelta:
    try:
        return duration(str(value))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} is not a mapping of names to values")
    return value


def _texts(name: str, value: Any) -> dict[str, str]:
    texts = {}
    for key, item in _mapping(name, value).items():
        if isinstance(item, list):
            texts[key] = ",".join(map(str, item))
        elif isinstance(item, bool):
            texts[key] = str(item).lower()
        elif isinstance(item, str | int):
            texts[key] = str(item)
        else:
            raise ValueError(f"{name}.{key}: {item!r} is not text or a whole number")  # noqa: TRY004 - a mistake in the file like others
    return texts


def _known_keys(mapping: Mapping[str, Any], known: tuple[str, ...], within: str) -> None:
    for key in mapping:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {within}{close[0]}?" if close else f"known here: {', '.join(known) or 'nothing yet'}"
            raise ValueError(f"unknown key {within}{key}; {hint}")
