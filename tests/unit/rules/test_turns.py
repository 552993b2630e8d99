"""Polls and the controllers' log take turns: history is one, whoever tells, and nothing is there twice."""

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.common.config import Thresholds
from jobs.rules.ids import offset_of, source_of
from jobs.rules.log.image import Image
from jobs.rules.log.records import Change, steps
from jobs.rules.log.registrations import offline_replicas
from jobs.rules.log.state import State as LogState
from jobs.rules.round import CLUSTER_LOG, GOLD, SILVER, STATE, Plan, Row, Taken, fold
from jobs.rules.silver.state import State
from jobs.rules.takes import take, turn
from schemas import gold, silver
from tests.cluster_logs import CLUSTER, START, RandomLog, in_effect, rows_of, span
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import Answer

ALIAS, CLUSTER_ID = CLUSTER["cluster"], CLUSTER["cluster_id"]
HAND_OVER = timedelta(seconds=30)
PLAN = Plan(frozenset({SILVER, *GOLD}), Thresholds(), START)
TABLES = {table.full_name: table for table in (*silver.TABLES, *gold.TABLES)}
PARTITIONS = "silver.partition_snapshots"
STREAM = "20261101T000000Z-00000000"


class Batches(RandomLog):
    """A random log, cut where a look of a reader may end: between batches, and never within a transaction."""

    def __init__(self, chance: random.Random) -> None:
        self.ends: list[int] = []
        super().__init__(chance)

    def _write(self, records: Any, *, is_control: bool = False) -> None:
        super()._write(records, is_control=is_control)
        self.ends.append(len(self.entries))


@dataclass
class Life:
    """A log and the polls of its cluster, in the order of our clock: rows of bronze, each batch with its time."""

    log: list[tuple[datetime, list[Row]]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    images: list[tuple[datetime, Image]] = field(default_factory=list)


def lived(seed: int, batches: int = 60, silences: int = 2, *, log_begins: int = 0) -> Life:
    """A life in which nobody reads the log at times, for long, and polls fail at times."""
    chance = random.Random(seed)
    log = Batches(chance)
    log.grow(batches)
    rows, counted = rows_of(log.entries), {entry.offset for entry in in_effect(log.entries)}
    silent = [(0, log_begins), *(sorted(chance.sample(range(len(log.ends)), 2)) for _ in range(silences))]
    life, image, waiting, done = Life(), Image(), [], 0
    now, n = START, 0
    for number, end in enumerate(log.ends):
        now += timedelta(seconds=chance.choice((1, 2, 5, 20)))
        for row in rows[done:end]:
            if row["offset"] in counted:
                image.replay(row)
        waiting += rows[done:end]
        done = end
        is_open = any(e.transaction == 23 for e in log.entries[:end]) and not _is_closed(log.entries[:end])
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
    return next((e.transaction for e in reversed(entries) if e.transaction is not None), None) in (24, 25)


def answer_of(image: Image, n: int, at: datetime, *, ok: bool) -> Answer:
    """What a client is told of an image."""
    brokers = {id_: (f"host{id_}", 9092, of["rack"]) for id_, of in image.brokers.items() if not of["is_fenced"]}
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
        told_of = {"topic_id": of["topic_id"], "error_code": 0, "is_internal": topic.startswith("__")}
        topics[topic] = told_of | {"partitions": partitions}
    made = Answer(f"{STREAM}/{n:012d}", STREAM, n, n, at, 2_000, ok)
    if not ok:
        return replace(made, error_kind="timeout")
    levels = (image.features.get("metadata.version"), image.features.get("eligible.leader.replicas.version", 0))
    return replace(
        made, sent_at=at, received_at=at, api_version=12, cluster_id=CLUSTER_ID, levels=levels, brokers=brokers,
        topics=topics, broker_id=None,
    )  # fmt: skip


class Lake:
    """Tables, and rounds that take what was there at a time."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.bronze = bronze_rows(ALIAS, life.answers)
        self.tables: dict[str, dict[Any, Row]] = defaultdict(dict)
        self.states: dict[str, Row] = {}
        self.taken, self.open = 0, list[Row]()
        self.turns: list[str] = []

    def round(self, now: datetime) -> None:
        state = State() if SILVER not in self.states else State.from_json(json.loads(self.states[SILVER]["memory"]))
        kept = self.states.get(CLUSTER_LOG)
        log = None if kept is None else LogState.from_json(json.loads(kept["memory"]))
        batches = [rows for at, rows in self.life.log[self.taken :] if at <= now]
        records = [*self.open, *(row for rows in batches for row in rows)]
        self.taken += len(batches)
        headers = [
            row
            for row in self.bronze
            if row["record"] == "poll"
            and row["scheduled_at"] <= now
            and (row["n"] > state.seen.get(STREAM, -1) or row["poll_id"] in state.waiting)
        ]
        by_log, told_from = turn(
            state, log, headers, CLUSTER_ID, read_at=max((row["read_at"] for row in records), default=None),
            has_snapshot=False, hand_over=HAND_OVER,
        )  # fmt: skip
        taken = take(
            ALIAS, state, 1, headers, claimed_id=CLUSTER_ID, most_polls=1_000, by_log=by_log, told_from=told_from
        )
        said = [
            row
            for row in self.bronze
            if row["poll_id"] in taken.polls and row["record"] in {"poll", *taken.polls[row["poll_id"]]}
        ]
        done = min((self.states[each]["done_poll"] if each in self.states else "" for each in GOLD), default="")
        live = {
            table: [row for row in rows.values() if is_live(row) or is_since(row, done)]
            for table, rows in self.tables.items()
        }
        brought = Taken(
            ALIAS, CLUSTER_ID, 1, said, live, self.states, log=records, by_log=by_log, told_from=taken.told_from
        )
        made = fold(brought, PLAN)
        assert fold(brought, PLAN) == made
        for row in made.pop(STATE):
            self.states[row["history"]] = row
        for table, rows in made.items():
            keyed = {tuple(row[name] for name in TABLES[table].key): row for row in rows}
            assert len(keyed) == len(rows), table
            for key in keyed.keys() & self.tables[table].keys():
                assert is_live(self.tables[table][key]), f"{table}: a row that was over changes"

            self.tables[table] |= keyed
        kept = self.states.get(CLUSTER_LOG)
        is_open = kept is not None and json.loads(kept["memory"]).get("is_open", False)
        self.open = records if is_open else []
        self.turns.append(self.states[SILVER]["told_by"])

    def rows(self, table: str) -> list[Row]:
        return list(self.tables[table].values())


def is_live(row: Row) -> bool:
    return bool(row["is_live"]) if "is_live" in row else row.get("valid_to", "") is None


def is_since(row: Row, done: str) -> bool:
    """Whether gold, which is done up to there, has not had a row of silver."""
    return "first_poll" in row and (row["first_poll"] > done or (row["superseded_poll"] or "") > done)


def kept_up(life: Life, chance: random.Random) -> Lake:
    lake = Lake(life)
    times = sorted({at for at, _ in life.log} | {answer.scheduled_at for answer in life.answers})
    for at in times:
        if chance.random() < 0.5 or at == times[-1]:
            lake.round(at)
    return lake


def by_thing(table: str, rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["first_poll"]):
        found[tuple(row[name] for name in TABLES[table].key[:-1])].append(row)
    return list(found.values())


@given(seed=st.integers(0, 2**32), log_begins=st.sampled_from([0, 0, 20]))
@settings(max_examples=examples(25), deadline=None)
def test_history_is_one_whoever_tells_it(seed: int, log_begins: int) -> None:
    life = lived(seed, log_begins=log_begins)
    lake = kept_up(life, random.Random(seed))
    for table in (each.full_name for each in (*silver.SNAPSHOTS, *silver.OF_LOG, silver.HISTORY_SOURCES)):
        for rows in by_thing(table, lake.rows(table)):
            for row, following in pairwise(rows):
                assert row["valid_to"] is not None
                assert row["superseded_poll"] <= following["first_poll"]
                assert row["valid_to"] <= following["valid_from"]
            for row in rows:
                assert row["from_offset"] == offset_of(row["first_poll"])
                assert row["valid_to"] is None or row["valid_from"] <= row["last_seen_at"] <= row["valid_to"]
    check_leader_changes(lake)


def check_leader_changes(lake: Lake) -> None:
    """Each rise of a leader epoch is in one row."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in sorted(lake.rows("gold.leader_changes"), key=lambda row: row["poll"]):
        found[row["topic_id"], row["partition"]].append(row)
        assert row["source"] == source_of(row["poll"])
    for rows in found.values():
        for row, following in pairwise(rows):
            assert row["leader_epoch"] == following["prev_leader_epoch"]
            assert row["leader"] == following["prev_leader"]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(15), deadline=None)
def test_the_last_state_is_that_of_whoever_told_last(seed: int) -> None:
    life = lived(seed)
    lake = kept_up(life, random.Random(seed))
    image = Image()
    taken = [row for _, rows in life.log for row in rows if row["record"] == "record"]
    told_by_log = lake.turns[-1] == "log"
    if told_by_log:
        log = LogState.from_json(json.loads(lake.states[CLUSTER_LOG]["memory"]))
        for step in steps(taken):
            if isinstance(step, Change) and step.record["offset"] < log.next_offset:
                image.replay(step.record)
        expected = {
            (*key, of["topic_id"], of["leader"], of["leader_epoch"], tuple(of["replicas"]), tuple(sorted(of["isr"])))
            for key, of in image.partitions.items()
        }
    else:
        last = json.loads(lake.states[SILVER]["memory"])["last"]["id"]
        answer = next(each for each in life.answers if each.poll_id == last)
        expected = {
            (
                *(topic, p["partition"], of["topic_id"], p["leader"], p["leader_epoch"], tuple(p["replicas"])),
                tuple(sorted(p["isr"])),
            )
            for topic, of in answer.topics.items()
            for p in of["partitions"]
        }
        missing = lake.states[SILVER]["missing"]
        expected |= {each for each in told(lake) if each[0] in missing}
    assert told(lake) == expected


def told(lake: Lake) -> set[Any]:
    names = ("topic", "partition", "topic_id", "leader", "leader_epoch")
    return {
        (*(row[name] for name in names), tuple(row["replicas"]), tuple(row["isr"]))
        for row in lake.rows(PARTITIONS)
        if row["valid_to"] is None
    }


def test_lives_have_turns_of_both() -> None:
    """Else the tests above say less than they seem to."""
    lakes = [kept_up(lived(seed, log_begins=seed % 2 * 20), random.Random(seed)) for seed in range(20)]
    turns = [[one for one, other in pairwise([*lake.turns, ""]) if one != other] for lake in lakes]
    assert any(each[:3] == ["log", "polls", "log"] for each in turns)
    assert any(each[:2] == ["polls", "log"] for each in turns)
    rows = [row for lake in lakes for row in lake.rows("silver.history_sources")]
    assert {(row["prev_source"], row["source"]) for row in rows} >= {
        (None, "log"),
        (None, "polls"),
        ("log", "polls"),
        ("polls", "log"),
    }
    sources = {row["source"] for lake in lakes for row in lake.rows("gold.isr_changes")}
    assert sources == {"log", "polls"}
