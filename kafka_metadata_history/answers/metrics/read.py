"""The state of all clusters, read once for each version of a lake."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobs.rules.incidents.finding import BESIDE, CRASH_LOOP, OPENERS
from kafka_metadata_history.answers.asof.read import FENCED, AsOf, Reach, sql_of
from kafka_metadata_history.answers.asof.show import cluster_rows
from kafka_metadata_history.answers.incidents.read import read_open, read_recorded
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.metrics import declared
from kafka_metadata_history.answers.metrics.declared import Metric, Sample
from kafka_metadata_history.answers.metrics.state import (
    Availability,
    ClusterMetrics,
    GroupLag,
    Known,
    LakeMetrics,
)
from metadata_source.options import parse
from schemas.incidents import SEVERITIES
from schemas.lake import OlderLakeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from jobs.configuration.config import Config
    from kafka_metadata_history.answers.asof.show import ClusterRow
    from kafka_metadata_history.answers.incidents.records import Incident, Recorded
    from kafka_metadata_history.answers.questions import Ask

BEATS: Final = 3
"""For so many intervals without a good observation a state counts."""
ROUND: Final = timedelta(seconds=15)
"""From the commit of polls until their state is known, at most, if all is well."""
AVAILABILITY_HOLDS: Final = timedelta(minutes=5)
"""Of days it changes slowly, and reading it takes longer than all else."""
Row = dict[str, Any]


def read_state(
    ask: Ask,
    config: Config,
    *,
    brokers: bool = False,
    group_lag: bool = False,
    before: LakeMetrics | None = None,
) -> LakeMetrics:
    """Read the state of the configured clusters from one version of a lake. `brokers`, `group_lag`:
    read what metrics by broker, and by group, say. `before`: the state of an earlier version, which
    saves reading what changes slowly.

    Raises LakeError and QueryError, as `ask` does.
    """
    limits = _limits(config)
    known = [Reach(**row) for row in ask(sql_of("clusters")).to_pylist()]
    until = {each.cluster: each.until for each in known}
    newest = max((at for at in until.values() if at is not None), default=None)
    if newest is None:
        return LakeMetrics([ClusterMetrics(each, Known(None, limits[each])) for each in limits])
    availability = before.availability if before is not None else None
    if availability is None or newest - availability.as_of > AVAILABILITY_HOLDS:
        availability = _availability(ask, newest)
    read = _Read.of(
        ask,
        AsOf.of(ask, known, None),
        newest,
        brokers=brokers,
        keeps_events=config.gold_retention is None,
    )
    lags = _lags(ask, config) if group_lag else {}
    return LakeMetrics(
        [
            ClusterMetrics(
                each,
                Known(until.get(each), limits[each]),
                [*read.samples(each), *availability.samples.get(each, ())],
                *lags.get(each, ()),
            )
            for each in limits
        ],
        availability,
        read.lacks,
    )


def _limits(config: Config) -> dict[str, timedelta]:
    """Return how old the newest observation of each cluster may be: three intervals, but at least
    as old as it gets while all is well, as polls without news wait for their commit.
    """
    waits = timedelta(milliseconds=parse(config.source_options({}), "stream").commit_interval_ms)
    return {
        alias: max(BEATS * interval, interval + waits + ROUND)
        for alias, interval in config.poll_intervals.items()
    }


def _availability(ask: Ask, newest: datetime) -> Availability:
    since = newest - timedelta(days=declared.AVAILABILITY_DAYS - 1)
    found = {
        row["cluster"]: [
            *_ratios("reads", row["seconds"], row["reads_min"], row["reads_max"]),
            *_ratios("writes", row["seconds"], row["writes_min"], row["writes_max"]),
        ]
        for row in bad_seconds(ask, since)
    }
    return Availability(newest, found)


def bad_seconds(ask: Ask, since: datetime) -> list[dict[str, Any]]:
    """Return for each cluster the seconds of its partitions that somebody observed since the begin
    of a day (UTC), and those that were bad for reads and for writes, at least and at most.
    """
    return _rows(ask, "availability", since=since.isoformat())


def _ratios(
    kind: str, seconds: float | None, least: float | None, most: float | None
) -> Iterator[Sample]:
    """Yield the good part of seconds of which at least `least` and at most `most` were bad."""
    if seconds:
        for metric, bad in ((declared.AVAILABLE_MIN, most), (declared.AVAILABLE_MAX, least)):
            if bad is not None:
                yield Sample(metric, (kind,), max(0.0, 1 - bad / seconds))


def _lags(ask: Ask, config: Config) -> dict[str, tuple[list[GroupLag], Known]]:
    """Return the lags of each cluster that is asked for offsets, and up to when they are known."""
    options = parse(config.source_options({}), "stream")
    until = {row["cluster"]: row["until"] for row in _rows(ask, "lag_known")}
    waits = timedelta(milliseconds=options.commit_interval_ms)
    found: dict[str, tuple[list[GroupLag], Known]] = {}
    for alias in config.clusters:
        if (beat_ms := options.polling[alias].enrich.get("offsets")) is not None:
            beat = timedelta(milliseconds=beat_ms)
            counts_for = max(BEATS * beat, beat + waits + ROUND)
            found[alias] = ([], Known(until.get(alias), counts_for))
    for row in _rows(ask, "lag"):
        if row["cluster"] in found:
            found[row["cluster"]][0].append(GroupLag(row["group_id"], row["lag_max"]))
    return found


@dataclass(frozen=True)
class _Read:
    """What one version of a lake has, by cluster. `brokers`: None: not asked for."""

    state: AsOf
    clusters: Mapping[str, ClusterRow]
    recorded: Mapping[str, Recorded]
    open: Mapping[str, Sequence[Incident]]
    stuck: Mapping[str, int]
    events: Mapping[str, Sequence[Row]]
    stale: Mapping[str, Sequence[Row]]
    transactions: Mapping[str, Row]
    listed: Mapping[str, Sequence[Row]] | None
    loads: Mapping[str, Sequence[Row]]
    roles: Mapping[str, Sequence[Row]]
    log_dirs: Mapping[str, Sequence[Row]]
    keeps_events: bool
    lacks: Sequence[str]

    @classmethod
    def of(
        cls, ask: Ask, state: AsOf, newest: datetime, *, brokers: bool, keeps_events: bool
    ) -> _Read:
        recently = newest - timedelta(hours=declared.RECENT_HOURS)
        lasting: dict[str, list[Incident]] = {}
        for each in read_open(ask, None):
            lasting.setdefault(each.cluster, []).append(each)
        lacks: list[str] = []
        return cls(
            state,
            {row["cluster"]: row for row in cluster_rows(state)},
            {each.cluster: each for each in read_recorded(ask, None)},
            lasting,
            {row["cluster"]: row["groups"] for row in _rows(ask, "stuck")},
            _by_cluster(_rows(ask, "events", since=recently.isoformat())),
            _by_cluster(_rows(ask, "stale")),
            {row["cluster"]: row for row in _rows_since(ask, "transactions", lacks)},
            _by_cluster(state.rows("brokers")) if brokers else None,
            _by_cluster(state.rows("loads")) if brokers else {},
            _by_cluster(_rows(ask, "brokers")) if brokers else {},
            _by_cluster(_rows_since(ask, "log_dirs", lacks)),
            keeps_events,
            lacks,
        )

    def samples(self, cluster: str) -> Iterator[Sample]:
        """Yield what is known of a cluster; nothing if it has no state."""
        if (row := self.clusters.get(cluster)) is None:
            return
        yield from _of_partitions(row)
        yield from _some((declared.BROKERS, row["brokers"]), (declared.FENCED, row["fenced"]))
        yield from _some((declared.STALE, len(self.stale.get(cluster, ()))))
        yield from self._of_quorum(cluster)
        if self.recorded[cluster].is_made:
            yield from self._of_incidents(cluster)
        yield from self._of_transactions(cluster)
        yield from self._of_brokers(cluster)
        if "log_dirs" in self.state.answered[cluster]:
            rows = self.log_dirs.get(cluster, ())
            yield Sample(declared.FAILED_DIRS, (), sum(row["is_online"] is False for row in rows))
            if self.listed is not None:
                yield from _of_log_dirs(rows)

    def _of_quorum(self, cluster: str) -> Iterator[Sample]:
        facts = self.state.facts[cluster]
        if facts.controller_id is not None:
            yield Sample(declared.CONTROLLERS, (), facts.controller_id >= 0)
            yield Sample(declared.CONTROLLER_ID, (), facts.controller_id)
        if facts.voters is not None:
            yield Sample(declared.VOTERS, (), len(facts.voters))
        if "quorum" in self.state.answered[cluster]:
            yield from _some(
                *(
                    (metric, None if behind is None else len(behind))
                    for metric, behind in (
                        (declared.VOTERS_BEHIND, self.state.voters_behind.get(cluster)),
                        (declared.OBSERVERS_BEHIND, self.state.observers_behind.get(cluster)),
                    )
                )
            )

    def _of_incidents(self, cluster: str) -> Iterator[Sample]:
        lasting = self.open.get(cluster, ())
        by_severity = Counter(each.severity for each in lasting)
        by_cause = Counter((each.kind, each.cause, each.severity) for each in lasting)
        events = self.events.get(cluster, ())
        opened = [row for row in events if row["event"] == "opened"]
        for severity in SEVERITIES:
            yield Sample(declared.OPEN, (severity,), by_severity[severity])
            recent = sum(row["recent"] for row in opened if row["severity"] == severity)
            yield Sample(declared.OPENED_RECENTLY, (severity,), recent)
        yield from (Sample(declared.OPEN_BY_CAUSE, key, many) for key, many in by_cause.items())
        if self.keeps_events:
            ended = [row for row in events if row["event"] == "ended"]
            # From zero on: Prometheus does not see that a series begins at one.
            for kind in sorted({*OPENERS, *BESIDE, *(row["kind"] for row in events)}):
                for metric, rows in ((declared.OPENED, opened), (declared.ENDED, ended)):
                    count = sum(row["events"] for row in rows if row["kind"] == kind)
                    yield Sample(metric, (kind,), count)
        if self._knows_groups(cluster):
            loops = sum(each.kind == CRASH_LOOP for each in lasting)
            yield from _some((declared.STUCK, self.stuck.get(cluster, 0)), (declared.LOOPS, loops))

    def _of_transactions(self, cluster: str) -> Iterator[Sample]:
        if (row := self.transactions.get(cluster)) is None:
            return
        yield Sample(declared.STUCK_TRANSACTIONS, (), row["stuck"])
        until = self.recorded[cluster].until
        if row["oldest"] is not None and until is not None:
            yield Sample(declared.OLDEST_STUCK, (), (until - row["oldest"]).total_seconds())

    def _knows_groups(self, cluster: str) -> bool:
        has_log = self.recorded[cluster].has_coordinators_log
        return has_log or "groups" in self.state.answered[cluster]

    def _of_brokers(self, cluster: str) -> Iterator[Sample]:
        if self.listed is None:
            return
        states = {row["broker_id"]: row["state"] for row in self.listed.get(cluster, ())}
        loads = {row["broker_id"]: row for row in self.loads.get(cluster, ())}
        roles = {row["broker_id"]: row for row in self.roles.get(cluster, ())}
        stale = {row["broker_id"] for row in self.stale.get(cluster, ())}
        has_log = self.recorded[cluster].has_coordinators_log
        for broker in sorted({*states, *loads, *roles}):
            load, role = loads.get(broker, {}), roles.get(broker, {})
            values: list[tuple[Metric, int | None]] = [
                (declared.BROKER_LISTED, states.get(broker, FENCED) != FENCED),
                (declared.BROKER_STALE, broker in stale),
                (declared.BROKER_LEADS, load.get("leads", 0)),
                (declared.BROKER_REPLICAS, load.get("replicates", 0)),
                (declared.BROKER_OUT, role.get("out", 0)),
                (declared.BROKER_GROUPS, role.get("groups", 0) if has_log else None),
            ]
            yield from _some(*values, labels=(str(broker),))


def _of_log_dirs(rows: Sequence[Row]) -> Iterator[Sample]:
    failed: Counter[int] = Counter()
    for row in rows:
        failed[row["broker_id"]] += row["is_online"] is False
        volume = (declared.USABLE, row["usable_bytes"]), (declared.VOLUME, row["total_bytes"])
        yield from _some(*volume, labels=(str(row["broker_id"]), row["log_dir"]))
    for broker_id, count in sorted(failed.items()):
        yield Sample(declared.BROKER_FAILED_DIRS, (str(broker_id),), count)


def _of_partitions(row: ClusterRow) -> Iterator[Sample]:
    yield Sample(declared.PARTITIONS, (), row["partitions"])
    bounds: dict[str, tuple[int | None, int | None]] = {
        "offline": (row["offline"], row["offline"]),
        "under_min_isr": (row["under_min_isr_min"], row["under_min_isr_max"]),
        "at_min_isr": (row["at_min_isr_min"], row["at_min_isr_max"]),
        "one_in_sync": (row["one_in_sync_min"], row["one_in_sync_max"]),
        "under_replicated": (row["under_replicated"], row["under_replicated"]),
    }
    for level, (least, most) in bounds.items():
        yield from _some((declared.LEVEL_MIN, least), (declared.LEVEL_MAX, most), labels=(level,))


def _some(*values: tuple[Metric, int | None], labels: tuple[str, ...] = ()) -> Iterator[Sample]:
    """Yield the values that are known."""
    for metric, value in values:
        if value is not None:
            yield Sample(metric, labels, value)


def _by_cluster(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["cluster"], []).append(row)
    return found


def _rows_since(ask: Ask, name: str, lacks: list[str]) -> list[Row]:
    """Return rows of tables that a lake of an older version does not have, which `lacks` gets."""
    try:
        return _rows(ask, name)
    except OlderLakeError as error:
        lacks.append(str(error))
        return []


def _rows(ask: Ask, name: str, **values: object) -> list[Row]:
    text = (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    found: list[Row] = ask(with_values(text, values)).to_pylist()
    return found
