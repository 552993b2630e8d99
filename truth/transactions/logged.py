"""The coordinators' log, as Kafka's own DumpLogSegments prints it, and its transactions."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from truth.dump import TruthError
from truth.model.states import EPOCH
from truth.transactions.written import Place

DECODER: Final = "--transaction-log-decoder"
ONGOING: Final = "Ongoing"
EMPTY: Final = "Empty"
NO_TIMEOUT: Final = 2**31 - 1

_BATCH: Final = re.compile(r"^baseOffset: \d+ .*?\bpartitionLeaderEpoch: (\d+) ")
_RECORD: Final = re.compile(
    r"^\| offset: (?P<offset>\d+) CreateTime: (?P<at>\d+) .*? headerKeys: \[\] "
    r"key: (?P<key>\{.*?\}) payload: (?P<value>\{.*\})$"
)


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `started_at`: None without a transaction."""

    log_partition: int
    offset: int
    leader_epoch: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    client_version: int
    state: str
    timeout_ms: int
    started_at: datetime | None
    updated_at: datetime
    written_at: datetime
    """By the record's own timestamp. A last record is made when the end is decided, and written
    once all markers are.
    """
    places: frozenset[Place]


@dataclass(frozen=True)
class Transaction:
    """The records of one transaction, in order, and when its id's producer began next, if no
    transaction of the id did before.
    """

    records: tuple[Record, ...]
    initialized_at: datetime | None = None

    @property
    def transactional_id(self) -> str:
        """Its id."""
        return self.records[0].transactional_id

    @property
    def started_at(self) -> datetime:
        """When its first partition was added."""
        started_at = self.records[0].started_at
        assert started_at is not None  # noqa: S101 - as transactions() makes them
        return started_at

    @property
    def last(self) -> Record:
        """Its last record."""
        return self.records[-1]

    @property
    def prepared_at(self) -> datetime | None:
        """When commit or abort was decided."""
        return next((e.updated_at for e in self.records if e.state.startswith("Prepare")), None)

    @property
    def completed_at(self) -> datetime | None:
        """When its markers were written."""
        return next((e.written_at for e in self.records if e.state.startswith("Complete")), None)

    @property
    def outcome(self) -> str | None:
        """committed | aborted; None before that is decided."""
        if self.prepared_at is None:
            return None
        return "committed" if self.last.state.endswith("Commit") else "aborted"

    @property
    def timeout(self) -> timedelta:
        """Its time-out."""
        return timedelta(milliseconds=self.last.timeout_ms)

    @property
    def is_late(self) -> bool:
        """It was decided on after its time-out."""
        return self.prepared_at is not None and self.prepared_at - self.started_at > self.timeout

    @property
    def places(self) -> frozenset[Place]:
        """Its partitions: complete ones have none any more."""
        return frozenset().union(*(record.places for record in self.records))

    def state_at(self, at: datetime) -> str | None:
        """The state in which its coordinator has it; None before it began."""
        before = [record.state for record in self.records if record.written_at <= at]
        return before[-1] if before else None

    def __str__(self) -> str:
        return f"{self.transactional_id} from {self.started_at:%H:%M:%S.%f}"


@dataclass(frozen=True)
class Logged:
    """The whole log: its records, by partition and offset, and its transactions."""

    records: Sequence[Record]
    transactions: Sequence[Transaction]


def records(log_partition: int, lines: Iterable[str]) -> Iterator[Record]:
    """The records of a dump of one partition. Raises TruthError for what is not decoded."""
    epoch = None
    for line in lines:
        if batch := _BATCH.match(line):
            epoch = int(batch[1])
        elif line.startswith("|"):
            match = _RECORD.match(line)
            if match is None or epoch is None:
                raise TruthError(f"not decoded: {line[:300]}")
            key, value = (json.loads(match[name])["data"] for name in ("key", "value"))
            at = EPOCH + timedelta(milliseconds=int(match["at"]))
            yield _record(log_partition, int(match["offset"]), epoch, at, {**key, **value})


def _record(
    log_partition: int, offset: int, epoch: int, written_at: datetime, data: dict[str, Any]
) -> Record:
    started = data["transactionStartTimestampMs"]
    return Record(
        log_partition=log_partition,
        offset=offset,
        leader_epoch=epoch,
        transactional_id=data["transactionalId"],
        producer_id=data["producerId"],
        producer_epoch=data["producerEpoch"],
        client_version=data.get("clientTransactionVersion", 0),
        state=data["transactionStatus"],
        timeout_ms=data["transactionTimeoutMs"],
        started_at=None if started < 0 else EPOCH + timedelta(milliseconds=started),
        updated_at=EPOCH + timedelta(milliseconds=data["transactionLastUpdateTimestampMs"]),
        written_at=written_at,
        places=frozenset(
            (each["topic"], number)
            for each in data["transactionPartitions"] or ()
            for number in each["partitionIds"]
        ),
    )


def logged(log: Iterable[Record]) -> Logged:
    """The log of all partitions, with its transactions by their first records."""
    every = sorted(log, key=lambda each: (each.log_partition, each.offset))
    of_ids: defaultdict[str, list[Record]] = defaultdict(list)
    for each in every:
        of_ids[each.transactional_id].append(each)
    found = [each for of_id in of_ids.values() for each in _transactions(of_id)]
    return Logged(every, sorted(found, key=lambda each: each.started_at))


def _transactions(of_id: Sequence[Record]) -> Iterator[Transaction]:
    current: list[Record] = []
    for record in of_id:
        if current and (record.state == EMPTY or _is_next(current[-1], record)):
            initialized = record.updated_at if record.state == EMPTY else None
            yield Transaction(tuple(current), initialized)
            current = []
        if record.state != EMPTY and record.started_at is not None:
            current.append(record)
    if current:
        yield Transaction(tuple(current))


def _is_next(last: Record, record: Record) -> bool:
    """Whether a record begins another transaction."""
    return last.state.startswith("Complete") or record.started_at != last.started_at
