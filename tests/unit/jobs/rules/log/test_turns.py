"""Polls and the controllers' log take turns: history is one, whoever tells, and nothing is there
twice.
"""

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.rules.ids import offset_of, source_of
from jobs.rules.log.image import Image
from jobs.rules.log.records import Change, steps
from jobs.rules.log.state import State as LogState
from jobs.rules.round import CLUSTER_LOG, SILVER, Row
from metadata_source.options import TopicFilter
from schemas import silver
from tests.support.cluster_logs import span
from tests.support.examples import examples
from tests.support.turns import MIN_ISR_IN_FILES, TABLES, Lake, kept_up, lived

chances, lengths = st.randoms(use_true_random=False), st.integers(1, 30)
PARTITIONS, CONFIGS = "silver.partition_snapshots", "silver.topic_configs"


@cache
def some_lake(seed: int) -> Lake:
    """Of a life of many; nobody may change it."""
    return kept_up(lived(random.Random(seed), log_begins=seed % 2 * 20), random.Random(seed))


def by_thing(table: str, rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["first_poll"]):
        found[tuple(row[name] for name in TABLES[table].key[:-1])].append(row)
    return list(found.values())


# The log's last record came before the last poll: brokers were seen later.
@example(random.Random(456), random.Random(456), 60, 0)
# Polls told a setting of the brokers' files before the record that deleted its topic.
@example(random.Random(192), random.Random(192), 60, 0)
@given(chances, chances, lengths, st.sampled_from([0, 0, 20]))
@settings(max_examples=examples(5), deadline=None)
def test_history_is_one_whoever_tells_it(
    chance: random.Random, rounds: random.Random, batches: int, log_begins: int
) -> None:
    life = lived(chance, batches, log_begins=log_begins)
    lake = kept_up(life, rounds)
    for table in (
        each.full_name for each in (*silver.SNAPSHOTS, *silver.OF_LOG, silver.HISTORY_SOURCES)
    ):
        for rows in by_thing(table, lake.rows(table)):
            for row, following in pairwise(rows):
                assert row["valid_to"] is not None
                assert row["superseded_poll"] <= following["first_poll"]
                assert row["valid_to"] <= following["valid_from"]
            for row in rows:
                assert row["from_offset"] == offset_of(row["first_poll"])
                if row["valid_to"] is not None:
                    assert row["valid_from"] <= row["last_seen_at"] <= row["valid_to"]
                    assert row["first_poll"] <= row["last_poll"] < row["superseded_poll"]
    check_leader_changes(lake)


@given(chances, lengths, st.sampled_from([0, 20]))
@settings(max_examples=examples(5), deadline=None)
def test_the_log_tells_the_topics_that_polls_ask_for(
    chance: random.Random, batches: int, log_begins: int
) -> None:
    """So none comes or goes when another source tells."""
    asked = {"a", "b"}
    life = lived(chance, batches, log_begins=log_begins)
    all_told = told(kept_up(life, random.Random(0)))
    some = TopicFilter(topics=tuple(sorted(asked))).to_json()
    life.answers = [
        replace(
            each,
            topics={name: of for name, of in each.topics.items() if name in asked},
            topic_filter=some,
            enrichments={
                kind: {key: state for key, state in states.items() if key[0] in asked}
                for kind, states in each.enrichments.items()
            },
        )
        for each in life.answers
    ]
    lake = kept_up(life, random.Random(0), some)
    assert told(lake) == {each for each in all_told if each[0] in asked}
    for table in (each.full_name for each in silver.SNAPSHOTS if "topic" in each.key):
        assert {row["topic"] for row in lake.rows(table)} <= asked
        assert "not_polled" not in {row["end_reason"] for row in lake.rows(table)}
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


@given(chances, chances, lengths)
@settings(max_examples=examples(5), deadline=None)
def test_no_answer_showed_a_change_before_it_began(
    chance: random.Random, rounds: random.Random, batches: int
) -> None:
    """Polls that were taken while the log was to tell may have shown more than it did."""
    life = lived(chance, batches)
    for row in kept_up(life, rounds).rows("gold.leader_changes"):
        shown = [
            answer.poll_id
            for answer in life.answers
            if answer.ok and row["began_after"] is not None and answer.sent_at <= row["began_after"]
            for topic in (answer.topics.get(row["topic"]),)
            if topic is not None and topic["topic_id"] == row["topic_id"]
            for partition in topic["partitions"]
            if partition["partition"] == row["partition"]
            and partition["leader_epoch"] >= row["leader_epoch"]
        ]
        assert row["source"] == "log" or not shown


@given(chances, chances, lengths)
@settings(max_examples=examples(5), deadline=None)
def test_the_last_state_is_that_of_whoever_told_last(
    chance: random.Random, rounds: random.Random, batches: int
) -> None:
    life = lived(chance, batches)
    lake = kept_up(life, rounds)
    image = Image()
    taken = [row for _, rows in life.log for row in rows if row["record"] == "record"]
    told_by_log = lake.turns[-1] == "log"
    if told_by_log:
        log = LogState.from_json(json.loads(lake.states[CLUSTER_LOG]["memory"]))
        for step in steps(taken):
            if isinstance(step, Change) and step.record["offset"] < log.next_offset:
                image.replay(step.record)
        expected = {
            (
                *key,
                of["topic_id"],
                of["leader"],
                of["leader_epoch"],
                tuple(of["replicas"]),
                tuple(sorted(of["isr"])),
            )
            for key, of in image.partitions.items()
        }
    else:
        last = json.loads(lake.states[SILVER]["memory"])["last"]["id"]
        answer = next(each for each in life.answers if each.poll_id == last)
        expected = {
            (
                topic,
                p["partition"],
                of["topic_id"],
                p["leader"],
                p["leader_epoch"],
                tuple(p["replicas"]),
                tuple(sorted(p["isr"])),
            )
            for topic, of in answer.topics.items()
            for p in of["partitions"]
        }
        missing = lake.states[SILVER]["missing"]
        expected |= {each for each in told(lake) if each[0] in missing}
    assert told(lake) == expected


@given(chances, chances, lengths, st.sampled_from([0, 20]))
@settings(max_examples=examples(5), deadline=None)
def test_what_is_in_the_files_of_brokers_holds_while_the_log_tells(
    chance: random.Random, rounds: random.Random, batches: int, log_begins: int
) -> None:
    """Polls tell it, and no record does."""
    life = lived(chance, batches, log_begins=log_begins)
    lake = kept_up(life, rounds)
    if lake.turns[-1] != "log":
        return
    log = LogState.from_json(json.loads(lake.states[CLUSTER_LOG]["memory"]))
    image = Image(log.static_configs)
    for step in steps([row for _, rows in life.log for row in rows if row["record"] == "record"]):
        if isinstance(step, Change) and step.record["offset"] < log.next_offset:
            image.replay(step.record)
    current = {row["topic"]: row for row in lake.rows(CONFIGS) if row["valid_to"] is None}
    for topic in image.topics:
        expected = image.effective(topic, "min.insync.replicas")
        assert current[topic]["min_insync_replicas"] == (expected and int(expected)), topic


def test_lives_have_settings_of_the_files_of_brokers() -> None:
    """Else the test above says less than it seems to."""
    lakes = [some_lake(seed) for seed in range(4)]
    rows = [
        row
        for lake in lakes
        for row in lake.rows(CONFIGS)
        if row["min_insync_replicas"] == MIN_ISR_IN_FILES
    ]
    assert any(
        row["from_offset"] is not None and row["prev_sent_at"] is None and row["prev_poll"]
        for row in rows
    )
    assert any(row["from_offset"] is not None and row["prev_sent_at"] is not None for row in rows)


def told(lake: Lake) -> set[Any]:
    names = ("topic", "partition", "topic_id", "leader", "leader_epoch")
    return {
        (*(row[name] for name in names), tuple(row["replicas"]), tuple(row["isr"]))
        for row in lake.rows(PARTITIONS)
        if row["valid_to"] is None
    }


@given(chances, lengths)
@settings(max_examples=examples(5), deadline=None)
def test_a_log_that_is_read_again_from_its_beginning_on_tells_nothing_twice(
    chance: random.Random, batches: int
) -> None:
    """Controllers have lost its last record, and written the same one again."""
    life = lived(chance, batches, silences=0)
    before = kept_up(life, random.Random(0))
    records = [row for _, rows in life.log for row in rows if row["record"] == "record"]
    end, at = records[-1]["offset"] + 1, life.log[-1][0]
    found, later = at + timedelta(seconds=1), at + timedelta(seconds=2)
    read = span("read", 0, end, later) | {
        name: records[-1][name] for name in ("leader_epoch", "timestamp")
    }
    life.log.append((found, [span("truncated", end, end - 1, found)]))
    life.log.append((later, [*(row | {"read_at": later} for row in records), read]))
    lake = kept_up(life, random.Random(0))
    assert told(lake) == told(before)
    for table in ("gold.leader_changes", "gold.controller_changes", PARTITIONS):
        names = TABLES[table].key
        keys = [
            [tuple(row[name] for name in names) for row in each.rows(table)]
            for each in (before, lake)
        ]
        assert sorted(keys[1]) == sorted(keys[0]), table


def test_lives_have_turns_of_both() -> None:
    """Else the tests above say less than they seem to."""
    lakes = [some_lake(seed) for seed in range(8)]
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
