"""What `schemas.known_sql` says is known has the same value in DuckDB as in Spark."""

import math
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafka_metadata_history.answers.text import as_json, plain_rows
from schemas.in_duckdb import connected, in_duckdb
from schemas.known_sql import FUNCTIONS
from schemas.own_sql import own_in_duckdb, prepare
from tests.support.two_engines import AGGREGATES, ERRORS, QUERIES, ROWS, SCALARS, WINDOWS

Ask = Callable[[str], pa.Table]


@pytest.fixture(scope="module")
def in_spark(spark: SparkSession) -> Iterator[Ask]:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW t AS {ROWS}")
    yield lambda sql: spark.sql(sql).toArrow()
    spark.catalog.dropTempView("t")


@pytest.fixture(scope="module")
def in_duck() -> Ask:
    database = connected()
    prepare(database)
    database.execute(f"CREATE TABLE t AS {in_duckdb(ROWS)}")
    return lambda sql: database.sql(own_in_duckdb(sql)).to_arrow_table()


def same(one: object, other: object) -> bool:
    """Whether two values are shown as one; sums of floats may have been added in another order."""
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other
            or math.isclose(one, other, rel_tol=1e-12)
            or (math.isnan(one) and math.isnan(other))
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    return type(one) is type(other) and one == other


@pytest.mark.parametrize(
    "of", [SCALARS, AGGREGATES, WINDOWS], ids=["scalars", "aggregates", "windows"]
)
def test_each_expression_has_the_same_value(in_spark: Ask, in_duck: Ask, of: list[str]) -> None:
    order = "" if of is AGGREGATES else " ORDER BY k"
    differ = []
    for some in (of[first : first + 50] for first in range(0, len(of), 50)):
        sql = f"SELECT {', '.join(f'{each} AS c{n}' for n, each in enumerate(some))} FROM t{order}"
        rows, others = (list(plain_rows(ask(sql))) for ask in (in_spark, in_duck))
        for n, each in enumerate(some):
            values = [[row[f"c{n}"] for row in answer] for answer in (rows, others)]
            if not same(*values):
                differ.append((each, *values))
    assert differ == []


def test_each_form_of_a_query_has_the_same_rows(in_spark: Ask, in_duck: Ask) -> None:
    with ThreadPoolExecutor(4) as side_by_side:  # Spark plans for longer than it works
        asked = list(side_by_side.map(in_spark, QUERIES))
    answers = [
        (sql, [[*row.values()] for row in plain_rows(rows)])
        for sql, rows in zip(QUERIES, asked, strict=True)
    ]
    others = [[[*row.values()] for row in plain_rows(in_duck(sql))] for sql in QUERIES]
    assert [
        (*each, other)
        for each, other in zip(answers, others, strict=True)
        if not same(each[1], other)
    ] == []


def test_what_is_an_error_in_one_is_one_in_both(in_spark: Ask, in_duck: Ask) -> None:
    for each in ERRORS:
        for ask in (in_spark, in_duck):
            with pytest.raises((PySparkException, duckdb.Error)):
                as_json(ask(f"SELECT {each} AS x FROM t"))


def test_each_function_that_is_known_is_among_them() -> None:
    asked = " ".join((*SCALARS, *AGGREGATES, *WINDOWS, *QUERIES)).lower()
    assert {name for name in FUNCTIONS if not re.search(rf"\b{name} ?\(", asked)} == set()
