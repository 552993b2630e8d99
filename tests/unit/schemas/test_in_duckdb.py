"""Spark's SQL in DuckDB's words, where the two differ."""

import tempfile

import duckdb
import pytest

from schemas.in_duckdb import connected, query_in_duckdb


@pytest.mark.parametrize(
    ("column", "rows", "expected"),
    [
        ("exists(x, e -> e > 2)", "array(1, 2)), (array(3)", [False, True]),
        ("get(x, 0)", "array(7, 8)", [7]),
        ("collect_list(x)", "CAST(NULL AS INT)", [[]]),
        ("size(collect_set(get(x, 1)))", "array(1)", [0]),
        ("max_by(x.a, x.b)", "struct(1 AS a, 1 AS b)), (struct(NULL AS a, 2 AS b)", [None]),
        ("min_by(x.a, x.b)", "struct(NULL AS a, 1 AS b)), (struct(1 AS a, 2 AS b)", [None]),
        ("unix_micros(timestamp_micros(x))", "1700000000000001", [1_700_000_000_000_001]),
    ],
)
def test_the_answer_is_that_of_spark(column: str, rows: str, expected: list[object]) -> None:
    sql = f"SELECT {column} AS y FROM VALUES ({rows}) AS t(x)"
    found = duckdb.sql(query_in_duckdb(sql)).to_arrow_table().to_pylist(maps_as_pydicts="strict")
    assert [row["y"] for row in found] == expected


def test_a_cast_that_duckdb_does_not_have_is_an_error() -> None:
    """As in Spark, where a value cannot be cast; null would be an answer."""
    with pytest.raises(duckdb.ConversionException, match="Unimplemented type for cast"):
        duckdb.sql(query_in_duckdb("SELECT CAST(now() AS DOUBLE)")).fetchall()
    assert duckdb.sql(query_in_duckdb("SELECT TRY_CAST('x' AS INT)")).fetchall() == [(None,)]


def test_what_does_not_fit_into_memory_lies_with_temporary_files() -> None:
    ((folder,),) = connected().sql("SELECT current_setting('temp_directory')").fetchall()
    assert folder.startswith(tempfile.gettempdir())
