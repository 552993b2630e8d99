"""Records of ``__consumer_offsets``: bytes in, Arrow out, one row a record in the columns of ``bronze.group_log``.

What Kafka writes for "none" is null: an epoch or time-out of -1, a time of -1 or 0, a UUID of zeros, an empty pattern, assignment
epochs or configs that are not there. A metadata hash of 0 stays: it is also the hash of no topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from metadata_source.errors import ProtocolError
from metadata_source.protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment, read_subscription
from metadata_source.protocol.group_specs import RECORD_TYPES
from metadata_source.protocol.values import read_values, uuid_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_Values = dict[str, Any]


def _struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


_INT, _LONG, _TEXT, _BYTES = pa.int32(), pa.int64(), pa.string(), pa.binary()
_TIME = pa.timestamp("us", "UTC")
_INTS, _TEXTS = pa.list_(_INT), pa.list_(_TEXT)
_KEY_VALUES = pa.list_(_struct(key=_TEXT, value=_TEXT))

_BY_NAME = pa.list_(_struct(topic=_TEXT, partitions=_INTS))
_BY_ID = pa.list_(_struct(topic_id=_TEXT, partitions=_INTS))
_OWNED = pa.list_(_struct(topic_id=_TEXT, partitions=_INTS, assignment_epochs=_INTS))
_TASKS = pa.list_(_struct(subtopology_id=_TEXT, partitions=_INTS))
_TASKS_OWNED = pa.list_(_struct(subtopology_id=_TEXT, partitions=_INTS, assignment_epochs=_INTS))

_SUBSCRIPTION = _struct(
    version=_INT, topics=_TEXTS, user_data=_BYTES, owned_partitions=_BY_NAME, generation=_INT, rack=_TEXT
)
_CLASSIC_MEMBER = _struct(
    member_id=_TEXT,
    instance_id=_TEXT,
    client_id=_TEXT,
    client_host=_TEXT,
    rebalance_timeout_ms=_INT,
    session_timeout_ms=_INT,
    subscription=_SUBSCRIPTION,
    assignment=_struct(version=_INT, partitions=_BY_NAME, user_data=_BYTES),
    subscription_bytes=_BYTES,
    assignment_bytes=_BYTES,
)
_SHARE_TOPICS = pa.list_(_struct(topic_id=_TEXT, topic=_TEXT, partitions=_INTS))
_TOPOLOGY_TOPICS = pa.list_(_struct(name=_TEXT, partitions=_INT, replication_factor=_INT, configs=_KEY_VALUES))
_COPARTITION_GROUP = _struct(source_topics=_INTS, source_topic_regex=_INTS, repartition_source_topics=_INTS)
_SUBTOPOLOGY = _struct(
    subtopology_id=_TEXT,
    source_topics=_TEXTS,
    source_topic_regex=_TEXTS,
    state_changelog_topics=_TOPOLOGY_TOPICS,
    repartition_sink_topics=_TEXTS,
    repartition_source_topics=_TOPOLOGY_TOPICS,
    copartition_groups=pa.list_(_COPARTITION_GROUP),
)

#: The columns of `schemas.bronze.GROUP_LOG` that a record's key and value tell.
RECORDS: pa.Schema = pa.schema(
    [
        ("type", _INT),
        ("version", _INT),
        ("group_id", _TEXT),
        ("member_id", _TEXT),
        ("tombstone", pa.bool_()),
        ("error", _TEXT),
        ("key", _BYTES),
        ("value", _BYTES),
        (
            "classic",
            _struct(
                protocol_type=_TEXT,
                generation=_INT,
                protocol=_TEXT,
                leader=_TEXT,
                state_timestamp=_TIME,
                members=pa.list_(_CLASSIC_MEMBER),
            ),
        ),
        (
            "group_epoch",
            _struct(
                epoch=_INT,
                metadata_hash=_LONG,
                validated_topology_epoch=_INT,
                last_assignment_configs=_KEY_VALUES,
                stored_description_topology_epoch=_INT,
                failed_description_topology_epoch=_INT,
            ),
        ),
        (
            "partition_metadata",
            pa.list_(
                _struct(
                    topic_id=_TEXT,
                    topic=_TEXT,
                    partitions=_INT,
                    racks=pa.list_(_struct(partition=_INT, racks=_TEXTS)),
                )
            ),
        ),
        (
            "member",
            _struct(
                instance_id=_TEXT,
                rack=_TEXT,
                client_id=_TEXT,
                client_host=_TEXT,
                topics=_TEXTS,
                regex=_TEXT,
                rebalance_timeout_ms=_INT,
                assignor=_TEXT,
                session_timeout_ms=_INT,
                protocols=pa.list_(_struct(name=_TEXT, subscription=_SUBSCRIPTION, metadata_bytes=_BYTES)),
                topology_epoch=_INT,
                process_id=_TEXT,
                user_endpoint=_struct(host=_TEXT, port=_INT),
                client_tags=_KEY_VALUES,
            ),
        ),
        ("target_epoch", _struct(epoch=_INT, assigned_at=_TIME)),
        ("target", _struct(partitions=_BY_ID, active_tasks=_TASKS, standby_tasks=_TASKS, warmup_tasks=_TASKS)),
        (
            "current",
            _struct(
                epoch=_INT,
                prev_epoch=_INT,
                state=_INT,
                assigned=_OWNED,
                pending_revocation=_OWNED,
                active_tasks=_TASKS_OWNED,
                standby_tasks=_TASKS_OWNED,
                warmup_tasks=_TASKS_OWNED,
                active_tasks_pending_revocation=_TASKS_OWNED,
                standby_tasks_pending_revocation=_TASKS_OWNED,
                warmup_tasks_pending_revocation=_TASKS_OWNED,
            ),
        ),
        ("regular_expression", _struct(regex=_TEXT, topics=_TEXTS, metadata_version=_LONG, resolved_at=_TIME)),
        (
            "share_state",
            _struct(
                initializing=_SHARE_TOPICS,
                initialized=_SHARE_TOPICS,
                deleting=pa.list_(_struct(topic_id=_TEXT, topic=_TEXT)),
            ),
        ),
        ("topology", _struct(epoch=_INT, subtopologies=pa.list_(_SUBTOPOLOGY))),
    ]
)

_GROUP_METADATA = 2
_REGULAR_EXPRESSION = 16
_LAST_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last that Python and Spark have


class _NotDecodedError(ValueError):
    """What is wrong with a record whose bytes are no mistake of the encoding."""


def is_offset_commit(key: bytes | None) -> bool:
    """Whether a record is an offset commit (types 0 and 1): nearly all of the log, and not what `decode_records` is for."""
    return key is not None and key[:2] in (b"\0\0", b"\0\1")


def decode_records(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> pa.RecordBatch:
    """Return one row a record, in their order; schema: `RECORDS`. Bytes never raise.

    A record of an unknown type or version, and one whose bytes are not what they should be, has `error`, its raw `key` and `value`,
    and what its key told; offset commits are among those. A tombstone has what its key tells, a pattern too. `tombstone` is never null.
    """
    rows = [_row(key, value) for key, value in zip(keys, values, strict=True)]
    return pa.RecordBatch.from_pylist(rows, schema=RECORDS)


def _row(key: bytes | None, value: bytes | None) -> _Values:
    row: _Values = {"tombstone": value is None}
    try:
        _decode_into(row, key, value)
    except (ProtocolError, _NotDecodedError) as error:
        row |= {"error": str(error), "key": key, "value": value}
    return row


def _decode_into(row: _Values, key: bytes | None, value: bytes | None) -> None:
    """Put into the row what key and value tell, as far as they can be read."""
    if key is None:
        raise _NotDecodedError("no key")
    number = row["type"] = _leading_int16(key, "key")
    if number not in RECORD_TYPES:
        what = "an offset commit, type" if is_offset_commit(key) else "unknown record type"
        raise _NotDecodedError(f"{what} {number}")
    record_type = RECORD_TYPES[number]
    named = read_values(key, record_type.key, 0, start=2)
    row["group_id"] = named["group" if number == _GROUP_METADATA else "group_id"]
    row["member_id"] = named.get("member_id")
    if value is None:
        if number == _REGULAR_EXPRESSION:
            row["regular_expression"] = {"regex": named["regular_expression"]}
        return
    version = row["version"] = _leading_int16(value, "value")
    last = record_type.value.last_version
    if not 0 <= version <= last:
        raise _NotDecodedError(f"unknown version {version} of record type {number}, known are 0 to {last}")
    column, decode = _DECODERS[number]
    row[column] = decode(named | read_values(value, record_type.value, version, start=2))


def _leading_int16(data: bytes, what: str) -> int:
    if len(data) < 2:
        raise _NotDecodedError(f"a {what} of {len(data)} bytes, 2 at least wanted")
    return int.from_bytes(data[:2], signed=True)


def _classic(values: _Values) -> _Values:
    consumers = values["protocol_type"] == PROTOCOL_TYPE
    return {
        "protocol_type": values["protocol_type"],
        "generation": values["generation"],
        "protocol": values["protocol"],
        "leader": values["leader"],
        "state_timestamp": _time(values["current_state_timestamp"]),
        "members": [_classic_member(each, consumers=consumers) for each in values["members"]],
    }


def _classic_member(member: _Values, *, consumers: bool) -> _Values:
    """Return a member; its bytes stay bytes where they are not the consumer protocol's, and are null where there are none."""
    subscription = read_subscription(member["subscription"]) if consumers else None
    assignment = read_assignment(member["assignment"]) if consumers else None
    return {
        "member_id": member["member_id"],
        "instance_id": member["group_instance_id"],
        "client_id": member["client_id"],
        "client_host": member["client_host"],
        "rebalance_timeout_ms": _known(member["rebalance_timeout"]),
        "session_timeout_ms": member["session_timeout"],
        "subscription": subscription,
        "assignment": assignment,
        "subscription_bytes": None if subscription else member["subscription"] or None,
        "assignment_bytes": None if assignment else member["assignment"] or None,
    }


def _group_epoch(values: _Values) -> _Values:
    return {
        "epoch": values["epoch"],
        "metadata_hash": values["metadata_hash"],
        "validated_topology_epoch": _known(values.get("validated_topology_epoch")),
        "last_assignment_configs": values.get("last_assignment_configs") or None,
        "stored_description_topology_epoch": _known(values.get("stored_description_topology_epoch")),
        "failed_description_topology_epoch": _known(values.get("failed_description_topology_epoch")),
    }


def _partition_metadata(values: _Values) -> list[_Values]:
    return [
        {
            "topic_id": uuid_text(each["topic_id"]),
            "topic": each["topic_name"],
            "partitions": each["num_partitions"],
            "racks": each["partition_metadata"],
        }
        for each in values["topics"]
    ]


def _consumer_member(values: _Values) -> _Values:
    classic = values["classic_member_metadata"]
    speaks_classic = classic is not None and bool(classic["supported_protocols"])
    return {
        **_member(values),
        "topics": values["subscribed_topic_names"],
        "regex": values["subscribed_topic_regex"] or None,
        "rebalance_timeout_ms": _known(values["rebalance_timeout_ms"]),
        "assignor": values["server_assignor"],
        "session_timeout_ms": classic["session_timeout_ms"] if speaks_classic else None,
        "protocols": [_classic_protocol(each) for each in classic["supported_protocols"]] if speaks_classic else None,
    }


def _classic_protocol(protocol: _Values) -> _Values:
    subscription = read_subscription(protocol["metadata"])
    return {
        "name": protocol["name"],
        "subscription": subscription,
        "metadata_bytes": None if subscription else protocol["metadata"] or None,
    }


def _share_member(values: _Values) -> _Values:
    return {**_member(values), "topics": values["subscribed_topic_names"]}


def _streams_member(values: _Values) -> _Values:
    return {
        **_member(values),
        "rebalance_timeout_ms": _known(values["rebalance_timeout_ms"]),
        "topology_epoch": values["topology_epoch"],
        "process_id": values["process_id"],
        "user_endpoint": values["user_endpoint"],
        "client_tags": values["client_tags"],
    }


def _member(values: _Values) -> _Values:
    return {
        "instance_id": values.get("instance_id"),
        "rack": values["rack_id"],
        "client_id": values["client_id"],
        "client_host": values["client_host"],
    }


def _target_epoch(values: _Values) -> _Values:
    return {"epoch": values["assignment_epoch"], "assigned_at": _time(values["assignment_timestamp"])}


def _target(values: _Values) -> _Values:
    return {"partitions": _partitions(values["topic_partitions"])}


def _target_tasks(values: _Values) -> _Values:
    return {name: values[name] for name in ("active_tasks", "standby_tasks", "warmup_tasks")}


def _current(values: _Values) -> _Values:
    pending = values.get("partitions_pending_revocation")  # share groups have no such field
    return {
        **_epochs(values),
        "assigned": _partitions(values["assigned_partitions"]),
        "pending_revocation": None if pending is None else _partitions(pending),
    }


def _current_tasks(values: _Values) -> _Values:
    tasks = {name: entries for name, entries in values.items() if "_tasks" in name}
    return {
        **_epochs(values),
        **{name: [_with_known_epochs(each) for each in entries] for name, entries in tasks.items()},
    }


def _epochs(values: _Values) -> _Values:
    return {"epoch": values["member_epoch"], "prev_epoch": values["previous_member_epoch"], "state": values["state"]}


def _regular_expression(values: _Values) -> _Values:
    return {
        "regex": values["regular_expression"],
        "topics": values["topics"],
        "metadata_version": values["version"],
        "resolved_at": _time(values["timestamp"]),
    }


def _share_state(values: _Values) -> _Values:
    return {
        "initializing": _share_topics(values["initializing_topics"]),
        "initialized": _share_topics(values["initialized_topics"]),
        "deleting": _share_topics(values["deleting_topics"]),
    }


def _share_topics(topics: Iterable[_Values]) -> list[_Values]:
    return [
        {
            "topic_id": uuid_text(each["topic_id"]),
            "topic": each["topic_name"],
            "partitions": each.get("partitions"),
        }
        for each in topics
    ]


def _topology(values: _Values) -> _Values:
    return {
        "epoch": values["epoch"],
        "subtopologies": [
            {
                **each,
                "state_changelog_topics": _topology_topics(each["state_changelog_topics"]),
                "repartition_source_topics": _topology_topics(each["repartition_source_topics"]),
            }
            for each in values["subtopologies"]
        ],
    }


def _topology_topics(topics: Iterable[_Values]) -> list[_Values]:
    return [{**each, "configs": each["topic_configs"]} for each in topics]


def _partitions(topics: Iterable[_Values]) -> list[_Values]:
    return [{**_with_known_epochs(each), "topic_id": uuid_text(each["topic_id"])} for each in topics]


def _with_known_epochs(entry: _Values) -> _Values:
    return {**entry, "assignment_epochs": entry.get("assignment_epochs") or None}


def _known(value: int | None) -> int | None:
    return None if value == -1 else value


def _time(ms: int | None) -> int | None:
    """Return microseconds since 1970 for what Kafka has in milliseconds."""
    if ms is None or ms in (-1, 0):
        return None
    if not 0 < ms <= _LAST_MS:
        raise _NotDecodedError(f"{ms} ms since 1970 is no time of a record")
    return ms * 1000


#: By record type: the column of `RECORDS` that its values go to, and what makes them of the fields of key and value.
_DECODERS: dict[int, tuple[str, Callable[[_Values], Any]]] = {
    _GROUP_METADATA: ("classic", _classic),
    3: ("group_epoch", _group_epoch),
    4: ("partition_metadata", _partition_metadata),
    5: ("member", _consumer_member),
    6: ("target_epoch", _target_epoch),
    7: ("target", _target),
    8: ("current", _current),
    10: ("member", _share_member),
    11: ("group_epoch", _group_epoch),
    12: ("target_epoch", _target_epoch),
    13: ("target", _target),
    14: ("current", _current),
    15: ("share_state", _share_state),
    _REGULAR_EXPRESSION: ("regular_expression", _regular_expression),
    17: ("group_epoch", _group_epoch),
    19: ("member", _streams_member),
    20: ("target_epoch", _target_epoch),
    21: ("target", _target_tasks),
    22: ("current", _current_tasks),
    23: ("topology", _topology),
}
