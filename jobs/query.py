"""Ask a lake a named question of schemas/queries/, or free SQL, and print the answer.

spark-submit jobs/query.py NAME --config FILE [--since "2 hours"] [--until TIME] [--cluster C] [--topic T] [--broker ID]
[--group G]
"""

import csv
import difflib
import io
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructField, StructType, TimestampType

from jobs.common.cli import one_line, parser_of, reported
from jobs.common.config import duration, load
from jobs.common.expiry import kept_since
from jobs.common.markers import with_values
from jobs.common.rounds import states_of
from jobs.common.session import spark_session
from metadata_source.text import printable, text_table
from schemas import table
from schemas.in_spark import attach, table_exists
from schemas.internal import STATE
from schemas.lake import Lake

QUERIES = Path(table.__file__).parent / "queries"
FILTERS = {"cluster": "alias", "topic": "topic", "broker": "broker", "group": "consumer, share or streams group"}
"""Parameters of every question that may be null: option -> what it narrows the answer to."""


class QueryError(ValueError):
    """Raised for a question that cannot be meant as it is. One line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of("query", __doc__, "the lake")
    parser.add_argument("query", metavar="NAME|SQL", help=f"{', '.join(names())}; or a query (SELECT)")
    since = "a time in ISO form, or how long before --until (default %(default)s)"
    parser.add_argument("--since", default="1 day", help=since)
    parser.add_argument("--until", help="a time in ISO form, or how long ago (default: now)")
    for name, alone in FILTERS.items():
        parser.add_argument(f"--{name}", type=int if name == "broker" else str, help=f"this {alone} alone")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="(default %(default)s)")
    arguments = parser.parse_args(argv)

    def ask() -> None:
        now = datetime.now(UTC)
        until = moment(arguments.until, now) if arguments.until else now
        window = {"since": moment(arguments.since, until).isoformat(), "until": until.isoformat()}
        parameters = window | {name: vars(arguments)[name] for name in FILTERS}
        sql = text_of(arguments.query)
        lake, spark = load(arguments.config).lake, spark_session("query")
        print(rendered(answer(spark, lake, sql, parameters), arguments.format), end="")
        for line in dropped(spark, lake, moment(arguments.since, until)):
            print(f"query: {line}", file=sys.stderr)

    return reported("query", ask)


def names() -> list[str]:
    """The names of the questions, sorted."""
    return sorted(file.stem for file in QUERIES.glob("*.sql"))


def text_of(query: str) -> str:
    """The SQL of a named question; free SQL as it is. Raises QueryError for a name that there is not."""
    if " " in query.strip():
        return query
    if query not in names():
        close = difflib.get_close_matches(query, names(), 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names())}"
        raise QueryError(f"no query is called {query!r}; {hint}")
    return (QUERIES / f"{query}.sql").read_text(encoding="utf-8")


def moment(text: str, before: datetime) -> datetime:
    """A time: an ISO one (UTC unless it says otherwise), or as long before `before` as `text` says."""
    with suppress(ValueError):
        at = datetime.fromisoformat(text)
        return at if at.tzinfo else at.replace(tzinfo=UTC)
    with suppress(ValueError, OverflowError):
        return before - duration(text)
    raise QueryError(f"{text!r} is neither a time like 2026-11-21T10:00:00Z nor a duration like '2 hours'")


def answer(spark: SparkSession, lake: Lake, sql: str, parameters: dict[str, object]) -> DataFrame:
    """The answer of `lake` to `sql`.

    Tables that it may name get these names (bronze.metadata_polls, ...) in the session's catalog, unless they are in
    one already. Raises QueryError for a statement that is no query: it is not run.
    """
    attach(spark, lake, sql)
    if lake.catalog is not None:
        spark.catalog.setCurrentCatalog(lake.catalog)
    check_is_query(spark, sql, parameters)
    return spark.sql(with_values(sql, parameters))


def dropped(spark: SparkSession, lake: Lake, since: datetime) -> list[str]:
    """A line for each schema of which retention has dropped rows that were over after `since`."""
    if not table_exists(spark, lake, STATE):
        return []
    states = states_of(spark, lake)
    kept = {schema: kept_since(states, schema) for schema in ("silver", "gold")}
    return [
        f"retention has dropped what was over before {at:%Y-%m-%d} UTC from {schema}: this answer may lack some of it"
        for schema, at in kept.items()
        if at is not None and at > since
    ]


def check_is_query(spark: SparkSession, sql: str, parameters: dict[str, object]) -> None:
    """Refuse what is no query. Between brackets Spark's grammar has queries alone: asked of it, no JVM is needed."""
    try:
        asked = with_values(sql.strip().removesuffix(";"), parameters)
        spark.sql(f"SELECT * FROM (\n{asked}\n)").schema  # noqa: B018 - analyzed
    except ParseException as error:
        raise QueryError(
            f"neither a name nor a query (SELECT), which is all that is asked here: {one_line(error)}"
        ) from error


def rendered(frame: DataFrame, form: str) -> str:
    """The rows as a table for people, CSV with a header, or a JSON object a line; times in UTC, to the millisecond."""
    if form == "json":
        options = {"timestampFormat": _TIME, "ignoreNullFields": "false"}
        return "".join(f"{row[0]}\n" for row in frame.select(F.to_json(F.struct("*"), options)).collect())
    rows = frame.select(*map(_as_text, frame.schema)).collect()
    return (
        as_csv(frame.columns, rows)
        if form == "csv"
        else "".join(f"{line}\n" for line in text_table(frame.columns, rows))
    )


def as_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The rows as CSV, printable. A text that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*map(_no_formula, each)] for each in (header, *rows))
    return text.getvalue()


_FORMULA = re.compile(r"[=@]|[+-](?![\d.]+\Z)")


def _no_formula(cell: object) -> object:
    if not isinstance(cell, str):
        return cell
    return f"'{printable(cell)}" if _FORMULA.match(cell) else printable(cell)


_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"


def _as_text(field: StructField) -> Column:
    column = F.col(f"`{field.name}`")
    if isinstance(field.dataType, TimestampType):
        column = F.date_format(column, _TIME)
    elif isinstance(field.dataType, ArrayType | MapType | StructType):
        column = F.to_json(column)
    return column.alias(field.name)


if __name__ == "__main__":
    sys.exit(main())
