"""A cluster whose log is read at times and which is polled at times, and rounds that take both,
without Spark.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.log.image import Image
from jobs.rules.log.registrations import offline_replicas
from jobs.rules.log.state import State as LogState
from jobs.rules.round import CLUSTER_LOG, SILVER
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.takes import take
from jobs.rules.teller import teller
from tests.support import cluster_stage
from tests.support.bronze_rows import bronze_rows
from tests.support.cluster_logs import CLUSTER, START, RandomLog, in_effect, rows_of, span
from tests.support.cluster_stage import SETTINGS, ClusterStage
from tests.support.histories import Answer
from tests.support.stage import Row

ALIAS, CLUSTER_ID = CLUSTER["cluster"], CLUSTER["cluster_id"]
TABLES = cluster_stage.TABLES
HAND_OVER = timedelta(seconds=30)
STREAM = "20261101T000000Z-00000000"


class Batches(RandomLog):
    """A random log, cut where a look of a reader may end: between batches, and never within a
    transaction.
    """

    def __init__(self, chance: random.Random) -> None:
        self.ends: list[int] = []
        super().__init__(chance)

    def _write(self, records: Any, *, is_control: bool = False) -> None:
        super()._write(records, is_control=is_control)
        self.ends.append(len(self.entries))


@dataclass
class Life:
    """A log and the polls of its cluster, in the order of our clock: rows of bronze, each batch
    with its time.
    """

    log: list[tuple[datetime, list[Row]]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    images: list[tuple[datetime, Image]] = field(default_factory=list)


def lived(
    chance: random.Random, batches: int = 60, silences: int = 2, *, log_begins: int = 0
) -> Life:
    """A life in which nobody reads the log at times, for long, and polls fail at times."""
    log = Batches(chance)
    log.grow(batches)
    rows, counted = rows_of(log.entries), {entry.offset for entry in in_effect(log.entries)}
    silent = [
        (0, log_begins),
        *(sorted(chance.sample(range(len(log.ends)), 2)) for _ in range(silences)),
    ]
    life, image, waiting, done = Life(), Image(), [], 0
    now, n = START, 0
    for number, end in enumerate(log.ends):
        now += timedelta(seconds=chance.choice((1, 2, 5, 20)))
        for row in rows[done:end]:
            if row["offset"] in counted:
                image.replay(row)
        waiting += rows[done:end]
        done = end
        is_open = any(e.transaction == 23 for e in log.entries[:end]) and not _is_closed(
            log.entries[:end]
        )
        if waiting and not any(since <= number < until for since, until in silent):
            next_offset = waiting[-1]["offset"] + 1
            quiet = span("read", waiting[0]["offset"], next_offset, now)
            life.log.append((now, [row | {"read_at": now} for row in waiting] + [quiet]))
            waiting = []
        if not is_open and chance.random() < 0.7:
            at = now + timedelta(milliseconds=chance.randint(1, 900))
            life.answers.append(answer_of(image, n, at, ok=chance.random() < 0.9))
            n += 1
    return life


def _is_closed(entries: Sequence[Any]) -> bool:
    return next((e.transaction for e in reversed(entries) if e.transaction is not None), None) in (
        24,
        25,
    )


def answer_of(image: Image, n: int, at: datetime, *, ok: bool) -> Answer:
    """The answer of a broker that has an image."""
    brokers = {
        id_: (f"host{id_}", 9092, of["rack"])
        for id_, of in image.brokers.items()
        if not of["is_fenced"]
    }
    topics = {}
    for topic, of in image.topics.items():
        partitions = [
            {
                "partition": number,
                "error_code": 5 if told["leader"] == -1 else 0,
                **{name: told[name] for name in ("leader", "leader_epoch", "replicas", "isr")},
                "offline_replicas": offline_replicas(told, image.brokers),
            }
            for (name, number), told in sorted(image.partitions.items())
            if name == topic
        ]
        told_of = {
            "topic_id": of["topic_id"],
            "error_code": 0,
            "is_internal": topic.startswith("__"),
        }
        topics[topic] = told_of | {"partitions": partitions}
    made = Answer(f"{STREAM}/{n:012d}", STREAM, n, n, at, 2_000, ok)
    if not ok:
        return replace(made, error_kind="timeout")
    levels = (
        image.features.get("metadata.version"),
        image.features.get("eligible.leader.replicas.version", 0),
    )
    return replace(
        made, sent_at=at, received_at=at, api_version=12, cluster_id=CLUSTER_ID, levels=levels,
        brokers=brokers, topics=topics, broker_id=None, enriched={"configs": "ok"}, asked_ms=50,
        enrichments={"configs": {(topic,): settings_in(image, topic) for topic in topics}},
    )  # fmt: skip


MIN_ISR_IN_FILES = 3


def settings_in(image: Image, topic: str) -> tuple[int, bool, str]:
    """A topic's min.insync.replicas, another setting, and where the first is set: if no record
    says, in the files of all brokers.
    """
    told = image.effective(topic, "min.insync.replicas")
    if told is None or not told.isdecimal():
        return MIN_ISR_IN_FILES, False, "STATIC_BROKER_CONFIG"
    return int(told), False, "DYNAMIC_TOPIC_CONFIG"


class Lake(ClusterStage):
    """Tables, and rounds that take what was there at a time. `topic_filter`: that of the polls."""

    def __init__(self, life: Life, topic_filter: str | None = None) -> None:
        super().__init__(replace(SETTINGS, topic_filter=topic_filter))
        self.life, self.bronze = life, bronze_rows(ALIAS, life.answers)
        self.taken, self.open = 0, list[Row]()
        self.turns: list[str] = []

    def round(self, now: datetime) -> None:
        state, log = self.state, self.log
        batches = [rows for at, rows in self.life.log[self.taken :] if at <= now]
        records = [*self.open, *(row for rows in batches for row in rows)]
        self.taken += len(batches)
        headers = self.not_taken(
            row for row in headers_of(self.bronze) if row["scheduled_at"] <= now
        )
        read_at = max((row["read_at"] for row in records), default=None)
        who_tells = teller(
            state, log, headers, CLUSTER_ID,
            read_at=read_at, has_snapshot=False, hand_over=HAND_OVER,
        )  # fmt: skip
        taken = take(
            ALIAS, state, 1, headers, claimed_id=CLUSTER_ID, most_polls=1_000, teller=who_tells
        )
        self.make(taken, self.bronze, log=records)
        self.open = records if self.log is not None and self.log.is_open else []
        self.turns.append(self.states[SILVER]["told_by"])

    @property
    def log(self) -> LogState | None:
        """The memory of the fold of the log."""
        kept = self.states.get(CLUSTER_LOG)
        return None if kept is None else LogState.from_json(json.loads(kept["memory"]))

    def rows(self, table: str) -> list[Row]:
        return list(self.tables[table].values())


def kept_up(life: Life, chance: random.Random, topic_filter: str | None = None) -> Lake:
    lake = Lake(life, topic_filter)
    times = sorted({at for at, _ in life.log} | {answer.scheduled_at for answer in life.answers})
    for at in times:
        if chance.random() < 0.5 or at == times[-1]:
            lake.round(at)
    return lake
