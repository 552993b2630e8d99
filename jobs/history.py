"""Polls, and the controllers' log, become history, round by round: bronze -> silver -> gold of ISRs and leaders.

A round folds the news of each cluster (jobs/rules/round.py) in the one stage (jobs/common/stage.py), and commits tables
side by side.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial, reduce
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common import large
from jobs.common.appended import is_kept, is_kept_since
from jobs.common.cli import Job, OfCluster
from jobs.common.cluster_log import NewRecords, has_news, has_snapshot, read, read_at
from jobs.common.commit import Commit, delete_rows, newest_commit
from jobs.common.config import Config, Thresholds
from jobs.common.expiry import kept_since
from jobs.common.live import PARTS, LiveRows, in_parts, part_of
from jobs.common.maker import Maker, job_of, log
from jobs.common.outages import Outages
from jobs.common.rounds import Step, states_of
from jobs.common.session import COMPILED_FROM, session_for
from jobs.common.stage import (
    arrow_schema,
    as_stored,
    failing_as,
    folded,
    frame_of,
    give_back_memory,
    packed,
    packed_in_arrow,
    side_by_side,
    uncollected,
)
from jobs.rules import round as rules
from jobs.rules.arrow import rows_of
from jobs.rules.coordinators import coordinators
from jobs.rules.gold.isr_shrink import needed
from jobs.rules.gold.news import TIMES
from jobs.rules.log import State as LogState
from jobs.rules.log import needed as needed_by_log
from jobs.rules.log.records import in_order
from jobs.rules.log.silver import TABLES as LOG_TABLES
from jobs.rules.round import CLUSTER_LOG, GOLD, SILVER, Plan, Taken
from jobs.rules.silver.acceptance import claims
from jobs.rules.silver.cluster import BROKERS, WITNESSES
from jobs.rules.silver.compare import narrowed_rows
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import Row, State
from jobs.rules.takes import NOTED_AFTER, Take, is_due, take, turn
from metadata_source.facts import OFFSETS_TOPIC
from schemas import bronze, gold, silver
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import ensure_lake
from schemas.internal import STATE
from schemas.lake import VERSION, LakeError
from schemas.table import PART, Table

HISTORIES = {
    SILVER: (*silver.TABLES, gold.STALE_BROKERS, gold.CONTROLLER_CHANGES),
    "isr_shrink": gold.ISR_TABLES,
    "leader_churn": gold.LEADER_TABLES,
}
"""History -> the tables that it writes."""

HEADER = (
    *("cluster", "poll_id", "stream", "n", "day", "outcome", "error_kind", "cluster_id", "scheduled_at", "received_at"),
    *("digest", "partition_count", "broker_id", "broker", "sent_at", "witnesses", "is_key_frame", "error"),
    *("record", "kind", "asked_at", "answered_at", "interval_ms"),
)
"""The columns of headers, of polls and of answers beside them, that tell whether there is news, and why a poll failed.
"""

_IS_HEADER = "record IN ('poll', 'answer')"

_PARTITIONS = silver.PARTITION_SNAPSHOTS
_OF_LOG = (*LOG_TABLES, silver.HISTORY_SOURCES)
"""The tables that the controllers' log may change."""

_REGISTRATIONS = (silver.BROKER_REGISTRATIONS, silver.PARTITION_REGISTRATIONS)
_EVIDENCE = (silver.BROKER_REGISTRATIONS, silver.REASSIGNMENTS, silver.PARTITION_ELR)
"""The tables of which rows that stood for long decide what a record of the log means."""

_State = TypeVar("_State", State, LogState)

_LOG = ""
"""In place of an alias: the row of internal.states that says how far bronze.cluster_log was taken."""

_NEVER, _EVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

_TOPICS = (silver.TOPIC_SNAPSHOTS, silver.PARTITION_SNAPSHOTS, silver.BROKER_SNAPSHOTS, silver.CLUSTER_SNAPSHOTS)
"""The tables that records of topics, and the header beside them, may change."""


class History(Maker):
    """The histories of polls that one job makes, and how far they are."""

    by = "cluster_id"
    can_make_again = True

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        histories: Iterable[str] = HISTORIES,
        outages: Outages | None = None,
        since: datetime | None = None,
    ) -> None:
        """`since`: when a run began that reads the controllers' log all the time."""
        wanted = set(histories)
        self._outages, self._since = outages or Outages(), since
        self._believed: str | None = None
        self._topic_filter = config.topic_filter
        self._followed = frozenset(config.with_controllers)
        self._histories = [history for history in HISTORIES if history in wanted]
        self._headers: dict[str, dict[str, Row]] = {}
        self._looked, self._looked_at = -1, _NEVER
        """The version of bronze.metadata_polls up to which headers were read, and its time; -1 before any."""
        self._looked_from = 0, _NEVER
        """The first version that the last look has read, and a time that is not after it."""
        self._parsed: dict[tuple[str, str], tuple[str, Any]] = {}
        self._log = NewRecords(spark, config.lake)
        super().__init__(spark, config, self._histories)
        self._log.begin(self._noted_version())

    def _finish(self, step: Step, live: LiveRows) -> None:
        # Whoever takes over a part of the histories finishes the round of all of them.
        own, self._histories = self._histories, [history for history in HISTORIES if history in step.histories]
        try:
            if "again" in step.takes:
                self._forget(step)
            else:
                self._make_planned(step, live)
        finally:
            self._histories = own

    def _make_planned(self, step: Step, live: LiveRows) -> None:
        for cluster, row in step.takes["silver"].items():
            done_at = datetime.fromisoformat(row["done_at"])
            self._states[SILVER, cluster] = dict.fromkeys(STATE.column_names) | row | {"done_at": done_at}
        takes = [Take(cluster, **taken) for cluster, taken in step.takes["clusters"].items()]
        if step.takes["log"] is not None:
            planned = datetime.fromisoformat(step.takes["at"])
            self._log.rows = read(self._spark, self._lake, *step.takes["log"], planned=planned)
        self._make(takes, step.takes, lambda: step, live)

    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there was anything to write."""
        takes = self._new_polls(now) if SILVER in self._histories else self._new_silver()
        if not takes:
            return False
        # Another job may write more of silver while gold is made.
        of_gold = [] if SILVER in self._histories else takes
        plan: dict[str, Any] = {
            "at": now.isoformat(),
            "thresholds": self._config.thresholds.to_json(),
            "migrating": sorted(self._config.migrating),
            "topic_filter": self._topic_filter,
            "log": [self._log.noted + 1, self._log.last] if any(each.log for each in takes) else None,
            "is_rest": self._log.rows.keys() <= {each.cluster for each in takes if each.log},
            "clusters": {each.cluster: {k: v for k, v in vars(each).items() if k != "cluster"} for each in takes},
            "silver": {each.cluster: self._done_silver(each.cluster) for each in of_gold},
        }
        self._make(takes, plan, self._plan(plan, now), self._live)
        self._in_round = {each.cluster for each in takes}
        if any(each.is_large for each in takes):
            # Python's side of a frame is a cycle (py4j): Java keeps the rows of it until Python collects.
            give_back_memory()
        self._log.note({each.cluster: self._log_state(each.cluster).is_open for each in takes if each.log})
        for each in takes:
            waiting = self._silver_state(each.cluster).waiting
            for poll_id in each.polls.keys() - set(waiting):
                del self._headers[each.cluster][poll_id]
        return True

    def again(self, cluster: str) -> None:
        """Take a cluster out of the histories: the next rounds make them again, from bronze, or gold from silver.

        Raises LakeError for a cluster without history, and where bronze has no longer what silver began with, or silver
        what gold was made of.
        """
        if not any((history, cluster) in self._states for history in self._histories):
            raise LakeError(f"{self._lake} has no history of a cluster {cluster!r}; see the aliases in internal.state")
        if SILVER in self._histories and (CLUSTER_LOG, cluster) in self._states:
            raise LakeError(
                f"the controllers' log of {cluster} is part of its history, and polls took turns with it as they came: "
                "computed again, silver would not be the same; nothing was changed. Gold can be computed again: "
                "isr_shrink, leader_churn"
            )
        of_cluster = F.col("cluster") == cluster
        states = self._lake.read(self._spark, silver.CLUSTER_SNAPSHOTS).where(of_cluster)
        first, since = states.agg(F.min("first_poll"), F.min("valid_from").cast("string")).collect()[0]
        if SILVER in self._histories:
            polls = self._lake.read(self._spark, METADATA_POLLS).where(of_cluster & (F.col("record") == "poll"))
            if first is not None and polls.where(F.col("poll_id") == first).isEmpty():
                raise LakeError(
                    f"silver knows {cluster} since {since} UTC, and bronze has not kept the polls of then: computed "
                    "again, silver would begin later; nothing was changed. Gold can be computed again: isr_shrink, "
                    "leader_churn"
                )
        elif (kept := kept_since(self._states, "silver")) is not None and not states.where(
            F.col("valid_from") < F.lit(kept)
        ).isEmpty():
            raise LakeError(
                f"silver knows {cluster} since {since} UTC, and retention has dropped what was over before "
                f"{kept:%Y-%m-%d} UTC: computed again, {', '.join(self._histories)} would lack what was made of it; "
                "nothing was changed"
            )
        self._forget(self._rounds.plan({"again": cluster}, datetime.now(UTC)))

    def believe(self, cluster: str) -> None:
        """Accept the answers of a cluster that wait, as a person says that they are right, and what they show.

        Raises LakeError for a cluster of which none waits, once all that is new was taken, or where no round takes any.
        """
        self.catch_up()
        waited = self._silver_state(cluster).waiting
        if not waited:
            raise LakeError(
                f"no poll of a cluster {cluster!r} waits in {self._lake}: there is nothing to believe; "
                "`kafka-metadata-history status` says where polls wait"
            )
        gone = len(set(waited) - self._headers.get(cluster, {}).keys())
        self._believed = cluster
        try:
            self.round(datetime.now(UTC))
        finally:
            self._believed = None
        if left := self._silver_state(cluster).waiting:
            why = "its fold fails, so its history is left out" if cluster in self.aside else "no round took them"
            raise LakeError(f"nothing of cluster {cluster!r} was believed, and {len(left)} poll(s) wait: {why}")
        log.info("cluster %s: what waited since poll %s is believed", cluster, waited[0])
        if gone:
            log.warning("cluster %s: bronze has not kept %d of the polls that waited; they wait no more", cluster, gone)

    def _forget(self, step: Step) -> None:
        """Take a cluster out of the histories of a step, and say that it is done."""
        cluster = step.takes["again"]
        for history in sorted(step.histories):
            for table in HISTORIES[history]:
                delete_rows(self._spark, self._lake, table, f"cluster = '{cluster}'")
        keys = [(history, cluster) for history in step.histories]
        gone = {key: {"history": key[0], "cluster": cluster, "round": step.round} for key in keys}
        self._rounds.done(step, (self._states | gone).values())
        self._states, self._looked = {key: row for key, row in self._states.items() if key not in gone}, -1
        self._headers.pop(cluster, None)
        self._live.forget()

    # --- what is new ---

    def _new_polls(self, now: datetime) -> list[Take]:
        """Takes of the clusters whose polls have to become history now."""
        for header in self._new_headers():
            self._headers.setdefault(header["cluster"], {})[header["poll_id"]] = header
        if self._followed:
            self._log.look()
        claimed, cuts = self._claimed_ids(), self._cuts()
        found = [
            Take(cluster, row["cluster_id"], {}, (), cuts[cluster])
            for cluster, row in self._of_silver().items()
            if cluster not in self.aside and self._lacks_gold(cluster)
        ]
        takes: list[tuple[Take, bool]] = []
        # Bronze may not have kept what a person believes.
        believed = {self._believed} if self._believed is not None else set()
        for cluster in sorted(self._headers.keys() | self._log.rows.keys() | believed):
            headers = [header for _, header in sorted(self._headers.get(cluster, {}).items())]
            records = self._log.rows.get(cluster)
            if cluster in self.aside or self._lacks_gold(cluster):
                continue
            if not (headers or records is not None or cluster in believed):
                continue
            if self._waits_for_log(cluster, headers, now) and records is None:
                continue
            with failing_as(cluster):
                each = self._take(
                    cluster, headers, claimed.get(cluster), cuts.get(cluster, 1), cluster in self._followed
                )
                takes.append((each, self._is_due(each, headers, now)))
        # A version of the log's table, which has rows of many clusters, is noted once all of them are taken.
        is_log_due = any(is_due and each.log for each, is_due in takes)
        return found + [each for each, is_due in takes if is_due or (is_log_due and each.log)]

    def _waits_for_log(self, cluster: str, headers: Sequence[Row], now: datetime) -> bool:
        """Whether a cluster without history has a log that may be read yet: then that tells it from its begin on."""
        is_new = (SILVER, cluster) not in self._states and cluster in self._followed
        first = min((header["scheduled_at"] for header in headers), default=now)
        return is_new and now - first <= self._config.hand_over

    def _take(
        self, cluster: str, headers: Sequence[Row], claimed_id: str | None, parts: int, is_followed: bool
    ) -> Take:
        """The part of a cluster's polls and of its log that the round takes."""
        state, records = self._silver_state(cluster), self._log.rows.get(cluster)
        log = self._log_state(cluster) if (CLUSTER_LOG, cluster) in self._states else None
        by_log, told_from = turn(
            state,
            log,
            headers,
            claimed_id,
            read_at=None if records is None else read_at(records),
            has_snapshot=records is not None and has_snapshot(records),
            hand_over=self._config.hand_over if is_followed else None,
            since=self._since,
        )
        taken = take(
            cluster,
            state,
            parts,
            headers,
            claimed_id=claimed_id,
            most_polls=self._config.polls_per_round,
            # A cluster that is configured no more stays what it was.
            kind=self._config.kinds.get(cluster, state.kind),
            by_log=by_log,
            told_from=told_from,
        )
        known = None if log is None or not log.is_whole else (log.topic_filter, log.static_configs)
        is_part = by_log and known == (self._topic_filter, state.static_configs)
        is_whole = not is_part or taken.told_from is not None
        return replace(taken, log=records is not None, whole=is_whole, believe=cluster == self._believed)

    def _is_due(self, each: Take, headers: Sequence[Row], now: datetime) -> bool:
        """Whether a cluster has to be in the next round."""
        if each.believe:
            return True
        deadlines = [told["deadline"] for (_, of), told in self._states.items() if of == each.cluster]
        state = self._silver_state(each.cluster)
        if headers and is_due(each, state, headers, () if each.by_log else deadlines, now):
            return True
        if not each.log:
            return False
        records = self._log.rows[each.cluster]
        at = read_at(records)
        is_over = any(deadline is not None and deadline < at for deadline in deadlines)
        return has_news(records) or is_over or now - pc.min(records["read_at"]).as_py() > NOTED_AFTER

    def _lacks_gold(self, cluster: str) -> bool:
        """Whether some history of gold has nothing of silver yet. It is made before more of silver is."""
        done = self._states.get((SILVER, cluster), {}).get("done_poll")
        return done is not None and any((history, cluster) not in self._states for history in self._histories)

    def _new_headers(self) -> list[Row]:
        """Headers of polls that no round has taken, or that wait; those that this job has not seen."""
        newest = newest_commit(self._spark, self._lake, METADATA_POLLS)
        if newest.version == self._looked:
            return []
        is_next = 0 <= self._looked < newest.version and is_kept_since(METADATA_POLLS, self._looked_at)
        rows = self._appended(self._looked + 1, newest.version) if is_next else self._not_taken()
        all_rows = rows_of(rows.where(_IS_HEADER).select(*HEADER, VERSION).toArrow())
        self._looked_from = self._looked + 1, self._looked_at
        self._looked, self._looked_at = newest.version, newest.timestamp
        found = headers_of(all_rows)
        answers = [row for row in all_rows if row["record"] == "answer"]
        for level, line in (*self._outages.see(found), *self._outages.unanswered.see(answers)):
            log.log(level, "%s", line)
        return [header for header in found if not self._is_past(header)]

    def _appended(self, first: int, last: int, spark: SparkSession | None = None) -> DataFrame:
        return self._lake.read_appended(spark or self._spark, METADATA_POLLS, first, last)

    def _not_taken(self) -> DataFrame:
        """The rows of polls that no round has taken, or that wait, whichever version has appended them (VERSION is
        null).
        """
        rows = self._lake.read(self._spark, METADATA_POLLS).withColumn(VERSION, F.lit(None).cast("bigint"))
        if not (taken := [(cluster, *place) for cluster in self._of_silver() for place in self._taken_so_far(cluster)]):
            return rows
        so_far = self._spark.createDataFrame(taken, "cluster string, stream string, _taken bigint")
        return rows.join(F.broadcast(so_far), ["cluster", "stream"], "left").where("_taken IS NULL OR n > _taken")

    def _taken_so_far(self, cluster: str) -> list[tuple[str, int]]:
        """Of each stream, the last poll of a cluster that need not be read again."""
        state = self._silver_state(cluster)
        again = dict(map(_place_of, reversed(state.waiting)))
        return [(stream, min(n, again.get(stream, n + 1) - 1)) for stream, n in state.seen.items()]

    def _is_past(self, header: Row) -> bool:
        """Whether the poll was taken, or is of an older stream than one that was: polls in that order would not be
        history.
        """
        state, stream = self._silver_state(header["cluster"]), header["stream"]
        is_past = stream < max(state.seen, default="") or header["n"] <= state.seen.get(stream, -1)
        return bool(is_past and header["poll_id"] not in state.waiting)

    def _new_silver(self) -> list[Take]:
        """Takes of gold, where another job makes silver."""
        self._states = states_of(self._spark, self._lake)
        found = []
        for cluster, row in self._of_silver().items():
            if row["done_poll"] is None or cluster in self.aside:
                continue
            told = [self._states.get((history, cluster), {}).get("deadline") for history in self._histories]
            is_due = any(deadline and deadline < row["done_at"] for deadline in told)
            if is_due or self._gold_behind(cluster) is not None:
                found.append(Take(cluster, row["cluster_id"], {}, (), row["parts"]))
        return found

    def _claimed_ids(self) -> dict[str, str]:
        """Alias -> the cluster id that it stands for."""
        known = [(cluster, row["cluster_id"], _NEVER) for cluster, row in self._of_silver().items()]
        read = [(cluster, rows["cluster_id"][0].as_py(), _EVER) for cluster, rows in self._log.rows.items()]
        answered = [
            (cluster, header["cluster_id"], header["scheduled_at"])
            for cluster, headers in self._headers.items()
            for header in headers.values()
            if header["outcome"] == "ok"
        ]
        return claims(told for told in (*known, *answered, *read) if told[1] is not None)

    def _of_silver(self) -> dict[str, Row]:
        """The rows of internal.state of silver, by alias."""
        return {cluster: row for (history, cluster), row in self._states.items() if history == SILVER}

    def _silver_state(self, cluster: str) -> State:
        return self._state(SILVER, cluster, State)

    def _log_state(self, cluster: str) -> LogState:
        return self._state(CLUSTER_LOG, cluster, LogState)

    def _state(self, history: str, cluster: str, kind: type[_State]) -> _State:
        """The memory of a history of a cluster, parsed once; a new state if there is none."""
        if (row := self._states.get((history, cluster))) is None:
            return kind()
        if self._parsed.get((history, cluster), ("",))[0] != row["memory"]:
            self._parsed[history, cluster] = row["memory"], kind.from_json(json.loads(row["memory"]))
        state: _State = self._parsed[history, cluster][1]
        return state

    def _noted_version(self) -> int:
        """The version of bronze.cluster_log up to which all rows were taken; -1 before any."""
        row = self._states.get((CLUSTER_LOG, _LOG))
        return -1 if row is None else int(json.loads(row["memory"])["version"])

    def _done_silver(self, cluster: str) -> Row:
        """How far silver of a cluster was, fit for JSON."""
        row = self._states[SILVER, cluster]
        names = ("history", "cluster", "cluster_id", "done_poll", "changed_poll", "parts")
        return {name: row[name] for name in names} | {"done_at": row["done_at"].isoformat()}

    def _cuts(self) -> dict[str, int]:
        """Into how many parts the topics of each cluster are cut, where its live rows lie, by alias."""
        return {cluster: row["parts"] or 1 for cluster, row in self._of_silver().items()}

    def _is_cut_anew(self, take: Take) -> bool:
        """Whether the topics of a cluster were cut into fewer parts before, where its live rows still lie."""
        row = self._states.get((SILVER, take.cluster))
        return row is not None and (row["parts"] or 1) != take.parts

    # --- a round ---

    def _make(
        self, takes: Sequence[Take], plan: Mapping[str, Any], planned: Callable[[], Step], live: LiveRows
    ) -> None:
        """Fold what a round takes, commit its tables side by side, and say that it is done.

        `planned`: waits until the round is planned. `live`: as it was before the round.
        """
        made, others = self._folded(takes, plan, live)
        step = planned()
        states = [row | {"round": step.round} for row in made.pop(STATE, arrow_schema(STATE).empty_table()).to_pylist()]
        states += self._noted(plan, states, step.round)
        now = self._states | {(row["history"], row["cluster"]): row for row in states}
        of = str(self._outages) if SILVER in self._histories else f"{len(takes)} cluster(s)"
        self._write(step, made, live, now, others, of=of)

    def _noted(self, plan: Mapping[str, Any], states: Iterable[Row], number: int) -> list[Row]:
        """The row of internal.state that says up to which version the log was taken: no further than all rows were."""
        is_open = any(
            json.loads(row["memory"]).get("is_open", False) for row in states if row["history"] == CLUSTER_LOG
        )
        if plan["log"] is None or is_open or not plan["is_rest"]:
            return []
        told = {"history": CLUSTER_LOG, "cluster": _LOG, "round": number}
        return [dict.fromkeys(STATE.column_names) | told | {"memory": json.dumps({"version": plan["log"][1]})}]

    def _behind(self, takes: Sequence[Take], live: LiveRows) -> tuple[list[DataFrame], Mapping[str, large.Times]]:
        """Rows of silver that gold has not had yet, and partitions of topics whose settings it has not had, packed; for
        how many partitions one of these rows stands, by alias and key.
        """
        done = {each.cluster: self._gold_behind(each.cluster) for each in takes}
        if not (later := [(cluster, poll) for cluster, poll in done.items() if poll is not None]):
            return [], {}
        since = F.broadcast(self._spark.createDataFrame(later, "cluster string, _done string"))
        is_later = F.expr("first_poll > _done OR superseded_poll > _done")
        read = {table: live.read(table).join(since, "cluster") for table in (*silver.SNAPSHOTS, *_REGISTRATIONS)}
        partitions = read.pop(silver.PARTITION_SNAPSHOTS)
        # A record of the log changes partitions as the others stand then.
        is_wanted = {table: is_later | F.col("is_current") if table in _EVIDENCE else is_later for table in read}
        behind = [packed(rows.where(is_wanted[table]), table) for table, rows in read.items()]
        min_isr = F.max(F.greatest("min_insync_replicas", "prev_min_insync_replicas")).alias("_min_isr")
        settings = read[silver.TOPIC_CONFIGS].where(is_later).groupBy("cluster", "topic").agg(min_isr)
        partitions = partitions.join(F.broadcast(settings), ["cluster", "topic"], "left")
        partitions = partitions.where(is_later | (F.col("is_current") & (F.size("isr") <= F.col("_min_isr"))))
        times: Mapping[str, large.Times] = {}
        if never := [each.cluster for each in takes if each.is_large and done[each.cluster] == ""]:
            partitions, times = large.summed(partitions, never)
        return [*behind, packed(partitions, silver.PARTITION_SNAPSHOTS)], times

    def _tables_read(self, takes: Iterable[Take]) -> list[Table]:
        """The tables of which live rows are read."""
        tables: list[Table] = []
        if SILVER in self._histories:
            records = {record for each in takes for record in each.records}
            # Where settings change, gold looks at the partitions as they are.
            is_read = not records.isdisjoint({"topic", "configs"}) or any(
                self._silver_state(each.cluster).missing or self._is_cut_anew(each) for each in takes
            )
            tables += _TOPICS if is_read else ()
            tables += [silver.BROKER_SNAPSHOTS] if BROKERS in records else ()
            if any(each.log or each.told_from or self._silver_state(each.cluster).heir_of for each in takes):
                tables += _OF_LOG
            tables += [gold.STALE_BROKERS] if WITNESSES in records else ()
            tables += [silver.ENRICHMENTS[record] for record in sorted(records & silver.ENRICHMENTS.keys())]
        of_gold = [history for history in self._histories if history in GOLD]
        return [*dict.fromkeys((*tables, *(table for each in of_gold for table in HISTORIES[each] if table.live)))]

    def _gold_behind(self, cluster: str) -> str | None:
        """Up to which poll gold is done, where silver has rows of later ones; None where it has none."""
        changed = self._states.get((SILVER, cluster), {}).get("changed_poll") or ""
        told = [self._states.get((history, cluster), {}) for history in self._histories if history in GOLD]
        done = min((each.get("done_poll") or "" for each in told), default=changed)
        return done if changed > done else None

    def _folded(
        self, takes: Sequence[Take], plan: Mapping[str, Any], live: LiveRows
    ) -> tuple[dict[Table, pa.Table], list[Commit]]:
        """The rows that the fold makes of each cluster, by table; and the commit of partitions, where there are
        large clusters.
        """
        tables, partitions = self._tables_read(takes), None
        if any(each.is_large for each in takes) and _PARTITIONS in tables:
            tables.remove(_PARTITIONS)
            partitions = live.read(_PARTITIONS, session_for(self._spark, COMPILED_FROM)).where("is_current")
            live.forget(_PARTITIONS)
        clusters = {each.cluster: each for each in takes}
        aliases = pa.array(clusters)
        parts = {part_of(each.claimed_id) for each in takes if each.claimed_id is not None}
        brought = {
            table: rows.filter(pc.is_in(rows["cluster"], aliases)) for table, rows in live.of(tables, parts).items()
        }
        records = {each.cluster: self._log.rows[each.cluster] for each in takes if each.log}
        self._leave_out(brought, [each for each in takes if each.log and not each.whole])
        states = [row for (_, cluster), row in sorted(self._states.items()) if cluster in clusters]
        brought[STATE] = pa.Table.from_pylist(states, arrow_schema(STATE))
        sides = [frame_of(self._spark, packed_in_arrow(brought, "cluster", lambda _, rows: rows["cluster"]))]
        many = COMPILED_FROM if partitions is not None else sum(map(len, brought.values()))
        said = self._said(session_for(self._spark, many), takes)
        if partitions is not None:
            of_silver = {each.cluster: self._silver_state(each.cluster) for each in takes}
            said, sides[0], seen, first = large.narrowed(
                said,
                sides[0],
                partitions,
                clusters=[each for each in takes if not (each.is_large and each.log)],
                states=of_silver,
                cuts=self._cuts(),
            )
            sides.append(packed(seen, _PARTITIONS))
            sides += self._partitions_of_log(partitions, takes, brought)
        behind, times = self._behind(takes, live)
        limits, at = Thresholds.from_json(plan["thresholds"]), datetime.fromisoformat(plan["at"])
        written = [*(table for history in self._histories for table in HISTORIES[history]), STATE]
        # The log may say something of what is as before in each answer.
        small = {
            each.cluster
            for each in takes
            if not (each.is_large or each.log) and self._gold_behind(each.cluster) is None
        }
        # A plan of before there was a filter in it may wait to be done.
        topic_filter = plan.get("topic_filter")
        settings = Plan(frozenset(self._histories), limits, at, frozenset(plan["migrating"]), topic_filter)
        fold = partial(_fold, clusters, settings, times=times, narrowed=small)
        news = [packed(said, METADATA_POLLS)]
        if records:
            rows = {bronze.CLUSTER_LOG: pa.concat_tables(records.values())}
            news.append(frame_of(self._spark, packed_in_arrow(rows, "cluster", lambda _, rows: rows["cluster"])))
        made = folded(side_by_side(news), side_by_side([*sides, *behind]), written, fold)
        if partitions is None:
            return made, []
        if first is not None:
            began = as_stored(first.where(F.col("topic") == OFFSETS_TOPIC), _PARTITIONS).to_pylist()
            led = pa.Table.from_pylist(coordinators(began, ()), arrow_schema(silver.COORDINATORS))
            if len(led):
                made[silver.COORDINATORS] = pa.concat_tables([led, *filter(None, [made.get(silver.COORDINATORS)])])
        return made, self._commit_in_parts(made.pop(_PARTITIONS, None), first, partitions, takes)

    def _leave_out(self, brought: dict[Table, pa.Table], takes: Sequence[Take]) -> None:
        """Leave out live rows that the records of the log that are taken do not need."""
        if not takes:
            return
        aliases = pa.array([each.cluster for each in takes])
        parts: dict[Table, list[pa.Table]] = defaultdict(list)
        tables = {table.full_name: table for table in _OF_LOG if table in brought}
        for each in takes:
            live = {
                name: brought[table].filter(pc.equal(brought[table]["cluster"], each.cluster))
                for name, table in tables.items()
            }
            with failing_as(each.cluster):
                wanted = needed_by_log(live, self._log.rows[each.cluster])
            for name, rows in wanted.items():
                parts[tables[name]].append(rows)
        for table, of_table in parts.items():
            others = brought[table].filter(pc.invert(pc.is_in(brought[table]["cluster"], aliases)))
            brought[table] = pa.concat_tables([others, *of_table])

    def _partitions_of_log(
        self, partitions: DataFrame, takes: Sequence[Take], brought: Mapping[Table, pa.Table]
    ) -> list[DataFrame]:
        """Live rows of partitions of large clusters that records of the log need. `partitions`: all live rows."""
        large_ones = [each for each in takes if each.log and each.is_large]
        if not large_ones:
            return []
        registered = brought[silver.PARTITION_REGISTRATIONS]
        keys = registered.filter(pc.is_in(registered["cluster"], pa.array([each.cluster for each in large_ones])))
        rows = partitions.where(F.col("cluster").isin([each.cluster for each in large_ones]))
        if not any(each.whole for each in large_ones):
            wanted = frame_of(self._spark, keys.select(["cluster", "topic", "partition"]))
            rows = rows.join(F.broadcast(wanted), ["cluster", "topic", "partition"], "left_semi")
        return [packed(rows, _PARTITIONS)]

    def _said(self, spark: SparkSession, takes: Sequence[Take]) -> DataFrame:
        """The rows of bronze that the round reads."""
        polls = [(each.cluster, poll_id, list(records)) for each in takes for poll_id, records in each.polls.items()]
        wanted = spark.createDataFrame(polls, "cluster string, poll_id string, _records array<string>")
        if not polls:
            return self._lake.read(spark, METADATA_POLLS).where("false")
        return (
            self._rows_of(spark, takes)
            .join(F.broadcast(wanted), ["cluster", "poll_id"])
            .where(f"{_IS_HEADER} OR array_contains(_records, record)")
        )

    def _rows_of(self, spark: SparkSession, takes: Sequence[Take]) -> DataFrame:
        """Rows of bronze, those of the polls that a round takes among them, in as few files as can be.

        Those are the files of the versions that this job has seen the polls in. Where it has not, their numbers may
        leave many files to be read: each cluster has numbers of its own, and a file has polls of all.
        """
        polls = [(each.cluster, poll_id) for each in takes for poll_id in each.polls]
        seen = [self._headers.get(cluster, {}).get(poll_id) for cluster, poll_id in polls]
        versions = [header[VERSION] for header in seen if header is not None and header[VERSION] is not None]
        if len(versions) == len(polls) and self._is_kept(spark, min(versions)):
            return self._appended(min(versions), max(versions), spark)
        numbers = [_place_of(poll_id)[1] for _, poll_id in polls]
        days = sorted({day for each in takes for day in each.days})
        rows = self._lake.read(spark, METADATA_POLLS)
        return rows.where(F.col("day").isin(days) & F.col("n").between(min(numbers), max(numbers)))

    def _is_kept(self, spark: SparkSession, first: int) -> bool:
        """`is_kept` of bronze.metadata_polls, which Delta need not be asked of what the last look has read."""
        looked_from, since = self._looked_from
        is_new = first >= looked_from and is_kept_since(METADATA_POLLS, since)
        return is_new or is_kept(spark, self._lake, METADATA_POLLS, first)

    def _commit_in_parts(
        self, changed: pa.Table | None, first: DataFrame | None, live: DataFrame, takes: Sequence[Take]
    ) -> list[Commit]:
        """The commit of silver.partition_snapshots where live rows of large clusters lie there in parts of their
        own, too many for one task. `live`: all live rows. `first`: new ones, whose keys no live row has.
        """
        rows = frame_of(self._spark, arrow_schema(_PARTITIONS).empty_table() if changed is None else changed)
        cuts = {row["cluster_id"]: row["parts"] or 1 for row in self._of_silver().values()}
        part = large.part_of_partitions(cuts | {str(each.claimed_id): each.parts for each in takes})
        parts = {row[0] for row in rows.select(part).distinct().collect()}
        for each in takes:
            if each.first_poll or self._is_cut_anew(each):
                parts |= {part_of(str(each.claimed_id)), *range(PARTS, PARTS + each.parts)}
        if not parts:
            return []
        key = list(_PARTITIONS.key)
        kept = live.where(in_parts(parts)).join(F.broadcast(rows.select(*key)), key, "left_anti")
        whole = [kept, rows] if first is None else [kept, rows, first]
        placed = reduce(DataFrame.unionByName, (each.select(*_PARTITIONS.column_names) for each in whole))
        placed = placed.withColumn(PART, F.when(F.col("valid_to").isNull(), part))
        return [Commit(_PARTITIONS, placed.repartition(PART), in_parts(parts))]


def _fold(
    takes: Mapping[str, Take],
    plan: Plan,
    cluster: str,
    news: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    times: Mapping[str, large.Times],
    narrowed: Collection[str],
) -> Mapping[str, Sequence[Row]]:
    """The fold of one cluster, from and to packed rows, new ones and live ones; runs on executors.

    `narrowed`: the clusters of which the fold need not see what is as before.
    """
    with uncollected():
        each = takes[cluster]
        news, live = dict(news), dict(live)
        log = news.pop(bronze.CLUSTER_LOG.full_name, None)
        of_state = live.pop(STATE.full_name, None)
        states = {} if of_state is None else {row["history"]: row for row in of_state.to_pylist()}
        if cluster in narrowed and SILVER in plan.histories and SILVER in states:
            news, live = narrowed_rows(states[SILVER]["memory"], each, news, live)
        live = needed(live, _topics(news, live))
        brought = {name: rows_of(of_table) for name, of_table in live.items()}
        said = [row for of_table in news.values() for row in _said_rows(of_table)]
        if counted := times.get(cluster):
            for row in brought[silver.PARTITION_SNAPSHOTS.full_name]:
                row[TIMES] = counted.get((row["topic"], row["partition"], row["first_poll"]), 1)
        is_first = each.first_poll is not None
        records = [] if log is None else rows_of(in_order(log))
        taken = Taken(
            cluster,
            each.claimed_id,
            each.parts,
            said,
            brought,
            states,
            is_first,
            each.kind,
            records,
            each.by_log,
            each.told_from,
            each.believe,
        )
        return rules.fold(taken, plan)


def _topics(news: Mapping[str, pa.Table], live: Mapping[str, pa.Table]) -> pa.Array:
    """The topics that may change, or whose partitions are brought."""
    columns = [rows["topic"] for rows in news.values()]
    if (partitions := live.get(_PARTITIONS.full_name)) is not None:
        columns.append(partitions["topic"])
    return pc.unique(pa.chunked_array([chunk for each in columns for chunk in each.chunks], pa.string()))


def _said_rows(said: pa.Table) -> Iterator[Row]:
    """Rows of bronze, headers whole, others with the columns that records of their kind have."""
    for record in said["record"].unique().to_pylist():
        rows = said.filter(pc.equal(said["record"], record))
        if record not in ("poll", "answer"):
            rows = rows.select(large.SAID if record == "topic" else [*large.OF_RECORD, record])
        yield from rows_of(rows)


def _place_of(poll_id: str) -> tuple[str, int]:
    """The stream of a poll, and its number there."""
    stream, _, n = poll_id.rpartition("/")
    return stream, int(n)


# --- jobs ---


def making(*histories: str) -> Job:
    """A job that makes these histories of polls, alone."""
    return job_of(lambda spark, config: History(spark, config, histories))


def believing(spark: SparkSession, config: Config, cluster: str) -> None:
    """Accept the answers of a cluster that wait."""
    ensure_lake(spark, config.lake)
    History(spark, config).believe(cluster)


def making_again(*histories: str) -> OfCluster:
    """Computes these histories of a cluster again."""

    def run(spark: SparkSession, config: Config, cluster: str) -> None:
        ensure_lake(spark, config.lake)
        history = History(spark, config, histories)
        history.again(cluster)
        history.catch_up(whole=True)

    return run
