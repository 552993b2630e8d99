"""The pages that ask: named questions as forms, and SQL of a person."""

from __future__ import annotations

import json
import subprocess
import sys
from io import SEEK_END
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa

from kafka_metadata_history.answers.asking import answered
from kafka_metadata_history.answers.questions import (
    FILTERS,
    QueryError,
    about,
    by_theme,
    filters_of,
    names,
    question,
)
from kafka_metadata_history.names import NAME
from kafka_metadata_history.web.page import (
    Field,
    Form,
    Link,
    Links,
    Page,
    Rows,
    address,
    filters_in,
)
from metadata_source.text import did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_metadata_history.answers.asking import Answer
    from kafka_metadata_history.web.page import Asking, Given

SHOWN: Final = 500
"""Rows of a page; the CSV has more."""
MOST: Final = 100_000
"""Rows of CSV, and of SQL that a person wrote."""
DAY: Final = "1 day"
LIMIT_S: Final = 30
"""Of SQL that a person wrote."""
_MEMORY: Final = 4 * 2**30
"""Of the process that answers it, in bytes: what it maps, which is more than it uses."""
_LIMITED: Final = (
    "import resource\n"
    f"resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY}, {_MEMORY}))\n"
    f"resource.setrlimit(resource.RLIMIT_FSIZE, ({2**30}, {2**30}))\n"
    "from kafka_metadata_history.command import main\n"
    "main()\n"
)
"""The command, within bounds of memory and of the files that it writes."""
_ENDED: Final = (
    f"no answer: its process ended, as one does that needs more than {_MEMORY // 2**30} GiB; ask "
    "for less"
)
_LONGEST: Final = 50_000_000
"""Of its answer, in bytes."""


def questions(of: Asking, *, allow_sql: bool) -> Page:
    """All named questions, by theme, and a form for SQL where it is allowed."""
    sections = [
        Links(
            theme.replace(" ", "_"),
            theme.capitalize(),
            [Link(name, f"/ask/{name}", about(name)[0]) for name in found],
        )
        for theme, found in by_theme().items()
    ]
    return Page("Ask", "/ask", [*sections, *([sql_form(of.given)] if allow_sql else [])])


def sql_form(given: Given) -> Form:
    """The form for SQL that a person writes."""
    return Form(
        "sql",
        "SQL",
        "/ask/sql",
        [Field("sql", "One SELECT of Spark's SQL", given.get("sql", ""), is_long=True)],
        "Ask",
        f"Tables and columns are in docs/tables.md. An answer takes {LIMIT_S} s at most.",
        by_post=True,
    )


def answer_in(name: str, of: Asking) -> Answer:
    """Return the answer to a named question with what the address gives. Raises QueryError."""
    if name not in names():
        raise QueryError(
            f"no question is called {name!r}; {did_you_mean(name, names(), 'see /ask')}"
        )
    if unknown := [each for each in of.given if each not in {*FILTERS, "since", "until", "format"}]:
        raise QueryError(f"{name} knows no {unknown[0]}; it takes {', '.join(filters_of(name))}")
    since, until = of.given.get("since", DAY), of.given.get("until")
    asked = question(name, since, until, filters_in(of.given), of.now)
    return answered(of.lake(), asked)


def answer(name: str, of: Asking) -> Page:
    """A named question: its form, and its answer."""
    found = answer_in(name, of)
    rows = found.rows
    short, more = about(name)
    fields = [
        Field("since", "Since", of.given.get("since", DAY), "a time in ISO form, or how long ago"),
        Field("until", "Until", of.given.get("until", ""), "empty: now"),
        *(
            Field(each, each.replace("_", " ").capitalize(), of.given.get(each, ""), FILTERS[each])
            for each in filters_of(name)
        ),
    ]
    part = (
        f"{SHOWN} of {len(rows):,} rows are shown; the CSV has them. " if len(rows) > SHOWN else ""
    )
    return Page(
        short,
        f"/ask/{name}",
        [
            Form("question", name, f"/ask/{name}", fields, "Ask", more),
            Rows(
                "rows",
                "Answer",
                rows.slice(0, SHOWN),
                part,
                "No rows in this window, as far as it is known.",
                more=address(f"/ask/{name}", **of.given, format="csv"),
            ),
        ],
        lines=found.lines(),
    )


class OwnSql:
    """Answers SQL that people write, by the command `query` in a process for each, which ends at
    its limits of time, memory and output.
    """

    def __init__(self, config: str) -> None:
        """Keep the file that the command is to take."""
        self._config = config
        self._processes: set[subprocess.Popen[bytes]] = set()

    def page(self, sql: str) -> Page:
        """Return the page of an answer."""
        rows = self.answer(sql)
        part = f"{SHOWN} of {len(rows):,} rows are shown." if len(rows) > SHOWN else ""
        found = Rows("rows", "Answer", rows.slice(0, SHOWN), part, "No rows.")
        return Page("SQL", "/ask/sql", [sql_form({"sql": sql}), found])

    def answer(self, sql: str, limit_s: float = LIMIT_S) -> pa.Table:
        """Return its rows. Raises QueryError with the line that the command prints."""
        if not sql.strip() or "\0" in sql:
            raise QueryError("one SELECT is needed")
        # With a space it is no name of a question.
        command = [sys.executable, "-c", _LIMITED, "query", "--config", self._config]
        command += ["--format", "json", "--limit", str(MOST), "--", f"{sql} "]
        with TemporaryFile() as found, TemporaryFile() as problems:
            status = self._run(command, found, problems, limit_s)
            if found.tell() > _LONGEST:
                raise QueryError(f"the answer has more than {_LONGEST:,} bytes: ask for less")
            found.seek(0)
            problems.seek(0)
            if status != 0:
                raise QueryError(problem_of(problems.read().decode(errors="replace")))
            rows: list[Mapping[str, object]] = [json.loads(line) for line in found]
        return pa.Table.from_pylist(rows)

    def _run(
        self, command: Sequence[str], found: IO[bytes], problems: IO[bytes], limit_s: float
    ) -> int:
        """Run a command and return its exit status. `found`, `problems`: what it prints."""
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=found, stderr=problems
        ) as process:
            self._processes.add(process)
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise QueryError(f"no answer within {limit_s:g} s: ask for less") from None
            finally:
                process.kill()
                self._processes.discard(process)
                found.seek(0, SEEK_END)

    def end(self) -> None:
        """End all that is asked, from another thread."""
        for process in [*self._processes]:
            process.kill()


def problem_of(printed: str) -> str:
    """Return the line with which a command ended; one that has none had no memory left."""
    own = f"{NAME}: "
    lines = [line for line in printed.splitlines() if line.startswith(own)]
    return printable(lines[-1].removeprefix(own)) if lines else _ENDED
