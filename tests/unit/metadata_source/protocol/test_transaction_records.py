"""Records of transaction coordinators: what goes in comes out, and what is wrong is one row that
says so.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from metadata_source.columns.transaction_log import RECORDS
from metadata_source.protocol.columnar import FEWEST
from metadata_source.protocol.transaction_records import (
    decode_records,
    is_prepared_late,
    read_ids,
    read_values,
)
from metadata_source.protocol.transaction_specs import (
    COMPLETE_ABORT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    VALUE,
)
from schemas.transactions import TRANSACTION_LOG_RECORD
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.mutations import mutated, mutations
from tests.support.transaction_log import START_MS, TIMEOUT_MS, binary, key_of, value_of
from tests.support.transaction_values import expected, ids, values

quickly = settings(
    max_examples=examples(20), database=None, suppress_health_check=[HealthCheck.too_slow]
)
GOOD = value_of(1)


def test_the_columns_are_those_of_bronze() -> None:
    of_source = {"timestamp", "leader_epoch"}
    columns = [each for each in TRANSACTION_LOG_RECORD if each.name not in of_source]
    assert [(each.name, each.dataType.simpleString()) for each in from_arrow_schema(RECORDS)] == [
        (column.name, column.type) for column in columns
    ]


def read(raw: bytes | None) -> dict[str, Any]:
    """What a value says, alone and among many."""
    told = []
    for count in (1, FEWEST):
        found = read_values(binary(*[raw] * count))
        assert not found.errors
        rows = [
            {name: int(column[row]) for name, column in found.numbers.items()}
            | {"partitions": found.partitions[row].as_py() or []}
            | {"partition_count": int(found.partition_counts[row])}
            for row in range(count)
        ]
        assert rows == [rows[0]] * count
        told.append(rows[0])
    assert told[0] == told[1]
    return told[0]


@for_each("version", [0, 1])
def test_a_value_is_decoded_to_what_was_written(version: int) -> None:
    @quickly
    @given(values(version))
    def check(value: dict[str, Any]) -> None:
        assert read(value_of(version, **value)) == expected(version, value)

    check()


@quickly
@given(ids)
def test_an_id_is_decoded_to_what_was_written(transactional_id: str) -> None:
    assert read_ids(binary(*[key_of(transactional_id)] * FEWEST)) == (
        [transactional_id] * FEWEST,
        {},
    )


@for_each("version", [0, 1])
def test_no_part_of_a_record_is_a_record(version: int) -> None:
    @settings(quickly, max_examples=examples(3))
    @given(ids, values(version))
    def check(transactional_id: str, value: dict[str, Any]) -> None:
        key, raw = key_of(transactional_id), value_of(version, **value)
        keys = [key[:size] for size in range(len(key))] + [key] * len(raw)
        parts = [raw] * len(key) + [raw[:size] for size in range(len(raw))]
        for row, part, of_value in zip(
            decode_records(keys, parts).to_pylist(), keys, parts, strict=True
        ):
            assert (row["key"], row["value"]) == (part, of_value)
            assert row["error"]

    check()


@settings(quickly, max_examples=examples(20))
@given(st.sampled_from([0, 1]), st.data(), mutations, mutations)
def test_changed_bytes_lose_their_own_record_only(
    version: int, data: st.DataObject, of_key: Any, of_value: Any
) -> None:
    raw = value_of(version, **data.draw(values(version)))
    keys = [key_of("a"), mutated(key_of("b"), of_key), key_of("c"), key_of("a")]
    raws = [GOOD, raw, mutated(raw, of_value), GOOD]
    batch = decode_records(keys, raws)
    batch.validate(full=True)
    first, *changed, last = batch.to_pylist()
    assert first == last
    assert (first["transactional_id"], first["version"], first["error"]) == ("a", 1, None)
    for row, key, value in zip(changed, keys[1:], raws[1:], strict=False):
        assert (row["key"], row["value"]) == ((key, value) if row["error"] else (None, None))


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (None, GOOD, "no key"),
        (None, None, "no key"),
        (b"", None, "a key of 0 bytes, 2 at least wanted"),
        (b"\0\1\0\1a", GOOD, "unknown version 1 of keys, known is 0"),
        (b"\0\0\0\2a", GOOD, "TransactionLogKey v0: transactional_id at byte 2: a string of 2"),
        (key_of("a"), b"\0", "a value of 1 bytes, 2 at least wanted"),
        (key_of("a"), b"\0\2" + GOOD[2:], "unknown version 2 of values, known are 0 to 1"),
        (key_of("a"), GOOD[:7], "TransactionLogValue v1: producer_id at byte 2: 8 bytes wanted"),
        (key_of("a"), GOOD + b"\0", "TransactionLogValue v1: end of message at byte 35: 1 bytes"),
        (key_of("a"), value_of(transaction_status=8), "unknown status 8, known are 0 to 7"),
        (key_of("a"), value_of(transaction_status=-3), "unknown status -3, known are 0 to 7"),
        (
            key_of("a"),
            value_of(transaction_last_update_timestamp_ms=2**62),
            "4611686018427387904 ms since 1970 is no time of a record",
        ),
    ],
)
def test_the_error_says_what_is_wrong(key: bytes | None, value: bytes | None, error: str) -> None:
    (row,) = decode_records([key], [value]).to_pylist()
    assert row["error"].startswith(error)
    assert "\n" not in row["error"]
    assert (row["key"], row["value"], row["is_tombstone"]) == (key, value, value is None)


def test_a_tombstone_says_its_id() -> None:
    (row,) = decode_records([key_of("a")], [None]).to_pylist()
    assert (row["transactional_id"], row["is_tombstone"], row["error"]) == ("a", True, None)


@for_each("version", [0, 1])
def test_only_aborts_after_the_time_out_are_prepared_late(version: int) -> None:
    def value(status: int, lasted_ms: int) -> bytes:
        return value_of(
            version,
            transaction_status=status,
            transaction_start_timestamp_ms=START_MS,
            transaction_last_update_timestamp_ms=START_MS + lasted_ms,
        )

    late = TIMEOUT_MS + 1
    told = [
        value(PREPARE_ABORT, late),
        value(PREPARE_ABORT, TIMEOUT_MS),
        value(PREPARE_COMMIT, late),
        value(ONGOING, late),
        value(COMPLETE_ABORT, late),
    ]
    assert is_prepared_late(binary(*told, None, b"", b"\0")).tolist() == [True] + [False] * 7


def test_the_fields_before_the_status_are_of_a_fixed_size() -> None:
    """`is_prepared_late` looks at a byte."""
    names = [each.name for each in VALUE.body.fields if each.tag is None]
    assert names[:4] == [
        "producer_id",
        "producer_epoch",
        "transaction_timeout_ms",
        "transaction_status",
    ]
