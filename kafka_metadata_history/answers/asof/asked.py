"""The state at a time, and what differs between two, as commands, Python and agents ask for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from kafka_metadata_history.answers.asking import Answer
from kafka_metadata_history.answers.asof import show as states
from kafka_metadata_history.answers.asof.diff import (
    Difference,
    as_rows,
    between_clusters,
    between_times,
    differences,
    folded,
    hidden,
    narrowed,
)
from kafka_metadata_history.answers.asof.read import AsOf, reaches, record_reaches, time_of
from kafka_metadata_history.answers.questions import QueryError, check_filters, moment, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.questions import Ask


@dataclass(frozen=True)
class Thing:
    """A topic, a broker or a group; with all None whole clusters. Raises QueryError for several."""

    topic: str | None = None
    broker: int | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        """Check it before a lake is opened."""
        if len(self.given) > 1:
            several = " and ".join(f"--{each}" for each in self.given)
            raise QueryError(f"{several} exclude each other")

    @property
    def given(self) -> dict[str, object]:
        """The one that is given, by its kind; else empty."""
        return {kind: name for kind, name in asdict(self).items() if name is not None}


def state(ask: Ask, at: str | None, cluster: str | None, of: Thing, now: datetime) -> Answer:
    """Return the state of clusters, or of a thing, at a time; None: the newest. Raises QueryError
    for what history does not have.
    """
    found = AsOf.of(ask, reaches(ask, cluster), time_of(at, now))
    check_filters({"cluster": found.cluster, **of.given} if found.cluster else of.given, ask)
    if of.topic is not None:
        rows, lacks = states.topic(found, of.topic)
    elif of.broker is not None:
        rows, lacks = states.broker(found, of.broker)
    elif of.group is not None:
        rows, lacks = states.group(found, of.group)
    else:
        rows, lacks = states.clusters(found, now)
    return Answer(rows, lambda: [*found.lines(now), *lacks], frozenset(found.reach))


@dataclass(frozen=True)
class Comparison:
    """Two times, the second one unless given the newest state; or a `pair` of clusters at a time.
    Raises QueryError for what does not fit together.
    """

    times: Sequence[str]
    pair: tuple[str, str] | None = None
    at: str | None = None
    cluster: str | None = None
    thing: Thing = Thing()

    def __post_init__(self) -> None:
        """Check it before a lake is opened."""
        if self.pair is None and (self.at is not None or not 1 <= len(self.times) <= 2):
            raise QueryError("give T1 and T2, or --clusters A B [--at T]")
        if self.pair is None:
            return
        if self.times or self.cluster is not None or self.thing.given.keys() - {"topic"}:
            raise QueryError("--clusters takes --at and --topic alone")
        if self.pair[0] == self.pair[1]:
            raise QueryError(f"--clusters: {self.pair[0]} is named twice")


def difference(ask: Ask, of: Comparison, now: datetime, *, is_folded: bool) -> Answer:
    """Return what differs, a row each, or with `is_folded` many that are alike as one. Raises
    QueryError for what history does not have.
    """
    if of.pair is not None:
        found, lines = _of_clusters(ask, of.pair, of, now)
        clusters = frozenset({""})
    else:
        found, lines, clusters = _of_times(ask, of, now)
    return Answer(as_rows(folded(found) if is_folded else found), lambda: lines, clusters)


def _of_times(
    ask: Ask, of: Comparison, now: datetime
) -> tuple[list[Difference], list[str], frozenset[str]]:
    known = reaches(ask, of.cluster)
    begin = moment(of.times[0], now)
    end = moment(of.times[1], now) if len(of.times) > 1 else None
    if end is not None and begin > end:
        raise QueryError(f"T1 {shown(begin)} is after T2 {shown(end)}")
    before = AsOf.of(ask, known, begin, "T1")
    after = AsOf.of(ask, [*before.reach.values()], end, "T2")
    check_filters(
        {"cluster": after.cluster, **of.thing.given} if after.cluster else of.thing.given, ask
    )
    rows, lines = between_times(before, after)
    found = differences(narrowed(rows, of.thing.given), hidden(before), hidden(after))
    return found, [*before.notes(), *after.lines(now), *lines], frozenset(after.reach)


def _of_clusters(
    ask: Ask, pair: tuple[str, str], of: Comparison, now: datetime
) -> tuple[list[Difference], list[str]]:
    then = time_of(of.at, now)
    first, second = (AsOf.of(ask, reaches(ask, each), then) for each in pair)
    for each in pair:
        check_filters({"cluster": each, **of.thing.given}, ask)
    rows, lines = between_clusters(first, second)
    heads = [
        f"{side}: {name} at {shown(state.at_of(name))}; {record_reaches(state.reach[name], now)}"
        for side, name, state in zip(("before", "after"), pair, (first, second), strict=True)
    ]
    found = differences(narrowed(rows, of.thing.given))
    return found, [*heads, *first.notes(), *second.notes(), *lines]
