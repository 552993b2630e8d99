"""Polls of clusters, and records of their controllers' logs, that have to become history now."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from jobs.histories.cluster_log import NewRecords, has_news, has_snapshot, read_at
from jobs.histories.poll_headers import NEVER, Headers
from jobs.histories.poll_plan import lacks_gold, of_silver, parts_of, silver_state
from jobs.rounds.history import Context
from jobs.rounds.stage import failing_as
from jobs.rules.log.state import State as LogState
from jobs.rules.round import CLUSTER_LOG, SILVER
from jobs.rules.silver.acceptance import claims
from jobs.rules.silver.state import Row
from jobs.rules.takes import NOTED_AFTER, Take, is_due, take
from jobs.rules.teller import teller

LOG = ""
"""In place of an alias: its row of internal.states says how far bronze.cluster_log was taken."""

_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class LogMemory:
    """The version of bronze.cluster_log up to which all rows were taken."""

    version: int


class NewPolls:
    """The polls and records that this process has seen, and that no round has taken."""

    def __init__(self, histories: Collection[str]) -> None:
        self._histories = histories
        self.believed: str | None = None
        """The alias of the cluster whose answers a person says are right."""
        self.headers = Headers()
        self._log: NewRecords | None = None

    def due(self, context: Context, now: datetime) -> list[Take]:
        """Takes of the clusters whose polls have to become history now."""
        self.headers.look(context)
        records = self._records(context)
        if context.config.with_controllers:
            records.look()
        claimed, known = _claimed_ids(context, self.headers, records.rows), of_silver(context)
        lacking = {cluster for cluster in known if lacks_gold(context, self._histories, cluster)}
        found = [
            Take(cluster, known[cluster]["cluster_id"], {}, (), parts_of(context, cluster))
            for cluster in known
            if cluster in lacking and cluster not in context.left_out
        ]
        takes: list[tuple[Take, bool]] = []
        # Bronze may not have kept what a person believes.
        believed = {self.believed} if self.believed is not None else set()
        for cluster in sorted(self.headers.of.keys() | records.rows.keys() | believed):
            headers, of_log = self.headers.in_order(cluster), records.rows.get(cluster)
            if cluster in context.left_out or cluster in lacking:
                continue
            if not (headers or of_log is not None or cluster in believed):
                continue
            if of_log is None and _waits_for_log(context, cluster, headers, now):
                continue
            with failing_as(cluster):
                each = self._take(context, cluster, headers, of_log, claimed.get(cluster))
                takes.append((each, self._is_due(context, each, headers, of_log, now)))
        # A version of the log's table, which has rows of many clusters, is noted once all of them
        # are taken.
        is_log_due = any(is_due and each.log for each, is_due in takes)
        return found + [each for each, is_due in takes if is_due or (is_log_due and each.log)]

    def log_versions(self, takes: Iterable[Take]) -> tuple[tuple[int, int] | None, bool]:
        """The versions of bronze.cluster_log whose records a round takes, None where it takes none;
        and whether no cluster's records of these are left then.
        """
        of_log = {each.cluster for each in takes if each.log}
        if self._log is None:
            return None, True
        versions = (self._log.noted + 1, self._log.last) if of_log else None
        return versions, self._log.rows.keys() <= of_log

    def records_of(self, takes: Iterable[Take]) -> dict[str, pa.Table]:
        """The records of the log that a round takes, by alias."""
        rows = {} if self._log is None else self._log.rows
        return {each.cluster: rows[each.cluster] for each in takes if each.log}

    def take(self, context: Context, takes: Sequence[Take]) -> None:
        """Forget what a round has taken. `context`: of after it."""
        if self._log is not None:
            of_log = [each.cluster for each in takes if each.log]
            self._log.note({of: _log_state(context, of).is_open for of in of_log})
        self.headers.take(context, takes)

    def lost(self, cluster: str, polls: Iterable[str]) -> set[str]:
        """Those of the polls of a cluster that bronze has not kept."""
        return set(polls) - self.headers.of.get(cluster, {}).keys()

    def _records(self, context: Context) -> NewRecords:
        """The new records of the controllers' log."""
        if self._log is None:
            self._log = NewRecords(context.spark, context.lake)
            noted = context.memory(CLUSTER_LOG, LOG, LogMemory)
            self._log.begin(-1 if noted is None else noted.version)
        return self._log

    def _take(
        self,
        context: Context,
        cluster: str,
        headers: Sequence[Row],
        records: pa.Table | None,
        claimed_id: str | None,
    ) -> Take:
        """The part of a cluster's polls and of its log that the round takes."""
        config, state = context.config, silver_state(context, cluster)
        log = context.memory(CLUSTER_LOG, cluster, LogState)
        who_tells = teller(
            state,
            log,
            headers,
            claimed_id,
            read_at=None if records is None else read_at(records),
            has_snapshot=records is not None and has_snapshot(records),
            hand_over=config.hand_over if cluster in config.with_controllers else None,
            since=context.run.since,
        )
        taken = take(
            cluster,
            state,
            parts_of(context, cluster),
            headers,
            claimed_id=claimed_id,
            most_polls=config.polls_per_round,
            # A cluster that is configured no more stays what it was.
            kind=config.kinds.get(cluster, state.kind),
            teller=who_tells,
        )
        known = None if log is None or not log.is_whole else (log.topic_filter, log.static_configs)
        is_part = who_tells.by_log and known == (config.topic_filter, state.static_configs)
        is_whole = not is_part or taken.teller.polls_from is not None
        return replace(
            taken, log=records is not None, whole=is_whole, believe=cluster == self.believed
        )

    @staticmethod
    def _is_due(
        context: Context,
        each: Take,
        headers: Sequence[Row],
        records: pa.Table | None,
        now: datetime,
    ) -> bool:
        """Whether a cluster has to be in the next round."""
        if each.believe:
            return True
        deadlines = [
            told["deadline"] for (_, of), told in context.states.items() if of == each.cluster
        ]
        state = silver_state(context, each.cluster)
        if headers and is_due(each, state, headers, () if each.teller.by_log else deadlines, now):
            return True
        if records is None:
            return False
        at = read_at(records)
        is_over = any(deadline is not None and deadline < at for deadline in deadlines)
        return (
            has_news(records) or is_over or now - pc.min(records["read_at"]).as_py() > NOTED_AFTER
        )


def _waits_for_log(context: Context, cluster: str, headers: Sequence[Row], now: datetime) -> bool:
    """Whether a cluster without history has a log that may be read yet, and tells it then."""
    is_new = (SILVER, cluster) not in context.states and cluster in context.config.with_controllers
    first = min((header["scheduled_at"] for header in headers), default=now)
    return is_new and now - first <= context.config.hand_over


def _log_state(context: Context, cluster: str) -> LogState:
    return context.memory(CLUSTER_LOG, cluster, LogState) or LogState()


def _claimed_ids(
    context: Context, headers: Headers, records: Mapping[str, pa.Table]
) -> dict[str, str]:
    """Alias -> the cluster id that it stands for."""
    known = [(cluster, row["cluster_id"], NEVER) for cluster, row in of_silver(context).items()]
    of_log = [(cluster, rows["cluster_id"][0].as_py(), _EVER) for cluster, rows in records.items()]
    answered = [
        (cluster, header["cluster_id"], header["scheduled_at"])
        for cluster, of_cluster in headers.of.items()
        for header in of_cluster.values()
        if header["outcome"] == "ok"
    ]
    return claims(told for told in (*known, *answered, *of_log) if told[1] is not None)
