"""Which answers are believed, in which order, and when.

A failed poll says nothing. An answer of another cluster than the alias stands for is refused. An answer with one lower
leader epoch under the same topic id comes from a lagging broker: the whole of it is stale, since all its topics come
from one image. It waits, and is believed once `BELIEVED_AFTER_POLLS` such answers and `BELIEVED_AFTER` have gone by with
no better one between them; the first better one discards those that waited.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

BELIEVED_AFTER_POLLS = 5
BELIEVED_AFTER = timedelta(seconds=60)

TopicEpochs = tuple[str | None, Mapping[int, int | None]]
"""A topic's id and the leader epoch of each partition that matters; None where the answer does not say."""


@dataclass(frozen=True)
class Poll:
    """One poll of one cluster, as far as its acceptance depends on it.

    `topics` holds what this poll said anew about topics: epochs, or None for a topic that is absent.
    """

    poll_id: str
    received_at: datetime | None = None
    sent_at: datetime | None = None
    interval_ms: int = 0
    refused: bool = False
    error_kind: str | None = None
    topics: Mapping[str, TopicEpochs | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What became of a poll, and its place in the cluster's line of accepted polls.

    `kind`: accepted | stale | pending | failed | refused. `ord` numbers accepted polls from 1 after the last one
    applied (0); a stale poll has the number of the accepted one that discarded it. `at` and `sent_at` are the poll's
    times made non-decreasing. `before` is the accepted poll before it. The counts are of the polls since then, with
    this one unless it is accepted itself.
    """

    poll_id: str
    kind: str
    ord: int | None = None
    at: datetime | None = None
    sent_at: datetime | None = None
    interval_ms: int = 0
    before: "Verdict | None" = None
    failed: int = 0
    stale: int = 0
    refused: int = 0
    error_kinds: frozenset[str] = frozenset()


def verdicts(polls: Sequence[Poll], applied: Verdict | None, view: Mapping[str, TopicEpochs]) -> list[Verdict]:
    """Judge `polls`, in order of their ids, against the `applied` poll's `view` (the topics that it showed).

    `applied` carries the counts of failed and refused polls since itself. A verdict for each poll, in order.
    """
    return _in_line(polls, _kinds(polls, applied, view), applied)


def _kinds(polls: Sequence[Poll], applied: Verdict | None, view: Mapping[str, TopicEpochs]) -> dict[str, str]:
    """What becomes of each poll, by id."""
    kinds: dict[str, str] = {}
    accepted = dict(view)
    accepted_at = applied.at if applied else None
    seen: dict[str, TopicEpochs | None] = dict(view)
    waiting: list[Poll] = []
    since = latest = accepted_at
    for poll in polls:
        if poll.error_kind is not None or poll.refused:
            kinds[poll.poll_id] = "refused" if poll.refused else "failed"
            continue
        received = _received(poll)
        seen.update(poll.topics)
        if _is_stale(seen, accepted):
            latest = max(received, latest or received)
            since = latest if not waiting else since
            waiting.append(poll)
            kinds[poll.poll_id] = "pending"
            if len(waiting) < BELIEVED_AFTER_POLLS or since is None or latest - since < BELIEVED_AFTER:
                continue
            kinds.update((believed.poll_id, "accepted") for believed in waiting)
        else:
            kinds.update((discarded.poll_id, "stale") for discarded in waiting)
            kinds[poll.poll_id] = "accepted"
            latest = max(received, accepted_at or received)
        accepted_at = latest
        waiting.clear()
        accepted = {topic: epochs for topic, epochs in seen.items() if epochs is not None}
    if waiting:
        # What failed among answers that wait belongs to a gap on one side of them or the other: it waits with them.
        kinds.update((poll.poll_id, "pending") for poll in polls if poll.poll_id > waiting[0].poll_id)
    return kinds


def _in_line(polls: Sequence[Poll], kinds: Mapping[str, str], applied: Verdict | None) -> list[Verdict]:
    """Place the polls in the line of accepted ones: numbers, times, neighbours, and what went wrong between them."""
    line: list[Verdict] = []
    last = applied
    failed, refused, stale = (applied.failed, applied.refused, 0) if applied else (0, 0, 0)
    error_kinds = set(applied.error_kinds) if applied else set()
    for poll in polls:
        kind = kinds[poll.poll_id]
        failed += kind == "failed"
        refused += kind == "refused"
        stale += kind == "stale"
        error_kinds |= {str(poll.error_kind)} if kind == "failed" else set()
        verdict = Verdict(
            poll.poll_id, kind, failed=failed, refused=refused, stale=stale, error_kinds=frozenset(error_kinds)
        )
        next_ord = (last.ord or 0) + 1 if last else 1
        if kind == "stale":
            verdict = replace(verdict, ord=next_ord)
        elif kind == "accepted":
            at = _received(poll)
            sent_at = poll.sent_at or at
            if last and last.at and last.sent_at:
                at, sent_at = max(at, last.at), max(sent_at, last.sent_at)
            before = replace(last, before=None) if last else None
            verdict = replace(
                verdict, ord=next_ord, at=at, sent_at=sent_at, interval_ms=poll.interval_ms, before=before
            )
            last = verdict
            failed = refused = stale = 0
            error_kinds = set()
        line.append(verdict)
    return line


def _received(poll: Poll) -> datetime:
    if poll.received_at is None:
        raise ValueError(f"poll {poll.poll_id}: a good poll without the time it was received")
    return poll.received_at


def _is_stale(seen: Mapping[str, TopicEpochs | None], accepted: Mapping[str, TopicEpochs]) -> bool:
    """Whether `seen` has one lower epoch than `accepted` under the same topic id."""
    for topic, (accepted_id, accepted_epochs) in accepted.items():
        epochs = seen.get(topic)
        if epochs is None or (epochs[0] is not None and accepted_id is not None and epochs[0] != accepted_id):
            continue
        for partition, accepted_epoch in accepted_epochs.items():
            epoch = epochs[1].get(partition)
            if epoch is not None and accepted_epoch is not None and epoch < accepted_epoch:
                return True
    return False


# --- the same over DataFrames: one call of `verdicts` for each cluster ---

EPOCHS_SCHEMA = (
    "cluster string, poll_id string, topic string, present boolean, topic_id string, partition int, leader_epoch int"
)
VERDICT_SCHEMA = (
    "cluster string, poll_id string, verdict string, ord int, at timestamp, sent_at timestamp, interval_ms bigint, "
    "before_poll string, before_at timestamp, before_sent_at timestamp, before_interval_ms bigint, "
    "failed_polls bigint, stale_polls bigint, refused_polls bigint, error_kinds array<string>"
)


def poll_verdicts(headers: DataFrame, epochs: DataFrame) -> DataFrame:
    """A verdict for each header, and one of kind `applied` (ord 0) for each cluster that has history.

    `headers`: cluster, poll_id, received_at, sent_at, interval_ms, error_kind, refused, applied (the progress of the
    cluster as a struct, null when it has none). `epochs` (EPOCHS_SCHEMA): the partitions whose epochs fell somewhere
    (`falling_epochs`) and the topics they belong to; rows under the applied poll's id are its view.
    """
    # Both sides stem from the same polls; named anew, their columns are told apart by the analyzer.
    polls, said = headers.toDF(*headers.columns), epochs.toDF(*epochs.columns)
    return polls.groupBy("cluster").cogroup(said.groupBy("cluster")).applyInArrow(_judge_cluster, VERDICT_SCHEMA)


def falling_epochs(partitions: DataFrame) -> DataFrame:
    """Those rows of `partitions` (cluster, poll_id, topic, topic_id, partition, leader_epoch) whose partition's epoch fell.

    A partition whose epochs never fall, from poll to poll, cannot make any answer stale, whichever were accepted
    before: so nearly always this is empty, and acceptance looks at headers alone. (Recreated topics are in it too:
    their ids tell them apart later.)
    """
    key = ["cluster", "topic", "partition"]
    before = Window.partitionBy(*key).orderBy("poll_id").rowsBetween(Window.unboundedPreceding, -1)
    whole = Window.partitionBy(*key)
    return (
        partitions.withColumn("fell", F.col("leader_epoch") < F.max("leader_epoch").over(before))
        .withColumn("fell", F.max(F.coalesce("fell", F.lit(False))).over(whole))
        .where("fell")
        .drop("fell")
    )


def _judge_cluster(headers: pa.Table, epochs: pa.Table) -> pa.Table:
    rows = sorted(headers.to_pylist(), key=lambda row: row["poll_id"])
    if not rows:
        return _verdict_schema().empty_table()
    said: dict[str, dict[str, TopicEpochs | None]] = {}
    for row in epochs.to_pylist():
        topics = said.setdefault(row["poll_id"], {})
        if not row["present"]:
            topics[row["topic"]] = None
        else:
            known = topics.setdefault(row["topic"], (row["topic_id"], {}))
            if known is not None and row["partition"] is not None:
                known[1][row["partition"]] = row["leader_epoch"]  # type: ignore[index]
    applied = _applied(rows[0]["applied"])
    view = said.pop(applied.poll_id, {}) if applied else {}
    polls = [
        Poll(
            poll_id=row["poll_id"],
            received_at=row["received_at"],
            sent_at=row["sent_at"],
            interval_ms=row["interval_ms"] or 0,
            refused=row["refused"],
            error_kind=row["error_kind"],
            topics=said.get(row["poll_id"], {}),
        )
        for row in rows
    ]
    judged = verdicts(polls, applied, {topic: epochs for topic, epochs in view.items() if epochs is not None})
    out = [_row(rows[0]["cluster"], verdict) for verdict in ([applied] if applied else []) + judged]
    return pa.Table.from_pylist(out, schema=_verdict_schema())


def _applied(progress: Mapping[str, Any] | None) -> Verdict | None:
    if progress is None or progress["applied_poll"] is None:
        return None
    before = None
    if progress["before_poll"] is not None:
        before = Verdict(
            progress["before_poll"], "accepted", at=progress["before_at"], sent_at=progress["before_sent_at"]
        )
    return Verdict(
        progress["applied_poll"],
        "applied",
        ord=0,
        at=progress["applied_at"],
        sent_at=progress["applied_sent_at"],
        interval_ms=progress["applied_interval_ms"],
        before=before,
        failed=progress["failed_polls"],
        refused=progress["refused_polls"],
        error_kinds=frozenset(progress["error_kinds"]),
    )


def _row(cluster: str, verdict: Verdict) -> dict[str, Any]:
    before = verdict.before
    return {
        "cluster": cluster,
        "poll_id": verdict.poll_id,
        "verdict": verdict.kind,
        "ord": verdict.ord,
        "at": verdict.at,
        "sent_at": verdict.sent_at,
        "interval_ms": verdict.interval_ms,
        "before_poll": before.poll_id if before else None,
        "before_at": before.at if before else None,
        "before_sent_at": before.sent_at if before else None,
        "before_interval_ms": before.interval_ms if before else None,
        "failed_polls": verdict.failed,
        "stale_polls": verdict.stale,
        "refused_polls": verdict.refused,
        "error_kinds": sorted(verdict.error_kinds),
    }


def _verdict_schema() -> pa.Schema:
    time = pa.timestamp("us", tz="UTC")
    return pa.schema(
        {
            "cluster": pa.string(),
            "poll_id": pa.string(),
            "verdict": pa.string(),
            "ord": pa.int32(),
            "at": time,
            "sent_at": time,
            "interval_ms": pa.int64(),
            "before_poll": pa.string(),
            "before_at": time,
            "before_sent_at": time,
            "before_interval_ms": pa.int64(),
            "failed_polls": pa.int64(),
            "stale_polls": pa.int64(),
            "refused_polls": pa.int64(),
            "error_kinds": pa.list_(pa.string()),
        }
    )
