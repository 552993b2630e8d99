"""Ask a lake a named question of schemas/queries/, or free SQL, and print the answer.

spark-submit jobs/query.py NAME --config FILE [--since "2 hours"] [--until TIME] [--cluster C]
[--topic T] [--broker ID] [--group G]
"""

import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from jobs.configuration.config import load
from jobs.run.cli import one_line, parser_of, reported
from jobs.run.driver import plans
from jobs.run.session import spark_session
from kafka_metadata_history.answers.questions import (
    FILTERS,
    QueryError,
    check_filters,
    names,
    option,
    question,
    reach,
)
from kafka_metadata_history.answers.text import FORMS, written
from metadata_source.text import counted
from schemas.in_spark import attach
from schemas.lake import Lake


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of("query", __doc__, "the lake")
    parser.add_argument(
        "query", metavar="NAME|SQL", help=f"{', '.join(names())}; or a query (SELECT)"
    )
    since = "a time in ISO form, or how long before --until (default %(default)s)"
    parser.add_argument("--since", default="1 day", help=since)
    parser.add_argument("--until", help="a time in ISO form, or how long ago (default: now)")
    for name, narrows in FILTERS.items():
        parser.add_argument(option(name), type=int if name == "broker" else str, help=narrows)
    parser.add_argument("--format", choices=FORMS, default="table", help="(default %(default)s)")
    parser.add_argument("--wide", action="store_true", help="a table of all columns")
    arguments = parser.parse_args(argv)

    def ask() -> None:
        filters = {name: vars(arguments)[name] for name in FILTERS}
        asked = question(
            arguments.query, arguments.since, arguments.until, filters, datetime.now(UTC)
        )
        lake, spark = load(arguments.config).lake, spark_session("query")
        check_filters(asked, lambda sql: answer(spark, lake, sql))
        rows = answer(spark, lake, asked.sql)
        print(written(rows, arguments.format, wide=arguments.wide), end="")
        if arguments.format == "table":
            # spark-submit puts stderr of Python on stdout, where programs want rows alone.
            known = reach(
                asked, lambda sql: answer(spark, lake, sql), None if arguments.wide else 1
            )
            for line in (f"{counted(len(rows), 'row')}, by Spark", *known):
                print(f"query: {line}", file=sys.stderr)

    return reported("query", ask)


def answer(spark: SparkSession, lake: Lake, sql: str) -> pa.Table:
    """The rows that `lake` answers to `sql`.

    Tables that it may name get these names (bronze.metadata_polls, ...) in the session's catalog,
    unless they are in one already. Raises QueryError for a statement that is no query: it is not
    run.
    """
    attach(spark, lake, sql)
    return rows_of(spark, lake, sql)


def rows_of(spark: SparkSession, lake: Lake, sql: str) -> pa.Table:
    """The rows that `lake` answers to `sql`, whose tables are attached. Raises QueryError as
    `answer`, and for what would run a program or read other files.
    """
    if lake.catalog is not None:
        spark.catalog.setCurrentCatalog(lake.catalog)
    before = {name: spark.conf.get(name, "true") or "true" for name in _SHUT}
    for name in _SHUT:
        spark.conf.set(name, "false")
    try:
        check_is_query(spark, sql)
        frame = spark.sql(sql)
        check_runs_nothing(spark, frame)
        return frame.toArrow()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


_SHUT = ("spark.sql.runSQLOnFiles", "spark.sql.variable.substitute")
"""Spark's own settings: whether csv.`/etc/passwd` is a table, and `${env:NAME}` a variable of the
environment.
"""
_PROGRAM = re.compile(
    r"\b(ScriptTransformation|(?:try_)?reflect\(|java_method\(|table_changes_by_path\b"
    # A name that is computed may be one of these, and no plan shows it.
    r"|(?:Plan|Expression)WithUnresolvedIdentifier\b)",
    re.IGNORECASE,
)
"""What runs programs, or reads files by their path, as Spark's plans name it."""


def check_runs_nothing(spark: SparkSession, frame: DataFrame) -> None:
    """Refuse a query that would run a program or a method of Java, by what Spark itself understands
    it to be.

    A session of Spark Connect shows no plan: whoever reaches its server may run Python there
    anyway.
    """
    for plan in plans(spark, frame):
        if found := _PROGRAM.search(plan):
            raise QueryError(
                f"{found[1].rstrip('(')}: a query may not run programs, nor read other files than "
                "the lake's"
            )


def check_is_query(spark: SparkSession, sql: str) -> None:
    """Refuse what is no query. Between brackets Spark's grammar has queries alone: asked of it, no
    JVM is needed.
    """
    try:
        spark.sql(f"SELECT * FROM (\n{sql.strip().removesuffix(';')}\n)").schema  # noqa: B018 - analyzed
    except ParseException as error:
        raise QueryError(
            "neither a name nor a query (SELECT), which is all that is asked here: "
            f"{one_line(error)}"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
