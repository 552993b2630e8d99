"""Polls, and the controllers' log, become history, round by round: bronze -> silver -> gold of ISRs
and leaders.

A round folds the news of each cluster (jobs/rules/round.py): silver, which has two sources, and
gold after it. A job may make gold alone, where another one makes silver.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.configuration.config import Config
from jobs.histories.cluster_log import NewRecords, has_news, has_snapshot, read, read_at
from jobs.histories.poll_headers import NEVER, Headers, silver_state
from jobs.histories.poll_rounds import (
    OF_POLLS,
    DoneSilver,
    PollInput,
    PollNews,
    gold_behind,
    lacks_gold,
    made_of,
    of_silver,
    parts_of,
)
from jobs.rounds.engine import Engine, log
from jobs.rounds.history import Context, History, Made
from jobs.rounds.plan import State, kept_since, states_of
from jobs.rounds.stage import failing_as, give_back_memory
from jobs.rules.log import State as LogState
from jobs.rules.memory import dumps, loads
from jobs.rules.round import CLUSTER_LOG, GOLD, SILVER
from jobs.rules.silver.acceptance import claims
from jobs.rules.silver.state import Row
from jobs.rules.takes import NOTED_AFTER, Take, is_due, take, turn
from schemas import bronze, silver
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import ensure_lake
from schemas.internal import STATE
from schemas.lake import LakeError
from schemas.table import Table

_LOG = ""
"""In place of an alias: the row of internal.states that says how far bronze.cluster_log was
taken.
"""

_EVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class LogMemory:
    """The version of bronze.cluster_log up to which all rows were taken."""

    version: int


class Polls(History[PollNews]):
    """The histories of polls that one job makes: of OF_POLLS, all or some."""

    declared = (
        histories.SILVER,
        histories.CLUSTER_LOG,
        histories.ISR_SHRINK,
        histories.LEADER_CHURN,
    )
    job = "history"
    by = "cluster_id"
    woken_by = (METADATA_POLLS, bronze.CLUSTER_LOG)
    input_type = PollInput
    can_make_again = True
    beside: ClassVar[Mapping[str, Collection[str]]] = {SILVER: (CLUSTER_LOG,)}
    reads: ClassVar[Mapping[Table, Collection[str]]] = dict.fromkeys(silver.TABLES, tuple(GOLD))
    needed: ClassVar[Mapping[Table, str]] = {
        METADATA_POLLS: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, taken FROM {{states}} WHERE history = '{SILVER}'
            ) USING (cluster)
            WHERE record = 'poll' AND NOT (
              -- Polls that wait were taken, too: of those that are as old as retention nothing is expected any more.
              coalesce(n <= taken[stream], false)
              -- Polls of an older stream that come after those of the newest are never taken.
              OR coalesce(stream < array_max(map_keys(taken)) AND coalesce(n > taken[stream], true), false))
        """,
        bronze.CLUSTER_LOG: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, last_seen_at AS taken_at FROM {{states}} WHERE history = '{CLUSTER_LOG}'
            ) USING (cluster)
            WHERE NOT coalesce(read_at <= taken_at, false)
        """,
    }

    def __init__(self, histories: Iterable[str] = OF_POLLS) -> None:
        wanted = set(histories)
        self.names = [history for history in OF_POLLS if history in wanted]
        self.tables = [*self.written_by(self.names)]
        self.live = [table for table in self.tables if table.live]
        self.believed: str | None = None
        """The alias of the cluster whose answers a person says are right."""
        self._headers = Headers()
        self._log: NewRecords | None = None

    def written_by(self, histories: Iterable[str]) -> Iterable[Table]:
        """The tables that some of the histories write."""
        return [
            table
            for history in OF_POLLS
            if history in set(histories)
            for table in OF_POLLS[history]
        ]

    def look(self, context: Context, now: datetime) -> PollNews | None:
        """The polls, and the records, that have to become history now; or the silver that has to
        become gold.
        """
        if SILVER not in self.names:
            return self._new_silver(context, now)
        takes = self._new_polls(context, now)
        records = self._records(context)
        log = None
        if any(each.log for each in takes):
            log = records.noted + 1, records.last
        is_rest = records.rows.keys() <= {each.cluster for each in takes if each.log}
        news = self._news(context, now, takes, log=log, is_rest=is_rest)
        if news is None:
            return None
        of_log = {each.cluster: records.rows[each.cluster] for each in takes if each.log}
        return replace(news, records=of_log, versions=self._headers.versions(context, takes))

    def again(self, context: Context, taken: PollInput) -> PollNews:
        """The polls and the records that a planned round takes."""
        takes, records = list(taken.clusters.values()), {}
        if taken.log is not None:
            records = read(context.spark, context.lake, *taken.log, planned=taken.at)
        of_log = {each.cluster: records[each.cluster] for each in takes if each.log}
        return PollNews(
            takes=taken,
            records=of_log,
            clusters=taken.clusters.keys(),
            says=self._says(context, takes),
        )

    def make(self, context: Context, news: PollNews) -> Made:
        """Fold polls and records of each cluster."""
        rows = {(SILVER, cluster): done.row(cluster) for cluster, done in news.takes.silver.items()}
        context = replace(context, states=context.states | rows)
        return made_of(context, news)

    def after(self, context: Context, news: PollNews, made: Made | None) -> Iterable[State]:  # noqa: ARG002
        """The row that says up to which version the log was taken: no further than all rows
        were.
        """
        told = [] if made is None else made.states
        is_open = any(
            loads(LogState, row["memory"]).is_open for row in told if row["history"] == CLUSTER_LOG
        )
        if news.takes.log is not None and news.takes.is_rest and not is_open:
            memory = dumps(LogMemory(news.takes.log[1]))
            of_log = {"history": CLUSTER_LOG, "cluster": _LOG, "round": None, "memory": memory}
            yield dict.fromkeys(STATE.column_names) | of_log

    def done(self, context: Context, news: PollNews) -> None:
        """Forget what was taken."""
        takes = news.takes.clusters.values()
        if any(each.is_large for each in takes):
            # Python's side of a frame is a cycle (py4j): Java keeps the rows of it until Python
            # collects.
            give_back_memory()
        if self._log is not None:
            self._log.note(
                {
                    each.cluster: _log_state(context, each.cluster).is_open
                    for each in takes
                    if each.log
                }
            )
        self._headers.take(context, takes)

    def forget(self, cluster: str) -> None:
        """Look at all polls of a cluster again."""
        self._headers.forget(cluster)

    def check_again(self, context: Context, cluster: str) -> None:
        """Raise LakeError where bronze has no longer what silver began with, or silver what gold
        was made of.
        """
        lake = context.lake
        if SILVER in self.names and (CLUSTER_LOG, cluster) in context.states:
            raise LakeError(
                f"the controllers' log of {cluster} is part of its history, and polls took turns "
                "with it as they came: "
                "computed again, silver would not be the same; nothing was changed. Gold can be "
                "computed again: "
                "isr_shrink, leader_churn"
            )
        of_cluster = F.col("cluster") == cluster
        states = lake.read(context.spark, silver.CLUSTER_SNAPSHOTS).where(of_cluster)
        first, since = states.agg(
            F.min("first_poll"), F.min("valid_from").cast("string")
        ).collect()[0]
        if SILVER in self.names:
            polls = lake.read(context.spark, METADATA_POLLS).where(
                of_cluster & (F.col("record") == "poll")
            )
            if first is not None and polls.where(F.col("poll_id") == first).isEmpty():
                raise LakeError(
                    f"silver knows {cluster} since {since} UTC, and bronze has not kept the polls "
                    "of then: computed "
                    "again, silver would begin later; nothing was changed. Gold can be computed "
                    "again: isr_shrink, "
                    "leader_churn"
                )
        elif (kept := kept_since(context.states, "silver")) is not None and not states.where(
            F.col("valid_from") < F.lit(kept)
        ).isEmpty():
            raise LakeError(
                f"silver knows {cluster} since {since} UTC, and retention has dropped what was "
                "over before "
                f"{kept:%Y-%m-%d} UTC: computed again, {', '.join(self.names)} would lack what "
                "was made of it; "
                "nothing was changed"
            )

    def lost(self, cluster: str, polls: Iterable[str]) -> set[str]:
        """Those of the polls of a cluster that bronze has not kept."""
        return set(polls) - self._headers.of.get(cluster, {}).keys()

    # --- what is new ---

    def _news(
        self,
        context: Context,
        now: datetime,
        takes: Sequence[Take],
        *,
        log: tuple[int, int] | None = None,
        is_rest: bool = True,
        done: Mapping[str, DoneSilver] | None = None,
    ) -> PollNews | None:
        if not takes:
            return None
        config, clusters = context.config, {each.cluster: each for each in takes}
        migrating, names = tuple(sorted(config.migrating)), tuple(self.names)
        taken = PollInput(
            now,
            names,
            config.thresholds,
            migrating,
            config.topic_filter,
            clusters,
            log,
            is_rest,
            dict(done or {}),
        )
        return PollNews(
            takes=taken, clusters=clusters.keys(), is_due=True, says=self._says(context, takes)
        )

    def _says(self, context: Context, takes: Sequence[Take]) -> str:
        return str(context.run.outages) if SILVER in self.names else f"{len(takes)} cluster(s)"

    def _records(self, context: Context) -> NewRecords:
        """The new records of the controllers' log."""
        if self._log is None:
            self._log = NewRecords(context.spark, context.lake)
            noted = context.memory(CLUSTER_LOG, _LOG, LogMemory)
            self._log.begin(-1 if noted is None else noted.version)
        return self._log

    def _new_polls(self, context: Context, now: datetime) -> list[Take]:
        """Takes of the clusters whose polls have to become history now."""
        self._headers.look(context)
        records = self._records(context)
        if context.config.with_controllers:
            records.look()
        claimed, known = _claimed_ids(context, self._headers, records.rows), of_silver(context)
        lacking = {cluster for cluster in known if lacks_gold(context, self.names, cluster)}
        found = [
            Take(cluster, known[cluster]["cluster_id"], {}, (), parts_of(context, cluster))
            for cluster in known
            if cluster in lacking and cluster not in context.aside
        ]
        takes: list[tuple[Take, bool]] = []
        # Bronze may not have kept what a person believes.
        believed = {self.believed} if self.believed is not None else set()
        for cluster in sorted(self._headers.of.keys() | records.rows.keys() | believed):
            headers, of_log = self._headers.in_order(cluster), records.rows.get(cluster)
            if cluster in context.aside or cluster in lacking:
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
        by_log, told_from = turn(
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
            by_log=by_log,
            told_from=told_from,
        )
        known = None if log is None or not log.is_whole else (log.topic_filter, log.static_configs)
        is_part = by_log and known == (config.topic_filter, state.static_configs)
        is_whole = not is_part or taken.told_from is not None
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
        if headers and is_due(each, state, headers, () if each.by_log else deadlines, now):
            return True
        if records is None:
            return False
        at = read_at(records)
        is_over = any(deadline is not None and deadline < at for deadline in deadlines)
        return (
            has_news(records) or is_over or now - pc.min(records["read_at"]).as_py() > NOTED_AFTER
        )

    def _new_silver(self, context: Context, now: datetime) -> PollNews | None:
        """Gold, where another job makes silver."""
        context = replace(context, states=states_of(context.spark, context.lake))
        takes = []
        for cluster, row in of_silver(context).items():
            if row["done_poll"] is None or cluster in context.aside:
                continue
            told = [
                context.states.get((history, cluster), {}).get("deadline") for history in self.names
            ]
            is_due = any(deadline and deadline < row["done_at"] for deadline in told)
            if is_due or gold_behind(context, self.names, cluster) is not None:
                takes.append(Take(cluster, row["cluster_id"], {}, (), row["parts"]))
        done = {}
        for each in takes:
            row = context.states[SILVER, each.cluster]
            done[each.cluster] = DoneSilver(
                **{name: row[name] for name in DoneSilver.__dataclass_fields__}
            )
        return self._news(context, now, takes, done=done)


def _waits_for_log(context: Context, cluster: str, headers: Sequence[Row], now: datetime) -> bool:
    """Whether a cluster without history has a log that may be read yet: then that tells it from its
    begin on.
    """
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


def believe(engine: Engine, polls: Polls, cluster: str) -> None:
    """Accept the answers of a cluster that wait, as a person says that they are right, and what
    they show.

    Raises LakeError for a cluster of which none waits, once all that is new was taken, or where no
    round takes any.
    """
    engine.catch_up()
    waited = silver_state(engine.context(), cluster).waiting
    if not waited:
        raise LakeError(
            f"no poll of a cluster {cluster!r} waits in {engine.lake}: there is nothing to "
            "believe; "
            "`kafka-metadata-history status` says where polls wait"
        )
    gone = polls.lost(cluster, waited)
    polls.believed = cluster
    try:
        engine.round(datetime.now(UTC))
    finally:
        polls.believed = None
    if left := silver_state(engine.context(), cluster).waiting:
        why = (
            "its fold fails, so its history is left out"
            if cluster in engine.aside
            else "no round took them"
        )
        raise LakeError(
            f"nothing of cluster {cluster!r} was believed, and {len(left)} poll(s) wait: {why}"
        )
    log.info("cluster %s: what waited since poll %s is believed", cluster, waited[0])
    if gone:
        log.warning(
            "cluster %s: bronze has not kept %d of the polls that waited; they wait no more",
            cluster,
            len(gone),
        )


def believing(spark: SparkSession, config: Config, cluster: str) -> None:
    """Accept the answers of a cluster that wait."""
    ensure_lake(spark, config.lake)
    polls = Polls()
    believe(Engine(spark, config, polls), polls, cluster)
