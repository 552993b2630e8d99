"""The configuration file of the jobs: YAML, checked whole before anything starts."""

import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from jobs.configuration.limits import Limits
from metadata_source.errors import KafkaMetadataHistoryError, OptionsError
from metadata_source.options import Cluster, parse, parse_cluster_log, parse_group_log
from metadata_source.options.cluster import field_of
from metadata_source.options.readers import duration_ms, whole_number
from metadata_source.options.reading import topic_filter
from metadata_source.options.table import (
    BY_NAME,
    CLUSTER_LOG_BY_NAME,
    CONTROLLER_SERVERS,
    CONTROLLERS,
    GROUP_LOG_BY_NAME,
    OF_ONE_CLUSTER,
)
from metadata_source.text import did_you_mean
from metadata_source.yaml_file import kind_of, parse_yaml, read_text, truth
from schemas.lake import Lake

FIRST_VERSION_WITH_CLUSTER_ID = 2
_SHARED_OPTIONS = GROUP_LOG_BY_NAME.keys() & BY_NAME.keys() - {"requesttimeout"}
"""Options of `poll` that hold for reading the log as well: how to reach a cluster, what must not be
stored.
"""
GROUP_LAG = "group_lag"
"""Tables of gold that have a retention of their own: those of lag."""
MIGRATING = "migrating"
"""Of a cluster: a key of history's, not an option of the data source."""
_MILLISECOND = timedelta(milliseconds=1)
_DAYS = re.compile(r"(\d+)\s*(?:d|days?)")
_URI = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


class ConfigError(KafkaMetadataHistoryError, ValueError):
    """Raised when a configuration cannot be meant as it is. One line: file, key, what to do."""


@dataclass(frozen=True)
class Thresholds:
    """From when on something is called so (FILE says what): so many times within a window."""

    flaps: int = 3
    flap_window: timedelta = timedelta(minutes=10)
    storm: int = 5
    storm_window: timedelta = timedelta(minutes=10)
    crash_loop: int = 3
    crash_loop_window: timedelta = timedelta(minutes=10)


@dataclass(frozen=True)
class Config:
    """A checked configuration: what FILE says of its keys. Secrets are still references.

    `spool`: a folder of this machine; empty: what `spool_beside` says. `silver_retention`,
    `gold_retention`: None keeps rows for ever. `group_lag_retention`: None keeps them as gold.
    `docs`: None where nothing says it. `group_log`, `cluster_log`: None where the log is not read.
    `migrating`: aliases of the clusters that are on their way from ZooKeeper to KRaft, which no
    answer to a client tells. `kinds`: the kind of each cluster, by alias (metadata_source.kinds).
    """

    lake: Lake
    checkpoints: str
    clusters: Mapping[str, Mapping[str, str]]
    poll: Mapping[str, str] = field(default_factory=dict)
    spool: str = ""
    bronze_retention: timedelta = timedelta(days=7)
    silver_retention: timedelta | None = None
    gold_retention: timedelta | None = None
    group_lag_retention: timedelta | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    docs: str | None = None
    group_log: Mapping[str, str] | None = None
    cluster_log: Mapping[str, str] | None = None
    polls_per_round: int = 60
    hand_over: timedelta = timedelta(minutes=5)
    migrating: frozenset[str] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        """Say where the spool is where nothing does."""
        object.__setattr__(self, "spool", self.spool or spool_beside(self.checkpoints))

    @property
    def kept(self) -> dict[str, timedelta | None]:
        """How long rows of silver and gold are kept, by schema, and those of lag; None: for
        ever.
        """
        of_lag = (
            self.gold_retention if self.group_lag_retention is None else self.group_lag_retention
        )
        return {"silver": self.silver_retention, "gold": self.gold_retention, GROUP_LAG: of_lag}

    @property
    def poll_intervals(self) -> dict[str, timedelta]:
        """The time between two polls of each cluster, by alias."""
        polling = parse(self.source_options({}), "stream").polling
        return {alias: polling[alias].interval_ms * _MILLISECOND for alias in self.clusters}

    @property
    def asked_for_offsets(self) -> frozenset[str]:
        """The clusters whose groups are asked for their offsets, by alias."""
        polling = parse(self.source_options({}), "stream").polling
        return frozenset(alias for alias, each in polling.items() if "offsets" in each.enrich)

    @property
    def longest_beat(self) -> timedelta:
        """The longest time between two questions of `enrich` of a kind; none: zero."""
        polling = parse(self.source_options({}), "stream").polling.values()
        return max(
            (beat * _MILLISECOND for each in polling for beat in each.enrich.values()),
            default=timedelta(),
        )

    @property
    def topic_filter(self) -> str | None:
        """The filter of the polls, as bronze has it; None for every topic."""
        return topic_filter(self.poll).to_json()

    def checkpoint(self, query: str) -> str:
        """The checkpoint folder of a streaming query."""
        return f"{self.checkpoints.rstrip('/')}/{query}"

    def source_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options for the stream `kafka_metadata`; `cluster_ids` are the ids that the lake knows
        the aliases by.
        """
        clusters = {
            alias: {name: value for name, value in own.items() if not _is_of_controllers(name)}
            for alias, own in self._with_ids(cluster_ids).items()
        }
        return {**self.poll, "clusters": json.dumps(clusters)}

    def group_log_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options for the stream `kafka_group_log`, to the same clusters; ValueError where the log
        is not read.
        """
        if self.group_log is None:
            raise ValueError("groupLog is missing: an empty mapping reads the log of every cluster")
        return self._log_options(GROUP_LOG_BY_NAME, self.group_log, cluster_ids, self.clusters)

    @property
    def with_controllers(self) -> list[str]:
        """The aliases of the clusters whose controllers are named, so that their log is read."""
        return [
            alias
            for alias, own in self.clusters.items()
            if any(_is_of_controllers(name) for name in own)
        ]

    def cluster_log_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options for the stream `kafka_cluster_log`, to the clusters that have controllers;
        ValueError where the log is not read.
        """
        if self.cluster_log is None:
            raise ValueError(
                "clusterLog is missing: an empty mapping reads the log of every cluster with "
                "controllers"
            )
        return self._log_options(
            CLUSTER_LOG_BY_NAME, self.cluster_log, cluster_ids, self.with_controllers
        )

    def _log_options(
        self,
        known: Collection[str],
        given: Mapping[str, str],
        ids: Mapping[str, str],
        aliases: Collection[str],
    ) -> dict[str, str]:
        """Options of a data source that has those of `known` names, for some clusters."""
        clusters = {
            alias: _only(known, own)
            for alias, own in self._with_ids(ids).items()
            if alias in aliases
        }
        shared = _only(_SHARED_OPTIONS & {*known}, self.poll)
        return {**shared, **given, "clusters": json.dumps(clusters)}

    def _with_ids(self, ids: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """The options of each cluster. An id that is configured counts more than the one that the
        lake knows.
        """
        known = {alias: {"clusterId": ids[alias]} for alias in self.clusters if alias in ids}
        return {alias: {**known.get(alias, {}), **own} for alias, own in self.clusters.items()}


def spool_beside(checkpoints: str) -> str:
    """The folder of this machine in which polls wait for their commit, where the file names
    none.
    """
    if not _URI.match(checkpoints):
        return f"{checkpoints.rstrip('/')}/spool"
    state = os.environ.get("XDG_STATE_HOME") or f"{Path.home()}/.local/state"
    return f"{state}/kafka-metadata-history/{sha256(checkpoints.encode()).hexdigest()[:16]}"


def _is_of_controllers(name: str) -> bool:
    return name.lower().startswith(CONTROLLERS)


def _only(names: Collection[str], options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() in names}


def load(path: str) -> Config:
    """Read and check the file at `path`. Raises ConfigError."""
    try:
        text = read_text(Path(path))
    except FileNotFoundError as error:
        where = "" if Path(path).is_absolute() else f" in {_here()}"
        todo = "`kafka-metadata-history init` writes one, --config names another"
        raise ConfigError(f"{path}: no such file{where}; {todo}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error
    return parsed(text, path)


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "a folder that was removed"


def parsed(text: str, path: str) -> Config:
    """Check `text`, which is that of a file at `path` or will be. Raises ConfigError."""
    try:
        config = _config(_read("", parse_yaml(text), FILE), Path(path).absolute().parent)
        return replace(
            config, kinds={cluster.alias: cluster.kind for cluster in _checked_clusters(config)}
        )
    except OptionsError as error:
        raise ConfigError(f"{path}: {error.problem}") from error
    except FileNotFoundError as error:  # of the current folder alone
        raise ConfigError(f"{path} is in {_here()}: name a whole path") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


def exposures(config: Config) -> list[str]:
    """A line for each cluster whose credentials cross the network unencrypted."""
    clusters = parse(config.source_options({}), "stream").clusters
    return [
        f"cluster {each.alias}: {each.exposed}" for each in clusters if each.exposed is not None
    ]


def duration(text: str) -> timedelta:
    """Days (`7d`, `2 days`), or what the data source's options take for a duration. Raises
    ValueError.
    """
    days = _DAYS.fullmatch(text.strip().lower())
    try:
        return timedelta(days=int(days[1])) if days else timedelta(milliseconds=duration_ms(text))
    except OverflowError:
        raise ValueError(f"{text!r} is longer than {timedelta.max.days}d") from None


def _config(given: dict[str, Any], folder: Path) -> Config:
    """The configuration with these fields, and with what follows from where the lake is. Paths are
    relative to `folder`.
    """
    for key in REQUIRED:
        if key not in given:
            raise ValueError(f"{key} is missing")
    given |= given.pop("history", {}) | given.pop("validation", {})
    given |= {
        key: _place(folder, given[key])
        for key in ("checkpoints", "spool", "docs")
        if given.get(key)
    }
    if (root := given["lake"].root) is not None:
        root = _place(folder, root)
        given["lake"] = Lake(root=root)
    if given.get("checkpoints") is None:
        if root is None:
            raise ValueError(
                "checkpoints is missing: a lake in a catalog has no folder of its own to keep "
                "them in"
            )
        given["checkpoints"] = f"{root.rstrip('/')}/checkpoints"
    if root is not None and not _URI.match(root):
        given.setdefault("docs", f"{root}/quality/data_docs")
    own = {alias: options.pop(MIGRATING, "false") for alias, options in given["clusters"].items()}
    for alias, value in own.items():
        if truth(value) is None:
            raise ValueError(f"clusters.{alias}.{MIGRATING}: {value!r} is neither true nor false")
    given["migrating"] = frozenset(alias for alias, value in own.items() if truth(value))
    given |= {f"{schema}_retention": age for schema, age in given.pop("retention", {}).items()}
    thresholds, limits = (
        Thresholds(**given.pop("thresholds", {})),
        Limits(**given.pop("status", {})),
    )
    return Config(**given, thresholds=thresholds, limits=limits)


def _checked_clusters(config: Config) -> tuple[Cluster, ...]:
    """The clusters, once the data sources have checked their options: a mistake should show here,
    not in the first batch.
    """
    clusters = parse(config.source_options({}), "stream").clusters
    for cluster in clusters:
        if (
            cluster.metadata_version is not None
            and cluster.metadata_version < FIRST_VERSION_WITH_CLUSTER_ID
        ):
            raise ValueError(
                f"metadataVersion {cluster.metadata_version}: history needs the cluster's id, "
                f"which answers have from {FIRST_VERSION_WITH_CLUSTER_ID} on"
            )
    if config.group_log is not None:
        if _only({"clienthashkey"}, config.group_log):
            raise ValueError(
                "groupLog.clientHashKey: set it under poll, where it holds for polled groups and "
                "for the log"
            )
        parse_group_log(config.group_log_options({}), "stream")
    if (config.cluster_log is None) == bool(config.with_controllers):
        raise ValueError(
            f"clusterLog: no cluster has {CONTROLLER_SERVERS}"
            if config.cluster_log is not None
            else (
                f"clusters.{config.with_controllers[0]}: {CONTROLLERS}*: without clusterLog "
                "nobody asks controllers"
            )
        )
    if config.cluster_log is not None:
        interval = (
            parse_cluster_log(config.cluster_log_options({}), "stream").commit_interval_ms
            * _MILLISECOND
        )
        if 2 * interval > config.hand_over:
            raise ValueError(
                f"clusterLog.commitInterval: {interval} is more than half of history.handOver "
                f"({config.hand_over}): of a log in which nothing happens that is the time between "
                "two rows, and polls would make history"
            )
    return clusters


def _read(name: str, value: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a mapping, and of those in it, by names as fields have them. `name` is empty
    for the file.
    """
    given = _mapping(name or "the file", value)
    within = f"{name}." if name else ""
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known, f"known here: {', '.join(known)}", shown=within.__add__)
            raise ValueError(f"unknown key {within}{key}; {hint}")
    found: dict[str, Any] = {}
    for key, item in given.items():
        match known[key]:
            case reader, _:
                found[field_of(key)] = reader(f"{within}{key}", item)
            case section:
                found[key] = _read(f"{within}{key}", item or {}, section)
    return found


# --- readers: each checks a key's value, given by its whole name, and makes what Config holds ---


def _each(reader: Callable[[str, Any], Any]) -> Callable[[str, Any], dict[str, Any]]:
    """Of a mapping with keys of any name."""
    return lambda name, value: {
        key: reader(f"{name}.{key}", item) for key, item in _mapping(name, value).items()
    }


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and None in value:
        raise ValueError(f"{name}: a name in it is nothing (null): quote it")
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} is not a mapping of names to values")
    return value


def _lake(name: str, value: Any) -> Lake:
    if isinstance(value, Mapping):
        catalog = _read(name, value, {"catalog": (lambda _, catalog: catalog, "")}).get("catalog")
        if isinstance(catalog, str) and catalog:
            return Lake(catalog=catalog)
    elif isinstance(value, str) and value:
        return Lake(root=value)
    raise ValueError("lake is neither a folder or URI nor {catalog: NAME}")


def _place(folder: Path, value: str) -> str:
    """A URI as it is, a folder of this machine as a whole path; a relative one lies in `folder`."""
    if _URI.match(value):
        return value
    try:
        return str((folder / Path(value).expanduser()).resolve())
    except RuntimeError:
        raise ValueError(f"{value}: there is no such home folder: write the whole path") from None


def _folder(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is not a folder or URI")
    return value


def _docs(name: str, value: Any) -> str:
    return _here_only(name, value, "data docs")


def _spool(name: str, value: Any) -> str:
    return "" if value is None else _here_only(name, value, "a spool")


def _here_only(name: str, value: Any, what: str) -> str:
    folder = _folder(name, value)
    if _URI.match(folder):
        raise ValueError(
            f"{name}: {folder} is not a folder of this machine, the only place that {what} can be"
        )
    return folder


def _text(name: str, value: Any) -> str:
    """A text as it is written, or a list of them; empty where there is nothing, which one option
    takes for a value.
    """
    if isinstance(value, list):
        return ",".join("" if item is None else str(item) for item in value)
    if value is None or isinstance(value, str):
        return value or ""
    # Not shown: it may be a secret that was meant to be a reference.
    raise ValueError(f"{name}: {kind_of(value)} is not text or a whole number")


def _option(name: str, value: Any) -> str:
    """An option of the data source."""
    return _questions(name, value) if name.lower().endswith(".enrich") else _text(name, value)


def _questions(name: str, value: Any) -> str:
    """`enrich` as the data source takes it, of a mapping of questions to intervals; without one,
    with its own beat.
    """
    if not isinstance(value, Mapping):
        return _text(name, value)
    questions = {
        str(kind): None if beat is None else _text(f"{name}.{kind}", beat)
        for kind, beat in value.items()
    }
    return (
        ",".join(kind if beat is None else f"{kind}={beat}" for kind, beat in questions.items())
        or "none"
    )


def _options(name: str, value: Any) -> dict[str, str]:
    """Options that hold for all clusters."""
    given = _mapping(name, value or {})
    for key in given:
        if key.lower() in map(str.lower, OF_ONE_CLUSTER):
            raise ValueError(f"{name}.{key}: set it under clusters: it is of one cluster")
        if key.lower() == "spool":
            raise ValueError(f"{name}.{key}: it is a key of the file itself, beside {name}")
    return _each(_option)(name, given)


def _duration(name: str, value: Any) -> timedelta:
    try:
        return duration(str(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _age(name: str, value: Any) -> timedelta:
    """An age at which rows go. Days alone: who means months by `12M` would lose all but twelve
    minutes.
    """
    if not _DAYS.fullmatch(str(value).strip().lower()):
        raise ValueError(
            f"{name}: {value!r} is not a number of days: write it as 7d, a year as 365d"
        )
    if (age := _duration(name, value)) < _LEAST_AGE:
        raise ValueError(f"{name}: {value!r} is less than 1d, the least")
    return age


def _hand_over(name: str, value: Any) -> timedelta:
    found = _duration(name, value)
    if found < _LEAST_HAND_OVER:
        raise ValueError(
            f"{name}: {value!r} is less than 2m: of a log in which nothing happens a minute is "
            "one row"
        )
    return found


def _count(least: int, percent: int | None = None) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        number = whole_number(value) if isinstance(value, str) else None
        if number is None or number < least:
            shown = repr(value) if number is None else number
            raise ValueError(f"{name}: {shown} is not a whole number from {least} on")
        if percent is not None and number > percent:
            raise ValueError(f"{name}: {number} is more than {percent} percent")
        return number

    return read


REQUIRED = ("lake", "clusters")
_LEAST_HAND_OVER = timedelta(minutes=2)
_LEAST_AGE = timedelta(days=1)

FILE: Mapping[str, Any] = {
    "lake": (
        _lake,
        (
            "Where the tables are: a folder, beside this file if it is relative, a URI, or "
            "{catalog: NAME}."
        ),
    ),
    "checkpoints": (
        lambda name, value: None if value is None else _folder(name, value),
        (
            "Where the streaming queries keep their place. Default: LAKE/checkpoints; required "
            "with a catalog."
        ),
    ),
    "spool": (
        _spool,
        (
            "Folder of the machine that polls, in which polls wait. Default: CHECKPOINTS/spool, "
            "or see below."
        ),
    ),
    "clusters": (
        _each(_each(_option)),
        "For each alias, which is for good, how to reach that cluster.",
    ),
    "poll": (_options, "Options that hold for all clusters."),
    "groupLog": (
        _options,
        "Options of reading __consumer_offsets; may be empty. Default: nothing reads it.",
    ),
    "clusterLog": (
        _options,
        "Options of reading __cluster_metadata; may be empty. Default: nothing reads it.",
    ),
    "retention": {
        "bronze": (_age, "Age in days at which days of bronze go, once they became history."),
        "silver": (
            _age,
            "Age in days at which rows of silver go, by when they were over. Default: never.",
        ),
        "gold": (
            _age,
            "Age in days at which rows of gold go, by when they were over. Default: never.",
        ),
        "groupLag": (
            _age,
            (
                "The same of gold.group_lag, and of gold.removed_commits as polls tell it. "
                "Default: as gold."
            ),
        ),
    },
    "thresholds": {
        "flaps": (
            _count(1),
            "A broker that leaves an ISR so many times within flapWindow is flapping.",
        ),
        "storm": (
            _count(2),
            "A group that rebalances so many times within stormWindow is in a storm.",
        ),
        "crashLoop": (
            _count(2),
            "A client that joins a group so many times in crashLoopWindow is in a crash loop.",
        ),
        "flapWindow": (_duration, "See flaps."),
        "stormWindow": (_duration, "See storm."),
        "crashLoopWindow": (_duration, "See crashLoop."),
    },
    "history": {
        "pollsPerRound": (
            _count(1),
            "A round of history takes at most so many polls of each cluster.",
        ),
        "handOver": (
            _hand_over,
            "Polls make history once nobody read the controllers' log for so long; 2m at least.",
        ),
    },
    "validation": {"docs": (_docs, "Folder of the data docs. Default: LAKE/quality/data_docs.")},
    "status": {
        "window": (_duration, "Polls and gaps of so long before now count."),
        "lastGoodPoll": (
            _duration,
            "The last good poll may be so old. Default: two intervals and two minutes.",
        ),
        "failures": (_count(1), "So many failed polls in a row are too many."),
        "unanswered": (
            _count(1),
            "So many answers in a row to a question of enrich that failed are too many.",
        ),
        "failedPercent": (_count(0, percent=100), "More failed polls of a hundred are too many."),
        "latePercent": (_count(0, percent=100), "More late polls of a hundred are too many."),
        "gaps": (_count(0), "More gaps are too many."),
        "lostOffsets": (
            _count(0),
            "More offsets of the group log that were gone unread are too many.",
        ),
        "behind": (_duration, "History may be behind polls by so long."),
        "upkeep": (_duration, "The last upkeep may be so long ago."),
        "lakeBytes": (
            _count(1),
            "The tables, with their logs, may be so large. Default: any size.",
        ),
    },
}
"""Each key of the file -> the reader of its value, and its meaning; or the keys in it."""
