"""The fold of the controllers' log where a part was lost or written again."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.ids import log_id
from jobs.rules.log.silver import TABLES, image_of
from tests.support.cluster_logs import (
    LEADER_CHANGE,
    START,
    Entry,
    RandomLog,
    Row,
    record,
    rows_of,
    rows_of_snapshot,
    snapshot_of,
    span,
)
from tests.support.examples import examples
from tests.support.log_cases import a_log, change, check_rows, state_of, was_read, whole
from tests.support.log_rounds import LogLake

BATCHES = 25
chances = st.randoms(use_true_random=False)
logs = chances.map(lambda chance: RandomLog(chance).grow(BATCHES))
PARTITIONS, TOPICS = "silver.partition_snapshots", "silver.topic_snapshots"


def test_a_break_that_lost_nothing_that_was_to_come_is_none() -> None:
    rows = a_log((change(isr=[1]), 2))
    taken = whole(rows)
    # Up to what was taken already; and what a snapshot has told, once more.
    for marks in ([span("lost", 2, 4)], [span("truncated", 9, 4)]):
        lake = whole(rows)
        again = a_log((change(isr=[1]), 2), (change(isr=[1, 2]), 3))
        lake.take([*marks, *again, was_read(again)])
        assert [row["isr"] for row in lake.live[PARTITIONS]] == [[1, 2]]
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(taken.live)), 9, 1, START + timedelta(seconds=9)
    )
    lost = [span("lost", 4, 9), *snapshot]
    lake = whole([*rows, *lost])
    before = lake.rows
    lake.take([*lost, *rows_of([Entry(9, 1, START + timedelta(seconds=10), *record(20))])])
    assert lake.rows == before
    assert lake.state is not None
    assert lake.state.is_whole


def test_a_snapshot_of_an_older_clock_changes_nothing_before_what_is_known() -> None:
    """Clocks of controllers differ, and times never decrease."""
    rows = a_log((change(isr=[1]), 9))
    then = snapshot_of(image_of(whole(rows[:3]).live))
    lake = whole([*rows, span("lost", 4, 6), *rows_of_snapshot(then, 6, 1, START)])
    (ended, began) = sorted(lake.rows[PARTITIONS], key=lambda row: row["first_poll"])[-2:]
    assert (ended["isr"], began["isr"]) == ([1], [1, 2])
    assert ended["valid_to"] == began["valid_from"] == START + timedelta(seconds=9)


def test_who_was_the_controller_before_what_was_lost_is_not_known_after_it() -> None:
    def elected(controller: int, offset: int, epoch: int) -> list[Row]:
        told = {"leader_id": controller}
        return rows_of([Entry(offset, epoch, START, LEADER_CHANGE, 0, told, is_control=True)])

    then = snapshot_of(image_of(whole(a_log()).live))
    lost = [span("lost", 4, 9), *rows_of_snapshot(then, 9, 2, START)]
    lake = whole([*a_log(), *elected(1, 3, 2), *lost, *elected(3, 9, 7)])
    rows = sorted(lake.rows["gold.controller_changes"], key=lambda row: row["controller_epoch"])
    assert [
        (row["controller_id"], row["prev_controller_id"], row["prev_controller_epoch"])
        for row in rows
    ] == [(1, None, None), (3, None, None)]


def test_a_topic_that_was_made_again_while_the_log_was_lost_is_another_one() -> None:
    then = image_of(whole(a_log()).live)
    again = "CQkJCQkJCQkJCQkJCQkJCQ"
    then.topics["t"] = then.topics["t"] | {"topic_id": again}
    then.partitions["t", 0] = then.partitions["t", 0] | {"topic_id": again}
    snapshot = rows_of_snapshot(snapshot_of(then), 9, 1, START + timedelta(seconds=9))
    lake = whole([*a_log(), span("lost", 3, 9), *snapshot])
    for table in (TOPICS, PARTITIONS):
        ended, began = sorted(lake.rows[table], key=lambda row: row["first_poll"])
        assert (ended["end_reason"], began["end_reason"]) == ("recreated", None)
        assert began["topic_id"] == again


def test_a_log_that_has_lost_its_end_is_not_told_again() -> None:
    """What changed before is history already, with its times. The difference came between two
    observations.
    """
    rows = a_log((change(isr=[1]), 2), (change(isr=[1, 2]), 3), (change(leader=2), 9))
    found = START + timedelta(seconds=60)
    again = [row | {"read_at": found} for row in rows[:5]]
    lake = whole(rows)
    lake.take([span("truncated", 6, 5, found), *again, was_read(again)])
    states = sorted(lake.rows[PARTITIONS], key=lambda row: row["first_poll"])
    assert [(row["leader"], row["isr"]) for row in states] == [
        (1, [1, 2]),
        (1, [1]),
        (1, [1, 2]),
        (2, [1, 2]),
        (1, [1, 2]),
    ]
    last = log_id("", 5)
    assert (states[-1]["first_poll"], states[-1]["prev_poll"]) == (log_id(last, 4), last)
    assert lake.rows[TOPICS] == whole(rows).rows[TOPICS], "the topic was there all the time"


def test_the_snapshot_after_a_truncation_is_taken_though_the_log_was_not_known_before_it() -> None:
    """Its end was lost while it was read: that is said first, and then where it was cut off."""
    rows = a_log((change(isr=[1]), 2))
    found = START + timedelta(seconds=60)
    for cut in (3, 4):
        lake = whole([*rows, span("lost", 4, 9, found - timedelta(seconds=1))])
        snapshot = rows_of_snapshot(
            snapshot_of(image_of(whole(rows[:3]).live)), 3, 2, START + timedelta(seconds=3)
        )
        news = [span("truncated", 9, cut, found), *(row | {"read_at": found} for row in snapshot)]
        lake.take(news)
        assert lake.state is not None
        assert (lake.state.is_whole, lake.state.next_offset) == (True, 3)
        assert [row["isr"] for row in lake.live[PARTITIONS]] == [[1, 2]]


def test_rows_of_before_a_truncation_that_come_again_say_nothing() -> None:
    """A snapshot among them is of the log that is no more."""
    rows = a_log((change(isr=[1]), 2))
    old = rows_of_snapshot(
        snapshot_of(image_of(whole(rows).live)), 4, 1, START + timedelta(seconds=2)
    )
    found = START + timedelta(seconds=60)
    cut = [*old, span("truncated", 4, 3, found)]
    again = [row | {"read_at": found} for row in rows[:3]]
    lake = whole(cut)
    lake.take([*cut, *again])
    assert lake.state is not None
    assert lake.state.is_open, "it is not said yet what was read"
    lake.take([*cut, *again, was_read(again)])
    assert (lake.state.is_open, lake.state.is_whole, lake.state.next_offset) == (False, True, 3)
    assert [row["isr"] for row in lake.live[PARTITIONS]] == [[1, 2]]


def test_a_truncation_is_taken_once() -> None:
    rows = a_log((change(isr=[1]), 2))
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(whole(rows[:3]).live)), 3, 2, START + timedelta(seconds=3)
    )
    again = [Entry(3, 2, START + timedelta(seconds=4), *change(leader=2))]
    marks = [span("truncated", 4, 3), *snapshot, *rows_of(again)]
    lake = whole([*rows, *marks])
    assert [(row["leader"], row["isr"]) for row in lake.live[PARTITIONS]] == [(2, [1, 2])]
    before = lake.rows
    lake.take(marks)
    assert lake.rows == before


# --- random logs ---


@dataclass(frozen=True)
class Broken:
    """A log of which a part was lost, or truncated and written otherwise: `known` before that, and
    the `rows` after it. `offset`: of the snapshot that came. `marks`: how many rows come before it.
    """

    entries: list[Entry]
    known: list[Entry]
    rows: list[Row]
    offset: int
    marks: int

    def history(self, cuts: Sequence[float] = ()) -> LogLake:
        """The tables after all, in rounds that are cut so."""
        lake, done, count = whole(rows_of(self.known)), 0, len(self.rows) - self.marks
        for end in sorted({*(self.marks + int(cut * count) for cut in cuts), len(self.rows)}):
            lake.take(self.rows[done:end])
            # Records that a round could not take come again.
            assert lake.state is not None
            if lake.state.is_whole:
                held = (
                    place
                    for place, row in enumerate(self.rows[:end])
                    if row["record"] == "record" and row["offset"] >= lake.state.next_offset
                )
                done = next(held, end)
        return lake


def broken(went: str, chance: random.Random) -> Broken:
    entries = RandomLog(chance).grow(BATCHES)
    first, second = sorted(chance.sample(range(len(entries) // 4, len(entries)), 2))
    then = whole(rows_of(entries[: second + 1]))
    assert then.state is not None
    offset = then.state.next_offset
    rest = [entry for entry in entries if entry.offset >= offset]
    before = entries[: first + 1]
    image = image_of(then.live)
    rows = rows_of_snapshot(snapshot_of(image), offset, 1, entries[second].at)
    if went == "truncated":
        # The same states, but at lower offsets, and in a later epoch.
        down = min(offset - 1, before[-1].offset) - 1
        rows = rows_of_snapshot(snapshot_of(image), offset - down, 1, entries[second].at)
        rest = [
            Entry(**{**vars(e), "offset": e.offset - down, "leader_epoch": e.leader_epoch + 50})
            for e in rest
        ]
        marks = [span(went, before[-1].offset + 1, 1)]
        offset -= down
    else:
        marks = [span(went, before[-1].offset + 1, offset)]
    return Broken(entries, before, [*marks, *rows, *rows_of(rest)], offset, len(marks))


@pytest.mark.parametrize("went", ["lost", "truncated"])
@given(chance=chances)
@settings(max_examples=examples(4))
def test_what_was_lost_is_one_bounded_observation(went: str, chance: random.Random) -> None:
    log = broken(went, chance)
    known, lake, offset = whole(rows_of(log.known)), log.history(), log.offset
    check_rows(lake)
    assert known.state is not None
    assert known.state.last is not None
    if went == "lost" and offset <= known.state.next_offset:
        return  # It was of an open transaction, and comes again.
    place = log_id("" if went == "lost" else known.state.last.id, offset - 1)
    for row in (
        row for table in TABLES for row in lake.rows[table.full_name] if row["first_poll"] == place
    ):
        assert (row["prev_poll"], row["prev_sent_at"]) == (known.state.last.id, known.state.last.at)
        assert row["valid_from"] >= row["prev_sent_at"]
    ended = [
        row
        for table in TABLES
        for row in lake.rows[table.full_name]
        if row["superseded_poll"] == place
    ]
    assert all(row["last_seen_sent_at"] == known.state.last.at for row in ended)


@pytest.mark.parametrize("went", ["lost", "truncated"])
@given(chance=chances)
@settings(max_examples=examples(4))
def test_after_a_break_the_state_is_that_of_the_log(went: str, chance: random.Random) -> None:
    log = broken(went, chance)
    assert state_of(log.history()) == state_of(whole(rows_of(log.entries)))


@pytest.mark.parametrize("went", ["lost", "truncated"])
@given(chance=chances, cuts=st.lists(st.floats(0, 1), max_size=4))
@settings(max_examples=examples(4))
def test_a_break_may_be_cut_anywhere(went: str, chance: random.Random, cuts: list[float]) -> None:
    log = broken(went, chance)
    assert log.history(cuts).rows == log.history().rows


@given(logs)
@settings(max_examples=examples(4))
def test_states_of_a_first_snapshot_have_no_begin(entries: list[Entry]) -> None:
    then = whole(rows_of(entries))
    assert then.state is not None
    offset, at = then.state.next_offset, START + timedelta(hours=1)
    lake = whole(rows_of_snapshot(snapshot_of(image_of(then.live)), offset, 3, at))
    check_rows(lake)
    assert state_of(lake) == state_of(then)
    for table in TABLES:
        for row in lake.rows[table.full_name]:
            assert (row["first_poll"], row["valid_from"]) == (log_id("", offset - 1), at)
            assert (row["prev_poll"], row["prev_sent_at"], row["valid_to"]) == (None, None, None)


@pytest.mark.parametrize("first", [0, 1])
@given(chance=chances, entries=logs, cuts=st.lists(st.floats(0, 1), max_size=4))
@settings(max_examples=examples(4))
def test_a_log_that_begins_again_is_one_observation_of_what_was_read_then(
    first: int, chance: random.Random, entries: list[Entry], cuts: list[float]
) -> None:
    """It may be another log, or the same one that has lost its end: the state is that of it as it
    is now.
    """
    other = chance.choice((entries, RandomLog(random.Random(7)).grow(BATCHES)))
    before = rows_of(entries)[: chance.randint(len(entries) // 2, len(entries))]
    known, lake = whole(before), whole(before)
    assert known.state is not None
    assert known.state.last is not None

    later = [
        Entry(**{**vars(e), "leader_epoch": e.leader_epoch + 50})
        for e in other
        if e.offset >= first
    ]
    found = START + timedelta(days=1)
    again = [row | {"read_at": found} for row in rows_of(later)]
    end = chance.randint(len(later) // 2, len(later))
    marks = [span("truncated", before[-1]["offset"] + 1, chance.randint(0, 9), found)]
    # Offset 0 cannot be read once there is a snapshot.
    marks += [span("lost", 0, 1, found)] * (first and chance.randint(0, 1))
    batches = [*again[:end], was_read(again[:end], first), *again[end:], was_read(again[-1:])]
    feed(lake, [*before, *marks, *batches], len(before), cuts)

    check_rows(lake)
    assert state_of(lake) == state_of(whole(rows_of(other)))
    observed, last = end_of_observation(later[:end]) - 1, known.state.last
    rows = [
        row for table in TABLES for row in lake.rows[table.full_name] if row["first_poll"] > last.id
    ]
    assert all(row["first_poll"] >= log_id(last.id, observed) for row in rows)
    for row in rows:
        if row["first_poll"] == log_id(last.id, observed):
            assert (row["prev_poll"], row["prev_sent_at"]) == (last.id, last.at)


def end_of_observation(entries: Sequence[Entry]) -> int:
    """The offset after all that is in effect: that of a transaction that is open, or the last one's
    next.
    """
    begin = None
    for entry in entries:
        if entry.transaction is not None:
            begin = entry.offset if entry.transaction == 23 else None
    return entries[-1].offset + 1 if begin is None else begin


def feed(lake: LogLake, rows: Sequence[Row], done: int, cuts: Sequence[float]) -> None:
    """Rounds that end anywhere. Rows that a round could not take come again, with all that came
    before them.
    """
    ends = sorted({*(done + int(cut * (len(rows) - done)) for cut in cuts), len(rows)})
    for end in ends:
        lake.take(rows[done:end])
        assert lake.state is not None
        if not lake.state.is_open:
            done = end
