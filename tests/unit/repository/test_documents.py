"""What the documents say is so: options, configurations, commands, links, tables; and how they say
it.
"""

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from jobs.configuration.config import load
from kafka_metadata_history.answers.questions import about, names, question
from kafka_metadata_history.command import app
from local_cluster import __main__ as local_cluster
from metadata_source.options.table import CLUSTER_LOG_OPTIONS, GROUP_LOG_OPTIONS, OPTIONS
from schemas.lake import TABLES, VIEWS
from tests.support.documents import ROOT, TEXT, blocks, commands, section
from tests.support.duckdb_lake import ask, duckdb_lake
from tools import reference

DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "benchmarks" / "RESULTS.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *DESIGN,
]
IN_PLAIN_ENGLISH = [
    each for each in DOCUMENTS if each.name not in ("CHANGELOG.md", "THIRD-PARTY.md")
]
EVERY_OPTION = (*OPTIONS, *GROUP_LOG_OPTIONS, *CLUSTER_LOG_OPTIONS)
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()


def found(pattern: str, text: str) -> list[str]:
    matches = re.findall(pattern, text, re.MULTILINE)
    assert matches, f"nothing matches {pattern}"
    return matches


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_documents_are_there() -> None:
    assert [named(document) for document in DOCUMENTS] == [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "THIRD-PARTY.md",
        "benchmarks/RESULTS.md",
        "docs/README.md",
        "docs/configuration.md",
        "docs/data-source.md",
        "docs/demo.md",
        "docs/exit-statuses.md",
        "docs/local-cluster.md",
        "docs/notebooks.md",
        "docs/options.md",
        "docs/permissions.md",
        "docs/queries.md",
        "docs/security.md",
        "docs/sizing.md",
        "docs/spark-clusters.md",
        "docs/status.md",
        "docs/tables.md",
        "docs/validation.md",
        "docs/versions.md",
        "docs/design/answers.md",
        "docs/design/faults.md",
        "docs/design/gold.md",
        "docs/design/groups.md",
        "docs/design/logs.md",
        "docs/design/polls.md",
        "docs/design/recorder.md",
        "docs/design/rounds.md",
        "docs/design/silver.md",
        "docs/design/truth.md",
    ]


def test_each_page_can_be_found() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    index = (ROOT / "docs" / "README.md").read_text()
    assert set(found(r"^\| \[[\w-]+\.md\]\(([\w-]+\.md)\)", index)) == pages
    assert set(found(r"\(docs/([\w-]+\.md)\)", README)) == pages
    design = [path.name for path in DESIGN]
    assert sorted(found(r"^\| \[design/[\w-]+\.md\]\(design/([\w-]+\.md)\)", index)) == design
    assert sorted(found(r"\(docs/design/([\w-]+\.md)\) \|", ARCHITECTURE)) == design


@pytest.mark.parametrize("file", sorted({file for file, _ in reference.PARTS}))
def test_parts_that_the_code_knows_are_current(file: str) -> None:
    is_current = (ROOT / "docs" / file).read_text() == reference.current(file)
    assert is_current, f"docs/{file}: run `python -m tools.reference`"


def test_the_option_tables_have_every_option() -> None:
    text = (ROOT / "docs" / "options.md").read_text()
    assert set(found(r"^\| `([\w.]+)` \|", text)) == {option.name for option in EVERY_OPTION}


@pytest.mark.parametrize(
    "text",
    [*blocks("yaml"), *(path.read_text() for path in sorted((ROOT / "conf").glob("*.yaml")))],
)
def test_configurations_load(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert load(str(file)).clusters


@pytest.mark.parametrize("line", commands("python -m local_cluster .*"))
def test_lines_of_the_local_cluster_are_understood(line: str) -> None:
    assert local_cluster._parser().parse_args(shlex.split(line)[3:]).command


@pytest.mark.parametrize("line", commands("kafka-metadata-history .*"))
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


def test_every_command_is_documented() -> None:
    assert {shlex.split(line)[1] for line in commands("kafka-metadata-history .*", README)} >= {
        *("init", "check", "run", "query", "status", "validate")
    }
    assert set(app.commands) <= set(re.findall(r"kafka-metadata-history (\w+)", TEXT))


@pytest.mark.parametrize("sql", blocks("sql"))
def test_queries_name_tables_and_columns_that_are_there(sql: str) -> None:
    with duckdb_lake(dict.fromkeys(TABLES, ()), VIEWS) as lake:
        ask(lake, sql)


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_what_is_named_exists(document: Path) -> None:
    text = document.read_text()
    targets = set(found(r"^([a-z]+):", (ROOT / "Makefile").read_text()))
    tables = {each.full_name for each in (*TABLES, *VIEWS)}
    missing = {
        *(
            f"make {name}"
            for name in re.findall(r"(?:`|\$ )make ([a-z]+)", text)
            if name not in targets
        ),
        *(
            name
            for name in re.findall(
                r"\b((?:bronze|silver|gold|internal)\.(?!(?:md|py)\b)[a-z]\w*)", text
            )
            if name not in tables
        ),
        *(link for link in links(text) if not leads_somewhere(document, link)),
        *(path for path in re.findall(r"`(\w+/[\w./-]*)`", text) if not (ROOT / path).exists()),
        *(
            name
            for name in re.findall(r"python -m ([a-z]\w*(?:\.\w+)*)", text)
            if not importlib.util.find_spec(name)
        ),
    }
    assert not missing, f"{document.name} names what does not exist"


def links(text: str) -> list[str]:
    return re.findall(r"\]\((?!https?:)([^)]+)\)", text)


def leads_somewhere(document: Path, link: str) -> bool:
    """Whether a link's file is there, and the heading in it."""
    path, _, anchor = link.partition("#")
    target = document.parent / path if path else document
    if not target.exists():
        return False
    headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if anchor else []
    return not anchor or anchor in {
        re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings
    }


def test_messages_and_comments_lead_to_a_page() -> None:
    files = [
        path
        for folder in ("jobs", "metadata_source", "schemas")
        for path in (ROOT / folder).rglob("*.py")
    ]
    pages = {
        (path.name, page)
        for path in (*files, *(ROOT / "conf").iterdir(), ROOT / "jobs/validation/validity.yaml")
        for page in re.findall(r"\bdocs/(?:design/)?[\w-]+\.md", path.read_text())
    }
    assert pages
    assert [(name, page) for name, page in pages if not (ROOT / page).is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_functions_and_classes_that_are_named_are_in_their_files(document: Path) -> None:
    missing = [
        f"{file}::{name}"
        for file, name in re.findall(r"`([\w/]+\.py)::([\w.]+)`", document.read_text())
        for part in name.split(".")
        if not re.search(rf"^ *(?:def|class) {part}\b", (ROOT / file).read_text(), re.MULTILINE)
    ]
    assert not missing


def test_each_thing_that_may_happen_has_a_test() -> None:
    text = (ROOT / "docs" / "design" / "faults.md").read_text()
    table = text.split("\n## When something happens\n")[1].split("\n## ")[0]
    for row in found(r"^\| (.*) \|$", table)[1:]:
        assert "`tests/" in row.split(" | ")[2], row


def test_the_questions_are_those_that_are_kept() -> None:
    told = found(r"^\| `(\w+)` \|", section("queries.md", "## Named queries"))
    assert told == names()


# --- how they say it ---

FORBIDDEN = re.compile(r"\b(?:goes on|is told|stands|anew)\b")
SENTENCE = re.compile(r"(?:^|(?<=[.:;!?|#] )|(?<=\n\n)|(?<=\n- ))(?:What|That which)\b[^.?]*[.?]?")
"""A sentence that begins so. A question may."""


def faults(text: str) -> list[str]:
    unwrapped = re.sub(r"(?<=\S)\n *(?=[^\s|#-])", " ", text)
    beginnings = [each for each in SENTENCE.findall(unwrapped) if not each.endswith("?")]
    return FORBIDDEN.findall(unwrapped) + beginnings


def prose(text: str) -> str:
    """A document without its code."""
    return re.sub(r"`[^`\n]*`", "``", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def comments() -> Iterator[tuple[str, str]]:
    for each in (*TABLES, *VIEWS):
        yield each.full_name, each.comment
    for table in TABLES:
        yield from (
            (f"{table.full_name}.{column.name}", column.comment) for column in table.columns
        )
    for view in VIEWS:
        yield from ((f"{view.full_name}.{name}", meaning) for name, meaning in view.meanings)
    for option in EVERY_OPTION:
        yield option.name, option.meaning
    for name in names():
        yield name, " ".join(about(name))


@pytest.mark.parametrize("document", IN_PLAIN_ENGLISH, ids=named)
def test_the_documents_are_in_plain_english(document: Path) -> None:
    assert not faults(prose(document.read_text()))


def test_comments_of_columns_and_meanings_of_options_are_in_plain_english() -> None:
    assert not {name: wrong for name, text in comments() if (wrong := faults(text))}


def literals(file: Path) -> Iterator[str]:
    """The texts in a module that are no docstrings."""
    tree = ast.parse(file.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    skipped |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
        ):
            yield node.value


@pytest.mark.parametrize(
    "package", ["jobs", "kafka_metadata_history", "metadata_source", "schemas"]
)
def test_messages_are_in_plain_english(package: str) -> None:
    texts = [text for file in (ROOT / package).rglob("*.py") for text in literals(file)]
    assert len(texts) > 50
    assert [text for text in texts if " " in text and faults(text)] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("What is gone is gone.", ["What is gone is gone."]),
        ("It is so. What is gone is gone.", ["What is gone is gone."]),
        ("- It is so.\n- What is gone, is", ["What is gone, is"]),
        ("It is so.\nWhat is gone is\ngone.", ["What is gone is gone."]),
        ("# What is gone", ["What is gone"]),
        ("It is so. That which is gone.", ["That which is gone."]),
        ("What happened within the hour?", []),
        ("It goes on, and is told anew.", ["goes on", "is told", "anew"]),
        ("Who stands there is told.", ["stands", "is told"]),
        ("It says what happened: somewhat.", []),
    ],
)
def test_faults_are_found(text: str, wrong: list[str]) -> None:
    assert sorted(faults(text)) == sorted(wrong)


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_lines_are_short(document: Path) -> None:
    """Tables and code cannot be wrapped."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    assert [
        line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")
    ] == []


def test_some_pages_are_short() -> None:
    long = [
        named(document)
        for document in (ROOT / "README.md", ROOT / "ARCHITECTURE.md", *DESIGN)
        if len(document.read_text().splitlines()) > 250
    ]
    assert not long


@pytest.mark.parametrize("document", DESIGN, ids=named)
def test_a_page_of_the_design_begins_with_its_question_and_the_files_that_decide(
    document: Path,
) -> None:
    _, question, table = document.read_text().split("\n\n")[:3]
    assert question
    assert table.startswith("| file | decides |\n")
