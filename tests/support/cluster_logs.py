"""Logs of controllers for tests: random, but such as controllers may write, and rows of
bronze.cluster_log of them.
"""

import base64
import random
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pyarrow as pa

from jobs.rules.arrow import rows_of as rows_in
from jobs.rules.log.image import Image
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import CONTROL_TYPES, RECORD_TYPES
from tests.support.cluster_records import control_key, control_value, frame, log

Row = dict[str, Any]
Values = dict[str, Any]

START = datetime(2026, 11, 1, tzinfo=UTC)
CLUSTER = {"cluster_id": "id-prod", "cluster": "prod"}
BEGIN, END, ABORT = 23, 24, 25
LEADER_CHANGE, HEADER, FOOTER = 2, 3, 4

DIRECTORIES = [bytes([0] * 15 + [last]) for last in (0, 1, 2)] + [
    bytes([7] * 15 + [last]) for last in range(6)
]
"""MIGRATING, UNASSIGNED and LOST, then some of brokers."""
SETTINGS = (
    *(("min.insync.replicas", value) for value in ("1", "2", None)),
    *(("unclean.leader.election.enable", value) for value in ("true", "false", None)),
    *(("retention.ms", value) for value in ("1000", None)),
)


NOT_KEPT = "a value that is not kept"
LEADERS = (1, 2, 3)
"""The brokers that lead, which are never unregistered: controllers would find others first."""


@dataclass(frozen=True)
class Entry:
    """A record of a log. `values`: by Kafka's names in snake case."""

    offset: int
    leader_epoch: int
    at: datetime
    number: int
    version: int
    values: Values
    is_control: bool = False

    @property
    def transaction(self) -> int | None:
        return self.number if not self.is_control and self.number in (BEGIN, END, ABORT) else None


def record(number: int, version: int | None = None, **values: Any) -> tuple[int, int, Values]:
    """A record of the last version, or another; fields that are not given have their default."""
    message = RECORD_TYPES[number]
    version = message.last_version if version is None else version
    known = {each.name: each.default for each in message.body.tagged_in(version).values()}
    needed = {each.name for each in message.body.in_version(version)}
    told = {name: value for name, value in values.items() if name in needed | known.keys()}
    assert told.keys() >= needed, (message.name, needed - told.keys())
    return number, version, known | told


@dataclass
class World:
    """The knowledge of a controller that writes nothing which Kafka would refuse."""

    brokers: dict[int, int] = field(default_factory=dict)
    topics: dict[str, bytes] = field(default_factory=dict)
    partitions: dict[bytes, list[tuple[int, bool]]] = field(default_factory=dict)
    """By topic id, the number of replicas of each, and whether it has directories."""


class RandomLog:
    """A log that grows by random batches. `entries`: all of it."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._world = chance, World()
        self._at, self._epoch, self._offset, self._topics = START, 1, 0, 0
        self.entries: list[Entry] = []
        self._write([(LEADER_CHANGE, 0, {"leader_id": 1})], is_control=True)
        self._write([self._feature("metadata.version", 25)])
        for broker in LEADERS:
            self._write(self._register(broker))
        self._write(self._create_topic())

    def grow(self, batches: int) -> list[Entry]:
        for _ in range(batches):
            if self._chance.random() < 0.15:
                self._transaction()
            elif self._chance.random() < 0.06:
                self._epoch += 1
                self._write(
                    [(LEADER_CHANGE, 0, {"leader_id": self._chance.randint(1, 3)})], is_control=True
                )
            else:
                self._write(self._batch())
        return self.entries

    def _transaction(self) -> None:
        before, is_whole = deepcopy(self._world), self._chance.random() < 0.6
        self._write([record(BEGIN)])
        for _ in range(self._chance.randint(0, 3)):
            self._write(self._batch())
        self._write([record(END if is_whole else ABORT)])
        if not is_whole:
            self._world = before

    def _write(
        self, records: Iterable[tuple[int, int, Values]], *, is_control: bool = False
    ) -> None:
        """Append a batch, at one time. Clocks of controllers differ, and batches may be of one
        time.
        """
        self._at += timedelta(milliseconds=self._chance.choice((0, 1, 700, 5_000, -300)))
        if self._chance.random() < 0.3:
            self._offset += 1  # A NoOpRecord has no row.
        for number, version, values in records:
            entry = Entry(self._offset, self._epoch, self._at, number, version, values, is_control)
            self.entries.append(entry)
            self._offset += 1

    def _batch(self) -> list[tuple[int, int, Values]]:
        chance, world = self._chance, self._world
        some_broker = chance.choice(list(world.brokers)) if world.brokers else None
        what = chance.choice(
            ("fence", "change", "change", "change", "topic", "broker", "config", "other")
        )
        if what == "fence" and some_broker is not None:
            # The controller takes a broker out of ISRs before it fences it.
            return [*self._changes(), self._fencing(some_broker)]
        if what == "broker":
            if some_broker not in (None, *LEADERS) and chance.random() < 0.6:
                return [
                    *self._changes(),
                    record(1, broker_id=some_broker, broker_epoch=world.brokers.pop(some_broker)),
                ]
            return self._register(chance.randint(1, 5))
        if what == "topic":
            if world.topics and chance.random() < 0.4:
                topic = chance.choice(list(world.topics))
                topic_id = world.topics.pop(topic)
                del world.partitions[topic_id]
                return [record(9, topic_id=topic_id)]
            if world.topics and chance.random() < 0.4:
                topic_id = chance.choice(list(world.topics.values()))
                return [self._partition(topic_id) for _ in range(chance.randint(1, 3))]
            return self._create_topic()
        if what == "config":
            return [self._config() for _ in range(chance.randint(1, 2))]
        if what == "other":
            return [self._other()]
        return self._changes()

    def _other(self) -> tuple[int, int, Values]:
        if self._chance.random() < 0.5:
            return record(28, topic_name=self._chance.choice(["", *self._world.topics]))
        names = {
            "metadata.version": (7, 12, 25, 30),
            "eligible.leader.replicas.version": (0, 1),
            "group.version": (0, 1),
        }
        name = self._chance.choice(list(names))
        return self._feature(name, self._chance.choice(names[name]))

    def _feature(self, name: str, level: int) -> tuple[int, int, Values]:
        return record(12, name=name, feature_level=level)

    def _register(self, broker: int) -> list[tuple[int, int, Values]]:
        chance = self._chance
        self._world.brokers[broker] = self._offset + 100
        return [
            record(
                0,
                chance.randint(0, 4),
                broker_id=broker,
                is_migrating_zk_broker=False,
                incarnation_id=chance.randbytes(16),
                broker_epoch=self._world.brokers[broker],
                end_points=[
                    {"name": "PLAINTEXT", "host": "h", "port": 9092, "security_protocol": 0}
                ],
                features=[],
                rack=chance.choice((None, "a", "b")),
                fenced=chance.random() < 0.5,
                in_controlled_shutdown=chance.random() < 0.1,
                log_dirs=sorted(chance.sample(DIRECTORIES[3:], chance.randint(0, 5))),
            )
        ]

    def _fencing(self, broker: int) -> tuple[int, int, Values]:
        chance, epoch = self._chance, self._world.brokers[broker]
        number = chance.choice((7, 8, 17))
        if number != 17:
            return record(number, id=broker, epoch=epoch)
        return record(
            17,
            chance.randint(0, 3),
            broker_id=broker,
            broker_epoch=epoch,
            fenced=chance.choice((-1, 0, 0, 1)),
            in_controlled_shutdown=chance.randint(0, 1),
            log_dirs=sorted(chance.sample(DIRECTORIES[3:], chance.randint(0, 3))),
        )

    def _create_topic(self) -> list[tuple[int, int, Values]]:
        chance, world = self._chance, self._world
        free = [name for name in ("a", "b", "c", "__consumer_offsets") if name not in world.topics]
        if not free:
            return self._changes()
        self._topics += 1  # Ids are random, and yet no two are the same.
        topic, topic_id = chance.choice(free), chance.randbytes(16)[:12] + self._topics.to_bytes(4)
        world.topics[topic], world.partitions[topic_id] = topic_id, []
        configs = [self._config(topic) for _ in range(chance.randint(0, 2))]
        partitions = [self._partition(topic_id) for _ in range(chance.randint(1, 4))]
        return [record(2, name=topic, topic_id=topic_id), *configs, *partitions]

    def _config(self, topic: str | None = None) -> tuple[int, int, Values]:
        chance = self._chance
        names = [(2, each) for each in self._world.topics] + [(4, ""), (4, "1"), (4, "")]
        kind, resource = (2, topic) if topic else chance.choice(names)
        name, value = chance.choice(SETTINGS)
        return record(4, resource_type=kind, resource_name=resource, name=name, value=value)

    def _brokers(self, most: int, least: int = 0) -> list[int]:
        return self._chance.sample(range(1, 6), self._chance.randint(least, most))

    def _partition(self, topic_id: bytes) -> tuple[int, int, Values]:
        chance, replicas = self._chance, self._brokers(3, 1)
        version = chance.randint(0, 2)
        directories = self._directories(len(replicas))
        self._world.partitions[topic_id].append(
            (len(replicas), version > 0 and any(map(any, directories)))
        )
        return record(
            3,
            version,
            partition_id=len(self._world.partitions[topic_id]) - 1,
            topic_id=topic_id,
            replicas=replicas,
            isr=chance.sample(replicas, chance.randint(1, len(replicas))),
            removing_replicas=[],
            adding_replicas=chance.choice(([], [replicas[-1]])),
            leader=chance.choice(LEADERS),
            leader_epoch=chance.choice((0, 0, 9)),
            partition_epoch=chance.choice((0, 0, 12)),
            directories=directories,
            leader_recovery_state=chance.choice((0, 0, 1)),
            eligible_leader_replicas=chance.choice((None, None, [2, 1])),
            last_known_elr=chance.choice((None, [3])),
        )

    def _changes(self) -> list[tuple[int, int, Values]]:
        partitions = [
            (topic, number)
            for topic, of in self._world.partitions.items()
            for number in range(len(of))
        ]
        few = self._chance.sample(partitions, min(len(partitions), self._chance.randint(1, 4)))
        return [self._change(*each) for each in few]

    def _change(self, topic_id: bytes, partition: int) -> tuple[int, int, Values]:
        chance = self._chance
        count, has_directories = self._world.partitions[topic_id][partition]
        told: Values = {}
        if chance.random() < 0.2:
            told["replicas"] = self._brokers(3, 1)
            count = len(told["replicas"])
        if told or chance.random() < 0.1:
            told |= {"adding_replicas": self._brokers(1), "removing_replicas": self._brokers(1)}
        if (told.get("replicas") and has_directories) or chance.random() < 0.1:
            told["directories"] = self._directories(count)
            has_directories = any(map(any, told["directories"]))
        self._world.partitions[topic_id][partition] = count, has_directories
        if chance.random() < 0.6:
            told["isr"] = self._brokers(3)
        if chance.random() < 0.5:
            told["leader"] = chance.choice((-1, *LEADERS))
        if chance.random() < 0.2:
            told["leader_recovery_state"] = chance.randint(0, 1)
        if chance.random() < 0.3:
            told |= {
                "eligible_leader_replicas": self._brokers(2),
                "last_known_elr": self._brokers(1),
            }
        version = 2 if "directories" in told else chance.randint(0, 2)
        return record(5, version, partition_id=partition, topic_id=topic_id, **told)

    def _directories(self, count: int) -> list[bytes]:
        return self._chance.choices(DIRECTORIES, k=count)


def controls(entry: Entry) -> Values:
    """The fields of a control record, where those that are not given are empty."""
    of = CONTROL_TYPES[entry.number].body
    empty = {
        "version": 0,
        "leader_id": -1,
        "voters": [],
        "granting_voters": [],
        "last_contained_log_timestamp": 0,
    }
    return {
        each.name: entry.values.get(each.name, empty.get(each.name))
        for each in of.in_version(entry.version)
    }


def rows_of(entries: Sequence[Entry], **more: Any) -> list[Row]:
    """Rows of bronze.cluster_log of records, decoded from their bytes. `more`: columns of all of
    them.
    """
    of_controllers = [entry for entry in entries if not entry.is_control]
    of_quorum = [entry for entry in entries if entry.is_control]
    decoded = [
        decode_records(
            log([frame(each.number, each.version, each.values) for each in of_controllers])
        )
    ]
    values = [control_value(each.number, each.version, controls(each)) for each in of_quorum]
    decoded.append(decode_records(log(values, [control_key(each.number) for each in of_quorum])))
    none = dict.fromkeys(("snapshot_offset", "snapshot_epoch", "next_offset", "went"))
    found: dict[int, Row] = {}
    for entry, row in zip(
        (*of_controllers, *of_quorum), chain(*map(arrow_rows, decoded)), strict=True
    ):
        assert row["error"] is None, row["error"]
        of_log = {"record": "record", "offset": entry.offset, "leader_epoch": entry.leader_epoch}
        found[id(entry)] = {
            **row,
            **CLUSTER,
            **none,
            **of_log,
            "timestamp": entry.at,
            "read_at": entry.at,
            **more,
        }
    return [found[id(entry)] for entry in entries]


def arrow_rows(batch: pa.RecordBatch) -> list[Row]:
    return rows_in(pa.Table.from_batches([batch]))


def rows_of_snapshot(
    records: Iterable[tuple[int, int, Values]], offset: int, epoch: int, at: datetime
) -> list[Row]:
    """Rows of a snapshot of what the log said before an offset, with its header and footer."""
    written = at + timedelta(seconds=9)
    ms = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    entries = [
        Entry(0, epoch, written, HEADER, 0, {"last_contained_log_timestamp": ms}, is_control=True),
        *(Entry(place, epoch, written, *each) for place, each in enumerate(records, 1)),
    ]
    entries.append(Entry(len(entries), epoch, written, FOOTER, 0, {}, is_control=True))
    return rows_of(entries, record="snapshot", snapshot_offset=offset, snapshot_epoch=epoch)


def snapshot_of(image: Image) -> list[tuple[int, int, Values]]:
    """The records that tell an image, in the order in which Kafka writes them."""
    found = [record(12, name=name, feature_level=level) for name, level in image.features.items()]
    for broker, of in image.brokers.items():
        directories = [_uuid(each) for each in of["log_dirs"]]
        told = of | {
            "incarnation_id": _uuid(of["incarnation_id"]),
            "fenced": of["is_fenced"],
            "log_dirs": directories,
        }
        never = {"is_migrating_zk_broker": False, "end_points": [], "features": []}
        found.append(record(0, broker_id=broker, **told, **never))
    for topic, of in image.topics.items():
        found.append(record(2, name=topic, topic_id=_uuid(of["topic_id"])))
        for (_, number), told in (each for each in image.partitions.items() if each[0][0] == topic):
            own = {
                "partition_id": number,
                "topic_id": _uuid(told["topic_id"]),
                "eligible_leader_replicas": told["elr"],
            }
            found.append(
                record(
                    3,
                    **{**told, **own, "directories": [_uuid(each) for each in told["directories"]]},
                )
            )
    for (kind, resource), values in image.configs.items():
        for name, value in values.items():
            told = {"resource_type": kind, "resource_name": resource, "name": name}
            found.append(record(4, **told, value=NOT_KEPT if value is None else value))
    return found


def _uuid(text: str | None) -> bytes:
    return bytes(16) if text is None else base64.urlsafe_b64decode(text + "==")


def span(went: str, offset: int, next_offset: int, at: datetime = START) -> Row:
    """A row about what was read, or could not be."""
    (row,) = rows_of(
        [Entry(offset, 0, at, *record(20))],
        record="span",
        went=went,
        next_offset=next_offset,
        read_at=at,
    )
    return row | dict.fromkeys(
        ("leader_epoch", "timestamp", "is_control", "type", "version", "name", "size")
    )


def in_effect(entries: Iterable[Entry]) -> list[Entry]:
    """The records that count, in their order: of transactions, those that ended. Their time is that
    of the end.
    """
    found: list[Entry] = []
    inside: list[Entry] | None = None
    for entry in entries:
        if entry.transaction == BEGIN:
            inside = []
        elif entry.transaction is not None:
            if entry.transaction == END:
                found += [Entry(**{**vars(each), "at": entry.at}) for each in inside or ()]
            inside = None
        elif inside is None:
            found.append(entry)
        else:
            inside.append(entry)
    return found
