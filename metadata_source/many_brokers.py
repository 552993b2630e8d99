"""Questions to many brokers at once, within a time that they share."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from metadata_source.addresses import format_address
from metadata_source.errors import PollError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from metadata_source.addresses import Address
    from metadata_source.questions import Question

_NAMED: Final = 20
"""Brokers and partitions that one line names."""
_REASONS: Final = 5
_LEAST_S: Final = 1.0
"""With less time than this a broker that is well may not answer either: none has less, while there
is any, and some have none.
"""

Item = TypeVar("Item")


class Broker(NamedTuple):
    """A broker as a poll was answered."""

    broker_id: int
    address: Address

    def says(self, error: PollError) -> str:
        """Return what is wrong, without the address."""
        return error.problem.removeprefix(f"{format_address(self.address)}: ")

    def __str__(self) -> str:
        return f"{self.broker_id} ({format_address(self.address)})"


class Visits(Protocol):
    """Asks brokers, from several threads at once. `deadline` is of `time.monotonic`."""

    @property
    def deadline(self) -> float:
        """When all asking must have ended."""

    def ask(self, address: Address, question: Question, deadline: float) -> Any:
        """Return the response, by a deadline that is not after the one of all. Raises PollError. Of
        one address at a time.
        """

    def are_new(self, topic: str, led: frozenset[tuple[int, int]]) -> bool:
        """Whether a partition of a topic, with its epoch, is new since the asking before, if there
        was one.
        """


class Time(NamedTuple):
    """The time that all brokers have, s, and when it ends (of `time.monotonic`)."""

    seconds: float
    until: float

    @classmethod
    def share(cls, visits: Visits, steps: int) -> Time:
        """Return the time of the first of so many steps, which share evenly what is left."""
        now = time.monotonic()
        seconds = max(0.0, visits.deadline - now) / steps
        return cls(seconds, now + seconds)

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be asked any more."""
        return time.monotonic() >= self.until

    def check(self) -> None:
        """Raise PollError if nothing is to be asked any more."""
        if self.is_over:
            raise PollError("timeout", "not asked, no time was left")

    def problem(self, broker: Broker, error: PollError) -> str:
        """Return what a broker did wrong, and how long it had if it was late."""
        said = broker.says(error)
        return (
            f"{said} ({self.seconds:.1f} s, see enrichTimeout)" if error.kind == "timeout" else said
        )


class Shares:
    """The time of brokers that are asked side by side: each has its part of what is left, so those
    that do not answer leave the others theirs.
    """

    def __init__(self, until: float, brokers: int, at_once: int) -> None:
        """Ask so many brokers until then (of `time.monotonic`), of which so many at once."""
        self._until, self._waiting, self._at_once = until, brokers, at_once
        self._lock = threading.Lock()

    def next(self, here: int) -> Time:
        """Return the time of the next broker, one of `here` that wait for one connection."""
        with self._lock:
            now = time.monotonic()
            left = max(0.0, self._until - now)
            part = left * min(self._at_once / self._waiting, 1 / here)
            self._waiting -= 1
        seconds = min(left, max(_LEAST_S, part))
        return Time(seconds, now + seconds)


def at_addresses(items: Iterable[Item], address: Callable[[Item], Address]) -> list[list[Item]]:
    """Return items together that are asked of one address: it has one connection, which carries a
    question at a time.

    Brokers may be at one (a proxy, a mistake).
    """
    at: dict[Address, list[Item]] = {}
    for item in items:
        at.setdefault(address(item), []).append(item)
    return list(at.values())


def undone(errors: Iterable[str], total: int, what: str) -> str | None:
    """Return in one line how many of all failed in `what`, and why; None if there are none."""
    reasons = Counter(error.removeprefix("failed: ") for error in errors)
    if not reasons:
        return None
    each = [
        f"{reason}: {count}" if len(reasons) > 1 else reason
        for reason, count in reasons.most_common()
    ]
    return f"{reasons.total()} of {total} {what}: {some(each, '; ', _REASONS)}"


def some(names: Sequence[object], separator: str = ", ", most: int = _NAMED) -> str:
    """Return the first of them in words, and how many more there are."""
    named = separator.join(map(str, names[:most]))
    return named if len(names) <= most else f"{named}{separator}and {len(names) - most} more"
