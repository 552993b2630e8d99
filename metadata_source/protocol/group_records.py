"""Records of ``__consumer_offsets``: bytes in, Arrow out, one row a record in the columns of
``bronze.group_log``.

What Kafka writes for "none" is null: an epoch or time-out of -1, a time of -1 or 0, a UUID of
zeros, an empty pattern, assignment epochs or configs that are not there. A metadata hash of 0
stays: it is also the hash of no topics.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import BYTES, TIME
from metadata_source.columns.group_log import (
    CLASSIC_MEMBER,
    CLASSIC_PROTOCOL,
    OWNED,
    RECORDS,
    SHARE_TOPICS,
    SUBTOPOLOGY,
    TASKS_OWNED,
    TOPIC_METADATA,
    TOPOLOGY_TOPICS,
)
from metadata_source.kafka_constants import LAST_MS
from metadata_source.protocol.columnar import read_batch
from metadata_source.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    read_assignments,
    read_subscriptions,
)
from metadata_source.protocol.encoding import NULL
from metadata_source.protocol.group_specs import COMMIT_TYPES, OFFSET_COMMIT, RECORD_TYPES
from metadata_source.protocol.nested_casts import each_entry, fields_of, filled, without
from metadata_source.protocol.row_builder import RowBuilder
from metadata_source.protocol.vectors import leading_int16s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metadata_source.protocol.nested_casts import Fields
    from metadata_source.protocol.spec import Message
    from metadata_source.protocol.vectors import Positions


_GROUP_METADATA = 2
_REGULAR_EXPRESSION = 16
_TIMES = ("current_state_timestamp", "assignment_timestamp", "timestamp")
"""Fields that are times, in milliseconds since 1970."""
BYTES_SHOWN = r" \(read [^)]*\)"
"""How errors show some of the bytes."""


def decode_records(
    keys: Sequence[bytes | None] | pa.BinaryArray,
    values: Sequence[bytes | None] | pa.BinaryArray,
    *,
    classic: Message = RECORD_TYPES[_GROUP_METADATA].value,
) -> pa.RecordBatch:
    """Return one row a record, in their order; schema: `RECORDS`. Bytes never raise.

    A record of an unknown type or version, and one whose bytes are not what they should be, has
    `error`, its raw `key` and `value`, and what its key told. Offset commits are many, and read by
    `offset_commits`: a row says what is wrong with one, without a byte of its value, which may hold
    anything. A tombstone has what its key tells, a pattern too. `is_tombstone` is never null.
    `classic`: how the cluster's maker writes classic groups.
    """
    raw_keys, raw_values = (
        each if isinstance(each, pa.Array) else pa.array(each, BYTES) for each in (keys, values)
    )
    return _Decoding(raw_keys, raw_values, classic).records()


class _Decoding:
    """Decodes some records, those of one type and version together."""

    def __init__(self, keys: pa.BinaryArray, values: pa.BinaryArray, classic: Message) -> None:
        self._classic = classic
        self._keys = keys
        self._values = values
        self._live = values.is_valid().to_numpy(zero_copy_only=False)
        self._rows = RowBuilder(RECORDS)
        self._commits: list[int] = []

    def records(self) -> pa.RecordBatch:
        """Return all of them."""
        rows = np.arange(len(self._keys))
        no_key = self._keys.is_null().to_numpy(zero_copy_only=False)
        self._rows.fail(rows[no_key], "no key")
        for number, of_type in self._by_number("type", self._keys, rows[~no_key]):
            if number in RECORD_TYPES or number in COMMIT_TYPES:
                self._decode_type(number, of_type)
            else:
                self._rows.fail(of_type, f"unknown record type {number}")
        failed = self._rows.failed
        self._rows.put("key", failed, self._keys.take(pa.array(failed)))
        failed = np.setdiff1d(failed, self._commits)
        self._rows.put("value", failed, self._values.take(pa.array(failed)))
        self._rows.put("is_tombstone", rows, pa.array(~self._live))
        return self._rows.made(len(rows))

    def _decode_type(self, number: int, rows: Positions) -> None:
        record_type = RECORD_TYPES.get(number, OFFSET_COMMIT)
        if record_type is OFFSET_COMMIT:
            self._commits += rows.tolist()
        rows, named = self._read(record_type.key, 0, self._keys, rows)
        names = fields_of(named)
        self._rows.put("group_id", rows, names["group" if "group" in names else "group_id"])
        if "member_id" in names:
            self._rows.put("member_id", rows, names["member_id"])
        live = self._live[rows]
        if number == _REGULAR_EXPRESSION:
            gone = names["regular_expression"].filter(pa.array(~live))
            self._rows.put("regular_expression", rows[~live], {"regex": gone})
        message = self._classic if number == _GROUP_METADATA else record_type.value
        last = message.last_version
        for version, of_version in self._by_number("version", self._values, rows[live]):
            if not 0 <= version <= last:
                self._rows.fail(
                    of_version,
                    f"unknown version {version} of record type {number}, known are 0 to {last}",
                )
                continue
            whole, found = self._read(message, version, self._values, of_version)
            if record_type is OFFSET_COMMIT:
                self._refuse_negative_offsets(whole, found.field("offset"))
                continue
            whole, found = self._without_impossible_times(whole, found)
            if number not in _DECODERS:
                continue
            column, decode = _DECODERS[number]
            whole_names = named.take(pa.array(np.searchsorted(rows, whole)))
            self._rows.put(column, whole, decode(fields_of(whole_names) | fields_of(found)))

    def _by_number(
        self, column: str, raw: pa.BinaryArray, rows: Positions
    ) -> Iterator[tuple[int, Positions]]:
        """Yield the types of keys, or the versions of values, and the rows of each."""
        numbers, good = leading_int16s(raw.take(pa.array(rows)))
        what = "key" if raw is self._keys else "value"
        for row in rows[~good].tolist():
            self._rows.errors[row] = f"a {what} of {len(raw[row].as_py())} bytes, 2 at least wanted"
        self._rows.put(column, rows[good], pa.array(numbers[good]))
        for number in np.unique(numbers[good]).tolist():
            yield number, rows[good & (numbers == number)]

    def _read(
        self, message: Message, version: int, raw: pa.BinaryArray, rows: Positions
    ) -> tuple[Positions, pa.StructArray]:
        """Return the rows that are such a message, and what they say."""
        found, errors = read_batch(raw.take(pa.array(rows)), message, version, start=2)
        said = {int(rows[index]): str(error) for index, error in errors.items()}
        if message is OFFSET_COMMIT.value:
            said = {row: re.sub(BYTES_SHOWN, "", error) for row, error in said.items()}
        self._rows.errors |= said
        return (np.delete(rows, list(errors)), found.drop_null()) if errors else (rows, found)

    def _refuse_negative_offsets(self, rows: Positions, offsets: pa.Int64Array) -> None:
        for index in np.flatnonzero(offsets.to_numpy() < 0).tolist():
            self._rows.errors[int(rows[index])] = f"{offsets[index]} is no offset"

    def _without_impossible_times(
        self, rows: Positions, found: pa.StructArray
    ) -> tuple[Positions, pa.StructArray]:
        for name in _TIMES:
            if found.type.get_field_index(name) < 0:
                continue
            times = found.field(name)
            good = pc.and_(pc.greater_equal(times, NULL), pc.less_equal(times, LAST_MS)).fill_null(
                True
            )
            for index in np.flatnonzero(~good.to_numpy(zero_copy_only=False)).tolist():
                self._rows.errors[int(rows[index])] = (
                    f"{times[index]} ms since 1970 is no time of a record"
                )
            rows, found = rows[good.to_numpy(zero_copy_only=False)], found.filter(good)
        return rows, found


def _classic(group: Fields) -> Fields:
    of_consumers = pc.equal(group["protocol_type"], PROTOCOL_TYPE).take(
        pc.list_parent_indices(group["members"])
    )
    return {
        **group,
        "state_timestamp": _time(group["current_state_timestamp"]),
        "members": each_entry(
            group["members"],
            pa.list_(CLASSIC_MEMBER),
            lambda members: _classic_members(members, of_consumers),
        ),
    }


def _classic_members(members: pa.StructArray, of_consumers: pa.BooleanArray) -> Fields:
    """Return members; bytes stay bytes where they are not the consumer protocol's, and are null
    where there are none.
    """
    member = fields_of(members)
    subscription = read_subscriptions(pc.if_else(of_consumers, member["subscription"], None))
    assignment = read_assignments(pc.if_else(of_consumers, member["assignment"], None))
    return {
        **member,
        "instance_id": member["group_instance_id"],
        "rebalance_timeout_ms": _known(member["rebalance_timeout"]),
        "session_timeout_ms": member["session_timeout"],
        "subscription": subscription,
        "assignment": assignment,
        "subscription_bytes": _unread(member["subscription"], subscription),
        "assignment_bytes": _unread(member["assignment"], assignment),
    }


def _streams_group_epoch(group: Fields) -> Fields:
    return {
        **group,
        "validated_topology_epoch": _known(group["validated_topology_epoch"]),
        "last_assignment_configs": filled(group["last_assignment_configs"]),
        "stored_description_topology_epoch": _known(group["stored_description_topology_epoch"]),
        "failed_description_topology_epoch": _known(group["failed_description_topology_epoch"]),
    }


def _partition_metadata(values: Fields) -> pa.Array:
    return each_entry(values["topics"], pa.list_(TOPIC_METADATA), _topic_metadata)


def _topic_metadata(topics: pa.StructArray) -> Fields:
    topic = fields_of(topics)
    return {
        "topic_id": topic["topic_id"],
        "topic": topic["topic_name"],
        "partitions": topic["num_partitions"],
        "racks": topic["partition_metadata"],
    }


def _consumer_member(values: Fields) -> Fields:
    classic = values["classic_member_metadata"]
    protocols = filled(pc.struct_field(classic, "supported_protocols"))
    session_timeout = pc.struct_field(classic, "session_timeout_ms")
    return {
        **_member(values),
        "regex": filled(values["subscribed_topic_regex"]),
        "assignor": values["server_assignor"],
        "session_timeout_ms": pc.if_else(protocols.is_valid(), session_timeout, None),
        "protocols": each_entry(protocols, pa.list_(CLASSIC_PROTOCOL), _classic_protocols),
    }


def _classic_protocols(protocols: pa.StructArray) -> Fields:
    protocol = fields_of(protocols)
    subscription = read_subscriptions(protocol["metadata"])
    return {
        "name": protocol["name"],
        "subscription": subscription,
        "metadata_bytes": _unread(protocol["metadata"], subscription),
    }


def _member(values: Fields) -> Fields:
    """Return what members of all types have: those of share groups have no time-out, those of
    streams groups no topics.
    """
    named = {"rack": values["rack_id"]}
    if "subscribed_topic_names" in values:
        named["topics"] = values["subscribed_topic_names"]
    if "rebalance_timeout_ms" in values:
        named["rebalance_timeout_ms"] = _known(values["rebalance_timeout_ms"])
    return values | named


def _target_epoch(values: Fields) -> Fields:
    return {
        "epoch": values["assignment_epoch"],
        "assigned_at": _time(values["assignment_timestamp"]),
    }


def _target(values: Fields) -> Fields:
    return {"partitions": values["topic_partitions"]}


def _current(values: Fields) -> Fields:
    return {
        **_epochs(values),
        "assigned": _owned(values["assigned_partitions"], OWNED),
        "pending_revocation": _owned(values["partitions_pending_revocation"], OWNED),
    }


def _share_current(values: Fields) -> Fields:
    return {**_epochs(values), "assigned": values["assigned_partitions"]}


def _current_tasks(values: Fields) -> Fields:
    tasks = {name: entries for name, entries in values.items() if "_tasks" in name}
    return {
        **_epochs(values),
        **{name: _owned(entries, TASKS_OWNED) for name, entries in tasks.items()},
    }


def _owned(lists: pa.ListArray, data_type: pa.ListType) -> pa.ListArray:
    return each_entry(lists, data_type, _with_known_epochs)


def _with_known_epochs(owned: pa.StructArray) -> Fields:
    fields = fields_of(owned)
    return fields | {"assignment_epochs": filled(fields["assignment_epochs"])}


def _epochs(values: Fields) -> Fields:
    return {
        "epoch": values["member_epoch"],
        "prev_epoch": values["previous_member_epoch"],
        "state": values["state"],
    }


def _regular_expression(values: Fields) -> Fields:
    return {
        "regex": values["regular_expression"],
        "topics": values["topics"],
        "metadata_version": values["version"],
        "resolved_at": _time(values["timestamp"]),
    }


def _share_state(values: Fields) -> Fields:
    return {
        "initializing": _share_topics(values["initializing_topics"]),
        "initialized": _share_topics(values["initialized_topics"]),
        "deleting": _share_topics(values["deleting_topics"]),
    }


def _share_topics(topics: pa.ListArray) -> pa.ListArray:
    return each_entry(topics, SHARE_TOPICS, _named_topics)


def _named_topics(topics: pa.StructArray) -> Fields:
    fields = fields_of(topics)
    return fields | {"topic": fields["topic_name"]}


def _topology(values: Fields) -> Fields:
    return {
        "epoch": values["epoch"],
        "subtopologies": each_entry(values["subtopologies"], pa.list_(SUBTOPOLOGY), _subtopologies),
    }


def _subtopologies(subtopologies: pa.StructArray) -> Fields:
    fields = fields_of(subtopologies)
    return fields | {
        name: each_entry(fields[name], TOPOLOGY_TOPICS, _configured_topics)
        for name in ("state_changelog_topics", "repartition_source_topics")
    }


def _configured_topics(topics: pa.StructArray) -> Fields:
    fields = fields_of(topics)
    return fields | {"configs": fields["topic_configs"]}


def _known(numbers: pa.Array) -> pa.Array:
    return without(NULL, numbers)


def _unread(raw: pa.BinaryArray, read: pa.StructArray) -> pa.BinaryArray:
    """Return the bytes that are not known to say anything."""
    return pc.if_else(read.is_null(), filled(raw), None)


def _time(ms: pa.Int64Array) -> pa.TimestampArray:
    known = pc.if_else(pc.is_in(ms, pa.array([NULL, 0], pa.int64())), None, ms)
    return pc.multiply(known, 1000).cast(TIME)


def _as_they_are(values: Fields) -> Fields:
    return values


#: By record type: the column of `RECORDS` that its values go to, and what makes its fields of those
#: of key and value. Of type 24 nothing is kept: the ids of the topics that a target was made for.
_DECODERS: dict[int, tuple[str, Callable[[Fields], Fields | pa.Array]]] = {
    _GROUP_METADATA: ("classic", _classic),
    3: ("group_epoch", _as_they_are),
    4: ("partition_metadata", _partition_metadata),
    5: ("member", _consumer_member),
    6: ("target_epoch", _target_epoch),
    7: ("target", _target),
    8: ("current", _current),
    10: ("member", _member),
    11: ("group_epoch", _as_they_are),
    12: ("target_epoch", _target_epoch),
    13: ("target", _target),
    14: ("current", _share_current),
    15: ("share_state", _share_state),
    _REGULAR_EXPRESSION: ("regular_expression", _regular_expression),
    17: ("group_epoch", _streams_group_epoch),
    19: ("member", _member),
    20: ("target_epoch", _target_epoch),
    21: ("target", _as_they_are),
    22: ("current", _current_tasks),
    23: ("topology", _topology),
}
