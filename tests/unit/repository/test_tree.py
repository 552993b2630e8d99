"""The tree of imports: what each room knows nothing of (ARCHITECTURE.md), no circle of files, and
nothing that is too long to be read at once.
"""

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.for_each import for_each
from tests.support.repository import ROOT

PRODUCT = ("metadata_source", "schemas", "jobs", "kafka_metadata_history")
TEST_SIDE = ("local_cluster", "truth", "benchmarks", "tools", "tests")
LONGEST_FILE, MOST_METHODS = 500, 15
UNKNOWN = [
    ("metadata_source", ("schemas", "jobs", "kafka_metadata_history", "delta")),
    ("schemas", ("jobs", "kafka_metadata_history", "kafka")),
    ("jobs/configuration", ("jobs.rules", "jobs.rounds", "jobs.histories", "pyspark", "delta")),
    ("jobs/rules", ("jobs.rounds", "jobs.histories", "jobs.run", "pyspark", "delta", "kafka")),
    ("jobs/rounds", ("jobs.histories", "kafka")),
    ("jobs/histories", ("kafka", "metadata_source.transport")),
    ("kafka_metadata_history/answers", ("jobs.histories", "kafka")),
    (
        "kafka_metadata_history/notify",
        ("jobs.histories", "pyspark", "duckdb", "deltalake", "kafka"),
    ),
    ("kafka_metadata_history/report", ("jobs", "kafka")),
    ("kafka_metadata_history/jars", ("jobs", "schemas", "local_cluster")),
    ("local_cluster", ("jobs", "schemas", "metadata_source")),
]
"""By folder, the modules that no file in it imports, not even for a type."""


@cache
def modules() -> dict[str, Path]:
    """The files of the product and of what measures and checks it, by the modules' names."""
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for room in (*PRODUCT, *TEST_SIDE[:-1])
        for file in sorted((ROOT / room).rglob("*.py"))
    }


@cache
def imported(file: Path) -> frozenset[str]:
    """The modules that a file imports anywhere, each with the names that it takes of them."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return frozenset(found)


def test_no_file_is_in_a_circle_of_imports() -> None:
    known = modules()
    graph = {name: set(_modules_in(imported(file), known)) - {name} for name, file in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def _modules_in(names: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """The modules among imported names: a package counts only for what it has itself."""
    names = set(names)
    for name in names & set(known):
        of_package = {each for each in names if each.rpartition(".")[0] == name}
        if not of_package or not all(each in known for each in of_package):
            yield name


@for_each(("folder", "unknown"), UNKNOWN)
def test_a_room_knows_nothing_of_what_it_must_not_know(
    folder: str, unknown: tuple[str, ...]
) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    found = [
        (file.relative_to(ROOT), name)
        for file in files
        for name in imported(file)
        for other in unknown
        if name == other or name.startswith(f"{other}.")
    ]
    assert not found


def test_only_the_demo_imports_the_local_cluster() -> None:
    """It plays an incident on one. What is not installed at all is imported nowhere."""
    importing = {
        (str(file.relative_to(ROOT).parent), name.partition(".")[0])
        for room in PRODUCT
        for file in (ROOT / room).rglob("*.py")
        for name in imported(file)
    }
    assert {each for each in importing if each[1] in TEST_SIDE} == {
        ("kafka_metadata_history/demo", "local_cluster")
    }


@for_each("room", [*PRODUCT, *TEST_SIDE])
def test_files_can_be_read_at_once(room: str) -> None:
    lines = {
        str(file.relative_to(ROOT)): file.read_text().count("\n")
        for file in (ROOT / room).rglob("*.py")
    }
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}


def test_classes_can_be_read_at_once() -> None:
    methods = {
        f"{name}.{node.name}": sum(isinstance(each, ast.FunctionDef) for each in node.body)
        for name, file in modules().items()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    assert {name: count for name, count in methods.items() if count > MOST_METHODS} == {}
