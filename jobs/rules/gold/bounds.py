"""When something began or ended: in which poll, and between which times."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.gold.news import Row
from jobs.rules.ids import row_id, source_of

NOT_ENDED = dict.fromkeys(
    ("ended_poll", "ended_after", "ended_before", "duration_ms_min", "duration_ms_max")
)


@dataclass(frozen=True)
class Bounds:
    """A change came after the last poll without it was sent, and before the first poll with it was
    answered.
    """

    poll: str
    after: datetime | None
    before: datetime

    @classmethod
    def of_begin(cls, snapshot: Row) -> "Bounds":
        """When a row of silver began."""
        return cls(snapshot["first_poll"], snapshot["prev_sent_at"], snapshot["valid_from"])

    @classmethod
    def of_end(cls, snapshot: Row) -> "Bounds":
        """When a row of silver was over."""
        return cls(snapshot["superseded_poll"], snapshot["last_seen_sent_at"], snapshot["valid_to"])

    @property
    def began(self) -> Row:
        """The columns of when of what began so."""
        return {
            "poll": self.poll,
            "source": source_of(self.poll),
            "began_after": self.after,
            "began_before": self.before,
        }

    def merged(self, other: "Bounds | None") -> "Bounds":
        """The bounds of two changes that one poll, and an answer beside it, showed: either may have
        come last.

        Where one has no lower bound, both have none.
        """
        if other is None:
            return self
        after = None if self.after is None or other.after is None else min(self.after, other.after)
        return Bounds(self.poll, after, max(self.before, other.before))


def event(state: Row, bounds: Bounds, *key: str | int) -> Row:
    """The first columns of rows of gold about a partition. `key`: in the id beside the partition
    and the poll.
    """
    place = {name: state[name] for name in ("cluster_id", "topic", "topic_id", "partition")}
    return {
        "id": row_id(*place.values(), *key, bounds.poll),
        "cluster": state["cluster"],
        **place,
        **bounds.began,
    }


def end(row: Row, bounds: Bounds, **more: Any) -> None:
    """Give a row of gold its end, its duration, and `more` columns."""
    row |= {
        "ended_poll": bounds.poll,
        "ended_after": bounds.after,
        "ended_before": bounds.before,
        "duration_ms_min": at_least_ms(row["began_before"], bounds.after),
        "duration_ms_max": ms(row["began_after"], bounds.before),
        **more,
    }


def ms(begin: datetime | None, end: datetime | None) -> int | None:
    """Whole milliseconds from one time to another, rounded down; None where one of them is not
    known.
    """
    return None if begin is None or end is None else (end - begin) // timedelta(milliseconds=1)


def at_least_ms(begin: datetime | None, end: datetime | None) -> int:
    """How long something lasted at least that had begun by `begin` and not ended at `end`; 0 where
    it is not known.
    """
    return max(0, ms(begin, end) or 0)
