"""What the documents say is so: options, configurations, commands, links, tables."""

import importlib.util
import re
from pathlib import Path

import pytest

from jobs.common.config import load
from jobs.common.questions import names
from metadata_source.options import GROUP_LOG_OPTIONS, OPTIONS, markdown_table
from schemas.lake import TABLES, VIEWS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(ROOT.glob("*.md"))
README = (ROOT / "README.md").read_text()


def found(pattern: str, text: str) -> list[str]:
    matches = re.findall(pattern, text, re.MULTILINE)
    assert matches, f"nothing matches {pattern}"
    return matches


def test_the_documents_are_there() -> None:
    assert [document.name for document in DOCUMENTS] == [
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "THIRD-PARTY.md",
    ]


def test_option_table_is_the_codes() -> None:
    (shown,) = found(r"<!-- options: .*? -->\n\n((?:\|.*\n)+)\n<!-- /options -->", README)
    assert shown.strip() == markdown_table(), "paste what metadata_source.options.markdown_table() returns"
    (shown,) = found(r"<!-- options of kafka_group_log: .*? -->\n\n((?:\|.*\n)+)\n<!-- /options of", README)
    own = tuple(option for option in GROUP_LOG_OPTIONS if option not in OPTIONS)
    assert shown.strip() == markdown_table(own), "paste what markdown_table() returns of these options"


@pytest.mark.parametrize(
    "text",
    [
        *found(r"```yaml\n((?:.*\n)+?)```", README),
        *(path.read_text() for path in sorted((ROOT / "conf").glob("*.yaml"))),
    ],
)
def test_configurations_load(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    assert load(str(file)).clusters


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_what_is_named_exists(document: Path) -> None:
    text = document.read_text()
    targets = set(found(r"^([a-z]+):", (ROOT / "Makefile").read_text()))
    tables = {each.full_name for each in (*TABLES, *VIEWS)}
    missing = {
        *(f"make {name}" for name in re.findall(r"(?:`|\$ )make ([a-z]+)", text) if name not in targets),
        *(name for name in re.findall(r"\b((?:bronze|silver|gold|internal)\.[a-z]\w*)", text) if name not in tables),
        *(link for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text) if not (ROOT / link).exists()),
        *(path for path in re.findall(r"`(\w+/[\w./-]*)`", text) if not (ROOT / path).exists()),
        *(name for name in re.findall(r"python -m ([a-z]\w*(?:\.\w+)*)", text) if not importlib.util.find_spec(name)),
    }
    assert not missing, f"{document.name} names what does not exist"


def test_the_tests_that_are_named_exist_and_each_thing_that_may_happen_has_one() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = found(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    missing = [test for file, test in named if f"\ndef {test}(" not in (ROOT / file).read_text()]
    assert not missing
    table = text.split("\n## When something happens\n")[1].split("\n## ")[0]
    for row in found(r"^\| (.*) \|$", table)[1:]:
        assert "`tests/" in row.split(" | ")[2], row


def test_the_questions_are_those_that_are_kept() -> None:
    section = README.split("\n### After an incident\n")[1].split("\n## ")[0]
    told = {name for line in found(r"^\| (`.*`) \|", section) for name in re.findall(r"`(\w+)`", line)}
    assert told == set(names())
