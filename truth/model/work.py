"""The work and the commits of a group's members while records came: how far they were behind, for
how long they were silent, and how much was done again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise

from local_cluster.members import Commit, Done

AGAIN_WITHIN = timedelta(seconds=5)
"""A member that takes over does what was done already at once, or never."""


Appended = Mapping[int, Sequence[datetime]]
"""When each record was appended to its log, by partition, in the order of offsets."""


@dataclass(frozen=True)
class Silence:
    """The time between two records that were done, one after the other."""

    before: Done
    after: Done

    @property
    def lasted(self) -> timedelta:
        """How long it was."""
        return self.after.at - self.before.at


@dataclass(frozen=True)
class Lag:
    """By how many records a partition was behind."""

    least: int
    most: int
    most_by_end: int
    """Where the end of its log was read later than the commit."""


@dataclass(frozen=True)
class Work:
    """All that a group's members did and committed, in order of time."""

    done: Sequence[Done]
    committed: Sequence[Commit]
    appended: Appended
    rests_from: datetime
    """Nobody did or produced anything from then on."""

    @cached_property
    def of_partition(self) -> Mapping[int, Sequence[Done]]:
        """The records that were done, by partition."""
        found: dict[int, list[Done]] = {n: [] for n in self.appended}
        for each in self.done:
            found[each.partition].append(each)
        return found

    @cached_property
    def _least_ends(self) -> Mapping[int, Sequence[int]]:
        """By partition, the log's least end before each record was done, and after the last."""
        found: dict[int, list[int]] = {n: [0] for n in self.appended}
        for each in self.done:
            ends = found[each.partition]
            ends.append(max(ends[-1], each.offset + 1))
        return found

    def lag(self, partition: int, since: datetime, until: datetime, end_by: datetime) -> Lag | None:
        """By how many records a partition was behind at some time between two, and by the end of
        its log that was read by a later one; None if nobody had committed it.
        """
        commits = [each for each in self.committed if each.partition == partition]
        sure = max(
            (each.called for each in commits if each.is_certain and each.over <= since),
            default=None,
        )
        # Each may have been the last one.
        may_be = [
            each.offset
            for each in commits
            if each.called <= until and (sure is None or each.over >= sure)
        ]
        if not may_be:
            return None
        appended = self.appended[partition]
        done = bisect_right(self.of_partition[partition], since, key=lambda each: each.at)
        there = len(appended) if since >= self.rests_from else self._least_ends[partition][done]
        return Lag(
            max(0, there - max(may_be)),
            max(0, bisect_right(appended, until) - min(may_be)),
            max(0, bisect_right(appended, end_by) - min(may_be)),
        )

    def silence(self, partition: int, since: datetime, until: datetime) -> Silence | None:
        """The longest silence of a partition between two times, or around one of them; None where
        there is none.
        """
        done = self.of_partition[partition]
        first = max(0, bisect_right(done, since, key=lambda each: each.at) - 1)
        last = bisect_left(done, until, key=lambda each: each.at)
        silences = [Silence(*both) for both in pairwise(done[first : last + 1])]
        return max(silences, key=lambda each: each.lasted, default=None)

    def done_again(self, silence: Silence) -> int:
        """How many records the member that ended a silence did which anybody had done before it.

        If the one before only hung, it does records that it had fetched when it awakes: no log
        tells that.
        """
        done = self.of_partition[silence.before.partition]
        had = {each.offset for each in done if each.at <= silence.before.at}
        has = {
            each.offset
            for each in done
            if each.member == silence.after.member
            and silence.after.at <= each.at <= silence.after.at + AGAIN_WITHIN
        }
        return len(had & has)
