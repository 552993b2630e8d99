"""The registry of histories: what is made of them all names none of them."""

import re

from jobs.configuration.histories import DECLARED
from jobs.histories import HISTORIES
from schemas.gold import MARKS
from schemas.lake import TABLES
from tests.support.repository import ROOT

HOLD_NAMES = {
    "jobs/configuration/histories.py": "it is where the histories have their names",
    "jobs/group_lag.py": "an entry point of spark-submit that makes one history",
    "jobs/storage.py": "an entry point of spark-submit that makes one history",
    "jobs/incidents.py": "an entry point of spark-submit that makes one history",
    "jobs/isr_shrink.py": "an entry point of spark-submit that makes one history",
    "jobs/leader_churn.py": "an entry point of spark-submit that makes one history",
    "jobs/rebalance_cost.py": "an entry point of spark-submit that makes one history",
    "jobs/rebalance_history.py": "an entry point of spark-submit that makes one history",
    "jobs/snapshot_history.py": "an entry point of spark-submit that makes one history",
    "jobs/transaction_history.py": "an entry point of spark-submit that makes one history",
    "schemas/internal.py": "it says which views and columns are of which history",
}
"""File -> why it may name histories."""
NOT_HISTORIES = {
    ("jobs/configuration/config.py", "silver"): "a schema, as a key of retention",
    ("jobs/configuration/keys.py", "silver"): "a schema, as a key of retention",
    ("jobs/configuration/config.py", "storage"): "a key, of options of object stores",
    ("jobs/configuration/keys.py", "storage"): "a key, of options of object stores",
    ("tools/config_schema.py", "storage"): "a key, of options of object stores",
    ("jobs/validation/validity.py", "cluster_log"): "rows of bronze.cluster_log",
    ("jobs/validation/validity.yaml", "cluster_log"): "rows of bronze.cluster_log",
    ("kafka_metadata_history/demo/played.py", "rebalance_cost"): "a named question",
}
"""File and name -> what it names there that is no history."""
FOLDERS = (
    *("jobs/rounds", "jobs/configuration", "jobs/run", "jobs/upkeep", "jobs/validation"),
    *("kafka_metadata_history/answers", "kafka_metadata_history/demo"),
)
FILES = sorted(
    str(file.relative_to(ROOT))
    for file in (
        *(each for folder in FOLDERS for each in (ROOT / folder).iterdir() if each.is_file()),
        *(ROOT / "jobs").glob("*.py"),
        *(ROOT / "kafka_metadata_history").glob("*.py"),
        *(ROOT / "tools/reference.py", ROOT / "tools/config_schema.py"),
        ROOT / "schemas/internal.py",
        *(ROOT / "schemas/queries").glob("health.sql"),
    )
    if file.suffix in {".py", ".sql", ".yaml"}
)
KNOWN_OTHERWISE = {name for table in TABLES for name in (table.schema, table.name)}
"""Words that a file may have for a schema or a table: these name a history as a text alone."""
SQL_OF_MEMORY = re.compile(
    r"(from_json|get_json_object|json_extract\w*|json_tuple)\(\s*(\w+\.)?memory\s*,\s*'"
)


def named(text: str) -> set[str]:
    """The histories that a text names."""
    found = {each.name for each in DECLARED if re.search(rf"['\"]{each.name}['\"]", text)}
    own = {each.name for each in DECLARED} - KNOWN_OTHERWISE
    own |= {history.__name__ for history in HISTORIES} - {"Polls"}  # a word of its own, too
    return found | {name for name in own if re.search(rf"\b{name}\b", text)}


def test_no_history_is_named_where_all_are_read() -> None:
    found = {(file, name) for file in FILES for name in named((ROOT / file).read_text())}
    assert {file for file, _ in found - NOT_HISTORIES.keys()} == HOLD_NAMES.keys()


def test_what_is_excepted_is_there() -> None:
    for file, name in NOT_HISTORIES:
        assert name in (ROOT / file).read_text(), f"{file}: {name}"


def test_the_registry_and_the_classes_have_the_same_histories() -> None:
    of_classes = [each for history in HISTORIES for each in history.declared]
    assert sorted(each.name for each in of_classes) == sorted(each.name for each in DECLARED)
    for history in HISTORIES:
        beside = {name for names in history.other_states.values() for name in names}
        assert {each.name for each in history.declared} == {*history().names} | beside
        apart = {table for each in history.declared for table in each.kept_apart}
        assert apart <= {*history().tables}


def test_memory_is_opaque_to_sql() -> None:
    """What SQL asks for is a column of internal.states."""
    folders = ("jobs", "kafka_metadata_history", "schemas", "metadata_source", "notebooks")
    files = [
        file
        for folder in folders
        for suffix in ("py", "sql", "yaml", "ipynb")
        for file in (ROOT / folder).rglob(f"*.{suffix}")
    ]
    assert len(files) > 200
    found = [file for file in files if SQL_OF_MEMORY.search(file.read_text())]
    # An upgrade changes memory.
    assert {str(file.parent.relative_to(ROOT)) for file in found} <= {"schemas/upgrades"}


def test_each_table_of_a_round_has_one_history() -> None:
    made = [table for history in HISTORIES for table in history().tables]
    assert len(made) == len(set(made))
    of_people = {MARKS}
    every = {table for table in TABLES if table.schema in {"silver", "gold"}}
    assert every - of_people <= set(made)


def test_histories_have_names_of_their_own_and_follow_some_that_are_there() -> None:
    names = [name for history in HISTORIES for name in history().names]
    assert len(names) == len(set(names))
    assert {name for history in HISTORIES for name in history.after} <= set(names)
