"""Facts about a cluster that Metadata does not tell, asked less often, after a good poll and over
its connection.

| enrichment | request | permission |
|---|---|---|
| `configs` | DescribeConfigs | DESCRIBE_CONFIGS on the topics |
| `reassignments` | ListPartitionReassignments | DESCRIBE on the cluster |
| `quorum` | DescribeQuorum | DESCRIBE on the cluster |
| `elr` | DescribeTopicPartitions | DESCRIBE on the topics |
| `fenced` | DescribeCluster v2 | none |
| `groups` | see `groups` | DESCRIBE on the groups |
| `offsets` | see `offsets` | DESCRIBE on groups and topics |
| `transactions` | see `transactions`, `hanging` | DESCRIBE on transactional ids; READ on topics |
| `log_dirs` | DescribeLogDirs | DESCRIBE on the cluster |

- `configs`: min.insync.replicas, unclean.leader.election.enable
- `reassignments`: replicas being added and removed
- `quorum`: active controller, voters, observers, how far each has the controllers' log
- `elr`: eligible leader replicas, last known ones (KIP-966)
- `fenced`: brokers that are registered and fenced
- `groups`: groups of every type, their members and what each has
- `offsets`: what groups have committed, and the ends of these logs
- `transactions`: those that are open for long, and those that hang
- `log_dirs`: log directories of brokers, and the sizes of what is in them

Nothing here raises: what goes wrong is the outcome of one enrichment, and so is an answer that
lists something twice or without a name. What is kept is in an order of its own, since brokers
answer in any: equal answers are equal rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source import groups, hanging, log_dirs, offsets, questions, transactions
from metadata_source.columns.polls import OFFSETS
from metadata_source.errors import PollError, stumbled
from metadata_source.kafka_constants import CONFIG_SOURCES, UNKNOWN_TOPIC_OR_PARTITION
from metadata_source.many_brokers import Broker
from metadata_source.members import lack_replica
from metadata_source.offsets import Wanted
from metadata_source.options import TopicFilter
from metadata_source.outcomes import answered, failed, outcome_of
from metadata_source.questions import (
    DENIED,
    MIN_ISR,
    NOT_CONTROLLER,
    PAGE_PARTITIONS,
    UNCLEAN,
    Question,
)
from metadata_source.quorum import described_quorum, quorum_replicas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from metadata_source.groups import Coordinated
    from metadata_source.log_dirs import KeptSizes
    from metadata_source.many_brokers import Visits
    from metadata_source.open_before import OpenBefore
    from metadata_source.protocol.metadata import ClusterMetadata
    from metadata_source.stable_offsets import StableOffsets

_GROUPS_A_ROW: Final = 100
_OFFSETS_A_ROW: Final = 1_000
_TRANSACTIONS_A_ROW: Final = 100

_EVERY_TOPIC: Final = TopicFilter()

_Key = TypeVar("_Key", int, str)


class Asker(Protocol):
    """Whom to ask. `require` and `ask` raise PollError."""

    coordinated: list[Coordinated] | PollError | None
    """What listing the groups came to, if `groups` was asked before with the same poll."""

    @property
    def stable(self) -> StableOffsets:
        """What answers to `offsets` told, from poll to poll."""

    @property
    def open_before(self) -> OpenBefore[int]:
        """What answers to `transactions` told, from poll to poll."""

    def require(self, question: Question) -> None:
        """Raise unless the broker has such a request."""

    def ask(self, question: Question) -> Any:
        """Return the response."""

    def visits(self) -> Visits:
        """Return what asks other brokers."""

    @property
    def kept_sizes(self) -> KeptSizes:
        """What `log_dirs` compares sizes with."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The answer to one enrichment: values for the bronze column of its name, one for each topic,
    or one alone where there are none. An array where they are many; it has the column's type.
    """

    values: list[Any] | pa.Array
    topics: list[str] | None = None
    missing: str | None = None
    """The part that could not be told, in one line."""
    beside: Mapping[str, list[Any] | pa.Array] = field(default_factory=dict)
    """Values for other columns of bronze, by name. They may differ with each answer: no digest is
    over them."""
    stands_out: tuple[Any, ...] = ()
    """What is news of `beside`: the digest is over it too. Nothing while all is well."""
    lasting: list[Any] | None = None
    """The values that the digest is over, if not `values`: each broker's last answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of one enrichment, as in `outcomes`; of a good one its rows. It tells of a time
    between `asked_at`, when the first request went out (None: none did), and `answered_at`, when
    the last answer was complete (None: none was), by this machine's clock.
    """

    enrichment: str
    outcome: str
    asked_at: datetime | None = None
    answered_at: datetime | None = None
    rows: Rows | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of the questions: names, and leaders where they are asked, so that nobody holds a
    decoded answer while waiting for another.
    """

    enrichments: tuple[str, ...]
    topics: list[str]
    """Those of the answer that exist."""
    reduced: list[tuple[str, int]]
    """Those with a partition whose ISR lacks a replica, and how many partitions each has."""
    brokers: tuple[Broker, ...] = ()
    controller_id: int | None = None
    """With ZooKeeper the active controller, under KRaft any live broker. None or -1: not named."""
    offsets: Wanted | None = None
    """None where the enrichments have neither `offsets` nor `transactions`."""
    topic_filter: TopicFilter = _EVERY_TOPIC


def subject(
    enrichments: Iterable[str],
    metadata: ClusterMetadata,
    topic_filter: TopicFilter = _EVERY_TOPIC,
    groups_pattern: str | None = None,
) -> Subject:
    """Return what these enrichments are asked about. `metadata`: of a good poll, covered topics
    alone.
    """
    # The broker answers some questions itself. These come first: if the quorum is lost, a question
    # that the broker forwards gets no answer.
    ordered = tuple(enrichment for enrichment in _ENRICHMENTS if enrichment in enrichments)
    names = metadata.topics["topic"]
    exists = pc.and_(pc.equal(metadata.topics["error_code"], 0), pc.is_valid(names))
    topics = names.filter(exists).to_pylist()
    brokers = tuple(
        Broker(row["broker_id"], (row["host"], row["port"])) for row in metadata.brokers.to_pylist()
    )
    wanted = None
    if not {"offsets", "transactions"}.isdisjoint(ordered):
        leaders = metadata.partitions.select(["topic", "partition", "leader"])
        wanted = Wanted(leaders, topic_filter, groups_pattern)
    about = Subject(ordered, topics, [], brokers, metadata.controller_id, wanted, topic_filter)
    if "elr" not in ordered:
        return about
    counts = metadata.topics["partition_count"].to_numpy()
    topic_of_partition = np.repeat(np.arange(len(counts)), counts)
    hit = pa.array(
        np.isin(np.arange(len(counts)), topic_of_partition[lack_replica(metadata.partitions)])
    )
    table = metadata.topics.filter(pc.and_(hit, exists.combine_chunks()))
    reduced = zip(table["topic"].to_pylist(), table["partition_count"].to_pylist(), strict=True)
    return replace(about, reduced=list(reduced))


def answer(enrichment: str, about: Subject, asker: Asker) -> Answer:
    """Ask one enrichment, now. If it is answered, what has no row is not there."""
    asked_at = datetime.now(UTC)
    try:
        rows = _ENRICHMENTS[enrichment](asker, about)
    except PollError as error:
        return Answer(enrichment, outcome_of(error), asked_at)
    except Exception as error:  # noqa: BLE001 - raised, it would be the reason that a poll fails
        return Answer(enrichment, failed(stumbled(error)), asked_at)
    # A clock that was set back meanwhile must not date an answer before its question.
    return Answer(
        enrichment, answered(rows.missing), asked_at, max(asked_at, datetime.now(UTC)), rows
    )


def _configs(asker: Asker, about: Subject) -> Rows:
    """One row a topic: name -> effective value, and where it is set; null for a topic whose
    configuration may not be read.
    """
    configs: list[tuple[str, Any]] = []
    denied = 0
    for question in questions.topic_configs(about.topics, (MIN_ISR, UNCLEAN)):
        for result in asker.ask(question).results:
            if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                continue  # gone since the poll
            if result.error_code in DENIED:
                denied += 1
                configs.append((result.resource_name, None))
                continue
            questions.check(result.error_code)
            values = {
                config.name: {
                    "value": config.value,
                    "source": CONFIG_SOURCES.get(config.config_source),
                }
                for config in result.configs
            }
            names = _ordered(
                (config.name for config in result.configs),
                f"topic {result.resource_name}: configuration",
            )
            configs.append((result.resource_name, [(name, values[name]) for name in names]))
    if denied and denied == len(configs):
        raise PollError("authorization", "every topic was refused")
    return _of_topics(configs)


def _reassignments(asker: Asker, about: Subject) -> Rows:
    """One row a topic: its partitions with a reassignment that runs.

    With ZooKeeper the controller alone knows, and other brokers forward nothing (KafkaApis.scala up
    to 3.9).
    """
    question = questions.reassignments()
    response = asker.ask(question)
    controller = next(
        (broker for broker in about.brokers if broker.broker_id == about.controller_id), None
    )
    if response.error_code == NOT_CONTROLLER and controller is not None:
        visits = asker.visits()
        response = visits.ask(controller.address, question, visits.deadline)
    questions.check(response.error_code)
    covered = set(about.topics)
    return _of_topics(
        (
            topic.name,
            _of_partitions(
                topic.name,
                (
                    (
                        each.partition_index,
                        {"adding": each.adding_replicas, "removing": each.removing_replicas},
                    )
                    for each in topic.partitions
                ),
            ),
        )
        for topic in response.topics
        if topic.name in covered and topic.partitions
    )


def _quorum(asker: Asker, _: Subject) -> Rows:
    partition = described_quorum(asker.ask(questions.quorum()))
    told = {
        "leader_id": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "voters": _ordered((replica.replica_id for replica in partition.current_voters), "voter"),
        # One that came back with another directory is there twice for a while
        # (LeaderState.observerStates).
        "observers": sorted({replica.replica_id for replica in partition.observers}),
    }
    replicas = quorum_replicas(partition)
    behind = [[each["replica_id"], each["is_voter"]] for each in replicas if each["is_behind"]]
    return Rows([told], beside={"quorum_replicas": [replicas]}, stands_out=tuple(behind))


def _elr(asker: Asker, about: Subject) -> Rows:
    """One row a topic: its partitions that have eligible or last known leaders, where the ISR lacks
    a replica.

    A controller empties both lists once the ISR has min.insync.replicas members, or as many as
    partition 0 has replicas (PartitionChangeBuilder.java, ReplicationControlManager.java). So
    beside a whole ISR there is something only where a partition has fewer replicas than that, and
    then it is of no use: it is left out, and other topics are not asked about.
    """
    asker.require(questions.topic_partitions([], None))
    found: dict[str, list[tuple[int, dict[str, list[int]]]]] = {}
    for topics in _pages(about.reduced):
        cursor: tuple[str, int] | None = None
        while True:
            response = asker.ask(questions.topic_partitions(topics, cursor))
            for topic in response.topics:
                if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    continue  # gone since the poll
                questions.check(topic.error_code)
                for partition in topic.partitions:
                    eligible = list(partition.eligible_leader_replicas or ())
                    last_known = list(partition.last_known_elr or ())
                    reduced = not set(partition.replica_nodes) <= set(partition.isr_nodes)
                    if reduced and (eligible or last_known):
                        lists = {"elr": eligible, "last_known_elr": last_known}
                        found.setdefault(topic.name, []).append((partition.partition_index, lists))
            if response.next_cursor is None:
                break
            cursor = response.next_cursor.topic_name, response.next_cursor.partition_index
    return _of_topics(
        (topic, _of_partitions(topic, partitions)) for topic, partitions in found.items()
    )


def _pages(topics: list[tuple[str, int]]) -> Iterator[list[str]]:
    """Cut topics so that each piece fits a page, but for a topic that fits none."""
    page: list[str] = []
    size = 0
    for name, partitions in topics:
        if page and size + partitions > PAGE_PARTITIONS:
            yield page
            page, size = [], 0
        page.append(name)
        size += partitions
    if page:
        yield page


def _fenced(asker: Asker, _: Subject) -> Rows:
    response = asker.ask(questions.brokers_with_fenced())
    questions.check(response.error_code)
    brokers = {broker.broker_id: broker for broker in response.brokers}
    listed = [
        brokers[id_]
        for id_ in _ordered((broker.broker_id for broker in response.brokers), "broker")
    ]
    fenced = [
        {
            "broker_id": broker.broker_id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
        }
        for broker in listed
        if broker.is_fenced
    ]
    if nameless := [broker["broker_id"] for broker in fenced if broker["host"] is None]:
        raise _odd(f"broker {nameless[0]} has no host")
    return Rows([fenced])


def _groups(asker: Asker, about: Subject) -> Rows:
    """At most 100 groups a row."""
    try:
        described, missing, asker.coordinated = groups.described(asker.visits(), about.brokers)
    except PollError as error:
        asker.coordinated = error
        raise
    rows = [
        described[begin : begin + _GROUPS_A_ROW]
        for begin in range(0, len(described), _GROUPS_A_ROW)
    ]
    return Rows(rows, missing=missing)


def _offsets(asker: Asker, about: Subject) -> Rows:
    """At most 1,000 partitions a row."""
    visits, coordinated = asker.visits(), asker.coordinated
    if isinstance(coordinated, PollError):
        raise coordinated
    if coordinated is None:
        coordinated = groups.coordinated(visits, about.brokers)
    if about.offsets is None:
        raise TypeError("nothing is known of leaders")
    structs, missing, stable = offsets.group_offsets(
        visits, coordinated, about.brokers, about.offsets
    )
    asker.stable.add(stable)
    begins = pa.array([*range(0, len(structs), _OFFSETS_A_ROW), len(structs)], pa.int32())
    return Rows(pa.ListArray.from_arrays(begins, structs, type=OFFSETS), missing=missing)


def _transactions(asker: Asker, about: Subject) -> Rows:
    """At most 100 transactions a row."""
    asker.require(questions.transactions())
    if about.offsets is None:
        raise TypeError("nothing is known of leaders")
    visits = asker.visits()
    told, missing = transactions.described(visits, about.brokers, asker.open_before)
    hang, unknown = hanging.hanging(visits, about.brokers, asker.stable, about.offsets.leaders)
    told = [*told, *hang]
    rows = [
        told[begin : begin + _TRANSACTIONS_A_ROW]
        for begin in range(0, len(told), _TRANSACTIONS_A_ROW)
    ]
    return Rows(rows, missing="; ".join(filter(None, (missing, unknown))) or None)


def _log_dirs(asker: Asker, about: Subject) -> Rows:
    """One row a broker, null for one that did not answer."""
    found = log_dirs.described(asker.visits(), about.brokers, about.topic_filter, asker.kept_sizes)
    beside = {"broker_id": found.brokers, "log_dir_sizes": found.sizes}
    return Rows(
        found.dirs,
        missing=found.missing,
        beside=beside,
        stands_out=tuple(found.brokers),
        lasting=found.lasting,
    )


_ENRICHMENTS: Final[dict[str, Callable[[Asker, Subject], Rows]]] = {
    "fenced": _fenced,
    "elr": _elr,
    "configs": _configs,
    "groups": _groups,
    "offsets": _offsets,
    "transactions": _transactions,
    "log_dirs": _log_dirs,
    "reassignments": _reassignments,
    "quorum": _quorum,
}


def _of_topics(answered: Iterable[tuple[str, Any]]) -> Rows:
    """Return what is told of each topic, by name."""
    answered = list(answered)
    values = dict(answered)
    topics = _ordered((topic for topic, _ in answered), "topic")
    return Rows([values[topic] for topic in topics], topics)


def _of_partitions(
    topic: str, answered: Iterable[tuple[int, Mapping[str, Iterable[int]]]]
) -> list[dict[str, Any]]:
    """Return the lists of brokers that are told of each partition, by number."""
    answered = list(answered)
    lists = dict(answered)
    return [
        {"partition": number}
        | {
            name: _ordered(brokers, f"topic {topic}, partition {number}, {name}: broker")
            for name, brokers in lists[number].items()
        }
        for number in _ordered((number for number, _ in answered), f"topic {topic}, partition")
    ]


def _ordered(keys: Iterable[_Key], what: str) -> list[_Key]:
    """Return names or numbers, ascending. Raises PollError for none, negative or repeated ones."""
    found = list(keys)
    for key in found:
        if key is None:
            raise _odd(f"{what} without a name")
        if isinstance(key, int) and key < 0:
            raise _odd(f"{what} {key} is negative")
    ordered = sorted(found)
    for one, other in pairwise(ordered):
        if one == other:
            raise _odd(f"{what} {one} is listed twice")
    return ordered


def _odd(problem: str) -> PollError:
    return PollError("odd_answer", problem)
