"""The cost of a rebalance for each of the group's partitions: for how long nobody committed, how
far the group fell behind, how much may have been done twice.

The group's own log says when who committed (`CommitLog`); lag takes the ends of logs, which visits
asked for. A row is begun once the rebalance is over, and is live until the partition is committed
again and its lag is back, or the next rebalance is over. Commits and visits from the begin of the
next rebalance on are that one's.

While a group has no member, coordinators take commits of whoever is none
(ClassicGroup.validateOffsetCommit and ConsumerGroup.validateOffsetCommit): an administrator's, who
sets offsets. No such commit ends a pause. Before anybody joined a group, its commits are those of a
consumer without a membership, and count as any other.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from jobs.rules.groups.commits import Commit, CommitLog, Commits, Partition
from jobs.rules.groups.rows import EMPTIED, Row

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
    """The columns of a rebalance that its cost follows from; `ended` is None while it lasts.

    `emptied`: it left no member. `was_empty`: the one before it had, whether or not that one is
    known here.
    """

    id: str
    log_partition: int
    first_offset: int
    last_offset: int
    began: datetime
    ended: datetime | None
    emptied: bool
    was_empty: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Rebalance":
        """A row of internal.rebalances that the log told."""
        names = ("id", "log_partition", "first_offset", "last_offset")
        last = row["first_offset"] if row["last_offset"] is None else row["last_offset"]
        given = {name: row[name] for name in names} | {
            "last_offset": max(last, row["first_offset"])
        }
        was_empty = row["prev_members"] == 0 and row["since_previous_ms"] is not None
        times = {"began": row["began_before"], "ended": row["ended_before"]}
        return cls(**given, **times, emptied=row["end_reason"] == EMPTIED, was_empty=was_empty)


@dataclass(frozen=True)
class Visit:
    """A partition as it was asked for once: what was committed, read between the times `commit`,
    then the ends of its log, read between the times `ends`. What could not be told is None.
    """

    committed: int | None
    log_start: int | None
    log_end: int | None
    commit: tuple[datetime, datetime]
    ends: tuple[datetime, datetime] | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Visit":
        """An entry of bronze.metadata_polls.offsets."""
        ends = (
            None
            if row["ends_read_before"] is None
            else (row["ends_read_after"], row["ends_read_before"])
        )
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
    """The rows of a rebalance that is over, as they are at its end: one for each partition that the
    group had committed offsets of.

    `before`: the group's rebalances of the ten minutes before. `log`, `visits`: of that time too;
    what they have of later times is left to `continued`. `waiting`: rows of the rebalances before;
    where nobody has committed since, the commit that they wait to be followed is this one's, too.
    """
    others = [each for each in before if each.log_partition == rebalance.log_partition]
    since = rebalance.began - CADENCE_FROM
    rows = []
    for partition in sorted(log.of.keys() | visits.keys() | waiting.keys()):
        commits = _standing(log, partition, rebalance, since)
        seen = [each for each in visits.get(partition, ()) if each.commit[1] < rebalance.began]
        asked = next(
            (each for each in reversed(seen) if each.lag is not None and each.commit[0] >= since),
            None,
        )
        waits = waiting.get(partition, {}).get("awaits_after")
        if not commits and asked is None and waits is None:
            continue
        earlier = [each for each in commits if each.last.offset < rebalance.first_offset]
        within = commits[len(earlier) :]
        cadence = cadence_ms(earlier, since, others)
        if cadence is None and waits is not None:
            cadence = waiting[partition]["cadence_ms"]
        # Nobody committed from before an earlier rebalance until within this one: the whole gap is
        # this one's. In another partition of the log, the group may have committed since.
        if earlier and (waits is None or (earlier[-1].last.at or since) > waits["at"]):
            waits = _awaited(earlier[-1].last)
        last = _awaited(within[-1].last) if within else waits
        row = {
            "rebalance_id": rebalance.id,
            "topic": partition[0],
            "partition": partition[1],
            "began_before": rebalance.began,
            "ended_before": rebalance.ended,
            "cadence_ms": cadence,
            "lag_before": None if asked is None else asked.lag,
            "committed_before": None if last is None else _committed(last)[-1],
            "awaits_after": last,
            "pause_unknown": NO_COMMIT_BEFORE if last is None else NO_COMMIT_AFTER,
            "reprocessed_min": None if last is None else 0,
            **dict.fromkeys(LATER),
        }
        rows.append(_with_gaps(row, waits, within))
    return rows


LATER = (
    *("last_committed", "last_commit_at", "first_committed", "first_commit_at", "commit_gap_ms"),
    *("pause_ms_min", "pause_ms_max", "reprocessed_max", "lost_unread"),
    *("lag_peak", "lag_peak_at", "lag_back_after", "lag_back_before", "close_reason"),
)
"""Columns that have no value when a row is begun."""


def continued(
    row: Row,
    rebalance: Rebalance,
    following: Rebalance | None,
    log: CommitLog,
    visits: Sequence[Visit],
) -> Row:
    """A live row after more of the log, and more visits of its partition, some of which it may have
    had before.

    `following`: the group's next rebalance, if any, which may last: what comes from its first
    record on is its own.
    """
    until = MOST if following is None else following.first_offset
    place, row = (row["topic"], row["partition"]), dict(row)
    commits = [
        each for each in log.of.get(place, ()) if rebalance.last_offset < each.first.offset < until
    ]
    # Of no member: somebody set the offset, for whoever comes next.
    was_set = commits[-1].last.committed if commits and rebalance.emptied else None
    after = commits[0].first if commits and not rebalance.emptied else None
    end = until if after is None else after.offset
    removals = [
        each for each in log.removals.get(place, ()) if rebalance.last_offset < each.offset < end
    ]
    lost = any(rebalance.last_offset < each < end for each in log.breaks)
    over = [each.at for each in removals if each.at] + (
        [] if following is None else [following.began]
    )
    if over:
        visits = [each for each in visits if each.commit[0] < min(over)]
    if row["awaits_after"] is not None:
        row["awaits_after"] = _there(row["awaits_after"], visits)
        if was_set is not None:
            row["awaits_after"] = row["awaits_after"] | {"set_to": was_set}
        if after is not None and not removals and not lost:
            row = _committed_again(row, after, visits)
    row = _behind(row, rebalance, visits)
    if row["reprocessed_max"] is not None:
        row["reprocessed_max"] = max(row["reprocessed_max"], row["reprocessed_min"])
    row["close_reason"] = _close_reason(row, following, removed=bool(removals), lost=lost)
    if row["close_reason"] in (REMOVED, LOST) and row["awaits_after"] is not None:
        row |= {"awaits_after": None, "pause_unknown": row["close_reason"]}
    return row


def _awaited(last: Commit) -> Row:
    """The last commit before a rebalance was over, which another one has to follow. `there_before`:
    by when a record was there that it did not have, as far as visits say. `set_to`: the offset that
    was set since, by no member.
    """
    return {"committed": last.committed, "at": last.at, "there_before": None, "set_to": None}


def _committed(awaited: Row) -> list[int]:
    """The offset that was committed last, and the one that was set since, if any."""
    return [awaited["committed"], *([] if awaited["set_to"] is None else [awaited["set_to"]])]


def _fallen(offsets: Iterable[int]) -> int:
    return sum(max(0, one - other) for one, other in pairwise(offsets))


def _there(awaited: Row, visits: Iterable[Visit]) -> Row:
    if awaited["there_before"] is not None:
        return awaited
    ends = ((each.log_end, each.ends) for each in visits)
    return awaited | {
        "there_before": next(
            (at[1] for end, at in ends if end and at and end > awaited["committed"]), None
        )
    }


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


def _standing(
    log: CommitLog, place: Partition, rebalance: Rebalance, since: datetime
) -> list[Commits]:
    """Commits from `since` to the end of the rebalance that nothing had removed by then."""
    removed = [
        each.offset for each in log.removals.get(place, ()) if each.offset < rebalance.last_offset
    ]
    return [
        each
        for each in log.of.get(place, ())
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


def _with_gaps(row: Row, last: Row | None, within: Sequence[Commits]) -> Row:
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
        fallen += _fallen((*_committed(last), first.committed))
    row["reprocessed_min"] = min(fallen, MOST)
    timed = [(_ms(gap), one, other) for one, other in gaps for gap in _between(one, other)]
    return row if not timed else _with_gap(row, *max(timed, key=lambda gap: gap[0]))


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
    """The row once the first commit after the rebalance is known: its gap, and the pause that it
    may be.
    """
    awaited = row["awaits_after"]
    fallen = _fallen((*_committed(awaited), first.committed))
    row["reprocessed_min"] = min(row["reprocessed_min"] + fallen, MOST)
    row["awaits_after"] = None
    if awaited["at"] is not None and first.at is not None:
        last = Commit(awaited["committed"], -1, awaited["at"])
        row = _with_gap(row, _ms((awaited["at"], first.at)), last, first)
    return row | _pause(row, awaited, visits)


def _pause(row: Row, awaited: Row, visits: Sequence[Visit]) -> Row:
    """For how long nobody consumed: at most the whole gap; at least what two usual times between
    commits leave of it, from when on something was there to consume.
    """
    gap, cadence = row["commit_gap_ms"], row["cadence_ms"]
    if gap is None:
        return {"pause_unknown": NO_COMMIT_BEFORE}
    found = {"pause_ms_max": gap, "pause_ms_min": None}
    last, began, ended = row["last_committed"], row["last_commit_at"], row["first_commit_at"]
    stood = _committed(awaited)[-1] if began == awaited["at"] else last
    of_ends = [
        each for each in visits if each.ends and each.log_end is not None and each.ends[1] < ended
    ]
    if began == awaited["at"]:
        there = awaited["there_before"] if (awaited["there_before"] or ended) < ended else None
    else:
        there = next(
            (each.ends[1] for each in of_ends if each.ends and (each.log_end or 0) > last), None
        )
    if cadence is None:
        return found | {"pause_unknown": NO_CADENCE}
    if there is None and any(each.ends and each.ends[1] >= began for each in of_ends):
        return found | {"pause_unknown": NOTHING_THERE}
    if there is None and row["first_committed"] <= stood:
        return found | {"pause_unknown": NO_PROGRESS}
    known = gap if there is None else _ms((max(there, began), ended))
    return found | {"pause_ms_min": max(0, known - 2 * cadence), "pause_unknown": None}


def _behind(row: Row, rebalance: Rebalance, visits: Sequence[Visit]) -> Row:
    """The row with what visits since the rebalance show of the partition's lag, and of what was
    lost or done twice.
    """
    if row["lag_before"] is None:
        return row  # Nobody asked before, so the row waits for no answer.
    ended = rebalance.ended or rebalance.began
    last = row["committed_before"]
    since = [each for each in visits if each.ends and each.ends[1] >= rebalance.began]
    at_end = next(
        (
            each
            for each in since
            if each.ends and each.ends[0] >= ended and each.log_end is not None
        ),
        None,
    )
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
        if lag is None or (
            row["lag_back_after"] is not None and visit.commit[0] <= row["lag_back_after"]
        ):
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


def _close_reason(
    row: Row, following: Rebalance | None, *, removed: bool, lost: bool
) -> str | None:
    is_asked = row["lag_before"] is not None
    if row["awaits_after"] is None and (row["lag_back_before"] is not None or not is_asked):
        return RECOVERED
    if removed:
        return REMOVED
    if lost and row["awaits_after"] is not None:
        return LOST
    return None if following is None or following.ended is None else NEXT


def fold(
    live: Sequence[Row],
    told: Iterable[Row],
    new: Container[str],
    log_of: Callable[[int], CommitLog],
    visits: Visits,
    *,
    until: datetime,
) -> list[Row]:
    """The rows of a group that are new, or other than the `live` ones. Rows whose rebalance is not
    told any more close.

    `told`: rows of internal.rebalances, of the log: those of the live rows, those that are new,
    those of the ten minutes before these, and all later ones. `new`: ids of rebalances whose rows
    are not begun. `log_of`: what is known of a partition of the log, `visits` of the group's
    partitions: from ten minutes before the first that is new. `until`: `told` has each rebalance
    that began before it. A visit after it is left to a later fold, since the log may still tell of
    a rebalance before that visit.
    """
    known = {key(row): row for row in live}
    of_logs: dict[int, list[Rebalance]] = {}
    for each in sorted(map(Rebalance.of, told), key=lambda each: each.first_offset):
        of_logs.setdefault(each.log_partition, []).append(each)
    kept: dict[str, list[Row]] = {}
    for row in live:
        kept.setdefault(row["rebalance_id"], []).append(row)
    seen = {
        place: [each for each in of_place if each.commit[0] < until]
        for place, of_place in visits.items()
    }
    rows: list[Row] = []
    waiting: dict[Partition, Row] = {}
    # Where a group is kept in another partition of the log from then on, its rebalances there come
    # later.
    for partition, rebalances in sorted(of_logs.items(), key=lambda each: each[1][0].began):
        log = log_of(partition)
        of_members = _of_members(log, rebalances)
        for at, each in enumerate(rebalances):
            # One that lasts may have its own end before the partition is committed again.
            if each.ended is None or (each.id not in new and each.id not in kept):
                continue
            before = [
                other
                for other in rebalances[max(0, at - BEFORE_AT_MOST) : at]
                if other.ended is not None
            ]
            begin = (
                begun(each, before, of_members, seen, waiting) if each.id in new else kept[each.id]
            )
            following = rebalances[at + 1] if at + 1 < len(rebalances) else None
            of_visits = ((row, seen.get((row["topic"], row["partition"]), ())) for row in begin)
            after = [continued(row, each, following, log, of_place) for row, of_place in of_visits]
            rows += [row for row in after if row != known.get(key(row))]
            waiting |= {(row["topic"], row["partition"]): row for row in after}
    # Retention has dropped their rebalances.
    ids = {each.id for rebalances in of_logs.values() for each in rebalances}
    return rows + [row | {"close_reason": NEXT} for row in live if row["rebalance_id"] not in ids]


def _of_members(log: CommitLog, rebalances: Sequence[Rebalance]) -> CommitLog:
    """The log without the commits that were made while the group had no member, and had had
    some.
    """
    pairs = pairwise((None, *rebalances, None))
    empty = [
        (-1 if one is None else one.last_offset, MOST if other is None else other.first_offset)
        for one, other in pairs
        if (one is not None and one.emptied) or (other is not None and other.was_empty)
    ]
    if not empty:
        return log
    of = {
        place: [
            each
            for each in commits
            if not any(since < each.first.offset < until for since, until in empty)
        ]
        for place, commits in log.of.items()
    }
    return replace(log, of={place: commits for place, commits in of.items() if commits})


def key(row: Row) -> tuple[str, str, int]:
    """The columns that tell rows apart."""
    return row["rebalance_id"], row["topic"], row["partition"]
