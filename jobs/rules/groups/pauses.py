"""For how long nobody committed a partition while its group rebalanced: the longest gap between two
commits that overlaps the rebalance, and the pause that it may be; and how much may have been done
twice, by offsets that fell.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from jobs.rules.groups.commits import Commit, CommitLog, Commits, Partition
from jobs.rules.groups.cost_rows import Awaited, Cost, Rebalance, Visit

NO_COMMIT_BEFORE, NO_COMMIT_AFTER, NO_CADENCE = "no_commit_before", "no_commit_after", "no_cadence"
NOTHING_THERE, NO_PROGRESS = "nothing_to_consume", "no_progress"
MOST = (1 << 63) - 1
"""The largest bigint: a client may commit any offset."""

MILLISECOND = timedelta(milliseconds=1)


def waiting_after(last: Commit) -> Awaited:
    """A commit that another one has to follow."""
    return {"committed": last.committed, "at": last.at, "there_before": None, "set_to": None}


def committed_offsets(awaited: Awaited) -> list[int]:
    """The offset that was committed last, and the one that was set since, if any."""
    return [awaited["committed"], *([] if awaited["set_to"] is None else [awaited["set_to"]])]


def _fallen(offsets: Iterable[int]) -> int:
    return sum(max(0, one - other) for one, other in pairwise(offsets))


def with_records_after(awaited: Awaited, visits: Iterable[Visit]) -> Awaited:
    """The same, with what visits say of records after it."""
    if awaited["there_before"] is not None:
        return awaited
    ends = ((each.log_end, each.ends) for each in visits)
    there_before = next(
        (at[1] for end, at in ends if end and at and end > awaited["committed"]), None
    )
    return {**awaited, "there_before": there_before}


def cadence_ms(
    commits: Sequence[Commits], since: datetime, others: Sequence[Rebalance]
) -> int | None:
    """The longest time between two successive commits that ended after `since`, but for those in
    which the group rebalanced; None where there is none.
    """
    gaps = [
        each.gap
        for each in commits
        if each.gap and not any(_lies_in(each, other) for other in others)
    ]
    for one, other in pairwise(commits):
        if not any(
            one.last.offset <= each.last_offset and each.first_offset <= other.first.offset
            for each in others
        ):
            gaps += _between(one.last, other.first)
    return max((_ms(gap) for gap in gaps if gap[1] >= since), default=None)


def standing(
    log: CommitLog, partition: Partition, rebalance: Rebalance, since: datetime
) -> list[Commits]:
    """Commits from `since` to the end of the rebalance that nothing had removed by then."""
    removed = [
        each.offset
        for each in log.removals.get(partition, ())
        if each.offset < rebalance.last_offset
    ]
    return [
        each
        for each in log.of.get(partition, ())
        if max(removed, default=-1) < each.first.offset
        and each.last.offset < rebalance.last_offset
        and each.last.at is not None
        and each.last.at >= since
    ]


def _lies_in(commits: Commits, rebalance: Rebalance) -> bool:
    return (
        rebalance.first_offset < commits.first.offset
        and commits.last.offset < rebalance.last_offset
    )


def _between(one: Commit, other: Commit) -> list[tuple[datetime, datetime]]:
    return [] if one.at is None or other.at is None else [(one.at, other.at)]


def _ms(gap: tuple[datetime, datetime]) -> int:
    """Its length. A coordinator's clock may step back."""
    return max(0, (gap[1] - gap[0]) // MILLISECOND)


def with_gaps(row: Cost, last: Awaited | None, within: Sequence[Commits]) -> Cost:
    """The row with the longest gap of those that overlap the rebalance, so far. `last`: the last
    commit before its first record; `within`: those up to its last one. If a partition changes
    hands, a record of the group lies in its gap.
    """
    if not within:
        return row
    first, gaps = within[0].first, [(one.last, other.first) for one, other in pairwise(within)]
    fallen = sum(each.fallen for each in within) + sum(
        _fallen((one.committed, other.committed)) for one, other in gaps
    )
    if last is not None:
        gaps.insert(0, (Commit(last["committed"], -1, last["at"]), first))
        fallen += _fallen((*committed_offsets(last), first.committed))
    row["reprocessed_min"] = min(fallen, MOST)
    timed = [(_ms(gap), one, other) for one, other in gaps for gap in _between(one, other)]
    return row if not timed else _with_gap(row, *max(timed, key=lambda gap: gap[0]))


def _with_gap(row: Cost, length: int, last: Commit, first: Commit) -> Cost:
    if (row["commit_gap_ms"] or 0) > length:
        return row
    return {
        **row,
        "commit_gap_ms": length,
        "last_committed": last.committed,
        "last_commit_at": last.at,
        "first_committed": first.committed,
        "first_commit_at": first.at,
    }


def committed_again(row: Cost, last: Awaited, first: Commit, visits: Sequence[Visit]) -> Cost:
    """The row once the `first` commit after the rebalance is known, that `last` waits for: its gap,
    and the pause that it may be.
    """
    fallen = _fallen((*committed_offsets(last), first.committed))
    row["reprocessed_min"] = min((row["reprocessed_min"] or 0) + fallen, MOST)
    row["awaits_after"] = None
    if last["at"] is not None and first.at is not None:
        before = Commit(last["committed"], -1, last["at"])
        row = _with_gap(row, _ms((last["at"], first.at)), before, first)
    least, unknown = _pause(row, last, visits)
    row["pause_ms_min"], row["pause_ms_max"] = least, row["commit_gap_ms"]
    row["pause_unknown"] = unknown
    return row


def _pause(row: Cost, awaited: Awaited, visits: Sequence[Visit]) -> tuple[int | None, str | None]:
    """For how long nobody consumed at least, or why that is not known: what two usual times between
    commits leave of the gap, from when on something was there to consume.
    """
    gap, cadence = row["commit_gap_ms"], row["cadence_ms"]
    last, began = row["last_committed"], row["last_commit_at"]
    first, ended = row["first_committed"], row["first_commit_at"]
    if gap is None or last is None or began is None or first is None or ended is None:
        return None, NO_COMMIT_BEFORE
    of_ends = [
        (each.log_end, each.ends[1])
        for each in visits
        if each.ends and each.log_end is not None and each.ends[1] < ended
    ]
    if began == awaited["at"]:
        stood = committed_offsets(awaited)[-1]
        there = awaited["there_before"] if (awaited["there_before"] or ended) < ended else None
    else:
        stood = last
        there = next((at for end, at in of_ends if end > last), None)
    if cadence is None:
        return None, NO_CADENCE
    if there is None and any(at >= began for _, at in of_ends):
        return None, NOTHING_THERE
    if there is None and first <= stood:
        return None, NO_PROGRESS
    known = gap if there is None else _ms((max(there, began), ended))
    return max(0, known - 2 * cadence), None
