"""How far groups are behind: of what visits told of their offsets."""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.burrow import WINDOW
from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import LISTED, Commit, GroupAnswer, Memory, Visit, fold
from jobs.rules.groups.state import from_micros, to_micros
from schemas import consumption
from schemas.table import PART
from tests.support.burrow import ConsumerOffset, calculate_partition_status, lag_of
from tests.support.examples import examples

Row = dict[str, Any]
Key = tuple[str, int]
Said = dict[Key, tuple[int | None, int | None]] | None | str
"""Committed offset and end of each partition; None: not listed; text: why it could not be told."""

GROUP = Group("id-prod", "prod", "g")
MINUTE = 60_000_000
BEGIN = to_micros(from_micros(0).replace(year=2026))


def visit(number: int, every: int = MINUTE, **filters: str | None) -> Visit:
    """A poll that is answered after a second; commits of the group have been read after another."""
    due = BEGIN + number * every
    return Visit(f"s/{number:012}", due, due + 1_000_000, due + 3_000_000, **filters)


def at(number: int, seconds: int = 2, every: int = MINUTE) -> Any:
    """When the commits had been read of a visit."""
    return from_micros(BEGIN + number * every + seconds * 1_000_000)


@dataclass
class Rounds:
    """The rows and the memory of one group as rounds leave them."""

    memory: str | None = None
    before: Visit | None = None
    lag: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    quiet: int = 0
    """Rounds that had nothing to write."""

    def take(self, *said: tuple[Visit, Said]) -> None:
        memory = None if self.memory is None else Memory.from_json(json.loads(self.memory))
        live = next((row for row in self.lag if row["valid_to"] is None), None)
        told = {}
        for each, of_group in said:
            if of_group is not None:
                commits = (
                    None
                    if isinstance(of_group, str)
                    else [Commit(*k, *v) for k, v in sorted(of_group.items())]
                )
                told[each.poll] = GroupAnswer(each.due + 2_000_000, False, commits)
        visits = [each for each, _ in said]
        remembered, made = fold(GROUP, memory, live, visits, told=told, before=self.before)
        text = None if remembered is None else json.dumps(remembered.to_json())
        self.quiet += text == self.memory and not made.lag and not made.removed
        self.memory, self.before = text, visits[-1] if visits else self.before
        changed = {row["first_poll"] for row in made.lag}
        kept = [
            row
            for row in self.lag
            if row["valid_to"] is not None or row["first_poll"] not in changed
        ]
        self.lag = sorted([*kept, *made.lag], key=lambda row: row["first_poll"])
        self.removed += made.removed
        assert len({row["first_poll"] for row in self.lag}) == len(self.lag)

    def all(self, *said: Said, every: int = MINUTE) -> "Rounds":
        """One visit after the other, a round each."""
        first = 0 if self.before is None else (self.before.due - BEGIN) // every + 1
        for number, each in enumerate(said, first):
            self.take((visit(number, every), each))
        return self

    def of(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in self.lag]

    @property
    def last(self) -> Row:
        return self.lag[-1]


def one(offset: int | None, end: int | None) -> Said:
    return {("t", 0): (offset, end)}


def test_rows_have_the_columns_of_their_tables():
    rounds = Rounds().all(one(3, 5), {})
    by_job = {"updated_at", PART}
    assert set(rounds.lag[0]) == set(consumption.GROUP_LAG.column_names) - by_job
    assert set(rounds.removed[0]) == set(consumption.REMOVED_COMMITS.column_names)


def test_lag_is_between_what_was_there_before_and_what_is_there_now():
    rounds = Rounds().all(
        {("t", 0): (90, 100), ("t", 1): (7, 7)},
        {("t", 0): (95, 110), ("t", 1): (7, 9)},
        {("t", 0): (110, 110), ("t", 1): (9, 9)},
    )
    assert rounds.of(
        "lag_min", "lag_max", "largest_lag_min", "largest_lag_max", "partitions_behind"
    ) == [
        (None, 10, None, 10, 1),
        (5, 17, 5, 15, 2),
        (0, 0, 0, 0, 0),
    ]
    assert rounds.of("committed_sum", "partitions", "valid_from", "valid_to", "last_seen_at") == [
        (97, 2, at(0), at(1), at(0, 1)),
        (102, 2, at(1), at(2), at(1, 1)),
        (119, 2, at(2), None, None),
    ]


def test_a_group_in_which_nothing_changes_has_one_row_and_after_a_window_writes_nothing():
    rounds = Rounds().all(*[one(5, 5)] * 30)
    assert rounds.of("lag_min", "lag_max") == [(None, 0), (0, 0)], "the second has bounds"
    assert rounds.quiet == 30 - WINDOW
    behind = Rounds().all(*[one(5, 9)] * 30)
    assert behind.of("burrow_status", "partitions_without_progress") == [
        (None, 0),
        (None, 1),
        ("ERROR", 1),
    ]
    assert behind.quiet > 30 - 2 * WINDOW


def test_there_is_at_most_one_row_a_minute_by_when_polls_were_due():
    seconds = 1_000_000
    rounds = Rounds().all(*(one(n, 100) for n in range(13)), every=10 * seconds)
    assert [row["first_poll"][-2:] for row in rounds.lag] == ["00", "06", "12"]
    assert rounds.of("committed_sum", "valid_from", "last_seen_at") == [
        (0, at(0), at(0, 1)),
        (6, at(6, every=10 * seconds), at(6, 1, 10 * seconds)),
        (12, at(12, every=10 * seconds), None),
    ]
    still = Rounds().all(*[one(1, 1)] * 4, *[one(2, 2)] * 7, *[one(3, 3)] * 9, every=10 * seconds)
    assert still.of("committed_sum", "last_seen_at") == [
        (1, at(0, 1)),
        (2, at(10, 1, 10 * seconds)),
        (3, None),
    ], "bounds of lag come with the second visit"
    back = Rounds().all(one(1, 9))
    back.take((visit(-5)._replace(poll="s/000000000001"), one(2, 9)))
    assert len(back.lag) == 2, "a clock that was set back stops nothing"
    assert {*back.of("valid_from", "valid_to")} == {(at(0), at(0)), (at(0), None)}


def test_what_cannot_be_told_is_no_lag_of_zero():
    rounds = Rounds().all(
        {("t", 0): (5, 9), ("gone", 0): (3, 4)},
        {("t", 0): (5, 9), ("gone", 0): (3, None)},
        {("t", 0): (None, None), ("gone", 0): (3, None), ("new", 1): (None, None)},
        {("t", 0): (6, 9), ("gone", 0): (3, 4)},
    )
    assert rounds.of(
        "lag_min", "lag_max", "largest_lag_min", "largest_lag_max", "partitions_unknown"
    ) == [
        (None, 5, None, 4, 0),
        (4, None, 4, None, 1),
        (None, None, None, None, 3),
        (4, 4, 3, 3, 0),
    ]
    assert rounds.of("partitions") == [(2,), (2,), (2,), (2,)]
    assert not rounds.removed, "a commit that could not be told is there"
    assert Rounds().all({}).of(
        "partitions", "committed_sum", "lag_max", "oldest_commit_before", "burrow_status"
    ) == [(0, None, None, None, None)]


def test_an_end_that_falls_is_of_another_log_and_a_commit_beyond_it_has_no_lag():
    rounds = Rounds().all(one(50, 60), one(50, 10), one(2, 12))
    assert rounds.of("lag_min", "lag_max") == [(None, 10), (0, 0), (8, 10)]


def test_a_commit_that_is_there_no_more_was_removed_between_two_visits():
    rounds = Rounds().all({("t", 0): (5, 9), ("t", 1): (6, 9)}, "failed: no answer", one(5, 9), {})
    assert [tuple(row.values())[3:] for row in rounds.removed] == [
        ("t", 1, 6, "s/000000000002", at(0, 1), at(2), False),
        ("t", 0, 5, "s/000000000003", at(2, 1), at(3), False),
    ]
    assert rounds.of("partitions") == [(2,), (1,), (0,)]


def test_a_group_that_is_deleted_and_made_again_is_another_one():
    rounds = Rounds().all(one(5, 9), one(5, 9), None, None, one(1, 9), one(1, 9))
    assert rounds.of("first_poll", "valid_to", "last_seen_at", "end_reason", "lag_min") == [
        ("s/000000000000", at(1), at(0, 1), None, None),
        ("s/000000000001", at(2, 3), at(1, 1), "gone", 4),
        ("s/000000000004", at(5), at(4, 1), None, None),
        ("s/000000000005", None, None, None, 8),
    ]
    assert [
        (row["committed_offset"], row["is_group_gone"], row["poll"]) for row in rounds.removed
    ] == [(5, True, "s/000000000002")]
    assert rounds.last["oldest_commit_after"] is None, (
        "nobody knows when it was made before it was seen"
    )


def test_a_visit_that_could_not_tell_says_nothing():
    rounds = Rounds().all(
        "failed: at once", one(5, 9), "failed: no answer", "failed: no answer", one(5, 9), one(7, 9)
    )
    assert rounds.of("first_poll", "valid_to", "last_seen_at", "lag_min", "lag_max") == [
        ("s/000000000001", at(4), at(1, 1), None, 4),
        ("s/000000000004", at(5), at(4, 1), 4, 4),
        ("s/000000000005", None, None, 2, 2),
    ]
    assert not rounds.removed
    lost = Rounds().all(one(5, 9), "failed: no answer", None)
    assert lost.of("last_seen_at", "end_reason") == [(at(0, 1), "gone")]
    assert lost.removed[0]["removed_after"] == at(0, 1)


def test_what_the_filters_cover_no_more_is_neither_removed_nor_gone():
    rounds = Rounds().all({("t", 0): (5, 9), ("u", 0): (6, 9)})
    rounds.take((visit(1, topic_filter='{"pattern":"u.*"}'), {("u", 0): (6, 9)}))
    assert not rounds.removed
    assert rounds.last["partitions"] == 1
    rounds.take((visit(2, topic_filter='{"pattern":"u.*"}'), {}))
    assert [row["topic"] for row in rounds.removed] == ["u"]
    rounds.take((visit(3), one(5, 9)))
    assert rounds.last["oldest_commit_after"] is None, "it may have been there all the time"
    rounds.take((visit(4, groups_pattern="(?i)G"), one(5, 9)))
    rounds.take((visit(5, groups_pattern="g.+"), None))
    assert rounds.last["end_reason"] == "not_polled"
    assert len(rounds.removed) == 1
    rounds.take((visit(6, groups_pattern="g.*"), one(5, 9)), (visit(7, groups_pattern="g.*"), None))
    assert rounds.last["end_reason"] == "gone"
    assert len(rounds.removed) == 2


def test_the_oldest_commit_has_bounds():
    rounds = Rounds().all(
        {("t", 0): (5, 9), ("t", 1): (5, 9)}, {("t", 0): (6, 9), ("t", 1): (5, 9)}
    )
    assert rounds.of("oldest_commit_after", "oldest_commit_before") == [
        (None, at(0)),
        (None, at(0)),
    ]
    rounds.all({("t", 0): (6, 9), ("t", 1): (6, 9)}, {("t", 0): (6, 9), ("t", 1): (7, 9)})
    assert rounds.of("oldest_commit_after", "oldest_commit_before")[2:] == [(at(0, 1), at(1))] * 2
    rounds.all({("t", 0): (6, 9), ("t", 1): (7, 9), ("t", 2): (1, 9)}, {("t", 2): (1, 9)})
    assert rounds.of("oldest_commit_after", "oldest_commit_before")[-1:] == [(at(3, 1), at(4))]


def status_of(*said: tuple[int, int], at_minutes: list[int] | None = None) -> str | None:
    rounds = Rounds()
    for number, each in zip(at_minutes or range(len(said)), said, strict=True):
        rounds.take((visit(number), one(*each)))
    (status,) = {each["burrow_status"] for each in rounds.last["not_well"]} or {"OK"}
    group = {"OK": "OK", "WARNING": "WARNING", None: None}.get(status, "ERROR")
    assert rounds.last["burrow_status"] == group
    return status


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ([(n, n) for n in range(12)], "OK"),
        ([(n, 2 * n + 5) for n in range(12)], "WARNING"),
        ([(n, 20 - n // 5) for n in range(12)], "OK"),
        ([(n, 2 * n) for n in range(10)], "OK"),
        ([(n, 2 * n) for n in range(11)], "WARNING"),
        ([(5, 9 + n) for n in range(10)], "STALL"),
        ([(min(n, 8), 2 * n + 5) for n in range(13)], "WARNING"),
        ([(min(n, 8), 2 * n + 5) for n in range(14)], "STOP"),
        ([(min(n, 8), 2 * n + 5) for n in range(17)], "STOP"),
        ([(min(n, 8), 2 * n + 5) for n in range(18)], "STALL"),
        ([*((n, 2 * n + 5) for n in range(9)), (3, 30)], "REWIND"),
        ([(9, 20), *((n, 2 * n + 15) for n in range(9))], "REWIND"),
        ([(9, 20), *((n, 2 * n + 15) for n in range(10))], "WARNING"),
        ([*((n, 2 * n + 5) for n in range(9)), (3, 3)], "OK"),
        # Offsets are reset to the begin of the log: though it had no lag, and as long as the fall
        # is in the window.
        ([*[(500, 500)] * 12, (0, 500), (1, 500)], "REWIND"),
        ([*[(500, 500)] * 12, *((n, 500) for n in range(9))], "REWIND"),
        ([*[(500, 500)] * 12, *((n, 500 + 2 * n) for n in range(10))], "WARNING"),
        # A member that loses its partition commits an old offset late, and the next one is past it.
        ([*((n, 2 * n + 5) for n in range(9)), (3, 30), (10, 31)], "OK"),
        ([*((n, 2 * n + 5) for n in range(9)), (3, 30), (8, 31)], "OK"),
        ([*((n, 2 * n + 5) for n in range(9)), (3, 30), (7, 31)], "REWIND"),
        # The first fall of the window alone is looked at.
        ([(n, 99) for n in (50, 51, 40, 52, 60, 53, 54, 55, 56, 57)], "OK"),
        ([(n, 99 + n) for n in (51, 40, 52, 60, 53, 54, 55, 56, 57, 58)], "WARNING"),
        # It has stopped, though it had no lag before; unless it had reached what was the end not
        # long ago.
        ([(0, 5), (0, 5), (5, 9), *[(5, 9 + n) for n in range(7)]], "OK"),
        ([(0, 6), (0, 6), (5, 9), *[(5, 9 + n) for n in range(7)]], "STOP"),
        ([(8, 8), (8, 9), (7, 9), *[(7, 9)] * 7], "STOP"),
        # It commits nothing else, though there is less to consume: its log was cut off.
        ([(5, 30 - n) for n in range(10)], "STALL"),
        ([(5, 5), *[(5, 9)] * 9], "OK"),
        ([(5, 5), *[(5, 9)] * 10], "STALL"),
        # A commit beyond the end has no lag to Burrow.
        ([*((n, 2 * n + 5) for n in range(9)), (40, 30)], "OK"),
        ([(40, 30), *((n, 2 * n + 45) for n in range(40, 49))], "OK"),
    ],
)
def test_burrow_judges_the_last_ten_visits(said, status):
    assert status_of(*said) == status


@pytest.mark.parametrize(("last", "status"), [(10, "WARNING"), (11, "STOP")])
def test_a_group_has_stopped_once_it_was_silent_for_longer_than_it_committed(last, status):
    offsets = [*range(6), 5, 5, 5, 5]
    said = [(offset, 50 + n) for n, offset in enumerate(offsets)]
    assert status_of(*said, at_minutes=[*range(9), last]) == status


def test_a_group_is_as_bad_as_its_worst_partition():
    slow, well, stopped = (
        [(n, 2 * n + 5) for n in range(10)],
        [(n, n) for n in range(10)],
        [(5, 9)] * 10,
    )
    for of_partitions, status in [
        ((slow, well), "WARNING"),
        ((well, slow, stopped), "ERROR"),
        ((well, well), "OK"),
    ]:
        each = [
            dict(zip((("t", n) for n in range(3)), said, strict=False))
            for said in zip(*of_partitions, strict=True)
        ]
        assert Rounds().all(*each).last["burrow_status"] == status


def test_a_partition_that_is_behind_gets_on_if_another_offset_is_committed():
    moved, still = one(5, 30), one(4, 30)
    assert Rounds().all(one(4, 20), moved).of("lag_min", "partitions_without_progress") == [
        (None, 0),
        (15, 0),
    ]
    assert Rounds().all(one(4, 20), still).of("lag_min", "partitions_without_progress") == [
        (None, 0),
        (16, 1),
    ]
    assert Rounds().all(one(20, 20), one(20, 30)).of("lag_min", "partitions_without_progress") == [
        (None, 0),
        (0, 0),
    ]


def test_an_offset_that_a_visit_lacks_is_as_it_was():
    rounds = Rounds().all(one(5, 9), one(None, None), one(None, 9))
    assert rounds.of("committed_sum", "partitions_unknown") == [(5, 0), (5, 1)]


@pytest.mark.parametrize(
    ("said", "lags"),
    [
        # Of one partition each (lag_min, lag_max) by visit: committed offset and end.
        ([(50, 10)], [(None, -40)]),
        ([(50, 10), (50, 10)], [(None, -40), (-40, -40)]),
        ([(50, 10), (50, 49)], [(None, -40), (-40, -1)]),
        ([(50, 60), (50, 20)], [(None, 10), (-30, -30)]),
        ([(50, 10), (50, 50)], [(None, -40), (0, 0)]),
        ([(50, 60), (70, 75)], [(None, 10), (0, 5)]),
    ],
)
def test_the_lag_of_a_commit_beyond_the_end_is_negative(said, lags):
    rounds = Rounds().all(*(one(*each) for each in said))
    assert rounds.of("largest_lag_min", "largest_lag_max") == lags
    for (_, most), row in zip(lags, rounds.lag, strict=True):
        assert (row["lag_max"], row["partitions_behind"], row["partitions_beyond"]) == (
            *(max(0, most), most > 0),
            most < 0,
        )
        assert [each["lag_max"] for each in row["not_well"]] == ([most] if most < 0 else [])
        assert row["partitions_without_progress"] == 0
        assert (row["burrow_status"] == "OK") == (most <= 0)


def test_a_negative_lag_hides_no_other():
    rounds = Rounds().all(*[{("t", 0): (50, 10), ("t", 1): (5, 45)}] * 2)
    last = rounds.last
    assert (
        last["lag_min"],
        last["lag_max"],
        last["largest_lag_max"],
        last["partitions_beyond"],
    ) == (40, 40, 40, 1)
    assert [(each["partition"], each["lag_max"]) for each in last["not_well"]] == [
        (1, 40),
        (0, -40),
    ]


def test_a_removal_is_no_earlier_than_what_is_before_it_though_a_clock_was_set_back():
    rounds = Rounds().all(one(5, 9))
    rounds.take((visit(-5)._replace(poll="s/000000000001"), {}))
    assert [(row["removed_after"], row["removed_before"]) for row in rounds.removed] == [
        (at(-5), at(-5))
    ]


def test_a_row_names_the_partitions_with_the_largest_lag():
    many = {("t", n): (0, n) for n in range(3 * LISTED)}
    rounds = Rounds().all(many, many)
    assert (
        rounds.last["partitions_not_well"]
        == rounds.last["partitions_without_progress"]
        == 3 * LISTED - 1
    )
    assert [each["partition"] for each in rounds.last["not_well"]] == list(
        range(3 * LISTED - 1, 2 * LISTED - 1, -1)
    )


# --- against all that was told, and a plain reading of the rules ---

partitions = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
few = st.integers(0, 4)
told_of = st.tuples(st.none() | few | few | few, st.none() | few | few | few)
answers = st.one_of(
    *[st.dictionaries(partitions, told_of)] * 8,
    st.none(),
    st.just("failed: no answer"),
    st.just("again"),
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Visit, Said]]:
    every = draw(st.sampled_from([MINUTE, MINUTE // 6]))
    found: list[tuple[Visit, Said]] = []
    number = 0
    for said in draw(st.lists(answers, min_size=1, max_size=40)):
        number += draw(st.sampled_from([1, 1, 1, 2, 7]))
        pattern = draw(st.sampled_from([None, None, None, None, '{"topics":["t"]}']))
        again = found[-1][1] if found else None
        now = again if said == "again" else said
        if pattern is not None and isinstance(now, dict):
            now = {key: value for key, value in now.items() if key[0] == "t"}
        found.append((visit(number, every, topic_filter=pattern), now))
    return found


@given(histories(), st.data())
def test_rounds_cut_anywhere_make_the_same_rows(history, data):
    whole, cut = Rounds(), Rounds()
    whole.take(*history)
    places = sorted(data.draw(st.sets(st.integers(0, len(history)))) | {0, len(history)})
    for since, until in pairwise(places):
        cut.take(*history[since:until])
    assert (cut.lag, cut.removed, cut.memory) == (whole.lag, whole.removed, whole.memory)


def burrow(seen: list[tuple[int, int | None, int]], lag: int | None) -> str | None:
    """Burrow over all observations of a partition: offset, lag, time."""
    if lag is None or (lag > 0 and len(seen) < WINDOW):
        return None
    committed = [seen[0][2]]
    for before, now in pairwise(seen):
        committed.append(now[2] if now[0] != before[0] else committed[-1])
    window, times = seen[-WINDOW:], committed[-WINDOW:]
    if len({offset for offset, _, _ in window}) == 1:
        times = [time for _, _, time in window]  # It may commit the same again and again.
    ends = [None if each is None else offset + each for offset, each, _ in window]
    offsets = [
        ConsumerOffset(offset, time, None if end is None else lag_of(end, offset))
        for (offset, _, _), end, time in zip(window, ends, times, strict=True)
    ]
    known = [end for end in ends if end is not None]
    return calculate_partition_status(
        offsets, known, lag_of(known[-1], offsets[-1].offset), seen[-1][2]
    )


@st.composite
def windows(draw: st.DrawFn) -> list[tuple[int | None, int | None]]:
    """Visits of one partition that mostly gets on: committed offset and end of its log."""
    offset, end, found = draw(st.integers(0, 50)), draw(st.integers(0, 60)), []
    step = draw(
        st.sampled_from(
            [st.just(1), st.integers(0, 1), st.integers(-1, 3), st.sampled_from([0, 0, 0, 5, -9])]
        )
    )
    grows = draw(st.sampled_from([st.just(0), st.just(1), st.integers(0, 3), st.integers(-2, 5)]))
    until = draw(st.integers(0, 30))
    for number in range(draw(st.integers(WINDOW, 30))):
        offset = max(0, offset + draw(step)) if number < until else offset
        end = max(0, end + draw(grows))
        lacks = draw(st.sampled_from([0] * 20 + [1, 2]))
        found.append((None if lacks == 1 else offset, None if lacks == 2 else end))
    return found


def statuses(said: list[tuple[int | None, int | None]]) -> list[str | None]:
    """The status of a partition by each of its visits; those before its first commit left out."""
    rounds, found = Rounds(), []
    for each in said:
        rounds.all(one(*each))
        if rounds.last["partitions"]:
            listed = [each["burrow_status"] for each in rounds.last["not_well"]]
            found.append(listed[0] if listed else rounds.last["burrow_status"])
    return found


@settings(max_examples=examples(50))
@given(windows())
def test_burrow_s_own_functions_judge_alike(said):
    seen: list[tuple[int, int | None, int]] = []
    expected = []
    for number, (offset, end) in enumerate(said):
        if offset is None and not seen:
            continue
        lag = None if offset is None or end is None else end - offset
        seen.append((seen[-1][0] if offset is None else offset, lag, number * MINUTE))
        expected.append(burrow(seen, lag))
    assert statuses(said) == expected


@given(histories())
def test_rows_are_what_a_plain_reading_of_all_visits_gives(history):
    rounds = Rounds()
    seen: dict[Key, list[tuple[int, int | None, int]]] = {}
    ends: dict[Key, int] = {}
    begun = None
    for number, (each, said) in enumerate(history):
        rounds.take((each, said))
        rows = [row for row in rounds.lag if row["valid_to"] is None]
        if said is None:
            assert not rows
            seen, ends, begun = {}, {}, None
            continue
        if isinstance(said, str):
            continue
        time = each.due + 2_000_000
        expected = {}
        for key in seen.keys() - said.keys():
            del seen[key]
            ends.pop(key, None)
        for key, (offset, end) in said.items():
            before = seen.get(key, [])
            lag = None if offset is None or end is None else end - offset
            if not before and offset is None:
                continue
            least = None if lag is None or key not in ends else min(ends[key], end) - offset
            if least is not None and lag >= 0:
                least = max(0, least)
            seen[key] = [*before, (before[-1][0] if offset is None else offset, lag, time)]
            if end is not None:
                ends[key] = end
            is_still = bool(before) and before[-1][0] == seen[key][-1][0]
            expected[key] = (least, lag, (least or 0) > 0 and is_still, burrow(seen[key], lag))
        (row,) = rows
        if row["first_poll"] != each.poll and begun is not None and 0 <= each.due - begun < MINUTE:
            continue
        if row["first_poll"] == each.poll:
            begun = each.due
        leasts = [least for least, *_ in expected.values() if least is not None]
        mosts = [most for _, most, *_ in expected.values() if most is not None]
        unknown = len(said) - len(mosts)
        assert row["lag_min"] == (sum(max(0, each) for each in leasts) if leasts else None)
        assert row["lag_max"] == (
            sum(max(0, each) for each in mosts) if mosts and not unknown else None
        )
        assert row["committed_sum"] == (
            sum(seen[key][-1][0] for key in expected) if expected else None
        )
        assert row["partitions_beyond"] == sum(most < 0 for most in mosts)
        assert row["largest_lag_min"] == max(leasts, default=None)
        assert row["largest_lag_max"] == (max(mosts) if mosts and not unknown else None)
        assert (row["partitions"], row["partitions_unknown"]) == (len(expected), unknown)
        assert row["partitions_behind"] == sum(most > 0 for most in mosts)
        assert row["partitions_without_progress"] == sum(
            still for _, _, still, _ in expected.values()
        )
        assert row["lag_min"] is None or row["lag_max"] is None or row["lag_min"] <= row["lag_max"]
        listed = {(bad["topic"], bad["partition"]): bad for bad in row["not_well"]}
        for key, (least, most, still, status) in expected.items():
            is_beyond = most is not None and most < 0
            assert (key in listed) == (still or is_beyond or status not in {"OK", None}), (
                number,
                key,
            )
            if key in listed:
                bad = listed[key]
                assert (bad["lag_min"], bad["lag_max"], bad["is_without_progress"]) == (
                    least,
                    most,
                    still,
                )
                assert bad["burrow_status"] == status
        statuses = {status for *_, status in expected.values()}
        worst = "ERROR" if statuses & {"STOP", "STALL", "REWIND"} else None
        assert row["burrow_status"] == (
            worst or next((s for s in ("WARNING", "OK") if s in statuses), None)
        )


@given(histories())
def test_a_row_was_shown_by_the_poll_that_it_says_saw_it_last(history):
    shown: dict[Any, list[Row]] = {}
    rounds = Rounds()
    for each, said in history:
        # Whoever sees only this visit has no window: what needs none is compared.
        if isinstance(said, dict):
            alone = Rounds()
            alone.take((each, said))
            shown.setdefault(from_micros(each.seen), []).append(alone.last)
        rounds.take((each, said))
    for row in rounds.lag:
        if row["valid_to"] is not None:
            assert row["valid_from"] <= row["valid_to"]
            assert row["last_seen_at"] <= row["valid_to"]
            names = ("lag_max", "partitions_behind")
            assert any(
                all(row[name] == one[name] for name in names) for one in shown[row["last_seen_at"]]
            )
