"""Options checked and typed: of `kafka_metadata` and of the logs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from metadata_source.errors import OptionsError
from metadata_source.options.cluster import Cluster, checked_alias, cluster_of
from metadata_source.options.given import Given, by_name, read, read_all
from metadata_source.options.readers import whole_name
from metadata_source.options.table import (
    BY_NAME,
    CLUSTER_LOG_BY_NAME,
    CONTROLLER_SERVERS,
    CONTROLLERS,
    GROUP_LOG_BY_NAME,
    SASL,
    TLS,
    TRANSACTION_LOG_BY_NAME,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from metadata_source.options.table import Mode

ENRICH_TIMEOUT_MS: Final = 5_000
"""The most that a question beside metadata takes, unless told."""
_LEAST_TIMEOUT_MS, _MOST_TIMEOUT_MS = 1_000, 10_000
"""Of a poll, unless told."""
_POLLING: Final = tuple(BY_NAME[name] for name in ("pollinterval", "enrich", "enrichtimeout"))
_TOPICS: Final = tuple(BY_NAME[name] for name in ("topics", "topicspattern"))


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Which topics a read covers: names, or a pattern, or neither for every topic."""

    topics: tuple[str, ...] | None = None
    pattern: str | None = None

    def to_json(self) -> str | None:
        """Return the filter as bronze keeps it; null for every topic."""
        if self.topics is not None:
            return json.dumps({"topics": sorted(self.topics)}, separators=(",", ":"))
        if self.pattern is not None:
            return json.dumps({"pattern": self.pattern}, separators=(",", ":"), ensure_ascii=False)
        return None


@dataclass(frozen=True, slots=True)
class Polling:
    """How often one cluster is polled, and what is asked beside. Times are milliseconds."""

    interval_ms: int
    enrich: Mapping[str, int]
    """Each question to ask beside metadata -> its beat."""
    enrich_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Options:
    """A read: its clusters, and what is one for all of them. Times are milliseconds."""

    clusters: tuple[Cluster, ...]
    polling: Mapping[str, Polling]
    """By alias."""
    topic_filter: TopicFilter
    entity: str
    request_timeout_ms: int
    client_hash_key: str | None
    """A reference; None where client ids and hosts are kept as they are."""
    groups_pattern: str | None = None
    """Of the groups whose offsets are asked for, by their whole id (RE2); None for every one."""
    newest_stream: str | None = None
    """The newest stream of polls where they are kept; None where nothing is known of one."""
    doubted_clock: tuple[float, float] | None = None
    """When no poll is believed, s since the epoch; None: what is kept contradicts no clock."""
    known_ids: Mapping[str, str] = field(default_factory=dict)
    """The cluster ids that history has, by alias."""
    spool: str | None = None
    """The folder in which polls of a stream wait for their commit; None: the stream's own."""
    commit_interval_ms: int = 60_000
    min_commit_interval_ms: int = 1_000
    recorder: str | None = None
    """The run whose recorder polls into the spool; None: the stream has one of its own."""


def parse(options: Mapping[str, str], mode: Mode | None = None) -> Options:
    """Check and type the options of a read. Keys are case-insensitive.

    `mode` is None while it is not known yet whether a batch or a stream is read. Raises
    OptionsError.
    """
    values, each = read_all(options, BY_NAME, mode)
    entity = values["entity"]
    if mode == "stream" and entity != "polls":
        raise OptionsError(
            "entity: a stream reads polls; brokers, topics and partitions are entities of a batch "
            "read"
        )
    if (least := values["minCommitInterval"]) > (most := values["commitInterval"]):
        raise OptionsError(f"minCommitInterval: {least} ms are more than commitInterval, {most} ms")
    own = {one.alias: read(one.given, _POLLING, one.within) for one in each}
    shortest_ms = min(of_one["pollInterval"] for of_one in own.values())
    timeout_ms = values["requestTimeout"] or min(
        _MOST_TIMEOUT_MS, max(_LEAST_TIMEOUT_MS, shortest_ms)
    )
    if any("enrichTimeout" in one.given for one in each) and not any(
        "enrich" in one.given for one in each
    ):
        raise OptionsError("enrichTimeout: without enrich, nothing is asked beside metadata")

    def polling(one: Given) -> Polling:
        interval_ms, enrich, enrich_timeout_ms = own[one.alias].values()
        if enrich and entity != "polls":
            raise one.error(
                f"enrich: contradicts entity {entity}: its answers are in the rows of polls"
            )
        if mode == "batch" and (
            with_beat := [part for part in one.given.get("enrich", "").split(",") if "=" in part]
        ):
            raise one.error(
                f"enrich: {with_beat[0].strip()!r}: a batch read asks once; leave the beat out"
            )
        return Polling(
            interval_ms, enrich or {}, enrich_timeout_ms or min(ENRICH_TIMEOUT_MS, timeout_ms)
        )

    return Options(
        clusters=tuple(map(cluster_of, each)),
        polling={one.alias: polling(one) for one in each},
        topic_filter=topic_filter(options),
        entity=entity,
        request_timeout_ms=timeout_ms,
        client_hash_key=values["clientHashKey"],
        groups_pattern=values["groupsPattern"],
        newest_stream=values["newestStream"],
        doubted_clock=values["doubtedClock"],
        known_ids=values["knownIds"] or {},
        spool=values["spool"],
        commit_interval_ms=values["commitInterval"],
        min_commit_interval_ms=values["minCommitInterval"],
        recorder=values["recorder"],
    )


def topic_filter(options: Mapping[str, str]) -> TopicFilter:
    """Return which topics a read of `kafka_metadata` covers. Raises OptionsError."""
    topics, pattern = read(by_name(options, BY_NAME, None), _TOPICS).values()
    if topics is not None and pattern is not None:
        raise OptionsError("topics: contradicts topicsPattern, give one of them")
    return TopicFilter(topics, pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogOptions:
    """A read of a log that is a topic. `starting`: an end of the log, or ms since 1970."""

    clusters: tuple[Cluster, ...]
    starting: Literal["earliest", "latest"] | int
    max_records: int
    request_timeout_ms: int
    resume_at: Mapping[str, Mapping[int, int]]
    """By alias and partition: up to where a log was read; the checkpoint need not know it."""
    commit_interval_ms: int
    min_commit_interval_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLogOptions(TransactionLogOptions):
    """A read of the group coordinators' log."""

    client_hash_key: str | None
    groups_pattern: str | None
    """For names of groups, whole (RE2)."""


def parse_group_log(options: Mapping[str, str], mode: Mode | None = None) -> GroupLogOptions:
    """Check and type the options of `kafka_group_log`, as `parse` does. Raises OptionsError."""
    values, each = read_all(options, GROUP_LOG_BY_NAME, mode)
    pattern = values["groupsPattern"]
    return GroupLogOptions(
        **_of_topic(values, each),
        client_hash_key=values["clientHashKey"],
        groups_pattern=None if pattern is None else whole_name(pattern),
    )


def parse_transaction_log(
    options: Mapping[str, str], mode: Mode | None = None
) -> TransactionLogOptions:
    """Check and type the options of `kafka_transaction_log`, as `parse` does. Raises
    OptionsError.
    """
    return TransactionLogOptions(**_of_topic(*read_all(options, TRANSACTION_LOG_BY_NAME, mode)))


def _of_topic(values: Mapping[str, Any], each: Iterable[Given]) -> dict[str, Any]:
    """Return the options that all logs have which are topics."""
    return {
        "clusters": tuple(map(cluster_of, each)),
        "starting": values["startingOffsets"],
        "max_records": values["maxRecordsPerBatch"],
        "request_timeout_ms": values["requestTimeout"],
        "resume_at": values["resumeAt"] or {},
        "commit_interval_ms": values["commitInterval"],
        "min_commit_interval_ms": values["minCommitInterval"],
    }


@dataclass(frozen=True, slots=True)
class ClusterLogOptions:
    """A read of the controllers' log: of clusters, whose `bootstrap_servers` are controllers, or of
    files at a path.

    `brokers`: by alias, how to reach the brokers of those clusters whose id is not given: they say
    it.
    """

    clusters: tuple[Cluster, ...]
    brokers: Mapping[str, Cluster]
    starting: Literal["earliest", "snapshot"]
    request_timeout_ms: int
    max_bytes_per_second: int
    resume_at: Mapping[str, Mapping[int, int]]
    """By alias, up to where a log was read (partition 0); the checkpoint need not know it."""
    commit_interval_ms: int
    min_commit_interval_ms: int
    files: ClusterLogFiles | None = None


@dataclass(frozen=True, slots=True)
class ClusterLogFiles:
    """Where files of a controller are, and whose they are."""

    path: str
    alias: str
    cluster_id: str | None


def parse_cluster_log(options: Mapping[str, str], mode: Mode | None = None) -> ClusterLogOptions:
    """Check and type the options of `kafka_cluster_log`, as `parse` does. Raises OptionsError."""
    values, each = read_all(options, CLUSTER_LOG_BY_NAME, mode)
    files = _files(by_name(options, CLUSTER_LOG_BY_NAME, mode), values["cluster"])
    return ClusterLogOptions(
        clusters=() if files else tuple(map(_controllers, each)),
        brokers={
            one.alias: _brokers(one) for one in each if not files and "clusterId" not in one.given
        },
        starting=values["startingOffsets"],
        request_timeout_ms=values["requestTimeout"],
        max_bytes_per_second=values["maxBytesPerSecond"],
        resume_at=values["resumeAt"] or {},
        commit_interval_ms=values["commitInterval"],
        min_commit_interval_ms=values["minCommitInterval"],
        files=files,
    )


def _files(given: Mapping[str, str], alias: str) -> ClusterLogFiles | None:
    if "path" not in given:
        return None
    for name in given:
        if name not in {"path", "cluster", "clusterId"}:
            raise OptionsError(
                f"{name}: contradicts path: files are read whole, and nobody is asked"
            )
    return ClusterLogFiles(given["path"], checked_alias(alias), given.get("clusterId"))


def _controllers(one: Given) -> Cluster:
    """Return how to reach a cluster's controllers: by their own options, else by its brokers'."""
    if CONTROLLER_SERVERS not in one.given:
        raise one.error(f"{CONTROLLER_SERVERS}: missing")
    own = {
        name.replace(CONTROLLERS, "kafka.", 1): value
        for name, value in one.given.items()
        if CONTROLLERS in name
    }
    # Of the brokers' security nothing is meant for controllers that have another.
    unfit: tuple[str, ...] = ()
    protocol = own.get("kafka.security.protocol", "SASL_SSL").upper()
    if "SASL" not in protocol or "kafka.sasl.mechanism" in own:
        unfit += SASL
    if "SSL" not in protocol:
        unfit += TLS
    others = {name: value for name, value in _of_brokers(one).items() if not name.startswith(unfit)}
    return cluster_of(Given(one.alias, others | own, f"{one.within}controllers: "))


def _brokers(one: Given) -> Cluster:
    """Return how to reach the brokers of a cluster."""
    given = _of_brokers(one)
    if "kafka.bootstrap.servers" not in given:
        raise one.error(
            "clusterId: missing: it keeps another cluster's log out. Give it (kafka-cluster.sh "
            "cluster-id --bootstrap-server HOST:PORT), or kafka.bootstrap.servers, whose brokers "
            "say it"
        )
    return cluster_of(Given(one.alias, given, one.within))


def _of_brokers(one: Given) -> dict[str, str]:
    return {name: value for name, value in one.given.items() if CONTROLLERS not in name}
