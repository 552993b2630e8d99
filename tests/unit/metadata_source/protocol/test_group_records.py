"""Records of the group coordinators: what goes in comes out, and what is wrong is one row that says
so.
"""

import tracemalloc
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql.pandas.types import from_arrow_schema

from metadata_source.columns.group_log import RECORDS
from metadata_source.protocol.columnar import FEWEST
from metadata_source.protocol.consumer_protocol import (
    read_assignments,
    read_one,
    read_subscriptions,
)
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.group_records import decode_records
from metadata_source.protocol.group_specs import (
    ASSIGNMENT,
    COMMIT_TYPES,
    RECORD_TYPES,
    REDPANDA_GROUP,
    SUBSCRIPTION,
)
from metadata_source.protocol.writing import write_message
from schemas.bronze import GROUP_LOG, GROUP_LOG_DECODED, GROUP_LOG_RECORD
from tests.support import group_messages
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.group_messages import (
    decoded,
    expected,
    key_bytes,
    records,
    redpanda_member,
    value_bytes,
)
from tests.support.mutations import mutated, mutations

quickly = settings(
    max_examples=examples(3),
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
every_record = for_each(("number", "version"), group_messages.RECORDS)

GROUP_KEY = key_bytes(3, {"group_id": "g"})
GROUP_EPOCH = value_bytes(3, 0, {"epoch": 7, "metadata_hash": 99})


def test_the_columns_are_those_of_bronze() -> None:
    of_source = {"timestamp", "leader_epoch"}
    columns = [each for each in GROUP_LOG_RECORD + GROUP_LOG_DECODED if each.name not in of_source]
    fields = from_arrow_schema(RECORDS)
    assert [(each.name, each.dataType.simpleString()) for each in fields] == [
        (column.name, column.type.replace(": ", ":").replace(", ", ",")) for column in columns
    ]


@every_record
def test_a_record_is_decoded_to_what_was_written(number: int, version: int) -> None:
    @quickly
    @given(records(number, version))
    def check(record: tuple[dict[str, Any], dict[str, Any]]) -> None:
        key, value = record
        raw_key, raw_value = key_bytes(number, key), value_bytes(number, version, value)
        assert decoded([raw_key, raw_key], [raw_value, None]) == [
            expected(number, version, key, value),
            expected(number, version, key, None),
        ]
        again = read_values(raw_value, RECORD_TYPES[number].value, version, start=2)
        assert value_bytes(number, version, again) == raw_value

    check()


def fails(row: dict[str, Any], key: bytes | None, value: bytes | None, error: str = "") -> None:
    """Check that a row keeps a record that was not decoded, says why, and holds nothing else but
    what its key told.
    """
    assert row["error"].startswith(error)
    assert "\n" not in row["error"]
    # An offset commit's value may hold anything.
    kept = None if row["type"] in COMMIT_TYPES else value
    assert (row["key"], row["value"], row["is_tombstone"]) == (key, kept, value is None)
    assert not [name for name in group_messages.COLUMNS if row[name] is not None]


@every_record
def test_no_part_of_a_record_is_a_record(number: int, version: int) -> None:
    @settings(quickly, max_examples=examples(2))
    @given(records(number, version))
    def check(record: tuple[dict[str, Any], dict[str, Any]]) -> None:
        key, value = key_bytes(number, record[0]), value_bytes(number, version, record[1])
        keys = [key[:size] for size in range(len(key))] + [key] * len(value)
        values = [value] * len(key) + [value[:size] for size in range(len(value))]
        for row, part, of_value in zip(
            decode_records(keys, values).to_pylist(), keys, values, strict=True
        ):
            fails(row, part, of_value)
            if part == key:
                assert row["group_id"] == group_messages.group_of(record[0])
        for at, of_value in ((key + b"\0", value), (key, value + b"\0")):
            (row,) = decode_records([at], [of_value]).to_pylist()
            fails(row, at, of_value)
            assert row["error"].endswith("1 bytes are left over (read 00)")

    check()


@every_record
def test_changed_bytes_lose_their_own_record_only(number: int, version: int) -> None:
    @settings(quickly, max_examples=examples(3))
    @given(records(number, version), mutations, mutations)
    def check(record: tuple[dict[str, Any], dict[str, Any]], of_key: Any, of_value: Any) -> None:
        key, value = key_bytes(number, record[0]), value_bytes(number, version, record[1])
        keys = [GROUP_KEY, mutated(key, of_key), key, GROUP_KEY]
        values = [GROUP_EPOCH, value, mutated(value, of_value), GROUP_EPOCH]
        first, *changed, last = decode_records(keys, values).to_pylist()
        assert first == last
        assert first["group_epoch"]["epoch"] == 7
        for row, was_key, was_value in zip(changed, keys[1:], values[1:], strict=False):
            if row["error"] is not None:
                fails(row, was_key, was_value)

    check()


@every_record
def test_many_are_decoded_as_one_is(number: int, version: int) -> None:
    @settings(quickly, max_examples=examples(3))
    @given(records(number, version), records(number, version), mutations)
    def check(one: Any, other: Any, changes: Any) -> None:
        keys = [key_bytes(number, key) for key, _ in (one, other, other)]
        values = [value_bytes(number, version, value) for _, value in (one, other, other)]
        values[2] = mutated(values[2], changes)
        one_by_one = [
            decode_records([key], [value]) for key, value in zip(keys, values, strict=True)
        ]
        together = decode_records(keys * FEWEST, values * FEWEST)
        together.validate(full=True)
        assert (
            together.to_pylist()
            == [row for batch in one_by_one for row in batch.to_pylist()] * FEWEST
        )

    check()


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, b"\0\0", "no key"),
        (None, None, "no key"),
        (b"", None, "a key of 0 bytes, 2 at least wanted"),
        (b"\0\x63whatever", b"\0\0", "unknown record type 99"),
        (b"\0\x09\0\1h", None, "unknown record type 9"),
        (b"\xff\xff", b"", "unknown record type -1"),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\3", "OffsetCommitValue v3: offset at byte 2: 8"),
        (
            b"\0\3\0\1",
            GROUP_EPOCH,
            "ConsumerGroupMetadataKey v0: group_id at byte 2: a string of 1 bytes, but 0",
        ),
        (GROUP_KEY, b"\0", "a value of 1 bytes, 2 at least wanted"),
        (
            GROUP_KEY,
            b"\0\1" + GROUP_EPOCH[2:],
            "unknown version 1 of record type 3, known are 0 to 0",
        ),
        (GROUP_KEY, b"\xff\xff", "unknown version -1 of record type 3, known are 0 to 0"),
        (
            GROUP_KEY,
            GROUP_EPOCH[:5],
            "ConsumerGroupMetadataValue v0: epoch at byte 2: 4 bytes wanted, 3 left",
        ),
        (
            GROUP_KEY,
            b"\0\0\0\0\0\7\1\0\7" + bytes(8),
            (
                "ConsumerGroupMetadataValue v0: metadata_hash at byte 7: tagged field 0 of 7 "
                "bytes, but its value takes 8"
            ),
        ),
        (
            key_bytes(20, {"group_id": "g"}),
            value_bytes(20, 0, {"assignment_epoch": 1, "assignment_timestamp": 2**62}),
            "4611686018427387904 ms since 1970 is no time of a record",
        ),
    ],
)
def test_the_error_says_what_is_wrong(key: bytes | None, value: bytes | None, error: str) -> None:
    batch = decode_records([GROUP_KEY, key, GROUP_KEY], [GROUP_EPOCH, value, None])
    before, row, after = batch.to_pylist()
    fails(row, key, value, error)
    assert row["type"] == (int.from_bytes(key[:2], signed=True) if key else None)
    assert row["group_id"] == ("g" if key and key[2:].startswith(GROUP_KEY[2:]) else None)
    assert (before["group_epoch"]["metadata_hash"], after["is_tombstone"]) == (99, True)
    # One row that the table refuses would hold up the log of every cluster.
    kept = duckdb.from_arrow(
        pa.Table.from_batches([batch]).append_column("record", pa.array(["record"] * 3))
    )
    assert kept.filter(GROUP_LOG.constraints["undecoded_kept"]).shape[0] == 3


@pytest.mark.timeout(60)
def test_tagged_fields_without_end_take_no_time() -> None:
    """Of two million that are said to be there the first is no tagged field: nobody goes on to look
    for the second.
    """
    value = GROUP_EPOCH[:6] + b"\xff\xff\x7f\0\1" + bytes(5_000_000)
    for row in decode_records([GROUP_KEY] * FEWEST, [value] * FEWEST).to_pylist():
        fails(
            row,
            GROUP_KEY,
            value,
            "ConsumerGroupMetadataValue v0: metadata_hash at byte 9: tagged field 0 of 1 bytes",
        )


def test_tagged_fields_that_only_later_versions_know_are_passed_over() -> None:
    value = GROUP_EPOCH[:-11] + b"\2\0\x08" + (99).to_bytes(8) + b"\x85\1\3new"
    assert decoded([GROUP_KEY], [value])[0]["group_epoch"] == {"epoch": 7, "metadata_hash": 99}


def test_a_member_without_the_field_of_classic_members_is_none() -> None:
    names = {each.name for each in RECORD_TYPES[5].value.body.fields if each.nullable is not None}
    value = dict.fromkeys(names) | {
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout_ms": 5,
    }
    value["subscribed_topic_names"] = ["t"]
    absent = value_bytes(
        5, 0, {name: each for name, each in value.items() if name != "classic_member_metadata"}
    )
    key = key_bytes(5, {"group_id": "g", "member_id": "m"})
    assert absent.endswith(b"\0")
    for raw in (absent, value_bytes(5, 0, value)):
        assert decoded([key], [raw])[0]["member"] == {
            "client_id": "c",
            "client_host": "/h",
            "topics": ["t"],
            "rebalance_timeout_ms": 5,
        }


@pytest.mark.parametrize(
    ("read", "message"), [(read_subscriptions, SUBSCRIPTION), (read_assignments, ASSIGNMENT)]
)
def test_the_consumer_protocol_is_read_or_left_alone(read: Any, message: Any) -> None:
    values = {
        "topics": ["orders"],
        "user_data": b"x",
        "owned_partitions": [{"topic": "orders", "partitions": [3, 1]}],
        "generation_id": 4,
        "rack_id": "r",
        "assigned_partitions": [{"topic": "orders", "partitions": [2]}],
    }
    for version in range(4):
        body = write_message(message, version, values)
        data = version.to_bytes(2) + body
        # If a record is cut off after the fields of version 0, those fields are read.
        first = 2 + len(write_message(message, 0, values))
        parts = [data[:size] for size in range(min(first, len(data)))]
        whole, longer, negative, *rest = read(
            pa.array([data, data + b"later fields", b"\xff\xff" + body, *parts])
        ).to_pylist()
        assert whole == longer
        assert whole["version"] == version
        assert [negative, *rest] == [None] * (1 + len(parts))
        assert read_one(message, data) == read_one(message, data + b"later fields")
        assert {read_one(message, part) and "read" for part in (b"\xff\xff" + body, *parts)} == {
            None
        }
        if version == 3:
            (later,) = read(pa.array([b"\x7f\xff" + body])).to_pylist()
            assert later == {**whole, "version": 0x7FFF}
            assert read_one(message, b"\x7f\xff" + body) == read_one(message, data)


@for_each("count", [1, FEWEST])
@for_each("version", [1, 2, 3, 9])
def test_a_subscription_without_the_fields_of_the_version_that_it_claims_is_one_of_version_0(
    version: int, count: int
) -> None:
    """As kafka-go writes it (kafka-go#1156)."""
    values = {"topics": ["orders", "a.b.c"], "user_data": None}
    data = version.to_bytes(2) + write_message(SUBSCRIPTION, 0, values)
    usual = b"\0\1" + write_message(SUBSCRIPTION, 1, values | {"owned_partitions": []})
    unknown = {"owned_partitions": None, "generation": None, "rack": None}
    told = {"version": version, "topics": ["orders", "a.b.c"], "user_data": None} | unknown
    # One that claims a part of what is after them, too.
    broken = data + b"\0\0\0\1\0"
    read = read_subscriptions(pa.array([data, usual, broken] * count)).to_pylist()
    assert read == [told, told | {"version": 1, "owned_partitions": []}, told] * count
    for each in (data, broken):
        one = read_one(SUBSCRIPTION, each)
        assert one is not None
        assert (one["topics"], one["owned_partitions"], one["rack_id"]) == (
            ["orders", "a.b.c"],
            None,
            None,
        )


@pytest.mark.parametrize("count", [1, FEWEST])
def test_groups_of_redpanda_have_a_version_before_each_member(count: int) -> None:
    subscription = b"\0\1" + write_message(
        SUBSCRIPTION, 1, {"topics": ["orders"], "user_data": b"", "owned_partitions": []}
    )
    group = (
        b"\0\3"
        b"\0\x08consumer"
        + (9).to_bytes(4)
        + b"\0\5range"
        + b"\0\2m1"
        + (1_700_000_000_000).to_bytes(8)
    )
    members = [redpanda_member(each, subscription) + bytes(4) for each in ("m1", "m2")]
    value = group + len(members).to_bytes(4) + b"".join(members)
    empty = group + bytes(4)
    key = key_bytes(2, {"group": "g"})
    rows = decode_records(
        [key, key] * count, [value, empty] * count, classic=REDPANDA_GROUP
    ).to_pylist()
    assert [row["error"] for row in rows] == [None] * 2 * count
    for whole, none in zip(rows[::2], rows[1::2], strict=True):
        assert (whole["classic"]["generation"], none["classic"]["members"]) == (9, [])
        told = [
            (each["member_id"], each["client_id"], each["subscription"]["topics"])
            for each in whole["classic"]["members"]
        ]
        assert told == [("m1", "c-1", ["orders"]), ("m2", "c-1", ["orders"])]
        assert {each["rebalance_timeout_ms"] for each in whole["classic"]["members"]} == {60_000}
    # Kafka's are not read so, nor these as Kafka's.
    (row,) = decode_records([key], [value]).to_pylist()
    assert "members[0]" in row["error"]


@for_each("number", [2, 5, 8, 23])
@for_each("count", [1, FEWEST])
def test_lengths_that_the_bytes_do_not_have_take_no_memory(number: int, count: int) -> None:
    version = RECORD_TYPES[number].value.last_version
    key = key_bytes(number, {each.name: "g" for each in RECORD_TYPES[number].key.body.fields})
    for filling in (b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\1", b"\2", b"\0", b"\x81\x08"):
        value = version.to_bytes(2) + filling * (20_000 // len(filling))
        tracemalloc.start()
        try:
            rows = decode_records([key] * count, [value] * count).to_pylist()
            assert tracemalloc.get_traced_memory()[1] < count * (200 * len(value) + 1_000_000)
        finally:
            tracemalloc.stop()
        for row in rows:
            fails(row, key, value)
