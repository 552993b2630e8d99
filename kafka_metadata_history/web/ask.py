"""The pages that ask: named questions as forms, and SQL of a person."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Final

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
    from collections.abc import Mapping

    from kafka_metadata_history.answers.asking import Answer
    from kafka_metadata_history.web.page import Asking, Given

SHOWN: Final = 500
"""Rows of a page; the CSV has more."""
MOST: Final = 100_000
"""Rows of CSV and of JSON."""
DAY: Final = "1 day"
LIMIT_S: Final = 30
"""Of SQL that a person wrote."""
_MEMORY: Final = 4 * 2**30
"""Of the process that answers it, in bytes: what it maps, which is more than it uses."""
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


def own_sql(sql: str, config: str) -> Page:
    """The answer to SQL that a person wrote."""
    rows = answer_of_process(sql, config)
    part = f"{SHOWN} of {len(rows):,} rows are shown." if len(rows) > SHOWN else ""
    return Page(
        "SQL",
        "/ask/sql",
        [
            sql_form({"sql": sql}),
            Rows("rows", "Answer", rows.slice(0, SHOWN), part, "No rows."),
        ],
    )


def answer_of_process(sql: str, config: str, limit_s: float = LIMIT_S) -> pa.Table:
    """Return what SQL answers, by the command `query` in a process of its own that ends at its
    limits of time and memory. Raises QueryError with the line that the command says.
    """
    # What is no name is SQL.
    command = [sys.executable, "-m", "kafka_metadata_history", "query", "--config", config]
    command += ["--format", "json", "--limit", str(MOST), "--", f"{sql} "]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        try:
            found, said = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise QueryError(f"no answer within {limit_s:g} s: ask for less") from None
        finally:
            process.kill()
    if process.returncode != 0:
        lines = said.decode(errors="replace").strip().splitlines() or [_ENDED]
        raise QueryError(printable(lines[-1].removeprefix("kafka-metadata-history: ")))
    if len(found) > _LONGEST:
        raise QueryError(
            f"the answer has {len(found):,} bytes, more than {_LONGEST:,}: ask for less"
        )
    rows: list[Mapping[str, object]] = [json.loads(line) for line in found.splitlines()]
    return pa.Table.from_pylist(rows)
