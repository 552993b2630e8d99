"""For how long nobody committed a partition while its group rebalanced, and what was done twice."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.commits import Commit, CommitLog, Commits, Removal
from jobs.rules.groups.cost_rows import Rebalance
from jobs.rules.groups.pauses import cadence_ms, standing, with_records_after
from local_cluster.members import Done
from tests.support.examples import examples
from tests.support.group_costs import (
    AT,
    EVER,
    PLACE,
    Written,
    commit,
    costs,
    every,
    ms,
    rebalance,
    removal,
    visit,
)
from truth.model.work import Work

TEN = every(1000, 10_000)
"""A commit each second, of ten records; the last one, at 9 s, is 90."""
ONE_LASTS = [*TEN, rebalance(10_000), commit(40_000, 100), rebalance(40_500), commit(41_000, 110)]
"""A gap of 31 s within the rebalance."""

PAUSES = {
    # The log, what visits showed, and of the last row: commit_gap_ms, cadence_ms, pause_ms_min,
    # pause_ms_max, pause_unknown.
    "from the last commit before to the first after": (
        [*every(1000, 60_000), rebalance(65_000), commit(71_000, 650)],
        [],
        (12_000, 1_000, 10_000, 12_000, None),
    ),
    "the cadence of auto-commit is no pause": (
        [*every(5000, 60_000), rebalance(57_000), commit(61_000, 600)],
        [],
        (6_000, 5_000, 0, 6_000, None),
    ),
    # A cooperative rebalance takes the partition and gives it before others are done.
    "the longest gap is within the rebalance": (
        [
            *(*TEN, rebalance(10_500), commit(11_000, 100), rebalance(15_000)),
            *(commit(19_000, 120), commit(19_500, 125), rebalance(20_000), commit(20_500, 130)),
        ],
        [],
        (8_000, 1_000, 6_000, 8_000, None),
    ),
    "within a stretch of commits, a rebalance changes nothing": (
        [*TEN, rebalance(10_000), commit(11_000, 95), commit(25_000, 99), commit(26_000, 100)],
        [],
        (2_000, 1_000, 0, 2_000, None),
    ),
    "nobody commits between two rebalances: one gap of the second": (
        [*TEN, rebalance(10_000, "gone"), rebalance(3_000_000, "back"), commit(3_001_000, 90)],
        [],
        (2_992_000, 1_000, None, 2_992_000, "no_progress"),
    ),
    "the rebalance before is no part of the cadence": (
        [
            *(*TEN, rebalance(12_000, "a"), *every(1000, 40_000, 200, 30_000)),
            *(rebalance(40_500, "b"), commit(44_000, 400)),
        ],
        [],
        (5_000, 1_000, 3_000, 5_000, None),
    ),
    "a commit that comes by a clock that stepped back": (
        [*TEN, rebalance(10_000), commit(8_000, 100)],
        [],
        (0, 1_000, 0, 0, None),
    ),
    "no_cadence": (
        [commit(0, 1), rebalance(1_000), commit(2_000, 2)],
        [],
        (2_000, None, None, 2_000, "no_cadence"),
    ),
    "a gap that ended within the ten minutes before is usual": (
        [*TEN, commit(700_000, 100), rebalance(1_290_001), commit(1_291_001, 110)],
        [],
        (591_001, 691_000, 0, 591_001, None),
    ),
    "no_commit_after": ([*TEN, rebalance(9_000)], [], (None, 1_000, None, None, "no_commit_after")),
    "no_commit_before": (
        [rebalance(10_000), commit(12_000, 1)],
        [visit(8_000, 80, 90), visit(12_500, 1, 90)],
        (None, None, None, None, "no_commit_before"),
    ),
    "no_commit_before: it was removed": (
        [*TEN, removal(9_000), rebalance(9_500), commit(10_000, 1)],
        [visit(8_000, 80, 90), visit(12_000, 1, 90)],
        (None, None, None, None, "no_commit_before"),
    ),
    "no_progress: it falls": (
        [*TEN, rebalance(10_000), commit(20_000, 80)],
        [],
        (11_000, 1_000, None, 11_000, "no_progress"),
    ),
    "no_progress: the same offset": (
        [*TEN, rebalance(10_000), commit(20_000, 90)],
        [visit(20_000, 90, 90)],
        (11_000, 1_000, None, 11_000, "no_progress"),
    ),
    "no_progress: less than an administrator set": (
        [
            *(*TEN, rebalance(10_000, "gone", members=0), commit(11_000, 5_000)),
            *(rebalance(20_000, "back"), commit(21_000, 4_990)),
        ],
        [],
        (12_000, 1_000, None, 12_000, "no_progress"),
    ),
    "nothing_to_consume: until the next commit": (
        [*TEN, rebalance(10_000), commit(40_000, 100)],
        [visit(9_500, 90, 90), visit(40_000, 90, 100)],
        (31_000, 1_000, None, 31_000, "nothing_to_consume"),
    ),
    "nothing_to_consume: asked as the gap began": (
        ONE_LASTS,
        [visit(9_000, 90, 90)],
        (31_000, 1_000, None, 31_000, "nothing_to_consume"),
    ),
    "nothing_to_consume": (
        [*TEN, rebalance(10_000), commit(40_000, 100)],
        [visit(9_500, 90, 90), visit(20_000, 90, 90)],
        (31_000, 1_000, None, 31_000, "nothing_to_consume"),
    ),
    "nothing_to_consume until 30 s: the pause is of the 10 s after": (
        [*TEN, rebalance(10_000), commit(40_000, 100)],
        [visit(9_500, 90, 90), visit(20_000, 90, 90), visit(30_000, 90, 100)],
        (31_000, 1_000, 8_000, 31_000, None),
    ),
    "nothing_to_consume: within the rebalance": (
        ONE_LASTS,
        [visit(9_500, 90, 90), visit(20_000, 90, 90)],
        (31_000, 1_000, None, 31_000, "nothing_to_consume"),
    ),
    "one record is there within the rebalance": (
        ONE_LASTS,
        [visit(9_500, 90, 90), visit(20_000, 90, 91)],
        (31_000, 1_000, 18_000, 31_000, None),
    ),
    "records were there before the gap began": (
        [*TEN, rebalance(10_000), commit(20_000, 100)],
        [visit(5_000, 40, 200)],
        (11_000, 1_000, 9_000, 11_000, None),
    ),
    "ends that were asked before the gap began tell nothing of it": (
        ONE_LASTS,
        [visit(8_500, 80, 80)],
        (31_000, 1_000, 29_000, 31_000, None),
    ),
    "ends that were asked once it was over tell nothing of it": (
        ONE_LASTS,
        [visit(9_500, 90, 90), visit(40_000, 90, 120)],
        (31_000, 1_000, None, 31_000, "nothing_to_consume"),
    ),
}


@pytest.mark.parametrize("case", PAUSES)
def test_pauses(case: str) -> None:
    log, visits, columns = PAUSES[case]
    *_, row = costs(log, visits)
    names = ("commit_gap_ms", "cadence_ms", "pause_ms_min", "pause_ms_max", "pause_unknown")
    assert tuple(row[name] for name in names) == columns


def test_a_gap_names_its_two_commits() -> None:
    (row,) = costs([*every(1000, 60_000), rebalance(65_000), commit(71_000, 650)])
    assert (row["last_committed"], row["last_commit_at"]) == (590, ms(59_000))
    assert (row["first_committed"], row["first_commit_at"]) == (650, ms(71_000))
    (row,) = costs([*ONE_LASTS[:-2], rebalance(40_500), commit(90_000, 110)])
    assert (row["last_committed"], row["first_committed"]) == (100, 110), "the longest of all"


@pytest.mark.parametrize(
    ("log", "at_least"),
    [
        ([*TEN, rebalance(10_000), commit(12_000, 100)], 0),
        ([*TEN, rebalance(10_000), commit(12_000, 60)], 30),
        # Within a rebalance, within a stretch of commits and between two.
        (
            [
                *(*TEN, rebalance(10_000), commit(11_000, 95), commit(12_000, 60)),
                *(commit(13_000, 70), rebalance(14_000), commit(15_000, 75)),
            ],
            35,
        ),
        (
            [
                *(*TEN, rebalance(10_000), commit(11_000, 80), rebalance(12_000)),
                *(commit(13_000, 75), rebalance(14_000), commit(15_000, 70)),
            ],
            10 + 5 + 5,
        ),
        # No sum holds it: a client may commit any offset.
        (
            [
                *(commit(0, 2**63 - 1), commit(1_000, 2**63 - 1), rebalance(2_000)),
                *(commit(3_000, 0), commit(3_500, 2**63 - 1), rebalance(4_000), commit(5_000, 0)),
            ],
            2**63 - 1,
        ),
        (
            [
                *(commit(0, 2**63 - 1), commit(1_000, 2**63 - 1), rebalance(2_000)),
                *(commit(3_000, 0), commit(3_300, 2**63 - 1), commit(3_600, 0), rebalance(4_000)),
            ],
            2**63 - 1,
        ),
    ],
)
def test_a_committed_offset_that_falls_was_done_twice(log: list[Written], at_least: int) -> None:
    (row,) = costs(log)
    assert row["reprocessed_min"] == at_least


# --- each rule alone ---


def commits(first: int, last: int, *, at: int = 0, gap: Any = None) -> Commits:
    """Commits from one offset of the log to another, each of which has its offset as seconds."""
    ends = (Commit(0, each, ms(1000 * each + at)) for each in (first, last))
    return Commits(*ends, gap and (ms(gap[0]), ms(gap[1])))


def of_log(first: int, last: int) -> Rebalance:
    began = AT + timedelta(seconds=first)
    return Rebalance(f"{first}", 0, first, last, began, began, emptied=False, was_empty=False)


@pytest.mark.parametrize(
    ("stretches", "others", "cadence"),
    [
        ([commits(0, 5, gap=(0, 700))], [], 700),
        ([commits(0, 5, gap=(0, 700)), commits(8, 9)], [], 3_000),
        ([commits(0, 5, gap=(0, 700)), commits(8, 9)], [of_log(6, 7)], 700),
        ([commits(0, 5, gap=(0, 700)), commits(8, 9)], [of_log(5, 8)], 700),
        ([commits(0, 5, gap=(0, 700)), commits(8, 9)], [of_log(9, 10)], 3_000),
        ([commits(4, 5), commits(8, 9)], [of_log(1, 2)], 3_000),
        ([commits(0, 5, gap=(0, 700)), commits(8, 9, gap=(0, 900))], [of_log(7, 10)], 700),
        ([commits(0, 5, gap=(0, 700))], [of_log(0, 5)], 700),
        ([commits(0, 0)], [], None),
        ([], [], None),
    ],
)
def test_the_usual_time_between_two_commits_is_of_when_nobody_rebalanced(
    stretches: list[Commits], others: list[Rebalance], cadence: int | None
) -> None:
    assert cadence_ms(stretches, AT, others) == cadence


@pytest.mark.parametrize(("since", "cadence"), [(700, 700), (701, None)])
def test_a_gap_that_ended_before_is_not_usual_any_more(since: int, cadence: int | None) -> None:
    found = cadence_ms([commits(0, 5, gap=(0, 700))], AT + timedelta(milliseconds=since), [])
    assert found == cadence


@pytest.mark.parametrize(
    ("removed_at", "left"),
    [([], [2, 6]), ([1], [2, 6]), ([4], [6]), ([7], []), ([9], []), ([12], [2, 6]), ([4, 12], [6])],
)
def test_commits_stand_until_something_removes_them(removed_at: list[int], left: list[int]) -> None:
    log = CommitLog({PLACE: [commits(2, 3), commits(6, 6), commits(11, 11)]})
    log.removals[PLACE] = [Removal(each, None) for each in removed_at]
    found = standing(log, PLACE, of_log(8, 10), AT)
    assert [each.first.offset for each in found] == left
    assert standing(log, ("u", 0), of_log(8, 10), AT) == []


@pytest.mark.parametrize(("since", "left"), [(3, [2, 6]), (3.001, [6])])
def test_commits_of_long_ago_do_not_count(since: float, left: list[int]) -> None:
    log = CommitLog({PLACE: [commits(2, 3), commits(6, 6)]})
    found = standing(log, PLACE, of_log(8, 10), AT + timedelta(seconds=since))
    assert [each.first.offset for each in found] == left


@pytest.mark.parametrize(
    ("ends", "there_before"),
    [([], None), ([90], None), ([91], 1_000), ([90, 95, 99], 2_000), ([None, 95], 2_000)],
)
def test_records_are_there_once_the_log_ends_beyond_the_commit(
    ends: list[int | None], there_before: int | None
) -> None:
    awaited = {"committed": 90, "at": ms(0), "there_before": None, "set_to": None}
    visits = [visit(1000 * n, 90, end) for n, end in enumerate(ends, 1)]
    found = with_records_after(awaited, visits)
    assert found == awaited | {"there_before": ms(there_before)}
    known = awaited | {"there_before": ms(7)}
    assert with_records_after(known, visits) == known


# --- random lives ---


@st.composite
def lives(draw: st.DrawFn) -> tuple[list[Written], Work]:
    """A partition that one member consumes and commits on a cadence until a rebalance, and another
    member after it.
    """
    period, rate = draw(st.integers(50, 2_000)), draw(st.integers(1, 50))
    stopped = draw(st.integers(4 * period, 60_000))
    began = stopped + draw(st.integers(0, 60_000))
    at = draw(st.integers(stopped, began))
    before = [commit(each, each * rate) for each in range(0, stopped + 1, period)]
    again = began + draw(st.integers(0, period))
    after = [
        commit(each, (each - began + stopped) * rate + 1)
        for each in range(again, again + 5 * period, period)
    ]
    step = period // 10
    of_one = {stopped, *range(0, stopped, step), *(each.at for each in before)}
    of_other = {*range(began, again + 5 * period, step), *(each.at for each in after)}
    done = [
        Done(ms(at), member, 0, at)
        for member, times in (("one", of_one), ("other", of_other))
        for at in sorted(times)
    ]
    return [*before, rebalance(at), *after], Work(done, [], {0: []}, EVER)


@settings(max_examples=examples(60))
@given(lives(), st.sets(st.integers(0, 60)))
def test_members_pauses_lie_within_the_bounds(
    life: tuple[list[Written], Work], cuts: set[int]
) -> None:
    log, work = life
    (row,) = costs(log, cuts=tuple(cuts))
    silence = work.silence(0, row["last_commit_at"], row["first_commit_at"])
    lasted = timedelta() if silence is None else silence.lasted
    assert row["pause_ms_min"] <= lasted // timedelta(milliseconds=1) <= row["pause_ms_max"]
