"""The thresholds of how recording fares, and which of them a lake crosses."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from jobs.configuration.limits import Limits
from jobs.rules.ids import POLLS
from kafka_metadata_history.answers.status import Cluster, LakeStatus, PollCounts
from metadata_source.kafka_constants import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from metadata_source.outcomes import TO_DO, reason
from metadata_source.text import printable

AHEAD = timedelta(minutes=2)
"""Clocks of two machines may be so far apart."""

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


def judge(status: LakeStatus, limits: Limits) -> list[Crossed]:
    """The thresholds that are crossed, those of the lake last."""
    found = [each for cluster in status.clusters for each in _of_cluster(cluster, status, limits)]
    if status.upkeep_at is None:
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
    elif ahead := {of: at for of, at in noted_of(status).items() if at - status.at > AHEAD}:
        noted = ", ".join(
            f"{of} is noted {span(at - status.at)} ahead of now" for of, at in ahead.items()
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
    elif status.at - status.upkeep_at > limits.upkeep:
        since = f"the tables were last kept up {span(status.at - status.upkeep_at)} ago"
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
    if limits.lake_bytes is not None and status.bytes > limits.lake_bytes:
        found.append(
            Crossed("lakeBytes", None, f"the tables have {status.bytes} bytes, with their logs")
        )
    return found


def noted_of(status: LakeStatus) -> dict[str, datetime]:
    """The times that upkeep has noted, and of what."""
    last = {} if status.upkeep_at is None else {"the last upkeep": status.upkeep_at}
    return last | {f"retention of {schema}": since for schema, since in status.kept_since.items()}


def _of_cluster(each: Cluster, status: LakeStatus, limits: Limits) -> Iterator[Crossed]:
    found = chain(
        _of_now(each, status.at, limits),
        _of_window(each, span(status.window), limits),
        _of_history(each, status, limits),
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
            f"{failed} of {polls.polls} polls within {window} failed: {failures_by_kind(polls)}",
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
    for log, topic in (
        (each.log, OFFSETS_TOPIC),
        (each.transaction_log, TRANSACTIONS_TOPIC),
    ):
        if log is not None and log.lost > limits.lost_offsets:
            yield (
                "lostOffsets",
                (
                    f"{log.lost} offset(s) of {topic} were gone before they could be read, or "
                    "cannot be read"
                ),
            )


def _of_history(each: Cluster, status: LakeStatus, limits: Limits) -> Iterator[tuple[str, str]]:
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
    for waiting in each.waiting:
        if waiting.since is not None and status.at - waiting.since > limits.behind:
            known = (waiting.takes_polls and because) or ["the pipeline's log says why"]
            behind = span(status.at - waiting.since)
            yield "behind", f"{waiting.history} is {behind} behind: {'; '.join(known)}"
    for of in each.left_out:
        how = f"leaves the cluster out for {span(status.at - of.since)}, since its fold failed"
        yield (
            "behind",
            (
                f"{of.history} {how}: {printable(of.says)}; it is tried again: upgrade the "
                "program, or report it"
            ),
        )
    log = each.cluster_log
    if log is not None and (log.known_until is None or status.at - log.known_until > limits.behind):
        read_at, why_not = log.read_at, ": the pipeline's log says why"
        if read_at is None and log.recorded_at is not None:
            read_at, why_not = log.recorded_at, ", and no round of history has had it yet"
        read = "not read yet" if read_at is None else f"last read {span(status.at - read_at)} ago"
        tells = "; polls tell topics and partitions" if each.told_by == POLLS else ""
        yield "behind", f"the controllers' log was {read}{tells}{why_not}"


def believed(cluster: str) -> str:
    """How a person can say that the answers of a cluster are right that wait."""
    return f"if they are right, `kafka-metadata-history run --believe {cluster}` accepts them"


def failures_by_kind(polls: PollCounts) -> str:
    """How many polls failed of each kind."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(polls.failed.items()))


def why(polls: PollCounts) -> str:
    """Why the last poll failed and, where no later poll mends that, what to do; one line."""
    return reason(polls.error_kind, polls.error)


def span(time: timedelta) -> str:
    """A time for people, in the largest unit of which there are two at least."""
    seconds = time.total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
