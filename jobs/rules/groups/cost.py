"""The cost of a rebalance for each of the group's partitions: for how long nobody committed, how far the group fell
behind, how much may have been done twice.

The group's own log says when who committed (`CommitLog`); lag takes the ends of logs, which visits asked for. A row is
begun once the rebalance is over, and is live until the partition is committed again and its lag is back, or the next
rebalance is over.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from jobs.rules.groups.commits import Commit, CommitLog, Commits, Partition
from jobs.rules.groups.rows import Row

CADENCE_FROM = timedelta(minutes=10)
"""The usual time between two commits is that of so long before a rebalance."""

BEFORE_AT_MOST = 200
"""So many rebalances within that time, one each three seconds, are left out of the cadence."""

RECOVERED, NEXT, REMOVED, LOST = "recovered", "next_rebalance", "removed", "records_lost"
NO_COMMIT_BEFORE, NO_COMMIT_AFTER, NO_CADENCE = "no_commit_before", "no_commit_after", "no_cadence"
NOTHING_THERE, NO_PROGRESS = "nothing_to_consume", "no_progress"
MOST = (1 << 63) - 1
"""The largest bigint: a client may commit any offset."""

MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Rebalance:
    """The columns of a rebalance that its cost follows from; `ended` is None while it lasts."""

    id: str
    log_partition: int
    first_offset: int
    last_offset: int
    began: datetime
    ended: datetime | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Rebalance":
        """A row of gold.rebalances_told that the log told."""
        names = ("id", "log_partition", "first_offset", "last_offset")
        last = row["first_offset"] if row["last_offset"] is None else row["last_offset"]
        given = {name: row[name] for name in names} | {"last_offset": max(last, row["first_offset"])}
        return cls(**given, began=row["began_before"], ended=row["ended_before"])


@dataclass(frozen=True)
class Visit:
    """A partition as it was asked for once: what was committed, read between the times `commit`, then the ends of its
    log, read between the times `ends`. What could not be told is None.
    """

    committed: int | None
    log_start: int | None
    log_end: int | None
    commit: tuple[datetime, datetime]
    ends: tuple[datetime, datetime] | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Visit":
        """An entry of bronze.metadata_polls.offsets."""
        ends = None if row["ends_read_before"] is None else (row["ends_read_after"], row["ends_read_before"])
        commit = row["commit_read_after"], row["commit_read_before"]
        return cls(row["committed_offset"], row["log_start"], row["log_end"], commit, ends)

    @property
    def lag(self) -> int | None:
        """The most that the group was behind; None where that is not known."""
        if self.committed is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.committed)


Visits = Mapping[Partition, Sequence[Visit]]


def begun(
    rebalance: Rebalance,
    before: Iterable[Rebalance],
    log: CommitLog,
    visits: Visits,
    waiting: Mapping[Partition, Row],
) -> list[Row]:
    """The rows of a rebalance that is over, as they are at its end: one for each partition that the group had committed
    offsets of.

    `before`: the group's rebalances of the ten minutes before. `log`, `visits`: of that time too; what they have of
    later times is left to `continued`. `waiting`: rows of the rebalances before; where nobody has committed since, the
    commit that they wait to be followed is this one's, too.
    """
    others = [each for each in before if each.log_partition == rebalance.log_partition]
    since = rebalance.began - CADENCE_FROM
    rows = []
    for partition in sorted(log.of.keys() | visits.keys() | waiting.keys()):
        commits = _standing(log, partition, rebalance, since)
        seen = [each for each in visits.get(partition, ()) if each.commit[1] <= rebalance.began]
        asked = next((each for each in reversed(seen) if each.lag is not None and each.commit[0] >= since), None)
        waits = waiting.get(partition, {}).get("awaits_after")
        if not commits and asked is None and waits is None:
            continue
        earlier = [each for each in commits if each.last.offset < rebalance.first_offset]
        cadence = cadence_ms(earlier, since, others)
        last = waits if not commits else _awaited(commits[-1].last)
        # Nobody committed from before an earlier rebalance until within this one: the whole gap is this one's.
        if waits is not None and commits and not earlier:
            commits = [_as_commits(waits), *commits]
        row = {
            "rebalance_id": rebalance.id,
            "topic": partition[0],
            "partition": partition[1],
            "began_before": rebalance.began,
            "ended_before": rebalance.ended,
            "cadence_ms": waiting[partition]["cadence_ms"] if cadence is None and partition in waiting else cadence,
            "lag_before": None if asked is None else asked.lag,
            "committed_before": None if last is None else last["committed"],
            "awaits_after": last,
            "pause_unknown": NO_COMMIT_BEFORE if last is None else NO_COMMIT_AFTER,
            "reprocessed_min": None if last is None else 0,
            **dict.fromkeys(LATER),
        }
        rows.append(_with_gaps(row, commits[max(0, len(earlier) - 1) :], rebalance))
    return rows


LATER = (
    *("last_committed", "last_commit_at", "first_committed", "first_commit_at", "commit_gap_ms"),
    *("pause_ms_min", "pause_ms_max", "reprocessed_max", "lost_unread"),
    *("lag_peak", "lag_peak_at", "lag_back_after", "lag_back_before", "close_reason"),
)
"""Columns that have no value when a row is begun."""


def continued(
    row: Row, rebalance: Rebalance, following: Rebalance | None, log: CommitLog, visits: Sequence[Visit]
) -> Row:
    """A live row after more of the log, and more visits of its partition, some of which it may have had before.

    `following`: the group's next rebalance that is over, if any: commits from its first record on are that one's.
    """
    until = None if following is None else following.first_offset
    place, row = (row["topic"], row["partition"]), dict(row)
    commits = (each for each in log.of.get(place, ()) if each.first.offset > rebalance.last_offset)
    after = next((each.first for each in commits if until is None or each.first.offset < until), None)
    ends = [*([] if after is None else [after.offset]), *([] if until is None else [until])]
    removed = any(rebalance.last_offset < each < min(ends, default=MOST) for each in log.removals.get(place, ()))
    lost = any(rebalance.last_offset < each < min(ends, default=MOST) for each in log.breaks)
    if row["awaits_after"] is not None:
        row["awaits_after"] = _there(row["awaits_after"], visits)
        if after is not None and not removed and not lost:
            row = _committed_again(row, after, visits)
    row = _behind(row, rebalance, [each for each in visits if following is None or each.commit[0] < following.began])
    if row["reprocessed_max"] is not None:
        row["reprocessed_max"] = max(row["reprocessed_max"], row["reprocessed_min"])
    row["close_reason"] = _close_reason(row, following, removed=removed, lost=lost)
    if row["close_reason"] in (REMOVED, LOST) and row["awaits_after"] is not None:
        row |= {"awaits_after": None, "pause_unknown": row["close_reason"]}
    return row


def _awaited(last: Commit) -> Row:
    """The last commit before a rebalance was over, which another one has to follow. `there_before`: by when a record
    was there that it did not have, as far as visits say.
    """
    return {"committed": last.committed, "at": last.at, "there_before": None}


def _as_commits(awaited: Mapping[str, Any]) -> Commits:
    commit = Commit(awaited["committed"], -1, awaited["at"])
    return Commits(commit, commit)


def _there(awaited: Row, visits: Iterable[Visit]) -> Row:
    if awaited["there_before"] is not None:
        return awaited
    ends = ((each.log_end, each.ends) for each in visits)
    return awaited | {
        "there_before": next((at[1] for end, at in ends if end and at and end > awaited["committed"]), None)
    }


def cadence_ms(commits: Sequence[Commits], since: datetime, others: Sequence[Rebalance]) -> int | None:
    """The longest time between two successive commits that ended after `since`, but for those in which the group
    rebalanced; None where there is none.
    """
    gaps = [each.gap for each in commits if each.gap and not any(_lies_in(each, other) for other in others)]
    for one, other in pairwise(commits):
        if not any(one.last.offset <= each.last_offset and each.first_offset <= other.first.offset for each in others):
            gaps += _between(one.last, other.first)
    return max((_ms(gap) for gap in gaps if gap[1] >= since), default=None)


def _standing(log: CommitLog, place: Partition, rebalance: Rebalance, since: datetime) -> list[Commits]:
    """Commits from `since` to the end of the rebalance that nothing had removed by then."""
    removed = [each for each in log.removals.get(place, ()) if each < rebalance.last_offset]
    return [
        each
        for each in log.of.get(place, ())
        if max(removed, default=-1) < each.first.offset
        and each.last.offset < rebalance.last_offset
        and each.last.at is not None
        and each.last.at >= since
    ]


def _lies_in(commits: Commits, rebalance: Rebalance) -> bool:
    return rebalance.first_offset < commits.first.offset and commits.last.offset < rebalance.last_offset


def _between(one: Commit, other: Commit) -> list[tuple[datetime, datetime]]:
    return [] if one.at is None or other.at is None else [(one.at, other.at)]


def _ms(gap: tuple[datetime, datetime]) -> int:
    """Its length. A coordinator's clock may step back."""
    return max(0, (gap[1] - gap[0]) // MILLISECOND)


def _with_gaps(row: Row, commits: Sequence[Commits], rebalance: Rebalance) -> Row:
    """The row with the longest gap of those that overlap the rebalance, so far. `commits`: the last before its first
    record, and all up to its last one. If a partition changes hands, a record of the group lies in its gap.
    """
    gaps: list[tuple[int, Commit, Commit]] = []
    for one, other in pairwise(commits):
        gaps += [(_ms(gap), one.last, other.first) for gap in _between(one.last, other.first)]
    fallen = sum(max(0, one.last.committed - other.first.committed) for one, other in pairwise(commits))
    if commits:
        fallen += sum(each.fallen for each in commits if _lies_in(each, rebalance))
        row["reprocessed_min"] = min(fallen, MOST)
    return row if not gaps else _with_gap(row, *max(gaps, key=lambda gap: gap[0]))


def _with_gap(row: Row, length: int, last: Commit, first: Commit) -> Row:
    if (row["commit_gap_ms"] or 0) > length:
        return row
    return row | {
        "commit_gap_ms": length,
        "last_committed": last.committed,
        "last_commit_at": last.at,
        "first_committed": first.committed,
        "first_commit_at": first.at,
    }


def _committed_again(row: Row, first: Commit, visits: Sequence[Visit]) -> Row:
    """The row once the first commit after the rebalance is known: its gap, and the pause that it may be."""
    awaited = row["awaits_after"]
    row["reprocessed_min"] = min(row["reprocessed_min"] + max(0, awaited["committed"] - first.committed), MOST)
    row["awaits_after"] = None
    if awaited["at"] is not None and first.at is not None:
        last = Commit(awaited["committed"], -1, awaited["at"])
        row = _with_gap(row, _ms((awaited["at"], first.at)), last, first)
    return row | _pause(row, awaited, visits)


def _pause(row: Row, awaited: Row, visits: Sequence[Visit]) -> Row:
    """For how long nobody consumed: at most the whole gap; at least what two usual times between commits leave of it,
    from when on something was there to consume.
    """
    gap, cadence = row["commit_gap_ms"], row["cadence_ms"]
    if gap is None:
        return {"pause_unknown": NO_COMMIT_BEFORE}
    found = {"pause_ms_max": gap, "pause_ms_min": None}
    last, began, ended = row["last_committed"], row["last_commit_at"], row["first_commit_at"]
    of_ends = [each for each in visits if each.ends and each.log_end is not None and each.ends[1] <= ended]
    if began == awaited["at"]:
        there = awaited["there_before"] if (awaited["there_before"] or ended) < ended else None
    else:
        there = next((each.ends[1] for each in of_ends if each.ends and (each.log_end or 0) > last), None)
    if cadence is None:
        return found | {"pause_unknown": NO_CADENCE}
    if there is None and any(each.ends and each.ends[1] >= began for each in of_ends):
        return found | {"pause_unknown": NOTHING_THERE}
    if there is None and row["first_committed"] <= last:
        return found | {"pause_unknown": NO_PROGRESS}
    known = gap if there is None else _ms((max(there, began), ended))
    return found | {"pause_ms_min": max(0, known - 2 * cadence), "pause_unknown": None}


def _behind(row: Row, rebalance: Rebalance, visits: Sequence[Visit]) -> Row:
    """The row with what visits since the rebalance show of the partition's lag, and of what was lost or done twice."""
    if row["lag_before"] is None:
        return row  # Nobody asked before, so the row waits for no answer.
    ended = rebalance.ended or rebalance.began
    last = row["committed_before"]
    since = [each for each in visits if each.ends and each.ends[1] >= rebalance.began]
    at_end = next((each for each in since if each.ends and each.ends[0] >= ended and each.log_end is not None), None)
    if (
        row["reprocessed_max"] is None
        and at_end is not None
        and last is not None
        and row["reprocessed_min"] is not None
    ):
        row["reprocessed_max"] = (at_end.log_end or 0) - last
        row["lost_unread"] = None if at_end.log_start is None else max(0, at_end.log_start - last)
    if row["lag_back_before"] is not None:
        return row
    for visit in since:
        lag, seen = visit.lag, visit.ends[1] if visit.ends else None
        if lag is None or (row["lag_back_after"] is not None and visit.commit[0] <= row["lag_back_after"]):
            continue
        if row["lag_peak"] is None or lag > row["lag_peak"]:
            row |= {"lag_peak": lag, "lag_peak_at": seen}
        if visit.commit[0] < ended:
            continue
        if lag <= row["lag_before"]:
            row["lag_back_before"] = seen
            break
        row["lag_back_after"] = visit.commit[0]
    return row


def _close_reason(row: Row, following: Rebalance | None, *, removed: bool, lost: bool) -> str | None:
    is_asked = row["lag_before"] is not None
    if row["awaits_after"] is None and (row["lag_back_before"] is not None or not is_asked):
        return RECOVERED
    if removed:
        return REMOVED
    if lost and row["awaits_after"] is not None:
        return LOST
    return None if following is None else NEXT


def fold(
    live: Sequence[Row], told: Iterable[Row], new: Container[str], log_of: Callable[[int], CommitLog], visits: Visits
) -> list[Row]:
    """The rows of a group that are new, or other than the `live` ones. Rows whose rebalance is not told any more close.

    `told`: rows of gold.rebalances_told, of the log: those of the live rows, those that are new, and those of the ten
    minutes before these. `new`: ids of rebalances whose rows are not begun. `log_of`: what is known of a partition of
    the log, `visits` of the group's partitions: from ten minutes before the first that is new.
    """
    known = {key(row): row for row in live}
    of_logs: dict[int, list[Rebalance]] = {}
    for each in sorted(map(Rebalance.of, told), key=lambda each: each.first_offset):
        of_logs.setdefault(each.log_partition, []).append(each)
    kept: dict[str, list[Row]] = {}
    for row in live:
        kept.setdefault(row["rebalance_id"], []).append(row)
    rows: list[Row] = []
    waiting: dict[Partition, Row] = {}
    # Where a group is kept in another partition of the log from then on, its rebalances there come later.
    for partition, rebalances in sorted(of_logs.items(), key=lambda each: each[1][0].began):
        # One that lasts may have its own end before the partition is committed again.
        over, log = [each for each in rebalances if each.ended is not None], log_of(partition)
        for at, each in enumerate(over):
            if each.id not in new and each.id not in kept:
                continue
            before = over[max(0, at - BEFORE_AT_MOST) : at]
            begin = begun(each, before, log, visits, waiting) if each.id in new else kept[each.id]
            following = over[at + 1] if at + 1 < len(over) else None
            of_visits = ((row, visits.get((row["topic"], row["partition"]), ())) for row in begin)
            after = [continued(row, each, following, log, seen) for row, seen in of_visits]
            rows += [row for row in after if row != known.get(key(row))]
            waiting |= {(row["topic"], row["partition"]): row for row in after}
    # Retention has dropped their rebalances.
    ids = {each.id for rebalances in of_logs.values() for each in rebalances}
    return rows + [row | {"close_reason": NEXT} for row in live if row["rebalance_id"] not in ids]


def key(row: Row) -> tuple[str, str, int]:
    """The columns that tell rows apart."""
    return row["rebalance_id"], row["topic"], row["partition"]
