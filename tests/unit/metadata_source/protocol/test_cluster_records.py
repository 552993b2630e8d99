"""Records of the controllers: what goes in comes out, what is wrong is one row that says where, and
no secret does.
"""

import random
import re
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from metadata_source.columns.cluster_log import RECORDS
from metadata_source.protocol import record_batches
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import (
    CONTROL_TYPES,
    COUNTED,
    RECORD_TYPES,
    WITHOUT_FIELDS,
)
from metadata_source.protocol.columnar import FEWEST
from metadata_source.protocol.kept_configs import KEPT_CONFIGS
from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct
from metadata_source.protocol.writing import write_message
from tests.support import cluster_records
from tests.support.cluster_records import (
    COLUMNS,
    SECRET,
    control_key,
    control_value,
    decoded,
    expected,
    expected_control,
    frame,
    kept,
    log,
    values_of,
)
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.mutations import mutated, mutations
from tests.support.record_batches import unsigned_varint

NAMES = COUNTED | WITHOUT_FIELDS

quickly = settings(
    max_examples=examples(4),
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
every_record = for_each(("number", "version"), cluster_records.RECORDS)
every_control = for_each(("number", "version"), cluster_records.CONTROLS)

FENCE = frame(7, 0, {"id": 3, "epoch": 9})
FENCED = expected(7, 0, {"id": 3, "epoch": 9})


@every_record
def test_a_record_is_decoded_to_what_was_written(number: int, version: int) -> None:
    @quickly
    @given(values_of(RECORD_TYPES[number], version))
    def check(values: dict[str, Any]) -> None:
        # One is read by the exact reader, many are read side by side.
        for count in (1, FEWEST):
            assert (
                decoded([frame(number, version, values)] * count)
                == [expected(number, version, values)] * count
            )

    check()


@every_control
def test_a_control_record_is_decoded_to_what_was_written(number: int, version: int) -> None:
    @quickly
    @given(values_of(CONTROL_TYPES[number], version))
    def check(values: dict[str, Any]) -> None:
        data = [control_value(number, version, values)]
        for count in (1, FEWEST):
            rows = decoded(data * count, [control_key(number)] * count)
            assert rows == [expected_control(number, version, values)] * count

    check()


def test_a_row_has_the_place_and_the_time_of_its_record() -> None:
    records = log([FENCE, None])
    batch = decode_records(records)
    assert batch.schema.equals(RECORDS)
    for name in ("offset", "leader_epoch", "timestamp_ms", "is_control"):
        assert batch[name].equals(records[name])
    assert decode_records(records.slice(0, 0)).num_rows == 0
    assert decode_records(records.slice(1)).to_pylist() == batch.slice(1).to_pylist()


def test_records_of_quorum_and_controllers_are_decoded_together() -> None:
    leader = {"version": 0, "leader_id": 3, "voters": [], "granting_voters": []}
    records = pa.RecordBatch.from_pylist(
        [
            {
                "is_control": is_control,
                "key": key,
                "value": value,
                "offset": 0,
                "leader_epoch": 1,
                "timestamp_ms": 2,
            }
            for is_control, key, value in (
                (False, None, FENCE),
                (True, control_key(2), control_value(2, 0, leader)),
                (False, None, FENCE),
                (True, control_key(2), b""),
            )
        ],
        schema=record_batches.RECORDS,
    )
    rows = decode_records(records).to_pylist()
    assert [row["name"] for row in rows] == [
        "FenceBrokerRecord",
        "LeaderChangeMessage",
        "FenceBrokerRecord",
        None,
    ]
    assert [row["leader_change"] and row["leader_change"]["leader"] for row in rows] == [
        None,
        3,
        None,
        None,
    ]


# --- what is wrong ---


def fails(row: dict[str, Any], value: bytes | None, error: str = ".*") -> None:
    """Check that a row says what is wrong, and holds nothing of its record but type, version, name
    and size.
    """
    assert re.fullmatch(error, row["error"])
    assert row.get("size") == (None if value is None else len(value))
    assert not COLUMNS & set(row)


@pytest.mark.parametrize(
    ("value", "told", "error"),
    [
        (None, (), "no frame of version 1 with a type and a version"),
        (b"", (), "no frame of version 1 with a type and a version"),
        (b"\1\7", (), "no frame of version 1 with a type and a version"),
        (b"\0\7\0", (), "no frame of version 1 with a type and a version"),
        (b"\2\7\0", (), "no frame of version 1 with a type and a version"),
        (b"\1\x87\0\0", (), "no frame of version 1 with a type and a version"),
        (b"\1\x80\x80\2\0", (), "no frame of version 1 with a type and a version"),
        (b"\1\6\0payload", (6, 0), "unknown record type 6"),
        (b"\1\xff\xff\1\5payload", (32767, 5), "unknown record type 32767"),
        (b"\1\7\1" + FENCE[3:], (7, 1, "FenceBrokerRecord"), "unknown version 1, known are 0 to 0"),
        (
            b"\1\7\xff\xff\1",
            (7, 32767, "FenceBrokerRecord"),
            "unknown version 32767, known are 0 to 0",
        ),
        (
            FENCE[:-1],
            (7, 0, "FenceBrokerRecord"),
            "tagged_fields at byte 15 is not what it should be",
        ),
        (
            FENCE + b"\0",
            (7, 0, "FenceBrokerRecord"),
            "end of message at byte 16 is not what it should be",
        ),
        (b"\1\2\0\3\xff\xff", (2, 0, "TopicRecord"), "name at byte 4 is not what it should be"),
    ],
)
def test_the_error_says_where(value: bytes | None, told: tuple[Any, ...], error: str) -> None:
    for count in (1, FEWEST):
        first, *rows, last = decoded([FENCE, *[value] * count, FENCE])
        assert first == last == FENCED
        for row in rows:
            fails(row, value, error)
            assert tuple(row[name] for name in ("type", "version", "name") if name in row) == told


@pytest.mark.parametrize(
    ("key", "value", "told", "error"),
    [
        (None, b"\0\0", (), "a control record without a type or a version"),
        (b"\0\0\0", b"\0\0", (), "a control record without a type or a version"),
        (b"\xff\xff\0\2", b"\0\0", (), "a control record without a type or a version"),
        (control_key(4), None, (), "a control record without a type or a version"),
        (control_key(4), b"\0", (), "a control record without a type or a version"),
        (control_key(0), b"\0\0\0\0\0\1", (0, 0), "unknown record type 0"),
        (control_key(-1), b"\0\0", (-1, 0), "unknown record type -1"),
        (
            control_key(4),
            b"\0\1\0",
            (4, 1, "SnapshotFooterRecord"),
            "unknown version 1, known are 0 to 0",
        ),
        (
            control_key(4),
            b"\xff\xff\0",
            (4, -1, "SnapshotFooterRecord"),
            "unknown version -1, known are 0 to 0",
        ),
        (
            control_key(4),
            b"\0\0",
            (4, 0, "SnapshotFooterRecord"),
            "tagged_fields at byte 2 is not what it should be",
        ),
    ],
)
def test_the_error_of_a_control_record_says_where(
    key: bytes | None, value: bytes | None, told: tuple[Any, ...], error: str
) -> None:
    (row,) = decoded([value], [key])
    fails(row, value, error)
    assert tuple(row[name] for name in ("type", "version", "name") if name in row) == told


def test_a_control_records_key_of_a_later_version_is_read_as_known() -> None:
    (row,) = decoded([b"\0\0\0"], [b"\0\1\0\4more"])
    assert row == {"type": 4, "version": 0, "name": "SnapshotFooterRecord", "size": 3}


@every_record
def test_no_part_of_a_record_is_a_record(number: int, version: int) -> None:
    @settings(quickly, max_examples=examples(2))
    @given(values_of(RECORD_TYPES[number], version))
    def check(values: dict[str, Any]) -> None:
        value = frame(number, version, values)
        parts = [value[:size] for size in range(len(value))] + [value + b"\0"]
        for part, row in zip(parts, decoded(parts), strict=True):
            fails(row, part)

    check()


@every_record
def test_changed_bytes_lose_their_own_record_only(number: int, version: int) -> None:
    @settings(quickly, max_examples=examples(3))
    @given(values_of(RECORD_TYPES[number], version), mutations)
    def check(values: dict[str, Any], changes: Any) -> None:
        value = mutated(frame(number, version, values), changes)
        first, row, last = decoded([FENCE, value, FENCE])
        assert first == last == FENCED
        if "error" in row:
            fails(row, value)
        many = decoded([FENCE, value] * FEWEST)
        assert many == [FENCED, row] * FEWEST

    check()


@every_control
def test_changed_bytes_of_control_records_are_a_row(number: int, version: int) -> None:
    @settings(quickly, max_examples=examples(3))
    @given(values_of(CONTROL_TYPES[number], version), mutations, mutations)
    def check(values: dict[str, Any], of_key: Any, of_value: Any) -> None:
        whole = control_value(number, version, values)
        changed = mutated(whole, of_value)
        for key, value in (
            (mutated(control_key(number), of_key), whole),
            (control_key(number), changed),
        ):
            (row,) = decoded([value], [key])
            if "error" in row:
                fails(row, value)

    check()


@for_each("number", [0, 3, 5, 27])
@for_each("count", [1, FEWEST])
def test_lengths_that_the_bytes_do_not_have_take_no_memory(number: int, count: int) -> None:
    head = bytes([1, number, RECORD_TYPES[number].last_version])
    for filling in (b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\1", b"\2", b"\0", b"\x81\x08"):
        value = head + filling * (20_000 // len(filling))
        records = log([value] * count)
        tracemalloc.start()
        try:
            rows = decode_records(records)
            assert tracemalloc.get_traced_memory()[1] < count * (200 * len(value) + 1_000_000)
        finally:
            tracemalloc.stop()
        assert rows["error"].null_count == 0


@pytest.mark.timeout(60)
def test_types_and_versions_without_end_take_no_time() -> None:
    types = [bytes([1]) + unsigned_varint(number) + b"\0" for number in range(29, 20_000)]
    versions = [bytes([1, 7]) + unsigned_varint(number) for number in range(1, 20_000)]
    rows = decode_records(log(types + versions))
    assert rows["error"].null_count == 0
    keys = [control_key(number) for number in range(7, 20_000)]
    assert decode_records(log([b"\0\0"] * len(keys), keys))["error"].null_count == 0


# --- what is not kept ---


def secret_message(number: int, name: str) -> Message:
    """A record of one string, in the place of its fields: nothing here may look what they are."""
    return Message(
        name,
        number,
        0,
        0,
        Struct((Field("secret", Primitive.STRING), Field("more", Array(Primitive.STRING)))),
    )


@for_each("number", sorted(NAMES))
@for_each("count", [1, FEWEST])
def test_of_records_without_fields_the_name_is_kept(number: int, count: int) -> None:
    body = write_message(
        secret_message(number, NAMES[number]), 0, {"secret": SECRET, "more": [SECRET, SECRET]}
    )
    for version in (0, 1, 77):
        value = bytes([1, number, version]) + body
        row = {"type": number, "version": version, "name": NAMES[number], "size": len(value)}
        assert decoded([value] * count) == [row] * count
        assert SECRET.encode() not in kept(decode_records(log([value] * count)))


def secret_values(rng: random.Random) -> list[bytes]:
    """Records that hold the secret where it may not be kept, whole, cut off and changed."""
    configs = [
        {"resource_type": kind, "resource_name": "r", "name": name, "value": SECRET}
        for kind in (0, 2, 4, 8, 16, 32, 127, -1)
        for name in (
            "ssl.key.password",
            "sasl.jaas.config",
            "listener.name.x.ssl.keystore.key",
            "Retention.ms",
            "",
        )
    ]
    configs.append(
        {"resource_type": 4, "resource_name": "r", "name": "retention.ms", "value": SECRET}
    )
    values = [frame(4, 0, config) for config in configs]
    values += [
        bytes([1, number, 0, len(SECRET) + 1]) + SECRET.encode() for number in (*NAMES, 6, 29, 99)
    ]
    values += [bytes([1, number, 9]) + SECRET.encode() for number in RECORD_TYPES]
    cut = [value[: len(value) - at] for value in values for at in (1, 2, 9)]
    longer = [value + SECRET.encode() for value in values]
    wrong = [value.replace(SECRET.encode(), SECRET.encode() + b"\xff") for value in values]
    moved = [value[:3] + b"\x7f" + value[4:] for value in values if value[1] == 4]
    values += cut + longer + wrong + moved
    rng.shuffle(values)
    return values


def test_no_secret_is_kept() -> None:
    values = secret_values(random.Random(1))
    for records in (
        log(values * FEWEST),
        *(log([value]) for value in values),
        log(values, [SECRET.encode()] * len(values)),
    ):
        everything = kept(decode_records(records))
        for at in range(len(SECRET) - 5):
            part = SECRET[at : at + 6].encode()
            assert part not in everything
            # As errors of the exact reader show bytes.
            assert part.hex(" ").encode() not in everything


@for_each(
    ("kind", "name"), [(kind, name) for kind, names in KEPT_CONFIGS.items() for name in names]
)
def test_settings_on_the_list_are_kept(kind: int, name: str) -> None:
    config = {"resource_type": kind, "resource_name": "r", "name": name, "value": "17"}
    other = config | {"resource_type": 8}
    values = [frame(4, 0, each) for each in (config, config | {"value": None}, other)]
    told = [
        config | {"is_removed": False},
        config | {"is_removed": True},
        other | {"is_removed": False},
    ]
    del told[1]["value"], told[2]["value"]
    for count in (1, FEWEST):
        assert [row["config"] for row in decoded(values * count)] == told * count


def test_no_name_of_a_setting_that_is_kept_is_one_of_a_secret() -> None:
    # `tests/java/test_cluster_records.py` asks Kafka which there are, and whether one is sensitive.
    words = {word for names in KEPT_CONFIGS.values() for name in names for word in name.split(".")}
    secret = {"password", "passphrase", "jaas", "secret", "token", "credentials", "key", "chain"}
    assert not words & (secret | {"keystore", "truststore", "url", "class", "listeners"})
