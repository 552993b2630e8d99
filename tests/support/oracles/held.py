"""Rows of silver, as the rules of gold ask for them: by partition, and at a poll."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]


def by_partition(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["first_poll"]):
        found[row["topic"], row["partition"]].append(row)
    return found


def held_at(rows: Iterable[Row], poll: str) -> list[Row]:
    return [
        r
        for r in rows
        if r["first_poll"] <= poll and (r["superseded_poll"] is None or r["superseded_poll"] > poll)
    ]
