"""Find faults in documents and in the product's words: ``python -m tools.check_docs``.

Documents lead to pages, files, targets, tables, modules and functions that exist, have short lines,
and say what the code says. All words are plain English. The command exits 1 if it finds a fault.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.answers.questions import about, names
from kafka_metadata_history.command import app
from metadata_source.options.table import (
    CLUSTER_LOG_OPTIONS,
    GROUP_LOG_OPTIONS,
    OPTIONS,
    TRANSACTION_LOG_OPTIONS,
)
from schemas.lake import TABLES, VIEWS
from tools import reference

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
DESIGN: Final = sorted((ROOT / "docs" / "design").glob("*.md"))
DOCUMENTS: Final = [
    *sorted(ROOT.glob("*.md")),
    ROOT / "benchmarks" / "RESULTS.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *DESIGN,
]
SHORT: Final = {ROOT / "README.md", ROOT / "ARCHITECTURE.md", *DESIGN}
"""Documents of at most `MOST_LINES` lines."""
MOST_LINES, LONGEST_LINE = 250, 120
IN_OTHER_WORDS: Final = {"CHANGELOG.md", "THIRD-PARTY.md"}
PACKAGES: Final = ("jobs", "kafka_metadata_history", "metadata_source", "schemas")

_FORBIDDEN: Final = re.compile(r"\b(?:goes on|is told|stands|anew)\b")
_SENTENCE: Final = re.compile(
    r"(?:^|(?<=[.:;!?|#] )|(?<=\n\n)|(?<=\n- ))(?:What|That which)\b[^.?]*[.?]?"
)
"""A sentence that begins so. A question may."""
_NAMED: Final = re.compile(r"\b((?:bronze|silver|gold|internal)\.(?!(?:md|py)\b)[a-z]\w*)")


def words(text: str) -> list[str]:
    """Return what is not plain English in a text."""
    unwrapped = re.sub(r"(?<=\S)\n *(?=[^\s|#-])", " ", text)
    beginnings = [each for each in _SENTENCE.findall(unwrapped) if not each.endswith("?")]
    return [*_FORBIDDEN.findall(unwrapped), *beginnings]


def faults(document: Path, text: str) -> Iterator[str]:
    """Yield what is wrong with one document by itself."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    if document.name not in IN_OTHER_WORDS:
        yield from (f"say {each!r} otherwise" for each in words(re.sub(r"`[^`\n]*`", "``", prose)))
    for line in prose.splitlines():
        if len(line) > LONGEST_LINE and not line.startswith("|"):
            yield f"a long line: {line[:40]}..."
    if document in SHORT and len(text.splitlines()) > MOST_LINES:
        yield f"more than {MOST_LINES} lines"
    if document in DESIGN:
        _, question, table = text.split("\n\n")[:3]
        if not question or not table.startswith("| file | decides |\n"):
            yield "it does not begin with its question and the files that decide"
    yield from (f"{name} does not exist" for name in missing(document, text))


def missing(document: Path, text: str) -> list[str]:
    """Return the names in a document of things that are not there."""
    targets = re.findall(r"(?m)^([a-z]+):", _read("Makefile"))
    tables = {each.full_name for each in (*TABLES, *VIEWS)}
    called = re.findall(r"(?:`|\$ )make ([a-z]+)", text)
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", text)
    modules = re.findall(r"python -m ([a-z]\w*(?:\.\w+)*)", text)
    return [
        *(f"make {name}" for name in called if name not in targets),
        *(name for name in _NAMED.findall(text) if name not in tables),
        *(link for link in links if not leads_somewhere(document, link)),
        *(path for path in re.findall(r"`(\w+/[\w./-]*)`", text) if not (ROOT / path).exists()),
        *(f"python -m {name}" for name in modules if not _is_module(name)),
        *(
            f"{file}::{name}"
            for file, name in re.findall(r"`([\w/]+\.py)::([\w.]+)`", text)
            if not _defines(ROOT / file, name)
        ),
    ]


def _is_module(name: str) -> bool:
    """Return whether a module is here, or in the wheel (hatch_build.py)."""
    here = re.sub(r"^kafka_metadata_history\.(?=(jobs|local_cluster|metadata_source)\b)", "", name)
    return importlib.util.find_spec(here) is not None


def _defines(file: Path, name: str) -> bool:
    code = file.read_text(encoding="utf-8") if file.exists() else ""
    return all(
        re.search(rf"^ *(?:def|class) {part}\b", code, re.MULTILINE) for part in name.split(".")
    )


def leads_somewhere(document: Path, link: str) -> bool:
    """Return whether a link's file is there, and the heading in it."""
    path, _, anchor = link.partition("#")
    target = document.parent / path if path else document
    if not target.exists() or not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def pages_without_a_row() -> Iterator[str]:
    """Yield pages that an index does not have."""
    pages = [page for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"]
    index, readme = _read("docs/README.md"), _read("README.md")
    rows = [("docs/README.md", index, f"| [{page.name}]({page.name})") for page in pages]
    rows += [("README.md", readme, f"(docs/{page.name})") for page in pages]
    for page in DESIGN:
        name = f"design/{page.name}"
        rows.append(("docs/README.md", index, f"| [{name}]({name})"))
        rows.append(("ARCHITECTURE.md", _read("ARCHITECTURE.md"), f"(docs/{name}) |"))
    yield from (f"{of}: no {row}" for of, text, row in rows if row not in text)


def what_the_code_knows_better() -> Iterator[str]:
    """Yield parts of documents that are old, commands without a word, faults without a test."""
    for file in sorted({file for file, _ in reference.PARTS}):
        if _read(f"docs/{file}") != reference.current(file):
            yield f"docs/{file}: run `python -m tools.reference`"
    for_users = "\n".join(_read(path) for path in DOCUMENTS if path not in DESIGN)
    for name in sorted(set(app.commands)):
        if not re.search(rf"kafka-metadata-history {name}\b", for_users):
            yield f"README.md and docs/: the command {name} is in none"
    things = _read("docs/design/faults.md").split("\n## When something happens\n")[1]
    for row in re.findall(r"^\| (.*) \|$", things.split("\n## ")[0], re.MULTILINE)[1:]:
        if "`tests/" not in row.split(" | ")[2]:
            yield f"docs/design/faults.md: no test of: {row}"


def _read(path: str | Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def of_the_product() -> Iterator[str]:
    """Yield what is wrong with messages, comments of columns, and meanings of options."""
    for name, text in _comments():
        yield from (f"{name}: say {each!r} otherwise" for each in words(text))
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    for path in (*files, *(ROOT / "conf").iterdir(), ROOT / "jobs/validation/validity.yaml"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        for page in re.findall(r"\bdocs/(?:design/)?[\w-]+\.md", text):
            if not (ROOT / page).is_file():
                yield f"{name}: {page} does not exist"
        if path.suffix == ".py":
            for literal in _literals(text):
                if " " in literal:
                    yield from (f"{name}: say {each!r} otherwise" for each in words(literal))


def _comments() -> Iterator[tuple[str, str]]:
    for each in (*TABLES, *VIEWS):
        yield each.full_name, each.comment
    for table in TABLES:
        yield from ((f"{table.full_name}.{each.name}", each.comment) for each in table.columns)
    for view in VIEWS:
        yield from ((f"{view.full_name}.{name}", meaning) for name, meaning in view.meanings)
    for option in (*OPTIONS, *GROUP_LOG_OPTIONS, *TRANSACTION_LOG_OPTIONS, *CLUSTER_LOG_OPTIONS):
        yield option.name, option.meaning
    yield from ((name, " ".join(about(name))) for name in names())


def _literals(code: str) -> Iterator[str]:
    """Yield the texts in a module that are no docstrings."""
    nodes = list(ast.walk(ast.parse(code)))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
    constants = (node for node in nodes if isinstance(node, ast.Constant))
    for node in constants:
        if isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def main() -> int:
    """Print all faults; return the exit code."""
    found = [
        f"{document.relative_to(ROOT)}: {fault}"
        for document in DOCUMENTS
        for fault in faults(document, _read(document))
    ]
    found += [*pages_without_a_row(), *what_the_code_knows_better(), *of_the_product()]
    print("\n".join(found) or f"{len(DOCUMENTS)} documents: no fault found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
