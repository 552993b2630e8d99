"""Questions of `enrich` that get no answer again and again, for `status`, and lines of the
log.

A question that this cluster's version does not have (`not_supported`) is none of them: nothing can
be done there.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from metadata_source.outcomes import FAILED, NOT_ALLOWED, NOT_SUPPORTED, PUT_OFF, is_answered
from metadata_source.text import counted, printable

Answer = Mapping[str, Any]
"""A row of bronze with record 'answer'."""

AGAIN = 3
"""So many in a row are a line of the log. One alone is usual: coordinators are loading after a
broker has died.
"""


@dataclass(frozen=True)
class Asked:
    """Answers of one cluster to one kind of question. `failing`: how many failed or were refused
    since the last good one, the first of which was asked with the poll that was due at
    `failing_since`; `outcome`: of the last of these that was asked and not put off.
    """

    kind: str
    failing: int = 0
    failing_since: datetime | None = None
    outcome: str | None = None

    @property
    def says(self) -> str:
        """Why, and what to do, in one printable line."""
        why = printable((self.outcome or "").removeprefix(FAILED))
        if self.outcome == NOT_ALLOWED:
            why = (
                f"{NOT_ALLOWED}: grant what docs/permissions.md names, or take {self.kind} out of "
                "`enrich`"
            )
        since = (
            ""
            if self.failing_since is None
            else f" since {self.failing_since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        )
        return f"{self.kind} got no answer {counted(self.failing, 'time')} in a row{since}: {why}"


def asked_of(rows: Iterable[Mapping[str, Any]]) -> tuple[Asked, ...]:
    """The questions of one cluster, by kind. `rows`: fields of Asked."""
    found = [
        Asked(row["kind"], row["failing"], row["failing_since"], row["outcome"]) for row in rows
    ]
    return tuple(sorted(found, key=lambda each: each.kind))


class Unanswered:
    """The questions that get no answer, as far as headers of answers were seen. One that is seen
    again says nothing.
    """

    def __init__(self) -> None:
        self._asked: dict[tuple[str, str], Asked] = {}
        self._last: dict[tuple[str, str], str] = {}

    def see(self, answers: Iterable[Answer]) -> Iterator[tuple[int, str]]:
        """Lines with their levels: one when a question got no answer AGAIN times in a row, one when
        it gets one again.

        `answers`: new ones of any cluster, in any order.
        """
        for row in sorted(answers, key=lambda row: row["poll_id"]):
            key = row["cluster"], row["kind"]
            if row["poll_id"] <= self._last.get(key, ""):
                continue
            self._last[key] = row["poll_id"]
            before = self._asked.get(key, Asked(row["kind"]))
            self._asked[key] = after = _after(before, row)
            name = f"cluster {printable(row['cluster'])}"
            if before.failing < AGAIN <= after.failing:
                yield logging.WARNING, f"{name}: {after.says}; polls are good meanwhile"
            elif after.failing == 0 and before.failing >= AGAIN:
                says = (
                    f"{before.kind} is answered again, after {counted(before.failing, 'failure')} "
                    "in a row"
                )
                yield logging.WARNING, f"{name}: {says}"


def _after(before: Asked, row: Answer) -> Asked:
    outcome: str = row["outcome"]
    if is_answered(outcome) or outcome == NOT_SUPPORTED:
        return Asked(before.kind)
    is_put_off = outcome.startswith(PUT_OFF) and before.outcome is not None
    since = before.failing_since or row["scheduled_at"]
    return Asked(before.kind, before.failing + 1, since, before.outcome if is_put_off else outcome)
