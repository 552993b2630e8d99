"""Answers beside metadata, among rows of bronze."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from metadata_source.enrichment import Answer, Asker, Rows, Subject, answer
from metadata_source.poller import Poller


def outcomes_of(rows: Iterable[Any]) -> Mapping[tuple[str, int], dict[str, str]]:
    """Alias and number of a poll -> the outcomes of the questions beside it, by kind. None of a
    poll without any.
    """
    found: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row["record"] == "answer":
            found[row["cluster"], row["n"]][row["kind"]] = row["outcome"]
    return found


@dataclass(frozen=True)
class Beside:
    """What questions beside a poll came to: outcomes by kind, and rows of those that were
    answered.
    """

    outcomes: Mapping[str, str]
    rows: Mapping[str, Rows]


def beside(answers: Iterable[Answer]) -> Beside:
    answers = list(answers)
    return Beside(
        {each.enrichment: each.outcome for each in answers},
        {each.enrichment: each.rows for each in answers if each.rows is not None},
    )


def answered(kind: str, about: Subject, asker: Asker) -> tuple[str, Rows | None]:
    """Ask one kind; its outcome, and its rows."""
    found = answer(kind, about, asker)
    return found.outcome, found.rows


def ask_beside(poller: Poller, about: Subject, timeout_ms: int = 5_000) -> Beside:
    """Ask all kinds of a subject after a good poll, over connections that end with it."""
    with closing(poller.asking(timeout_ms)) as asking:
        return beside(asking.answers(about, poller.answerer))
