"""SQL that a person writes: what DuckDB is known to answer as Spark, and what is refused by its
name. That the values are Spark's is in tests/spark/test_two_engines.py.
"""

import re

import duckdb
import pytest

from kafka_metadata_history.answers.markers import with_values
from schemas.in_duckdb import NoQueryError, connected, in_duckdb
from schemas.own_sql import NotKnownError, own_in_duckdb, prepare
from tests.support.documents import blocks
from tests.support.two_engines import AGGREGATES, QUERIES, ROWS, SCALARS, WINDOWS


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    made = connected()
    prepare(made)
    made.execute(f"CREATE TABLE t AS {in_duckdb(ROWS)}")
    return made


def value(database: duckdb.DuckDBPyConnection, expression: str) -> object:
    (row,) = database.sql(own_in_duckdb(f"SELECT {expression} AS x FROM t WHERE k = 1")).fetchall()
    return row[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("datediff(SECOND, TIMESTAMP '2026-11-26 08:00:00', ts)", 5706),
        ("datediff(HOUR, TIMESTAMP '2026-11-26 08:59:59', ts)", 0),
        ("date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS')", "2026-11-26 09:35:06.444"),
        ("date_format(ts, \"yyyy-MM-dd'T'HH:mm:ssXXX\")", "2026-11-26T09:35:06Z"),
        ("unix_timestamp(ts)", 1_795_685_706),
        ("CAST(ts AS BIGINT)", 1_795_685_706),
        ("CAST(from_utc_timestamp(ts, 'Europe/Berlin') AS STRING)", "2026-11-26 10:35:06.444"),
        ("'a_b' LIKE 'a\\_b'", True),
        ("'axb' LIKE 'a\\_b'", False),
        ("CAST(1.7 AS INT)", 1),
        ("TRY_CAST('1_000' AS INT)", None),
        ("date_add(da, 7) || ''", "2026-12-03"),
        ("'it''s'", "it's"),
        ("round(1.005D, 2)", 1.01),
        ("exists(array(1, NULL), x -> x > 1)", None),
        ("array_distinct(array(2, 1, 2, NULL))", [2, 1, None]),
        ("struct('a', ts IS NULL, 1 AS x)", {"col1": "a", "col2": False, "x": 1}),
    ],
)
def test_the_value_is_that_of_spark(
    database: duckdb.DuckDBPyConnection, expression: str, expected: object
) -> None:
    assert value(database, expression) == expected


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT hash('a')", "the function hash"),
        ("SELECT typeof(1)", "the function typeof"),
        ("SELECT any_value(i) FROM t", "the function any_value"),
        ("SELECT get_json_object('{}', '$.a')", "the function get_json_object"),
        ("SELECT read_text('/etc/passwd')", "the function read_text"),
        ("SELECT * FROM range(3)", "the function range"),
        ("SELECT * FROM test_all_types()", "the function test_all_types"),
        ("SELECT op_string(1)", "the function op_string"),
        ("SELECT spark_ln(1)", "the function spark_ln"),
        ("SELECT datediff(MONTH, ts, ts) FROM t", "DATEDIFF(MONTH, ts, ts)"),
        ("SELECT date_format(ts, 'w') FROM t", "DATE_FORMAT(ts, 'w')"),
        ("SELECT date_format(ts, s) FROM t", "DATE_FORMAT(ts, s)"),
        ("SELECT EXTRACT(SECOND FROM ts) FROM t", "EXTRACT(SECOND FROM ts)"),
        ("SELECT date_trunc('DECADE', ts) FROM t", "DATE_TRUNC('DECADE', ts)"),
        ("SELECT TRY_CAST(s AS TIMESTAMP) FROM t", "TRY_CAST(s AS TIMESTAMP)"),
        ("SELECT CAST(s AS BINARY) FROM t", "CAST(s AS BINARY)"),
        ("SELECT CAST(a AS ARRAY<STRING>) FROM t", "CAST(a AS ARRAY<STRING>)"),
        ("SELECT a[0] FROM t", "[ ] of an array"),
        ("SELECT substring(s, 0, 2) FROM t", "substring from"),
        ("SELECT substring(s, 5, instr(s, 'x') - 5) FROM t", "substring from"),
        ("SELECT CAST(d AS DECIMAL) FROM t", "CAST(d AS DECIMAL)"),
        ("SELECT to_utc_timestamp(ts, 'Europe/Berlin') FROM t", "the function to_utc_timestamp"),
        ("SELECT regexp_replace(s, 'a(.)', '$1') FROM t", "regexp_replace by"),
        ("SELECT x FROM t LATERAL VIEW OUTER explode(a) e AS x", "this LATERAL VIEW"),
        ("SELECT p FROM t LATERAL VIEW posexplode(a) e AS p, x", "this LATERAL VIEW"),
        ("SELECT struct(k) = struct(k) FROM t", "a comparison of structs"),
        ("SELECT k FROM t SORT BY k", "SORT"),
        ("SELECT X'41'", "X'41' as bytes"),
        ("SELECT greatest(a, a) > get(a, 0), corr(i, l) FROM t", "the function corr"),
        ("SELECT k FROM t TABLESAMPLE (50 PERCENT)", "TABLE SAMPLE"),
        ("SELECT b, sum(i) FROM t GROUP BY ROLLUP (b)", "ROLLUP"),
        ("SELECT /*+ BROADCAST(t) */ k FROM t", "HINT"),
        ("SELECT ts + INTERVAL '1 02:03:04' DAY TO SECOND FROM t", "INTERVAL SPAN"),
        ("FROM t |> WHERE k > 1", "|>"),
        ("SELECT TRANSFORM(k) USING 'cat' AS (x) FROM t", "QUERY TRANSFORM"),
        ("SELECT transform(a, (x, n) -> n) FROM t", "a lambda of two"),
    ],
)
def test_what_is_not_known_is_refused_by_its_name(query: str, what: str) -> None:
    with pytest.raises(NotKnownError, match=rf"^{re.escape(what)}"):
        own_in_duckdb(query)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("de / 3", "/ of a DECIMAL"),
        ("i / 1000.0", "/ of a DECIMAL"),
        ("CAST(d AS STRING)", "a STRING of a DOUBLE"),
        ("s || d", "a STRING of a DOUBLE"),
        ("concat_ws('-', s, ts)", "a STRING of a TIMESTAMP WITH TIME ZONE"),
        ("CAST(st AS STRING)", "a STRING of a STRUCT"),
        ("round(de, 1)", "round of a DECIMAL"),
        ("da - DATE '2026-11-01'", "- of a DATE"),
        ("da + INTERVAL 1 DAY", "+ of a DATE"),
        ("a < array(1)", "the order of a INTEGER[]"),
        ("timestamp_seconds(1.5)", "a TIMESTAMP of a DECIMAL"),
    ],
)
def test_a_type_that_is_not_known_is_refused_where_the_value_is_made(
    database: duckdb.DuckDBPyConnection, expression: str, what: str
) -> None:
    with pytest.raises(duckdb.Error, match=re.escape(f"not known here: {what}")):
        value(database, expression)


@pytest.mark.parametrize(
    "query",
    ["DELETE FROM t", "SHOW TABLES", "SELECT FROM WHERE", "SELECT 1; SELECT 2", "SELECT 'a"],
)
def test_what_is_no_query_is_none(query: str) -> None:
    with pytest.raises(NoQueryError):
        own_in_duckdb(query)


def test_all_that_is_said_to_be_known_is_translated(database: duckdb.DuckDBPyConnection) -> None:
    for each in (*SCALARS, *WINDOWS, *AGGREGATES):
        database.sql(own_in_duckdb(f"SELECT {each} AS x FROM t"))
    for query in QUERIES:
        database.sql(own_in_duckdb(query))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("sign", ["||", "+", "-"])
def test_a_long_chain_is_no_more_than_its_parts(
    database: duckdb.DuckDBPyConnection, sign: str
) -> None:
    """A macro writes an argument as often as it names it: chains of macros grew by powers."""
    of = "s" if sign == "||" else "i"
    chain = f" {sign} ".join([of] * 16)
    database.sql(own_in_duckdb(f"SELECT {chain}, ({chain}) {sign} ({chain}) FROM t")).fetchall()


def test_the_window_is_put_in(database: duckdb.DuckDBPyConnection) -> None:
    sql = with_values(
        "SELECT CAST(:since AS TIMESTAMP) < now() AS x, :topic AS y",
        {"since": "2026-11-01", "topic": "it's"},
    )
    assert database.sql(own_in_duckdb(sql)).fetchall() == [(True, "it's")]


def test_the_documents_ask_nothing_else() -> None:
    asked = [each for each in blocks("sql") if each.lstrip().upper().startswith(("SELECT", "WITH"))]
    assert len(asked) > 5
    for each in asked:
        own_in_duckdb(each)
