"""The cost of rebalances, by lives of a group that are made up: however its log is cut, the same rows, and bounds that
hold what the members did.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.commits import CommitLog, commit_log
from jobs.rules.groups.cost import (
    LOST,
    NEXT,
    NO_CADENCE,
    NO_COMMIT_AFTER,
    NO_COMMIT_BEFORE,
    NO_PROGRESS,
    NOTHING_THERE,
    RECOVERED,
    REMOVED,
    Visit,
    fold,
    key,
)
from tests.support.examples import examples

AT = datetime(2026, 3, 1, tzinfo=UTC)
PLACE = ("t", 0)

Row = dict[str, Any]


def ms(after: int | None) -> datetime | None:
    return None if after is None else AT + timedelta(milliseconds=after)


@dataclass(frozen=True)
class Written:
    """A record of the coordinator: a commit (`committed`), a removal, or one of a rebalance."""

    at: int
    committed: int | None = None
    rebalance: str | None = None
    removed: bool = False


def read(log: list[Written], first: int, last: int, read_at: int) -> list[Row]:
    """Rows of bronze of the log's offsets from `first` to before `last`, as one batch reads them."""
    rows: list[Row] = []
    stretch: list[tuple[int, Written]] = []

    def close() -> None:
        if stretch:
            rows.append(row_of(stretch, read_at))
            stretch.clear()

    for offset in range(first, last):
        each = log[offset]
        if each.rebalance is not None:
            close()
        else:
            if stretch and stretch[-1][1].removed:
                close()
            stretch.append((offset, each))
    close()
    return rows


def row_of(stretch: list[tuple[int, Written]], read_at: int, producer: int | None = None) -> Row:
    commits = [(offset, each) for offset, each in stretch if not each.removed]
    gaps = [(two[1].at - one[1].at, one[1].at, two[1].at) for one, two in pairwise(commits)]
    gap = max(gaps, default=(None, None, None), key=lambda each: each[0])
    falls = [one[1].committed - two[1].committed for one, two in pairwise(commits)]
    removed = stretch[-1] if stretch[-1][1].removed else None
    entry = {
        "topic": PLACE[0],
        "partition": PLACE[1],
        "commits": len(commits),
        "from_offset": commits[0][0] if commits else None,
        "from_timestamp": ms(commits[0][1].at) if commits else None,
        "first_committed": commits[0][1].committed if commits else None,
        "to_offset": commits[-1][0] if commits else None,
        "to_timestamp": ms(commits[-1][1].at) if commits else None,
        "last_committed": commits[-1][1].committed if commits else None,
        "gap_from": ms(gap[1]),
        "gap_to": ms(gap[2]),
        "fallen": sum(max(0, fall) for fall in falls),
        "removed_offset": removed and removed[0],
    }
    row = {"record": "commits", "offset": stretch[0][0], "next_offset": stretch[-1][0] + 1, "offset_commits": [entry]}
    return row | {"read_at": ms(read_at), "producer_id": producer, "chunk": 0, "is_committed": None, "timestamp": None}


def told(log: list[Written]) -> list[Row]:
    """The rebalances that are over: each id has its records side by side or apart."""
    rows: dict[str, Row] = {}
    for offset, each in enumerate(log):
        if each.rebalance is not None:
            fresh = {"id": each.rebalance, "log_partition": 0, "first_offset": offset, "began_before": ms(each.at)}
            row = rows.setdefault(each.rebalance, fresh)
            row |= {"last_offset": offset, "ended_before": ms(each.at)}
    return list(rows.values())


def visit(at: int, committed: int | None, log_end: int | None, log_start: int = 0) -> Visit:
    return Visit(committed, log_start, log_end, (ms(at), ms(at)), (ms(at), ms(at)))  # type: ignore[arg-type]


def costs(log: list[Written], visits: list[Visit] = [], cuts: tuple[int, ...] = ()) -> list[Row]:  # noqa: B006
    """The rows of a group that is folded after each cut of its log, whose last ones count."""
    rows: dict[Any, Row] = {}
    ends = [*sorted({min(cut, len(log)) for cut in cuts}), len(log)]
    bronze: list[Row] = []
    done: set[str] = set()
    first = looked_at = 0
    for end in ends:
        read_at = log[end - 1].at if end else 0
        bronze += read(log, first, end, read_at)
        first = end
        rebalances = told(log[:end])
        new = {row["id"] for row in rebalances} - done
        live = [row for row in rows.values() if row["close_reason"] is None]
        # As the job reads them: from fifteen minutes before what is new, or was looked at last.
        begins = [row["began_before"] for row in rebalances if row["id"] in new]
        since = min([*begins, ms(looked_at)]) - timedelta(minutes=15)
        seen = [each for each in visits if end == len(log) or each.commit[0] <= ms(read_at)]
        seen = [each for each in seen if each.commit[0] >= since]
        known = tuple(row for row in bronze if row["read_at"] >= since)
        made = fold(live, rebalances, new, lambda _, known=known: commit_log(known), {PLACE: seen})
        rows |= {key(row): row for row in made}
        done |= new
        looked_at = read_at
    return list(rows.values())


def every(period: int, until: int, offset: int = 0, since: int = 0, each: int = 10) -> list[Written]:
    """Commits on a cadence, each of some records more."""
    times = range(since, until, period)
    return [Written(at, offset + each * n) for n, at in enumerate(times)]


# --- single rules ---


def test_a_gap_goes_from_the_last_commit_before_to_the_first_after() -> None:
    (row,) = costs([*every(1000, 60_000), Written(65_000, rebalance="r"), Written(71_000, 650)])
    assert (row["commit_gap_ms"], row["cadence_ms"]) == (12_000, 1_000)
    assert (row["pause_ms_min"], row["pause_ms_max"], row["pause_unknown"]) == (10_000, 12_000, None)
    assert (row["last_committed"], row["first_committed"], row["reprocessed_min"]) == (590, 650, 0)
    assert (row["last_commit_at"], row["first_commit_at"]) == (ms(59_000), ms(71_000))
    assert row["close_reason"] == RECOVERED, "nobody asked for the ends of its log"


def test_the_cadence_of_auto_commit_is_no_pause() -> None:
    (row,) = costs([*every(5000, 60_000), Written(57_000, rebalance="r"), Written(61_000, 600)])
    assert row["pause_ms_min"] == 0


def test_a_gap_within_the_rebalance_counts() -> None:
    """A cooperative one, in which the partition is taken and given before others are done."""
    log = [*every(1000, 10_000), Written(10_500, rebalance="r"), Written(11_000, 100)]
    log += [Written(15_000, rebalance="r"), Written(19_000, 120), Written(19_500, 125)]
    (row,) = costs([*log, Written(20_000, rebalance="r"), Written(20_500, 130)])
    assert (row["commit_gap_ms"], row["last_committed"], row["first_committed"]) == (8_000, 100, 120)


def test_other_rebalances_are_no_part_of_the_cadence() -> None:
    log = [*every(1000, 10_000), Written(12_000, rebalance="a"), *every(1000, 40_000, 200, 30_000)]
    first, second = costs([*log, Written(40_500, rebalance="b"), Written(44_000, 400)])
    assert (first["commit_gap_ms"], second["commit_gap_ms"]) == (21_000, 5_000)
    assert second["cadence_ms"] == 1_000


def test_nobody_between_two_rebalances_is_one_gap_of_the_second() -> None:
    """An empty group, whose service comes back."""
    log = [*every(1000, 10_000), Written(10_000, rebalance="gone"), Written(3_000_000, rebalance="back")]
    gone, back = costs([*log, Written(3_001_000, 90)])
    assert (gone["close_reason"], gone["pause_unknown"], gone["commit_gap_ms"]) == (NEXT, NO_COMMIT_AFTER, None)
    assert (back["commit_gap_ms"], back["cadence_ms"], back["reprocessed_min"]) == (2_992_000, 1_000, 0)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ([Written(0, 1), Written(1_000_000, rebalance="r"), Written(1_001_000, 2)], None),
        ([Written(0, 1), Written(1_000, rebalance="r"), Written(2_000, 2)], NO_CADENCE),
        ([*every(1000, 9_000), Written(9_000, rebalance="r")], NO_COMMIT_AFTER),
        ([*every(1000, 9_000), Written(9_000, rebalance="r"), Written(20_000, 80)], NO_PROGRESS),
        (
            [*every(1000, 9_000), Written(9_000, rebalance="r"), Written(9_500, removed=True), Written(10_000, 1)],
            REMOVED,
        ),
    ],
)
def test_a_pause_that_is_not_known_has_its_reason(log: list[Written], reason: str | None) -> None:
    rows = costs(log)
    assert [row["pause_unknown"] for row in rows] == ([] if reason is None else [reason])
    assert [row["pause_ms_min"] for row in rows] == [None] * len(rows)


def test_a_commit_that_was_removed_is_not_the_last_one() -> None:
    log = [*every(1000, 9_000), Written(9_000, removed=True), Written(9_500, rebalance="r"), Written(10_000, 1)]
    assert costs(log) == []
    (row,) = costs(log, [visit(8_000, 80, 90), visit(12_000, 1, 90)])
    assert (row["pause_unknown"], row["commit_gap_ms"]) == (NO_COMMIT_BEFORE, None)


def test_a_committed_offset_that_falls_was_done_twice() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(12_000, 60)]
    (row,) = costs(log, [visit(9_500, 90, 100), visit(11_000, 90, 140), visit(13_000, 60, 150)])
    assert (row["reprocessed_min"], row["reprocessed_max"]) == (30, 50)


def test_lag_has_its_peak_and_the_bounds_of_its_end() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(30_000, 100)]
    before, at = visit(9_500, 90, 100), [(15_000, 90, 300), (31_000, 100, 600), (40_000, 500, 700), (50_000, 795, 800)]
    (row,) = costs(log, [before, *(visit(*each) for each in at)])
    assert (row["lag_before"], row["lag_peak"], row["lag_peak_at"]) == (10, 500, ms(31_000))
    assert (row["lag_back_after"], row["lag_back_before"]) == (ms(40_000), ms(50_000))
    assert row["close_reason"] == RECOVERED
    (row,) = costs(log, [before, *(visit(*each) for each in at[:-1])])
    assert (row["lag_back_before"], row["close_reason"]) == (None, None)


def test_records_that_were_deleted_unread_are_lost() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(30_000, 200)]
    (row,) = costs(log, [visit(9_500, 90, 100), visit(15_000, 90, 300, log_start=150)])
    assert row["lost_unread"] == 60


def test_where_nothing_was_there_nobody_paused() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(40_000, 100)]
    nothing = [visit(9_500, 90, 90), visit(20_000, 90, 90)]
    (row,) = costs(log, nothing)
    assert (row["pause_ms_min"], row["pause_ms_max"], row["pause_unknown"]) == (None, 31_000, NOTHING_THERE)
    (row,) = costs(log, [*nothing, visit(30_000, 90, 100)])
    assert row["pause_ms_min"] == 8_000, "something was there for 10 s of the gap"


def test_commits_that_may_be_missing_end_what_is_known() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r")]
    live = costs(log)
    lost = {
        "record": "lost",
        "offset": 11,
        "next_offset": 20,
        "read_at": ms(20_000),
        "producer_id": None,
        "chunk": None,
    }
    after = row_of([(20, Written(21_000, 100))], 20_000)
    (row,) = fold(live, told(log), set(), lambda _: commit_log([lost, after]), {})
    assert (row["close_reason"], row["pause_unknown"], row["commit_gap_ms"]) == (LOST, LOST, None)


def test_commits_of_a_transaction_count_at_its_marker() -> None:
    rows = [row_of([(5, Written(1_000, 7))], 2_000, producer=3), row_of([(6, Written(1_000, 8))], 2_000, producer=4)]
    marker = {"record": "marker", "offset": 9, "next_offset": 10, "timestamp": ms(4_000), "chunk": None}
    markers = [
        marker | {"producer_id": 3, "is_committed": True, "read_at": ms(5_000)},
        marker | {"producer_id": 4, "is_committed": False, "read_at": ms(5_000)},
    ]
    (found,) = commit_log([*markers, *rows]).of[PLACE]
    assert (found.first.committed, found.first.offset, found.first.at) == (7, 9, ms(4_000))


def test_a_removal_long_after_closes_what_waits() -> None:
    """Offsets of a group that was shut down expire after days, and no commit is near."""
    week = 7 * 24 * 3_600_000
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(week, removed=True)]
    (row,) = costs(log, cuts=(11,))
    assert (row["close_reason"], row["pause_unknown"], row["awaits_after"]) == (REMOVED, REMOVED, None)


def test_a_pause_of_hours_is_as_long_as_it_was() -> None:
    hours = 2 * 3_600_000
    visits = [visit(at, 90, 100 + at) for at in range(9_500, hours, 60_000)]
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(hours, 120)]
    (whole,) = costs(log, visits)
    assert whole["pause_ms_min"] > hours - 80_000
    live = costs(log[:-1], visits)
    after = {"rebalances": told(log), "log": commit_log(read(log, 11, 12, hours))}
    (row,) = fold(live, after["rebalances"], set(), lambda _: after["log"], {PLACE: visits[-15:]})
    assert row["pause_ms_min"] == whole["pause_ms_min"]


def test_a_gap_that_ends_within_the_next_rebalance_is_whole() -> None:
    log = [*every(1000, 9_000), Written(10_000, rebalance="gone"), Written(1_200_000, rebalance="back")]
    log += [Written(1_260_000, 90), Written(1_262_000, rebalance="back"), Written(1_263_000, 100)]
    _, back = costs(log)
    assert (back["commit_gap_ms"], back["last_committed"]) == (1_252_000, 80)


def test_a_row_whose_rebalance_is_not_told_any_more_closes() -> None:
    live = costs([*every(1000, 10_000), Written(10_000, rebalance="r")])
    (row,) = fold(live, [], set(), lambda _: CommitLog(), {})
    assert row["close_reason"] == NEXT


def test_an_offset_that_no_sum_holds_is_the_largest() -> None:
    most = (1 << 63) - 1
    log = [Written(0, most), Written(1_000, most), Written(2_000, rebalance="r"), Written(3_000, 0)]
    (row,) = costs([*log, Written(4_000, rebalance="s"), Written(5_000, most)])[:1]
    assert row["reprocessed_min"] == most


def test_what_nobody_committed_has_no_row() -> None:
    assert costs([Written(0, rebalance="r"), Written(1_000, 5)]) == []
    assert fold([], told([Written(0, rebalance="r")]), {"r"}, lambda _: CommitLog(), {}) == []


# --- properties ---


@dataclass(frozen=True)
class Life:
    """A partition that one member consumes and commits on a cadence until a rebalance, and another member after it."""

    log: list[Written]
    stopped: int
    began: int


@st.composite
def lives(draw: st.DrawFn) -> Life:
    period, rate = draw(st.integers(50, 2_000)), draw(st.integers(1, 50))
    stopped = draw(st.integers(4 * period, 60_000))
    began = stopped + draw(st.integers(0, 60_000))
    at = draw(st.integers(stopped, began))
    commits = [Written(each, each * rate) for each in range(0, stopped + 1, period)]
    again = began + draw(st.integers(0, period))
    after = [Written(each, (each - began + stopped) * rate + 1) for each in range(again, again + 5 * period, period)]
    return Life([*commits, Written(at, rebalance="r"), *after], stopped, began)


@settings(max_examples=examples(60))
@given(lives(), st.sets(st.integers(0, 60)))
def test_members_pauses_lie_within_the_bounds(life: Life, cuts: set[int]) -> None:
    (row,) = costs(life.log, cuts=tuple(cuts))
    assert row["pause_ms_min"] <= life.began - life.stopped <= row["pause_ms_max"]


writings = st.lists(
    st.tuples(
        st.integers(0, 5_000),
        st.sampled_from(["commit"] * 6 + ["a rebalance", "the same", "removed"]),
        st.integers(0, 50),
    ),
    max_size=40,
)


def placed(made: list[tuple[int, str, int]]) -> list[Written]:
    log, at, number, committed = [], 0, 0, 0
    for after, what, more in made:
        at += after
        committed = max(0, committed + more - 10)
        if what == "commit":
            log.append(Written(at, committed))
        elif what == "removed":
            if log and log[-1].committed is not None:
                log.append(Written(at, removed=True))
        else:
            number += what == "a rebalance" or number == 0
            log.append(Written(at, rebalance=f"{number:03}"))
    return log


@settings(max_examples=examples(120))
@given(
    writings.map(placed),
    st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 60)), max_size=6),
    st.sets(st.integers(1, 40)),
)
def test_a_log_that_is_cut_anywhere_comes_to_the_same_rows(
    log: list[Written], asked: list[tuple[int, int]], cuts: set[int]
) -> None:
    visits = [visit(at, 10, 10 + lag) for at, lag in sorted(asked)]
    whole = costs(log, visits)
    # A cut in the middle of a rebalance tells it shorter than it is: history tells it again, by its end.
    inside = {
        n
        for n in cuts
        if any(each.rebalance and any(later.rebalance == each.rebalance for later in log[n:]) for each in log[:n])
    }
    assert costs(log, visits, tuple(cuts - inside)) == whole
    for row in whole:
        gap = row["commit_gap_ms"]
        assert gap is None or gap >= 0
        assert row["pause_ms_min"] is None or 0 <= row["pause_ms_min"] <= row["pause_ms_max"] == gap
        assert row["reprocessed_max"] is None or row["reprocessed_max"] >= row["reprocessed_min"] >= 0
        assert row["lag_back_before"] is None or row["lag_peak"] is not None
