"""How recording fares: facts about each cluster and about the lake, and the thresholds that they
cross.

Knows no Spark: rows of bronze, silver and internal.state go in, as whoever reads a lake has them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, takewhile
from typing import Any

from jobs.configuration.limits import Limits
from jobs.rounds.left_out import ASIDE_OF
from jobs.rules.ids import POLLS
from jobs.run.unanswered import Asked, asked_of
from metadata_source.outcomes import TO_DO, reason
from metadata_source.text import printable

Row = Mapping[str, Any]
"""One row of a table, by column names; times are aware."""

AHEAD = timedelta(minutes=2)
"""Clocks of two machines may be so far apart."""

# --- facts ---


@dataclass(frozen=True)
class Polls:
    """The polls of one cluster that were due within the window.

    `failed`: kind of error -> polls. `late`: answered, and sent more than half an interval after
    they were due. `good_at`: when the last good one was answered. `failing`: the last ones, that
    failed, the first of which was due at `failing_since`, the last of which failed for `error_kind`
    and `error`. `waits_since`: when the first one was due that is not in silver yet. `ignored`: of
    an older stream than silver has, so that silver never takes them. `cluster_id`: of the last good
    one.
    """

    polls: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    late: int = 0
    good_at: datetime | None = None
    failing: int = 0
    failing_since: datetime | None = None
    error_kind: str | None = None
    error: str | None = None
    waits_since: datetime | None = None
    ignored: int = 0
    cluster_id: str | None = None


@dataclass(frozen=True)
class Log:
    """The coordinators' log of one cluster within the window.

    `read_at`: when something new was last read of it. `waits_since`: when the first row was read
    that rebalances have not had. `lost`: offsets that were gone before they could be read.
    `costs_wait_since`: when the first rebalance was told that has no cost yet. `never_read`:
    nothing was ever read of it, as where the topic is not there.
    """

    read_at: datetime | None = None
    waits_since: datetime | None = None
    lost: int = 0
    costs_wait_since: datetime | None = None
    never_read: bool = False


@dataclass(frozen=True)
class ClusterLog:
    """The controllers' log of one cluster. `read_at`: when the records were read that silver had
    last. `known_until`: silver knows all of it up to then, but for a part that was lost.
    `recorded_at`: when bronze had records last.
    """

    read_at: datetime | None = None
    known_until: datetime | None = None
    recorded_at: datetime | None = None


@dataclass(frozen=True)
class Lag:
    """The lag of one cluster's groups within the window. `told_at`: when a poll was last answered
    with which all groups told their offsets. `waits_since`: when the first such poll was due that
    lag has not had.
    """

    told_at: datetime | None = None
    waits_since: datetime | None = None


@dataclass(frozen=True)
class LeftOut:
    """A history that leaves a cluster out, `since` its fold failed, and what the error says."""

    history: str
    since: datetime
    says: str


@dataclass(frozen=True)
class Cluster:
    """The facts about one cluster.

    `good_at`: when the last good poll was answered, of any time; None: there was none.
    `refused_polls`, `stale_polls`: answers that silver did not accept since. `gold_waits_since`: up
    to when gold has had silver; None: it has had all. `gap_time`: of the gaps together. `log`: None
    where it is not read. `told_by`: polls | log (the controllers' log), which tells topics and
    partitions; None before history began. `cluster_log`: None where it is not read. `lag`: None
    where nobody asks for offsets. `asked`: the questions of `enrich`. `known_as`: the other alias
    under which the cluster has history whose answers silver refused. `left_out`: the histories that
    go without it for now.
    """

    cluster: str
    interval: timedelta
    polls: Polls = field(default_factory=Polls)
    good_at: datetime | None = None
    refused_polls: int = 0
    stale_polls: int = 0
    gold_waits_since: datetime | None = None
    gaps: int = 0
    gap_time: timedelta = timedelta()
    log: Log | None = None
    told_by: str | None = None
    cluster_log: ClusterLog | None = None
    lag: Lag | None = None
    asked: tuple[Asked, ...] = ()
    known_as: str | None = None
    left_out: tuple[LeftOut, ...] = ()


@dataclass(frozen=True)
class Size:
    """Files of the newest version of a table, and what Delta's log of it takes; None where nobody
    can tell.
    """

    table: str
    bytes: int
    files: int
    log_bytes: int | None = None


@dataclass(frozen=True)
class Facts:
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
    states: Iterable[Row],
    gaps: Iterable[Row],
    logs: Iterable[Row] | None,
    followed: Collection[str] = (),
    asked: Collection[str] = (),
    answers: Iterable[Row] = (),
    recorded: Mapping[str, datetime] | None = None,
) -> list[Cluster]:
    """The facts of each cluster, in the order of `intervals`, which has the time between two polls
    by alias.

    `headers`: of bronze, those due within the window, in any order. `states`: of internal.state,
    with `seen` and `waiting` out of silver's memory. `gaps`: of silver.poll_gaps, those that ended
    within the window. `logs`: fields of Log by cluster; None where the configuration does not have
    the log read. `followed`: the clusters whose controllers' log it has read, `asked`: those whose
    groups are asked for their offsets. `answers`: fields of Asked, by cluster. `recorded`: when
    bronze had records of the controllers' log last, by cluster.
    """
    by_cluster = _by(headers), _by(gaps), _by(answers)
    told = {(row["history"], row["cluster"]): row for row in states}
    aliases = {
        row.get("cluster_id"): alias
        for (history, alias), row in told.items()
        if history == "silver"
    }
    of_logs = None if logs is None else {row["cluster"]: row for row in logs}
    found = []
    for alias, interval in intervals.items():
        of_cluster, of_gaps, of_answers = (each.get(alias, []) for each in by_cluster)
        silver = told.get(("silver", alias), {})
        seen, refused = dict(silver.get("seen") or {}), silver.get("refused_polls") or 0
        polls = polls_of(
            (row for row in of_cluster if not row["is_visit"]),
            seen,
            silver.get("waiting") or (),
            interval,
        )
        # An answer of another cluster is good in bronze, and silver refuses it.
        good = [
            at
            for at in (silver.get("last_seen_at"), None if refused else polls.good_at)
            if at is not None
        ]
        log = None if of_logs is None else Log(**_without_cluster(of_logs.get(alias, {})))
        if (
            log is not None
            and log.read_at is None
            and not told.get(("rebalance_history", alias), {}).get("places")
        ):
            log = replace(log, never_read=True)
        of_controllers = told.get(("cluster_log", alias), {})
        cluster_log = ClusterLog(
            of_controllers.get("last_seen_at"),
            of_controllers.get("done_at"),
            (recorded or {}).get(alias),
        )
        found.append(
            Cluster(
                alias,
                interval,
                polls,
                max(good, default=None),
                refused,
                silver.get("stale_polls") or 0,
                _gold_waits_since(
                    silver,
                    seen,
                    [told.get((name, alias)) for name in ("isr_shrink", "leader_churn")],
                ),
                len(of_gaps),
                sum((row["gap_end"] - row["gap_start"] for row in of_gaps), timedelta()),
                log,
                silver.get("told_by"),
                cluster_log if alias in followed else None,
                lag_of(of_cluster, told.get(("group_lag", alias), {}).get("done_poll"))
                if alias in asked
                else None,
                asked_of(of_answers),
                aliases.get(polls.cluster_id) if refused and polls.cluster_id is not None else None,
                tuple(
                    LeftOut(history.removeprefix(ASIDE_OF), row["done_at"], row["says"])
                    for (history, of), row in sorted(told.items())
                    if of == alias and history.startswith(ASIDE_OF)
                ),
            )
        )
    return found


def polls_of(
    headers: Iterable[Row], seen: Mapping[str, int], waiting: Collection[str], interval: timedelta
) -> Polls:
    """Polls of one cluster by their headers. `seen`: the last n that silver took of each stream;
    `waiting`: the polls that it did not decide about.
    """
    newest, undecided = max(seen, default=""), frozenset(waiting)
    ordered = sorted(headers, key=lambda header: header["poll_id"])
    of_newest = [header for header in ordered if header["stream"] >= newest]
    failed: dict[str, int] = {}
    for header in ordered:
        if header["outcome"] != "ok":
            failed[header["error_kind"]] = failed.get(header["error_kind"], 0) + 1
    failing = list(takewhile(lambda header: header["outcome"] != "ok", reversed(of_newest)))
    last = failing[0] if failing else {}
    waits = [h for h in ordered if h["n"] > seen.get(h["stream"], -1) or h["poll_id"] in undecided]
    return Polls(
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
        min((header["scheduled_at"] for header in waits), default=None),
        sum(header["stream"] < newest for header in waits),
        next(
            (
                header.get("cluster_id")
                for header in reversed(of_newest)
                if header["outcome"] == "ok"
            ),
            None,
        ),
    )


def lag_of(headers: Iterable[Row], done: str | None) -> Lag:
    """The lag of one cluster's groups by headers of its answers. `done`: the last poll that lag has
    had.
    """
    told = [header for header in headers if header["is_visit"]]
    waits = (header["scheduled_at"] for header in told if done is None or header["poll_id"] > done)
    return Lag(
        max((header["answered_at"] for header in told), default=None), min(waits, default=None)
    )


def _is_late(header: Row, interval: timedelta) -> bool:
    return bool(
        header["outcome"] == "ok" and header["sent_at"] - header["scheduled_at"] > interval / 2
    )


def _gold_waits_since(
    silver: Row, seen: Mapping[str, int], golds: Iterable[Row | None]
) -> datetime | None:
    """Up to when gold has had silver, where silver has changes that gold has not had. Gold that was
    never made waits since polling began, as the stream's name says; if no poll was taken, since
    silver was made last.
    """
    changed, waits = silver.get("changed_poll"), []
    for gold in golds if changed is not None else ():
        if (gold is None or gold["done_poll"] is None) and not seen:
            waits.append(silver["done_at"])
        elif gold is None or gold["done_poll"] is None:
            waits.append(
                datetime.strptime(min(seen).partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            )
        elif gold["done_poll"] < changed:
            waits.append(gold["done_at"])
    return min(waits, default=None)


def _by(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["cluster"], []).append(row)
    return found


def _without_cluster(row: Row) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "cluster"}


# --- judging ---

OF_CLUSTER = (
    "lastGoodPoll",
    "failures",
    "unanswered",
    "failedPercent",
    "latePercent",
    "gaps",
    "behind",
    "lostOffsets",
)
OF_LAKE = ("upkeep", "lakeBytes")
"""The thresholds, by their keys under `status` in the configuration."""


@dataclass(frozen=True)
class Crossed:
    """A threshold that is crossed: its key under `status` in the configuration, the cluster (None:
    the lake), and why, in one line.
    """

    threshold: str
    cluster: str | None
    says: str


def judge(facts: Facts, limits: Limits) -> list[Crossed]:
    """The thresholds that are crossed, those of the lake last."""
    found = [each for cluster in facts.clusters for each in _of_cluster(cluster, facts, limits)]
    if facts.upkeep_at is None:
        found.append(
            Crossed(
                "upkeep",
                None,
                (
                    "the tables were never kept up: `kafka-metadata-history run` does so every "
                    "six hours"
                ),
            )
        )
    elif ahead := {of: at for of, at in noted_of(facts).items() if at - facts.at > AHEAD}:
        noted = ", ".join(
            f"{of} is noted {span(at - facts.at)} ahead of now" for of, at in ahead.items()
        )
        todo = (
            "`kafka-metadata-history maintain` corrects what is noted (docs/configuration.md, "
            "Retention)"
        )
        says = (
            "a clock is wrong, or was, and rows may have been dropped by it. If the clock is "
            "right now"
        )
        found.append(Crossed("upkeep", None, f"{noted}: {says}, {todo}"))
    elif facts.at - facts.upkeep_at > limits.upkeep:
        since = f"the tables were last kept up {span(facts.at - facts.upkeep_at)} ago"
        found.append(
            Crossed(
                "upkeep",
                None,
                (
                    f"{since}: `kafka-metadata-history run` does so every six hours, its log says "
                    "why not"
                ),
            )
        )
    if limits.lake_bytes is not None and facts.bytes > limits.lake_bytes:
        found.append(
            Crossed("lakeBytes", None, f"the tables have {facts.bytes} bytes, with their logs")
        )
    return found


def noted_of(facts: Facts) -> dict[str, datetime]:
    """What upkeep has noted for a time, and for which."""
    last = {} if facts.upkeep_at is None else {"the last upkeep": facts.upkeep_at}
    return last | {f"retention of {schema}": since for schema, since in facts.kept_since.items()}


def _of_cluster(each: Cluster, facts: Facts, limits: Limits) -> Iterator[Crossed]:
    found = chain(
        _of_now(each, facts.at, limits),
        _of_window(each, span(facts.window), limits),
        _of_history(each, facts, limits),
    )
    return (Crossed(threshold, each.cluster, says) for threshold, says in found)


def _of_now(each: Cluster, at: datetime, limits: Limits) -> Iterator[tuple[str, str]]:
    polls, refused = each.polls, ""
    if each.refused_polls:
        refused = f"; {each.refused_polls} answers since were another cluster's"
    if each.refused_polls and each.known_as is not None:
        history = f"which has its history as {each.known_as}"
        refused += f": of {polls.cluster_id}, {history}: name it so again, an alias is for good"
    oldest = limits.last_good_poll or 2 * each.interval + timedelta(minutes=2)
    if each.good_at is None:
        yield "lastGoodPoll", f"there was no good poll yet{refused}"
    elif at - each.good_at > oldest:
        yield (
            "lastGoodPoll",
            f"the last good poll was answered {span(at - each.good_at)} ago{refused}",
        )
    elif each.good_at - at > oldest:
        yield (
            "lastGoodPoll",
            f"the last good poll is {span(each.good_at - at)} ahead: a clock is wrong",
        )
    if polls.failing >= limits.failures or (polls.failing and polls.error_kind in TO_DO):
        yield "failures", f"the last {polls.failing} poll(s) failed: {why(polls)}"
    for question in each.asked:
        if question.failing >= limits.unanswered:
            yield "unanswered", question.says


def _of_window(each: Cluster, window: str, limits: Limits) -> Iterator[tuple[str, str]]:
    polls, failed = each.polls, sum(each.polls.failed.values())
    if failed * 100 > limits.failed_percent * polls.polls:
        yield (
            "failedPercent",
            f"{failed} of {polls.polls} polls within {window} failed: {kinds(polls)}",
        )
    if polls.late * 100 > limits.late_percent * polls.polls:
        yield (
            "latePercent",
            (
                f"{polls.late} of {polls.polls} polls within {window} were sent more than half an "
                "interval late"
            ),
        )
    if each.gaps > limits.gaps:
        gaps = f"{each.gaps} gap(s) within {window}, {span(each.gap_time)} together"
        yield "gaps", f"{gaps}: silver.poll_gaps says why"
    if each.log is not None and each.log.lost > limits.lost_offsets:
        yield (
            "lostOffsets",
            (
                f"{each.log.lost} offset(s) of __consumer_offsets were gone before they could be "
                "read, or cannot be read"
            ),
        )


def _of_history(each: Cluster, facts: Facts, limits: Limits) -> Iterator[tuple[str, str]]:
    because = []
    if each.polls.ignored:
        because.append(
            f"{each.polls.ignored} polls are of an older checkpoint, let one job alone poll"
        )
    if each.stale_polls:
        because.append(
            f"{each.stale_polls} polls wait, since an answer is older than what was accepted; "
            f"{believed(each.cluster)}"
        )
    for history, since in waits(each).items():
        if since is not None and facts.at - since > limits.behind:
            known = because if history == "silver" and because else ["the pipeline's log says why"]
            yield "behind", f"{history} is {span(facts.at - since)} behind: {'; '.join(known)}"
    for of in each.left_out:
        how = f"leaves the cluster out for {span(facts.at - of.since)}, since its fold failed"
        yield (
            "behind",
            (
                f"{of.history} {how}: {printable(of.says)}; it is tried again: upgrade the "
                "program, or report it"
            ),
        )
    log = each.cluster_log
    if log is not None and (log.known_until is None or facts.at - log.known_until > limits.behind):
        read_at, why_not = log.read_at, ": the pipeline's log says why"
        if read_at is None and log.recorded_at is not None:
            read_at, why_not = log.recorded_at, ", and no round of history has had it yet"
        read = "not read yet" if read_at is None else f"last read {span(facts.at - read_at)} ago"
        tells = "; polls tell topics and partitions" if each.told_by == POLLS else ""
        yield "behind", f"the controllers' log was {read}{tells}{why_not}"


def believed(cluster: str) -> str:
    """How a person can say that the answers of a cluster are right that wait."""
    return f"if they are right, `kafka-metadata-history run --believe {cluster}` accepts them"


def waits(each: Cluster) -> dict[str, datetime | None]:
    """History -> since when something waits for it, None where nothing does."""
    found = {"silver": each.polls.waits_since, "gold": each.gold_waits_since}
    if each.log is not None:
        found |= {"group log": each.log.waits_since, "rebalance cost": each.log.costs_wait_since}
    return found if each.lag is None else found | {"lag": each.lag.waits_since}


def kinds(polls: Polls) -> str:
    """How many polls failed of each kind."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(polls.failed.items()))


def why(polls: Polls) -> str:
    """Why the last poll failed and, where no later poll mends that, what to do; one printable
    line.
    """
    return reason(polls.error_kind, polls.error)


def span(time: timedelta) -> str:
    """A time for people, in the largest unit of which there are two at least."""
    seconds = time.total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
