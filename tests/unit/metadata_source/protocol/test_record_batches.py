"""Record batches: what was written is read, a batch that is cut off waits, and whatever is wrong is
one error.
"""

import dataclasses
import random
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record._crc32c import crc as plain_crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from metadata_source.errors import ProtocolError
from metadata_source.protocol import record_batches
from metadata_source.protocol.record_batches import HEADER, RecordBatches, read_batches
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.record_batches import (
    CODECS,
    Batch,
    Record,
    batch_bytes,
    compressed,
    record_bytes,
    varint,
)

quickly = settings(
    max_examples=examples(40), database=None, suppress_health_check=[HealthCheck.too_slow]
)

deltas = st.sampled_from([0, 1, 63, 64, 8191, 8192]) | st.integers(0, 2**31 - 1)
times = st.sampled_from([0, -1, 64]) | st.integers(-(2**62), 2**62)
texts = st.none() | st.binary(max_size=5) | st.sampled_from([b"x" * 64, b"y" * 10_000])
headers = st.lists(
    st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=2
).map(tuple)
records = st.builds(Record, deltas, times, texts, texts, headers)
batches = st.builds(
    Batch,
    base_offset=st.integers(0, 2**62),
    records=st.lists(records, max_size=5),
    leader_epoch=st.integers(0, 2**31 - 1),
    base_timestamp=st.just(1_700_000_000_000),
    max_timestamp=st.integers(-1, 2**62),
    codec=st.sampled_from(CODECS),
    log_append_time=st.booleans(),
    control=st.booleans(),
    producer_id=st.integers(-1, 2**62),
    transactional=st.booleans(),
)

SOME = Batch(
    base_offset=7, records=[Record(0, 0, b"k", b"v"), Record(1, 3, None, b"w" * 70), Record(5, 4)]
)


def read(data: bytes) -> list[dict[str, Any]]:
    found = read_batches(data).records
    found.validate(full=True)
    return found.to_pylist()


@quickly
@given(st.lists(batches, max_size=5))
def test_what_is_written_is_read(written: list[Batch]) -> None:
    data = [batch_bytes(each) for each in written]
    found = read_batches(b"".join(data))
    found.batches.validate(full=True)
    assert found.records.to_pylist() == [row for each in written for row in each.rows()]
    assert found.size == sum(map(len, data))
    assert found.batches.to_pylist() == [
        {
            "position": sum(map(len, data[:index])),
            "base_offset": each.base_offset,
            "last_offset": each.base_offset + each.last_delta(),
            "leader_epoch": each.leader_epoch,
            "record_count": len(each.records),
            "producer_id": each.producer_id,
            "is_transactional": each.transactional,
        }
        for index, each in enumerate(written)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_what_kafka_python_writes_is_read(codec: str) -> None:
    builder = DefaultRecordBatchBuilder(2, CODECS.index(codec), False, -1, -1, -1, 1 << 20)
    written = [
        (offset, 1_700_000_000_000 + offset, b"k" * (offset % 3) or None, b"v" * offset)
        for offset in range(90)
    ]
    for offset, timestamp, key, value in written:
        builder.append(offset, timestamp, key, value, [("name", b"value")] * (offset % 2))
    rows = read(bytes(builder.build()))
    assert [
        (row["offset"], row["timestamp_ms"], row["key"], row["value"]) for row in rows
    ] == written


def test_snappy_without_the_frame_of_java_is_read() -> None:
    content = b"".join(map(record_bytes, SOME.records))
    snappy = dataclasses.replace(SOME, codec="snappy")
    plain = dataclasses.replace(SOME, written={"attributes": CODECS.index("snappy")})
    assert read(batch_bytes(plain, pa.compress(content, "snappy", asbytes=True))) == SOME.rows()
    assert read(batch_bytes(snappy)) == SOME.rows()


def test_a_batch_that_is_cut_off_is_left_for_later() -> None:
    first, second = (
        batch_bytes(SOME),
        batch_bytes(dataclasses.replace(SOME, base_offset=100, codec="lz4")),
    )
    data = first + second
    for size in range(len(data)):
        found = read_batches(data[:size])
        assert found.size == (0 if size < len(first) else len(first))
        assert found.records.num_rows == (0 if size < len(first) else len(SOME.records))
        assert found.batches.num_rows == (size >= len(first))
    assert read_batches(data).size == len(data)


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"magic": 1}, "magic"),
        ({"length": 48}, "length"),
        ({"length": -1}, "length"),
        ({"length": 2**31 - 1}, "length"),
    ],
)
def test_a_batch_that_is_cut_off_has_the_magic_and_a_length_that_can_be(
    changed: dict[str, int], path: str
) -> None:
    good, wrong = batch_bytes(SOME), batch_bytes(dataclasses.replace(SOME, written=changed))
    for size in (17, len(wrong) - 1, len(wrong)):
        for before in (b"", good):
            with pytest.raises(
                ProtocolError, match=rf"^RecordBatch v2: {path} at byte {len(before)}: "
            ):
                read_batches(before + wrong[:size])
    assert read_batches(wrong[:16]).size == 0


def test_a_caller_who_passes_more_bytes_gets_batches_or_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = batch_bytes(SOME)
    for most in range(len(data), 3 * len(data)):
        monkeypatch.setattr(record_batches, "MOST_BYTES", most)
        assert read_batches(data * 4).size == most // len(data) * len(data)
    monkeypatch.setattr(record_batches, "MOST_BYTES", len(data) - 1)
    for size in (17, len(data)):
        with pytest.raises(
            ProtocolError,
            match=rf"length at byte 0: {len(data)} bytes, {len(data) - 1} is the most$",
        ):
            read_batches(data[:size])


CONTENT = b"".join(map(record_bytes, SOME.records))


@pytest.mark.parametrize(
    ("changed", "content", "path"),
    [
        ({"magic": 1}, None, "magic"),
        ({"length": 48}, None, "length"),
        ({"length": -1}, None, "length"),
        ({"crc": 5}, None, "crc"),
        ({"attributes": 5}, None, "attributes"),
        ({"attributes": 1}, None, "records"),
        ({"attributes": 2}, None, "records"),
        ({"attributes": 2}, b"", "count"),
        ({"attributes": 2}, b"\xff\xff\xff\xff\x0f" + b"x" * 100, "records"),
        ({"attributes": 3}, None, "records"),
        ({"attributes": 4}, compressed(CONTENT, "zstd")[:-4], "records"),
        ({"attributes": 4}, compressed(CONTENT, "zstd") + b"more", "records"),
        ({"count": 2}, None, "count"),
        ({"count": -1}, None, "count"),
        ({"count": 2**31 - 1}, None, "count"),
        ({}, CONTENT + b"\0", "count"),
        ({}, CONTENT[:-1], "count"),
        ({}, CONTENT + varint(3) + b"\0\0", "count"),
        ({"last_offset_delta": 4}, None, "records"),
        ({"count": 1}, bytes(6), "count"),
        ({"count": 0}, b"\0", "count"),
        ({"count": 1}, varint(-4) + b"\0\0\0\1\1\0", "count"),
        ({"count": 1}, varint(6) + b"\0\0\0\1\1\1", "records"),
        ({"count": 1}, varint(6) + b"\0\0\0\3\1\0", "records"),
        ({"count": 1}, varint(7) + b"\0\0\0\1\1\0\0", "records"),
        ({"count": 1}, varint(20) + b"\0\0\0\1\1\0", "records"),
        ({"count": 1}, varint(-13) + b"\0\0\0\1\1\0", "records"),
        ({"count": 2}, varint(5) + b"\0\0\0\1\1" + varint(7) + b"\0\0\0\1\2x\0", "records"),
        ({"count": 1}, varint(6) + b"\0\0\1\1\1\0", "records"),
        ({"count": 1}, varint(7) + b"\0\x80\0\0\1\1\0", "records"),
        ({"count": 1}, varint(12) + b"\0\0\0" + varint(2**30) + b"\1\0\0\0", "records"),
        ({"count": 1}, b"\x8c\x80\x80\x80\x80\x00" + b"\0\0\0\1\1\0", "count"),
        ({"count": 1}, b"\x8c\0" + b"\0\0\0\1\1\0", "records"),
    ],
)
def test_the_error_says_where_and_what(
    changed: dict[str, int], content: bytes | None, path: str
) -> None:
    good = batch_bytes(SOME)
    wrong = batch_bytes(dataclasses.replace(SOME, written=changed), content)
    with pytest.raises(
        ProtocolError, match=rf"^RecordBatch v2: {path} at byte {len(good)}: "
    ) as error:
        read_batches(good + wrong + good)
    assert "\n" not in str(error.value)
    assert read(good + good) == SOME.rows() * 2


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (b"\x8c\0\0\0\0\1\1\0", "a malformed length"),
        (b"\x0e\0\0\0\1\1\0", "a length that does not end where its record does"),
        (b"\x0e\0\x80\0\0\1\1\0", "a malformed timestamp"),
        (b"\x0e\0\0\x80\0\1\1\0", "a malformed offset"),
        (b"\x0c\0\0\1\1\1\0", "an offset that is not within the batch"),
        (b"\x0c\0\0\2\1\1\0", "an offset that is not within the batch"),
        (b"\x0e\0\0\0\x81\0\1\0", "a malformed length of a key"),
        (b"\x0c\0\0\0\3\1\0", "a length of a key that its record does not have"),
        (b"\x0c\0\0\0\x08\1\0", "a length of a key that its record does not have"),
        (b"\x0c\0\0\0\1\x08\0", "a length of a value that its record does not have"),
        (b"\x0c\0\0\0\1\1\x80", "a malformed count of headers"),
        (b"\x0c\0\0\0\1\1\1", "a count of headers that its record does not have"),
        (b"\x0e\0\0\0\1\1\0\0", "a count of headers that its record does not have"),
    ],
)
def test_the_error_names_the_field_of_a_record(record: bytes, problem: str) -> None:
    data = batch_bytes(Batch(written={"count": 1}), record)
    with pytest.raises(ProtocolError, match=rf"^RecordBatch v2: records at byte 0: {problem}$"):
        read_batches(data)


@pytest.mark.parametrize("codec", CODECS)
def test_every_changed_bit_is_found_out(codec: str) -> None:
    data = batch_bytes(dataclasses.replace(SOME, codec=codec))
    for bit in range(21 * 8, len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(
            ProtocolError, match=r"RecordBatch v2: crc at byte 0: not that of the bytes"
        ):
            read_batches(bytes(changed))


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Change what the CRC is of, and let it and the length be right."""
    out = bytearray(data[21:])
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        put = rng.choice(
            (
                b"",
                b"\0",
                rng.randbytes(1),
                rng.randbytes(4),
                b"\xff\xff\xff\x7f",
                b"\xff\xff\xff\xff\x0f",
            )
        )
        out[at : at + rng.choice((0, 1, 1, 4))] = put
    checked = bytes(out).ljust(40, b"\0")
    return (
        data[:8]
        + (len(checked) + 9).to_bytes(4)
        + data[12:17]
        + plain_crc32c(checked).to_bytes(4)
        + checked
    )


def outcome(data: bytes) -> tuple[ProtocolError | None, RecordBatches | None]:
    try:
        found = read_batches(data)
    except ProtocolError as error:
        return error, None
    found.records.validate(full=True)
    return None, found


@pytest.mark.timeout(60)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(examples(1)))
def test_other_bytes_are_records_or_an_error(codec: str, seed: int) -> None:
    rng = random.Random(seed)
    written = [Record(at, at % 5, b"k" * (at % 3) or None, rng.randbytes(at)) for at in range(40)]
    data = batch_bytes(Batch(records=written, codec=codec))
    wrong = 0
    for _ in range(400):
        changed = mutated(rng, data)
        error, found = outcome(changed)
        wrong += error is not None
        assert error is None or (error.offset == 0 and "\n" not in str(error))
        assert found is None or found.size == len(changed)
    assert 0 < wrong < 400


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_is_too_large_when_decompressed_is_left_or_an_error(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Batch(records=[Record(0, value=bytes(1 << 20))], codec=codec)
    data, plain = batch_bytes(large), batch_bytes(SOME)
    assert len(data) < 1 << 18
    monkeypatch.setattr(record_batches, "MOST_DECOMPRESSED", 2 * (1 << 20))
    found = read_batches(plain + data * 2 + plain)
    assert (found.size, found.batches.num_rows) == (len(plain + data), 2)
    assert found.records.to_pylist() == SOME.rows() + large.rows()
    most = len(b"".join(map(record_bytes, large.records)))
    monkeypatch.setattr(record_batches, "MOST_DECOMPRESSED", most)
    assert read_batches(plain + data).size == len(plain + data), "what is plain does not count"
    monkeypatch.setattr(record_batches, "MOST_DECOMPRESSED", 1 << 20)
    assert read_batches(plain + data).size == len(plain)
    with pytest.raises(
        ProtocolError, match=rf"records at byte 0: more than {1 << 20} bytes when decompressed$"
    ):
        read_batches(data + plain)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_without_records_may_have_no_bytes_of_them(codec: str) -> None:
    assert (
        read(
            batch_bytes(Batch(written={"attributes": CODECS.index(codec)}), b"") + batch_bytes(SOME)
        )
        == SOME.rows()
    )


@for_each("count", [-1, 0, 1, 1 << 15, 1 << 18, 2**31 - 1])
@for_each("codec", ["none", "zstd"])
@for_each("filling", [b"\0", b"\x80", b"\xff\xff\xff\xff\x07"])
def test_sizes_that_the_bytes_do_not_have_take_no_memory(
    filling: bytes, codec: str, count: int
) -> None:
    content = filling * ((1 << 18) // len(filling))
    data = batch_bytes(Batch(written={"count": count}, codec=codec), content)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            read_batches(data)
        # The content, the pieces of which it is joined, and what the CRC takes.
        assert tracemalloc.get_traced_memory()[1] < 5 * len(data) + 4 * len(content)
    finally:
        tracemalloc.stop()


def test_a_call_reads_a_bounded_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    data = batch_bytes(SOME)
    monkeypatch.setattr(record_batches, "MOST_RECORDS", 2 * len(SOME.records) + 1)
    found = read_batches(data * 3)
    assert (found.size, found.batches.num_rows, found.records.num_rows) == (
        2 * len(data),
        2,
        2 * len(SOME.records),
    )
    assert read_batches((data * 3)[found.size :]).size == len(data)
    monkeypatch.setattr(record_batches, "MOST_RECORDS", len(SOME.records) - 1)
    with pytest.raises(
        ProtocolError, match=r"^RecordBatch v2: count at byte 0: negative, or more than 2$"
    ):
        read_batches(data)


def test_arrow_can_point_at_all_that_one_call_reads() -> None:
    assert record_batches.MOST_BYTES + record_batches.MOST_DECOMPRESSED < 2**31


def test_the_header_is_as_long_as_kafkas() -> None:
    assert HEADER.itemsize == 61  # DefaultRecordBatch.RECORD_BATCH_OVERHEAD
