"""The memory of silver of one cluster from round to round, beside its live rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Self, cast

from jobs.rules import memory
from jobs.rules.ids import offset_of
from metadata_source.kinds import KAFKA
from schemas.silver import INTERVAL_ENDS

Row = dict[str, Any]
"""One row of a table, by column names: lists for arrays, aware datetimes, None for null."""

CONFIGS = "configs"
"""The enrichment of which the controllers' log has a part: the configurations of topics and
of all brokers. Polls tell those that are in the brokers' files.
"""

Header = Mapping[str, Any]
"""Header of a poll in bronze; `answers`: those of answers beside it (enrichments.headers_of)."""


@dataclass(frozen=True)
class Poll:
    """An accepted poll: an answer that came `at`, asked for at `sent_at`. Answers of one cluster
    come in order.
    """

    id: str
    at: datetime
    sent_at: datetime
    interval_ms: int

    def following(self, before: "Poll | None", *others: "Poll") -> Self:
        """The same, no earlier than an answer to the same question `before`, and come no earlier
        than `others`: clocks may have been set back.
        """
        sent_at = self.sent_at if before is None else max(self.sent_at, before.sent_at)
        return replace(
            self, at=max(each.at for each in (self, before, *others) if each), sent_at=sent_at
        )


@dataclass(frozen=True)
class Answered(Poll):
    """The last answer of an enrichment beside accepted polls: the poll that it came with, when
    the question was asked, when it was answered, and the digest of the answer.
    """

    digest: bytes | None = None


@dataclass(frozen=True)
class Behind:
    """How far a broker is behind at most, and when it was asked last: partitions, epochs in all."""

    at: datetime
    partitions: int
    epochs: int

    def beside(self, before: "Behind") -> "Behind":
        """The same with what it was behind before."""
        return Behind(
            self.at, max(self.partitions, before.partitions), max(self.epochs, before.epochs)
        )


@dataclass(frozen=True)
class Observation:
    """A poll and the one before it in its line; and the times of rows that began or ended there."""

    poll: Poll
    before: Poll | None
    is_since_before: bool = True
    """False: the state may be much older than `before`, which says nothing of it."""
    silent: Mapping[int, Poll | None] = field(default_factory=dict)
    """Brokers that did not answer before, each with its last answer: see `log_dirs`."""

    def of(self, key: tuple[Any, ...]) -> "Observation":
        """The observation of a thing. If the broker in its key was silent, it follows that broker's
        last answer.
        """
        if not self.silent or key[0] not in self.silent:
            return self
        return replace(self, before=self.silent[key[0]])

    @cached_property
    def began(self) -> Row:
        """Of a row that begins here."""
        return {
            "first_poll": self.poll.id,
            "valid_from": self.poll.at,
            "prev_poll": self.before and self.before.id,
            "prev_sent_at": self._after,
            "interval_ms": self.poll.interval_ms,
            "from_offset": offset_of(self.poll.id),
            **dict.fromkeys(INTERVAL_ENDS),
        }

    @property
    def _after(self) -> datetime | None:
        return self.before.sent_at if self.before and self.is_since_before else None

    @cached_property
    def ended(self) -> Row:
        """Of a row that has ended by this poll. Nothing can at the first poll of a line."""
        if self.before is None:
            raise ValueError(f"nothing can have ended by the first poll {self.poll.id}")
        return {
            "last_poll": self.before.id,
            "last_seen_at": self.before.at,
            "last_seen_sent_at": self._after,
            "superseded_poll": self.poll.id,
            "valid_to": self.poll.at,
            "to_offset": offset_of(self.poll.id),
        }


@dataclass
class State:
    """How far the polls of one cluster have become history. Only a fold changes one, of its own.

    `last` and `before` are the last two accepted polls. `missing` are the topics that `last` did
    not show though the one before did, with the reason that they end for unless the next one shows
    them. `digest` is the header's at `last`; `topic_digests` are those of the topics that it
    showed, each with its version; `enriched`: the last answers, by enrichment. `ended_ids`: by
    name, the last ids of topics that another one of that name replaced. The counts and
    `error_kinds` are of polls since `last` and before the first of `waiting`, the ids of polls that
    wait. `seen` is the last n that was taken of each stream, `last_poll_at` when the last poll was
    due.

    `answered_by` is the broker that answered `last`; `sure` the accepted poll that stands in for
    `last` should that broker turn out to have been behind; `witness` the one that shows the state
    before `last`: `before`, or what stands in for that. `behind` are the brokers that are,
    `current` when others were last known not to be. `highest`: by broker, the highest level of
    metadata.version that it has. `kind`: of the cluster, as of `last`.

    `silent_brokers`: those that did not answer `log_dirs` the last time, each with its last answer
    before; None: it has given none.

    `static_configs`: the configurations of topics that are in the brokers' files, or Kafka's own,
    as last answered. `controller_id`: with ZooKeeper, as of `last`.

    While the controllers' log tells the history of topics, nothing is known of what answers said of
    them, and `heard` is the header's digest at `last`. `heir_of`: the last observation of the log,
    if it told before and no poll has been accepted since.
    """

    cluster_id: str | None = None
    kind: str = KAFKA
    last: Poll | None = None
    before: Poll | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    digest: bytes | None = None
    topic_digests: dict[str, str] = field(default_factory=dict)
    ended_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    enriched: Mapping[str, Answered] = field(default_factory=dict)
    failed_polls: int = 0
    refused_polls: int = 0
    stale_polls: int = 0
    error_kinds: tuple[str, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)
    late_polls: int = 0
    waiting: tuple[str, ...] = ()
    last_poll_at: datetime | None = None
    answered_by: int | None = None
    highest: Mapping[int, int] = field(default_factory=dict)
    sure: Poll | None = None
    witness: Poll | None = None
    behind: Mapping[int, Behind] = field(default_factory=dict)
    current: Mapping[int, datetime] = field(default_factory=dict)
    heard: bytes | None = None
    heir_of: Poll | None = None
    silent_brokers: Mapping[int, Poll | None] = field(default_factory=dict)
    static_configs: Mapping[str, str | None] = field(default_factory=dict)
    controller_id: int | None = None

    @property
    def settled(self) -> Poll | None:
        """Nothing up to this poll will change any more."""
        return self.before if self.missing else self.last

    def to_json(self) -> Row:
        """The state as JSON can carry it."""
        return cast("Row", memory.to_json(self))

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> "State":
        """The state that `to_json` was called on."""
        return cast("State", memory.from_json(State, plain))
