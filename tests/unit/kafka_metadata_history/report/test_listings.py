"""Tables of the report's page: transactions, log directories and controllers."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from bs4 import BeautifulSoup

from kafka_metadata_history.answers.questions import QueryError, question
from kafka_metadata_history.report.listings import LISTINGS, MOST, Listed, listed
from kafka_metadata_history.report.make import make_report
from schemas import silver, transactions
from schemas.lake import VIEWS, OlderLakeError
from schemas.table import Table
from tests.support.duckdb_lake import duckdb_lake
from tests.support.held_up_questions import HANGING, held_up_rows
from tests.support.incident import CLUSTER, at
from tests.support.incident_storage import storage_rows
from tests.support.known_rows import known_rows
from tests.support.reports import NOW, Lake, asking
from tests.support.transaction_questions import transaction, transaction_rows

WINDOW = ("2026-11-01T11:40:00Z", "2026-11-01T12:05:00Z")


def lake_of(*more: dict[Table, list[dict[str, object]]]) -> Lake:
    rows: dict[Table, Iterable[dict[str, object]]] = {**known_rows()}
    for each in ({table: [] for table in storage_rows()}, *more):
        rows |= {table: [row | CLUSTER for row in own] for table, own in each.items()}
    return duckdb_lake(rows, VIEWS)


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    # More than the page has.
    long = [transaction(f"long-{n}", -400 - n, state="Ongoing", is_live=True) for n in range(MOST)]
    of_log = transaction_rows()
    of_log[transactions.TRANSACTIONS] += long
    with lake_of(storage_rows(), of_log, held_up_rows()) as opened:
        yield opened


def tables(lake: Lake, ask: Any = None, **filters: object) -> dict[str, Listed]:
    """Each table, by its question."""
    asked = question("timeline", *WINDOW, {"cluster": "prod", **filters}, NOW)
    found = listed(ask or asking(lake), asked, LISTINGS)
    return {each.listing.question: each for each in found}


def column(found: Listed, name: str) -> list[Any]:
    assert found.rows is not None
    return found.rows[name].to_pylist()


def test_each_table_has_the_first_rows_of_its_question(lake: Lake) -> None:
    found = tables(lake)
    assert list(found) == [each.question for each in LISTINGS]
    assert column(found["stuck_transactions"], "transactional_id") == ["app-1"]
    assert column(found["open_transactions"], "opened_by") == [HANGING]
    assert len(column(found["transactions"], "transactional_id")) == MOST
    assert found["transactions"].count == MOST + 3
    # Directories, and not what is in them.
    assert found["storage"].count == len(storage_rows()[silver.LOG_DIRS])
    assert column(found["storage"], "state")[0] == "failed"
    assert "levelled_off" in column(found["growth"], "unknown")


def test_the_newest_controllers_come_first(lake: Lake) -> None:
    began = column(tables(lake)["controllers"], "began_before")
    assert len(began) > 1
    assert began == sorted(began, reverse=True)


def test_a_table_is_of_what_the_page_is_of_or_is_not_there(lake: Lake) -> None:
    assert "transactions" not in tables(lake, topic="logs")
    assert {*column(tables(lake, broker=1)["storage"], "broker_id")} == {1}
    assert {*tables(lake, topic="orders")} == {"stuck_transactions", "transactions"}
    assert tables(lake, group="billing") == {}


def test_what_the_lake_has_nothing_of_has_no_table() -> None:
    none = {table: [] for table in (*transaction_rows(), *held_up_rows())}
    with lake_of(none) as lake:
        assert {*tables(lake)} == {"controllers"}
        lake.execute("DELETE FROM gold.controller_changes")
        lake.execute("DELETE FROM silver.quorum")
        assert tables(lake) == {}


@pytest.mark.parametrize("error", [OlderLakeError, QueryError])
def test_a_lake_without_the_tables_says_so(lake: Lake, error: type[Exception]) -> None:
    ask = asking(lake)

    def asked(sql: str) -> pa.Table:
        if "silver.log_dirs" in sql:
            raise error("it had <none>")
        return ask(sql)

    missing = {name: each.missing for name, each in tables(lake, asked).items() if each.missing}
    assert missing == dict.fromkeys(("storage", "growth"), "it had <none>")


def test_the_page_has_each_table_and_the_command_for_all_rows(lake: Lake) -> None:
    page = make_report(asking(lake), *WINDOW, {}, NOW, listings=LISTINGS).html
    found = BeautifulSoup(page, "html.parser").select("section.listed")
    texts = {each["id"].removeprefix("listed-"): each.get_text(" ") for each in found}
    assert list(texts) == [each.question for each in LISTINGS]
    assert f"{MOST} of {MOST + 3} rows are shown" in texts["transactions"]
    assert (
        f"query transactions --since {at(-1200).isoformat()} --until {at(300).isoformat()} "
        "--cluster prod --limit 0"
    ) in texts["transactions"]
    assert "are shown" not in texts["storage"]
    # All columns are there.
    assert not any("--wide" in each for each in texts.values())


def test_tables_are_there_also_where_nothing_is_drawn(lake: Lake) -> None:
    ask = asking(lake)

    def asked(sql: str) -> pa.Table:
        if "silver.log_dirs" in sql:
            raise OlderLakeError("it had <none>")
        return ask(sql)

    quiet = ("2026-11-01T12:01:50Z", "2026-11-01T12:01:55Z")
    page = make_report(asked, *quiet, {"broker": 1}, NOW, listings=LISTINGS).html
    assert "Nothing happened in this window" in page
    assert page.count("Nothing is known of this: it had &lt;none&gt;") == 2
