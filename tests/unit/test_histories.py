"""The registry of histories: what is made of them all names none of them."""

import re
from pathlib import Path

import pytest

from jobs.histories import HISTORIES
from schemas.lake import TABLES

ROOT = Path(__file__).parents[2]
READERS = (
    *("jobs/pipeline.py", "jobs/upkeep/upkeep.py", "jobs/upkeep/expiry.py"),
    *(str(file.relative_to(ROOT)) for file in sorted((ROOT / "jobs/rounds").glob("*.py"))),
)
SCHEMAS = {table.schema for table in TABLES}


@pytest.mark.parametrize("file", READERS)
def test_no_history_is_named_where_all_are_read(file: str) -> None:
    text = (ROOT / file).read_text()
    names = {
        name for history in HISTORIES for name in (*history().names, history.__name__)
    } - SCHEMAS
    assert not {name for name in names if re.search(rf"\b{name}\b", text)}


def test_each_table_of_a_round_has_one_history() -> None:
    made = [table for history in HISTORIES for table in history().tables]
    assert len(made) == len(set(made))
    assert {table for table in TABLES if table.schema in {"silver", "gold"}} <= set(made)


def test_histories_have_names_of_their_own_and_follow_some_that_are_there() -> None:
    names = [name for history in HISTORIES for name in history().names]
    assert len(names) == len(set(names))
    assert {name for history in HISTORIES for name in history.after} <= set(names)
