"""The truth of a cluster with ZooKeeper: what its transaction log says was written there.

ZooKeeper logs every write with its time (org.apache.zookeeper.server.persistence.FileTxnLog), in
which brokers and the controller of Kafka keep all that Metadata shows.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final

from local_cluster import LocalCluster
from truth.dump import EPOCH, TruthError
from truth.model.states import (
    MIGRATING,
    NO_LEADER,
    BrokerState,
    ConfigChange,
    PartitionState,
    TopicLife,
    Truth,
)

_FILE, _ENTRY, _HEADER = Struct(">4siq"), Struct(">qi"), Struct(">qiqqi")
_NUMBER: Final = Struct(">i")
_CREATES: Final = (1, 15)
_DELETES, _SETS, _MULTI, _ENDS_SESSION = 2, 5, 14, -11
"""The types of transactions that Kafka makes (org.apache.zookeeper.ZooDefs.OpCode)."""
_RESOURCES: Final = {"topics": 2, "brokers": 4}
_DEFAULT: Final = "<default>"
_STOPS_WITHIN: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Write:
    """A node of ZooKeeper that was written, or removed (`data` null)."""

    zxid: int
    at: datetime
    path: str
    data: bytes | None


def read_zookeeper(cluster: LocalCluster) -> Truth:
    """The truth of a cluster with ZooKeeper that has settled."""
    (node,) = (each.node_id for each in cluster.nodes.values() if each.is_zookeeper)
    files = sorted((cluster.files(node).data / "version-2").glob("log.*"), key=_first_zxid)
    return truth_of_writes(writes(file.read_bytes() for file in files))


def _first_zxid(file: Path) -> int:
    return int(file.suffix.removeprefix("."), 16)


def writes(files: Iterable[bytes]) -> Iterator[Write]:
    """What files of the log, in order, say was written.

    A session that ends takes its ephemeral nodes with it. Raises TruthError for another file.
    """
    owned: dict[int, dict[str, None]] = {}
    for file in files:
        if not file.startswith(b"ZKLG"):
            raise TruthError("not a log of ZooKeeper's transactions")
        for entry in _entries(file):
            session, _, zxid, millis, kind = _HEADER.unpack_from(entry)
            at = EPOCH + timedelta(milliseconds=millis)
            if kind == _ENDS_SESSION:
                for path in owned.pop(session, ()):
                    yield Write(zxid, at, path, None)
            for path, data, is_ephemeral in _nodes(kind, _Reader(entry, _HEADER.size)):
                if is_ephemeral:
                    owned.setdefault(session, {})[path] = None
                elif data is None:
                    for paths in owned.values():
                        paths.pop(path, None)
                yield Write(zxid, at, path, data)


def _entries(file: bytes) -> Iterator[bytes]:
    """The transactions of a file, whose rest is zeros."""
    place = _FILE.size
    while place + _ENTRY.size <= len(file):
        _, length = _ENTRY.unpack_from(file, place)
        if length == 0:
            return
        place += _ENTRY.size
        yield file[place : place + length]
        place += length + 1


@dataclass
class _Reader:
    """Reads Jute, the format of ZooKeeper's records."""

    buffer: bytes
    place: int = 0

    def number(self) -> int:
        (number,) = _NUMBER.unpack_from(self.buffer, self.place)
        self.place += _NUMBER.size
        return int(number)

    def data(self) -> bytes:
        length = max(0, self.number())
        self.place += length
        return self.buffer[self.place - length : self.place]


def _nodes(kind: int, reader: _Reader) -> Iterator[tuple[str, bytes | None, bool]]:
    """Path, data and whether it is ephemeral of each node that a transaction is about."""
    if kind == _MULTI:
        for _ in range(reader.number()):
            inner = reader.number()
            yield from _nodes(inner, _Reader(reader.data()))
    elif kind == _DELETES:
        yield reader.data().decode(), None, False
    elif kind == _SETS:
        yield reader.data().decode(), reader.data(), False
    elif kind in _CREATES:
        path, data = reader.data().decode(), reader.data()
        for _ in range(reader.number()):  # of its access control list
            reader.number(), reader.data(), reader.data()
        yield path, data, bool(reader.buffer[reader.place])


@dataclass
class _Replay:
    """The truth so far; and of each topic that lives its id, of each partition its replicas."""

    truth: Truth = field(default_factory=Truth)
    ids: dict[str, str] = field(default_factory=dict)
    assigned: dict[tuple[str, int], Mapping[str, tuple[int, ...]]] = field(default_factory=dict)


def truth_of_writes(log: Iterable[Write]) -> Truth:
    """Replay a log."""
    replay = _Replay()
    for write in log:
        replay.truth.ended_at = max(replay.truth.ended_at, write.at)
        _, *parts = write.path.split("/")
        act = _REPLAYS.get((*parts[:2], len(parts)))
        if act is not None:
            act(replay, write, parts)
    replay.truth.partitions.default_factory = None  # type: ignore[attr-defined]
    replay.truth.brokers.default_factory = None  # type: ignore[attr-defined]
    return replay.truth


def _broker(replay: _Replay, write: Write, parts: Sequence[str]) -> None:
    broker_id = int(parts[-1])
    if write.data is None:
        _unregister(replay.truth, write, broker_id)
    elif write.data:  # it is made empty, and written at once
        replay.truth.brokers[broker_id].append(
            BrokerState(
                offset=write.zxid,
                at=write.at,
                broker_id=broker_id,
                rack=json.loads(write.data).get("rack"),
                registered=True,
                fenced=False,
                in_controlled_shutdown=False,
            )
        )


def _unregister(truth: Truth, write: Write, broker_id: int) -> None:
    """Nobody writes down that a broker wants to stop: the controller takes it out of ISRs first.

    Nor that nobody leads what it led, until the controller has elected another one.
    """
    states = truth.brokers[broker_id]
    since = max(states[-1].at, write.at - _STOPS_WITHIN)
    left = [
        after
        for of_partition in truth.partitions.values()
        for before, after in pairwise(of_partition)
        if after.at > since and broker_id in set(before.isr) - set(after.isr)
    ]
    if left:
        first = min(left, key=lambda state: state.offset)
        states.append(
            replace(states[-1], offset=first.offset, at=first.at, in_controlled_shutdown=True)
        )
    states.append(replace(states[-1], offset=write.zxid, at=write.at, registered=False))
    for key, of_partition in truth.partitions.items():
        last = of_partition[-1]
        if last.leader == broker_id and truth.ends_at(key) is None:
            shown = replace(last, leader=NO_LEADER, names_leader=False, is_shown_gone=True)
            of_partition.append(replace(shown, offset=write.zxid, at=write.at))


def _topic(replay: _Replay, write: Write, parts: Sequence[str]) -> None:
    name, truth = parts[-1], replay.truth
    if write.data is None:
        _end(replay, name, write.at)
        replay.ids.pop(name, None)
        return
    told = json.loads(write.data)
    if name not in replay.ids:
        lives = sum(life.topic == name for life in truth.topics.values())
        topic_id = told.get("topic_id") or f"{name}@{lives}"
        replay.ids[name] = topic_id
        truth.topics[topic_id] = TopicLife(name, topic_id, write.at, None)
    topic_id = replay.ids[name]
    for number, replicas in told["partitions"].items():
        key = topic_id, int(number)
        assigned = {"replicas": tuple(replicas)} | {
            short: tuple(sorted(told.get(f"{short}_replicas", {}).get(number, ())))
            for short in ("adding", "removing")
        }
        if replay.assigned.get(key) not in (None, assigned) and key in truth.partitions:
            last = truth.partitions[key][-1]
            now = replace(last, **assigned)
            if now != last:
                truth.partitions[key].append(
                    replace(now, offset=write.zxid, at=write.at, names_leader=False)
                )
        replay.assigned[key] = assigned


def _to_remove(replay: _Replay, write: Write, parts: Sequence[str]) -> None:
    """Brokers show a topic no more once it is to be removed."""
    if write.data is not None:
        _end(replay, parts[-1], write.at)


def _end(replay: _Replay, name: str, at: datetime) -> None:
    topic_id = replay.ids.get(name)
    if topic_id is not None and replay.truth.topics[topic_id].deleted_at is None:
        replay.truth.topics[topic_id] = replace(replay.truth.topics[topic_id], deleted_at=at)


def _partition(replay: _Replay, write: Write, parts: Sequence[str]) -> None:
    name, number = parts[2], int(parts[4])
    topic_id = replay.ids.get(name)
    if write.data is None or topic_id is None or replay.truth.ends_at((topic_id, 0)) is not None:
        return
    told, key = json.loads(write.data), (topic_id, number)
    states = replay.truth.partitions[key]
    assigned = replay.assigned[key]
    # Once all new replicas are in sync, the controller has them alone, and writes that down last
    # (KafkaController.onPartitionReassignment).
    target = tuple(each for each in assigned["replicas"] if each not in assigned["removing"])
    if states and assigned["removing"] and set(target) <= set(states[-1].isr):
        assigned = {"replicas": target, "adding": (), "removing": ()}
    states.append(
        PartitionState(
            offset=write.zxid,
            at=write.at,
            topic=name,
            topic_id=topic_id,
            partition=number,
            leader=told["leader"],
            leader_epoch=told["leader_epoch"],
            isr=tuple(sorted(told["isr"])),
            **assigned,
            elr=(),
            last_known_elr=(),
            directories=(MIGRATING,) * len(assigned["replicas"]),
            # Nobody is elected from outside the ISR but by an unclean election.
            recovering=bool(states) and told["leader"] not in (NO_LEADER, *states[-1].isr),
            names_leader=not states or told["leader_epoch"] != states[-1].leader_epoch,
        )
    )


def _config(replay: _Replay, write: Write, parts: Sequence[str]) -> None:
    _, kind, resource = parts
    told = json.loads(write.data)["config"] if write.data else {}
    name = "" if resource == _DEFAULT else resource
    number = _RESOURCES[kind]
    before = {
        each.name: each.value
        for each in replay.truth.configs
        if (each.resource_type, each.resource) == (number, name)
    }
    for setting in {**before, **told}:
        if before.get(setting) != told.get(setting):
            change = ConfigChange(write.at, number, name, setting, told.get(setting))
            replay.truth.configs.append(change)


_REPLAYS: Final[Mapping[tuple[str | int, ...], Callable[[_Replay, Write, Sequence[str]], None]]] = {
    ("brokers", "ids", 3): _broker,
    ("brokers", "topics", 3): _topic,
    ("brokers", "topics", 6): _partition,
    ("admin", "delete_topics", 3): _to_remove,
    ("config", "topics", 3): _config,
    ("config", "brokers", 3): _config,
}
