"""The acts of producers, as they wrote them down."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Act:
    """One thing that a producer did. `answered_at`, `error`: None while nothing was answered, as
    when it died.
    """

    transactional_id: str
    action: str
    """init | begin | commit | abort."""
    asked_at: datetime
    answered_at: datetime | None = None
    error: str | None = None
    places: tuple[Place, ...] = ()
    """Of begin: where it wrote to."""

    @property
    def is_done(self) -> bool:
        """It was answered without an error."""
        return self.answered_at is not None and self.error is None

    def __str__(self) -> str:
        return f"{self.action} of {self.transactional_id} at {self.asked_at:%H:%M:%S.%f}"


@dataclass(frozen=True)
class Hanging:
    """A batch of a transaction that no coordinator was told of."""

    place: Place
    producer_id: int
    offset: int
    written_at: datetime


@dataclass(frozen=True)
class Position:
    """The position of a consumer that reads committed records, at a moment."""

    at: datetime
    place: Place
    offset: int


@dataclass(frozen=True)
class Written:
    """All that was written down."""

    acts: Sequence[Act]
    """In order of time, by producer."""
    hanging: Sequence[Hanging] = ()
    positions: Sequence[Position] = ()
    """In order of time."""
