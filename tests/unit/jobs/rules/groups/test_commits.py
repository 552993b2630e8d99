"""Commits of a group in one partition of the log: transactions, removals, missing records."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.rules.groups.commits import Commit, Commits, Removal, commit_log

START = datetime(2026, 3, 1, tzinfo=UTC)
PLACE = ("t", 0)
Row = dict[str, Any]


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def row(record: str, offset: int, next_offset: int | None = None, **more: Any) -> Row:
    """A row of the log; each offset is written, and read, so many seconds later."""
    made = {"record": record, "offset": offset, "next_offset": next_offset or offset + 1}
    return made | {"chunk": None, "producer_id": None, "read_at": at(offset)} | more


def entry(first: int, last: int, **more: Any) -> Row:
    """What was committed from one offset of the log to another: each commit is its offset."""
    ends = {"from_offset": first, "to_offset": last, "from_timestamp": at(first)}
    ends |= {"to_timestamp": at(last), "first_committed": first, "last_committed": last}
    made = {"topic": "t", "partition": 0, "commits": last - first + 1, "fallen": 0} | ends
    gap = {"gap_from": None, "gap_to": None, "removed_offset": None, "removed_timestamp": None}
    return made | gap | more


def committed(first: int, last: int | None = None, *, by: int | None = None, **more: Any) -> Row:
    """`by`: the producer of the transaction."""
    last = first if last is None else last
    entries = [entry(first, last, **more)]
    return row("commits", first, last + 1, offset_commits=entries, producer_id=by, chunk=0)


def removed(offset: int, *, by: int | None = None) -> Row:
    gone = entry(offset, offset, commits=0, removed_offset=offset, removed_timestamp=at(offset))
    return row("commits", offset, offset_commits=[gone], producer_id=by, chunk=0)


def marker(offset: int, producer: int, *, is_committed: bool = True) -> Row:
    of_marker = {"is_committed": is_committed, "timestamp": at(offset)}
    return row("marker", offset, producer_id=producer, **of_marker)


@pytest.mark.parametrize(
    ("rows", "found", "breaks"),
    [
        # Rows of the log; the offset that each stretch of commits begins with, and its place there.
        pytest.param([committed(10), committed(20)], [(10, 10), (20, 20)], [], id="commits"),
        pytest.param([committed(20), committed(10)], [(10, 10), (20, 20)], [], id="in any order"),
        pytest.param([committed(10, by=3), marker(25, 3)], [(10, 25)], [], id="transaction"),
        pytest.param(
            [committed(10, by=3), committed(12, by=3), committed(20), marker(25, 3)],
            [(20, 20), (10, 25), (12, 25)],
            [],
            id="transaction: of two stretches",
        ),
        pytest.param(
            [committed(10, by=3), marker(25, 3, is_committed=False)],
            [],
            [],
            id="transaction: aborted",
        ),
        pytest.param([committed(10, by=3)], [], [], id="transaction: open"),
        pytest.param(
            [committed(10, by=3), marker(25, 4)], [], [], id="transaction: another producer's"
        ),
        pytest.param(
            [committed(10, by=3), marker(25, 3), marker(30, 3)],
            [(10, 25)],
            [],
            id="transaction: it ends once",
        ),
        pytest.param(
            [committed(10, by=3), row("lost", 11, 20), committed(21, 30, by=3), marker(35, 3)],
            [(21, 35)],
            [19],
            id="records_lost: an open transaction may have ended among them",
        ),
        pytest.param(
            [committed(10), row("lost", 11, 20), committed(20)], [(20, 20)], [19], id="records_lost"
        ),
        pytest.param(
            [committed(20), row("lost", 11, 20), committed(10)],
            [(20, 20)],
            [19],
            id="records_lost: whatever the order",
        ),
        pytest.param(
            [row("lost", 5, 8), row("lost", 11, 20), committed(20)],
            [(20, 20)],
            [7, 19],
            id="records_lost: twice",
        ),
        # Offsets go back where the log was truncated: what was read before that is of before.
        pytest.param(
            [
                committed(10),
                committed(30),
                row("truncated", 40, 20, read_at=at(41)),
                committed(25) | {"read_at": at(50)},
            ],
            [(25, 25)],
            [20],
            id="truncated",
        ),
        pytest.param(
            [
                committed(10, by=3),
                row("truncated", 40, 20, read_at=at(41)),
                marker(25, 3) | {"read_at": at(50)},
            ],
            [],
            [20],
            id="truncated: an open transaction",
        ),
    ],
)
def test_commits_count_where_they_are_valid(
    rows: list[Row], found: list[tuple[int, int]], breaks: list[int]
) -> None:
    made = commit_log(rows)
    stretches = made.of.get(PLACE, [])
    assert [(each.first.committed, each.first.offset) for each in stretches] == found
    assert all(each.first.at == at(each.first.offset) for each in stretches)
    assert made.breaks == breaks


def test_a_stretch_of_commits_has_its_gap_and_falls_unless_a_marker_wrote_it_at_once() -> None:
    more = {"gap_from": at(12), "gap_to": at(17), "fallen": 3}
    (plain,) = commit_log([committed(10, 20, **more)]).of[PLACE]
    assert plain == Commits(Commit(10, 10, at(10)), Commit(20, 20, at(20)), (at(12), at(17)), 3)
    (at_once,) = commit_log([committed(10, 20, by=3, **more), marker(25, 3)]).of[PLACE]
    assert at_once == Commits(Commit(10, 25, at(25)), Commit(20, 25, at(25)), None, 3)


@pytest.mark.parametrize(
    ("rows", "removals", "commits"),
    [
        ([removed(12)], [Removal(12, at(12))], []),
        ([removed(12, by=3), marker(25, 3)], [Removal(25, at(25))], []),
        ([removed(12, by=3), marker(25, 3, is_committed=False)], [], []),
        ([removed(12), row("lost", 13, 20)], [], []),
        ([committed(10), removed(12), committed(14)], [Removal(12, at(12))], [10, 14]),
    ],
)
def test_removals_are_apart_from_commits(
    rows: list[Row], removals: list[Removal], commits: list[int]
) -> None:
    made = commit_log(rows)
    assert made.removals.get(PLACE, []) == removals
    assert [each.first.offset for each in made.of.get(PLACE, [])] == commits


def test_stretches_are_in_the_order_of_the_log() -> None:
    """A row may have more than one of a partition, and a transaction end between them."""
    both = row("commits", 20, 40, offset_commits=[entry(20, 20), entry(38, 38)], chunk=0)
    made = commit_log([committed(10, by=3), both, marker(30, 3)])
    assert [each.first.offset for each in made.of[PLACE]] == [20, 30, 38]


def test_partitions_are_apart() -> None:
    entries = [entry(10, 10), entry(10, 10) | {"partition": 1}, entry(10, 10) | {"topic": "u"}]
    made = commit_log([row("commits", 10, offset_commits=entries, chunk=0)])
    assert {place: len(each) for place, each in made.of.items()} == {
        ("t", 0): 1,
        ("t", 1): 1,
        ("u", 0): 1,
    }


def test_chunks_of_an_offset_are_in_their_order() -> None:
    """More entries than a row holds are in several rows of one offset."""
    rows = [
        committed(10, by=3) | {"chunk": chunk, "offset_commits": [entry(value, value)]}
        for chunk, value in ((1, 12), (0, 11))
    ]
    made = commit_log([*rows, marker(25, 3)])
    assert [each.first.committed for each in made.of[PLACE]] == [11, 12]
