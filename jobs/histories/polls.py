"""Polls, and the controllers' log, become history, round by round: bronze -> silver -> gold of ISRs
and leaders.

A round folds the news of each cluster (jobs/rules/round.py): silver, which has two sources, and
gold after it. A job may make gold alone, where another one makes silver.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

import pyarrow as pa

from jobs.configuration import histories
from jobs.histories.cluster_log import read
from jobs.histories.poll_inputs import inputs_of
from jobs.histories.poll_news import LOG, LogMemory, NewPolls
from jobs.histories.poll_plan import (
    OF_POLLS,
    DoneSilver,
    PollNews,
    PollPlan,
    gold_behind,
    of_silver,
)
from jobs.rounds.history import Context, History, Inputs, Output
from jobs.rounds.plan import State, kept_since, state_of, states_of
from jobs.rules.log.state import State as LogState
from jobs.rules.memory import loads
from jobs.rules.round import CLUSTER_LOG, GOLD, SILVER
from jobs.rules.takes import Take
from schemas import bronze, silver
from schemas.bronze import METADATA_POLLS
from schemas.lake import LakeError
from schemas.table import Table, sql_string


class Polls(History[PollNews]):
    """The histories of polls that one job makes: of OF_POLLS, all or some."""

    declared = (
        histories.SILVER,
        histories.CLUSTER_LOG,
        histories.ISR_SHRINK,
        histories.LEADER_CHURN,
    )
    job = "history"
    key = "cluster"
    by = "cluster_id"
    woken_by = (METADATA_POLLS, bronze.CLUSTER_LOG)
    plan_type = PollPlan
    can_make_again = True
    other_states: ClassVar[Mapping[str, Collection[str]]] = {SILVER: (CLUSTER_LOG,)}
    needs_silver: ClassVar[Mapping[Table, Collection[str]]] = dict.fromkeys(
        silver.TABLES, tuple(GOLD)
    )
    needs: ClassVar[Mapping[Table, str]] = {
        METADATA_POLLS: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, taken FROM {{states}} WHERE history = '{SILVER}'
            ) USING (cluster)
            WHERE record = 'poll' AND NOT (
              -- Polls that wait were taken, too: of those that are as old as retention nothing is
              -- expected any more.
              coalesce(n <= taken[stream], false)
              -- Polls of an older stream that come after those of the newest are never taken.
              OR coalesce(stream < array_max(map_keys(taken))
                AND coalesce(n > taken[stream], true), false))
        """,
        bronze.CLUSTER_LOG: f"""
            SELECT min(day) FROM {{rows}} LEFT JOIN (
              SELECT cluster, last_seen_at AS taken_at FROM {{states}}
              WHERE history = '{CLUSTER_LOG}'
            ) USING (cluster)
            WHERE NOT coalesce(read_at <= taken_at, false)
        """,
    }

    def __init__(self, names: Iterable[str] = OF_POLLS) -> None:
        wanted = set(names)
        self.names = [history for history in OF_POLLS if history in wanted]
        self.tables = [*self.written_by(self.names)]
        self.live = [table for table in self.tables if table.live]
        self.new = NewPolls(self.names)

    def written_by(self, histories: Iterable[str]) -> Iterable[Table]:
        """The tables that some of the histories write."""
        return [
            table
            for history in OF_POLLS
            if history in set(histories)
            for table in OF_POLLS[history]
        ]

    def due(self, context: Context, now: datetime) -> PollNews | None:
        """The polls and records that have to become history; or the silver that becomes gold."""
        if SILVER not in self.names:
            return self._new_silver(context, now)
        takes = self.new.due(context, now)
        if not takes:
            return None
        log, is_rest = self.new.log_versions(takes)
        plan = replace(self._plan(context, now, takes), log=log, is_rest=is_rest)
        return replace(
            self._news(context, plan),
            is_due=True,
            records=self.new.records_of(takes),
            versions=self.new.headers.versions(context, takes),
        )

    def planned(self, context: Context, plan: PollPlan) -> PollNews:
        """The polls and the records that a planned round takes."""
        takes, records = list(plan.clusters.values()), {}
        if plan.log is not None:
            records = read(context.spark, context.lake, *plan.log, planned=plan.at)
        of_log = {each.cluster: records[each.cluster] for each in takes if each.log}
        return replace(self._news(context, plan), records=of_log)

    def read(self, context: Context, news: PollNews) -> Inputs:
        """Polls and records of each cluster, and the live rows that they may change."""
        rows = {(SILVER, cluster): done.row(cluster) for cluster, done in news.plan.silver.items()}
        return inputs_of(replace(context, states=context.states | rows), news)

    def note(self, context: Context, news: PollNews, output: Output | None) -> Iterable[State]:  # noqa: ARG002
        """The row that says up to which version the log was taken: no further than all rows."""
        told = [] if output is None else output.states
        is_open = any(
            loads(LogState, row["memory"]).is_open for row in told if row["history"] == CLUSTER_LOG
        )
        if news.plan.log is not None and news.plan.is_rest and not is_open:
            yield state_of(CLUSTER_LOG, LOG, LogMemory(news.plan.log[1]))

    def done(self, context: Context, news: PollNews) -> None:
        """Forget what was taken."""
        self.new.take(context, list(news.plan.clusters.values()))

    def forget(self, cluster: str) -> None:
        """Look at all polls of a cluster again."""
        self.new.headers.forget(cluster)

    def check_again(self, context: Context, cluster: str) -> None:
        """Raise LakeError where bronze or silver no longer has all that the history was made of."""
        lake = context.lake
        if SILVER in self.names and (CLUSTER_LOG, cluster) in context.states:
            raise LakeError(
                f"the controllers' log of {cluster} is part of its history, and polls took turns "
                "with it as they came: computed again, silver would not be the same; nothing was "
                "changed. Gold can be computed again: isr_shrink, leader_churn"
            )
        of_cluster = f"cluster = {sql_string(cluster)}"
        states = lake.read(context.spark, silver.CLUSTER_SNAPSHOTS).where(of_cluster)
        first, since = states.selectExpr(
            "min(first_poll)", "CAST(min(valid_from) AS STRING)"
        ).collect()[0]
        if SILVER in self.names:
            polls = lake.read(context.spark, METADATA_POLLS).where(of_cluster)
            polls = polls.where("record = 'poll'")
            if first is not None and polls.where(f"poll_id = {sql_string(first)}").isEmpty():
                raise LakeError(
                    f"silver knows {cluster} since {since} UTC, and bronze has not kept the polls "
                    "of then: computed again, silver would begin later; nothing was changed. Gold "
                    "can be computed again: isr_shrink, leader_churn"
                )
        elif (kept := kept_since(context.states, "silver")) is not None and not states.where(
            f"valid_from < TIMESTAMP'{kept:%Y-%m-%d %H:%M:%S.%f}Z'"
        ).isEmpty():
            raise LakeError(
                f"silver knows {cluster} since {since} UTC, and retention has dropped what was "
                f"over before {kept:%Y-%m-%d} UTC: computed again, {', '.join(self.names)} would "
                "lack what was made of it; nothing was changed"
            )

    @staticmethod
    def keys_of(rows: pa.Table) -> pa.ChunkedArray:
        """The keys of live rows."""
        return rows["cluster"]

    def _plan(self, context: Context, now: datetime, takes: Iterable[Take]) -> PollPlan:
        config, clusters = context.config, {each.cluster: each for each in takes}
        migrating, names = tuple(sorted(config.migrating)), tuple(self.names)
        return PollPlan(now, names, config.thresholds, migrating, config.topic_filter, clusters)

    def _news(self, context: Context, plan: PollPlan) -> PollNews:
        by_polls = SILVER in plan.histories
        says = str(context.run.outages) if by_polls else f"{len(plan.clusters)} cluster(s)"
        clusters = plan.clusters.keys()
        return PollNews(plan=plan, keys=clusters, clusters=clusters, says=says)

    def _new_silver(self, context: Context, now: datetime) -> PollNews | None:
        """Gold, where another job makes silver."""
        context = replace(context, states=states_of(context.spark, context.lake))
        takes, done = [], {}
        for cluster, row in of_silver(context).items():
            if row["done_poll"] is None or cluster in context.left_out:
                continue
            told = [
                context.states.get((history, cluster), {}).get("deadline") for history in self.names
            ]
            is_due = any(deadline and deadline < row["done_at"] for deadline in told)
            if is_due or gold_behind(context, self.names, cluster) is not None:
                takes.append(Take(cluster, row["cluster_id"], {}, (), row["parts"]))
                known = {name: row[name] for name in DoneSilver.__dataclass_fields__}
                done[cluster] = DoneSilver(**known)
        plan = replace(self._plan(context, now, takes), silver=done)
        return replace(self._news(context, plan), is_due=True) if takes else None
