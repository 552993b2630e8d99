"""Rows of bronze.group_log as the coordinator would write them, in the few fields that tests say
something of.
"""

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.rules.groups.fold import fold
from jobs.rules.groups.rows import MEMBER_ROWS
from jobs.rules.groups.state import State, from_json, to_json
from schemas.bronze import GROUP_LOG_DECODED

Row = dict[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = {
    2: "classic",
    4: "partition_metadata",
    **dict.fromkeys((3, 11, 17), "group_epoch"),
    **dict.fromkeys((5, 10, 19), "member"),
    **dict.fromkeys((6, 12, 20), "target_epoch"),
    **dict.fromkeys((7, 13, 21), "target"),
    **dict.fromkeys((8, 14, 22), "current"),
    15: "share_state",
    16: "regular_expression",
    23: "topology",
}
NOTHING = dict.fromkeys(column.name for column in GROUP_LOG_DECODED)


def at(seconds: float) -> datetime:
    """START and so many seconds."""
    return START + timedelta(seconds=seconds)


@dataclass
class Log:
    """One group's rows of one partition; offsets follow each other unless `skip` leaves some to
    other groups.
    """

    group_id: str = "g"
    log_partition: int = 7
    rows: list[Row] = field(default_factory=list)
    next_offset: int = 100
    leader_epoch: int | None = None
    """Of the records that are written from now on."""
    has_times: bool = True
    """Whether the records that are written from now on have a time."""

    def batch(
        self, seconds: float, *records: tuple[int, str | None, Mapping[str, Any] | None]
    ) -> "Log":
        """Write (type, member, value) records side by side at one time; a value of None is a
        tombstone.
        """
        for kind, member_id, value in records:
            self._write(
                seconds,
                type=kind,
                member_id=member_id,
                is_tombstone=value is None,
                **({} if value is None else {VALUES[kind]: value}),
            )
        self.next_offset += 1  # someone else's
        return self

    def undecoded(self, seconds: float, kind: int, error: str = "version 9 is not known") -> "Log":
        """Write a record that could not be decoded."""
        self._write(
            seconds,
            type=kind,
            member_id=None,
            is_tombstone=False,
            error=error,
            key=b"k",
            value=b"v",
        )
        self.next_offset += 1
        return self

    def span(
        self, record: str, offset: int, next_offset: int, seconds: float, error: str | None = None
    ) -> "Log":
        """Write a `lost` or `truncated` row, and continue at next_offset."""
        self.rows.append(
            {
                "record": record,
                "offset": offset,
                "next_offset": next_offset,
                "log_partition": self.log_partition,
                "error": error,
                "read_at": at(seconds),
                "day": at(seconds).date(),
            }
        )
        self.next_offset = next_offset
        return self

    def _write(self, seconds: float, **columns: Any) -> None:
        self.rows.append(
            {
                "record": "record",
                "offset": self.next_offset,
                "next_offset": None,
                "log_partition": self.log_partition,
                "read_at": at(seconds + 1),
                "day": at(seconds + 1).date(),
                "timestamp": at(seconds) if self.has_times else None,
                "leader_epoch": self.leader_epoch,
                "group_id": self.group_id,
                "error": None,
                **NOTHING,
                **columns,
            }
        )
        self.next_offset += 1


# --- classic ---


def classic_member(
    member_id: str,
    topics: Iterable[str] = ("t",),
    has: Mapping[str, list[int]] | None = None,
    *,
    instance_id: str | None = None,
    owned: Mapping[str, list[int]] | None = None,
    bytes_only: bool = False,
) -> Row:
    """A member in a type 2 value; `bytes_only`: of a protocol that is not the consumer's.

    `owned`: what it joined with; None: its subscription is of version 0, which does not say so.
    """
    subscription = {
        "version": 3,
        "topics": list(topics),
        "owned_partitions": _named(owned or {}),
        "generation": -1,
    }
    if owned is None:
        subscription |= {"version": 0, "owned_partitions": None, "generation": None}
    return {
        "member_id": member_id,
        "instance_id": instance_id,
        "client_id": f"client-{member_id}",
        "client_host": "/10.0.0.1",
        "subscription": None if bytes_only else subscription,
        "assignment": None if bytes_only else {"version": 3, "partitions": _named(has or {})},
        "subscription_bytes": b"s" if bytes_only else None,
        "assignment_bytes": b"a" if bytes_only else None,
    }


def classic(
    generation: int,
    members: Iterable[Row] = (),
    *,
    protocol: str | None = "range",
    state_seconds: float | None = None,
    protocol_type: str = "consumer",
) -> tuple[int, None, Row]:
    """A type 2 record. An empty group has neither protocol nor leader."""
    members = list(members)
    return (
        2,
        None,
        {
            "protocol_type": protocol_type,
            "generation": generation,
            "protocol": protocol if members else None,
            "leader": members[0]["member_id"] if members else None,
            "state_timestamp": None if state_seconds is None else at(state_seconds),
            "members": members,
        },
    )


def _named(partitions: Mapping[str, list[int]]) -> list[Row]:
    return [{"topic": topic, "partitions": numbers} for topic, numbers in partitions.items()]


# --- groups with epochs ---

RECORD_TYPES = {
    "consumer": {"epoch": 3, "member": 5, "target_epoch": 6, "target": 7, "current": 8},
    "share": {"epoch": 11, "member": 10, "target_epoch": 12, "target": 13, "current": 14},
    "streams": {"epoch": 17, "member": 19, "target_epoch": 20, "target": 21, "current": 22},
}
STABLE_CODE = {"consumer": 0, "share": 0, "streams": 1}


@dataclass(frozen=True)
class Kind:
    """Records of one type of group with epochs."""

    name: str = "consumer"

    def epoch(self, epoch: int, metadata_hash: int = 1) -> tuple[int, None, Row]:
        return (
            RECORD_TYPES[self.name]["epoch"],
            None,
            {"epoch": epoch, "metadata_hash": metadata_hash},
        )

    def partition_metadata(self, partitions: Mapping[str, int]) -> tuple[int, None, list[Row]]:
        """What Kafka 3.7 to 4.0 writes before an epoch where it differs: topic -> how many
        partitions it has.
        """
        topics = [
            {"topic_id": name.upper(), "topic": name, "partitions": n, "racks": []}
            for name, n in partitions.items()
        ]
        return (4, None, topics)

    def member(
        self, member_id: str, topics: Iterable[str] | None = ("t",), **told: Any
    ) -> tuple[int, str, Row]:
        value = {
            "instance_id": None,
            "client_id": f"client-{member_id}",
            "client_host": "/10.0.0.1",
            "topics": None if topics is None else list(topics),
            "regex": None,
            "assignor": None,
            "protocols": None,
            "topology_epoch": None,
            "rack": None,
            "rebalance_timeout_ms": None,
        }
        return (RECORD_TYPES[self.name]["member"], member_id, value | told)

    def target_epoch(self, epoch: int) -> tuple[int, None, Row]:
        return (
            RECORD_TYPES[self.name]["target_epoch"],
            None,
            {"epoch": epoch, "assigned_at": None},
        )

    def target(self, member_id: str, partitions: Mapping[str, list[int]]) -> tuple[int, str, Row]:
        value = {
            "partitions": None,
            "active_tasks": None,
            "standby_tasks": None,
            "warmup_tasks": None,
        }
        value["active_tasks" if self.name == "streams" else "partitions"] = self._parts(partitions)
        return (RECORD_TYPES[self.name]["target"], member_id, value)

    def current(
        self,
        member_id: str,
        epoch: int,
        has: Mapping[str, list[int]],
        *,
        pending: Mapping[str, list[int]] | None = None,
        waits: bool = False,
        prev_epoch: int | None = None,
    ) -> tuple[int, str, Row]:
        """`waits`: for partitions that others have not released (state 2, of streams 3).
        `prev_epoch`: unless given the one before.
        """
        prev_epoch = max(0, epoch - 1) if prev_epoch is None else prev_epoch
        stable = STABLE_CODE[self.name]
        value: Row = dict.fromkeys(
            (
                "assigned",
                "pending_revocation",
                "active_tasks",
                "active_tasks_pending_revocation",
                "standby_tasks",
            )
        )
        names = (
            ("active_tasks", "active_tasks_pending_revocation")
            if self.name == "streams"
            else ("assigned", "pending_revocation")
        )
        value[names[0]], value[names[1]] = self._parts(has), self._parts(pending or {})
        code = stable + 1 if pending else stable + 2 if waits else stable
        return (
            RECORD_TYPES[self.name]["current"],
            member_id,
            {"epoch": epoch, "prev_epoch": prev_epoch, "state": code, **value},
        )

    def gone(self, member_id: str) -> list[tuple[int, str, None]]:
        """The tombstones of a member, in the order in which the coordinator writes them."""
        types = RECORD_TYPES[self.name]
        return [(types[record], member_id, None) for record in ("current", "target", "member")]

    def deleted(self) -> list[tuple[int, None, None]]:
        """The tombstones of an empty group."""
        types = RECORD_TYPES[self.name]
        return [(types[record], None, None) for record in ("target_epoch", "epoch")]

    def _parts(self, partitions: Mapping[str, list[int]]) -> list[Row]:
        name = "subtopology_id" if self.name == "streams" else "topic_id"
        return [{name: topic, "partitions": numbers} for topic, numbers in partitions.items()]


CONSUMER, SHARE, STREAMS = Kind("consumer"), Kind("share"), Kind("streams")


# --- runs ---


@dataclass(frozen=True)
class History:
    """The last version of each row that runs of the fold told, in the order in which they were
    first told.
    """

    state: State
    rebalances: list[Row]
    members: list[dict[str, Row]]
    events: list[Row]

    @property
    def names(self) -> list[str]:
        return [event["event"] for event in self.events]


def history(log: Log | list[Row], cuts: Iterable[int] = ()) -> History:
    """Fold rows in runs, cut before the numbers given, with the state through JSON as the job keeps
    it.
    """
    rows = log.rows if isinstance(log, Log) else log
    edges = [0, *sorted(cuts), len(rows)]
    state, told = State(), dict[Any, Row]()
    for begin, end in itertools.pairwise(edges):
        state, more = fold(state, rows[begin:end])
        state, told = from_json(json.loads(json.dumps(to_json(state)))), told | more.rows
    events = [row for row in told.values() if "event" in row]
    rebalances = [row for row in told.values() if "event" not in row]
    members = [{each["member_id"]: each for each in row.pop(MEMBER_ROWS)} for row in rebalances]
    return History(state, rebalances, members, events)


def shows(row: Row, **expected: Any) -> None:
    """The row has these columns, and these `counts`."""
    row = row | {"counts": counts(row)} if "counts" in expected else row
    assert {name: row[name] for name in expected} == expected


def gist(row: Row) -> tuple[Any, ...]:
    """End reason; phases; generations: before, now, skipped; members: joined, left, restarted;
    reasons, as one text; and counts.
    """
    generations = row["prev_generation"], row["generation"], row["skipped_generations"]
    members = row["members_joined"], row["members_left"], row["members_restarted"]
    why = row["reasons"] and " ".join(row["reasons"])
    return row["end_reason"], row["phases"], generations, members, why, counts(row)


def parts(row: Row, side: str) -> dict[str, list[int]] | None:
    """What a row of gold.rebalance_members has on a side, by topic name or id."""
    if row[side] is None:
        return None
    return {each["topic"] or each["topic_id"]: each["partitions"] for each in row[side]}


def counts(row: Row) -> tuple[Any, ...]:
    """kept, moved, added, lost."""
    return (
        row["partitions_kept"],
        row["partitions_moved"],
        row["partitions_added"],
        row["partitions_lost"],
    )
