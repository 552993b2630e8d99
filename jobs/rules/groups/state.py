"""The state of one group between two of its records, or two polls, as its memory keeps it."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.rules import memory

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
STABLE = {CONSUMER: 0, SHARE: 0, STREAMS: 1}
"""Code of the state in which a member has all that it is to have: MemberState of Kafka's modern and
streams groups.
"""

AWAY = -2
"""Epoch of a static member that is expected back:
ConsumerGroupHeartbeatRequest.LEAVE_GROUP_STATIC_MEMBER_EPOCH.
"""

MODES = {CONSUMER: "cooperative", STREAMS: "cooperative"}
"""These only give up what must go; partitions of share groups have no owner."""

CLIENT = ("instance_id", "client_id", "client_host")
"""Who a member is, as every source says it."""

WRITTEN_AFTER = "written_after"
"""Not a column: of a record without a time, that of the group's record before; None before any.
`timestamp` then is by when it had been written.
"""

MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = Mapping[str, Any]
Partitions = dict[str, list[int]]
"""Topic name, topic id or subtopology -> partitions, sorted."""


def numbered(partitions: Partitions | None) -> set[tuple[str, int]]:
    """The partitions one by one."""
    return {(topic, number) for topic, numbers in (partitions or {}).items() for number in numbers}


def gathered(*parts: Iterable[Row] | None) -> Partitions:
    """Lists of topics and partitions as one: by topic id, else by topic, or by subtopology."""
    every: dict[str, set[int]] = {}
    # librdkafka's cooperative-sticky assignor writes a topic as often as it gave away some of it.
    for part in parts:
        for each in part or ():
            name = each.get("subtopology_id") or each.get("topic_id") or each["topic"]
            every.setdefault(name, set()).update(each["partitions"])
    return {name: sorted(numbers) for name, numbers in every.items()}


def written_by(row: Row) -> datetime:
    """When a row of the log had been written: at its time, or by when it was read where it has
    none.

    Some records, and spans, have none.
    """
    time: datetime = row.get("timestamp") or row["read_at"]
    return time


def to_micros(time: datetime) -> int:
    """An aware datetime as microseconds since the epoch, as keys of rows hold it."""
    return (time - _EPOCH) // MICROSECOND


def from_micros(micros: int) -> datetime:
    """The datetime, UTC."""
    return _EPOCH + micros * MICROSECOND


@dataclass(frozen=True)
class Moment:
    """When it happened, after `after` (None: not bounded) and by `by`; and what shows it."""

    by: datetime
    after: datetime | None = None
    log_partition: int | None = None
    offset: int | None = None
    leader_epoch: int | None = None
    poll: str | None = None

    @classmethod
    def of(cls, row: Row) -> "Moment":
        """When a record of the log was written: exact, unless it has WRITTEN_AFTER."""
        at = row["timestamp"]
        return cls(
            at, row.get(WRITTEN_AFTER, at), row["log_partition"], row["offset"], row["leader_epoch"]
        )


@dataclass(frozen=True)
class Member:
    """One member. `has`, `to_have`: None where not known; of classic groups only `has` is used.
    `revoking_since`, `rebalance_timeout_ms`: see removed.py; the latter not of those that speak the
    classic protocol.
    """

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
    session_timeout_ms: int | None = None
    rack: str | None = None
    rebalance_timeout_ms: int | None = None
    revoking_since: datetime | None = None

    @classmethod
    def of(cls, row: Row, **more: Any) -> "Member":
        """A member as some source says it."""
        return cls(**{name: row[name] for name in CLIENT}, **more)


@dataclass(frozen=True)
class Standing:
    """A group at one moment. `generation` is the group epoch of groups that are not classic.

    `metadata_hash`: the coordinator's hash of the topics from Kafka 4.1 on, before a digest of
    `partition_metadata`. `making`: partitions that a share group was to have state of when that was
    last told, with `names` of their topics; they stay once they have it.
    """

    group_type: str | None = None
    generation: int | None = None
    protocol_type: str | None = None
    assignor: str | None = None
    mode: str | None = None
    leader: str | None = None
    target_epoch: int | None = None
    metadata_hash: int | None = None
    partition_metadata: str | None = None
    topology_epoch: int | None = None
    patterns: dict[str, str] = field(default_factory=dict)
    making: Partitions = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)

    @property
    def topics(self) -> set[str]:
        """Topics that the members name."""
        return {topic for member in self.members.values() for topic in member.topics or ()}

    @property
    def subscribed(self) -> list[str] | None:
        """Topics of members, sorted; None where a pattern, topology or protocol may add some."""
        members = self.members.values()
        if self.group_type == STREAMS or any(
            each.topics is None or each.pattern is not None for each in members
        ):
            return None
        return sorted(self.topics)

    @property
    def converged(self) -> bool:
        """Every member has what it is to have at the group's epoch (equal epochs alone are not
        enough). A static member that is away reaches no epoch, and may have it all the same.
        """
        reached = (STABLE.get(self.group_type or ""), self.generation)
        is_target = bool(self.members) and self.target_epoch == self.generation
        return is_target and all(
            member.has == member.to_have
            if member.epoch == AWAY
            else (member.state, member.epoch) == reached
            for member in self.members.values()
        )

    @property
    def awaits_epoch(self) -> bool:
        """A share group is to have one more epoch, which assigns partitions that have state, or
        will have, by then.

        Of topics that are subscribed to alone (GroupMetadataManager.initializedAssignmentPending).
        """
        wanted, targets = (
            self.topics,
            (numbered(member.to_have) for member in self.members.values()),
        )
        parts = {each for each in numbered(self.making) if self.names[each[0]] in wanted}
        return not parts <= set[tuple[str, int]]().union(*targets)

    @property
    def at_target(self) -> "Standing":
        """The group where every member has what it is to have, as far as that is known."""
        has = (
            (each, m.has if m.to_have is None else m.to_have) for each, m in self.members.items()
        )
        return replace(
            self, members={each: replace(self.members[each], has=part) for each, part in has}
        )

    def with_members(self, members: dict[str, Member]) -> "Standing":
        """The group with these members, and the assignor on the server that most ask for."""
        asked = Counter(
            member.assignor for member in members.values() if member.assignor is not None
        ).most_common(2)
        is_one = len(asked) == 1 or (len(asked) == 2 and asked[0][1] > asked[1][1])
        mode = MODES.get(self.group_type or "")
        return replace(self, members=members, assignor=asked[0][0] if is_one else None, mode=mode)


@dataclass(frozen=True)
class Rebalance:
    """A rebalance that is open, or that the rest of its last batch may yet reopen (`ended`).

    `before`: None where it is not known. `passed`: members that came and went meanwhile.
    `given_up`: by member id, what the last generation of a classic group, `reached` then, took from
    members that are to join again. `topics`: names of topic ids, from polls. `removed`: by member
    id, the time-outs that removed members.
    """

    began: Moment
    before: Standing | None = None
    since_previous_ms: int | None = None
    prev_group_type: str | None = None
    skipped_generations: int | None = None
    phases: int = 1
    passed: dict[str, Member] = field(default_factory=dict)
    given_up: dict[str, Partitions] = field(default_factory=dict)
    reached: datetime | None = None
    ended: bool = False
    topics: dict[str, str] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)

    @property
    def withheld(self) -> set[tuple[str, int]]:
        """The partitions that were given up."""
        return {each for left in self.given_up.values() for each in numbered(left)}


@dataclass(frozen=True)
class Gone:
    """A group after its tombstone: deleted, unless the same batch has it as another type, too."""

    at: Moment
    standing: Standing
    known: bool
    rebalance: Rebalance | None = None


@dataclass(frozen=True)
class State:
    """All that is carried from record to record.

    `known`: `now` is the whole group, or that it is gone. `began`: `now` where the batch of the
    last record began, or where a rebalance ended within it. `gap`: records may have been missed
    before the first of `now`. `fresh`: all of the group's records are of this batch. `leavers`:
    members that a conversion left behind. `truncated`: last one. `removed`: of the last batch, as
    of a rebalance.
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
    removed: dict[str, str] = field(default_factory=dict)

    @property
    def open_rebalance(self) -> Rebalance | None:
        """The rebalance, unless it has ended."""
        return None if self.rebalance is None or self.rebalance.ended else self.rebalance


def to_json(state: State) -> Any:
    """The state as JSON carries it. A group at rest is mostly as it `began`, and is kept once."""
    return memory.to_json(state) | ({"began": "now"} if state.began == state.now else {})


def from_json(made: Row | None) -> State:
    """Read the JSON that to_json wrote; None is the state before any record."""
    made = dict(made or {})
    if made.get("began") == "now":
        made["began"] = made.get("now", {})
    state: State = memory.from_json(State, made)
    return state
