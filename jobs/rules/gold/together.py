"""Departures from ISRs of one leader at one moment: where several brokers leave at once, it may be
the leader that hung.

A leader looks for followers that are out of sync in passes (``ReplicaManager.maybeShrinkIsr``). Of
each pass ``DefaultAlterPartitionManager`` sends the first partition alone, and the others together
once that one is answered, when its record is committed. So a poll shows a pass whole, and the
controllers' log shows it at two times at least.
"""

from collections import Counter, defaultdict, deque
from datetime import timedelta

from jobs.rules.gold.causes import LEFT, TOGETHER, give_sign
from jobs.rules.gold.rows import IsrChange
from jobs.rules.ids import offset_of

ONE_PASS = timedelta(milliseconds=500)
"""Records of one pass of a leader lie within this time. A commit takes the controllers 25 ms
(controller.quorum.append.linger.ms), a write to disk and a fetch; passes are
replica.lag.time.max.ms / 2, 15 s, apart.
"""


class _Pass:
    """The departures of one leader's pass so far: the oldest first."""

    def __init__(self) -> None:
        self._absences: deque[IsrChange] = deque()
        self._brokers: Counter[int] = Counter()
        self._unsigned: deque[IsrChange] = deque()

    def leave(self, absence: IsrChange) -> None:
        while self._absences and not _are_of_one_pass(self._absences[0], absence):
            gone = self._absences.popleft()
            self._brokers -= Counter(_leavers(gone))
            if self._unsigned and self._unsigned[0] is gone:
                self._unsigned.popleft()
        self._absences.append(absence)
        self._unsigned.append(absence)
        self._brokers.update(_leavers(absence))
        if len(self._brokers) > 1:
            for each in self._unsigned:
                give_sign(each, TOGETHER, absence["began_before"])
            self._unsigned.clear()


class Passes:
    """The departures of each leader's last pass."""

    def __init__(self) -> None:
        self._passes: defaultdict[int | None, _Pass] = defaultdict(_Pass)

    def leave(self, absence: IsrChange) -> None:
        """Take in an absence that begins, in order. Gives `TOGETHER` to those of its pass."""
        self._passes[absence["leader"]].leave(absence)


def _are_of_one_pass(one: IsrChange, other: IsrChange) -> bool:
    """Whether one poll showed two departures, or records of the log that one pass may have made."""
    if one["poll"] == other["poll"]:
        return True
    are_of_log = None not in (offset_of(one["poll"]), offset_of(other["poll"]))
    return are_of_log and bool(other["began_before"] - one["began_before"] <= ONE_PASS)


def _leavers(absence: IsrChange) -> list[int]:
    """Its broker; none where the partition was first seen so."""
    return [absence["broker_id"]] if absence["change"] == LEFT else []
