"""Clusters as of a time: which of them, whether history has that time, and who tells then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypedDict

from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import LINES, QueryError, moment, one_of, shown
from kafka_metadata_history.answers.thresholds import span
from metadata_source.text import printable
from schemas.lake import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from kafka_metadata_history.answers.questions import Ask

SQL: Final = Path(__file__).parent / "sql"
LISTED, STOPPING, FENCED = "listed", "stopping", "fenced"
"""States of a broker. `stopping`: in a controlled shutdown, so it is elected no more."""
_NOW: Final = "is_current"
_THEN: Final = (
    "(valid_from <= CAST(:at AS TIMESTAMP) AND (valid_to > CAST(:at AS TIMESTAMP) OR valid_to IS "
    "NULL))"
)
_NEWEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
_OF_CLUSTER: Final = "(CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)"


class Reach(NamedTuple):
    """From when to when a cluster is known; None: that is not known."""

    cluster: str
    since: datetime | None
    until: datetime | None

    def has(self, at: datetime) -> bool:
        """Whether history has that time."""
        is_begun = self.since is None or self.since <= at
        return is_begun and self.until is not None and at <= self.until

    @property
    def text(self) -> str:
        """For people."""
        since, until = (shown(each) if each else "?" for each in (self.since, self.until))
        return f"history of {self.cluster} is {since} to {until}"


@dataclass(frozen=True)
class Facts:
    """What is known of a cluster as a whole. `by_log`: the controllers' log tells its history.
    `gap_start`, `gap_end`: polls on both sides of the time that are further apart than usual.
    """

    cluster: str
    metadata_version_level: int | None
    metadata_version_highest: int | None
    elr_version_level: int | None
    not_meaningful: Sequence[str] | None
    controller_id: int | None
    voters: Sequence[int] | None
    by_log: bool
    gap_start: datetime | None
    gap_end: datetime | None

    @property
    def gap(self) -> tuple[datetime, datetime] | None:
        """From when to when nobody looked; None: somebody did, or the log told meanwhile."""
        if self.by_log or self.gap_start is None or self.gap_end is None:
            return None
        return self.gap_start, self.gap_end


class PartitionRow(TypedDict):
    """A partition at a time. `leader`: null if none is shown."""

    cluster: str
    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: list[int] | None
    isr: list[int] | None
    since: datetime
    elr: list[int] | None
    adding_replicas: list[int] | None
    removing_replicas: list[int] | None
    min_insync_replicas: int | None
    unclean_leader_election_enable: bool | None


def nobody_looked(gap: tuple[datetime, datetime]) -> str:
    """Return the sentence that says so."""
    return f"Nobody looked from {shown(gap[0])} to {shown(gap[1])}."


def reaches(ask: Ask, cluster: str | None) -> list[Reach]:
    """Return how far that cluster is known, or all are. Raises QueryError if there is none."""
    found = [Reach(**row) for row in ask(sql_of("clusters")).to_pylist()]
    if not found:
        raise QueryError("history is empty: no cluster had a good poll that became history")
    if cluster is None:
        return found
    name = one_of([each.cluster for each in found], cluster, "history")
    return [each for each in found if each.cluster == name]


@dataclass(frozen=True)
class AsOf:
    """Clusters as of a time. `at`: None: the newest state of each. `reach`: of the clusters whose
    history has that time, by name. `left_out`: of those whose history does not.
    """

    ask: Ask
    at: datetime | None
    reach: Mapping[str, Reach]
    left_out: Sequence[Reach] = ()

    @classmethod
    def of(cls, ask: Ask, known: Sequence[Reach], at: datetime | None, named: str = "--at") -> Self:
        """Return the clusters as of a time. `named`: the argument that gives the time. Raises
        QueryError if no history has it.
        """
        has = [each for each in known if each.until is not None and (at is None or each.has(at))]
        out = [each for each in known if each not in has]
        if not has:
            why = "; ".join(each.text for each in out[:LINES])
            more = f"; {len(out) - LINES} more clusters" if len(out) > LINES else ""
            said = f"{named} {shown(at)}: " if at else ""
            raise QueryError(printable(f"{said}{why}{more}"))
        return cls(ask, at, {each.cluster: each for each in has}, out)

    def at_of(self, cluster: str) -> datetime:
        """Return of when the state of a cluster is."""
        at = self.at or self.reach[cluster].until
        assert at is not None  # noqa: S101 - of one whose end is not known nothing is asked
        return at

    @property
    def cluster(self) -> str | None:
        """The cluster; None: there are several, or others whose history lacks the time."""
        return next(iter(self.reach)) if len(self.reach) == 1 else None

    def sql(self, text: str, **values: object) -> str:
        """Return SQL whose `{then}` chooses states of the time, `{of_cluster}` the cluster. `:at`
        of the newest state is later than all that is known, `:until` its end.
        """
        until = self.at or max(filter(None, (each.until for each in self.reach.values())))
        given = {
            "cluster": self.cluster,
            "at": (self.at or _NEWEST).isoformat(),
            "until": until.isoformat(),
        }
        chosen = text.replace("{then}", _NOW if self.at is None else _THEN)
        return with_values(chosen.replace("{of_cluster}", _OF_CLUSTER), given | values)

    def table(self, text: str, **values: object) -> pa.Table:
        """Return the rows of SQL as `sql` takes it, of these clusters alone."""
        return self.ask(self.sql(text, **values))

    def rows(self, name: str, **values: object) -> list[dict[str, Any]]:
        """Return the rows of a file beside this one."""
        found: list[dict[str, Any]] = self.table(sql_of(name), **values).to_pylist()
        return [row for row in found if row["cluster"] in self.reach]

    def partitions(
        self, topic: str | None = None, *, only_not_well: bool = False
    ) -> list[PartitionRow]:
        """Return the partitions of a topic; None: all, or those that may not be well."""
        sql = sql_of("partitions")
        found: list[PartitionRow] = self.table(
            sql, topic=topic, only_not_well=only_not_well
        ).to_pylist()
        return [row for row in found if row["cluster"] in self.reach]

    @cached_property
    def facts(self) -> dict[str, Facts]:
        """The facts of each cluster that has a state then."""
        return {row["cluster"]: Facts(**row) for row in self.rows("facts")}

    @cached_property
    def voters_behind(self) -> dict[str, list[int]]:
        """By cluster, the voters that were not caught up when the quorum was asked last."""
        return {row["cluster"]: row["voters_behind"] for row in self._behind}

    @cached_property
    def observers_behind(self) -> dict[str, list[int] | None]:
        """By cluster, the observers that were not."""
        return {row["cluster"]: row["observers_behind"] for row in self._behind}

    @cached_property
    def _behind(self) -> list[dict[str, Any]]:
        """Lakes below version 11 do not have them."""
        try:
            return self.rows("behind")
        except LakeError:
            return []

    @cached_property
    def answered(self) -> dict[str, dict[str, datetime]]:
        """By cluster, the questions beside polls that were answered lately, and when last."""
        found: dict[str, dict[str, datetime]] = {each: {} for each in self.reach}
        for row in self.rows("answered"):
            found[row["cluster"]][row["kind"]] = row["answered_at"]
        return found

    def lines(self, now: datetime) -> list[str]:
        """Return lines for people: of when the state is, and when nobody looked."""
        found = [
            f"{name} at {shown(self.at_of(name))}; {record_reaches(each, now)}"
            for name, each in self.reach.items()
        ]
        if len(found) > LINES:
            ends = sorted(filter(None, (each.until for each in self.reach.values())))
            of = f"at {shown(self.at)}" if self.at else "as they are known"
            reach = f"the first record reaches to {shown(ends[0])}, the last to {shown(ends[-1])}"
            found = [f"{len(found)} clusters {of}; {reach}"]
        return [*found, *self.notes()]

    def notes(self) -> list[str]:
        """Return lines that say when nobody looked, and whose history lacks the time."""
        gaps = [(name, each.gap) for name, each in self.facts.items() if each.gap is not None]
        found = [f"{name}: {nobody_looked(gap)}" for name, gap in gaps[:LINES]]
        found += [f"left out: {each.text}" for each in self.left_out[:LINES]]
        if len(self.left_out) > LINES:
            found.append(f"left out: {len(self.left_out) - LINES} more clusters")
        return found


def record_reaches(of: Reach, now: datetime) -> str:
    """Return the clause that says how old the record is."""
    assert of.until is not None  # noqa: S101 - as in `at_of`
    return f"the record reaches to {shown(of.until)}, {span(now - of.until)} ago"


def sql_of(name: str) -> str:
    """Return a file beside this one."""
    return (SQL / f"{name}.sql").read_text(encoding="utf-8")


def time_of(at: str | None, now: datetime) -> datetime | None:
    """Return a time as `moment` takes it; None: the newest state."""
    return None if at is None else moment(at, now)
