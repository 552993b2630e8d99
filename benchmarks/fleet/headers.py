"""A fleet, by the headers of polls in bronze: which cluster was polled, when, with what outcome."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.rounds.commits import commits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from benchmarks.fleet.answers import Manner
    from benchmarks.fleet.made_up import Member
    from benchmarks.processes import Memory

_COLUMNS = (
    "cluster",
    "stream",
    "n",
    "poll_id",
    "record",
    "scheduled_at",
    "sent_at",
    "interval_ms",
    "error_kind",
    *("witnesses", "kind"),
)

_HEADERS = pa.array(["poll", "answer"])
_PLACE = itemgetter("poll_id", "cluster")


def read_headers(table: Path) -> list[dict[str, Any]]:
    """Return the headers of polls that are committed to a table of bronze, those of a cluster in
    the order of polling, each with the kinds of questions that were `asked` beside it.
    """
    found = [commit.rows(_COLUMNS) for commit in commits(table)]
    rows = [
        row for each in found for row in each.filter(pc.is_in(each["record"], _HEADERS)).to_pylist()
    ]
    asked = defaultdict(list)
    for row in rows:
        if row["record"] == "answer":
            asked[row["poll_id"], row["cluster"]].append(row["kind"])
    polls = sorted((row for row in rows if row["record"] == "poll"), key=_PLACE)
    return [row | {"asked": asked[_PLACE(row)]} for row in polls]


@dataclass
class Polled:
    """The headers of polls that a run left, and the memory of its processes, by role."""

    headers: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, Memory] = field(default_factory=dict)


@dataclass(frozen=True)
class Seen:
    """The polls of the clusters that behave in one manner.

    `late`: from due to sent, s, of polls that were sent.
    """

    clusters: int
    polls: int
    errors: Counter[str]
    late: tuple[float, ...]
    steps: int
    off_beat: int
    """Of the steps from one poll of a cluster to its next one those that are not one interval."""
    requests: int
    """Answers and attempts at one: of the poll, and of brokers that were asked beside."""


def seen(headers: Sequence[Mapping[str, Any]], members: Sequence[Member]) -> dict[Manner, Seen]:
    """Return what became of the polls of these clusters, by how they behave."""
    of_manner: dict[Manner, list[Member]] = defaultdict(list)
    for member in members:
        of_manner[member.manner].append(member)
    of_cluster = defaultdict(list)
    for header in headers:
        of_cluster[header["cluster"]].append(header)
    return {
        manner: _seen([(each, of_cluster[each.alias]) for each in of_manner[manner]])
        for manner in sorted(of_manner)
    }


def _seen(polled: Sequence[tuple[Member, Sequence[Mapping[str, Any]]]]) -> Seen:
    headers = [header for _, own in polled for header in own]
    steps = [
        round(_seconds(one["scheduled_at"], other["scheduled_at"]) * 1000 / member.interval_ms) == 1
        for member, own in polled
        for one, other in pairwise(own)
    ]
    return Seen(
        clusters=len(polled),
        polls=len(headers),
        errors=Counter(
            header["error_kind"] for header in headers if header["error_kind"] is not None
        ),
        late=tuple(
            _seconds(each["scheduled_at"], each["sent_at"])
            for each in headers
            if each["sent_at"] is not None
        ),
        steps=len(steps),
        off_beat=steps.count(False),
        requests=len(headers) + sum(len(header["witnesses"] or ()) for header in headers),
    )


def _seconds(begin: datetime, end: datetime) -> float:
    return (end - begin).total_seconds()


def asked(headers: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how often each cluster was asked something beside metadata, if it was."""
    return dict(Counter(header["cluster"] for header in headers if header["asked"]))


def holes(headers: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Return the numbers of each cluster that no poll has between its first and its last."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for header in headers:
        numbers[header["cluster"]].add(header["n"])
    return sorted(
        (alias, n) for alias, own in numbers.items() for n in set(range(min(own), max(own))) - own
    )
