"""The extent of the controllers' log: where it begins and ends, where it was cut off, and whether
news came.
"""

import random
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.errors import ClusterLogError
from metadata_source.logs.cluster import positions
from metadata_source.logs.cluster.positions import LogPosition, SnapshotId
from metadata_source.logs.cluster.watcher import LogWatcher
from tests.support.controllers_log import (
    Follow,
    Stream,
    cluster_of,
    cut_off,
    happen,
    listening,
    told,
)
from tests.support.examples import examples
from tests.support.quorum import CLUSTER_ID, Quorum, topic


def test_a_log_that_has_its_beginning_is_read_from_there_though_there_is_a_snapshot(
    quorum: Quorum, follow: Follow
) -> None:
    quorum.write(topic("a"))
    quorum.snapshot(topic("a"))
    stream = follow()
    stream.plan()
    assert stream.position == LogPosition(CLUSTER_ID, 1)


def test_a_log_that_was_made_again_by_hand_is_said_and_read_from_its_begin_on(
    quorum: Quorum, follow: Follow
) -> None:
    quorum.write(topic("a"))
    quorum.elect(2)
    quorum.write(topic("b"), topic("c"))
    stream = follow()
    stream.plan()
    assert told(stream.batch())[-1] == ("read", 0, 5)
    # A controller takes over that never had what the others had committed, and has passed it again.
    del quorum.log[2:]
    quorum.epoch = 7
    quorum.write(*map(topic, "defgh"))
    assert told(stream.batch()) == [("truncated", 5, 2)]
    assert told(stream.batch()) == [
        ("record", 0, "LeaderChangeMessage"),
        *(("record", offset, name) for offset, name in enumerate("adefgh", 1)),
        ("read", 0, 7),
    ]
    assert stream.batch() == []
    # And one that has less.
    del quorum.log[4:]
    assert told(stream.batch()) == [("truncated", 7, 4)]
    assert told(stream.batch())[-1] == ("read", 0, 4)
    assert stream.batch() == []


@pytest.mark.parametrize("starting", ["earliest", "snapshot"])
@pytest.mark.parametrize(
    "covered", [1, 3, 8], ids=["what both have", "what is new", "more than was read"]
)
def test_after_a_log_was_cut_off_its_newest_snapshot_comes_and_the_log_from_there(
    quorum: Quorum, follow: Follow, starting: str, covered: int
) -> None:
    quorum.snapshot(
        topic("old")
    )  # of before both: a controller knows the epochs since its oldest one
    quorum.write(topic("a"))
    quorum.elect(2)
    quorum.write(topic("b"), topic("c"))
    stream = follow(starting)
    stream.plan()
    stream.batch()
    del quorum.log[2:]
    if covered == 1:
        made = quorum.snapshot(topic("s"))
    quorum.epoch = 7
    quorum.write(*(topic(f"t{offset}") for offset in range(2, covered + 1)))
    if covered > 1:
        made = quorum.snapshot(topic("s"))
    quorum.write(topic("last"))
    assert told(stream.batch()) == [("truncated", 5, 2)]
    planned = stream.plan()
    log = [("record", offset, f"t{offset}") for offset in range(made.offset, len(quorum.log) - 1)]
    expected = [
        *(("snapshot", 0, "s"), ("read", 0, 1, made.offset)),
        *(*log, ("record", len(quorum.log) - 1, "last")),
        ("read", made.offset, len(quorum.log)),
    ]
    assert told(stream.read(planned)) == expected
    assert told(stream.read(planned)) == expected, "a batch that is done again is the same"
    assert stream.batch() == []


def test_a_log_that_is_cut_off_twice_before_its_snapshot_was_read(
    quorum: Quorum, follow: Follow
) -> None:
    quorum.snapshot(topic("old"))
    quorum.write(*map(topic, "abcd"))
    stream = follow()
    stream.plan()
    stream.batch()
    del quorum.log[3:]
    quorum.elect(2)
    quorum.write(*map(topic, "ef"))
    quorum.snapshot(topic("gone"))
    assert told(stream.batch()) == [("truncated", 5, 3)]
    del quorum.log[1:]
    quorum.snapshots.clear()
    quorum.elect(3)
    quorum.write(*map(topic, "gh"))
    assert told(stream.batch()) == [("truncated", 6, 1)]
    assert told(stream.batch())[-3:] == [("record", 2, "g"), ("record", 3, "h"), ("read", 0, 4)]
    assert stream.batch() == []


@pytest.mark.parametrize(
    ("covered", "trimmed"), [(3, False), (6, False), (2, True), (3, True), (4, True), (6, True)]
)
def test_a_log_that_was_made_again_is_no_other_log_s_though_they_have_no_epoch_in_common(
    quorum: Quorum, follow: Follow, covered: int, trimmed: bool
) -> None:
    """Of epochs before its oldest snapshot's a leader tells nothing: the record before the position
    has another epoch, or the snapshot that the log begins with.
    """
    quorum.write(*map(topic, "abc"))
    stream = follow()
    stream.plan()
    assert told(stream.batch())[-1] == ("read", 0, 4)
    del quorum.log[1:]
    quorum.elect(2, epochs=5)
    quorum.write(*(topic(f"t{offset}") for offset in range(2, covered)))
    made = quorum.snapshot(topic("s"))
    quorum.write(*(topic(f"t{offset}") for offset in range(covered, 8)))
    if trimmed:
        quorum.trim()
    snapshot = [("snapshot", 0, "s"), ("read", 0, 1, made.offset)]
    log = [
        *(("record", offset, f"t{offset}") for offset in range(made.offset, 8)),
        ("read", made.offset, 8),
    ]
    rows = told(stream.batch())
    if trimmed and covered > 4:
        assert rows == [("lost", 4, made.offset), *snapshot, *log]
    else:
        assert rows == [("truncated", 4, 0)]
        assert told(stream.batch()) == snapshot + log
    assert stream.batch() == []


@pytest.mark.parametrize(("covered", "trimmed"), [(3, False), (6, False), (3, True), (4, True)])
def test_a_log_whose_oldest_snapshot_is_newer_than_the_place_is_read_on(
    quorum: Quorum, follow: Follow, covered: int, trimmed: bool
) -> None:
    quorum.write(*map(topic, "abc"))
    stream = follow()
    stream.plan()
    stream.batch()
    if covered == 3:  # The record that a snapshot ends with has the epoch of the position.
        quorum.snapshots[SnapshotId(3, 1)] = b""
    quorum.elect(2, epochs=5)
    quorum.write(*map(topic, "def"))
    if covered == 4:
        quorum.snapshots[SnapshotId(4, 1)] = b""
    elif covered == 6:
        quorum.snapshot()
    if trimmed:
        quorum.trim()
    records = [
        ("record", 4, "LeaderChangeMessage"),
        *(("record", 5 + at, name) for at, name in enumerate("def")),
    ]
    assert told(stream.batch()) == [*records, ("read", 4, 8)]
    assert stream.batch() == []


def test_a_log_that_is_cut_off_is_not_read_from_where_bronze_ends(quorum: Quorum) -> None:
    """`resumeAt` says where a lost checkpoint stood, and nothing about the log of today."""
    quorum.write(*map(topic, "abc"))
    with closing(LogWatcher(cluster_of(quorum), "earliest", 1_000, resume_at=4)) as watcher:
        position = watcher.ask_extent(None).first
        assert position == LogPosition(CLUSTER_ID, 4)
        del quorum.log[2:]
        assert positions.following(position, watcher.ask_extent(position)) == LogPosition(
            CLUSTER_ID, 0, cut=2
        )


def test_a_controller_that_does_not_know_that_it_is_active_no_more_is_left(quorum: Quorum) -> None:
    """It is cut off from the others, and answers as it did."""
    quorum.cut_off = {1: Quorum()}
    position = LogPosition(CLUSTER_ID, 1)
    with closing(LogWatcher(cluster_of(quorum), "earliest", 1_000)) as watcher:
        assert watcher.ask_extent(position).end == 1
        quorum.elect(2)
        ends = [watcher.ask_extent(position).end for _ in range(5)]
    assert 2 in ends


def test_where_nothing_comes_another_controller_is_asked(quorum: Quorum) -> None:
    """The one that is asked is cut off from the others."""
    quorum.cut_off = {1: Quorum()}
    position = LogPosition(CLUSTER_ID, 1)
    with closing(LogWatcher(cluster_of(quorum), "earliest", 1_000)) as watcher:
        watcher.ask_extent(position)
        quorum.elect(2)
        assert watcher.wait(position, 0.2) is None
        with pytest.raises(
            ClusterLogError, match="no_leader: the log has moved on under another leader epoch"
        ):
            watcher.wait(position, 0.2)
        assert watcher.ask_extent(position).end == 2


# --- random logs ---


@settings(max_examples=examples(10), deadline=None)
@given(st.randoms(use_true_random=False))
def test_after_each_truncation_the_log_is_read_as_one_that_was_just_found(
    chance: random.Random,
) -> None:
    """Whatever happens between: up to its end nothing is left out, and a batch that is done again
    is the same.
    """
    with listening() as quorum:
        check_truncations(quorum, chance)


def check_truncations(quorum: Quorum, chance: random.Random) -> None:
    for _ in range(chance.randrange(9)):
        happen(quorum, chance)
    starting = chance.choice(("earliest", "snapshot"))
    with closing(Stream(quorum, starting)) as stream:
        rows = list[dict[str, Any]]()
        stream.plan()
        for step in range(12):
            if chance.random() < 0.3:
                cut_off(quorum, chance)
            elif step < 11:
                happen(quorum, chance)
            planned = stream.plan()
            rows += stream.read(planned)
            assert stream.read(planned) == stream.read(planned)
        for _ in range(2):
            rows += stream.batch()
        assert stream.plan() == []
        since = max(
            (position for position, row in enumerate(rows) if row.get("went") == "truncated"),
            default=None,
        )
        if since is not None:
            known = -1
            for row in rows[since + 1 :]:
                if row["record"] == "span":
                    is_begin = "snapshot_offset" in row or row["offset"] < 2
                    assert is_begin or row["went"] == "lost" or known >= row["offset"]
                    known = row.get(
                        "snapshot_offset", row["next_offset"] if row["went"] == "read" else -1
                    )
            assert known == len(quorum.log)
