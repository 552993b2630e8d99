"""What is known of one group between two of its records, and how it is kept as JSON. Times are ms since the epoch."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"

STABLE = {CONSUMER: 0, SHARE: 0, STREAMS: 1}
"""Code of the state in which a member has all that it is to have, by type of group.

Kafka's coordinator.group.modern.MemberState and coordinator.group.streams.MemberState, which do not agree.
"""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Partitions = dict[str, list[int]]
"""Topic name, topic id or subtopology -> partitions, sorted."""


def numbered(partitions: Partitions) -> set[tuple[str, int]]:
    """The partitions one by one."""
    return {(topic, number) for topic, numbers in partitions.items() for number in numbers}


def to_ms(time: datetime) -> int:
    """An aware datetime as ms since the epoch."""
    return (time - EPOCH) // timedelta(milliseconds=1)


def from_ms(ms: int | None) -> datetime | None:
    """The datetime, UTC; None stays None."""
    return None if ms is None else EPOCH + timedelta(milliseconds=ms)


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
    """A rebalance that goes on, or that the rest of its last batch may yet reopen (`ended`).

    `before`: the group before it, None where that is not known. `passed`: members that came and went meanwhile.
    `withheld`: a classic group's partitions that were given up and that nobody has yet. `reached`: when its last generation completed.
    `awaits_epoch`: of share groups, state of partitions is being made, and an epoch of its own will follow.
    """

    first_offset: int
    last_offset: int
    began_after: int | None
    began_by: int
    before: Standing | None = None
    since_previous_ms: int | None = None
    prev_group_type: str | None = None
    incomplete: int | None = None
    phases: int = 1
    passed: dict[str, Member] = field(default_factory=dict)
    withheld: Partitions = field(default_factory=dict)
    reached: int | None = None
    awaits_epoch: bool = False
    ended: bool = False


@dataclass(frozen=True)
class Gone:
    """A group whose tombstone was the last that was read: deleted, unless the same batch goes on with it as another type."""

    offset: int
    standing: Standing
    known: bool
    rebalance: Rebalance | None = None


@dataclass(frozen=True)
class State:
    """All that is carried from record to record.

    `known`: `now` is the whole group (or that it is gone), so the next rebalance has a before. `began`: `now` where the batch of the
    last record began, or where a rebalance ended within it. `gap`: records may have been missed before the first of `now`.
    `fresh`: every record of the group so far is of this batch. `leavers`: members that a conversion left behind.
    """

    log_partition: int | None = None
    last_offset: int | None = None
    at: int | None = None
    known: bool = False
    known_since: int | None = None
    gap: bool = False
    fresh: bool = False
    truncated: list[int] = field(default_factory=list)
    last_end: int | None = None
    now: Standing = field(default_factory=Standing)
    began: Standing = field(default_factory=Standing)
    rebalance: Rebalance | None = None
    gone: Gone | None = None
    converted_from: str | None = None
    leavers: dict[str, Member] = field(default_factory=dict)


def to_json(state: State) -> dict[str, Any]:
    """The state as what json.dumps takes, without what has its default; `began` only where it differs from `now`."""
    packed: dict[str, Any] = _packed(state)
    packed.pop("began", None)
    return packed if state.began == state.now else packed | {"began": _packed(state.began)}


def from_json(packed: Mapping[str, Any] | None) -> State:
    """What to_json made; None is the state before any record."""
    if packed is None:
        return State()
    now = _standing(packed.get("now", {}))
    return State(
        **{
            **packed,
            "now": now,
            "began": _standing(packed["began"]) if "began" in packed else now,
            "rebalance": _rebalance(packed.get("rebalance")),
            "gone": _gone(packed.get("gone")),
            "leavers": _members(packed.get("leavers", {})),
        }
    )


def _packed(value: Any) -> Any:
    if is_dataclass(value):
        blank = type(value).__dataclass_fields__
        return {
            each.name: _packed(getattr(value, each.name))
            for each in fields(value)
            if not _is_default(blank[each.name], getattr(value, each.name))
        }
    if isinstance(value, dict):
        return {key: _packed(item) for key, item in value.items()}
    return value


def _is_default(declared: Any, value: Any) -> bool:
    if callable(declared.default_factory):
        return bool(value == declared.default_factory())
    return bool(value == declared.default)


def _members(packed: Mapping[str, Any]) -> dict[str, Member]:
    return {member_id: Member(**member) for member_id, member in packed.items()}


def _standing(packed: Mapping[str, Any]) -> Standing:
    return Standing(**{**packed, "members": _members(packed.get("members", {}))})


def _rebalance(packed: Mapping[str, Any] | None) -> Rebalance | None:
    if packed is None:
        return None
    before = _standing(packed["before"]) if "before" in packed else None
    return Rebalance(**{**packed, "before": before, "passed": _members(packed.get("passed", {}))})


def _gone(packed: Mapping[str, Any] | None) -> Gone | None:
    if packed is None:
        return None
    return Gone(
        **{**packed, "standing": _standing(packed["standing"]), "rebalance": _rebalance(packed.get("rebalance"))}
    )
