"""The cost of rebalances, by lives of a group that are made up: however its log is cut, the same
rows, and bounds that hold what the members did.
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
    RECOVERED,
    REMOVED,
    fold,
    key,
)
from jobs.rules.groups.cost_rows import Visit
from jobs.rules.groups.pauses import (
    NO_CADENCE,
    NO_COMMIT_AFTER,
    NO_COMMIT_BEFORE,
    NO_PROGRESS,
    NOTHING_THERE,
)
from tests.support.examples import examples

AT = datetime(2026, 3, 1, tzinfo=UTC)
EVER = datetime.max.replace(tzinfo=UTC)
PLACE = ("t", 0)

Row = dict[str, Any]


def ms(after: int | None) -> datetime | None:
    return None if after is None else AT + timedelta(milliseconds=after)


@dataclass(frozen=True)
class Written:
    """A record of the coordinator: a commit (`committed`), a removal, or one of a rebalance that
    leaves `members`.
    """

    at: int
    committed: int | None = None
    rebalance: str | None = None
    removed: bool = False
    members: int = 1


def read(log: list[Written], first: int, last: int, read_at: int) -> list[Row]:
    """Rows of bronze of the log's offsets from `first` to before `last`, as one batch reads
    them.
    """
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
        "removed_timestamp": removed and ms(removed[1].at),
    }
    row = {
        "record": "commits",
        "offset": stretch[0][0],
        "next_offset": stretch[-1][0] + 1,
        "offset_commits": [entry],
    }
    return row | {
        "read_at": ms(read_at),
        "producer_id": producer,
        "chunk": 0,
        "is_committed": None,
        "timestamp": None,
    }


def told(log: list[Written], end: int | None = None) -> list[Row]:
    """The rebalances that the log up to `end` tells: each id has its records side by side or apart,
    and lasts until its last one.
    """
    rows: dict[str, Row] = {}
    lasting = {each.rebalance for each in log[end or len(log) :]}
    for offset, each in enumerate(log[:end]):
        if each.rebalance is not None:
            last = next(reversed(rows.values()), None)
            fresh = {
                "id": each.rebalance,
                "log_partition": 0,
                "first_offset": offset,
                "began_before": ms(each.at),
            }
            fresh |= {"prev_members": last and last["members"], "since_previous_ms": last and 0}
            row = rows.setdefault(each.rebalance, fresh)
            row |= {
                "last_offset": None,
                "ended_before": None,
                "end_reason": None,
                "members": each.members,
            }
            if each.rebalance not in lasting:
                end_reason = "completed" if each.members else "emptied"
                row |= {
                    "last_offset": offset,
                    "ended_before": ms(each.at),
                    "end_reason": end_reason,
                }
    return list(rows.values())


def visit(at: int, committed: int | None, log_end: int | None, log_start: int = 0) -> Visit:
    return Visit(committed, log_start, log_end, (ms(at), ms(at)), (ms(at), ms(at)))  # type: ignore[arg-type]


def costs(
    log: list[Written],
    visits: list[Visit] = [],  # noqa: B006
    cuts: tuple[int, ...] = (),
    *,
    folded_once: bool = False,
) -> list[Row]:
    """The rows of a group whose log is read in stretches, and folded after each of them; the last
    ones count.
    """
    rows: dict[Any, Row] = {}
    ends = [*sorted({min(cut, len(log)) for cut in cuts}), len(log)]
    bronze: list[Row] = []
    done: set[str] = set()
    first = looked_at = 0
    for end in ends:
        read_at = log[end - 1].at if end else 0
        bronze += read(log, first, end, read_at)
        first = end
        if folded_once and end < len(log):
            continue
        rebalances = told(log, end)
        new = {row["id"] for row in rebalances if row["ended_before"] is not None} - done
        live = [row for row in rows.values() if row["close_reason"] is None]
        # As the job reads them: from fifteen minutes before what is new, or was looked at last.
        begins = [row["began_before"] for row in rebalances if row["id"] in new]
        since = min([*begins, ms(looked_at)]) - timedelta(minutes=15)
        seen = [each for each in visits if each.commit[0] >= since]
        known = tuple(row for row in bronze if row["read_at"] >= since)
        until = EVER if end == len(log) else ms(read_at)
        made = fold(
            live,
            rebalances,
            new,
            lambda _, known=known: commit_log(known),
            {PLACE: seen},
            until=until,
        )
        rows |= {key(row): row for row in made}
        done |= new
        looked_at = read_at
    return list(rows.values())


def every(
    period: int, until: int, offset: int = 0, since: int = 0, each: int = 10
) -> list[Written]:
    """Commits on a cadence, each of some records more."""
    times = range(since, until, period)
    return [Written(at, offset + each * n) for n, at in enumerate(times)]


# --- single rules ---


def test_a_gap_goes_from_the_last_commit_before_to_the_first_after() -> None:
    (row,) = costs([*every(1000, 60_000), Written(65_000, rebalance="r"), Written(71_000, 650)])
    assert (row["commit_gap_ms"], row["cadence_ms"]) == (12_000, 1_000)
    assert (row["pause_ms_min"], row["pause_ms_max"], row["pause_unknown"]) == (
        10_000,
        12_000,
        None,
    )
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
    assert (row["commit_gap_ms"], row["last_committed"], row["first_committed"]) == (
        8_000,
        100,
        120,
    )


def test_other_rebalances_are_no_part_of_the_cadence() -> None:
    log = [*every(1000, 10_000), Written(12_000, rebalance="a"), *every(1000, 40_000, 200, 30_000)]
    first, second = costs([*log, Written(40_500, rebalance="b"), Written(44_000, 400)])
    assert (first["commit_gap_ms"], second["commit_gap_ms"]) == (21_000, 5_000)
    assert second["cadence_ms"] == 1_000


def test_nobody_between_two_rebalances_is_one_gap_of_the_second() -> None:
    """An empty group, whose service comes back."""
    log = [
        *every(1000, 10_000),
        Written(10_000, rebalance="gone"),
        Written(3_000_000, rebalance="back"),
    ]
    gone, back = costs([*log, Written(3_001_000, 90)])
    assert (gone["close_reason"], gone["pause_unknown"], gone["commit_gap_ms"]) == (
        NEXT,
        NO_COMMIT_AFTER,
        None,
    )
    assert (back["commit_gap_ms"], back["cadence_ms"], back["reprocessed_min"]) == (
        2_992_000,
        1_000,
        0,
    )


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ([Written(0, 1), Written(1_000_000, rebalance="r"), Written(1_001_000, 2)], None),
        ([Written(0, 1), Written(1_000, rebalance="r"), Written(2_000, 2)], NO_CADENCE),
        ([*every(1000, 9_000), Written(9_000, rebalance="r")], NO_COMMIT_AFTER),
        ([*every(1000, 9_000), Written(9_000, rebalance="r"), Written(20_000, 80)], NO_PROGRESS),
        (
            [
                *every(1000, 9_000),
                Written(9_000, rebalance="r"),
                Written(9_500, removed=True),
                Written(10_000, 1),
            ],
            REMOVED,
        ),
    ],
)
def test_a_pause_that_is_not_known_has_its_reason(log: list[Written], reason: str | None) -> None:
    rows = costs(log)
    assert [row["pause_unknown"] for row in rows] == ([] if reason is None else [reason])
    assert [row["pause_ms_min"] for row in rows] == [None] * len(rows)


def test_a_commit_that_was_removed_is_not_the_last_one() -> None:
    log = [
        *every(1000, 9_000),
        Written(9_000, removed=True),
        Written(9_500, rebalance="r"),
        Written(10_000, 1),
    ]
    assert costs(log) == []
    (row,) = costs(log, [visit(8_000, 80, 90), visit(12_000, 1, 90)])
    assert (row["pause_unknown"], row["commit_gap_ms"]) == (NO_COMMIT_BEFORE, None)


def test_a_committed_offset_that_falls_was_done_twice() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(12_000, 60)]
    (row,) = costs(log, [visit(9_500, 90, 100), visit(11_000, 90, 140), visit(13_000, 60, 150)])
    assert (row["reprocessed_min"], row["reprocessed_max"]) == (30, 50)


def test_lag_has_its_peak_and_the_bounds_of_its_end() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(30_000, 100)]
    before, at = (
        visit(9_500, 90, 100),
        [(15_000, 90, 300), (31_000, 100, 600), (40_000, 500, 700), (50_000, 795, 800)],
    )
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
    assert (row["pause_ms_min"], row["pause_ms_max"], row["pause_unknown"]) == (
        None,
        31_000,
        NOTHING_THERE,
    )
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
    (row,) = fold(live, told(log), set(), lambda _: commit_log([lost, after]), {}, until=EVER)
    assert (row["close_reason"], row["pause_unknown"], row["commit_gap_ms"]) == (LOST, LOST, None)


def test_commits_of_a_transaction_count_at_its_marker() -> None:
    rows = [
        row_of([(5, Written(1_000, 7))], 2_000, producer=3),
        row_of([(6, Written(1_000, 8))], 2_000, producer=4),
    ]
    marker = {
        "record": "marker",
        "offset": 9,
        "next_offset": 10,
        "timestamp": ms(4_000),
        "chunk": None,
    }
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
    assert (row["close_reason"], row["pause_unknown"], row["awaits_after"]) == (
        REMOVED,
        REMOVED,
        None,
    )


def test_a_pause_of_hours_is_as_long_as_it_was() -> None:
    hours = 2 * 3_600_000
    visits = [visit(at, 90, 100 + at) for at in range(9_500, hours, 60_000)]
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(hours, 120)]
    (whole,) = costs(log, visits)
    assert whole["pause_ms_min"] > hours - 80_000
    live = costs(log[:-1], visits)
    after = {"rebalances": told(log), "log": commit_log(read(log, 11, 12, hours))}
    (row,) = fold(
        live, after["rebalances"], set(), lambda _: after["log"], {PLACE: visits[-15:]}, until=EVER
    )
    assert row["pause_ms_min"] == whole["pause_ms_min"]


def test_a_gap_that_ends_within_the_next_rebalance_is_whole() -> None:
    log = [
        *every(1000, 9_000),
        Written(10_000, rebalance="gone"),
        Written(1_200_000, rebalance="back"),
    ]
    log += [Written(1_260_000, 90), Written(1_262_000, rebalance="back"), Written(1_263_000, 100)]
    _, back = costs(log)
    assert (back["commit_gap_ms"], back["last_committed"]) == (1_252_000, 80)


def test_a_row_whose_rebalance_is_not_told_any_more_closes() -> None:
    live = costs([*every(1000, 10_000), Written(10_000, rebalance="r")])
    (row,) = fold(live, [], set(), lambda _: CommitLog(), {}, until=EVER)
    assert row["close_reason"] == NEXT


def test_an_offset_that_no_sum_holds_is_the_largest() -> None:
    most = (1 << 63) - 1
    log = [Written(0, most), Written(1_000, most), Written(2_000, rebalance="r"), Written(3_000, 0)]
    (row,) = costs([*log, Written(4_000, rebalance="s"), Written(5_000, most)])[:1]
    assert row["reprocessed_min"] == most


def test_what_nobody_committed_has_no_row() -> None:
    assert costs([Written(0, rebalance="r"), Written(1_000, 5)]) == []
    assert (
        fold([], told([Written(0, rebalance="r")]), {"r"}, lambda _: CommitLog(), {}, until=EVER)
        == []
    )


# --- an administrator sets offsets ---


def of_back(*log: Written, visits: list[Visit] = []) -> Row:  # noqa: B006
    """The row of the rebalance with which members are back, after those of one without any."""
    *_, row = costs(list(log), visits)
    assert row["rebalance_id"] == "back"
    return row


BEFORE_EMPTY = [*every(1000, 60_000), Written(60_500, rebalance="emptied", members=0)]
BACK = [Written(10_000_000, rebalance="back"), Written(10_001_000, 10), Written(10_002_000, 20)]


@pytest.mark.parametrize(
    ("set_to", "first", "columns"),
    [
        # The offsets to which an administrator sets a partition; what the first commit of a member
        # is then.
        ((), 600, {"reprocessed_min": 0, "committed_before": 590, "pause_ms_min": 9_940_000}),
        ((0,), 10, {"reprocessed_min": 590, "committed_before": 0, "pause_ms_min": 9_940_000}),
        (
            (0, 500),
            510,
            {"reprocessed_min": 90, "committed_before": 500, "pause_ms_min": 9_940_000},
        ),
        (
            (5_000,),
            5_010,
            {"reprocessed_min": 0, "committed_before": 5_000, "pause_ms_min": 9_940_000},
        ),
        (
            (5_000,),
            4_990,
            {"reprocessed_min": 10, "committed_before": 5_000, "pause_unknown": NO_PROGRESS},
        ),
        (
            (500,),
            500,
            {"reprocessed_min": 90, "committed_before": 500, "pause_unknown": NO_PROGRESS},
        ),
    ],
)
@pytest.mark.parametrize("cuts", [(), (62,), (63,), (64,), (61, 62, 63, 64, 65)])
def test_an_offset_that_is_set_while_nobody_is_a_member_ends_no_pause(
    set_to: tuple[int, ...], first: int, columns: Row, cuts: tuple[int, ...]
) -> None:
    resets = [Written(160_000 + n, offset) for n, offset in enumerate(set_to)]
    log = [
        *BEFORE_EMPTY,
        *resets,
        Written(10_000_000, rebalance="back"),
        Written(10_001_000, first),
    ]
    emptied, back = costs(log, cuts=cuts)
    assert (emptied["commit_gap_ms"], emptied["pause_ms_max"], emptied["pause_unknown"]) == (
        None,
        None,
        NO_COMMIT_AFTER,
    )
    assert (emptied["close_reason"], emptied["reprocessed_min"]) == (NEXT, 0)
    assert (back["last_committed"], back["last_commit_at"], back["first_committed"]) == (
        590,
        ms(59_000),
        first,
    )
    assert (back["first_commit_at"], back["pause_ms_max"], back["close_reason"]) == (
        ms(10_001_000),
        9_942_000,
        RECOVERED,
    )
    assert {name: back[name] for name in columns} == columns


def test_while_nobody_is_a_member_a_row_waits() -> None:
    (row,) = costs([*BEFORE_EMPTY, Written(160_000, 100), Written(170_000, 200)])
    assert (row["close_reason"], row["pause_unknown"]) == (None, NO_COMMIT_AFTER)
    assert row["awaits_after"] == {
        "committed": 590,
        "at": ms(59_000),
        "there_before": None,
        "set_to": 200,
    }


def test_members_that_come_back_may_commit_before_their_rebalance_is_over() -> None:
    """As in a KIP-848 group: its members consume from the epoch on, not only once all of them have
    reached it.
    """
    log = [
        *BEFORE_EMPTY,
        Written(160_000, 0),
        Written(200_000, rebalance="back"),
        Written(202_000, 10),
    ]
    row = of_back(*log, Written(203_000, rebalance="back"), Written(204_000, 30))
    assert (row["commit_gap_ms"], row["last_committed"], row["first_committed"]) == (
        143_000,
        590,
        10,
    )
    assert (row["reprocessed_min"], row["committed_before"]) == (590, 10)


def test_offsets_set_long_after_a_group_emptied_before_members_are_back_are_not_theirs() -> None:
    day = 24 * 3_600_000
    log = [
        Written(0, rebalance="emptied", members=0),
        Written(day, 70),
        Written(day + 1000, rebalance="back"),
    ]
    assert costs([*log, Written(day + 2000, 80)], cuts=(1, 2, 3)) == []
    row = of_back(*log, Written(day + 2000, 80), visits=[visit(day + 500, 70, 90)])
    assert (row["pause_unknown"], row["lag_before"]) == (NO_COMMIT_BEFORE, 20)
    rebalances = told([*log, Written(day + 2000, 80)])
    records = commit_log(read(log, 1, 2, day) + read([*log, Written(day + 2000, 80)], 3, 4, day))
    assert fold([], rebalances[1:], {"back"}, lambda _: records, {}, until=EVER) == []


def test_an_empty_group_that_another_type_of_group_takes_over_had_members() -> None:
    """A consumer group in the place of a classic one that is empty: its first rebalance knows none
    before it.
    """
    log = [
        *BEFORE_EMPTY,
        Written(160_000, 0),
        Written(200_000, rebalance="back"),
        Written(201_000, 10),
    ]
    emptied, back = told(log)
    made = [emptied, back | {"prev_members": 0, "since_previous_ms": None}]
    known = commit_log(read(log, 0, len(log), 201_000))
    _, row = fold([], made, {"emptied", "back"}, lambda _: known, {}, until=EVER)
    assert (row["commit_gap_ms"], row["reprocessed_min"]) == (142_000, 590)


def test_a_consumer_without_a_membership_consumes_until_others_join() -> None:
    """It assigns partitions to itself, and its group had no member before."""
    log = [*every(1000, 10_000), Written(10_500, rebalance="first"), Written(13_000, 100)]
    (row,) = costs(log)
    assert (row["commit_gap_ms"], row["cadence_ms"], row["pause_ms_min"]) == (4_000, 1_000, 2_000)
    made = told(log)[0] | {"prev_members": 0, "since_previous_ms": None}
    (row,) = fold(
        [], [made], {"first"}, lambda _: commit_log(read(log, 0, 12, 13_000)), {}, until=EVER
    )
    assert (row["commit_gap_ms"], row["cadence_ms"], row["pause_ms_min"]) == (4_000, 1_000, 2_000)


# --- how far history is ---


def test_visits_after_a_rebalance_that_is_not_told_yet_are_left_to_it() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="a"), Written(20_000, rebalance="b")]
    visits = [visit(9_500, 90, 100), visit(25_000, 90, 4_090)]
    first, second = costs(log, visits, cuts=(11,))
    assert (
        first["lag_peak"],
        first["reprocessed_max"],
        first["lag_back_after"],
        first["close_reason"],
    ) == (
        *(None, None, None),
        NEXT,
    )
    assert (second["lag_peak"], second["reprocessed_max"], second["lag_back_after"]) == (
        4_000,
        4_000,
        ms(25_000),
    )


def test_from_the_begin_of_a_rebalance_that_lasts_commits_and_visits_are_its_own() -> None:
    log = [
        *every(1000, 10_000),
        Written(10_000, rebalance="a"),
        Written(20_000, rebalance="b"),
        Written(21_000, 95),
    ]
    visits = [visit(9_500, 90, 100), visit(25_000, 95, 4_095)]
    whole = [*log, Written(30_000, rebalance="b"), Written(31_000, 200)]
    rebalances = told(whole, len(log))
    assert [row["ended_before"] for row in rebalances] == [ms(10_000), None]
    known = commit_log(read(log, 0, len(log), 26_000))
    (row,) = fold([], rebalances, {"a"}, lambda _: known, {PLACE: visits}, until=ms(26_000))
    assert (row["commit_gap_ms"], row["lag_peak"], row["close_reason"]) == (None, None, None)
    first, second = costs(whole, visits, cuts=(13,))
    assert (first["commit_gap_ms"], first["lag_peak"], first["close_reason"]) == (None, None, NEXT)
    assert (second["commit_gap_ms"], second["lag_peak"]) == (12_000, 4_000)


def test_visits_after_a_removal_say_nothing_of_what_was_removed() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(20_000, removed=True)]
    (row,) = costs(log, [visit(9_500, 90, 100), visit(15_000, 90, 300), visit(25_000, 299, 300)])
    assert (row["lag_peak"], row["lag_back_before"], row["close_reason"]) == (210, None, REMOVED)


def test_a_cadence_is_passed_on_only_while_nobody_commits() -> None:
    log = [
        *every(1000, 10_000),
        Written(10_000, rebalance="a"),
        Written(11_000, 100),
        Written(12_000, removed=True),
    ]
    log += [Written(13_000, 100), Written(14_000, rebalance="b")]
    for cuts in ((), (12,), (13,)):
        assert [row["cadence_ms"] for row in costs(log, cuts=cuts)] == [1_000, None]


# --- bounds ---


@pytest.mark.parametrize(
    ("before", "after", "back"), [(0, 0, True), (0, 1, False), (10, 10, True), (10, 11, False)]
)
def test_lag_is_back_once_it_is_no_more_than_before(before: int, after: int, back: bool) -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(11_000, 100)]
    (row,) = costs(log, [visit(9_500, 90, 90 + before), visit(12_000, 100, 100 + after)])
    assert row["lag_back_before"] == (ms(12_000) if back else None)
    assert row["close_reason"] == (RECOVERED if back else None)


@pytest.mark.parametrize(("asked", "lag_before"), [(0, 10), (-1, None)])
def test_a_lag_of_more_than_ten_minutes_before_is_none(asked: int, lag_before: int | None) -> None:
    log = [*every(1000, 600_000), Written(600_000, rebalance="r")]
    (row,) = costs(log, [visit(asked, 90, 100)])
    assert row["lag_before"] == lag_before


@pytest.mark.parametrize(("end", "least"), [(90, None), (91, 18_000)])
def test_something_is_there_once_the_log_ends_beyond_the_commit(
    end: int, least: int | None
) -> None:
    """A gap within a rebalance, of which ends are asked for alone."""
    log = [
        *every(1000, 10_000),
        Written(10_000, rebalance="r"),
        Written(40_000, 100),
        Written(40_500, rebalance="r"),
    ]
    (row,) = costs([*log, Written(41_000, 110)], [visit(9_500, 90, 90), visit(20_000, 90, end)])
    assert (row["commit_gap_ms"], row["pause_ms_min"]) == (31_000, least)
    assert row["pause_unknown"] == (NOTHING_THERE if least is None else None)


def test_what_is_asked_at_the_time_of_a_record_is_of_after_it() -> None:
    log = [*every(1000, 10_000), Written(10_000, rebalance="r"), Written(20_000, 90)]
    (row,) = costs(log, [visit(9_500, 90, 100), visit(10_000, 90, 150), visit(20_000, 90, 90)])
    assert (row["lag_before"], row["lag_peak"], row["lag_back_before"]) == (10, 60, ms(20_000))
    (row,) = costs(log, [visit(20_000, 90, 90)])
    assert row["pause_unknown"] == NO_PROGRESS


def test_an_offset_that_falls_within_a_rebalance_was_done_twice() -> None:
    log = [
        *every(1000, 10_000),
        Written(10_000, rebalance="r"),
        Written(11_000, 95),
        Written(12_000, 60),
    ]
    log += [Written(13_000, 70), Written(14_000, rebalance="r"), Written(15_000, 75)]
    (row,) = costs(log)
    assert row["reprocessed_min"] == 35


@pytest.mark.parametrize(("gone", "reason"), [(12, LOST), (14, NEXT)])
def test_records_that_are_lost_after_the_next_rebalance_began_are_not_of_this_one(
    gone: int, reason: str
) -> None:
    log = [
        *every(1000, 10_000),
        Written(10_000, rebalance="a"),
        *[Written(10_500, rebalance="x")] * 2,
    ]
    live = costs(log[:11])
    following = told(log[:11])[0] | {
        "id": "b",
        "first_offset": 13,
        "last_offset": 13,
        "began_before": ms(20_000),
    }
    following |= {"ended_before": ms(20_000), "prev_members": 1}
    lost = {
        "record": "lost",
        "offset": gone - 1,
        "next_offset": gone + 1,
        "read_at": ms(21_000),
        "producer_id": None,
    }
    lost |= {"chunk": None}
    made = fold(
        live, [*told(log[:11]), following], set(), lambda _: commit_log([lost]), {}, until=EVER
    )
    assert [row["close_reason"] for row in made] == [reason]


# --- properties ---


@dataclass(frozen=True)
class Life:
    """A partition that one member consumes and commits on a cadence until a rebalance, and another
    member after it.
    """

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
    after = [
        Written(each, (each - began + stopped) * rate + 1)
        for each in range(again, again + 5 * period, period)
    ]
    return Life([*commits, Written(at, rebalance="r"), *after], stopped, began)


@settings(max_examples=examples(60))
@given(lives(), st.sets(st.integers(0, 60)))
def test_members_pauses_lie_within_the_bounds(life: Life, cuts: set[int]) -> None:
    (row,) = costs(life.log, cuts=tuple(cuts))
    assert row["pause_ms_min"] <= life.began - life.stopped <= row["pause_ms_max"]


writings = st.lists(
    st.tuples(
        st.integers(0, 5_000),
        st.sampled_from(
            ["commit"] * 8 + ["a rebalance"] * 2 + ["the same", "nobody is left", "removed"]
        ),
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
            number += what != "the same" or number == 0
            log.append(Written(at, rebalance=f"{number:03}", members=int(what != "nobody is left")))
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
    whole = costs(log, visits, tuple(cuts), folded_once=True)
    assert costs(log, visits, tuple(cuts)) == whole
    # Two stretches of commits within a rebalance may have a record of the group between them.
    names = [each.rebalance for each in log]
    inside = {n for n in cuts if set(filter(None, names[:n])) & set(names[n:])}
    assert costs(log, visits, tuple(cuts - inside)) == costs(log, visits)
    for row in whole:
        gap = row["commit_gap_ms"]
        assert gap is None or gap >= 0
        assert row["pause_ms_min"] is None or 0 <= row["pause_ms_min"] <= row["pause_ms_max"] == gap
        assert (
            row["reprocessed_max"] is None or row["reprocessed_max"] >= row["reprocessed_min"] >= 0
        )
        assert row["lag_back_before"] is None or row["lag_peak"] is not None
