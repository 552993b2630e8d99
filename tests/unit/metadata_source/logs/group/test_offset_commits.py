"""What offset commits come to, read in spans that are cut anywhere: as by a plain rule that looks
at each.
"""

from __future__ import annotations

import itertools
import struct
import time
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata_source.logs.group import commits as commits_module
from metadata_source.logs.group.commits import Commits
from metadata_source.logs.topic import log as topic_log
from metadata_source.logs.topic.positions import LogExtent, Span
from metadata_source.logs.topic.reader import Reading
from metadata_source.logs.topic.watcher import Led
from metadata_source.options import parse_group_log
from metadata_source.protocol.group_specs import OFFSET_COMMIT
from metadata_source.protocol.offset_commits import read_values
from metadata_source.protocol.writing import write_message
from tests.support.examples import examples
from tests.support.group_log import log_of
from tests.support.group_messages import key_bytes, redpanda_member, value_bytes
from tests.support.mutations import mutated, mutations
from tests.support.record_batches import CODECS, Batch, Record, batch_bytes

quickly = settings(
    max_examples=examples(60), database=None, suppress_health_check=[HealthCheck.too_slow]
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
START_MS = 1_763_802_000_000
READ_AT = datetime.now(UTC)
SERVERS = {"kafka.bootstrap.servers": "one:9092"}
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


class Leader:
    """The leader of partition 0, in place of a cluster."""

    def __init__(self, log: list[tuple[int, bytes]], end: int, batches_an_answer: int) -> None:
        self.log, self.end, self.batches_an_answer = log, end, batches_an_answer

    def close(self) -> None:
        pass

    def leaders(self) -> dict[tuple[str, int], list[Led]]:
        return {("host", 1): [Led(0, -1)]}

    def fetch(self, _address: object, offsets: dict[Led, int], _deadline: float) -> list[Row]:
        (offset,) = offsets.values()
        data = [data for last, data in self.log if last >= offset][: self.batches_an_answer]
        whole = b"".join(data)
        # As brokers cut the last batch off.
        cut = whole if len(data) < 2 else whole[: -len(data[-1]) // 2]
        return [{"partition_index": 0, "error_code": 0, "high_watermark": self.end, "records": cut}]


def rows_of(
    log: list[At],
    start: int,
    end: int,
    *,
    codec: str = "none",
    an_answer: int = 100,
    pattern: str | None = None,
) -> list[Row]:
    last = log[-1].offset + 1 if log else 0
    leader = Leader(batches(log, codec), max(last, end), an_answer)
    span = Span("c", "id", None, 0, start, end)
    return read(leader, span, **{} if pattern is None else {"groupsPattern": pattern})


def read(leader: Any, span: Span, **options: str) -> list[Row]:
    (cluster,) = parse_group_log(SERVERS).clusters
    found: list[Row] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topic_log, "LogWatcher", lambda *_: leader)
        for batch in log_of("topic", 5_000, **options).rows(cluster, [span], READ_AT, time.sleep):
            batch.validate(full=True)
            found += batch.to_pylist()
    return found


# --- the plain rule ---


def utc(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def of_one(offset: int, ms: int, commit: Commit) -> Row:
    is_removal = commit.committed is None
    end = (None, None, None) if is_removal else (offset, utc(ms), commit.committed)
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
        "removed_timestamp": utc(ms) if is_removal else None,
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
                found.add(at.what.group, of_one(at.offset, at.ms, at.what))
            case Change(group):
                found.change(group)
            case Marker(is_commit):
                for commit in pending.pop(at.producer, ()):
                    if is_commit:
                        found.add(commit.group, of_one(at.offset, at.ms, commit))
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


# --- properties ---

GROUPS = {"a": -1, "b": -1, "in transactions": 1, "in others": 2}
"""Groups, and the producer that commits for each: nobody commits the same partition in and outside
of transactions.
"""


def a_commit(
    group: str, committed: int | None, partition: int, version: int, topic_id: bytes | None
) -> Commit:
    in_transaction = GROUPS[group] >= 0
    return Commit(
        group,
        partition,
        0 if in_transaction and committed is None else committed,
        version,
        topic_id,
    )


what = st.one_of(
    st.builds(
        a_commit,
        st.sampled_from(list(GROUPS)),
        st.none() | st.integers(0, 20) | st.sampled_from([2**40]),
        st.integers(0, 1),
        st.integers(0, 4),
        st.sampled_from(IDS),
    ),
    st.builds(Change, st.sampled_from([*GROUPS, "another"])),
    st.builds(Marker, st.booleans()),
)


def written(what: Commit | Change | Marker, producer: int, after_ms: int, skipped: int) -> Written:
    of = (
        producer
        if isinstance(what, Marker)
        else GROUPS[what.group]
        if isinstance(what, Commit)
        else -1
    )
    return Written(what, of, after_ms, skipped)


logs = st.lists(
    st.builds(
        written,
        what,
        st.sampled_from([1, 2]),
        st.integers(-5, 500),
        st.sampled_from([0, 0, 0, 1, 5]),
    ),
    max_size=30,
).map(placed)


@quickly
@given(
    logs,
    st.sets(st.integers(0, 60), max_size=4),
    st.integers(1, 100),
    st.sampled_from(CODECS),
    st.integers(1, 5),
)
def test_spans_that_are_cut_anywhere_come_to_what_the_log_does(
    log: list[At], cuts: set[int], an_answer: int, codec: str, entries: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(commits_module, "ENTRIES_A_ROW", entries)
        end = log[-1].offset + 1 if log else 0
        edges = [0, *sorted(cut for cut in cuts if 0 < cut < end), end]
        spans = [
            rows_of(log, *edge, codec=codec, an_answer=an_answer)
            for edge in itertools.pairwise(edges)
            if edge[0] < edge[1]
        ]
    rows = list(itertools.chain(*spans))
    assert folded(spans) == plain(log)
    keys = [
        tuple(row[name] for name in ("log_partition", "offset", "record", "group_id", "chunk"))
        for row in rows
    ]
    assert len(set(keys)) == len(keys), "the key of bronze.group_log"
    read = [row for row in rows if row["record"] == "read"]
    assert [row["next_offset"] for row in read] == edges[1:] or not end
    assert sum(row["commits"] for row in read) == sum(isinstance(at.what, Commit) for at in log)
    assert sum(row["records"] for row in read) == sum(isinstance(at.what, Change) for at in log)
    assert all(
        1 <= len(row["offset_commits"]) <= entries for row in rows if row["record"] == "commits"
    )


@quickly
@given(logs, st.integers(1, 100))
def test_one_span_has_aggregates_ready(log: list[At], an_answer: int) -> None:
    """Not to be put together by anybody: a row is a stretch of a group."""
    rows = rows_of(log, 0, log[-1].offset + 1 if log else 1, an_answer=an_answer)
    found = [
        (row["group_id"], [plainly(each) for each in sorted(row["offset_commits"], key=begin)])
        for row in rows
        if row["record"] == "commits" and row["producer_id"] is None
    ]
    assert sorted(found, key=lambda each: (each[0], begin(each[1][0]))) == plain(log)


# --- cases ---


def of_group(rows: list[Row], group: str = "a") -> list[Row]:
    return [row for row in rows if row["record"] == "commits" and row["group_id"] == group]


def test_a_transaction_that_is_open_holds_up_no_record_and_counts_at_its_marker() -> None:
    log = placed(
        [
            Written(Commit("a", 0, 5), 9),
            Written(Change("a")),
            Written(Commit("b", 0, 5), 8),
            Written(Marker(is_commit=True), 9, 70),
            Written(Marker(is_commit=False), 8),
        ]
    )
    first, second = rows_of(log, 0, 3), rows_of(log, 3, 5)
    assert [row["offset"] for row in first if row["record"] == "record"] == [1]
    assert {
        (row["group_id"], row["producer_id"]) for row in first if row["record"] == "commits"
    } == {
        ("a", 9),
        ("b", 8),
    }
    markers = [
        (row["offset"], row["producer_id"], row["is_committed"])
        for row in second
        if row["record"] == "marker"
    ]
    assert markers == [(3, 9, True), (4, 8, False)]
    ((group, (counted,)),) = folded([first, second])
    assert (group, counted["from_offset"], counted["from_timestamp"]) == (
        "a",
        3,
        utc(START_MS + 70),
    )
    assert plain(log) == folded([first, second]) == folded([rows_of(log, 0, 5)])


def test_only_groups_that_are_wanted_have_their_commits_kept() -> None:
    log = placed(
        [Written(Commit(group, 0, 5)) for group in ("orders", "orders-2", "other")]
        + [Written(Change("other"))]
    )
    rows = rows_of(log, 0, 4, pattern=r"\A(?:orders.*)\z")
    assert [row["group_id"] for row in rows if row["record"] == "commits"] == ["orders", "orders-2"]
    assert [row["group_id"] for row in rows if row["record"] == "record"] == ["other"]
    assert [row["commits"] for row in rows if row["record"] == "read"] == [3]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            commit_key("a", "t", 0)[:-1],
            commit_value(3, 5),
            "OffsetCommitKey v0: partition at byte 8: 4 bytes wanted, 3 left",
        ),
        (commit_key("a", "t", 0), b"", "a value of 0 bytes, 2 at least wanted"),
        (
            commit_key("a", "t", 0),
            b"\0\5" + bytes(30),
            "unknown version 5 of record type 1, known are 0 to 4",
        ),
        (commit_key("a", "t", 0), commit_value(3, -5, "SECRET"), "-5 is no offset"),
        (commit_key("a", "t", 0), commit_value(3, 5) + b"SECRET", "1 bytes are left over"),
        (
            commit_key("a", "t", 0, kind=0),
            commit_value(4, 5, "SECRET")[:-9],
            "OffsetCommitValue v4: ",
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 20])
def test_a_commit_that_cannot_be_read_is_a_row_without_its_value(
    key: bytes, value: bytes, said: str, count: int
) -> None:
    good = Record(0, 0, commit_key("a", "t", 1), commit_value(3, 5))
    records = [good] + [Record(1 + at, 0, key, value) for at in range(count)]
    leader = Leader([(count, batch_bytes(Batch(0, records)))], count + 1, 9)
    span = Span("c", "id", None, 0, 0, count + 1)
    found = read(leader, span)
    (went,) = (row for row in found if row["record"] == "read")
    rows = [row for row in found if row["record"] == "record"]
    assert (went["commits"], went["records"], went["holes"], len(rows)) == (1, count, 0, count)
    for row in rows:
        assert said.removeprefix("1 bytes") in row["error"]
        assert (row["key"], row["value"], row["type"]) == (key, None, int.from_bytes(key[:2]))
        assert "SECRET" not in str(row)
    assert [
        row["offset_commits"][0]["partition"] for row in found if row["record"] == "commits"
    ] == [1]


@quickly
@given(
    st.integers(0, 4), st.integers(0, 2**62), st.sampled_from(IDS), mutations, st.floats(0, 0.999)
)
def test_values_with_other_bytes_are_other_values_or_wrong(
    version: int, offset: int, topic_id: bytes | None, changes: Any, share: float
) -> None:
    whole = commit_value(version, offset, "metadata", topic_id)
    values = [whole] * 9 + [None, mutated(whole, changes), whole[: int(share * len(whole))]]
    found = read_values(pa.array(values, pa.binary()))
    assert found.offsets[:9].tolist() == [offset] * 9
    assert not found.is_wrong[:10].any()
    assert found.is_wrong[11]
    assert found.is_removal.tolist() == [value is None for value in values]
    assert found.topic_ids[0].tobytes() == (topic_id if topic_id and version == 4 else bytes(16))
    assert (found.offsets[found.is_wrong] < 0).all()
    assert (found.offsets[~found.is_wrong & ~found.is_removal] >= 0).all()


def test_what_fell_has_a_largest_sum() -> None:
    log = placed(
        [
            Written(Commit("a", 0, committed))
            for committed in (2**62, 0, 2**62, 0, 2**62, 0, 2**62, 0)
        ]
    )
    (row,) = of_group(rows_of(log, 0, 8))
    assert (row["offset_commits"][0]["falls"], row["offset_commits"][0]["fallen"]) == (4, 2**63 - 1)


def test_the_same_group_in_two_partitions_is_two() -> None:
    """Nobody but its coordinator writes a group's records. Others may."""
    one = [
        (at.offset, data)
        for at in placed([Written(Commit("a", 0, 5))])
        for _, data in batches([at])
    ]

    class Two(Leader):
        def leaders(self) -> dict[tuple[str, int], list[Led]]:
            return {("host", 1): [Led(0, -1), Led(1, -1)]}

        def fetch(self, _address: object, offsets: dict[Led, int], _deadline: float) -> list[Row]:
            return [
                {
                    "partition_index": each.partition,
                    "error_code": 0,
                    "high_watermark": 1,
                    "records": one[0][1],
                }
                for each in offsets
            ]

    between = [Span("c", "id", None, partition, 0, 1) for partition in range(2)]
    reading = Reading(Two(one, 1, 9), between, "topic", Commits())  # type: ignore[arg-type]
    rows = [row for _, commits, _ in reading.steps(5.0) for row in commits.to_pylist()]
    assert sorted((row["log_partition"], row["offset_commits"][0]["commits"]) for row in rows) == [
        (0, 1),
        (1, 1),
    ]


def test_commits_before_and_after_lost_offsets_are_not_one_stretch() -> None:
    """Nobody knows the commits between the two: no gap and no fall may span them."""
    log = placed(
        [
            Written(Commit("a", 0, 50)),
            Written(Commit("a", 0, 60), 9),
            Written(Commit("a", 0, 20), -1, 99, 3),
        ]
    )

    class Loses(Leader):
        def fetch(self, address: object, offsets: dict[Led, int], deadline: float) -> list[Row]:
            if 2 <= min(offsets.values()) < 5:
                return [
                    {"partition_index": 0, "error_code": 1, "high_watermark": 6, "records": None}
                ]
            return super().fetch(address, offsets, deadline)

        def ask_extent(self) -> LogExtent:
            return LogExtent("id", None, frozenset({0}), {0: 5}, {0: 6})

    leader = Loses(batches(log, together=1), 6, 1)
    reading = Reading(leader, [Span("c", "id", None, 0, 0, 6)], "topic", Commits())  # type: ignore[arg-type]
    steps = list(reading.steps(5.0))
    went = [(each.record, each.offset, each.next_offset) for _, _, ended in steps for each in ended]
    assert went == [("read", 0, 2), ("lost", 2, 5), ("read", 5, 6)]
    rows = sorted(
        (row for _, commits, _ in steps for row in commits.to_pylist()),
        key=lambda row: row["offset"],
    )
    told = [(row["offset"], row["next_offset"], row["producer_id"]) for row in rows]
    assert told == [(0, 1, None), (1, 2, 9), (5, 6, None)]
    assert [row["offset_commits"][0]["falls"] for row in rows] == [0, 0, 0]


def test_of_two_gaps_of_one_length_the_first_counts_wherever_answers_end() -> None:
    others = [Written(Commit("b", 0, 1)), Written(Commit("b", 0, 2))]
    log = placed(
        [
            *others,
            Written(Commit("a", 0, 5)),
            *(Written(Commit("a", 0, 6 + n), -1, 10) for n in range(2)),
        ]
    )
    for an_answer in (1, 100):
        (row,) = of_group(rows_of(log, 0, 5, an_answer=an_answer))
        (entry,) = row["offset_commits"]
        assert (entry["gap_from"], entry["gap_to"]) == (utc(START_MS), utc(START_MS + 10))


def test_the_first_marker_alone_of_a_producer_in_a_span_is_a_row() -> None:
    transactions = [Written(Commit("a", 0, 5), 9), Written(Marker(is_commit=True), 9)] * 3
    log = placed([*transactions, Written(Marker(is_commit=False), 8)])
    for an_answer in (1, 100):
        rows = rows_of(log, 0, 7, an_answer=an_answer)
        markers = [(row["offset"], row["producer_id"]) for row in rows if row["record"] == "marker"]
        assert markers == [(1, 9), (6, 8)]


@pytest.mark.parametrize("kind", ["redpanda", "kafka"])
def test_groups_of_a_cluster_of_redpanda_are_read_as_it_writes_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = redpanda_member("m1", b"") + bytes(4)
    group = (
        b"\0\3\0\x08consumer" + bytes(4) + b"\xff\xff\xff\xff" + bytes(8) + (1).to_bytes(4) + member
    )
    record = Record(0, 0, key_bytes(2, {"group": "g"}), group)

    class Watcher(Leader):
        def __init__(self, *_: object) -> None:
            super().__init__([(0, batch_bytes(Batch(0, [record])))], 1, 9)

    monkeypatch.setattr(topic_log, "LogWatcher", Watcher)
    (cluster,) = parse_group_log(SERVERS | {"kind": kind}).clusters
    found = log_of("__consumer_offsets").rows(
        cluster, [Span("c", "id", None, 0, 0, 1)], READ_AT, time.sleep
    )
    (row,) = (row for batch in found for row in batch.to_pylist() if row["record"] == "record")
    assert (row["error"] is None) == (kind == "redpanda")
    assert row["classic"] is None or [each["member_id"] for each in row["classic"]["members"]] == [
        "m1"
    ]
