"""The cost of a rebalance: why its row closes, lag around it, offsets that are set meanwhile; and
logs that are cut anywhere come to the same rows.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.commits import CommitLog, commit_log
from jobs.rules.groups.cost import fold
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.group_costs import (
    EVER,
    PLACE,
    Row,
    Written,
    commit,
    costs,
    every,
    lost,
    ms,
    read,
    rebalance,
    removal,
    row_of,
    told,
    visit,
)

TEN = every(1000, 10_000)
"""A commit each second, of ten records; the last one, at 9 s, is 90."""
WEEK = 7 * 24 * 3_600_000

CLOSED = {
    # The log, what visits showed; close_reason and pause_unknown of the first row, and whether it
    # waits for a commit.
    "recovered: nobody asked for lag": (
        [*TEN, rebalance(10_000), commit(11_000, 100)],
        [],
        ("recovered", None, False),
    ),
    "recovered: the lag is back": (
        [*TEN, rebalance(10_000), commit(11_000, 100)],
        [visit(9_500, 90, 100), visit(12_000, 100, 110)],
        ("recovered", None, False),
    ),
    "live: the lag is not back": (
        [*TEN, rebalance(10_000), commit(11_000, 100)],
        [visit(9_500, 90, 100), visit(12_000, 100, 111)],
        (None, None, False),
    ),
    "live: nobody committed": ([*TEN, rebalance(10_000)], [], (None, "no_commit_after", True)),
    "live: the lag is back, and nobody committed": (
        [*TEN, rebalance(10_000)],
        [visit(9_500, 90, 100), visit(12_000, 90, 100)],
        (None, "no_commit_after", True),
    ),
    "next_rebalance": (
        [*TEN, rebalance(10_000, "a"), rebalance(20_000, "b")],
        [],
        ("next_rebalance", "no_commit_after", True),
    ),
    "live: the next rebalance lasts": (
        [*TEN, rebalance(10_000, "a"), rebalance(20_000, "lasts")],
        [],
        (None, "no_commit_after", True),
    ),
    "removed": (
        [*TEN, rebalance(10_000), removal(10_500), commit(11_000, 1)],
        [],
        ("removed", "removed", False),
    ),
    # Offsets of a group that was shut down expire after days, and no commit is near.
    "removed: long after": (
        [*TEN, rebalance(10_000), removal(WEEK)],
        [],
        ("removed", "removed", False),
    ),
    "removed: after the next commit it is nobody's": (
        [*TEN, rebalance(10_000), commit(11_000, 100), removal(12_000)],
        [visit(9_500, 90, 100)],
        (None, None, False),
    ),
    "removed: after the next rebalance began": (
        [*TEN, rebalance(10_000, "a"), rebalance(20_000, "b"), removal(21_000)],
        [],
        ("next_rebalance", "no_commit_after", True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CLOSED)
def test_why_a_row_closes(case: str) -> None:
    log, visits, (close_reason, pause_unknown, waits) = CLOSED[case]
    for cuts in ((), (11,), (12,)):
        row = costs(log, visits, cuts, lasting=("lasts",))[0]
        assert (row["close_reason"], row["pause_unknown"]) == (close_reason, pause_unknown)
        assert (row["awaits_after"] is not None) == waits


@pytest.mark.parametrize(
    ("committed", "gone", "closed"),
    [
        # The rebalance is at 10, the next one at 13: the first commit after, the last record lost.
        (None, 11, ("records_lost", "records_lost")),
        (None, 12, ("records_lost", "records_lost")),
        (None, 13, ("next_rebalance", "no_commit_after")),
        (None, 14, ("next_rebalance", "no_commit_after")),
        (None, 10, ("next_rebalance", "no_commit_after")),
        (None, 9, ("next_rebalance", "no_commit_after")),
        (12, 11, ("records_lost", "records_lost")),
        (12, 10, ("recovered", None)),
    ],
)
def test_records_are_lost_between_a_rebalance_and_the_commit_after_or_the_next(
    committed: int | None, gone: int, closed: tuple[str, str | None]
) -> None:
    log = [*TEN, rebalance(10_000, "a")]
    live = costs(log)
    following = told(log)[0] | {"id": "b", "first_offset": 13, "last_offset": 13}
    following |= {"began_before": ms(20_000), "ended_before": ms(20_000), "prev_members": 1}
    after = [] if committed is None else [row_of([(committed, commit(15_000, 100))], 20_000)]
    records = commit_log([lost(gone - 1, gone + 1), *after])
    (row,) = fold(live, [*told(log), following], set(), lambda _: records, {}, until=EVER)
    assert (row["close_reason"], row["pause_unknown"]) == closed


def test_a_row_whose_rebalance_is_not_told_any_more_closes() -> None:
    live = costs([*TEN, rebalance(10_000)])
    (row,) = fold(live, [], set(), lambda _: CommitLog(), {}, until=EVER)
    assert row["close_reason"] == "next_rebalance"


def test_a_partition_that_is_not_known_before_has_no_row() -> None:
    assert costs([rebalance(0), commit(1_000, 5)]) == []
    assert fold([], told([rebalance(0)]), {"r"}, lambda _: CommitLog(), {}, until=EVER) == []
    # Nor has one of whose last commit nothing is near.
    assert costs([commit(0, 1), rebalance(600_001), commit(1_001_000, 2)]) == []
    assert len(costs([commit(1, 1), rebalance(600_001), commit(1_001_000, 2)])) == 1


# --- lag ---

BEFORE = visit(9_500, 90, 100)
LAGS = {
    # What visits showed after `BEFORE`; lag_before, lag_peak, lag_peak_at, lag_back_after,
    # lag_back_before.
    "back": (
        [visit(15_000, 90, 300), visit(31_000, 100, 600), visit(40_000, 500, 700),
         visit(50_000, 795, 800)],
        (10, 500, 31_000, 40_000, 50_000),
    ),
    "not back": (
        [visit(15_000, 90, 300), visit(31_000, 100, 600), visit(40_000, 500, 700)],
        (10, 500, 31_000, 40_000, None),
    ),
    "back at once": ([visit(12_000, 90, 100)], (10, 10, 12_000, None, 12_000)),
    "not asked": ([], (10, None, None, None, None)),
    "an end that could not be told": ([visit(12_000, 90, None)], (10, None, None, None, None)),
    "asked at the time of its record": ([visit(10_000, 90, 150), visit(20_000, 90, 90)],
                                        (10, 60, 10_000, 10_000, 20_000)),
    "the peak is the first of several": (
        [visit(12_000, 90, 300), visit(13_000, 90, 300)], (10, 210, 12_000, 13_000, None)
    ),
    "what comes once it is back is not its own": (
        [visit(12_000, 90, 100), visit(13_000, 90, 900)], (10, 10, 12_000, None, 12_000)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAGS)
def test_lag_has_its_peak_and_the_bounds_of_its_end(case: str) -> None:
    after, lag = LAGS[case]
    log = [*TEN, rebalance(10_000), commit(30_000, 100)]
    for cuts in ((), (11,)):
        (row,) = costs(log, [BEFORE, *after], cuts)
        assert (row["lag_before"], row["lag_peak"]) == lag[:2]
        times = row["lag_peak_at"], row["lag_back_after"], row["lag_back_before"]
        assert times == tuple(map(ms, lag[2:]))


@pytest.mark.parametrize(
    ("before", "after", "is_back"), [(0, 0, True), (0, 1, False), (10, 10, True), (10, 11, False)]
)
def test_lag_is_back_once_it_is_no_more_than_before(before: int, after: int, is_back: bool) -> None:
    log = [*TEN, rebalance(10_000), commit(11_000, 100)]
    (row,) = costs(log, [visit(9_500, 90, 90 + before), visit(12_000, 100, 100 + after)])
    assert row["lag_back_before"] == (ms(12_000) if is_back else None)
    assert row["close_reason"] == ("recovered" if is_back else None)


def test_what_is_known_stays_as_it_is() -> None:
    for log, before, after, news in (
        # The lag is back, and nobody committed.
        ([*TEN, rebalance(10_000)], [BEFORE, visit(12_000, 90, 100)], [visit(13_000, 90, 900)], []),
        # Somebody committed, and the lag is not back.
        ([*TEN, rebalance(10_000), commit(11_000, 100)], [BEFORE], [], [lost(12, 20)]),
    ):
        live = costs(log, before)
        assert [row["close_reason"] for row in live] == [None]
        records = commit_log(news)
        assert (
            fold(live, told(log), set(), lambda _, of=records: of, {PLACE: after}, until=EVER) == []
        )


def test_a_rebalance_that_lasts_has_no_row_yet() -> None:
    log = [*TEN, rebalance(10_000, "a"), commit(11_000, 100), rebalance(20_000, "lasts")]
    records = commit_log(read(log, 0, len(log), 30_000))
    rebalances = told(log, lasting=("lasts",))
    made = fold([], rebalances, {"a", "lasts"}, lambda _: records, {}, until=EVER)
    assert [row["rebalance_id"] for row in made] == ["a"]


def test_where_a_group_is_kept_in_another_partition_of_the_log_it_commits_there() -> None:
    log = [*TEN, rebalance(10_000, "a")]
    there = [*every(1000, 60_000, 90, 30_000), rebalance(60_000, "b"), commit(62_000, 400)]
    moved = told(there)[0] | {"log_partition": 1, "prev_members": 1}
    logs = [commit_log(read(each, 0, len(each), 70_000)) for each in (log, there)]
    _, row = fold([], [*told(log), moved], {"a", "b"}, logs.__getitem__, {}, until=EVER)
    assert (row["rebalance_id"], row["commit_gap_ms"]) == ("b", 3_000)


def test_lag_within_a_rebalance_is_not_back() -> None:
    log = [*TEN, rebalance(10_000), rebalance(20_000), commit(21_000, 100)]
    (row,) = costs(log, [BEFORE, visit(15_000, 90, 95), visit(25_000, 100, 200)])
    assert (row["lag_peak"], row["lag_back_before"]) == (100, None)


@pytest.mark.parametrize(("asked", "lag_before"), [(0, 10), (-1, None)])
def test_a_lag_of_more_than_ten_minutes_before_is_none(asked: int, lag_before: int | None) -> None:
    log = [*every(1000, 600_000), rebalance(600_000)]
    (row,) = costs(log, [visit(asked, 90, 100)])
    assert row["lag_before"] == lag_before


def test_the_lag_before_is_the_last_that_was_known() -> None:
    log = [*TEN, rebalance(10_000)]
    asked = [visit(8_000, 80, 95), visit(9_000, 90, 97), visit(9_500, 90, None)]
    (row,) = costs(log, [*asked, visit(10_000, 90, 99)])
    assert row["lag_before"] == 7


@pytest.mark.parametrize(
    ("end", "start", "at_most", "lost_unread"),
    [(140, 0, 50, 0), (140, 90, 50, 0), (300, 150, 210, 60), (140, None, 50, None)],
)
def test_the_log_once_a_rebalance_ended_bounds_what_was_done_twice_and_lost(
    end: int, start: int | None, at_most: int, lost_unread: int | None
) -> None:
    """Records that were deleted unread are lost."""
    log = [*TEN, rebalance(10_000), rebalance(10_500), commit(12_000, 60)]
    before = BEFORE, visit(10_400, 90, 120)
    (row,) = costs(log, [*before, visit(10_500, 90, end, start), visit(13_000, 60, 900, 800)])
    assert (row["reprocessed_min"], row["reprocessed_max"]) == (30, at_most)
    assert row["lost_unread"] == lost_unread


def test_what_may_be_done_twice_is_no_less_than_what_was() -> None:
    log = [*TEN, rebalance(10_000), commit(12_000, 10)]
    (row,) = costs(log, [BEFORE, visit(11_000, 90, 100)])
    assert (row["reprocessed_min"], row["reprocessed_max"]) == (80, 80)


# --- how far history is ---


@pytest.mark.parametrize("at", [20_000, 25_000])
def test_visits_after_a_rebalance_that_is_not_told_yet_are_left_to_it(at: int) -> None:
    log = [*TEN, rebalance(10_000, "a"), rebalance(20_000, "b")]
    first, second = costs(log, [BEFORE, visit(at, 90, 4_090)], cuts=(11,))
    assert (first["lag_peak"], first["reprocessed_max"], first["lag_back_after"]) == (None,) * 3
    assert first["close_reason"] == "next_rebalance"
    assert (second["lag_peak"], second["reprocessed_max"]) == (4_000, 4_000)
    assert second["lag_back_after"] == ms(at)


def test_from_the_begin_of_a_rebalance_that_lasts_commits_and_visits_are_its_own() -> None:
    log = [*TEN, rebalance(10_000, "a"), rebalance(20_000, "b"), commit(21_000, 95)]
    visits = [BEFORE, visit(25_000, 95, 4_095)]
    whole = [*log, rebalance(30_000, "b"), commit(31_000, 200)]
    (row,) = costs(log, visits, lasting=("b",))
    assert (row["commit_gap_ms"], row["lag_peak"], row["close_reason"]) == (None, None, None)
    first, second = costs(whole, visits, cuts=(13,))
    assert (first["commit_gap_ms"], first["lag_peak"]) == (None, None)
    assert first["close_reason"] == "next_rebalance"
    assert (second["commit_gap_ms"], second["lag_peak"]) == (12_000, 4_000)


def test_visits_after_a_removal_say_nothing_of_what_was_removed() -> None:
    log = [*TEN, rebalance(10_000), removal(20_000)]
    (row,) = costs(log, [BEFORE, visit(15_000, 90, 300), visit(25_000, 299, 300)])
    assert (row["lag_peak"], row["lag_back_before"]) == (210, None)


def test_a_cadence_is_passed_on_only_while_nobody_commits() -> None:
    log = [*TEN, rebalance(10_000, "a"), commit(11_000, 100), removal(12_000)]
    log += [commit(13_000, 100), rebalance(14_000, "b")]
    for cuts in ((), (12,), (13,)):
        assert [row["cadence_ms"] for row in costs(log, cuts=cuts)] == [1_000, None]


def test_nobody_between_two_rebalances_is_one_gap_of_the_second() -> None:
    """An empty group, whose service comes back."""
    log = [*TEN, rebalance(10_000, "gone"), rebalance(3_000_000, "back"), commit(3_001_000, 90)]
    gone, back = costs(log)
    assert (gone["close_reason"], gone["commit_gap_ms"]) == ("next_rebalance", None)
    assert (back["commit_gap_ms"], back["cadence_ms"]) == (2_992_000, 1_000)
    assert (back["committed_before"], back["reprocessed_min"]) == (90, 0)
    log = [*every(1000, 9_000), rebalance(10_000, "gone"), rebalance(1_200_000, "back")]
    log += [commit(1_260_000, 90), rebalance(1_262_000, "back"), commit(1_263_000, 100)]
    _, back = costs(log)
    assert (back["commit_gap_ms"], back["last_committed"]) == (1_252_000, 80)


def test_a_pause_of_hours_is_as_long_as_it_was() -> None:
    hours = 2 * 3_600_000
    visits = [visit(at, 90, 100 + at) for at in range(9_500, hours, 60_000)]
    log = [*TEN, rebalance(10_000), commit(hours, 120)]
    (whole,) = costs(log, visits)
    assert whole["pause_ms_min"] > hours - 80_000
    live = costs(log[:-1], visits)
    after = commit_log(read(log, 11, 12, hours))
    last = {PLACE: visits[-15:]}
    (row,) = fold(live, told(log), set(), lambda _: after, last, until=EVER)
    assert row["pause_ms_min"] == whole["pause_ms_min"]


# --- an administrator sets offsets ---

BEFORE_EMPTY = [*every(1000, 60_000), rebalance(60_500, "emptied", members=0)]
NINE = {"pause_ms_min": 9_940_000}


@pytest.mark.parametrize(
    ("set_to", "first", "columns"),
    [
        # The offsets to which an administrator sets a partition; what the first commit of a member
        # is then.
        ((), 600, NINE | {"reprocessed_min": 0, "committed_before": 590}),
        ((0,), 10, NINE | {"reprocessed_min": 590, "committed_before": 0}),
        ((0, 500), 510, NINE | {"reprocessed_min": 90, "committed_before": 500}),
        ((5_000,), 5_010, NINE | {"reprocessed_min": 0, "committed_before": 5_000}),
        ((5_000,), 4_990, {"reprocessed_min": 10, "pause_unknown": "no_progress"}),
        ((500,), 500, {"reprocessed_min": 90, "pause_unknown": "no_progress"}),
    ],
)
@for_each("cuts", [(), (62,), (63,), (64,), (61, 62, 63, 64, 65)])
def test_an_offset_that_is_set_while_nobody_is_a_member_ends_no_pause(
    set_to: tuple[int, ...], first: int, columns: Row, cuts: tuple[int, ...]
) -> None:
    resets = [commit(160_000 + n, offset) for n, offset in enumerate(set_to)]
    log = [*BEFORE_EMPTY, *resets, rebalance(10_000_000, "back"), commit(10_001_000, first)]
    emptied, back = costs(log, cuts=cuts)
    assert (emptied["commit_gap_ms"], emptied["pause_unknown"]) == (None, "no_commit_after")
    assert (emptied["close_reason"], emptied["reprocessed_min"]) == ("next_rebalance", 0)
    assert (back["last_committed"], back["last_commit_at"]) == (590, ms(59_000))
    assert (back["first_committed"], back["first_commit_at"]) == (first, ms(10_001_000))
    assert (back["pause_ms_max"], back["close_reason"]) == (9_942_000, "recovered")
    assert {name: back[name] for name in columns} == columns


def test_while_nobody_is_a_member_a_row_waits() -> None:
    (row,) = costs([*BEFORE_EMPTY, commit(160_000, 100), commit(170_000, 200)])
    assert (row["close_reason"], row["pause_unknown"]) == (None, "no_commit_after")
    awaited = {"committed": 590, "at": ms(59_000), "there_before": None, "set_to": 200}
    assert row["awaits_after"] == awaited


def test_members_that_come_back_may_commit_before_their_rebalance_is_over() -> None:
    """As in a KIP-848 group: its members consume from the epoch on, not only once all of them have
    reached it.
    """
    log = [*BEFORE_EMPTY, commit(160_000, 0), rebalance(200_000, "back"), commit(202_000, 10)]
    *_, row = costs([*log, rebalance(203_000, "back"), commit(204_000, 30)])
    assert (row["commit_gap_ms"], row["last_committed"]) == (143_000, 590)
    assert (row["first_committed"], row["reprocessed_min"], row["committed_before"]) == (
        10,
        590,
        10,
    )


def test_offsets_set_long_after_a_group_emptied_before_members_are_back_are_not_theirs() -> None:
    day = 24 * 3_600_000
    log = [rebalance(0, "emptied", members=0), commit(day, 70), rebalance(day + 1000, "back")]
    log.append(commit(day + 2000, 80))
    assert costs(log, cuts=(1, 2, 3)) == []
    *_, row = costs(log, [visit(day + 500, 70, 90)])
    assert (row["pause_unknown"], row["lag_before"]) == ("no_commit_before", 20)
    records = commit_log(read(log, 1, 2, day) + read(log, 3, 4, day))
    assert fold([], told(log)[1:], {"back"}, lambda _: records, {}, until=EVER) == []


def test_an_empty_group_that_another_type_of_group_takes_over_had_members() -> None:
    """A consumer group in the place of a classic one that is empty: its first rebalance knows none
    before it.
    """
    log = [*BEFORE_EMPTY, commit(160_000, 0), rebalance(200_000, "back"), commit(201_000, 10)]
    emptied, back = told(log)
    made = [emptied, back | {"prev_members": 0, "since_previous_ms": None}]
    known = commit_log(read(log, 0, len(log), 201_000))
    _, row = fold([], made, {"emptied", "back"}, lambda _: known, {}, until=EVER)
    assert (row["commit_gap_ms"], row["reprocessed_min"]) == (142_000, 590)


def test_a_consumer_without_a_membership_consumes_until_others_join() -> None:
    """It assigns partitions to itself, and its group had no member before."""
    log = [*TEN, rebalance(10_500, "first"), commit(13_000, 100)]
    known = commit_log(read(log, 0, 12, 13_000))
    made = told(log)[0] | {"prev_members": 0, "since_previous_ms": None}
    of_none = fold([], [made], {"first"}, lambda _: known, {}, until=EVER)
    for (row,) in (costs(log), of_none):
        assert (row["commit_gap_ms"], row["cadence_ms"], row["pause_ms_min"]) == (
            *(4_000, 1_000, 2_000),
        )


# --- random logs ---

WHAT = ["commit"] * 8 + ["a rebalance"] * 2 + ["the same", "nobody is left", "removed"]
writings = st.lists(
    st.tuples(st.integers(0, 5_000), st.sampled_from(WHAT), st.integers(0, 50)), max_size=40
)


def placed(made: list[tuple[int, str, int]]) -> list[Written]:
    log: list[Written] = []
    at = number = committed = 0
    for after, what, more in made:
        at += after
        committed = max(0, committed + more - 10)
        if what == "commit":
            log.append(commit(at, committed))
        elif what == "removed":
            if log and log[-1].committed is not None:
                log.append(removal(at))
        else:
            number += what != "the same" or number == 0
            log.append(rebalance(at, f"{number:03}", members=int(what != "nobody is left")))
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
    whole: list[dict[str, Any]] = costs(log, visits, tuple(cuts), folded_once=True)
    assert costs(log, visits, tuple(cuts)) == whole
    # Two stretches of commits within a rebalance may have a record of the group between them.
    names = [each.rebalance for each in log]
    inside = {n for n in cuts if set(filter(None, names[:n])) & set(names[n:])}
    assert costs(log, visits, tuple(cuts - inside)) == costs(log, visits)
    for row in whole:
        gap = row["commit_gap_ms"]
        assert gap is None or gap >= 0
        assert row["pause_ms_min"] is None or 0 <= row["pause_ms_min"] <= row["pause_ms_max"] == gap
        at_most = row["reprocessed_max"]
        assert at_most is None or at_most >= row["reprocessed_min"] >= 0
        assert row["lag_back_before"] is None or row["lag_peak"] is not None
