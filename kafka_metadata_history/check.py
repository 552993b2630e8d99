"""Whether each cluster can be polled, and its user may ask what the configuration wants."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jobs.rules.gold.isr import effective_min_isr
from jobs.rules.gold.news import Levels
from kafka_metadata_history.jars.packages import lacking
from metadata_source.check import TOPICS, check, report
from metadata_source.errors import LogError, PollError, stumbled
from metadata_source.logs.cluster.watcher import LogWatcher
from metadata_source.probes import HANGING
from metadata_source.text import counted, text_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jobs.configuration.spark import SparkSection
    from metadata_source.check import ClusterState
    from metadata_source.options import Cluster, ClusterLogOptions, Options
    from metadata_source.poll import Poll
    from metadata_source.probes import Permission
    from schemas.lake import Lake

FEATURES: Final = {
    "configs": "min ISR",
    "reassignments": "reassignments",
    "quorum": "controller quorum",
    "log_dirs": "log directories",
    "fenced": "fenced brokers",
    "groups": "consumer groups",
    "offsets": "consumer groups",
    "groupLog": "rebalance history",
    "transactionLog": "transactions",
    "transactions": "open transactions",
}
"""Question of `enrich`, or key of a log -> the feature whose permission it needs. The others need
none of their own.

OffsetFetch needs of a group what DescribeGroups does.
"""
LOGS: Final = ("groupLog", "transactionLog")
"""Keys of the logs of coordinators."""
_SIDE_BY_SIDE: Final = 16


CONTROLLERS_LOG: Final = "controllers' log"


@dataclass(frozen=True)
class CheckedLog:
    """The controllers' log of a cluster, which is committed up to offset `end`, or `problem`: why
    it cannot be read.

    `is_open`: the controllers ask nobody who he is.
    """

    end: int | None = None
    problem: str | None = None
    is_open: bool = False


@dataclass(frozen=True)
class Checked:
    """A cluster that was polled, or `problem`: why it could not be. `wanted`: features of the
    configuration.

    `log`: of its controllers; None if it is not to be read.
    """

    cluster: Cluster
    wanted: Collection[str]
    problem: str | None = None
    state: ClusterState | None = None
    permissions: list[Permission] = field(default_factory=list)
    log: CheckedLog | None = None

    @property
    def missing(self) -> list[Permission]:
        """The permissions that the configuration needs and brokers refuse."""
        return [
            each for each in self.permissions if each.is_missing and each.feature in self.wanted
        ]

    @property
    def unanswered(self) -> list[Permission]:
        """The features that are wanted and got no answer, though no permission is missing."""
        wanted = [each for each in self.permissions if each.feature in self.wanted]
        return [each for each in wanted if not each.is_missing and not each.is_allowed]

    @property
    def is_good(self) -> bool:
        """Whether everything that is configured will be recorded."""
        return (
            self.problem is None
            and not self.missing
            and (self.log is None or self.log.problem is None)
        )


def checked(
    options: Options, *, read: Collection[str], logs: ClusterLogOptions | None = None
) -> list[Checked]:
    """Check all clusters of a configuration, side by side. `read`: keys of the coordinators' logs
    that are to be read (`LOGS`). `logs`: the controllers' logs that are.
    """

    def one(cluster: Cluster) -> Checked:
        asked = options.polling[cluster.alias].enrich if cluster.alias in options.polling else ()
        wanted = {TOPICS, *(FEATURES[kind] for kind in (*asked, *read) if kind in FEATURES)}
        log = None if logs is None else checked_log(logs, cluster.alias)
        try:
            state, permissions = check(
                cluster, options.topic_filter, options.request_timeout_ms, effective
            )
        except Exception as error:  # noqa: BLE001 - raised, it would cost what was found of other clusters
            return Checked(cluster, wanted, _problem(error), log=log)
        return Checked(cluster, wanted, None, state, permissions, log)

    with ThreadPoolExecutor(_SIDE_BY_SIDE, "check") as side_by_side:
        return list(side_by_side.map(one, options.clusters))


def effective(poll: Poll, setting: int | None, replicas: int) -> int | None:
    """Return how many in-sync replicas acks=all asks for, as history counts them."""
    levels = Levels(poll.metadata_version_level, highest=poll.metadata_version_highest)
    return effective_min_isr(setting, replicas, levels)


def checked_log(logs: ClusterLogOptions, alias: str) -> CheckedLog | None:
    """Check the controllers' log of one cluster; None if it is not to be read."""
    cluster = next((each for each in logs.clusters if each.alias == alias), None)
    if cluster is None:
        return None
    watcher = LogWatcher(cluster, logs.starting, logs.request_timeout_ms, logs.brokers.get(alias))
    with closing(watcher):
        try:
            return CheckedLog(
                watcher.ask_extent(None).end, is_open=cluster.security_protocol == "PLAINTEXT"
            )
        except Exception as error:  # noqa: BLE001 - as above
            return CheckedLog(problem=_problem(error))


def _problem(error: Exception) -> str:
    if isinstance(error, PollError | LogError):
        return f"{error.kind}: {error.problem}"
    return f"protocol: {stumbled(error)}"


def lines(each: Checked, *, whole: bool, is_configured: bool = True) -> Iterator[str]:
    """Yield what was found of a cluster. `whole`: with its state, and all that its user may ask.
    `is_configured`: whether a configuration says what is on.
    """
    alias = each.cluster.alias
    if each.problem is not None or each.state is None:
        yield f"{alias}: failed: {each.problem}"
        if "MetadataResponse" in (each.problem or ""):
            yield (
                "  if this is no Apache Kafka, an older version may do: try `metadataVersion: 8` "
                "for this cluster"
            )
        yield from _log_lines(each.log, whole=whole)
        return
    topics = each.state.metadata.topics.num_rows
    latency = each.state.poll.latency_ms
    missing = "; permissions are missing" if each.missing else ""
    yield f"{alias}: polled in {latency:.1f} ms, {counted(topics, 'topic')}{missing}"
    if whole:
        yield from (
            f"  {line}".rstrip()
            for line in (
                *report(each.state),
                "",
                *_feature_lines(each, is_configured=is_configured),
            )
        )
        yield ""
    else:
        yield from (
            f"  {permission.feature}: {permission.answer}" for permission in each.unanswered
        )
    for permission in each.permissions if whole else each.missing:
        if permission.is_missing:
            yield f"  {permission.feature}: {permission.answer}"
            if permission.acl is not None:
                yield f"    {acl_line(each.cluster, permission.acl)}"
    yield from _log_lines(each.log, whole=whole)


def key_of(feature: str) -> str:
    """What turns a feature on in the configuration; empty of one that is always on."""
    kinds = [kind for kind, each in FEATURES.items() if each == _of(feature)]
    if len(kinds) == 1 and kinds[0] in LOGS:
        return kinds[0]
    return f"enrich: {', '.join(kinds)}" if kinds else ""


def _of(feature: str) -> str:
    """The feature that a feature is a part of, which may be left out; or the same."""
    return FEATURES["transactions"] if feature == HANGING else feature


def _feature_lines(each: Checked, *, is_configured: bool) -> Iterator[str]:
    """Yield a table of the features: the configuration's word, whether this one has it, and what
    the user may ask.
    """
    rows = [
        (one.feature, key_of(one.feature), _of(one.feature) in each.wanted, one.needs, one.answer)
        for one in each.permissions
    ]
    problem = None if each.log is None else each.log.problem
    answer = "not asked" if each.log is None else "allowed" if problem is None else "cannot be read"
    rows.append(
        (
            CONTROLLERS_LOG,
            "clusterLog",
            each.log is not None,
            "CLUSTER_ACTION on the cluster",
            answer,
        )
    )
    on = {True: "yes", False: "no"} if is_configured else {True: "", False: ""}
    cells = (
        (feature, key, on[is_on], needs, answer) for feature, key, is_on, needs, answer in rows
    )
    yield from text_table(("feature", "configuration", "on", "needs", "answer"), cells)


def _log_lines(log: CheckedLog | None, *, whole: bool) -> Iterator[str]:
    """Yield what was found of the controllers' log."""
    if log is None:
        return
    if log.problem is not None:
        yield f"  {CONTROLLERS_LOG}: {log.problem}"
    elif whole:
        yield f"  {CONTROLLERS_LOG}: can be read, up to offset {log.end} now"
    if log.is_open:
        yield (
            f"  {CONTROLLERS_LOG}: warning: controllers ask for no password or certificate; "
            "whoever reaches them may read this log, which holds credentials, and fetch every "
            "topic"
        )


def unwritable(lake: Lake) -> str | None:
    """Say why nobody could write a lake in a folder of this machine; None where nothing is known
    against it. Writes nothing.
    """
    if lake.root is None or not lake.is_folder:
        return None
    folder = Path(lake.root)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return None
    return (
        f"lake {lake}: this user cannot write there: {there} is "
        f"{'not writable' if there.is_dir() else 'no folder'}"
    )


def elsewhere(lake: Lake, spark: SparkSection) -> str | None:
    """Say what Spark needs for a lake that is no folder of this machine, which nobody tries here;
    None for one that is.
    """
    if lake.is_folder:
        return None
    needs = "with the jars for S3" if lake.log_store else "with the jars and settings for it"
    if (artifact := lacking(lake.root or "", spark.packages)) is not None:
        needs += f"; neither spark.packages nor pyspark has {artifact}"
    return (
        f"lake {lake}: not written to; the jobs need Spark {needs}: docs/spark-clusters.md, Lakes "
        "elsewhere"
    )


def acl_line(cluster: Cluster, acl: str) -> str:
    """Return the command that allows it. Only brokers know the name of a certificate's user."""
    servers = ",".join(f"{host}:{port}" for host, port in cluster.bootstrap_servers)
    principal = f"User:{cluster.sasl_username or 'PRINCIPAL'}"
    return f"kafka-acls --bootstrap-server {servers} --add --allow-principal {principal} {acl}"
