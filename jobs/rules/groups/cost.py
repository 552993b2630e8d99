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
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from jobs.rules.groups.commits import CommitLog, Partition
from jobs.rules.groups.cost_rows import Cost, Rebalance, Visit, Visits
from jobs.rules.groups.pauses import (
    MOST,
    NO_COMMIT_AFTER,
    NO_COMMIT_BEFORE,
    cadence_ms,
    committed_again,
    committed_offsets,
    standing,
    waiting_after,
    with_gaps,
    with_records_after,
)

CADENCE_FROM = timedelta(minutes=10)
"""The usual time between two commits is that of so long before a rebalance."""

BEFORE_AT_MOST = 200
"""So many rebalances within that time, one each three seconds, are left out of the cadence."""

RECOVERED, NEXT, REMOVED, LOST = "recovered", "next_rebalance", "removed", "records_lost"


def begun(
    rebalance: Rebalance,
    before: Sequence[Rebalance],
    log: CommitLog,
    visits: Visits,
    waiting: Mapping[Partition, Cost],
) -> list[Cost]:
    """The rows of a rebalance that is over, as they are at its end: one for each partition that the
    group had committed offsets of.

    `before`: the group's last rebalances before, in this partition of the log. `log`, `visits`:
    from ten minutes before; `continued` takes later ones. `waiting`: rows of the rebalances before;
    where nobody has committed since, the commit that they wait to be followed is this one's, too.
    """
    since = rebalance.began - CADENCE_FROM
    rows = []
    for partition in sorted(log.of.keys() | visits.keys() | waiting.keys()):
        commits = standing(log, partition, rebalance, since)
        seen = [each for each in visits.get(partition, ()) if each.commit[1] < rebalance.began]
        asked = next(
            (each for each in reversed(seen) if each.lag is not None and each.commit[0] >= since),
            None,
        )
        before_it = waiting.get(partition)
        waits = before_it and before_it["awaits_after"]
        if not commits and asked is None and waits is None:
            continue
        earlier = [each for each in commits if each.last.offset < rebalance.first_offset]
        within = commits[len(earlier) :]
        cadence = cadence_ms(earlier, since, before)
        if cadence is None and before_it is not None and waits is not None:
            cadence = before_it["cadence_ms"]
        # Nobody committed from before an earlier rebalance until within this one: the whole gap is
        # this one's. In another partition of the log, the group may have committed since.
        if earlier and (waits is None or (earlier[-1].last.at or since) > (waits["at"] or since)):
            waits = waiting_after(earlier[-1].last)
        last = waiting_after(within[-1].last) if within else waits
        row: Cost = {
            "rebalance_id": rebalance.id,
            "topic": partition[0],
            "partition": partition[1],
            "began_before": rebalance.began,
            "ended_before": rebalance.ended or rebalance.began,
            "cadence_ms": cadence,
            "lag_before": None if asked is None else asked.lag,
            "committed_before": None if last is None else committed_offsets(last)[-1],
            "awaits_after": last,
            "pause_unknown": NO_COMMIT_BEFORE if last is None else NO_COMMIT_AFTER,
            "reprocessed_min": None if last is None else 0,
            "last_committed": None,
            "last_commit_at": None,
            "first_committed": None,
            "first_commit_at": None,
            "commit_gap_ms": None,
            "pause_ms_min": None,
            "pause_ms_max": None,
            "reprocessed_max": None,
            "lost_unread": None,
            "lag_peak": None,
            "lag_peak_at": None,
            "lag_back_after": None,
            "lag_back_before": None,
            "close_reason": None,
        }
        rows.append(with_gaps(row, waits, within))
    return rows


def continued(
    row: Cost,
    rebalance: Rebalance,
    following: Rebalance | None,
    log: CommitLog,
    visits: Sequence[Visit],
) -> Cost:
    """A live row after more of the log, and more visits of its partition, some of which it may have
    had before.

    `following`: the group's next rebalance, if any, which may last: what comes from its first
    record on is its own.
    """
    until = MOST if following is None else following.first_offset
    partition, row = (row["topic"], row["partition"]), row.copy()
    commits = [
        each
        for each in log.of.get(partition, ())
        if rebalance.last_offset < each.first.offset < until
    ]
    # Of no member: somebody set the offset, for whoever comes next.
    was_set = commits[-1].last.committed if commits and rebalance.emptied else None
    after = commits[0].first if commits and not rebalance.emptied else None
    end = until if after is None else after.offset
    removals = [
        each
        for each in log.removals.get(partition, ())
        if rebalance.last_offset < each.offset < end
    ]
    lost = any(rebalance.last_offset < each < end for each in log.breaks)
    over = [each.at for each in removals if each.at] + (
        [] if following is None else [following.began]
    )
    if over:
        visits = [each for each in visits if each.commit[0] < min(over)]
    if row["awaits_after"] is not None:
        awaited = row["awaits_after"] = with_records_after(row["awaits_after"], visits)
        if was_set is not None:
            row["awaits_after"] = {**awaited, "set_to": was_set}
        if after is not None and not removals and not lost:
            row = committed_again(row, awaited, after, visits)
    row = _behind(row, rebalance, visits)
    if row["reprocessed_max"] is not None:
        row["reprocessed_max"] = max(row["reprocessed_max"], row["reprocessed_min"] or 0)
    row["close_reason"] = _close_reason(row, following, removed=bool(removals), lost=lost)
    if row["close_reason"] in (REMOVED, LOST) and row["awaits_after"] is not None:
        row["awaits_after"], row["pause_unknown"] = None, row["close_reason"]
    return row


def _behind(row: Cost, rebalance: Rebalance, visits: Sequence[Visit]) -> Cost:
    """The row with the lag since the rebalance, by visits, and what was lost or done twice."""
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
            row["lag_peak"], row["lag_peak_at"] = lag, seen
        if visit.commit[0] < ended:
            continue
        if lag <= row["lag_before"]:
            row["lag_back_before"] = seen
            break
        row["lag_back_after"] = visit.commit[0]
    return row


def _close_reason(
    row: Cost, following: Rebalance | None, *, removed: bool, lost: bool
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
    live: Sequence[Cost],
    told: Iterable[Mapping[str, Any]],
    new: Container[str],
    log_of: Callable[[int], CommitLog],
    visits: Visits,
    *,
    until: datetime,
) -> list[Cost]:
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
    kept: dict[str, list[Cost]] = {}
    for row in live:
        kept.setdefault(row["rebalance_id"], []).append(row)
    seen = {
        partition: [each for each in of_partition if each.commit[0] < until]
        for partition, of_partition in visits.items()
    }
    rows: list[Cost] = []
    waiting: dict[Partition, Cost] = {}
    # Where a group is kept in another partition of the log from then on, its rebalances there come
    # later.
    for partition, rebalances in sorted(of_logs.items(), key=lambda each: each[1][0].began):
        log = log_of(partition)
        of_members = _of_members(log, rebalances)
        for at, each in enumerate(rebalances):
            # One that lasts may have its own end before the partition is committed again.
            if each.ended is None or (each.id not in new and each.id not in kept):
                continue
            before = rebalances[max(0, at - BEFORE_AT_MOST) : at]
            begin = (
                begun(each, before, of_members, seen, waiting) if each.id in new else kept[each.id]
            )
            following = rebalances[at + 1] if at + 1 < len(rebalances) else None
            of_visits = ((row, seen.get((row["topic"], row["partition"]), ())) for row in begin)
            after = [
                continued(row, each, following, log, of_partition)
                for row, of_partition in of_visits
            ]
            rows += [row for row in after if row != known.get(key(row))]
            waiting |= {(row["topic"], row["partition"]): row for row in after}
    # Retention has dropped their rebalances.
    ids = {each.id for rebalances in of_logs.values() for each in rebalances}
    dropped = [row for row in live if row["rebalance_id"] not in ids]
    rows += [{**row, "close_reason": NEXT} for row in dropped]
    return rows


def _of_members(log: CommitLog, rebalances: Sequence[Rebalance]) -> CommitLog:
    """The log without commits that were made while the group had no member, and had had some."""
    pairs = pairwise((None, *rebalances, None))
    empty = [
        (-1 if one is None else one.last_offset, MOST if other is None else other.first_offset)
        for one, other in pairs
        if (one is not None and one.emptied) or (other is not None and other.was_empty)
    ]
    if not empty:
        return log
    of = {
        partition: [
            each
            for each in commits
            if not any(since < each.first.offset < until for since, until in empty)
        ]
        for partition, commits in log.of.items()
    }
    return replace(log, of={partition: commits for partition, commits in of.items() if commits})


def key(row: Cost) -> tuple[str, str, int]:
    """The columns that tell rows apart."""
    return row["rebalance_id"], row["topic"], row["partition"]
