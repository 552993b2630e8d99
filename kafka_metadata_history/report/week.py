"""Seven days against the seven before: what the named questions answer for both, added up."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafka_metadata_history.answers.questions import check_filters, moment, question
from kafka_metadata_history.answers.text import as_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafka_metadata_history.answers.questions import Ask

WEEK: Final = timedelta(days=7)
MOST: Final = 3
"""Of a cluster so many topics and groups."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """What one row of an answer adds to a figure: least, most (None: not known), and seconds that
    nobody observed (None: the figure is no sum of seconds). `of`: a level, a cause, a group, ...
    """

    figure: str
    of: str | None
    least: float
    most: float | None
    not_observed_s: float | None = None


@dataclass(frozen=True)
class Figure:
    """A figure of a cluster in one week. `least`: None if there is nothing to take the mean of."""

    least: float | None
    most: float | None
    not_observed_s: float | None


Key = tuple[str, str, str | None]
"""Cluster, figure, of."""

BAD: Final = "bad seconds"
UNSEEN: Final = "seconds not observed"
TOPIC: Final = "bad minutes of topic"
AT_LEVEL: Final = "minutes at level"
INCIDENTS: Final = "broker incidents"
RECOVERY: Final = "mean seconds to recover"
LEADERS: Final = "leader changes"
UNCLEAN: Final = "unclean elections"
REBALANCES: Final = "rebalances"
REBALANCING: Final = "seconds in rebalances"
PAUSES: Final = "seconds of pauses"
GROUP: Final = "rebalances of group"
FIGURES: Final = (
    BAD,
    UNSEEN,
    TOPIC,
    AT_LEVEL,
    INCIDENTS,
    RECOVERY,
    LEADERS,
    UNCLEAN,
    REBALANCES,
    REBALANCING,
    PAUSES,
    GROUP,
)
"""In the order in which they are shown. Seconds and minutes of topics are added up over
partitions.
"""
_ALWAYS: Final = {BAD, UNSEEN}
"""Shown though nothing happened."""
_MEANS: Final = {RECOVERY}
_WORST: Final = {TOPIC, GROUP}


def _of_availability(row: Row) -> Iterator[Part]:
    if row["topic"] is None:
        unseen = row["not_observed_s"]
        yield Part(BAD, f"for {row['bad_for']}", row["spent_s_min"], row["spent_s_max"], unseen)
        if row["bad_for"] == "reads":
            yield Part(UNSEEN, None, unseen, unseen)


def _of_levels(row: Row) -> Iterator[Part]:
    minutes = (row["seconds_min"] / 60, row["seconds_max"] / 60, row["not_observed_s"])
    yield Part(AT_LEVEL, row["level"], *minutes)
    if row["level"] in ("offline", "under_min_isr"):
        yield Part(TOPIC, row["topic"], *minutes)


def _of_incidents(row: Row) -> Iterator[Part]:
    cause = ", ".join(row["causes"]) or "not decided"
    yield Part(INCIDENTS, cause, 1, 1)
    if row["ended_before"] is not None:
        longest = row["duration_ms_max"]
        yield Part(
            RECOVERY,
            cause,
            row["duration_ms_min"] / 1000,
            None if longest is None else longest / 1000,
            row["not_observed_s"],
        )


def _of_leaders(row: Row) -> Iterator[Part]:
    yield Part(LEADERS, None, row["changes_min"], row["changes_max"])


def _of_unclean(row: Row) -> Iterator[Part]:
    yield Part(UNCLEAN, row["unclean"] or "last known leader", 1, 1)


def _of_groups(row: Row) -> Iterator[Part]:
    seconds = (row["seconds_min"], row["seconds_max"], row["not_observed_s"])
    yield Part(REBALANCES, None, row["rebalances"], row["rebalances"])
    yield Part(REBALANCING, None, *seconds)
    yield Part(GROUP, row["group_id"], row["rebalances"], row["rebalances"])


def _of_pauses(row: Row) -> Iterator[Part]:
    longest = row["pause_ms_max"]
    yield Part(
        PAUSES,
        None,
        (row["pause_ms_min"] or 0) / 1000,
        None if longest is None else longest / 1000,
    )


PARTS: Final[Mapping[str, Callable[[Row], Iterator[Part]]]] = {
    "availability": _of_availability,
    "time_at_level": _of_levels,
    "broker_incidents": _of_incidents,
    "leader_churn": _of_leaders,
    "unclean_elections": _of_unclean,
    "group_stability": _of_groups,
    "rebalance_cost": _of_pauses,
}
"""Question -> what a row of it adds."""


def week_until(until: str | None, now: datetime) -> datetime:
    """The end of the last whole week, UTC: the last midnight by a time as `moment` takes it."""
    end = moment(until, now) if until else now
    return datetime.combine(end.astimezone(UTC).date(), time(), UTC)


def read_week(ask: Ask, end: datetime, cluster: str | None) -> pa.Table:
    """Ask for the seven days until `end`, and the seven before, of one cluster or of all.

    A row is a figure of a cluster, the cluster with most bad seconds first: cluster, what, of,
    week_min, week_max, before_min, before_max, not_observed_s, before_not_observed_s. Raises
    QueryError for a cluster without history.
    """
    this, before = (figures(_asked(ask, until, cluster)) for until in (end, end - WEEK))
    return rows(this, before)


def _asked(ask: Ask, until: datetime, cluster: str | None) -> Iterator[tuple[str, Part]]:
    for name, parts in PARTS.items():
        since, ended = (until - WEEK).isoformat(), until.isoformat()
        asked = question(name, since, ended, {"cluster": cluster}, until)
        check_filters(asked.filters, ask)
        for row in ask(asked.sql).to_pylist():
            yield from ((str(row["cluster"]), part) for part in parts(_plain(row)))


def _plain(row: Row) -> Row:
    """Numbers of both engines alike: a sum of integers may be a decimal."""
    return {
        name: float(value) if isinstance(value, Decimal) else value for name, value in row.items()
    }


def figures(parts: Iterable[tuple[str, Part]]) -> dict[Key, Figure]:
    """Parts added up by cluster, in the order of the first of each; of _MEANS the mean."""
    found: defaultdict[Key, list[Part]] = defaultdict(list)
    for cluster, part in parts:
        found[cluster, part.figure, part.of].append(part)
    return {key: _figure(key[1], each) for key, each in found.items()}


def _figure(name: str, parts: Sequence[Part]) -> Figure:
    by = len(parts) if name in _MEANS else 1
    most = [part.most for part in parts if part.most is not None]
    unseen = [part.not_observed_s for part in parts if part.not_observed_s is not None]
    return Figure(
        sum(part.least for part in parts) / by,
        sum(most) / by if len(most) == len(parts) else None,
        sum(unseen) if unseen else None,
    )


def rows(this: Mapping[Key, Figure], before: Mapping[Key, Figure]) -> pa.Table:
    """Both weeks side by side; see `read_week`."""
    clusters = [*dict.fromkeys(cluster for cluster, *_ in (*this, *before))]
    keys = sorted(
        {*this, *before},
        key=lambda key: (
            clusters.index(key[0]),
            FIGURES.index(key[1]),
            -(of_week(this, key).least or 0),
            key[2] or "",
        ),
    )
    found: list[Row] = []
    shown: defaultdict[tuple[str, str], int] = defaultdict(int)
    for key in keys:
        cluster, figure, of = key
        week, last = of_week(this, key), of_week(before, key)
        if figure not in _ALWAYS and not any((week.least, week.most, last.least, last.most)):
            continue
        shown[cluster, figure] += 1
        if figure in _WORST and shown[cluster, figure] > MOST:
            continue
        found.append(
            {
                "cluster": cluster,
                "what": figure,
                "of": of,
                "week_min": week.least,
                "week_max": week.most,
                "before_min": last.least,
                "before_max": last.most,
                "not_observed_s": week.not_observed_s,
                "before_not_observed_s": last.not_observed_s,
            }
        )
    return pa.Table.from_pylist(found, schema=SCHEMA)


def of_cluster(week: pa.Table, cluster: str | None) -> str:
    """The rows of a cluster as a table for people."""
    return as_table(week.filter(pc.equal(week["cluster"], cluster)).drop_columns(["cluster"]))


def of_week(found: Mapping[Key, Figure], key: Key) -> Figure:
    """A figure of a week. What no row tells of is zero, and there is no mean of it; nothing is
    known of a week in which the cluster had no topic.
    """
    is_known = (key[0], UNSEEN, None) in found
    none = 0 if is_known and key[1] not in _MEANS else None
    return found.get(key, Figure(none, none, None))


SCHEMA: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("what", pa.string()),
        ("of", pa.string()),
        *((name, pa.float64()) for name in ("week_min", "week_max", "before_min", "before_max")),
        *((name, pa.float64()) for name in ("not_observed_s", "before_not_observed_s")),
    ]
)
