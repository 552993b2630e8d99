"""The comparison of the controllers' log finds whatever is wrong: the fold makes states of a random
log, which agree, and then are spoilt in one place.
"""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from schemas import silver
from schemas.table import Table
from tests.support.cluster_logs import RandomLog, in_effect, rows_of
from tests.support.dumped import printed, times
from tests.support.log_rounds import LogLake
from truth.compare_log import Rows, _configs, compare_rows
from truth.log import truth_of
from truth.model.states import ConfigChange, Truth

OF_PARTITIONS = {
    "states": silver.PARTITION_SNAPSHOTS,
    "registrations": silver.PARTITION_REGISTRATIONS,
    "states of the ELR": silver.PARTITION_ELR,
    "reassignments": silver.REASSIGNMENTS,
}
SEEDS = (0, 1, 2)


@cache
def _made(seed: int) -> tuple[Truth, dict[str, list[dict[str, Any]]]]:
    """The truth of a random log, and what history makes of it."""
    entries = RandomLog(random.Random(seed)).grow(60)
    at, lake = times(entries), LogLake()
    lake.take(rows_of(entries))
    # Clocks of controllers differ. A record is not in effect before the one before it.
    told = [printed(entry) for entry in in_effect(entries) if not entry.is_control]
    return truth_of(replace(record, at=at[record.offset]) for record in told), lake.rows


def made(seed: int) -> tuple[Truth, dict[str, list[dict[str, Any]]]]:
    """The same, whose lists of rows may be changed."""
    truth, tables = _made(seed)
    return truth, {table: list(rows) for table, rows in tables.items()}


def from_rows(tables: dict[str, list[dict[str, Any]]]) -> Rows:
    def rows(table: Table) -> list[dict[str, Any]]:
        found = tables.get(table.full_name, [])
        return sorted(found, key=lambda row: row.get("first_poll") or row["poll"])

    return rows


def faults(truth: Truth, tables: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Of states of partitions and brokers; the fold of silver makes no events."""
    found = compare_rows(from_rows(tables), truth, 2**62).faults
    return [fault for fault in found if fault.split(":")[0] in (*OF_PARTITIONS, "broker states")]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_history_makes_of_a_log_agrees(seed):
    truth, tables = made(seed)
    assert faults(truth, tables) == []
    assert all(tables[table.full_name] for table in OF_PARTITIONS.values())


@pytest.mark.parametrize("about", OF_PARTITIONS)
@pytest.mark.parametrize("name", ["from_offset", "valid_from", "valid_to", "partition"])
def test_a_state_that_is_another_is_found(about, name):
    truth, tables = made(SEEDS[0])
    table = OF_PARTITIONS[about].full_name
    one = next(place for place, row in enumerate(tables[table]) if row["end_reason"] == "gone")
    row = tables[table][one]
    other = row[name] + (timedelta(milliseconds=1) if name.startswith("valid") else 1)
    tables[table][one] = row | {name: other}
    assert {fault.split(":")[0] for fault in faults(truth, tables)} == {about}


@pytest.mark.parametrize("about", OF_PARTITIONS)
def test_a_state_that_is_missing_and_one_that_never_was_are_found(about):
    truth, tables = made(SEEDS[0])
    rows = tables[OF_PARTITIONS[about].full_name]
    spoilt = rows.pop(next(place for place, row in enumerate(rows) if row["end_reason"] == "gone"))
    assert faults(truth, tables)
    rows += [spoilt, spoilt | {"first_poll": spoilt["first_poll"] + "x", "partition": 99}]
    assert len(faults(truth, tables)) == 1


def test_history_has_no_value_of_a_setting_that_may_be_a_secret() -> None:
    at, rows = (
        datetime(2026, 1, 1, tzinfo=UTC),
        {"cleanup.policy": "compact", "segment.bytes": None},
    )
    made = [ConfigChange(at, 2, "t", name, "compact") for name in rows]
    expected = [(at, 2, "t", name, value) for name, value in rows.items()]
    assert list(_configs(made)) == expected
