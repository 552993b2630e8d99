"""When one cluster is polled, asked, and recorded whole. Pure functions of a clock that the caller
reads.

Seconds (`_s`) are of the monotonic clock, which nobody sets; milliseconds (`_ms`) of polls are
since 1970.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata_source.kafka_constants import KEY_FRAME_EVERY
from metadata_source.schedule import day_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

_MOST_MISSED: Final = 60
"""So many missed ticks in a row have entries: the last ones, after the process was held."""
_APART_MS: Final = 97
"""A prime number: where intervals are whole, no two of many clusters are due at one moment."""
_ROUNDING: Final = 1e-6
_ANSWERS_WAIT_S: Final = 1.0
"""The longest that an entry waits for answers beside it."""


def begins_after_ms(index: int) -> int:
    """Return how long after the first cluster the one at an index is polled first.

    A first poll makes connections, asks a second broker, and is recorded whole: it takes the
    processor four times as long as a later one. If many were due at one moment, nearly all of them
    would be too late.
    """
    return index * _APART_MS


@dataclass(frozen=True, slots=True)
class Beat:
    """The ticks of one cluster: number `n` is due at `begin_s` + `n` intervals."""

    begin_s: float
    interval_ms: int

    def at(self, tick: int) -> float:
        """Return when a tick is due."""
        return self.begin_s + tick * self.interval_ms / 1000

    def passed(self, now_s: float) -> int:
        """Return the last tick that is due by now; -1 before the first one."""
        return max(-1, math.floor((now_s - self.begin_s) * 1000 / self.interval_ms + _ROUNDING))

    def missed(self, tick: int, now_s: float) -> range:
        """Return the ticks that came due while one was polled, up to now; of very many the last."""
        last = self.passed(now_s)
        return range(max(tick, last - _MOST_MISSED) + 1, last + 1)

    def answers_until(self, tick: int, now_s: float) -> float:
        """Return until when the entry of a tick may wait for answers beside it: a second, and half
        of the time that is left before the next tick.
        """
        return now_s + max(0.0, min(_ANSWERS_WAIT_S, (self.at(tick + 1) - now_s) / 2))


def wall_ms(due_s: float, now_s: float, now_ms: int) -> int:
    """Return the time of day at which something was due, by the clock as it is now."""
    return now_ms - round((now_s - due_s) * 1000)


class QuestionBeats:
    """The beats of the questions that are asked beside the polls of one cluster: the first ones at
    once.

    Times are from the first tick on, ms. A question is due with the first poll at or after its
    time, and stays due until it is asked.
    """

    def __init__(self, every_ms: Mapping[str, int]) -> None:
        self._every_ms = every_ms
        self._asked_at: dict[str, int] = {}

    def due(self, after_ms: int) -> tuple[str, ...]:
        """Return the kinds that are due with a poll."""
        return tuple(
            kind
            for kind, every in self._every_ms.items()
            if kind not in self._asked_at or after_ms // every > self._asked_at[kind] // every
        )

    def among(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of some kinds that are asked here at all."""
        return tuple(kind for kind in self._every_ms if kind in kinds)

    def asked(self, kinds: tuple[str, ...], after_ms: int) -> None:
        """Note that these are asked with a poll."""
        self._asked_at |= dict.fromkeys(kinds, after_ms)


@dataclass(frozen=True, slots=True)
class KeyFrame:
    """The last poll that was recorded whole: its day (UTC), and when it was due."""

    day: date
    at_s: float


def is_key_due(last: KeyFrame | None, due_s: float, due_ms: int) -> bool:
    """Whether a poll is to be recorded whole: the first of a day, and one each five minutes, so
    that what waits for such a poll (silver, a hand-over from the controllers' log) has one soon.
    """
    return (
        last is None
        or last.day != day_of(due_ms)
        or due_s - last.at_s >= KEY_FRAME_EVERY.total_seconds()
    )
