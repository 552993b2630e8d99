"""Configurations, commands and queries of the documents are taken by the code. What can be read of
the documents alone is `tools/check_docs.py`'s, which `make lint` runs.
"""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from jobs.configuration.config import load
from kafka_metadata_history.answers.questions import question
from kafka_metadata_history.command import app
from local_cluster import __main__ as local_cluster
from schemas.lake import NAMES, TABLES, VIEWS
from tests.support.documents import ROOT, blocks, commands, section
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.for_each import for_each
from tools import check_docs


def short(text: str) -> str:
    """What a test is called by: a text's first line."""
    return text.strip().splitlines()[0][:40]


@for_each("text", blocks("yaml"))
def test_configurations_load(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert load(str(file)).clusters


@pytest.mark.parametrize("file", sorted((ROOT / "conf").glob("*.yaml")), ids=lambda file: file.name)
def test_examples_load(file: Path) -> None:
    assert load(str(file)).clusters


@for_each("line", commands("python -m local_cluster .*"))
def test_lines_of_the_local_cluster_are_understood(line: str) -> None:
    assert local_cluster._parser().parse_args(shlex.split(line)[3:]).command


@for_each("line", commands("kafka-metadata-history .*"))
def test_lines_of_the_command_are_understood(line: str) -> None:
    name, *arguments = shlex.split(line)[1:]
    command = app.commands[name]
    given, _, _ = command.make_parser(click.Context(command, info_name=name)).parse_args(arguments)
    if name == "query" and isinstance(given.get("asked"), str):
        filters = {
            each: given[each] for each in ("cluster", "topic", "broker", "group") if each in given
        }
        question(
            given["asked"],
            given.get("since", "1 day"),
            given.get("until"),
            filters,
            datetime.now(UTC),
        )


COMMAND, SUBMIT = (
    "kafka-metadata-history",
    "spark-submit --properties-file conf/spark-defaults.conf",
)
OF_COMMAND = "tests/unit/kafka_metadata_history"
RUN_BY = {
    rf"{COMMAND} (?:availability|report --week)\b.*": f"{OF_COMMAND}/test_availability.py",
    rf"{COMMAND} (?:check|status|query)\b(?!.* \.demo/).*": "tests/kafka/test_readme.py",
    rf"{COMMAND} (?:init|run|run --once|validate)": "tests/kafka/test_installed.py",
    rf"{COMMAND} (?:export|import)\b(?!.* s3a:).*": "tests/kafka/test_installed.py",
    rf"{COMMAND} .* \.demo/.*": "tests/kafka/test_installed.py",
    rf"{COMMAND} events\b.*": f"{OF_COMMAND}/test_events.py",
    rf"{COMMAND} explain\b(?!.* \.demo/).*": f"{OF_COMMAND}/test_explain.py",
    rf"{COMMAND} mark\b.*": "tests/spark/test_mark.py",
    rf"{COMMAND} may-stop\b.*": f"{OF_COMMAND}/test_may_stop.py",
    rf"{COMMAND} pack\b.*|mkdir environment .*": "tests/kafka/test_spark_cluster.py",
    rf"{COMMAND} mcp\b.*": f"{OF_COMMAND}/test_mcp_command.py",
    rf"{COMMAND} notify\b.*": f"{OF_COMMAND}/notify/test_command.py",
    rf"{COMMAND} report --since\b.*": "tests/kafka/test_readme.py",
    rf"{COMMAND} serve\b.*": f"{OF_COMMAND}/test_serve.py",
    r"curl .*": f"{OF_COMMAND}/test_serve.py",
    rf"{COMMAND} (?:show|diff)\b.*": f"{OF_COMMAND}/test_show.py",
    rf"{COMMAND} whatif\b.*": f"{OF_COMMAND}/test_whatif.py",
    rf"{SUBMIT} jobs/pipeline\.py .*\.yaml": "tests/kafka/test_pipeline.py",
    rf"{SUBMIT} (?!jobs/pipeline\.py .*\.yaml$).*": "tests/kafka/test_readme.py",
    r"(?:PYSPARK_.* )?spark-submit --master .*": "tests/kafka/test_spark_cluster.py",
    r"SPARK_REMOTE=.*": "tests/kafka/test_spark_cluster.py",
    r"(?:uv build|uv pip install|pip install|pipx) .*": "tests/kafka/test_installed.py",
    r"python -m local_cluster .*": "tests/kafka/test_local_cluster.py",
    r"python -m notebooks .*": "tests/notebooks/test_notebooks.py",
    r"make setup": ".ci/run",
    r"make demo": ".ci/nightly",
}
"""The commands of the documents -> the file that runs them: as they are written, but for addresses,
folders, ports and times.
"""
NOT_RUN = {
    rf"{COMMAND} export --to s3a:.*": "it is the line above it, to a bucket",
    r"git clone .*": "only whoever hosts the repository knows its address",
    r"\. \.venv/bin/activate": "tests name the programs of the environment",
    r"export KAFKA_HISTORY_TOKEN=.*": "tests have secrets that a search finds in what is kept",
    r"kafka-acls\.sh .*": "tests/kafka/test_permissions.py grants the same by requests",
}


def test_each_command_is_run_by_a_file_or_it_is_said_why_not() -> None:
    written = commands(r"\S.*")
    for line in written:
        found = [each for each in (*RUN_BY, *NOT_RUN) if re.fullmatch(each, line)]
        assert len(found) == 1, f"{line}: {found}"
    known = [*RUN_BY, *NOT_RUN]
    assert [each for each in known if not any(re.fullmatch(each, line) for line in written)] == []
    assert [file for file in RUN_BY.values() if not (ROOT / file).is_file()] == []


@for_each("sql", blocks("sql"))
def test_queries_name_tables_and_columns_that_are_there(sql: str) -> None:
    with duckdb_lake(dict.fromkeys(TABLES, ()), VIEWS) as lake:
        ask(lake, sql)


def described(heading: str) -> list[str]:
    """The tables and views that have a row in a part of tables.md."""
    rows = [line for line in section("tables.md", heading).splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`(\w+\.\w+)`", row.split(" | ")[0])]


def test_each_table_has_one_row_and_the_first_twelve_are_in_the_picture() -> None:
    first = described("## Twelve tables")
    assert len(first) == 12
    assert sorted([*first, *described("## All other tables")]) == sorted(NAMES)
    picture = section("tables.md", "## Twelve tables").partition("| table |")[0]
    assert {name.split(".")[1] for name in first} <= {*re.findall(r"\w+", picture)}


WRONG = {
    "It is so. What is gone is gone.": "say 'What is gone is gone.' otherwise",
    "- It is so.\n- What is gone, is": "say 'What is gone, is' otherwise",
    "It is so.\nWhat is gone is\ngone.": "say 'What is gone is gone.' otherwise",
    "It is so. That which is gone.": "say 'That which is gone.' otherwise",
    "It is told anew.": "say 'anew' otherwise",
    f"It is {'very ' * 30}long.": f"a long line: It is {'very ' * 6}very...",
    "See [sizing](docs/sizing.md#nowhere).": "docs/sizing.md#nowhere does not exist",
    "See [it](docs/nothing.md).": "docs/nothing.md does not exist",
    "Of `jobs/nothing.py`.": "jobs/nothing.py does not exist",
    "Of `jobs/pipeline.py::nothing`.": "jobs/pipeline.py::nothing does not exist",
    "Of silver.nothing.": "silver.nothing does not exist",
    "Run `make nothing`.": "make nothing does not exist",
    "Run `python -m tools.nothing`.": "python -m tools.nothing does not exist",
}


@pytest.mark.parametrize("text", WRONG)
def test_faults_of_a_document_are_found(text: str) -> None:
    assert WRONG[text] in list(check_docs.faults(ROOT / "NEW.md", text))


def test_a_question_may_begin_so_and_other_names_are_there() -> None:
    text = "# So\n\nWhat happened? Ask silver.topic_snapshots, or run `make test` of `tests/unit/`."
    assert list(check_docs.faults(ROOT / "NEW.md", text)) == []
