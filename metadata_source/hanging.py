"""Transactions that hang (KIP-664): open on a partition, with no transaction of the same producer
id and epoch at any coordinator. Nothing ends them but an administrator.

Asked about are partitions whose last stable offset stands still below the end of the log
(`stable_offsets`): at most 1,000 in one answer, those first on which one hung before, all others by
turns. `offsets` tells these offsets where a group is behind. Of all other partitions 5,000 are
asked in each answer, and those again that nobody answered for: a transaction that hangs holds up
compaction and retries of its producer whether a group waits for it or not.

1. DescribeProducers of their leaders: which producers have a transaction there that begins at the
   last stable offset or before.
2. ListTransactions of every broker by these producer ids, and DescribeTransactions of those that
   are open: a transaction of the same epoch explains it. So does one that is prepared under a later
   epoch: whoever ends a transaction may raise the epoch before markers are written.
3. DescribeProducers again, of the others: a coordinator forgets a transaction once all markers are
   written. So one that is there still was unknown to all coordinators.

A coordinator lists only what the user may describe. So unless the user may describe every
transactional id nobody knows whether one hangs.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source import questions
from metadata_source.ends import stable_offsets
from metadata_source.errors import PollError
from metadata_source.kafka_constants import UNKNOWN_TOPIC_OR_PARTITION
from metadata_source.many_brokers import Time, at_addresses, undone
from metadata_source.outcomes import failed, outcome_of
from metadata_source.questions import check
from metadata_source.threads import side_by_side
from metadata_source.transactions import (
    ONGOING,
    OPEN,
    Described,
    Transaction,
    described_at,
    listed_by_all,
    may_describe_all,
    open_epochs,
    time_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from metadata_source.many_brokers import Broker, Visits
    from metadata_source.stable_offsets import Partition, StableOffsets

MOST: Final = 1_000
"""Partitions of which leaders describe the producers in one answer, at most."""
NEXT: Final = 5_000
"""Partitions of which leaders tell the last stable offset in one answer, at most."""
_UNANSWERED_MOST: Final = 100
"""Partitions that are named, at most, if nobody told their last stable offset."""
_PARTITIONS_A_REQUEST: Final = 20
"""A broker keeps thousands of producers of a partition."""
_NOT_TWICE: Final = "not all partitions were asked twice yet for their last stable offset"
_NOT_ALLOWED: Final = "the user may not describe every transactional id"


class _Open(NamedTuple):
    """A transaction that is open on a partition, by the leader's word."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    start_offset: int


class _Said(NamedTuple):
    """Beside what makes it the same: what else the leader says."""

    coordinator_epoch: int
    last_written_at: datetime | None


class _Producers(NamedTuple):
    """What leaders say."""

    open: dict[_Open, _Said]
    errors: dict[Partition, str]


def hanging(
    visits: Visits, brokers: Sequence[Broker], stable: StableOffsets, leaders: pa.Table
) -> Described:
    """Return the transactions that hang, by partition and producer id; never raises PollError. It
    takes the time that is left.

    `leaders`: topic, partition and leader of each partition of the poll's answer. If nothing was
    told of a partition, an entry without a producer says why. If nothing was told of any, or one
    that was left out may have been told before, so does an entry without a partition.
    """
    _ask_next(visits, brokers, stable, leaders)
    unknown = _unknown(stable)
    try:
        found = _found(visits, brokers, stable, leaders)
    except PollError as error:
        reason = outcome_of(error)
        return Described([_unanswered(reason)], f"no hanging transaction could be told: {reason}")
    missing = [
        found.missing,
        undone(
            stable.unanswered.values(),
            len(leaders),
            "partitions could not be asked for their last stable offset",
        ),
    ]
    return Described([*found.transactions, *unknown], "; ".join(filter(None, missing)) or None)


def _ask_next(
    visits: Visits, brokers: Sequence[Broker], stable: StableOffsets, leaders: pa.Table
) -> None:
    part = stable.next_of(leaders, NEXT)
    found = stable_offsets(visits, brokers, part.partitions, Time.share(visits, 2))
    stable.add_next(part, *found)
    if known := stable.partitions:
        stable.forget(known - _leaders(leaders, known).keys())


def _unknown(stable: StableOffsets) -> list[Transaction]:
    """Return entries of what is not known of last stable offsets."""
    if not stable.is_known:
        return [_unanswered(failed(_NOT_TWICE))]
    unanswered = sorted(stable.unanswered.keys() - stable.standing.keys())
    if len(unanswered) > _UNANSWERED_MOST:
        return [_unanswered(failed(f"{len(unanswered)} partitions told no last stable offset"))]
    return [_unanswered(stable.unanswered[each], each) for each in unanswered]


def _unanswered(reason: str, partition: Partition | None = None) -> Transaction:
    entry: Transaction = {"is_hanging": True, "error": reason}
    return entry if partition is None else {**entry, **_partition(partition)}


def _partition(partition: Partition) -> Transaction:
    topic, number = partition
    return {"partition_count": 1, "partitions": [{"topic": topic, "partition": number}]}


def _found(
    visits: Visits, brokers: Sequence[Broker], stable: StableOffsets, leaders: pa.Table
) -> Described:
    before = stable.hanging
    unknown = frozenset(stable.unanswered)
    if not stable.standing:
        before.add(before.open & unknown, unknown, is_whole=stable.is_known)
        return Described([], None)
    partitions = before.in_order(stable.standing, lambda each: each)
    standing = {each: stable.standing[each] for each in partitions[:MOST]}
    left_out = frozenset(partitions[MOST:])
    before.leave_out(partitions[MOST:])
    by_leader = _leaders(leaders, standing)
    # Steps have a time of their own: one broker that hangs is not in the way of those after it.
    first = _producers(visits, brokers, by_leader, Time.share(visits, 4))
    candidates = {
        each: said
        for each, said in first.open.items()
        if each.start_offset <= standing[each.partition]
    }
    waiting = {each.partition for each in candidates} | first.errors.keys()
    stable.forget(standing.keys() - waiting)
    errors = dict(first.errors)
    suspected: list[_Open] = []
    if candidates:
        epochs, untold = _at_coordinators(visits, brokers, candidates)
        for each in candidates:
            if _is_explained(each, epochs):
                continue
            if each.producer_id in untold:
                errors[each.partition] = untold[each.producer_id]
            else:
                suspected.append(each)
    again = _Producers({}, {})
    if suspected:
        places = {each.partition: by_leader[each.partition] for each in suspected}
        again = _producers(visits, brokers, places, Time.share(visits, 1))
        errors |= again.errors
    found = [
        _entry(each, again.open[each])
        for each in sorted(suspected)
        if each in again.open and each.partition not in errors
    ]
    missing = [
        undone(
            errors.values(),
            len(standing),
            "partitions whose last stable offset does not move were not told",
        )
    ]
    found += [_unanswered(reason, partition) for partition, reason in sorted(errors.items())]
    if left_out:
        missing.append(
            f"{len(left_out)} more partitions whose last stable offset does not move were left out"
        )
    if before.may_be_known(left_out):
        found.append(_unanswered(failed(f"{len(left_out)} more partitions were left out")))
    hung = {each.partition for each in suspected if each.partition not in errors}
    before.add(
        frozenset(hung | (before.open & (errors.keys() | unknown))),
        left_out.union(errors, unknown),
        is_whole=stable.is_known,
    )
    return Described(found, "; ".join(filter(None, missing)) or None)


def _entry(hangs: _Open, said: _Said) -> Transaction:
    return {
        "is_hanging": True,
        "state": ONGOING,
        "producer_id": hangs.producer_id,
        "producer_epoch": hangs.producer_epoch,
        **_partition(hangs.partition),
        "start_offset": hangs.start_offset,
        "coordinator_epoch": said.coordinator_epoch,
        "last_written_at": said.last_written_at,
    }


def _leaders(leaders: pa.Table, wanted: Iterable[Partition]) -> dict[Partition, int | None]:
    """Return the leader of each wanted partition that is there, None for none."""
    wanted = set(wanted)
    found: dict[Partition, int | None] = {}
    topics = pa.array(sorted({topic for topic, _ in wanted}), pa.string())
    rows = leaders.filter(pc.is_in(leaders["topic"].cast(pa.string()), topics))
    columns = (rows[name].to_pylist() for name in ("topic", "partition", "leader"))
    for topic, partition, leader in zip(*columns, strict=True):
        if (topic, partition) in wanted:
            found[topic, partition] = leader
    return found


def _producers(
    visits: Visits,
    brokers: Sequence[Broker],
    by_leader: Mapping[Partition, int | None],
    given: Time,
) -> _Producers:
    """Ask leaders for the open transactions of these partitions, brokers side by side."""
    at_broker = {broker.broker_id: broker for broker in brokers}
    of_broker: dict[Broker, list[Partition]] = {}
    found = _Producers({}, {})
    for partition, leader in by_leader.items():
        if leader is not None and leader in at_broker:
            of_broker.setdefault(at_broker[leader], []).append(partition)
        else:
            found.errors[partition] = failed("it has no leader that answers")

    def ask(those: Iterable[tuple[Broker, list[Partition]]]) -> list[_Producers]:
        return [
            _asked(visits, broker, partitions[begin : begin + _PARTITIONS_A_REQUEST], given)
            for broker, partitions in those
            for begin in range(0, len(partitions), _PARTITIONS_A_REQUEST)
        ]

    at = at_addresses(of_broker.items(), lambda item: item[0].address)
    for each in chain.from_iterable(side_by_side(at, ask, "producers")):
        found.open.update(each.open)
        found.errors.update(each.errors)
    return found


def _asked(
    visits: Visits, broker: Broker, partitions: Sequence[Partition], given: Time
) -> _Producers:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    try:
        given.check()
        answer = visits.ask(broker.address, questions.producers(topics), given.until)
    except PollError as error:
        if error.kind == "too_large" and len(partitions) > 1:
            middle = len(partitions) // 2
            one = _asked(visits, broker, partitions[:middle], given)
            other = _asked(visits, broker, partitions[middle:], given)
            return _Producers(one.open | other.open, one.errors | other.errors)
        problem = PollError(error.kind, f"broker {broker}: {given.problem(broker, error)}")
        return _Producers({}, dict.fromkeys(partitions, outcome_of(problem)))
    return _read(answer, partitions)


def _read(answer: Any, partitions: Sequence[Partition]) -> _Producers:
    """Return what a leader says of the partitions that it was asked about."""
    errors = dict.fromkeys(partitions, failed("the leader left it out of its answer"))
    found = _Producers({}, errors)
    for topic in answer.topics:
        for told in topic.partitions:
            partition = topic.name, told.partition_index
            if found.errors.pop(partition, None) is None:
                continue
            if told.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                continue
            try:
                check(told.error_code)
            except PollError as error:
                found.errors[partition] = outcome_of(error)
                continue
            for each in told.active_producers:
                if each.current_txn_start_offset >= 0:
                    is_open = _Open(
                        partition,
                        each.producer_id,
                        each.producer_epoch,
                        each.current_txn_start_offset,
                    )
                    found.open[is_open] = _Said(
                        each.coordinator_epoch, time_of(each.last_timestamp)
                    )
    return found


def _at_coordinators(
    visits: Visits, brokers: Sequence[Broker], candidates: Iterable[_Open]
) -> tuple[Mapping[int, list[tuple[int, str]]], dict[int, str]]:
    """Return producer id -> epoch and state of its open transactions at coordinators, and the
    producer ids of which that could not be told, with the reason. Raises PollError.
    """
    producer_ids = sorted({each.producer_id for each in candidates})
    accounts = listed_by_all(visits, brokers, Time.share(visits, 3), producer_ids)
    given = Time.share(visits, 2)
    if not may_describe_all(visits, [account.broker for account in accounts], given):
        raise PollError("authorization", _NOT_ALLOWED)
    told: list[Transaction] = []
    for account in accounts:
        still_open = [each for each in account.answer.listings if each.state in OPEN]
        told += described_at(visits, account.broker, still_open, given)
    untold = {each["producer_id"]: each["error"] for each in told if "error" in each}
    return open_epochs(each for each in told if "error" not in each), untold


def _is_explained(candidate: _Open, epochs: Mapping[int, Sequence[tuple[int, str]]]) -> bool:
    return any(
        epoch == candidate.producer_epoch or (state != ONGOING and epoch > candidate.producer_epoch)
        for epoch, state in epochs.get(candidate.producer_id, ())
    )
