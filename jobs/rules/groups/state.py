"""The state of one group between two of its records, or two of its polls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobs.rules import memory

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"

STABLE = {CONSUMER: 0, SHARE: 0, STREAMS: 1}
"""Code of the state in which a member has all that it is to have, by type of group.

Kafka's coordinator.group.modern.MemberState and coordinator.group.streams.MemberState, which do not agree.
"""

MILLISECOND = timedelta(milliseconds=1)
_AS_NOW = "now"

Partitions = dict[str, list[int]]
"""Topic name, topic id or subtopology -> partitions, sorted."""


def numbered(partitions: Partitions) -> set[tuple[str, int]]:
    """The partitions one by one."""
    return {(topic, number) for topic, numbers in partitions.items() for number in numbers}


def gathered(*parts: Iterable[Mapping[str, Any]] | None) -> Partitions:
    """Lists of topics, or subtopologies, and partitions as one, by topic id, by topic where no id is told, or by
    subtopology.

    A topic may be there more than once: librdkafka's cooperative-sticky assignor writes one as often as it gave away
    some of it.
    """
    every: dict[str, set[int]] = {}
    for part in parts:
        for each in part or ():
            name = each.get("subtopology_id") or each.get("topic_id") or each["topic"]
            every.setdefault(name, set()).update(each["partitions"])
    return {name: sorted(numbers) for name, numbers in every.items()}


@dataclass(frozen=True)
class Moment:
    """When something happened, after `after` (None: nothing bounds it) and by `by`; and the record, or the first poll,
    that shows it.

    `leader_epoch`: that wrote the record.
    """

    by: datetime
    after: datetime | None = None
    log_partition: int | None = None
    offset: int | None = None
    leader_epoch: int | None = None
    poll: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Moment":
        """When a record of the log was written: exact."""
        at = row["timestamp"]
        return cls(at, at, row["log_partition"], row["offset"], row["leader_epoch"])


CLIENT = ("instance_id", "client_id", "client_host")
"""Who a member is, as every source says it."""


@dataclass(frozen=True)
class Member:
    """One member. `has` and `to_have` are None where they are not known; of classic groups only `has` is used."""

    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    topics: list[str] | None = None
    pattern: str | None = None
    topology_epoch: int | None = None
    assignor: str | None = None
    has: Partitions | None = field(default_factory=dict)
    to_have: Partitions | None = None
    by_id: bool = False
    epoch: int | None = None
    state: int | None = None


@dataclass(frozen=True)
class Standing:
    """A group at one moment. `generation` is the group epoch of groups that are not classic."""

    group_type: str | None = None
    generation: int | None = None
    protocol_type: str | None = None
    assignor: str | None = None
    mode: str | None = None
    leader: str | None = None
    target_epoch: int | None = None
    metadata_hash: int | None = None
    topology_epoch: int | None = None
    patterns: dict[str, str] = field(default_factory=dict)
    initializing: bool = False
    members: dict[str, Member] = field(default_factory=dict)

    @property
    def converged(self) -> bool:
        """Every member has what it is to have at the group's epoch (equal epochs alone are not enough)."""
        stable = STABLE.get(self.group_type or "")
        return (
            bool(self.members)
            and self.target_epoch == self.generation
            and all(member.state == stable and member.epoch == self.generation for member in self.members.values())
        )


@dataclass(frozen=True)
class Rebalance:
    """A rebalance that is open, or that the rest of its last batch may yet reopen (`ended`).

    `before`: the group before it, None where that is not known. `passed`: members that came and went meanwhile.
    `withheld`: a classic group's partitions that were given up and that nobody has yet. `reached`: when its last
    generation completed. `awaits_epoch`: of share groups, state of partitions is being made, and an epoch of its own
    will follow. `topics`: names of topic ids, as far as polls tell them.
    """

    began: Moment
    before: Standing | None = None
    since_previous_ms: int | None = None
    prev_group_type: str | None = None
    skipped_generations: int | None = None
    phases: int = 1
    passed: dict[str, Member] = field(default_factory=dict)
    withheld: Partitions = field(default_factory=dict)
    reached: datetime | None = None
    awaits_epoch: bool = False
    ended: bool = False
    topics: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Gone:
    """A group whose tombstone, at `at`, was the last that was read: deleted, unless the same batch holds it as another
    type, too.
    """

    at: Moment
    standing: Standing
    known: bool
    rebalance: Rebalance | None = None


@dataclass(frozen=True)
class State:
    """All that is carried from record to record.

    `known`: `now` is the whole group (or that it is gone), so the next rebalance has a before. `began`: `now` where the
    batch of the last record began, or where a rebalance ended within it. `gap`: records may have been missed before the
    first of `now`. `fresh`: every record of the group so far is of this batch. `leavers`: members that a conversion
    left behind. `truncated`: the last truncation.
    """

    log_partition: int | None = None
    last_offset: int | None = None
    at: datetime | None = None
    known: bool = False
    known_since: datetime | None = None
    gap: bool = False
    fresh: bool = False
    truncated: list[int] = field(default_factory=list)
    last_end: datetime | None = None
    now: Standing = field(default_factory=Standing)
    began: Standing = field(default_factory=Standing)
    rebalance: Rebalance | None = None
    gone: Gone | None = None
    converted_from: str | None = None
    leavers: dict[str, Member] = field(default_factory=dict)


def skipped(before: Standing | None, after: Standing) -> int | None:
    """Generations between the two; None where they are not known."""
    if before is None or before.generation is None or after.generation is None:
        return None
    return after.generation - before.generation - 1


def total(count: int | None, more: int | None) -> int | None:
    """The sum; None where one of the two is not known."""
    return None if count is None or more is None else count + more


def begun(state: State, before: Standing | None, after: Standing, began: Moment) -> Rebalance:
    """A rebalance that begins."""
    since = None if before is None or state.last_end is None else (began.by - state.last_end) // MILLISECOND
    return Rebalance(
        began,
        before=before,
        since_previous_ms=None if since is None else max(0, since),
        prev_group_type=state.converted_from,
        skipped_generations=skipped(before, after),
    )


def to_json(state: State) -> dict[str, Any]:
    """The state as what json.dumps takes. A group at rest is mostly as it `began`, and is kept once."""
    made: dict[str, Any] = memory.to_json(state)
    return made | {"began": _AS_NOW} if state.began == state.now else made


def from_json(made: Mapping[str, Any] | None) -> State:
    """Read the JSON that to_json wrote; None is the state before any record."""
    made = made or {}
    if made.get("began") == _AS_NOW:
        made = {**made, "began": made.get("now", {})}
    state: State = memory.from_json(State, made)
    return state
