"""How far one group is behind, from what polls asked of its offsets: `fold` of these visits.

- lag of a partition, at most: the end of its log, asked after the commit, less the committed offset
- at least: the end that was known before, less the committed offset: ends only grow
- without progress: it was behind at least by one record, and the same offset is committed as at the
  visit before
- a commit was removed: it was there at the visit before, and the group's coordinator tells it no
  more
- status: Burrow's rules (burrow.py)
- what of it an open transaction holds up: held_up.py

A lag is the end of the log less the committed offset, as Kafka's own tools have it
(ConsumerGroupCommand.getLag): it is negative where a commit lies beyond the end. In sums of a group
such a partition counts as one without lag, so that it hides no other's.

A visit that could not tell of a group says nothing of it. If its answer is whole and lacks the
group, the group is gone, and its commits are removed. A row begins with a visit that shows another
state than the row before, a minute after that row at the earliest.

Times are µs since 1970, but in rows: fit for JSON, and quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.groups import held_up
from jobs.rules.groups.burrow import WINDOW, group_status, partition_status
from jobs.rules.groups.held_up import LISTED, HeldUp
from jobs.rules.groups.state import from_micros
from jobs.rules.silver.topic_lives import asked_for
from metadata_source.options.readers import whole_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from jobs.rules.groups.group import Group
    from jobs.rules.groups.lag_rows import GroupLag, LagState, RemovedCommit

A_ROW_EACH: Final = 60_000_000
"""Between the polls with which two rows of a group begin, µs."""


class Visit(NamedTuple):
    """An asking of all groups. `due`: when its poll was due. `seen`: when the poll was answered,
    before commits were read. `read`: when all of them had been. The filters are as in bronze.
    """

    poll: str
    due: int
    seen: int
    read: int
    topic_filter: str | None = None
    groups_pattern: str | None = None


class Commit(NamedTuple):
    """A partition in a visit: the committed offset, the end of its log and the last stable offset,
    which is asked after the end; None if not known.
    """

    topic: str
    partition: int
    offset: int | None
    end: int | None
    stable: int | None = None


class GroupAnswer(NamedTuple):
    """A group in a visit. `read`: when its commits had been read. `commits`: None if not known."""

    read: int
    is_simple: bool | None
    commits: Sequence[Commit] | None


class _Partition(NamedTuple):
    """The memory of a partition: the last commit, made after one time (None: it was there when
    polls first asked) and before another; the end that was known last; and the window, the visit of
    now last: the time of the commit that its first visit showed, the offset that each showed, and
    its lag (None where that could not be told).
    """

    after: int | None
    before: int
    end: int | None
    oldest: int
    offsets: list[int]
    lags: list[int | None]

    @property
    def offset(self) -> int:
        """The committed offset."""
        return self.offsets[-1]

    def status(self, at: int) -> str | None:
        """Burrow's status, as of the commits that were read `at`."""
        return partition_status(
            self.offsets, self.lags, oldest=self.oldest, newest=self.before, at=at
        )


@dataclass(frozen=True, slots=True)
class _Now:
    """A partition as a visit shows it."""

    topic: str
    partition: int
    kept: _Partition
    least: int | None
    most: int | None
    is_without_progress: bool
    status: str | None
    held_up: HeldUp


@dataclass(slots=True)
class Memory:
    """The memory of a group beside its live row.

    `due`: of the visit with which the live row begins. `agreed`: when the last visit was answered
    that showed the row within a minute from then on; later ones show it, or end it. `missed`: due
    and answered, of the last visit that told of the group, if a later one could not tell. `times`:
    of the visits of the window, the last one first; 0 where no partition had another commit than
    before.
    """

    due: int
    agreed: int
    missed: tuple[int, int] | None
    times: list[int]
    partitions: dict[tuple[str, int], _Partition]

    def to_json(self) -> dict[str, Any]:
        """As json.dumps takes it."""
        topics: dict[str, dict[int, _Partition]] = {}
        for (topic, partition), kept in self.partitions.items():
            offsets = kept.offsets
            # Steps are a fifth as long as offsets.
            steps = [offsets[0], *(other - one for one, other in pairwise(offsets))]
            topics.setdefault(topic, {})[partition] = kept._replace(offsets=steps)
        return {
            "due": self.due,
            "agreed": self.agreed,
            "missed": self.missed,
            "times": self.times,
            "topics": topics,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Memory:
        """Read the JSON that to_json wrote."""
        partitions = {
            (topic, int(partition)): _Partition(
                after, before, end, oldest, list(accumulate(steps)), lags
            )
            for topic, of_topic in plain["topics"].items()
            for partition, (after, before, end, oldest, steps, lags) in of_topic.items()
        }
        missed = plain["missed"] and tuple(plain["missed"])
        return cls(plain["due"], plain["agreed"], missed, plain["times"], partitions)


@dataclass(frozen=True, slots=True)
class Made:
    """The rows that a fold makes: of gold.group_lag, and of internal.removed_commits."""

    lag: list[GroupLag]
    removed: list[RemovedCommit]


def fold(
    group: Group,
    memory: Memory | None,
    live: GroupLag | None,
    visits: Sequence[Visit],
    *,
    told: Mapping[str, GroupAnswer],
    before: Visit | None,
) -> tuple[Memory | None, Made]:
    """Return what is remembered of a group after these visits, None once it is gone, and the rows
    that are new or changed.

    `live`: its live row of gold.group_lag. `told`: what the visits say of it, by poll; nothing
    where it was not listed. `before`: the visit before them.
    """
    rows: dict[str, GroupLag] = {}
    removed: list[RemovedCommit] = []
    for visit in visits:
        said, last = told.get(visit.poll), _last(memory, before)
        seen = last and last[1]
        if said is None:
            is_asked = visit.groups_pattern is None or _matches(
                visit.groups_pattern, group.group_id
            )
            if memory is not None and live is not None:
                reason = "gone" if is_asked else "not_polled"
                rows[live["first_poll"]] = _ended(
                    live, visit.read, _last_shown(memory, last), reason
                )
                gone = memory.partitions if is_asked else {}
                removed += _removed(group, gone, visit, visit.read, seen, is_group_gone=True)
            memory = live = None
        elif said.commits is not None:
            if memory is None:
                memory, seen = Memory(visit.due, visit.seen, None, [], {}), None
            gone = _without(memory, said.commits, visit.topic_filter)
            removed += _removed(group, gone, visit, said.read, seen, is_group_gone=False)
            shown = _shown(
                memory, said.commits, said.read, seen if _covers_the_same(visit, before) else None
            )
            state = _state(shown, len(said.commits) - len(shown))
            memory.missed = None
            if live is not None and not _differs(live, state, is_simple=said.is_simple):
                memory.agreed = memory.agreed if _is_later(memory, visit.due) else visit.seen
            elif live is None or _is_later(memory, visit.due):
                valid_from, status_before, status_seen_at = from_micros(said.read), None, None
                if live is not None:
                    ended = _ended(live, said.read, _last_shown(memory, last), None)
                    rows[live["first_poll"]] = ended
                    valid_from = ended["valid_to"] or valid_from
                    status_before, status_seen_at = _last_status(ended)
                live = {
                    "cluster_id": group.cluster_id,
                    "cluster": group.cluster,
                    "group_id": group.group_id,
                    "first_poll": visit.poll,
                    "valid_from": valid_from,
                    "valid_to": None,
                    "last_seen_at": None,
                    "end_reason": None,
                    "is_simple": said.is_simple,
                    "prev_burrow_status": status_before,
                    "prev_seen_at": status_seen_at,
                    **state,
                }
                rows[visit.poll] = live
                memory.due, memory.agreed = visit.due, visit.seen
        elif memory is not None:
            memory.missed = last
        before = visit
    return memory, Made(list(rows.values()), removed)


def _last(memory: Memory | None, before: Visit | None) -> tuple[int, int] | None:
    """When the last visit that told of the group was due, and answered."""
    if memory is not None and memory.missed is not None:
        return memory.missed
    return None if before is None else (before.due, before.seen)


def _is_later(memory: Memory, due: int) -> bool:
    """Whether a row may begin so long after the row before. A clock may be set back."""
    return not 0 <= due - memory.due < A_ROW_EACH


def _last_shown(memory: Memory, last: tuple[int, int] | None) -> int:
    """When the last visit that showed the live row was answered. `last`: the last of the group."""
    if last is None:
        return memory.agreed
    return last[1] if _is_later(memory, last[0]) else memory.agreed


def _matches(pattern: str, group_id: str) -> bool:
    # As it is asked, with RE2.
    return bool(pc.match_substring_regex(pa.scalar(group_id), whole_name(pattern)).as_py())


def _ended(live: GroupLag, at: int, shown: int, reason: str | None) -> GroupLag:
    valid_to = max(from_micros(at), live["valid_from"])  # A clock may be set.
    return {
        **live,
        "valid_to": valid_to,
        "last_seen_at": from_micros(shown),
        "end_reason": reason,
    }


def _last_status(ended: GroupLag) -> tuple[str | None, datetime | None]:
    """Burrow's status that was known last, and when it was seen last. Without one: the row."""
    if ended["burrow_status"] is None and ended["prev_burrow_status"] is not None:
        return ended["prev_burrow_status"], ended["prev_seen_at"]
    return ended["burrow_status"], ended["last_seen_at"]


def _covers_the_same(visit: Visit, before: Visit | None) -> bool:
    return before is not None and before.topic_filter == visit.topic_filter


def _without(
    memory: Memory, commits: Iterable[Commit], topic_filter: str | None
) -> dict[tuple[str, int], _Partition]:
    """Forget partitions without a commit any more, and return those that the filter covers."""
    there = {(each.topic, each.partition) for each in commits}
    gone = {key: kept for key, kept in memory.partitions.items() if key not in there}
    for key in gone:
        del memory.partitions[key]
    asked = asked_for(topic_filter, {topic for topic, _ in gone})
    return {key: kept for key, kept in gone.items() if key[0] in asked}


def _removed(
    group: Group,
    partitions: Mapping[tuple[str, int], _Partition],
    visit: Visit,
    at: int,
    seen: int | None,
    *,
    is_group_gone: bool,
) -> list[RemovedCommit]:
    after, before = from_micros(at if seen is None else min(seen, at)), from_micros(at)
    return [
        {
            "cluster_id": group.cluster_id,
            "cluster": group.cluster,
            "group_id": group.group_id,
            "topic": topic,
            "partition": partition,
            "committed_offset": kept.offset,
            "poll": visit.poll,
            "removed_after": after,
            "removed_before": before,
            "is_group_gone": is_group_gone,
        }
        # In the same order however rounds are cut: memory has them in another.
        for (topic, partition), kept in sorted(partitions.items())
    ]


def _shown(memory: Memory, commits: Iterable[Commit], at: int, seen: int | None) -> list[_Now]:
    """Each partition as a visit shows it, and as it is remembered. `at`: when the commits had been
    read. `seen`: when the visit before was answered, if it would have told of the same topics.
    """
    left = memory.times[WINDOW - 2] if len(memory.times) > WINDOW - 2 else 0
    shown, has_moved = [], False
    for commit in commits:
        key = commit.topic, commit.partition
        known = memory.partitions.get(key)
        now = _seen_now(known, commit, at, seen, left)
        if now is not None:
            has_moved |= known is not None and known.offset != now.kept.offset
            memory.partitions[key] = now.kept
            shown.append(now)
    memory.times = [at if has_moved else 0, *memory.times][: WINDOW - 1]
    while memory.times and not memory.times[-1]:
        memory.times.pop()
    return shown


def _seen_now(
    known: _Partition | None, commit: Commit, at: int, seen: int | None, left: int
) -> _Now | None:
    """A partition as a visit shows it; None if neither this visit nor one before could tell its
    commit.

    `left`: when the commit was read that the first visit of a window shows from now on, if that
    showed another one.
    """
    offset, end, held = commit.offset, commit.end, HeldUp.of(*commit)
    lag = None if end is None or offset is None else end - offset
    if known is None:
        if offset is None:
            return None
        kept = _Partition(seen, at, end, at, [offset], [lag])
        return _Now(commit.topic, commit.partition, kept, None, lag, False, kept.status(at), held)
    is_full = len(known.offsets) == WINDOW
    oldest = left if is_full and known.offsets[1] != known.offsets[0] else known.oldest
    told = known.offset if offset is None else offset
    moved = told != known.offset
    kept = _Partition(
        seen if moved else known.after,
        at if moved else known.before,
        known.end if end is None else end,
        oldest,
        [*known.offsets[is_full:], told],
        [*known.lags[is_full:], lag],
    )
    least = _least(known.end, end, told) if lag is not None else None
    is_without_progress = least is not None and least > 0 and not moved
    status = kept.status(at)
    return _Now(commit.topic, commit.partition, kept, least, lag, is_without_progress, status, held)


def _least(before: int | None, end: int | None, committed: int) -> int | None:
    """The lag at least, by the end of the log that was known before. Nobody commits what is not
    there yet: it is negative only where it is at most, too.
    """
    if before is None or end is None:
        return None
    # The end falls if the log is cut off, or the topic made again.
    least = min(before, end) - committed
    return least if end < committed else max(0, least)


def _state(shown: Sequence[_Now], untold: int) -> LagState:
    """Columns that make a state. `untold`: partitions of whose commits nothing is known."""
    least = [each.least for each in shown if each.least is not None]
    most = [each.most for each in shown if each.most is not None]
    unknown = len(shown) - len(most) + untold
    is_whole = bool(most) and not unknown
    not_well = [
        each
        for each in shown
        if each.is_without_progress or each.status not in {"OK", None} or (each.most or 0) < 0
    ]
    oldest = min(
        (each.kept for each in shown), key=lambda kept: (kept.before, kept.after or 0), default=None
    )
    return {
        "partitions": len(shown),
        "committed_sum": _sum(each.kept.offset for each in shown) if shown else None,
        "lag_min": _sum(max(0, each) for each in least) if least else None,
        "lag_max": _sum(max(0, each) for each in most) if is_whole else None,
        "largest_lag_min": max(least, default=None),
        "largest_lag_max": max(most) if is_whole else None,
        "partitions_behind": sum(each > 0 for each in most),
        "partitions_beyond": sum(each < 0 for each in most),
        "partitions_without_progress": sum(each.is_without_progress for each in shown),
        "partitions_unknown": unknown,
        "oldest_commit_after": oldest and _time(oldest.after),
        "oldest_commit_before": oldest and from_micros(oldest.before),
        "burrow_status": group_status({each.status for each in shown}),
        "partitions_not_well": len(not_well),
        "not_well": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed_offset": each.kept.offset,
                "lag_min": each.least,
                "lag_max": each.most,
                "is_without_progress": each.is_without_progress,
                "burrow_status": each.status,
                "committed_after": _time(each.kept.after),
                "committed_before": from_micros(each.kept.before),
            }
            for each in sorted(
                not_well, key=lambda each: (-(each.most or 0), each.topic, each.partition)
            )[:LISTED]
        ],
        **held_up.state([each.held_up for each in shown], is_whole=is_whole),
    }


def _sum(numbers: Iterable[int]) -> int | None:
    """The sum; None if no bigint holds it: a client may commit any offset."""
    found = sum(numbers)
    return found if found < 1 << 63 else None


def _differs(live: GroupLag, state: LagState, *, is_simple: bool | None) -> bool:
    return live["is_simple"] != is_simple or {**live, **state} != live


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else from_micros(micros)
