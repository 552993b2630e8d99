"""The report's sections, and its queries (sql/), which are bounded however much happened.

The SQL of a section, named as it is, finds what happened. sql/marks.sql puts these rows in lanes
and in marks, which are what a figure draws. Where there are more rows than marks, rows of one lane
and kind that begin and end in the same cells of the window are one mark; else rows with the same
bounds are. All queries take :since, :until, :cluster, :topic, :broker, :group.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.answers.markers import with_values

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_LANES: Final = 15
MOST_MARKS: Final = 1_200
MOST_ROWS: Final = 1_800
"""Of a section: rows behind marks, of each mark the first, then of each the second, and so on."""
ROWS_OF_MARK: Final = 25
CELLS: Final = 200
"""A window is cut into so many where there are more rows than marks."""
MOST_GAPS: Final = 300

_LIMITS: Final[Mapping[str, object]] = {
    "most": MOST_GAPS,
    "most_lanes": MOST_LANES,
    "most_marks": MOST_MARKS,
    "most_rows": MOST_ROWS,
    "rows_of_mark": ROWS_OF_MARK,
    "cells": CELLS,
}


def _sql(name: str) -> str:
    return (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")


CLUSTERS: Final = _sql("clusters")
KNOWN: Final = (
    "SELECT cluster, silver_from, gold_from, until FROM silver.reach WHERE cluster = :cluster"
)
GAPS: Final = _sql("gaps")
DEPARTURES: Final = _sql("departures")
LEVELS: Final = _sql("levels")
LARGEST: Final = _sql("largest")
LARGEST_OF_GROUPS: Final = _sql("largest_of_groups")


@dataclass(frozen=True)
class Section:
    """A figure in lanes. `narrowed`: by these options. `is_optional`: no figure without rows."""

    name: str
    title: str
    table: str
    narrowed: tuple[str, ...]
    lane: str
    """The word for a lane."""
    is_optional: bool = False


BROKERS: Final = Section(
    name="brokers",
    title="Brokers that ISRs lacked",
    table="gold.broker_incidents",
    lane="broker",
    narrowed=("broker",),
)

PARTITIONS: Final = Section(
    name="isrs",
    title="ISRs: the worst partitions",
    table="gold.isr_episodes",
    lane="partition",
    narrowed=("topic", "broker"),
)

LEADERS: Final = Section(
    name="leaders",
    title="Leader changes, by reason (inferred)",
    table="gold.leader_changes",
    lane="reason",
    narrowed=("topic", "broker"),
)

GROUPS: Final = Section(
    name="groups",
    title="Rebalances, by group",
    table="gold.rebalances",
    lane="group",
    narrowed=("topic", "broker", "group"),
)

COORDINATORS: Final = Section(
    name="coordinators",
    title="Coordinators of groups that moved",
    table="gold.group_events",
    lane="move",
    narrowed=("broker", "group"),
)

LAG: Final = Section(
    name="lag",
    title="Groups that fell behind, by Burrow's rules",
    table="gold.group_lag",
    lane="group",
    narrowed=("group",),
    is_optional=True,
)

SETTINGS: Final = Section(
    name="settings",
    title="Controllers, configurations, access, features, sizes of topics",
    table="gold.incident_timeline",
    lane="kind",
    narrowed=(),
    is_optional=True,
)

MARKED: Final = Section(
    name="marked",
    title="Marked: changes and maintenance",
    table="gold.marks",
    lane="mark",
    narrowed=(),
    is_optional=True,
)

SECTIONS: Final = (BROKERS, PARTITIONS, LEADERS, GROUPS, LAG, COORDINATORS, SETTINGS, MARKED)


def query_of(section: Section) -> str:
    """Return the query of a section: the rows behind its marks, each with what its mark sums up."""
    return _sql("marks").replace("{happened}", _sql(section.name))


def limited(sql: str) -> str:
    """Return a query of the report with its limits."""
    return with_values(sql, _LIMITS)
