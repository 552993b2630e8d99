"""Many bodies read side by side say what each of them says alone: a table of bodies of one message
that has every kind of field.
"""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.errors import ProtocolError
from metadata_source.protocol.columnar import FEWEST, read_batch, scattered
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct
from tests.support.for_each import for_each
from tests.support.mutations import mutated, mutations

INNER = Struct((Field("number", Primitive.INT32), Field("name", Primitive.STRING)))
MESSAGE = Message(
    "Thing",
    -1,
    1,
    1,
    Struct(
        (
            Field("flag", Primitive.BOOL),
            Field("small", Primitive.INT16),
            Field("id", Primitive.UUID),
            Field("text", Primitive.STRING, nullable=0),
            Field("data", Primitive.BYTES),
            Field("numbers", Array(Primitive.INT32), nullable=0),
            Field("names", Array(Primitive.STRING)),
            Field("things", Array(INNER)),
            Field("maybe", INNER, nullable=0),
            Field("later", Primitive.INT64, since=1),
            Field("tagged", Primitive.INT32, since=1, tag=3, default=-7),
        )
    ),
)
"""Version 0 is not flexible, version 1 is."""

ID = bytes(range(16))
USUAL: dict[str, bytes] = {
    "flag": b"\1",
    "small": b"\xff\xfe",
    "id": ID,
    "text": b"\3ab",
    "data": b"\2x",
    "numbers": b"\3\0\0\0\1\xff\xff\xff\xff",
    "names": b"\3\2a\1",
    "things": b"\2\0\0\0\5\2n\0",
    "maybe": b"\1\0\0\0\x09\1\0",
    "later": bytes(7) + b"\x08",
    "tags": b"\0",
}
SAID: dict[str, Any] = {
    "flag": True,
    "small": -2,
    "id": ID,
    "text": "ab",
    "data": b"x",
    "numbers": [1, -1],
    "names": ["a", ""],
    "things": [{"number": 5, "name": "n"}],
    "maybe": {"number": 9, "name": ""},
    "later": 8,
    "tagged": -7,
}


def body(**changed: bytes) -> bytes:
    return b"".join((USUAL | changed).values())


def read(bodies: list[bytes], version: int = 1, **more: Any) -> tuple[list[Any], dict[int, Any]]:
    found, errors = read_batch(pa.array(bodies, pa.binary()), MESSAGE, version, **more)
    found.validate(full=True)
    return found.to_pylist(), errors


@for_each("count", [1, FEWEST])
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, {}),
        ({"flag": b"\0"}, {"flag": False}),
        ({"flag": b"\x80"}, {"flag": True}),
        ({"text": b"\0"}, {"text": None}),
        ({"text": b"\1"}, {"text": ""}),
        ({"text": b"\3\xc3\xa9"}, {"text": "é"}),
        ({"data": b"\1"}, {"data": b""}),
        ({"numbers": b"\0"}, {"numbers": None}),
        ({"numbers": b"\1"}, {"numbers": []}),
        ({"names": b"\1"}, {"names": []}),
        ({"things": b"\1"}, {"things": []}),
        (
            {"things": b"\3\0\0\0\5\2n\0\0\0\0\6\1\0"},
            {"things": [{"number": 5, "name": "n"}, {"number": 6, "name": ""}]},
        ),
        ({"maybe": b"\xff"}, {"maybe": None}),
        ({"tags": b"\1\3\4\0\0\0\x2a"}, {"tagged": 42}),
        # Fields that only later versions know are passed over.
        ({"tags": b"\2\2\1z\3\4\0\0\0\x2a"}, {"tagged": 42}),
        ({"tags": b"\1\x09\2zz"}, {}),
        # The last one counts of a field that is there twice.
        ({"tags": b"\2\3\4\0\0\0\1\3\4\0\0\0\x2a"}, {"tagged": 42}),
        ({"things": b"\2\0\0\0\5\2n\1\0\1z"}, {}),
        # A varint of two bytes; one of four is read alone.
        ({"text": b"\xc9\1" + b"x" * 200}, {"text": "x" * 200}),
    ],
)
def test_what_a_body_says(changed: dict[str, bytes], said: dict[str, Any], count: int) -> None:
    one = body(**changed)
    # Beside usual ones too.
    values, errors = read([one, *[body()] * (count - 1), one])
    assert values == [SAID | said, *[SAID] * (count - 1), SAID | said]
    assert errors == {}
    assert read([one] * count) == ([SAID | said] * count, {})


@for_each("count", [1, FEWEST])
@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"text": b"\x0a"}, "text"),
        ({"text": b"\3\xc3\x28"}, "text"),
        ({"text": b"\x80\0"}, "text"),
        ({"data": b"\0"}, "data"),
        ({"data": b"\xff\x7f"}, "data"),
        ({"numbers": b"\xff\xff\3"}, "numbers"),
        ({"names": b"\0"}, "names"),
        ({"names": b"\3\2a\0"}, "names"),
        ({"things": b"\xf0\1"}, "things"),
        ({"maybe": b"\1\0\0\0\x09\0\0"}, "maybe.name"),
        ({"later": bytes(3), "tags": b""}, "later"),
        ({"tags": b""}, "tagged_fields"),
        ({"tags": b"\0\0"}, "end of message"),
        ({"tags": b"\1\3\5\0\0\0\x2a\0"}, "tagged"),
        ({"tags": b"\1\3\3\0\0\0"}, "tagged"),
        ({"tags": b"\1\3\x14\0\0\0\x2a"}, "tagged_fields"),
        ({"tags": b"\xff\x7f"}, "tagged_fields"),
    ],
)
def test_a_body_that_is_wrong_costs_no_other(
    changed: dict[str, bytes], path: str, count: int
) -> None:
    wrong = body(**changed)
    values, errors = read([body(), *[wrong] * count, body()])
    assert values == [SAID, *[None] * count, SAID]
    assert {*errors} == {*range(1, count + 1)}
    with pytest.raises(ProtocolError) as alone:
        read_values(wrong, MESSAGE, 1)
    assert {str(error) for error in errors.values()} == {str(alone.value)}
    assert path in alone.value.path


@pytest.mark.parametrize("count", [1, FEWEST])
def test_before_flexible_versions_lengths_are_numbers(count: int) -> None:
    old = b"".join(
        {
            **{name: USUAL[name] for name in ("flag", "small", "id")},
            "text": b"\0\2ab",
            "data": b"\0\0\0\1x",
            "numbers": b"\xff\xff\xff\xff",
            "names": b"\0\0\0\1\0\1a",
            "things": b"\0\0\0\1\0\0\0\5\0\1n",
            "maybe": b"\xff",
        }.values()
    )
    said = SAID | {"numbers": None, "names": ["a"], "maybe": None, "later": None, "tagged": None}
    values, errors = read([old] * count, 0)
    assert errors == {}
    assert [{**value, "tagged": None} for value in values] == [said] * count
    for wrong in (old.replace(b"\0\2ab", b"\xff\xfeab"), old[:-1], old + b"\0"):
        values, errors = read([old, *[wrong] * count], 0)
        assert len(errors) == count
        assert values[1:] == [None] * count


@pytest.mark.parametrize("count", [1, FEWEST])
def test_a_body_may_begin_later_and_go_on(count: int) -> None:
    for bodies, more in (
        ([b"\0\1" + body()] * count, {"start": 2}),
        ([body() + b"more"] * count, {"may_go_on": True}),
    ):
        assert read(bodies, **more) == ([SAID] * count, {})
        assert len(read(bodies)[1]) == count


def test_bodies_of_a_slice_are_those_of_the_slice() -> None:
    bodies = pa.array([body(flag=b"\0"), *[body()] * FEWEST, b"?"], pa.binary())
    found, errors = read_batch(bodies.slice(1, FEWEST), MESSAGE, 1)
    assert (found.to_pylist(), errors) == ([SAID] * FEWEST, {})


def test_values_stand_in_their_rows_and_another_elsewhere() -> None:
    pieces = [([3], pa.array([30])), ([0, 2], pa.array([0, 20]))]
    assert scattered(5, pa.int64(), pieces).to_pylist() == [0, None, 20, 30, None]
    assert scattered(3, pa.int64(), [], elsewhere=9).to_pylist() == [9, 9, 9]
    assert scattered(2, pa.int64(), []).to_pylist() == [None, None]


@given(st.lists(st.tuples(st.booleans(), mutations), min_size=FEWEST, max_size=20))
def test_whatever_bytes_they_are(changes: list[tuple[bool, Any]]) -> None:
    bodies = [mutated(body(), each) if is_changed else body() for is_changed, each in changes]
    values, errors = read(bodies)
    for row, one in enumerate(bodies):
        alone, wrong = read([one])
        assert [values[row]] == alone
        assert str(errors.get(row)) == str(wrong.get(0))
