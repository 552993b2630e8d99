"""Logs of offset commits, and what they come to by a plain rule that looks at each."""

import itertools
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from metadata_source.logs.group.commits import Commits
from metadata_source.logs.topic.positions import Span
from metadata_source.logs.topic.reader import Reading
from metadata_source.protocol.group_specs import OFFSET_COMMIT
from metadata_source.protocol.writing import write_message
from tests.support.group_messages import key_bytes, value_bytes
from tests.support.record_batches import Batch, Record, batch_bytes
from tests.support.topic_leader import Leader

START_MS = 1_763_802_000_000
IDS = (None, bytes(15) + b"\1", bytes(15) + b"\2")

Row = dict[str, Any]


class Commit(NamedTuple):
    group: str
    partition: int
    committed: int | None
    version: int = 3
    topic_id: bytes | None = None
    topic: str = "t"


class Change(NamedTuple):
    """A record of a group that is no commit."""

    group: str


class Marker(NamedTuple):
    is_commit: bool


class Written(NamedTuple):
    """A record of the log; its producer if it is in a transaction."""

    what: Commit | Change | Marker
    producer: int = -1
    after_ms: int = 0
    skipped: int = 0


def commit_key(group: str, topic: str, partition: int, kind: int = 1) -> bytes:
    fields = {"group": group, "topic": topic, "partition": partition}
    return struct.pack(">h", kind) + write_message(OFFSET_COMMIT.key, 0, fields)


def commit_value(
    version: int, offset: int, metadata: str = "", topic_id: bytes | None = None
) -> bytes:
    fields = {
        "offset": offset,
        "leader_epoch": 7,
        "metadata": metadata,
        "commit_timestamp": START_MS,
        "expire_timestamp": -1,
        "topic_id": topic_id or bytes(16),
    }
    return struct.pack(">h", version) + write_message(OFFSET_COMMIT.value, version, fields)


def key_and_value(what: Commit | Change | Marker) -> tuple[bytes, bytes | None]:
    if isinstance(what, Commit):
        key = commit_key(what.group, what.topic, what.partition, kind=what.partition % 2)
        if what.committed is None:
            return key, None
        return key, commit_value(what.version, what.committed, "m" * what.partition, what.topic_id)
    if isinstance(what, Change):
        return key_bytes(3, {"group_id": what.group}), value_bytes(
            3, 0, {"epoch": 7, "metadata_hash": 0}
        )
    return struct.pack(">hh", 0, what.is_commit), bytes(6)


class At(NamedTuple):
    """A record, and where and when it was written."""

    what: Commit | Change | Marker
    producer: int
    offset: int
    ms: int


def placed(written: list[Written]) -> list[At]:
    found, offset, ms = [], 0, START_MS
    for each in written:
        offset, ms = offset + each.skipped, ms + each.after_ms
        found.append(At(each.what, each.producer, offset, ms))
        offset += 1
    return found


def batches(log: list[At], codec: str = "none", together: int = 3) -> list[tuple[int, bytes]]:
    """The bytes of record batches, each with the offset of its last record."""
    found = []
    for _, group in itertools.groupby(
        enumerate(log), lambda each: (each[1].producer, is_marker(each[1]), each[0] // together)
    ):
        of_batch = [at for _, at in group]
        first = of_batch[0]
        records = [
            Record(at.offset - first.offset, at.ms - first.ms, *key_and_value(at.what))
            for at in of_batch
        ]
        batch = Batch(
            first.offset,
            records,
            base_timestamp=first.ms,
            codec=codec,
            control=is_marker(first),
            producer_id=first.producer,
            transactional=first.producer >= 0,
        )
        found.append((of_batch[-1].offset, batch_bytes(batch)))
    return found


def is_marker(at: At) -> bool:
    return isinstance(at.what, Marker)


# --- the plain rule ---


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def of_one(offset: int, written_at: datetime, commit: Commit) -> Row:
    is_removal = commit.committed is None
    end = (None, None, None) if is_removal else (offset, written_at, commit.committed)
    return {
        "topic": commit.topic,
        "partition": commit.partition,
        "topic_id": None
        if is_removal or commit.version < 4 or not commit.topic_id
        else commit.topic_id,
        "commits": int(not is_removal),
        **dict(zip(("from_offset", "from_timestamp", "first_committed"), end, strict=True)),
        **dict(zip(("to_offset", "to_timestamp", "last_committed"), end, strict=True)),
        "gap_from": None,
        "gap_to": None,
        "falls": 0,
        "fallen": 0,
        "removed_offset": offset if is_removal else None,
        "removed_timestamp": written_at if is_removal else None,
    }


def one_after_another(one: Row, other: Row) -> Row | None:
    """Both as one; None where they are two."""
    if one["removed_offset"] is not None or (
        other["commits"] and one["topic_id"] != other["topic_id"]
    ):
        return None
    both = one | {name: other[name] for name in ("removed_offset", "removed_timestamp")}
    if not other["commits"]:
        return both
    both |= {name: other[name] for name in ("to_offset", "to_timestamp", "last_committed")}
    gaps = [
        (one["gap_from"], one["gap_to"]),
        (one["to_timestamp"], other["from_timestamp"]),
        (other["gap_from"], other["gap_to"]),
    ]
    both["gap_from"], both["gap_to"] = max(
        (gap for gap in gaps if gap[0] is not None), key=lambda gap: gap[1] - gap[0]
    )
    fall = max(0, one["last_committed"] - other["first_committed"])
    both["commits"] += other["commits"]
    both["falls"] += other["falls"] + (fall > 0)
    both["fallen"] += other["fallen"] + fall
    return both


class Stretches:
    """The aggregates of each group, in stretches that its other records end."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, list[Row]]] = []
        self.open: dict[str, list[Row]] = {}

    def add(self, group: str, row: Row) -> None:
        rows = self.open.setdefault(group, [])
        same = [
            at
            for at, each in enumerate(rows)
            if (each["topic"], each["partition"]) == (row["topic"], row["partition"])
        ]
        both = one_after_another(rows[same[-1]], row) if same else None
        if both is None:
            rows.append(row)
        else:
            rows[same[-1]] = both

    def change(self, group: str) -> None:
        if rows := self.open.pop(group, None):
            self.ended.append((group, rows))

    def all(self) -> list[tuple[str, list[Row]]]:
        for group in list(self.open):
            self.change(group)
        return sorted(
            ((group, sorted(rows, key=begin)) for group, rows in self.ended),
            key=lambda each: (each[0], begin(each[1][0])),
        )


def begin(row: Row) -> tuple[int, int]:
    return row["from_offset"] if row["commits"] else row["removed_offset"], row["partition"]


def plain(log: list[At]) -> list[tuple[str, list[Row]]]:
    """Aggregates by the rule for one record after the other."""
    found = Stretches()
    pending: dict[int, list[Commit]] = {}
    for at in log:
        match at.what:
            case Commit() if at.producer >= 0:
                pending.setdefault(at.producer, []).append(at.what)
            case Commit():
                found.add(at.what.group, of_one(at.offset, utc(at.ms), at.what))
            case Change(group):
                found.change(group)
            case Marker(is_commit):
                for commit in pending.pop(at.producer, ()):
                    if is_commit:
                        found.add(commit.group, of_one(at.offset, utc(at.ms), commit))
    return found.all()


def folded(spans: list[list[Row]]) -> list[tuple[str, list[Row]]]:
    """Aggregates of rows of spans, put together as their reader has to."""
    found = Stretches()
    pending: dict[int, list[Row]] = {}
    for rows in spans:
        for row in sorted(
            rows, key=lambda row: (row["offset"], row["record"] != "marker", row["chunk"] or 0)
        ):
            if row["record"] == "record":
                found.change(row["group_id"])
            elif row["record"] == "marker":
                for of_group in pending.pop(row["producer_id"], ()):
                    for each in of_group["offset_commits"] if row["is_committed"] else ():
                        found.add(of_group["group_id"], at_marker(each, row))
            elif row["record"] == "commits" and row["producer_id"] is None:
                for each in row["offset_commits"]:
                    found.add(row["group_id"], plainly(each))
        for row in rows:
            if row["record"] == "commits" and row["producer_id"] is not None:
                pending.setdefault(row["producer_id"], []).append(row)
    return found.all()


def plainly(entry: Row) -> Row:
    ids = {None: None, "AAAAAAAAAAAAAAAAAAAAAQ": IDS[1], "AAAAAAAAAAAAAAAAAAAAAg": IDS[2]}
    return entry | {"topic_id": ids[entry["topic_id"]]}


def at_marker(entry: Row, marker: Row) -> Row:
    """Commits of a transaction, where its marker is."""
    entry = plainly(entry)
    ends = ("removed",) if not entry["commits"] else ("from", "to")
    moved = {f"{end}_offset": marker["offset"] for end in ends}
    moved |= {f"{end}_timestamp": marker["timestamp"] for end in ends}
    if entry["commits"] > 1:
        moved |= {"gap_from": marker["timestamp"], "gap_to": marker["timestamp"]}
    return entry | moved


# --- as a task reads them ---


def rows_of(
    log: list[At],
    start: int,
    end: int,
    *,
    codec: str = "none",
    an_answer: int = 100,
    pattern: str | None = None,
) -> list[Row]:
    """Rows of a span: of aggregates and markers as they are, of other records and of what became of
    offsets what is looked at here.
    """
    leader = Leader({0: batches(log, codec)}, an_answer, {0: end})
    span = Span("c", "id", None, 0, start, end)
    found: list[Row] = []
    for records, aggregated, ended in Reading(leader, [span], "topic", Commits(pattern)).steps(5.0):
        found += aggregated.to_pylist()
        for each in records:
            found += [
                {"record": "record", "offset": row["offset"], "group_id": row["key"][4:].decode()}
                for row in each.to_pylist()
            ]
        found += [{**each._asdict(), "commits": each.aggregated} for each in ended]
    none = dict.fromkeys(("chunk", "producer_id", "group_id", "log_partition"))
    return [none | row for row in found]
