"""Spans of the controllers' log as rows: what is read, what is lost, and the snapshots between."""

import itertools
import random
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.errors import ClusterLogError
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from metadata_source.logs.cluster.positions import Span
from metadata_source.logs.pace import Pace
from tests.support.controllers_log import (
    Follow,
    Stream,
    at,
    batch_read,
    cluster_of,
    happen,
    listening,
    options_of,
    rows_of_span,
    shown,
    told,
)
from tests.support.examples import examples
from tests.support.quorum import CLUSTER_ID, NEWER, NO_OP, SCRAM, Quorum, topic


class Waited:
    """A clock that nothing but waiting moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at

    def wait(self, seconds: float) -> None:
        self.at += seconds


def test_a_log_is_read_from_its_beginning(quorum: Quorum) -> None:
    quorum.write(topic("a"), NO_OP, SCRAM, NEWER, topic("b"))
    rows = batch_read(options_of(quorum))
    assert told(rows) == [
        ("record", 0, "LeaderChangeMessage"),
        ("record", 1, "a"),
        ("record", 4, None),
        ("record", 5, "b"),
        ("read", 0, 6),
    ]
    *_, unknown, record, span = rows
    assert (unknown["error"], unknown["type"], unknown["size"]) == (
        "unknown record type 99",
        99,
        len(NEWER),
    )
    assert "hunter2" not in str(rows)
    assert record == {
        "cluster": "default",
        "cluster_id": CLUSTER_ID,
        "record": "record",
        "read_at": record["read_at"],
        "day": record["read_at"].date(),
        "offset": 5,
        "leader_epoch": 1,
        "timestamp": at(5),
        "is_control": False,
        "type": 2,
        "version": 0,
        "name": "TopicRecord",
        "size": len(topic("b")),
        "topic": {"topic": "b", "topic_id": "AAAAAAAAAAAAAAAAAAAABw"},
    }
    assert {
        name: span[name] for name in span if name not in {"cluster", "cluster_id", "read_at", "day"}
    } == {
        "record": "span",
        "went": "read",
        "offset": 0,
        "next_offset": 6,
        "records": 4,
        "no_ops": 1,
        "counted": 1,
        "silence_from": at(0),
        "silence_to": at(1),
        "timestamp": at(5),
        "leader_epoch": 1,
    }


def test_only_what_is_committed_is_read(quorum: Quorum) -> None:
    quorum.write(topic("a"), topic("b"), topic("c"))
    quorum.committed = 2
    assert told(batch_read(options_of(quorum)))[-2:] == [("record", 1, "a"), ("read", 0, 2)]
    quorum.committed = -1
    with pytest.raises(
        ClusterLogError, match=r"no_leader: cluster default: .* does not know yet what is committed"
    ):
        batch_read(options_of(quorum))


def test_offset_0_cannot_be_read_once_there_is_a_snapshot(quorum: Quorum) -> None:
    quorum.write(topic("a"))
    quorum.snapshot(topic("a"))
    quorum.write(topic("b"))
    assert told(batch_read(options_of(quorum))) == [
        ("record", 1, "a"),
        ("record", 2, "b"),
        ("read", 1, 3),
    ]


@pytest.mark.parametrize("starting", ["earliest", "snapshot"])
def test_a_log_that_has_lost_its_beginning_is_read_after_the_snapshot_there(
    quorum: Quorum, starting: str
) -> None:
    quorum.write(topic("a"))
    quorum.elect(2, epochs=5)
    quorum.snapshot(topic("a"), topic("gone"))
    quorum.trim()
    quorum.write(topic("b"))
    quorum.elect(3, epochs=7)
    quorum.snapshot(topic("a"), topic("b"))
    quorum.write(topic("c"))
    snapshot = [("snapshot", 0, "a"), ("snapshot", 1, "gone"), ("read", 0, 2, 3)]
    log = [
        ("record", 3, "b"),
        ("record", 4, "LeaderChangeMessage"),
        ("record", 5, "c"),
        ("read", 3, 6),
    ]
    if starting == "snapshot":
        snapshot, log = (
            [("snapshot", 0, "a"), ("snapshot", 1, "b"), ("read", 0, 2, 5)],
            [log[2], ("read", 5, 6)],
        )
    rows = batch_read(options_of(quorum, startingOffsets=starting))
    assert told(rows) == snapshot + log
    assert {row.get("snapshot_epoch") for row in rows} == {
        None,
        6 if starting == "earliest" else 13,
    }


def test_without_a_snapshot_the_log_is_read_whole(quorum: Quorum) -> None:
    quorum.write(topic("a"))
    assert told(batch_read(options_of(quorum, startingOffsets="snapshot")))[-1] == ("read", 0, 2)


def test_what_is_gone_before_it_is_read_is_said_and_the_state_follows(
    quorum: Quorum, follow: Follow
) -> None:
    quorum.write(topic("a"), topic("b"))
    stream = follow()
    stream.plan()
    planned = stream.plan()
    quorum.write(topic("c"))
    quorum.snapshot(topic("c"))
    quorum.trim()
    # All that was planned is gone, and more than that.
    assert told(stream.read(planned)) == [("lost", 0, 3)]
    quorum.write(topic("d"))
    rows = [
        ("lost", 3, 4),
        ("snapshot", 0, "c"),
        ("read", 0, 1, 4),
        ("record", 4, "d"),
        ("read", 4, 5),
    ]
    assert told(stream.batch()) == rows


def test_a_snapshot_that_is_gone_before_it_is_read(quorum: Quorum, follow: Follow) -> None:
    quorum.write(topic("a"))
    quorum.snapshot(topic("a"))
    stream = follow("snapshot")
    stream.plan()
    quorum.write(topic("b"))
    quorum.snapshot(topic("b"))
    quorum.trim()
    assert told(stream.batch()) == [("lost", 2, 3), ("snapshot", 0, "b"), ("read", 0, 1, 3)]


@pytest.mark.parametrize("trimmed", [False, True])
def test_a_snapshot_that_the_next_active_controller_does_not_have(
    quorum: Quorum, follow: Follow, trimmed: bool
) -> None:
    """Each makes its own: what is to be read begins with the one at which its log does, or with its
    first record.
    """
    quorum.write(topic("a"), topic("b"))
    older = quorum.snapshot(topic("s"))
    quorum.write(topic("c"))
    made = quorum.snapshot(topic("t"))
    stream = follow("snapshot")
    stream.plan()
    assert stream.position is not None
    assert stream.position.snapshot == made
    quorum.elect(2)
    quorum.write(topic("d"))
    quorum.snapshots = {older: quorum.snapshots[older]}
    if trimmed:
        quorum.trim()
    records = [("record", 3, "c"), ("record", 4, "LeaderChangeMessage"), ("record", 5, "d")]
    assert told(stream.batch()) == (
        [("snapshot", 0, "s"), ("read", 0, 1, 3), *records, ("read", 3, 6)]
        if trimmed
        else [("lost", 0, 1), ("record", 1, "a"), ("record", 2, "b"), *records, ("read", 1, 6)]
    )


def test_what_a_log_has_lost_since_it_was_planned_is_lost(quorum: Quorum, follow: Follow) -> None:
    quorum.write(topic("a"), topic("b"))
    stream = follow()
    stream.plan()
    planned = stream.plan()
    del quorum.log[2:]
    assert told(stream.read(planned))[-2:] == [("read", 0, 2), ("lost", 2, 3)]
    # Its new records are not known before the log is read as it is now.
    assert told(stream.batch()) == [("truncated", 3, 2)]
    assert told(stream.batch()) == [
        ("record", 0, "LeaderChangeMessage"),
        ("record", 1, "a"),
        ("read", 0, 2),
    ]


def test_a_silence_may_begin_before_the_span(quorum: Quorum, follow: Follow) -> None:
    quorum.write(topic("a"), NO_OP)
    stream = follow()
    stream.plan()
    stream.batch()
    quorum.now_ms += 20_000
    quorum.write(topic("b"), NO_OP, topic("c"))
    *_, span = stream.batch()
    assert (span["offset"], span["silence_from"], span["silence_to"]) == (3, at(2), at(43))
    assert span["timestamp"] == at(45)


def test_a_log_and_its_snapshots_are_read_at_one_pace(quorum: Quorum) -> None:
    quorum.write(*(topic(f"t{number}") for number in range(30)))
    made = quorum.snapshot(*(topic(f"t{number}") for number in range(30)))
    quorum.write(*(topic(f"u{number}") for number in range(30)))
    clock, end = Waited(), len(quorum.log)
    span = Span("c", CLUSTER_ID, made.offset, end, made, 1)
    # Longer than the timeout, which bounds what controllers take.
    rows = shown(rows_of_span(cluster_of(quorum), span, pace=Pace(10, clock.wait, clock)))
    assert told(rows)[-1] == ("read", made.offset, end)
    asked = [request for _, request, _ in quorum.asked]
    assert {*asked} == {"Fetch", "FetchSnapshot"}
    size = len(quorum.snapshots[made]) + len(quorum.bytes_of(made.offset - 1, end))
    last = len(quorum.bytes_of(end - 1, end))
    assert clock.at == pytest.approx((size - last) / 10)


def test_a_read_that_nobody_takes_any_more_does_not_wait_for_its_pace(quorum: Quorum) -> None:
    quorum.write(*(topic("a" * 10_000) for _ in range(30)))
    source = KafkaClusterLogSource(options_of(quorum, maxBytesPerSecond="10000"))
    read = source.reader(source.schema())
    (task,) = read.partitions()
    rows = iter(read.read(task))
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert (
        len([offset for _, request, offset in quorum.asked if request == "Fetch" and offset < 30])
        < 5
    )


def test_records_that_are_none_are_one_line(quorum: Quorum, follow: Follow) -> None:
    stream = follow()
    stream.plan()
    quorum.write(topic("a"))
    planned = stream.plan()
    quorum.damaged = True
    with pytest.raises(
        ClusterLogError, match=r"protocol: RecordBatch v2: crc at byte \d+: not that of the bytes"
    ):
        stream.read(planned)
    quorum.damaged = False
    quorum.write(topic("b"))
    quorum.damaged = True
    stream.plan()  # or nobody would come to read it, and to say what is wrong


@pytest.mark.parametrize("a_time", [1, 3, 9])
def test_a_bad_batch_is_lost_once_a_snapshot_has_what_it_said(
    quorum: Quorum, follow: Follow, a_time: int
) -> None:
    quorum.a_time = a_time
    quorum.write(topic("a"))
    stream = follow()
    stream.plan()
    stream.batch()
    quorum.write(topic("b"), topic("bad"), topic("c"))
    quorum.bad, before = {3}, stream.position
    planned = stream.plan()
    with pytest.raises(
        ClusterLogError, match=r"protocol: RecordBatch v2: crc at byte \d+: not that of the bytes"
    ):
        stream.read(planned)
    quorum.snapshot(topic("bad"))
    quorum.write(topic("d"))
    # The job plans the batch again.
    stream.position = before
    rows = stream.batch()
    assert told(rows) == [
        ("record", 2, "b"),
        ("read", 2, 3),
        ("lost", 3, 5),
        ("snapshot", 0, "bad"),
        ("read", 0, 1, 5),
        ("record", 5, "d"),
        ("read", 5, 6),
    ]
    (lost,) = (row for row in rows if row.get("went") == "lost")
    assert lost["error"] == "crc: not that of the bytes"


@pytest.mark.parametrize("written", ["before the bad batch", "beyond the span"])
def test_a_snapshot_that_does_not_end_within_the_span_helps_no_bad_batch(
    quorum: Quorum, follow: Follow, written: str
) -> None:
    quorum.write(topic("a"), topic("b"))
    stream = follow()
    stream.plan()
    stream.batch()
    if written == "before the bad batch":
        quorum.snapshot(topic("a"))
    quorum.write(topic("bad"), topic("c"))
    quorum.bad = {3}
    planned = stream.plan()
    if written == "beyond the span":
        quorum.write(topic("d"))
        quorum.snapshot(topic("bad"))
    with pytest.raises(
        ClusterLogError, match=r"protocol: RecordBatch v2: crc at byte \d+: not that of the bytes"
    ):
        stream.read(planned)


class Noisy(Quorum):
    """Every second answer is damaged on its way."""

    def _records_from(self, offset: int, last: int) -> dict[str, Any]:
        self.damaged = len(self.asked) % 2 == 0
        return super()._records_from(offset, last)


def test_a_bad_batch_that_came_so_by_its_way_is_read() -> None:
    with listening(Noisy()) as quorum, closing(Stream(quorum)) as stream:
        stream.plan()
        quorum.write(topic("a"))
        rows = [("record", 0, "LeaderChangeMessage"), ("record", 1, "a"), ("read", 0, 2)]
        assert told(stream.batch()) == rows


# --- random logs ---


@settings(max_examples=examples(10), deadline=None)
@given(st.randoms(use_true_random=False))
def test_each_offset_is_read_or_lost_once_whatever_happens(chance: random.Random) -> None:
    with listening() as quorum:
        quorum.newest = chance.choice((13, 17))
        for _ in range(chance.randrange(9)):
            happen(quorum, chance)
        with closing(Stream(quorum, chance.choice(("earliest", "snapshot")))) as stream:
            stream.plan()
            rows = []
            for _ in range(12):
                planned = stream.plan()
                for _ in range(chance.randrange(3)):
                    happen(quorum, chance)
                rows += stream.read(planned)
        check_fates(rows, quorum)


def check_fates(rows: list[dict[str, Any]], quorum: Quorum) -> None:
    fates = [row for row in rows if row["record"] == "span" and "snapshot_offset" not in row]
    assert {row["went"] for row in fates} <= {"read", "lost"}
    assert all(one["next_offset"] == next_["offset"] for one, next_ in itertools.pairwise(fates))
    read = [
        offset
        for row in fates
        if row["went"] == "read"
        for offset in range(row["offset"], row["next_offset"])
    ]
    expected = [offset for offset in read if quorum.log[offset].value not in {NO_OP, SCRAM}]
    assert [row["offset"] for row in rows if row["record"] == "record"] == expected
    assert sum(
        row["records"] + row["no_ops"] + row["counted"] for row in fates if row["went"] == "read"
    ) == len(read)
    for row in fates:
        if row["went"] == "lost" and row["next_offset"] > 1:
            after = rows[rows.index(row) + 1 :]
            assert not after or (after[0]["record"], after[0].get("snapshot_offset")) in {
                ("snapshot", row["next_offset"]),
                ("span", None),
            }
