"""The state that a cluster is in now, from one poll, and what its user may ask. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.errors import OptionsError, PollError
from metadata_source.kafka_constants import (
    EXACT_FROM_LEVEL,
    LISTENER_NOT_FOUND,
    TOPIC_AUTHORIZATION_FAILED,
    TRUSTED_EPOCHS_VERSION,
)
from metadata_source.kinds import (
    ISR,
    KAFKA,
    KINDS,
    LEADER,
    OFFLINE,
    PREFERRED,
    REPLICAS,
    UNDER_REPLICATED,
)
from metadata_source.members import lack_replica
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.probes import ALLOWED_ANSWER, MinIsr, Permission, Prober
from metadata_source.protocol.oddities import LISTS, are_odd
from metadata_source.text import counted, text_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from metadata_source.addresses import Address
    from metadata_source.client_file import ClientFile
    from metadata_source.options import Cluster, Options, TopicFilter
    from metadata_source.poll import Poll
    from metadata_source.protocol.metadata import ClusterMetadata

    Effective = Callable[[Poll, int | None, int], int | None]
    """How many in-sync replicas acks=all asks for, by a poll, min.insync.replicas, and the number
    of replicas; None where that is not known."""

TOPICS: Final = "brokers, topics, partitions"
"""The feature without which nothing is recorded."""
TROUBLES: Final = {
    "offline": "offline (no leader)",
    "under_min_isr": "under min ISR",
    "at_min_isr": "at min ISR",
    "under_replicated": "under-replicated",
    "not_preferred": "not led by the preferred replica",
}
"""Column of `partition_troubles` -> what it is called."""
_NEEDS: Final = {
    "offline": (LEADER, OFFLINE),
    "under_min_isr": (ISR,),
    "at_min_isr": (ISR,),
    "under_replicated": (ISR,),
    "not_preferred": (LEADER, PREFERRED),
    "leads": (LEADER,),
    "preferred": (LEADER, PREFERRED),
    "replicas": (REPLICAS,),
}
"""Trouble, or column of `broker_table` -> the facts without which it means nothing."""
_NORMAL: Final = {"at_min_isr"}
"""Alone no trouble: a topic whose replicas are as many as it needs is always there."""
_LISTED: Final = 20
_OF_KAFKA_4: Final = 13
"""The version of Metadata that Kafka 4.0 brought (KIP-1102)."""


def check(
    cluster: Cluster, topic_filter: TopicFilter, request_timeout_ms: int, effective: Effective
) -> tuple[ClusterState, list[Permission]]:
    """Poll a cluster once, and ask what else its user may ask. `effective`: the rule of history, of
    which this package knows nothing. Raises PollError.
    """
    poll, metadata = _poll(cluster, topic_filter, request_timeout_ms)
    prober = Prober(cluster, _address(poll.broker or ""))
    names = metadata.topics["topic"].to_pylist()
    min_isr = prober.min_isr([name for name in names if name is not None])
    known = pa.array([min_isr.known.get(name) for name in names], pa.int32())
    state = ClusterState(poll, metadata, known, effective, min_isr, cluster.kind)
    return state, [_describe(metadata), _describe_configs(state), *prober.permissions()]


def read_options(bootstrap: str, client: ClientFile | None) -> Options:
    """Return the options of one poll of one cluster. Raises OptionsError, naming the file."""
    alone = parse({"kafka.bootstrap.servers": bootstrap}, "batch")
    if client is None:
        return alone
    if "clusters" in client.options:
        raise OptionsError(
            f"{client.file}: clusters: one cluster is looked at; give its kafka.* options alone"
        )
    given = client.at(bootstrap)
    try:
        return parse(given, "batch")
    except OptionsError as error:
        raise OptionsError(f"{client.file}: {error.problem}") from None


def _poll(
    cluster: Cluster, topic_filter: TopicFilter, request_timeout_ms: int
) -> tuple[Poll, ClusterMetadata]:
    """Poll once; return the poll, and its metadata after the filter. Raises PollError."""
    with Poller(cluster, topic_filter, request_timeout_ms, needs_id=True) as poller:
        poll = poller.poll()
    if poll.error_kind is not None or poll.metadata is None:
        raise PollError(poll.error_kind or "protocol", poll.error or "")
    return poll, poll.metadata


def _address(broker: str) -> Address:
    host, _, port = broker.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The known state of a cluster: the poll, and its topics (after the filter). `min_isr`: of each
    topic. `answered`: all that brokers answered about it.
    """

    poll: Poll
    metadata: ClusterMetadata
    min_isr: pa.Array
    """int32, one a topic; null is unknown."""
    effective: Effective
    answered: MinIsr = MinIsr()  # noqa: RUF009 - frozen
    kind: str = KAFKA

    def means_nothing(self, name: str) -> bool:
        """Whether a trouble, or a column of `broker_table`, means nothing on this kind."""
        return any(fact in KINDS[self.kind].not_meaningful for fact in _NEEDS.get(name, ()))


def preferred_leaders(partitions: pa.Table) -> pa.Array:
    """Return the first replica of each partition, int32; null where there is none."""
    replicas = partitions["replicas"].combine_chunks()
    count = pc.list_value_length(replicas)
    starts = pc.if_else(pc.greater(count, 0), replicas.offsets.slice(0, len(replicas)), None)
    return replicas.values.take(starts)


def partition_troubles(state: ClusterState) -> pa.Table:
    """Return for each partition its `topic` and a boolean column for each of TROUBLES; null where
    it is not known.

    Under-replicated are partitions whose ISR lacks a replica; as in kafka-topics.sh, those of a
    running reassignment are included. A leader without our listener (error 72) is no offline
    partition.
    """
    metadata, partitions = state.metadata, state.metadata.partitions
    leader, isr = partitions["leader"], pc.list_value_length(partitions["isr"])
    topic = np.repeat(
        np.arange(metadata.topics.num_rows), metadata.topics["partition_count"].to_numpy()
    )
    settings = state.min_isr.take(pa.array(topic, pa.int64())).to_pylist()
    replicas = pc.list_value_length(partitions["replicas"]).to_pylist()
    effective = cache(partial(state.effective, state.poll))
    needed = pa.array(map(effective, settings, replicas), pa.int32())
    led = pc.greater_equal(leader, 0)
    elsewhere = pc.equal(partitions["error_code"], LISTENER_NOT_FOUND)
    columns = {
        "offline": pc.and_not(pc.invert(led), elsewhere),
        "under_min_isr": pc.less(isr, needed),
        "at_min_isr": pc.equal(isr, needed),
        "under_replicated": pa.array(lack_replica(partitions)),
        "not_preferred": pc.and_(led, pc.not_equal(leader, preferred_leaders(partitions))),
    }
    return pa.table(
        {
            "topic": metadata.topics["topic"].combine_chunks().take(pa.array(topic, pa.int64())),
            **columns,
        }
    )


def topics_in_trouble(troubles: pa.Table) -> pa.Table:
    """Return each `topic` in trouble, worst first, and how many partitions are in which."""
    counts = troubles.group_by("topic").aggregate([(name, "sum") for name in TROUBLES])
    counts = counts.rename_columns([name.removesuffix("_sum") for name in counts.column_names])
    real = [
        pc.greater(pc.fill_null(counts[name], 0), 0) for name in TROUBLES if name not in _NORMAL
    ]
    any_ = real[0]
    for each in real[1:]:
        any_ = pc.or_(any_, each)
    order = [(name, "descending") for name in TROUBLES if name not in _NORMAL] + [
        ("topic", "ascending")
    ]
    return counts.filter(any_).sort_by(order).select(["topic", *TROUBLES])


def broker_table(metadata: ClusterMetadata) -> pa.Table:
    """Return `broker_id host port rack leads preferred replicas`, by id: the last three count
    partitions.

    Brokers that hold replicas and are not listed (down, or fenced) are there too, with null for
    what only the list says.
    """
    partitions = metadata.partitions
    table = metadata.brokers.select(["broker_id", "host", "port", "rack"])
    counted = {
        "leads": partitions["leader"].combine_chunks(),
        "preferred": preferred_leaders(partitions),
        "replicas": pc.list_flatten(partitions["replicas"]).combine_chunks(),
    }
    for name, ids in counted.items():
        counts = pa.table({"broker_id": ids}).group_by("broker_id").aggregate([([], "count_all")])
        counts = counts.rename_columns({"count_all": name}).filter(
            pc.greater_equal(pc.field("broker_id"), 0)
        )
        table = table.join(counts, "broker_id", join_type="full outer")
    for name in counted:
        table = table.set_column(table.column_names.index(name), name, pc.fill_null(table[name], 0))
    return table.sort_by("broker_id")


def report(state: ClusterState) -> Iterator[str]:
    """Yield the state as lines for people."""
    poll, metadata = state.poll, state.metadata
    levels = ", ".join(
        f"{name} {'unknown' if level is None else level}"
        for name, level in (
            ("metadata.version level", poll.metadata_version_level),
            ("ELR level", poll.elr_version_level),
        )
    )
    yield f"cluster {metadata.cluster_id or '(id unknown)'}: {levels}"
    yield (
        f"answered by {'a broker' if poll.broker_id is None else f'broker {poll.broker_id}'} at "
        f"{poll.broker} in {poll.latency_ms:.1f} ms: {poll.response_bytes:,} bytes, Metadata "
        f"v{poll.api_version}"
    )
    yield from _kind_lines(state)
    if not state.means_nothing("leads"):
        yield from _counts_of_leader_changes(poll.api_version or 0, poll.metadata_version_level)
    yield ""
    numbers = [name for name in _NUMBERS if not state.means_nothing(name)]
    header = ("broker", "address", "rack", *(_NUMBERS[name] for name in numbers))
    yield from text_table(
        header, (_broker_row(row, numbers) for row in broker_table(metadata).to_pylist())
    )
    yield ""
    yield from _partition_lines(state)


def _counts_of_leader_changes(version: int, level: int | None) -> Iterator[str]:
    """How sure history is of them, as gold.leader_changes says in epoch_semantics."""
    if version < TRUSTED_EPOCHS_VERSION:
        sure = f"unknown: leader epochs of Metadata v{version} cannot be trusted"
    elif level is None:
        sure = "upper bounds: metadata.version is unknown, as with ZooKeeper"
    elif level < EXACT_FROM_LEVEL:
        sure = (
            f"upper bounds: below level {EXACT_FROM_LEVEL} (3.6-IV0) leader epochs rise when an "
            "ISR shrinks"
        )
    else:
        sure = "exact, but for reassignments"
    yield f"counts of leader changes: {sure}"
    if sure.startswith("exact") and version < _OF_KAFKA_4:
        yield (
            "While a cluster migrates from ZooKeeper (Kafka 3.6 to 3.9) they are upper bounds. No "
            "answer tells: `migrating: true` beside its kafka.bootstrap.servers does"
        )


_NUMBERS: Final = {"leads": "leads", "preferred": "preferred for", "replicas": "replicas"}
"""Column of `broker_table` that counts partitions -> what it is called."""


def _kind_lines(state: ClusterState) -> Iterator[str]:
    """The kind that the cluster was declared as, and the facts that mean nothing there."""
    kind = KINDS[state.kind]
    yield f"kind {state.kind}: {kind.maker}"
    yield from (f"  not meaningful here: {reason}" for reason in kind.reasons)


def _broker_row(row: Mapping[str, Any], numbers: Iterable[str]) -> tuple[object, ...]:
    where = "not listed: down or fenced" if row["host"] is None else f"{row['host']}:{row['port']}"
    return row["broker_id"], where, row["rack"], *(row[name] for name in numbers)


def _partition_lines(state: ClusterState) -> Iterator[str]:
    topics = state.metadata.topics
    if topics.num_rows == 0:
        yield "no topics: an empty cluster, or none that this user may see"
        return
    troubles = partition_troubles(state)
    for at, name in enumerate(troubles.column_names):
        if state.means_nothing(name):
            troubles = troubles.set_column(at, name, pa.nulls(troubles.num_rows, pa.bool_()))
    count = counted(topics.num_rows, "topic")
    yield f"{count}, {counted(troubles.num_rows, 'partition')}, of which"
    rows: list[tuple[object, ...]] = []
    for name, called in TROUBLES.items():
        if state.means_nothing(name):
            rows.append((called, "not meaningful here", ""))
            continue
        unknown = troubles[name].null_count
        known = pc.sum(troubles[name]).as_py() or 0
        number = known if unknown < troubles.num_rows or not unknown else "unknown"
        rows.append((called, number, _remark(state, name, troubles)))
    yield from (f"  {line}".rstrip() for line in text_table(("", "partitions", ""), rows)[2:])
    errors = topics.filter(pc.not_equal(topics["error_code"], 0))
    if errors.num_rows:
        which = f"such as {errors['topic'][0]}: {errors['error_code'][0]}"
        yield f"{counted(errors.num_rows, 'topic')} answered with an error, {which}"
    partitions = state.metadata.partitions
    if odd := int(
        np.any([are_odd(partitions[name].combine_chunks()) for name in LISTS], axis=0).sum()
    ):
        lists = "the replicas, the ISR or the offline replicas"
        yield (
            f"warning: {counted(odd, 'partition')}: a broker is listed twice, or has a negative "
            f"id, in {lists}"
        )
        yield "  history keeps null in place of such a list"
    worst = topics_in_trouble(troubles)
    if worst.num_rows:
        yield ""
        yield from text_table(
            ("topic in trouble", *(name.replace("_", " ") for name in TROUBLES)),
            (tuple(row.values()) for row in worst.slice(0, _LISTED).to_pylist()),
        )
        if worst.num_rows > _LISTED:
            yield f"... and {worst.num_rows - _LISTED} more"


def _remark(state: ClusterState, name: str, troubles: pa.Table) -> str:
    if name == UNDER_REPLICATED in KINDS[state.kind].not_meaningful:
        return "observers, if there are any, make some of them"
    if unknown := troubles[name].null_count:
        answered = state.answered
        if answered.denied:
            why = "needs DESCRIBE_CONFIGS on their topics"
        elif answered.unknown:
            why = "the answer of min ISR says why"
        elif state.min_isr.null_count:
            why = "their topics are gone"
        else:
            why = "set above their replicas, and no broker tells its highest metadata.version"
        return f"unknown for {counted(unknown, 'partition')}: {why}"
    whole = (
        pc.sum(pc.and_not(troubles[name], troubles[UNDER_REPLICATED])).as_py()
        if name in _NORMAL
        else 0
    )
    return (
        f"{whole} of them with all replicas in sync: they have no more than they need"
        if whole
        else ""
    )


def _describe(metadata: ClusterMetadata) -> Permission:
    denied = (
        pc.sum(pc.equal(metadata.topics["error_code"], TOPIC_AUTHORIZATION_FAILED)).as_py() or 0
    )
    seen = metadata.topics.num_rows - denied
    answer = f"allowed: {counted(seen, 'topic')} seen (brokers do not name the others)"
    if denied:
        answer = f"missing for {denied} of the topics asked for"
    elif not seen:
        answer = "not known: no topic was shown"
    return Permission(TOPICS, "DESCRIBE on the topics", answer, "--operation Describe --topic '*'")


def _describe_configs(state: ClusterState) -> Permission:
    answered, topics = state.answered, len(state.min_isr)
    if not topics:
        answer = "not known: no topic to ask about"
    elif answered.denied:
        answer = f"missing: DESCRIBE_CONFIGS on {answered.denied} of {topics} topics"
    else:
        answer = ALLOWED_ANSWER if answered.unknown is None else f"not known: {answered.unknown}"
    return Permission(
        "min ISR",
        "DESCRIBE_CONFIGS on the topics",
        answer,
        "--operation DescribeConfigs --topic '*'",
    )
