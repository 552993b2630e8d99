"""jobs/query.py asks; it changes nothing, whatever it is given."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from kafka_metadata_history.answers.in_spark import check_is_query, rows_of
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import QueryError, names, text_of
from schemas.lake import Lake


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE made (x INT) USING parquet",
        "DROP TABLE IF EXISTS kept",
        "DROP SCHEMA IF EXISTS gold CASCADE",
        "INSERT INTO kept VALUES (1)",
        "WITH one AS (SELECT 1 AS x) INSERT INTO kept SELECT x FROM one",
        "FROM kept INSERT INTO kept SELECT x",
        "DELETE FROM kept",
        "TRUNCATE TABLE kept",
        "SET spark.sql.shuffle.partitions = 3",
        "SELECT 1; DROP TABLE kept",
        "SELECT 1 /* ",
        "SELEC 1 AS x",
    ],
)
def test_what_is_no_query_is_refused_in_one_line(spark: SparkSession, sql: str) -> None:
    with pytest.raises(
        QueryError,
        match=r"^neither a name nor a query \(SELECT\), which is all that is asked here: \[",
    ) as error:
        check_is_query(spark, sql)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("sql", ["SHOW TABLES", "DROP kept"])
def test_two_words_are_a_table_and_its_alias(spark: SparkSession, sql: str) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        check_is_query(spark, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 AS x, 2 AS x;",
        "WITH one AS (SELECT 1 AS x) SELECT x FROM one ORDER BY x -- the last",
        "FROM range(3) SELECT id",
        "VALUES (1), (2)",
        "(SELECT 1) UNION ALL (SELECT 2)",
        "SELECT ';' AS x /* a comment */",
        "SELECT CAST(:since AS TIMESTAMP) AS x",
    ],
)
def test_queries_are_asked(spark: SparkSession, sql: str) -> None:
    check_is_query(spark, with_values(sql, {"since": "2026-11-01T12:00:00Z"}))


def test_brackets_that_the_check_would_close_are_no_query_either(spark: SparkSession) -> None:
    sql = "SELECT 1) UNION ALL (SELECT 2"
    check_is_query(spark, sql)
    with pytest.raises(ParseException):
        spark.sql(sql)


@pytest.mark.soak
def test_the_named_ones_are_queries(spark: SparkSession) -> None:
    for name in names():
        with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND"):
            check_is_query(spark, f"SELECT * FROM nothing, ({text_of(name)})")


MANY = ", ".join(f"{n} AS c{n}" for n in range(60))
JAVA = "('java.lang.System', 'setProperty', 'kafka.metadata.history.ran', 'yes')"


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "SELECT TRANSFORM(1) USING 'cat' AS (a)",
            "^ScriptTransformation: a query may not run programs",
        ),
        (
            "WITH a AS (SELECT TRANSFORM(1) USING 'cat' AS (a)) SELECT a FROM a",
            "^ScriptTransformation: ",
        ),
        (f"SELECT reflect{JAVA}", "^reflect: a query may not run programs"),
        (f"SELECT try_reflect{JAVA}", "^try_reflect: "),
        (f"SELECT {MANY}, java_method{JAVA} AS x", "^java_method: "),
        (f"SELECT 1 WHERE EXISTS (SELECT reflect{JAVA})", "^reflect: "),
        (
            f"SELECT IDENTIFIER('ref' || 'lect'){JAVA}",
            "(?i)^(reflect|expressionwithunresolvedidentifier): ",
        ),
        ("SELECT * FROM IDENTIFIER('ran' || 'ge')(3)", "(?i)^planwithunresolvedidentifier: "),
        (f"SELECT 1 -- \\\n' \n, reflect{JAVA} -- '", "^reflect: "),
    ],
)
def test_a_query_runs_no_program(spark: SparkSession, tmp_path: Path, sql: str, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        rows_of(spark, Lake(root=str(tmp_path)), sql)


def test_a_query_reads_no_variable_of_the_environment(spark: SparkSession, tmp_path: Path) -> None:
    rows = rows_of(
        spark, Lake(root=str(tmp_path)), "SELECT '${env:PATH}' AS x, '${system:user.home}' AS y"
    ).to_pylist()
    assert rows == [{"x": "${env:PATH}", "y": "${system:user.home}"}]
    assert spark.conf.get("spark.sql.variable.substitute") == "true"


@pytest.mark.parametrize("of", ["csv", "text", "parquet", "delta", "binaryFile"])
def test_a_query_reads_no_file_by_its_path(spark: SparkSession, tmp_path: Path, of: str) -> None:
    (tmp_path / "file").write_text("secret\n")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        rows_of(spark, Lake(root=str(tmp_path)), f"SELECT * FROM {of}.`{tmp_path}/file`")
    assert spark.conf.get("spark.sql.runSQLOnFiles") == "true"
