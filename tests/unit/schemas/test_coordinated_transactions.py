"""The view of transactions with their coordinators, in DuckDB."""

from schemas import silver, transactions, views
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.group_states import at
from tests.support.group_views import by_id, poll
from tests.support.transaction_questions import WEST, transaction


def test_a_transaction_has_the_coordinator_of_its_last_record_and_a_command() -> None:
    ids = {"app-1": 4, "it's": 4, "long…0a1b": 5}
    rows = [
        transaction(id_, 0, state="Ongoing", last_record_at=at(0), leader_epoch=epoch)
        for id_, epoch in ids.items()
    ]
    led = {"topic": "__transaction_state", "partition": 3, "leader": 2, "leader_epoch": 4}
    snapshots = [WEST | led | {"valid_from": at(each), "first_poll": poll(each)} for each in (0, 9)]
    tables = {transactions.TRANSACTIONS: rows, silver.PARTITION_SNAPSHOTS: snapshots}
    with duckdb_lake(tables, [views.COORDINATED_TRANSACTIONS]) as lake:
        found = by_id(
            ask(lake, "SELECT * FROM gold.coordinated_transactions"), "coordinator", "command"
        )
    tool = "kafka-transactions.sh --bootstrap-server HOST:PORT forceTerminateTransaction"
    assert found == {
        "app-1": (2, f"{tool} --transactionalId 'app-1'"),
        "it's": (2, None),
        "long…0a1b": (None, None),
    }
