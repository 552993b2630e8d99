"""Which answers are believed, in which order, and when.

A failed poll says nothing. An answer of another cluster than the alias stands for is refused. An answer with one lower
leader epoch under the same topic id comes from a lagging broker: the whole of it is stale, since all its topics come
from one image. It waits, and is believed once `BELIEVED_AFTER_POLLS` such answers and `BELIEVED_AFTER` have gone by with
no better one between them; the first better one discards those that waited.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from jobs.rules.presence import ABSENT_POLLS

BELIEVED_AFTER_POLLS = 5
BELIEVED_AFTER = timedelta(seconds=60)


@dataclass(frozen=True)
class Said:
    """What one answer shows of a topic. None where it does not say; an error in place of partitions says no count."""

    topic_id: str | None
    partition_count: int | None
    epochs: Mapping[int, int | None]


@dataclass(frozen=True)
class Known:
    """What accepted answers have shown of a topic's life: the last epoch of each partition that any of them told.

    `missing`: accepted answers without it since. It is the same life until `ABSENT_POLLS` of them, or another id.
    """

    topic_id: str | None
    epochs: Mapping[int, int]
    missing: int = 0


@dataclass(frozen=True)
class Poll:
    """One poll of one cluster, as far as its acceptance depends on it.

    `topics` holds what this poll said anew about topics; None for a topic that is absent.
    """

    poll_id: str
    received_at: datetime | None = None
    sent_at: datetime | None = None
    interval_ms: int = 0
    refused: bool = False
    error_kind: str | None = None
    topics: Mapping[str, Said | None] = field(default_factory=dict)


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


def verdicts(polls: Sequence[Poll], applied: Verdict | None, known: Mapping[str, Known]) -> list[Verdict]:
    """Judge `polls`, in order of their ids, against what is `known` of topics as of the `applied` poll.

    `applied` carries the counts of failed and refused polls since itself. A verdict for each poll, in order.
    """
    return _in_line(polls, _kinds(polls, applied, known), applied)


def _kinds(polls: Sequence[Poll], applied: Verdict | None, known: Mapping[str, Known]) -> dict[str, str]:
    """What becomes of each poll, by id."""
    kinds: dict[str, str] = {}
    accepted_at = applied.at if applied else None
    said: dict[str, Said | None] = {
        topic: None if life.missing else Said(life.topic_id, None, life.epochs) for topic, life in known.items()
    }
    waiting: list[tuple[Poll, Mapping[str, Said | None]]] = []
    since = latest = accepted_at
    for poll in polls:
        if poll.error_kind is not None or poll.refused:
            kinds[poll.poll_id] = "refused" if poll.refused else "failed"
            continue
        received = _received(poll)
        said = {**said, **poll.topics}
        if _is_stale(said, known):
            latest = max(received, latest or received)
            since = latest if not waiting else since
            waiting.append((poll, said))
            kinds[poll.poll_id] = "pending"
            if len(waiting) < BELIEVED_AFTER_POLLS or since is None or latest - since < BELIEVED_AFTER:
                continue
            for believed, shown in waiting:
                kinds[believed.poll_id] = "accepted"
                known = _learnt(known, shown)
        else:
            kinds.update((discarded.poll_id, "stale") for discarded, _ in waiting)
            kinds[poll.poll_id] = "accepted"
            known = _learnt(known, said)
            latest = max(received, accepted_at or received)
        accepted_at = latest
        waiting.clear()
    if waiting:
        # What failed among answers that wait belongs to a gap on one side of them or the other: it waits with them.
        first = waiting[0][0].poll_id
        kinds.update((poll.poll_id, "pending") for poll in polls if poll.poll_id > first)
    return kinds


def _is_stale(said: Mapping[str, Said | None], known: Mapping[str, Known]) -> bool:
    """Whether one epoch in `said` is lower than the one that is known, under the same topic id."""
    return any(
        epoch is not None and epoch < life.epochs.get(partition, epoch)
        for topic, life in known.items()
        if (shown := said.get(topic)) is not None and not _is_another(shown, life)
        for partition, epoch in shown.epochs.items()
    )


def _learnt(known: Mapping[str, Known], said: Mapping[str, Said | None]) -> dict[str, Known]:
    """What is known once an answer that amounts to `said` is accepted."""
    lives = {topic: _life(known.get(topic), shown) for topic, shown in said.items()}
    return {topic: life for topic, life in lives.items() if life is not None}


def _life(life: Known | None, shown: Said | None) -> Known | None:
    """One topic's life after an accepted answer; None when it is over."""
    if shown is None:
        over = life is None or life.missing + 1 >= ABSENT_POLLS
        return None if over or life is None else replace(life, missing=life.missing + 1)
    told = {partition: epoch for partition, epoch in shown.epochs.items() if epoch is not None}
    if life is None or _is_another(shown, life):
        return Known(shown.topic_id, told)
    # An answer that does not tell an epoch (an old version, an error) leaves it as it was known.
    count = shown.partition_count
    kept = {partition: epoch for partition, epoch in life.epochs.items() if count is None or partition < count}
    return Known(shown.topic_id or life.topic_id, {**kept, **told})


def _is_another(shown: Said, life: Known) -> bool:
    """Whether the name stands for another topic than before; an id that is not told is taken for the same."""
    return shown.topic_id is not None and life.topic_id is not None and shown.topic_id != life.topic_id


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


def claims(pairs: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """Alias -> the cluster id that it stands for, one to one. `pairs`: alias, an id that it showed, since which poll.

    Whoever shows an id first has it, and the first id that an alias can have is its own for good.
    """
    owners: dict[str, str] = {}
    aliases: set[str] = set()
    for alias, cluster_id, _ in sorted(pairs, key=lambda pair: (pair[2], pair[0])):
        if alias not in aliases and cluster_id not in owners:
            owners[cluster_id] = alias
            aliases.add(alias)
    return {alias: cluster_id for cluster_id, alias in owners.items()}


# --- the same over DataFrames: one call of `verdicts` for each cluster ---

EPOCHS_SCHEMA = (
    "cluster string, poll_id string, topic string, present boolean, topic_id string, partition_count int, "
    "partition int, leader_epoch int"
)
CLAIMS_SCHEMA = "cluster string, claimed_id string"
VERDICT_SCHEMA = (
    "cluster string, poll_id string, verdict string, ord int, at timestamp, sent_at timestamp, interval_ms bigint, "
    "before_poll string, before_at timestamp, before_sent_at timestamp, before_interval_ms bigint, "
    "failed_polls bigint, stale_polls bigint, refused_polls bigint, error_kinds array<string>"
)


def poll_verdicts(headers: DataFrame, epochs: DataFrame) -> DataFrame:
    """A verdict for each header, and one of kind `applied` (ord 0) for each cluster that has history.

    `headers`: cluster, poll_id, received_at, sent_at, interval_ms, error_kind, refused, applied (the progress of the
    cluster as a struct, null when it has none). `epochs` (EPOCHS_SCHEMA): rows without a partition for what polls said
    of the topics some of whose epochs fell (`falling_epochs`), and a row for each such partition. Rows up to the applied
    poll's id are what is known so far.
    """
    # Both sides stem from the same polls; named anew, their columns are told apart by the analyzer.
    polls, said = headers.toDF(*headers.columns), epochs.toDF(*epochs.columns)
    return polls.groupBy("cluster").cogroup(said.groupBy("cluster")).applyInArrow(_judge_cluster, VERDICT_SCHEMA)


def claimed_ids(pairs: pa.Table) -> pa.Table:
    """`claims` over rows of cluster, cluster_id, since; schema CLAIMS_SCHEMA."""
    owned = claims((row["cluster"], row["cluster_id"], row["since"]) for row in pairs.to_pylist())
    return pa.table(
        {"cluster": list(owned.keys()), "claimed_id": list(owned.values())},
        schema=pa.schema({"cluster": pa.string(), "claimed_id": pa.string()}),
    )


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
    said = _said(epochs)
    applied = _applied(rows[0]["applied"])
    history = sorted(poll_id for poll_id in said if applied and poll_id <= applied.poll_id)
    known: dict[str, Known] = {}
    for poll_id in history:
        known = _learnt(known, said.pop(poll_id))
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
    judged = verdicts(polls, applied, known)
    out = [_row(rows[0]["cluster"], verdict) for verdict in ([applied] if applied else []) + judged]
    return pa.Table.from_pylist(out, schema=_verdict_schema())


def _said(epochs: pa.Table) -> dict[str, dict[str, Said | None]]:
    """Poll id -> topic -> what the poll said of it; from rows of EPOCHS_SCHEMA."""
    said: dict[str, dict[str, Said | None]] = {}
    told: dict[tuple[str, str], dict[int, int | None]] = {}
    for row in epochs.to_pylist():
        of_topic = told.setdefault((row["poll_id"], row["topic"]), {})
        if row["partition"] is not None:
            of_topic[row["partition"]] = row["leader_epoch"]
            continue
        shown = Said(row["topic_id"], row["partition_count"], of_topic) if row["present"] else None
        said.setdefault(row["poll_id"], {})[row["topic"]] = shown
    return said


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
