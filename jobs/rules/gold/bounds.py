"""When something began or ended: in which poll, and between which times."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.rules.gold.rows import Ended, Lasting, PartitionEvent
from jobs.rules.ids import row_id, source_of
from jobs.rules.silver.rows import Began, Interval, PartitionSnapshot

NOT_ENDED: Ended = {
    "ended_poll": None,
    "ended_after": None,
    "ended_before": None,
    "duration_ms_min": None,
    "duration_ms_max": None,
}


@dataclass(frozen=True)
class Bounds:
    """A change came after the last poll without it was sent, before the first with it answered."""

    poll: str
    after: datetime | None
    before: datetime

    @classmethod
    def of_begin(cls, snapshot: Interval) -> "Bounds":
        """When a row of silver began."""
        return cls(snapshot["first_poll"], snapshot["prev_sent_at"], snapshot["valid_from"])

    @classmethod
    def of_end(cls, snapshot: Interval) -> "Bounds":
        """When a row of silver was over."""
        poll, before = snapshot["superseded_poll"], snapshot["valid_to"]
        return cls._of_end(poll, snapshot["last_seen_sent_at"], before)

    @classmethod
    def of_ended(cls, row: Lasting) -> "Bounds":
        """When a row of gold was over."""
        return cls._of_end(row["ended_poll"], row["ended_after"], row["ended_before"])

    @classmethod
    def _of_end(cls, poll: str | None, after: datetime | None, before: datetime | None) -> "Bounds":
        if poll is None or before is None:
            raise ValueError("what lasts has no bounds of its end")
        return cls(poll, after, before)

    @property
    def began(self) -> Began:
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


def event(state: PartitionSnapshot, bounds: Bounds, *key: str | int) -> PartitionEvent:
    """The first columns of rows of gold about a partition. `key`: in the id beside the partition
    and the poll.
    """
    cluster_id, topic, topic_id = state["cluster_id"], state["topic"], state["topic_id"]
    return {
        "id": row_id(cluster_id, topic, topic_id, state["partition"], *key, bounds.poll),
        "cluster": state["cluster"],
        "cluster_id": cluster_id,
        "topic": topic,
        "topic_id": topic_id,
        "partition": state["partition"],
        **bounds.began,
    }


def end(row: Lasting, bounds: Bounds) -> None:
    """Give a row of gold its end and its duration."""
    row |= {
        "ended_poll": bounds.poll,
        "ended_after": bounds.after,
        "ended_before": bounds.before,
        "duration_ms_min": at_least_ms(row["began_before"], bounds.after),
        "duration_ms_max": ms(row["began_after"], bounds.before),
    }


def reopen(row: Lasting) -> None:
    """Take its end from a row of gold."""
    row |= {
        "ended_poll": None,
        "ended_after": None,
        "ended_before": None,
        "duration_ms_min": None,
        "duration_ms_max": None,
    }


def ms(begin: datetime | None, end: datetime | None) -> int | None:
    """Whole milliseconds between two times, rounded down; None where one of them is not known."""
    return None if begin is None or end is None else (end - begin) // timedelta(milliseconds=1)


def at_least_ms(begin: datetime | None, end: datetime | None) -> int:
    """How long it lasted at least: it had begun by `begin`, not ended at `end`; 0 if not known."""
    return max(0, ms(begin, end) or 0)
