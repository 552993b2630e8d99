"""Rows of Arrow as dicts: as pyarrow gives them."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.arrow import by_value, rows_in, rows_of
from schemas.silver import QUORUM
from tests.support.examples import examples

TIMES = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - with timezones
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.sampled_from(["orders", "payments", "", "ü"]) | st.text(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.bool_(): st.booleans(),
    pa.binary(): st.binary(max_size=3),
    pa.timestamp("us", "UTC"): TIMES,
    pa.map_(pa.string(), pa.int32()): st.dictionaries(
        st.text(max_size=2), st.integers(0, 9), max_size=3
    ),
}


def struct(types: list[pa.DataType]) -> pa.StructType:
    return pa.struct([(f"field {n}", each) for n, each in enumerate(types)])


types = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda inner: inner.map(pa.list_) | st.lists(inner, min_size=1, max_size=3).map(struct),
    max_leaves=5,
)


def values(type_: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(type_):
        there = st.fixed_dictionaries({field.name: values(field.type) for field in type_})
    elif pa.types.is_list(type_):
        there = st.lists(values(type_.value_type), max_size=3)
    else:
        there = VALUES[type_]
    return st.none() | there


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """In chunks, and cut out of a longer one."""
    schema = pa.schema(list(struct(draw(st.lists(types, min_size=1, max_size=3)))))
    row = st.fixed_dictionaries({field.name: values(field.type) for field in schema})
    chunks = [
        pa.Table.from_pylist(draw(st.lists(row, max_size=5)), schema)
        for _ in range(draw(st.integers(1, 3)))
    ]
    table = pa.concat_tables(chunks)
    return table.slice(draw(st.integers(0, 3)), draw(st.integers(0, 12)))


@settings(max_examples=examples(100))
@given(table=tables())
def test_rows_are_those_that_pyarrow_gives(table: pa.Table) -> None:
    assert rows_of(table) == table.to_pylist(maps_as_pydicts="strict")


def test_equal_texts_and_times_are_one_object() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    one, other = rows_of(
        pa.table({"text": ["a topic"] * 2, "time": pa.array([at] * 2, pa.timestamp("us", "UTC"))})
    )
    assert one["text"] is other["text"]
    assert one["time"] is other["time"]


def test_a_map_with_a_key_twice_is_refused() -> None:
    table = pa.table({"map": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32()))})
    with pytest.raises(KeyError, match="'a'"):
        rows_of(table)


def test_rows_of_a_table_that_is_not_there_are_none() -> None:
    assert rows_in({}, QUORUM) == []
    assert rows_in({QUORUM.full_name: pa.table({"quorum_epoch": [7]})}, QUORUM) == [
        {"quorum_epoch": 7}
    ]


def test_rows_by_what_they_have_in_columns_are_in_their_order() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 2, "b": 2}, {"a": 1, "b": 3}]
    assert by_value(rows, "a") == {1: [rows[0], rows[2]], 2: [rows[1]]}
    assert by_value(rows, "a", "b") == {(1, 2): [rows[0]], (2, 2): [rows[1]], (1, 3): [rows[2]]}
