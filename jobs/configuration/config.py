"""The configuration file of the jobs: YAML, checked whole before anything starts."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from jobs.configuration.histories import DECLARED
from jobs.configuration.keys import CONTROLLER_RACKS, FILE, REQUIRED
from jobs.configuration.limits import Limits
from jobs.configuration.notify import Notify
from jobs.configuration.reading import URI, read
from jobs.configuration.severities import SEVERITIES, Severity
from jobs.configuration.spark import SparkSection
from metadata_source.errors import KafkaMetadataHistoryError, OptionsError
from metadata_source.options import (
    Cluster,
    parse,
    parse_cluster_log,
    parse_group_log,
    parse_transaction_log,
)
from metadata_source.options.reading import topic_filter
from metadata_source.options.table import (
    BY_NAME,
    CLUSTER_LOG_BY_NAME,
    CONTROLLER_SERVERS,
    CONTROLLERS,
    GROUP_LOG_BY_NAME,
    TRANSACTION_LOG_BY_NAME,
)
from metadata_source.yaml_file import parse_yaml, read_text, truth
from schemas.lake import Lake

FIRST_VERSION_WITH_CLUSTER_ID = 2
_SHARED_OPTIONS = GROUP_LOG_BY_NAME.keys() & BY_NAME.keys() - {"requesttimeout"}
"""Options of `poll` that hold for logs too: how to reach a cluster, what must not be stored."""
MIGRATING = "migrating"
"""Of a cluster: a key of history's, not an option of the data source."""
_MILLISECOND = timedelta(milliseconds=1)


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
    `gold_retention`: None keeps rows for ever. `own_retention`: by history, of tables that are not
    kept as the rest of gold.
    `docs`: None where nothing says it. `group_log`, `transaction_log`, `cluster_log`: None where
    the log is not read.
    `migrating`: aliases of the clusters that are on their way from ZooKeeper to KRaft, which no
    answer to a client tells. `controller_racks`: racks of controllers, which none tells either, by
    alias and id. `kinds`: the kind of each cluster, by alias (metadata_source.kinds).
    """

    lake: Lake
    checkpoints: str
    clusters: Mapping[str, Mapping[str, str]]
    poll: Mapping[str, str] = field(default_factory=dict)
    spool: str = ""
    upgrade: str = ""
    bronze_retention: timedelta = timedelta(days=7)
    silver_retention: timedelta | None = None
    gold_retention: timedelta | None = None
    own_retention: Mapping[str, timedelta] = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)
    docs: str | None = None
    group_log: Mapping[str, str] | None = None
    transaction_log: Mapping[str, str] | None = None
    cluster_log: Mapping[str, str] | None = None
    polls_per_round: int = 60
    hand_over: timedelta = timedelta(minutes=5)
    migrating: frozenset[str] = frozenset()
    controller_racks: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    severities: Mapping[str, Severity] = field(default_factory=lambda: SEVERITIES)
    notify: Notify = field(default_factory=Notify)
    spark: SparkSection = field(default_factory=SparkSection)

    def __post_init__(self) -> None:
        """Say where the spool is where nothing does."""
        object.__setattr__(self, "spool", self.spool or spool_beside(self.checkpoints))

    @property
    def kept(self) -> dict[str, timedelta | None]:
        """How long rows are kept, by schema, and by history that keeps its own; None: for ever."""
        apart = {each.name: self.gold_retention for each in DECLARED if each.kept_apart}
        schemas = {"silver": self.silver_retention, "gold": self.gold_retention}
        return {**schemas, **apart, **self.own_retention}

    @property
    def poll_intervals(self) -> dict[str, timedelta]:
        """The time between two polls of each cluster, by alias."""
        polling = parse(self.source_options({}), "stream").polling
        return {alias: polling[alias].interval_ms * _MILLISECOND for alias in self.clusters}

    def asked_for(self, question: str) -> frozenset[str]:
        """The clusters that are asked a question of `enrich`, by alias."""
        polling = parse(self.source_options({}), "stream").polling
        return frozenset(alias for alias, each in polling.items() if question in each.enrich)

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

    @property
    def notify_folder(self) -> str:
        """The folder of this machine in which `notify` keeps what it has sent."""
        return _beside(self.checkpoints, "notify")

    def source_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options of the stream `kafka_metadata`. `cluster_ids`: as the lake knows, by alias."""
        clusters = {
            alias: {name: value for name, value in own.items() if not _is_of_controllers(name)}
            for alias, own in self._with_ids(cluster_ids).items()
        }
        return {**self.poll, "clusters": json.dumps(clusters)}

    def group_log_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options of the stream `kafka_group_log`; ValueError where the log is not read."""
        if self.group_log is None:
            raise ValueError("groupLog is missing: an empty mapping reads the log of every cluster")
        return self._log_options(GROUP_LOG_BY_NAME, self.group_log, cluster_ids, self.clusters)

    def transaction_log_options(self, cluster_ids: Mapping[str, str]) -> dict[str, str]:
        """Options of the stream `kafka_transaction_log`; ValueError where the log is not read."""
        if self.transaction_log is None:
            raise ValueError(
                "transactionLog is missing: an empty mapping reads the log of every cluster"
            )
        return self._log_options(
            TRANSACTION_LOG_BY_NAME, self.transaction_log, cluster_ids, self.clusters
        )

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
        """The options of each cluster. A configured id counts more than the lake's."""
        known = {alias: {"clusterId": ids[alias]} for alias in self.clusters if alias in ids}
        return {alias: {**known.get(alias, {}), **own} for alias, own in self.clusters.items()}


def spool_beside(checkpoints: str) -> str:
    """The folder of this machine in which polls wait for their commit, where the file names
    none.
    """
    return _beside(checkpoints, "spool")


def _beside(checkpoints: str, name: str) -> str:
    if not URI.match(checkpoints):
        return f"{checkpoints.rstrip('/')}/{name}"
    state = os.environ.get("XDG_STATE_HOME") or f"{Path.home()}/.local/state"
    place = f"{state}/kafka-metadata-history/{sha256(checkpoints.encode()).hexdigest()[:16]}"
    return place if name == "spool" else f"{place}.{name}"


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
        config = _config(read("", parse_yaml(text), FILE), Path(path).absolute().parent)
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
    storage = given.pop("storage", ())
    if storage and not given["lake"].is_object_store:
        raise ValueError(
            f"storage: the lake {given['lake']} is in no object store: remove storage, or name the "
            "bucket in lake (s3a://, gs://, abfss://)"
        )
    if (root := given["lake"].root) is not None:
        root = _place(folder, root)
        given["lake"] = Lake(root=root, storage=storage)
    if given.get("checkpoints") is None:
        if root is None:
            raise ValueError(
                "checkpoints is missing: a lake in a catalog has no folder of its own to keep "
                "them in"
            )
        given["checkpoints"] = f"{root.rstrip('/')}/checkpoints"
    if root is not None and not URI.match(root):
        given.setdefault("docs", f"{root}/quality/data_docs")
    own = {alias: options.pop(MIGRATING, "false") for alias, options in given["clusters"].items()}
    for alias, value in own.items():
        if truth(value) is None:
            raise ValueError(f"clusters.{alias}.{MIGRATING}: {value!r} is neither true nor false")
    given["migrating"] = frozenset(alias for alias, value in own.items() if truth(value))
    racks = {alias: of.pop(CONTROLLER_RACKS, {}) for alias, of in given["clusters"].items()}
    given["controller_racks"] = {alias: of for alias, of in racks.items() if of}
    ages = given.pop("retention", {})
    kept_apart = [each.name for each in DECLARED if each.kept_apart and each.name in ages]
    apart = {name: ages.pop(name) for name in kept_apart}
    given |= {f"{schema}_retention": age for schema, age in ages.items()} | {"own_retention": apart}
    thresholds, limits = (
        Thresholds(**given.pop("thresholds", {})),
        Limits(**given.pop("status", {})),
    )
    severities = {**SEVERITIES, **given.pop("severities", {})}
    notify = Notify(**given.pop("notify", {}))
    notify.check(given["clusters"])
    spark = SparkSection(**given.pop("spark", {}))
    return Config(
        **given,
        thresholds=thresholds,
        limits=limits,
        severities=severities,
        notify=notify,
        spark=spark,
    )


def _checked_clusters(config: Config) -> tuple[Cluster, ...]:
    """The clusters, once the data sources have checked their options: not in the first batch."""
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
    if config.transaction_log is not None:
        parse_transaction_log(config.transaction_log_options({}), "stream")
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


def _place(folder: Path, value: str) -> str:
    """A URI as it is, a folder of this machine as a whole path; a relative one lies in `folder`."""
    if URI.match(value):
        return value
    try:
        return str((folder / Path(value).expanduser()).resolve())
    except RuntimeError:
        raise ValueError(f"{value}: there is no such home folder: write the whole path") from None
