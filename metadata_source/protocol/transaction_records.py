"""Records of ``__transaction_state``: bytes in, NumPy and Arrow out, without an object for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.columns import BYTES
from metadata_source.columns.transaction_log import RECORDS
from metadata_source.kafka_constants import LAST_MS
from metadata_source.protocol.columnar import arrow_type, read_batch, scattered
from metadata_source.protocol.row_builder import RowBuilder
from metadata_source.protocol.transaction_specs import KEY, PREPARE_ABORT, STATES, VALUE
from metadata_source.protocol.vectors import leading_int16s
from metadata_source.transactional_ids import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metadata_source.protocol.vectors import Flags, Positions

NONE = -1
PARTITIONS = arrow_type(VALUE.body).field("transaction_partitions").type
_NUMBERS = {
    "producer_id": "producer_id",
    "previous_producer_id": "previous_producer_id",
    "next_producer_id": "next_producer_id",
    "producer_epoch": "producer_epoch",
    "next_producer_epoch": "next_producer_epoch",
    "client_transaction_version": "client_transaction_version",
    "timeout_ms": "transaction_timeout_ms",
    "status": "transaction_status",
    "started_ms": "transaction_start_timestamp_ms",
    "updated_ms": "transaction_last_update_timestamp_ms",
}


class Values(NamedTuple):
    """Values of records, one row each.

    `errors`: by row, why it cannot be read. `versions`: -1 of a tombstone, and where there is none.
    `numbers`: by name, -1 where a field is not there, of tombstones, and of wrong values: of
    `status` the index of `STATES`, times in ms. `partitions`: topics with lists of partitions.
    """

    is_tombstone: Flags
    errors: dict[int, str]
    versions: Positions
    numbers: dict[str, Positions]
    partition_counts: Positions
    partitions: pa.ListArray


def read_ids(keys: pa.BinaryArray) -> tuple[list[str | None], dict[int, str]]:
    """Return the transactional id of each key, None where there is none, and by row why."""
    versions, with_version = leading_int16s(keys)
    good = np.flatnonzero(versions == 0)
    found, wrong = read_batch(keys.take(pa.array(good)), KEY, 0, start=2)
    ids: list[str | None] = [None] * len(keys)
    texts = found.field("transactional_id").to_pylist()
    for index, row in enumerate(good.tolist()):
        if index not in wrong:
            ids[row] = texts[index]
    errors = {int(good[index]): str(error) for index, error in wrong.items()}
    for row in np.flatnonzero(versions != 0).tolist():
        raw = keys[row].as_py()
        if raw is None:
            errors[row] = "no key"
        elif not with_version[row]:
            errors[row] = f"a key of {len(raw)} bytes, 2 at least wanted"
        else:
            errors[row] = f"unknown version {versions[row]} of keys, known is 0"
    return ids, errors


def read_values(values: pa.BinaryArray) -> Values:
    """Return the fields of values. Bytes never raise."""
    count = len(values)
    is_tombstone: Flags = values.is_null().to_numpy(zero_copy_only=False)
    versions, with_version = leading_int16s(values)
    errors: dict[int, str] = {}
    for row in np.flatnonzero(~with_version & ~is_tombstone).tolist():
        errors[row] = f"a value of {len(values[row].as_py())} bytes, 2 at least wanted"
    numbers = {name: np.full(count, NONE, dtype=np.int64) for name in _NUMBERS}
    pieces = []
    for version in np.unique(versions[with_version]).tolist():
        rows = np.flatnonzero(with_version & (versions == version))
        if not 0 <= version <= VALUE.last_version:
            known = f"known are 0 to {VALUE.last_version}"
            errors |= dict.fromkeys(rows.tolist(), f"unknown version {version} of values, {known}")
            continue
        of_version = values if len(rows) == count else values.take(pa.array(rows))
        found, wrong = read_batch(of_version, VALUE, version, start=2)
        errors |= {int(rows[index]): str(error) for index, error in wrong.items()}
        for name, field in _NUMBERS.items():
            # A row that is wrong is null, and so are its fields.
            column = found.field(field)
            if column.null_count or found.null_count:
                column = column.fill_null(NONE)
            numbers[name][rows] = column.to_numpy(zero_copy_only=False)
        if wrong:
            for name in _NUMBERS:
                numbers[name][rows[list(wrong)]] = NONE
        pieces.append((rows, found.field("transaction_partitions")))
    _refuse(numbers, ~is_tombstone, errors)
    partitions = scattered(count, PARTITIONS, pieces)
    return Values(
        is_tombstone, errors, versions, numbers, _partition_counts(partitions), partitions
    )


def _refuse(numbers: dict[str, Positions], is_value: Flags, errors: dict[int, str]) -> None:
    """Note what no record of Kafka has."""
    read = is_value.copy()
    read[list(errors)] = False
    status = numbers["status"]
    for row in np.flatnonzero(read & ((status < 0) | (status >= len(STATES)))).tolist():
        errors[row] = f"unknown status {status[row]}, known are 0 to {len(STATES) - 1}"
    for name in ("started_ms", "updated_ms"):
        times = numbers[name]
        for row in np.flatnonzero(read & ((times < NONE) | (times > LAST_MS))).tolist():
            errors[row] = f"{times[row]} ms since 1970 is no time of a record"


def _partition_counts(partitions: pa.ListArray) -> Positions:
    """Return how many partitions each row has, of all its topics."""
    bounds = partitions.offsets.to_numpy().astype(np.int64)
    of_topics = partitions.values.field("partition_ids").offsets.to_numpy().astype(np.int64)
    counts: Positions = of_topics[bounds[1:]] - of_topics[bounds[:-1]]
    return counts


def decode_records(
    keys: Sequence[bytes | None] | pa.BinaryArray, values: Sequence[bytes | None] | pa.BinaryArray
) -> pa.RecordBatch:
    """Return one row a record, in their order; schema: `RECORDS`. Bytes never raise.

    A record that cannot be read has `error`, and its raw `key` and `value`.
    """
    raw_keys, raw_values = (
        each if isinstance(each, pa.Array) else pa.array(each, BYTES) for each in (keys, values)
    )
    ids, of_keys = read_ids(raw_keys)
    found = read_values(raw_values)
    rows = RowBuilder(RECORDS)
    every = np.arange(len(raw_keys))
    rows.errors |= found.errors | of_keys
    rows.put("transactional_id", every, pa.array(map(shortened, ids), pa.string()))
    rows.put("is_tombstone", every, pa.array(found.is_tombstone))
    versioned = every[found.versions != NONE]
    rows.put("version", versioned, pa.array(found.versions[versioned]))
    failed = pa.array(rows.failed)
    rows.put("key", rows.failed, raw_keys.take(failed))
    rows.put("value", rows.failed, raw_values.take(failed))
    return rows.made(len(raw_keys))


def is_prepared_late(values: pa.BinaryArray) -> Flags:
    """Return which values prepare the abort of a transaction that lasted longer than its time-out:
    only those that prepare aborts are decoded.
    """
    found: Flags = np.zeros(len(values), dtype=np.bool_)
    status = pc.binary_slice(values, _STATUS_AT, _STATUS_AT + 1)
    at = np.flatnonzero(
        pc.equal(status, bytes([PREPARE_ABORT])).fill_null(False).to_numpy(zero_copy_only=False)
    )
    numbers = read_values(values.take(pa.array(at))).numbers
    started, updated = numbers["started_ms"], numbers["updated_ms"]
    found[at] = (started >= 0) & (updated - started > numbers["timeout_ms"])
    return found


_STATUS_AT = 16
"""Where the status is in values of versions 0 and 1: fields of a fixed size are before it."""
