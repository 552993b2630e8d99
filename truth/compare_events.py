"""How events that are said to have happened agree with those of the log.

Made for the rows of gold.leader_changes and gold.isr_changes; `LeaderChange` and `IsrChange` are
what it needs of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from truth.model.states import PartitionKey
from truth.observed import Watch


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """One observed change of a leader or its epoch."""

    topic: str
    topic_id: str
    partition: int
    prev_leader: int
    leader: int
    prev_leader_epoch: int
    leader_epoch: int
    changes_min: int
    changes_max: int | None
    epoch_semantics: str
    """exact | upper_bound | unreliable."""
    reason: str | None
    unclean: str | None
    """no | suspected | proven; null where it cannot be told."""
    began_after: datetime
    began_before: datetime

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.topic_id, self.partition


@dataclass(frozen=True, slots=True)
class IsrChange:
    """One broker that left an ISR, or came into it."""

    topic: str
    topic_id: str
    partition: int
    broker_id: int
    change: str
    """left | rejoined | joined."""
    cause: str | None
    began_after: datetime
    began_before: datetime

    @property
    def key(self) -> PartitionKey:
        """Topic id and partition."""
        return self.topic_id, self.partition


@dataclass
class EventScore:
    """How events agree with the log's."""

    expected: int = 0
    """Of the log: those that had to be found."""
    missed: list[str] = field(default_factory=list)
    given: int = 0
    """Rows that were judged."""
    extra: list[str] = field(default_factory=list)
    """Rows of which the log has no such event."""
    outside: list[str] = field(default_factory=list)
    """Events outside the bounds of their row, by more than the tolerance."""
    trail: list[timedelta] = field(default_factory=list)
    """By how much events came before their row's lower bound: the answer was older than the log."""
    miscounted: list[str] = field(default_factory=list)
    """Rows whose changes_min and changes_max do not hold what the log counts."""
    misjudged: list[str] = field(default_factory=list)
    """Rows whose reason, cause or certainty the log contradicts."""
    decided: int = 0
    """Rows whose reason or cause the log decides."""
    unknown: int = 0
    """Rows that leave their reason unknown, or their cause open."""
    undecidable: int = 0
    """Rows whose reason the log leaves open too: more happened than two polls can tell apart."""
    needless: list[str] = field(default_factory=list)
    """Rows that leave open what only one thing in the log can have been, or what was due."""
    unclean: Counter[str] = field(default_factory=Counter)
    """The `unclean` of the rows of truly unclean elections, counted."""
    slack: list[int] = field(default_factory=list)
    """changes_max - changes_min of each row."""
    widths: list[timedelta] = field(default_factory=list)
    """began_before - began_after of each row."""
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def recall(self) -> float:
        """Of what had to be found, the part that was."""
        return 1 - len(self.missed) / self.expected if self.expected else 1.0

    @property
    def precision(self) -> float:
        """Of what was given, the part that is true."""
        return 1 - len(self.extra) / self.given if self.given else 1.0

    @property
    def median_width(self) -> float:
        """Seconds."""
        return median(self.widths).total_seconds() if self.widths else 0.0

    @property
    def widest(self) -> float:
        """Seconds."""
        return max(self.widths, default=timedelta(0)).total_seconds()

    @property
    def longest_trail(self) -> float:
        """Seconds."""
        return max(self.trail, default=timedelta(0)).total_seconds()

    @property
    def faults(self) -> list[str]:
        """Everything that should not be."""
        kinds = ("missed", "extra", "outside", "miscounted", "misjudged", "needless")
        return [f"{kind}: {each}" for kind in kinds for each in getattr(self, kind)]

    def row(self) -> tuple[str, ...]:
        """For a table; see HEADINGS."""
        return (
            f"{self.recall:.1%} of {self.expected}",
            f"{self.precision:.1%} of {self.given}",
            str(len(self.outside)),
            f"{len(self.miscounted)}",
            f"{len(self.misjudged)} of {self.decided}",
            f"{self.unknown} unknown, {self.undecidable} undecidable",
            f"{self.median_width:.2f} / {self.widest:.2f} s",
            f"{sum(self.slack) / len(self.slack):.2f}" if self.slack else "-",
            f"{self.longest_trail:.2f} s",
            _counts(self.unclean),
            _counts(self.left_out),
        )


def _counts(counter: Counter[str]) -> str:
    return " ".join(f"{what}={count}" for what, count in sorted(counter.items()) if count) or "-"


HEADINGS = (
    "recall", "precision", "out of bounds", "miscounted", "misjudged", "left open",
    "width, median / most", "count slack", "trail", "truly unclean", "left out",
)  # fmt: skip


_Row = LeaderChange | IsrChange


def within(row: _Row, at: datetime, tolerance: timedelta) -> bool:
    """Return whether a moment is in the bounds of a row, the lower one less the tolerance."""
    return row.began_after - tolerance <= at <= row.began_before


def left_out_rows(rows: Sequence[_Row], watch: Watch) -> Mapping[_Row, str]:
    """Return why rows are left out: one of the two polls that they are between does not count."""
    why = {poll.sent_at: poll.left_out for poll in watch.polls} | {
        poll.received_at: poll.left_out for poll in watch.polls
    }
    found = {row: why.get(row.began_after) or why.get(row.began_before) for row in rows}
    return {row: reason for row, reason in found.items() if reason is not None}
