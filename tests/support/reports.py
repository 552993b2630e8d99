"""Reports of the known incident, asked in DuckDB, and of a day in which much happened."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
from bs4 import BeautifulSoup

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.report.make import make_report
from schemas import gold, groups
from schemas.in_duckdb import NoQueryError, in_duckdb
from schemas.lake import VIEWS
from schemas.table import Table
from tests.support.duckdb_lake import duckdb_lake
from tests.support.known_rows import known_rows

NOW = datetime(2026, 11, 2, tzinfo=UTC)


WINDOW = ("2026-11-01T12:00:05Z", "2026-11-01T12:01:40Z")


HOSTILE = (
    "<script>window.harmed = 1</script>",
    "</script><script>window.harmed = 1</script>",
    '"><img src=x onerror="window.harmed = 1">',
    "<!--<script>",
    "bell\x07 escape\x1b[31m line\nend\u202eright\u2028to left",
    r"$$\href{javascript:harm()}{x}$$ \(x\) @{lane} $name",
)


Lake = duckdb.DuckDBPyConnection


def asking(lake: Lake) -> Callable[[str], pa.Table]:
    """As kafka_metadata_history.opened does it, of tables in the database itself."""

    def ask(sql: str) -> pa.Table:
        try:
            return lake.sql(in_duckdb(sql)).to_arrow_table()
        except (duckdb.Error, NoQueryError) as error:
            raise QueryError(" ".join(str(error).split())) from error

    return ask


def page_of(lake: Lake, since: str = WINDOW[0], until: str = WINDOW[1], **filters: object) -> str:
    return make_report(asking(lake), since, until, filters, NOW).html


def text_of(page: str) -> str:
    """The texts of a page without its figures."""
    soup = BeautifulSoup(page, "html.parser")
    for element in soup(["script", "style"]):
        element.decompose()
    return " ".join(soup.get_text(" ").split())


def renamed(rows: Mapping[Table, list[dict[str, Any]]]) -> dict[Table, list[dict[str, Any]]]:
    """The known rows, with hostile names for topics, groups and clients."""
    topics = dict(zip(("orders", "logs", "clicks"), HOSTILE, strict=False))
    named = dict(
        zip(("billing", "audit", "search", "shop", "reports", "fresh"), HOSTILE, strict=True)
    )
    client = {"client_id": HOSTILE[0], "client_host": HOSTILE[2]}

    def row_of(row: dict[str, Any]) -> dict[str, Any]:
        more = {key: value for key, value in client.items() if row.get(key) is not None}
        if "topic" in row:
            more["topic"] = topics.get(row["topic"], row["topic"])
        if "group_id" in row:
            more["group_id"] = named[row["group_id"]]
        return row | more

    return {table: [row_of(row) for row in own] for table, own in rows.items()}


def multiply(lake: Lake, table: Table, times: int, **columns: str) -> None:
    """Add so many rows like the first one; `columns`: expressions over `n`."""
    names = [each.name for each in table.columns if each.generated_as is None]
    values = ", ".join(
        f'{columns.get(name, chr(34) + name + chr(34))} AS "{name}"' for name in names
    )
    quoted = ", ".join(f'"{name}"' for name in names)
    lake.execute(
        f"INSERT INTO {table.full_name} ({quoted}) SELECT {values} "
        f"FROM (SELECT * FROM {table.full_name} LIMIT 1), range({times}) AS numbers(n)"
    )


def large_lake() -> Lake:
    """A day in which a hundred thousand things happened to prod, and more to its rows."""
    lake = duckdb_lake(known_rows(), VIEWS)
    # A fixed disorder, in seconds of the day before noon.
    second = "TIMESTAMPTZ '2026-11-01 12:00:00+00' + to_milliseconds((n * 7919 * 1013) % 86400000)"
    later = f"{second} + to_seconds(5 + n % 600)"
    bounds = {"began_after": f"{second} - to_seconds(10)", "began_before": second}
    ends = {"ended_after": f"{later} - to_seconds(5)", "ended_before": later}
    topic = {"topic": "'a.topic.with.a.rather.long.name.' || (n % 300)", "partition": "n % 50"}
    multiply(lake, gold.LEADER_CHANGES, 40_000, id="'m' || n", **topic, **bounds)
    multiply(
        lake, gold.ISR_CHANGES, 20_000, id="'m' || n", broker_id="n % 60", **topic, **bounds, **ends
    )
    multiply(lake, gold.ISR_EPISODES, 20_000, id="'m' || n", **topic, **bounds, **ends)
    multiply(
        lake, gold.BROKER_INCIDENTS, 3_000, id="'m' || n", broker_id="n % 60", **bounds, **ends
    )
    multiply(
        lake, groups.REBALANCES, 25_000, id="'m' || n",
        group_id="'a-group-of-some-service-' || (n % 400)", **bounds, **ends,
    )  # fmt: skip
    return lake


DAY = ("2026-11-01T12:00:00Z", "2026-11-02T12:00:00Z")
