"""How recording fares: the status of each cluster and of the lake.

Knows no Spark: rows of bronze, silver and internal.state go in, as whoever reads a lake has them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import takewhile
from operator import itemgetter
from typing import Any

from jobs.rounds.left_out import LEFT_OUT_OF
from jobs.run.unanswered import Asked, asked_of

Row = Mapping[str, Any]
"""One row of a table, by column names; times are aware."""


@dataclass(frozen=True)
class PollCounts:
    """The polls of one cluster that were due within the window.

    `failed`: kind of error -> polls. `late`: answered, and sent more than half an interval after
    they were due. `good_at`: when the last good one was answered. `failing`: the last ones, that
    failed, the first of which was due at `failing_since`, the last of which failed for `error_kind`
    and `error`. `ignored`: of an older stream than history has, which never takes them.
    `cluster_id`: of the last good one.
    """

    polls: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    good_at: datetime | None = None
    failing: int = 0
    failing_since: datetime | None = None
    error_kind: str | None = None
    error: str | None = None
    ignored: int = 0
    cluster_id: str | None = None


@dataclass(frozen=True)
class Log:
    """The group, or the transaction, coordinators' log of one cluster within the window.

    `read_at`: when something new was last read of it. `lost`: offsets that were gone before they
    could be read. `never_read`: nothing was ever read of it, as where the topic is not there.
    """

    read_at: datetime | None = None
    lost: int = 0
    never_read: bool = False


@dataclass(frozen=True)
class ClusterLog:
    """The controllers' log of one cluster. `read_at`: when the records were read that history had
    last. `known_until`: history knows all of it up to then, but for a part that was lost.
    `recorded_at`: when bronze had records last.
    """

    read_at: datetime | None = None
    known_until: datetime | None = None
    recorded_at: datetime | None = None


@dataclass(frozen=True)
class Waiting:
    """The rows of one cluster that wait for a history. `since`: when the first one was due, read or
    told; None where none waits. `says`: the meaning of that. `takes_polls`: these rows are polls.
    """

    history: str
    since: datetime | None = None
    says: str = ""
    takes_polls: bool = False


@dataclass(frozen=True)
class LeftOutOf:
    """A history that leaves a cluster out, `since` its fold failed, and what the error says."""

    history: str
    since: datetime
    says: str


@dataclass(frozen=True)
class Cluster:
    """The status of one cluster.

    `good_at`: when the last good poll was answered, of any time; None: there was none.
    `refused_polls`, `stale_polls`: answers that history did not accept since. `waiting`: of each
    history that is made of the cluster. `gap_time`: of the gaps together. `log`: None where it is
    not read. `told_by`: polls | log (the controllers' log), which tells topics and partitions; None
    before history began. `transaction_log`, `cluster_log`: None where it is not read. `offsets_at`:
    when all groups last told their offsets. `asked`: the questions of `enrich`. `known_as`: the
    other alias under which the cluster has history whose answers were refused. `left_out`: the
    histories that go without it for now.
    """

    cluster: str
    interval: timedelta
    polls: PollCounts = field(default_factory=PollCounts)
    good_at: datetime | None = None
    refused_polls: int = 0
    stale_polls: int = 0
    waiting: tuple[Waiting, ...] = ()
    gaps: int = 0
    gap_time: timedelta = timedelta()
    log: Log | None = None
    transaction_log: Log | None = None
    told_by: str | None = None
    cluster_log: ClusterLog | None = None
    offsets_at: datetime | None = None
    asked: tuple[Asked, ...] = ()
    known_as: str | None = None
    left_out: tuple[LeftOutOf, ...] = ()


@dataclass(frozen=True)
class Size:
    """Files of the newest version of a table, and bytes of Delta's log of it; None: not known."""

    table: str
    bytes: int
    files: int
    log_bytes: int | None = None


@dataclass(frozen=True)
class LakeStatus:
    """All that is known of a lake at a time. `rounds`: how many were made of polls and groups so
    far. `kept_since`: schema -> from when on its tables are whole, where retention has dropped
    anything. `waiting`: cluster that the configuration lacks -> how many of its polls wait to be
    believed.
    """

    at: datetime
    lake: str
    window: timedelta
    clusters: Sequence[Cluster]
    sizes: Sequence[Size] = ()
    upkeep_at: datetime | None = None
    rounds: int = 0
    kept_since: Mapping[str, datetime] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """Of all tables, with their logs."""
        return sum(size.bytes + (size.log_bytes or 0) for size in self.sizes)


def clusters_of(
    intervals: Mapping[str, timedelta],
    *,
    headers: Iterable[Row],
    clusters: Iterable[Row],
    states: Iterable[Row],
    gaps: Iterable[Row],
    logs: Iterable[Row] | None,
    transaction_logs: Iterable[Row] | None = None,
    waiting: Mapping[str, tuple[Waiting, ...]],
    followed: Collection[str] = (),
    asked: Collection[str] = (),
    answers: Iterable[Row] = (),
    recorded: Mapping[str, datetime] | None = None,
) -> list[Cluster]:
    """The status of each cluster, in the order of `intervals`, which has the time between two polls
    by alias.

    `headers`: of bronze, those due within the window, in any order. `clusters`: of
    internal.clusters, with `log_read_at` and `log_known_until` of internal.cluster_logs. `states`:
    of internal.state. `gaps`: of silver.poll_gaps, those that ended within the window. `logs`:
    fields of Log by cluster; None where the configuration does not have the log read;
    `transaction_logs` likewise. `waiting`: by alias. `followed`: the clusters whose controllers'
    log it has read, `asked`: those whose groups are asked for their offsets. `answers`: fields of
    Asked, by cluster. `recorded`: when bronze had records of the controllers' log last, by cluster.
    """
    by_cluster = _by(headers), _by(gaps), _by(answers), _by(states)
    known = {row["cluster"]: row for row in clusters}
    aliases = {row.get("cluster_id"): alias for alias, row in known.items()}
    of_logs = None if logs is None else {row["cluster"]: row for row in logs}
    of_transactions = {row["cluster"]: row for row in transaction_logs or ()}
    found = []
    for alias, interval in intervals.items():
        of_cluster, of_gaps, of_answers, of_states = (each.get(alias, []) for each in by_cluster)
        told = known.get(alias, {})
        refused = told.get("refused_polls") or 0
        polls = polls_of(
            (row for row in of_cluster if not row["is_visit"]),
            told.get("taken") or {},
            told.get("waiting") or (),
            interval,
        )
        # An answer of another cluster is good in bronze, and history refuses it.
        good = [
            at
            for at in (told.get("last_seen_at"), None if refused else polls.good_at)
            if at is not None
        ]
        log = None
        if of_logs is not None:
            log = Log(**_without_cluster(of_logs.get(alias, {})))
            was_read = log.read_at is not None or any(row.get("was_read") for row in of_states)
            log = log if was_read else replace(log, never_read=True)
        cluster_log = ClusterLog(
            told.get("log_read_at"), told.get("log_known_until"), (recorded or {}).get(alias)
        )
        offsets_at = (row["answered_at"] for row in of_cluster if row["is_visit"])
        found.append(
            Cluster(
                alias,
                interval,
                polls,
                max(good, default=None),
                refused,
                told.get("stale_polls") or 0,
                waiting.get(alias, ()),
                len(of_gaps),
                sum((row["gap_end"] - row["gap_start"] for row in of_gaps), timedelta()),
                log,
                None
                if transaction_logs is None
                else Log(**_without_cluster(of_transactions.get(alias, {}))),
                told.get("told_by"),
                cluster_log if alias in followed else None,
                max(offsets_at, default=None) if alias in asked else None,
                asked_of(of_answers),
                aliases.get(polls.cluster_id) if refused and polls.cluster_id is not None else None,
                tuple(
                    LeftOutOf(row["history"].removeprefix(LEFT_OUT_OF), row["done_at"], row["why"])
                    for row in sorted(of_states, key=itemgetter("history"))
                    if row["history"].startswith(LEFT_OUT_OF)
                ),
            )
        )
    return found


def polls_of(
    headers: Iterable[Row], taken: Mapping[str, int], waiting: Collection[str], interval: timedelta
) -> PollCounts:
    """Polls of one cluster by their headers. `taken`: the last n that history took of each stream;
    `waiting`: the polls that it did not decide about.
    """
    newest, undecided = max(taken, default=""), frozenset(waiting)
    ordered = sorted(headers, key=lambda header: header["poll_id"])
    of_newest = [header for header in ordered if header["stream"] >= newest]
    failed: dict[str, int] = {}
    for header in ordered:
        if header["outcome"] != "ok":
            failed[header["error_kind"]] = failed.get(header["error_kind"], 0) + 1
    failing = list(takewhile(lambda header: header["outcome"] != "ok", reversed(of_newest)))
    last = failing[0] if failing else {}
    older = [header for header in ordered if header["stream"] < newest]
    return PollCounts(
        len(ordered),
        failed,
        sum(_is_late(header, interval) for header in ordered),
        max(
            (header["received_at"] for header in of_newest if header["outcome"] == "ok"),
            default=None,
        ),
        len(failing),
        failing[-1]["scheduled_at"] if failing else None,
        last.get("error_kind"),
        last.get("error"),
        sum(h["n"] > taken.get(h["stream"], -1) or h["poll_id"] in undecided for h in older),
        next(
            (
                header.get("cluster_id")
                for header in reversed(of_newest)
                if header["outcome"] == "ok"
            ),
            None,
        ),
    )


def _is_late(header: Row, interval: timedelta) -> bool:
    return bool(
        header["outcome"] == "ok" and header["sent_at"] - header["scheduled_at"] > interval / 2
    )


def _by(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["cluster"], []).append(row)
    return found


def _without_cluster(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "cluster"}
