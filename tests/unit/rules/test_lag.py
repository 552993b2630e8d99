"""How far groups are behind: of what visits told of their offsets."""

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import LISTED, WINDOW, Commit, Memory, Told, Visit, fold
from jobs.rules.groups.state import from_micros, to_micros
from schemas import consumption
from schemas.table import PART

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
                commits = None if isinstance(of_group, str) else [Commit(*k, *v) for k, v in sorted(of_group.items())]
                told[each.poll] = Told(each.due + 2_000_000, False, commits)
        visits = [each for each, _ in said]
        remembered, made = fold(GROUP, memory, live, visits, told=told, before=self.before)
        text = None if remembered is None else json.dumps(remembered.to_json())
        self.quiet += text == self.memory and not made.lag and not made.removed
        self.memory, self.before = text, visits[-1] if visits else self.before
        changed = {row["first_poll"] for row in made.lag}
        kept = [row for row in self.lag if row["valid_to"] is not None or row["first_poll"] not in changed]
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
    assert set(rounds.removed[0]) == set(consumption.REMOVED_COMMITS_TOLD.column_names)


def test_lag_is_between_what_was_there_before_and_what_is_there_now():
    rounds = Rounds().all(
        {("t", 0): (90, 100), ("t", 1): (7, 7)},
        {("t", 0): (95, 110), ("t", 1): (7, 9)},
        {("t", 0): (110, 110), ("t", 1): (9, 9)},
    )
    assert rounds.of("lag_min", "lag_max", "largest_lag_min", "largest_lag_max", "partitions_behind") == [
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
    assert behind.of("burrow_status", "partitions_without_progress") == [(None, 0), (None, 1), ("ERROR", 1)]
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
    assert rounds.of("lag_min", "lag_max", "largest_lag_min", "largest_lag_max", "partitions_unknown") == [
        (None, 5, None, 4, 0),
        (4, None, 4, None, 1),
        (None, None, None, None, 3),
        (4, 4, 3, 3, 0),
    ]
    assert rounds.of("partitions") == [(2,), (2,), (2,), (2,)]
    assert not rounds.removed, "a commit that could not be told is there"
    assert Rounds().all({}).of("partitions", "committed_sum", "lag_max", "oldest_commit_before", "burrow_status") == [
        (0, None, None, None, None)
    ]


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
    assert [(row["committed_offset"], row["is_group_gone"], row["poll"]) for row in rounds.removed] == [
        (5, True, "s/000000000002")
    ]
    assert rounds.last["oldest_commit_after"] is None, "nobody knows when it was made before it was seen"


def test_a_visit_that_could_not_tell_says_nothing():
    rounds = Rounds().all("failed: at once", one(5, 9), "failed: no answer", "failed: no answer", one(5, 9), one(7, 9))
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
    rounds = Rounds().all({("t", 0): (5, 9), ("t", 1): (5, 9)}, {("t", 0): (6, 9), ("t", 1): (5, 9)})
    assert rounds.of("oldest_commit_after", "oldest_commit_before") == [(None, at(0)), (None, at(0))]
    rounds.all({("t", 0): (6, 9), ("t", 1): (6, 9)}, {("t", 0): (6, 9), ("t", 1): (7, 9)})
    assert rounds.of("oldest_commit_after", "oldest_commit_before")[2:] == [(at(0, 1), at(1))] * 2
    rounds.all({("t", 0): (6, 9), ("t", 1): (7, 9), ("t", 2): (1, 9)}, {("t", 2): (1, 9)})
    assert rounds.of("oldest_commit_after", "oldest_commit_before")[-1:] == [(at(3, 1), at(4))]


def status_of(*said: tuple[int, int]) -> str | None:
    rounds = Rounds().all(*(one(*each) for each in said))
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
    ],
)
def test_burrow_judges_the_last_ten_visits(said, status):
    assert status_of(*said) == status


def test_a_row_names_the_partitions_with_the_largest_lag():
    many = {("t", n): (0, n) for n in range(3 * LISTED)}
    rounds = Rounds().all(many, many)
    assert rounds.last["partitions_not_well"] == rounds.last["partitions_without_progress"] == 3 * LISTED - 1
    assert [each["partition"] for each in rounds.last["not_well"]] == list(range(3 * LISTED - 1, 2 * LISTED - 1, -1))


# --- against all that was told, and a plain reading of the rules ---

partitions = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
few = st.integers(0, 4)
told_of = st.tuples(st.none() | few | few | few, st.none() | few | few | few)
answers = st.one_of(
    *[st.dictionaries(partitions, told_of)] * 8, st.none(), st.just("failed: no answer"), st.just("again")
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
    """The rules over all observations of a partition: offset, lag, time."""
    if lag is None or (lag > 0 and len(seen) < WINDOW):
        return None
    committed = [seen[0][2]]
    for before, now in pairwise(seen):
        committed.append(now[2] if now[0] != before[0] else committed[-1])
    window, times, now = seen[-WINDOW:], committed[-WINDOW:], seen[-1][2]
    offsets = [offset for offset, _, _ in window]
    lags: list[int] = [each for _, each, _ in window if each is not None]
    # Of observations that lack it, what was known before the window counts too.
    known = [each for _, each, _ in seen[:-WINDOW] if each is not None][-1:]
    fell = any(
        now is not None and before is not None and now < before
        for before, now in pairwise(_filled([lag for _, lag, _ in window], known))
    )
    if not lag or 0 in lags:
        return "OK"
    if any(after < before for before, after in pairwise(offsets)):
        return "REWIND"
    if len(set(offsets)) == 1 and not fell:
        return "STALL"
    if now - times[-1] > times[-1] - times[0]:
        return "STOP"
    return "OK" if fell else "WARNING"


def _filled(lags: list[int | None], known: list[int]) -> list[int | None]:
    last, found = (known or [None])[0], []
    for lag in lags:
        last = last if lag is None else lag
        found.append(last)
    return found


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
            lag = None if offset is None or end is None else max(0, end - offset)
            if not before and offset is None:
                continue
            least = None if lag is None or key not in ends else max(0, min(ends[key], end) - offset)
            seen[key] = [*before, (before[-1][0] if offset is None else offset, lag, time)]
            if end is not None:
                ends[key] = end
            is_still = bool(before) and before[-1][0] == seen[key][-1][0]
            expected[key] = (least, lag, bool(least) and is_still, burrow(seen[key], lag))
        (row,) = rows
        if row["first_poll"] != each.poll and begun is not None and 0 <= each.due - begun < MINUTE:
            continue
        if row["first_poll"] == each.poll:
            begun = each.due
        leasts = [least for least, *_ in expected.values() if least is not None]
        mosts = [most for _, most, *_ in expected.values() if most is not None]
        unknown = len(said) - len(mosts)
        assert row["lag_min"] == (sum(leasts) if leasts else None)
        assert row["lag_max"] == (sum(mosts) if mosts and not unknown else None)
        assert row["largest_lag_min"] == max(leasts, default=None)
        assert row["largest_lag_max"] == (max(mosts) if mosts and not unknown else None)
        assert (row["partitions"], row["partitions_unknown"]) == (len(expected), unknown)
        assert row["partitions_behind"] == sum(most > 0 for most in mosts)
        assert row["partitions_without_progress"] == sum(still for _, _, still, _ in expected.values())
        assert row["lag_min"] is None or row["lag_max"] is None or row["lag_min"] <= row["lag_max"]
        listed = {(bad["topic"], bad["partition"]): bad for bad in row["not_well"]}
        for key, (least, most, still, status) in expected.items():
            assert (key in listed) == (still or status not in {"OK", None}), (number, key)
            if key in listed:
                bad = listed[key]
                assert (bad["lag_min"], bad["lag_max"], bad["is_without_progress"]) == (least, most, still)
                assert bad["burrow_status"] == status
        statuses = {status for *_, status in expected.values()}
        worst = "ERROR" if statuses & {"STOP", "STALL", "REWIND"} else None
        assert row["burrow_status"] == (worst or next((s for s in ("WARNING", "OK") if s in statuses), None))


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
            assert any(all(row[name] == one[name] for name in names) for one in shown[row["last_seen_at"]])
