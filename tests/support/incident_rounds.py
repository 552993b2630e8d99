"""Rounds of incidents without a lake: findings in, rows of the tables out, as a lake would have
them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from jobs.configuration.severities import SEVERITIES, Severity
from jobs.rounds.live import replaced
from jobs.rounds.stage import arrow_schema
from jobs.rules.arrow import rows_of
from jobs.rules.incidents.finding import Finding
from jobs.rules.incidents.fold import ClusterTake, Made, fold
from schemas.incidents import INCIDENT_LINKS, INCIDENTS
from schemas.table import PART, Table

Row = dict[str, Any]
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def finding(
    kind: str,
    began: float,
    ended: float | None = None,
    *,
    within: float = 2,
    source: str = "polls",
    **columns: Any,
) -> Finding:
    """A finding that polls saw begin `within` so many seconds; one of the log is exact."""
    exact = source == "log"
    if "broker_id" in columns:
        columns.setdefault("brokers", (columns["broker_id"],))
    return Finding(
        kind,
        at(began),
        at(began if exact else began - within),
        None if ended is None else at(ended if exact else ended - within),
        None if ended is None else at(ended),
        source=source,
        **columns,
    )


def missing(broker: int, began: float, ended: float | None = None, **columns: Any) -> Finding:
    """A broker that is missing."""
    return finding("broker_missing", began, ended, broker_id=broker, **columns)


def left(broker: int, began: float, ended: float | None = None, **columns: Any) -> Finding:
    """A broker that left ISRs."""
    return finding("isr_left", began, ended, broker_id=broker, **{"partitions": 10, **columns})


def level(kind: str, brokers: tuple[int, ...], began: float, ended: float | None = None) -> Finding:
    """Partitions at a level that lack some brokers."""
    return finding(kind, began, ended, brokers=brokers, topic="orders", partitions=4)


@dataclass
class Rounds:
    """The incidents of a cluster, round by round."""

    severities: Mapping[str, Severity] = field(default_factory=lambda: SEVERITIES)
    tables: dict[Table, pa.Table] = field(
        default_factory=lambda: {
            table: arrow_schema(table).empty_table() for table in (INCIDENTS, INCIDENT_LINKS)
        }
    )
    events: list[Row] = field(default_factory=list)
    after: datetime | None = None
    number: int = 0

    def begun(self) -> "Rounds":
        """After a first round, in which nothing lasted."""
        self.round([], -3_600)
        return self

    def round(self, findings: Iterable[Finding], until: float) -> Made:
        """One round, by all that is known up to a time."""
        now, self.number = at(until), self.number + 1
        rows = [_row(_as_of(each, now)) for each in findings if each.began_before <= now]
        news = {INCIDENT_LINKS.full_name: _table(INCIDENT_LINKS, rows)}
        live = {table.full_name: _live(rows) for table, rows in self.tables.items()}
        made = fold(
            "prod",
            news,
            live,
            take=ClusterTake("id", now, self.after),
            severities=self.severities,
            at=now + timedelta(seconds=1),
        )
        for table, changed in ((INCIDENTS, made.incidents), (INCIDENT_LINKS, made.links)):
            new = _table(table, changed)
            self.tables[table] = replaced(table, self.tables[table], new, "cluster_id")
        self.events += made.events
        self.after = now
        return made

    def rounds(self, findings: Iterable[Finding], *until: float) -> "Rounds":
        """Several rounds."""
        known = list(findings)
        for each in until:
            self.round(known, each)
        return self

    @property
    def incidents(self) -> list[Row]:
        """The rows, in order of their begins."""
        return sorted(rows_of(self.tables[INCIDENTS]), key=lambda row: row["began_before"])

    @property
    def incident(self) -> Row:
        """The only one."""
        (row,) = self.incidents
        return row

    @property
    def links(self) -> list[Row]:
        """The rows, in order of their begins."""
        return sorted(rows_of(self.tables[INCIDENT_LINKS]), key=lambda row: row["began_before"])

    def rules(self) -> dict[str, str | None]:
        """Kind of a finding -> the rule that ties it."""
        return {row["kind"]: row["rule"] for row in self.links}

    def told(self) -> list[str]:
        """The events, in order."""
        return [row["event"] for row in self.events]


def _as_of(of: Finding, now: datetime) -> Finding:
    """What is known of a finding at a time."""
    if of.ended_before is None or of.ended_before <= now:
        return of
    return replace(of, ended_after=None, ended_before=None)


def _row(of: Finding) -> Row:
    own = {name: getattr(of, name) for name in Finding.__slots__ if name != "parts"}
    return own | {"brokers": list(of.brokers), "cluster_id": "id", "cluster": "prod"}


def _table(table: Table, rows: Iterable[Row]) -> pa.Table:
    schema = arrow_schema(table)
    whole = [{name: row.get(name) for name in schema.names} for row in rows]
    return pa.Table.from_pylist(whole, schema)


def _live(rows: pa.Table) -> pa.Table:
    return rows.filter(rows["is_live"]) if PART in rows.column_names else rows
