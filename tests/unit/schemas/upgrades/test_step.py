"""Who changes a table, or what a fold remembers, brings a step and a stored lake."""

import hashlib
import json
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from jobs.histories import cost, incidents, poll_news, positions, rebalances, transactions
from jobs.rules.gold import news
from jobs.rules.groups import lag, polls, state, storms
from jobs.rules.groups.group import Life
from jobs.rules.log import state as log_state
from jobs.rules.silver import state as silver_state
from jobs.rules.transactions import partition as transaction_partition
from jobs.rules.transactions import transaction
from schemas.lake import TABLES
from schemas.table import LAKE_VERSION, OLDEST_UPGRADED
from schemas.upgrades import STEPS, steps_from
from tests.support.store_lake import stored

MEMORIES = (
    silver_state.State,
    log_state.State,
    news.Known,
    state.State,
    Life,
    polls.Open,
    storms.Chains,
    lag.Memory,
    lag._Partition,
    lag.Visit,
    cost.Memory,
    rebalances.Memory,
    poll_news.LogMemory,
    incidents.Memory,
    transaction_partition.OpenTransactions,
    transaction.Transaction,
    transactions.LogOffsets,
    positions.LogVersion,
)
TODO = (
    "raise LAKE_VERSION, write the step to it in schemas/upgrades/, run `python -m "
    "tests.support.store_lake`, and note the new digest here (CONTRIBUTING, Changes)"
)
TABLES_OF = {12: "582bea686b8159bf"}
MEMORY_OF = {12: "c7d0f19f7342bf0f"}
"""By LAKE_VERSION. Comments of columns may change without a step, as long as they mean the same."""


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def fields_of(kind: Any) -> object:
    """The fields of a type, and of all types in it."""
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        return {
            name: [str(of), [fields_of(each) for each in parts(of)]] for name, of in hints.items()
        }
    return None


def parts(of: Any) -> list[Any]:
    return [of, *(part for each in get_args(of) for part in parts(each))]


def test_tables_change_with_a_step() -> None:
    made = {
        table.full_name: {
            "columns": [
                (column.name, column.type, column.nullable, column.generated_as)
                for column in table.columns
            ],
            "constraints": dict(table.constraints),
            "layout": [table.partition_by, table.cluster_by, table.live, table.keeps_changes],
        }
        for table in TABLES
    }
    assert digest(made) == TABLES_OF[LAKE_VERSION], f"a table has changed: {TODO}"


def test_memory_changes_with_a_step() -> None:
    made = {f"{kind.__module__}.{kind.__qualname__}": fields_of(kind) for kind in MEMORIES}
    assert digest(made) == MEMORY_OF[LAKE_VERSION], f"what a fold remembers has changed: {TODO}"


def test_there_is_a_step_to_each_version_and_a_stored_lake_of_each() -> None:
    versions = range(OLDEST_UPGRADED + 1, LAKE_VERSION + 1)
    assert [step.version for step in STEPS] == [*versions]
    assert [step.version for step in steps_from(LAKE_VERSION - 1)] == [LAKE_VERSION]
    assert steps_from(LAKE_VERSION) == ()
    for version in (OLDEST_UPGRADED, *versions):
        assert stored(version).exists(), version


def test_a_step_names_tables_of_today() -> None:
    names = {table.full_name for table in TABLES}
    for step in STEPS:
        assert {*step.rows, *step.back} <= names
        assert {*step.back} <= {name for name in names if name.startswith("bronze.")}
