"""Commits of one partition and rebalances of its group as a coordinator writes them, and the rows
of costs that folds make of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

from jobs.rules.groups.commits import commit_log
from jobs.rules.groups.cost import fold, key
from jobs.rules.groups.cost_rows import Visit
from tests.support.offset_commits import Commit, of_one, one_after_another

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


def commit(at: int, offset: int) -> Written:
    return Written(at, offset)


def rebalance(at: int, name: str = "r", members: int = 1) -> Written:
    return Written(at, rebalance=name, members=members)


def removal(at: int) -> Written:
    return Written(at, removed=True)


def lost(offset: int, next_offset: int, read_at: int = 20_000) -> Row:
    """The row of records that were gone before they could be read."""
    row = {"record": "lost", "offset": offset, "next_offset": next_offset, "read_at": ms(read_at)}
    return row | {"producer_id": None, "chunk": None}


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
    entries = (
        of_one(offset, ms(each.at), Commit("g", PLACE[1], each.committed))
        for offset, each in stretch
    )
    entry = reduce(one_after_another, entries)
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


def told(
    log: list[Written], end: int | None = None, lasting: Iterable[str | None] = ()
) -> list[Row]:
    """The rebalances that the log up to `end` tells: each id has its records side by side or apart,
    and lasts until its last one, or is `lasting` yet.
    """
    rows: dict[str, Row] = {}
    lasting = {*lasting, *(each.rebalance for each in log[end or len(log) :])}
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
    visits: Iterable[Visit] = (),
    cuts: tuple[int, ...] = (),
    *,
    folded_once: bool = False,
    lasting: Iterable[str] = (),
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
        rebalances = told(log, end, lasting)
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
