"""Tables of the page: answers of named questions about its window, where there are any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from kafka_metadata_history.answers.questions import QueryError, filters_of, question
from kafka_metadata_history.report.marks import shown
from schemas.lake import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kafka_metadata_history.answers.questions import Ask, Question

MOST: Final = 10
"""Rows of a table."""


@dataclass(frozen=True)
class Listing:
    """A table of the first rows that a named question answers. `chosen`: those that have this value
    in this column, alone. `is_newest_first`: the question has the oldest first.
    """

    question: str
    title: str
    about: str
    columns: tuple[str, ...]
    chosen: tuple[str, object] | None = None
    is_newest_first: bool = False


@dataclass(frozen=True)
class Listed:
    """The answer to a question. `rows`: the first of `count` rows. `missing`: why there is no
    answer.
    """

    listing: Listing
    rows: pa.Table | None = None
    count: int = 0
    missing: str = ""


LISTINGS: Final = (
    Listing(
        "stuck_transactions",
        "Transactions that were stuck",
        "At the window's end, the longest first. Readers of committed records wait for them.",
        (
            "transactional_id", "stuck", "stuck_since", "stuck_s", "timeout_s", "coordinator",
            "partition_count", "topics",
        ),
    ),
    Listing(
        "open_transactions",
        "Transactions that hang",
        "Open on a partition, and no coordinator has them: an administrator alone ends them.",
        ("opened_by", "producer_id", "producer_epoch", "started_at", "told_from", "told_to"),
        chosen=("is_hanging", True),
    ),
    Listing(
        "transactions",
        "Transactions that were long or aborted",
        "Those that were open for longer than their time-out or five minutes, were stuck, or were "
        "aborted by their coordinator; the longest first.",
        (
            "transactional_id", "started_at", "seconds_min", "seconds_max", "timeout_s", "state",
            "outcome", "reason", "coordinator",
        ),
    ),
    Listing(
        "storage",
        "The fullest log directories",
        "At the window's end, the least usable part first.",
        (
            "broker_id", "log_dir", "state", "size_bytes", "total_bytes", "usable_bytes", "usable",
            "answered_at",
        ),
        chosen=("level", "log_dir"),
    ),
    Listing(
        "growth",
        "Days until log directories are full",
        "By the greatest size of each day; those that are full first come first.",
        (
            "broker_id", "log_dir", "days", "bytes_a_day_min", "bytes_a_day_max", "usable_bytes",
            "days_until_full_min", "days_until_full_max", "not_answered_since", "unknown",
        ),
    ),
    Listing(
        "controllers",
        "Active controllers",
        "The newest first. Controller -1 is none. Elections that came too close together are "
        "an incident, quorum_flapping.",
        (
            "controller_id", "controller_epoch", "began_after", "began_before", "ended_after",
            "ended_before", "end_reason", "times_active",
        ),
        is_newest_first=True,
    ),
)  # fmt: skip


def listed(ask: Ask, asked: Question, listings: Sequence[Listing]) -> Iterator[Listed]:
    """Ask the questions about the window and the cluster of `asked`. Yields those that have rows,
    and those that the lake is too old for; none that cannot be narrowed as the page is.
    """
    since, until = asked.since.isoformat(), asked.until.isoformat()
    for each in listings:
        if not asked.filters.keys() <= {*filters_of(each.question)}:
            continue
        sql = question(each.question, since, until, asked.filters, asked.until).sql
        try:
            rows = ask(sql)
        except (QueryError, LakeError) as error:
            # A lake has no table that no job has made yet, or that came after its version.
            yield Listed(each, missing=shown(error))
            continue
        if each.chosen is not None:
            column, value = each.chosen
            rows = rows.filter(pc.equal(rows[column], value))
        if len(rows) and each.is_newest_first:
            rows = rows.take([*reversed(range(len(rows)))])
        if len(rows):
            yield Listed(each, rows.slice(0, MOST).select(each.columns), len(rows))
