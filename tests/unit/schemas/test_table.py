"""Types of columns, in Spark's words and in Arrow's."""

import pyarrow as pa
import pytest

from schemas.lake import TABLES
from schemas.table import arrow_type, sql_type

_TIME = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("sql", "arrow"),
    [
        ("bigint", pa.int64()),
        ("timestamp", _TIME),
        ("array<int>", pa.list_(pa.int32())),
        ("map<string, array<bigint>>", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("struct<a: int, b: timestamp>", pa.struct({"a": pa.int32(), "b": _TIME})),
        (
            "array<struct<a: array<struct<b: int, c: map<string, date>>>, d: boolean>>",
            pa.list_(
                pa.struct(
                    {
                        "a": pa.list_(
                            pa.struct({"b": pa.int32(), "c": pa.map_(pa.string(), pa.date32())})
                        ),
                        "d": pa.bool_(),
                    }
                )
            ),
        ),
    ],
)
def test_a_type_is_the_same_in_both(sql: str, arrow: pa.DataType) -> None:
    assert (arrow_type(sql), sql_type(arrow)) == (arrow, sql)


def test_each_column_has_a_type_in_arrow() -> None:
    types = {column.type for table in TABLES for column in table.columns}
    assert {sql_type(arrow_type(each)) for each in types} == types
