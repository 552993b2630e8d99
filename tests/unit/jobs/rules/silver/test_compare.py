"""What `fold` has to look at: the topics and partitions of which some answer says something new."""

import hashlib
import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.rules.silver.cluster import fold, poll_of
from jobs.rules.silver.compare import first_rows, narrow, to_look_at
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import Observation
from metadata_source.kinds import KAFKA, KINDS
from schemas.silver import PARTITION_SNAPSHOTS as PARTITIONS
from schemas.silver import TOPIC_SNAPSHOTS as TOPICS
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.histories import Answer
from tests.support.silver_cases import Row, led, poll, rows, taken
from tests.support.silver_lives import ALIAS, check_rows, claimed, cuts_of, folded, histories
from tests.support.silver_rounds import HEADERS, LIVE_PARTITIONS, LIVE_TOPICS, SAID, Lake

# --- what is left out ---

T, U = {("t", 0), ("t", 1), ("t", 2)}, {("u", 0)}
ALL_OF_IT = T | U
BEFORE = {"t": [led(5), led(3), led(4)], "u": [led(7)]}


def with_changes(number: int = 1, **changed: Any) -> dict[str, list[Row]]:
    """The same, but for one partition of t."""
    partitions = [dict(each) for each in BEFORE["t"]]
    partitions[number] |= changed
    return BEFORE | {"t": partitions}


def looked_at(
    *answers: Answer, kind: str = KAFKA, digest_version: int | None = None
) -> tuple[set[Any], set[Any], list[str]]:
    """The partitions that are looked at as answers tell them, the live ones, and the topics to look
    at, if all answers but the last one are accepted.
    """
    *accepted, last = answers
    lake = taken(*accepted)
    assert lake.state is not None
    bronze = [row for row in bronze_rows("c", list(answers)) if row["poll_id"] == last.poll_id]
    of_topics = [
        row | ({"digest_version": digest_version} if digest_version else {})
        for row in bronze
        if row["record"] == "topic"
    ]
    given = [
        pa.Table.from_pylist(each, schema)
        for each, schema in (
            (headers_of(bronze), HEADERS),
            (of_topics, SAID),
            (rows(lake, TOPICS), LIVE_TOPICS),
            ([row for row in rows(lake, PARTITIONS) if row["valid_to"] is None], LIVE_PARTITIONS),
        )
    ]
    said, _, partitions = narrow(lake.state, *given, kind=kind)
    return (
        {
            (row["topic"], each["partition"])
            for row in said.to_pylist()
            for each in row["partitions"]
        },
        {(row["topic"], row["partition"]) for row in partitions.to_pylist()},
        sorted(to_look_at(lake.state, *given[:3], kind).to_pylist()),
    )


ONE = {("t", 1)}
FIRST, NO_ID = poll(0, 1, BEFORE), poll(0, 1, BEFORE, topic_id=None)
LOOKED_AT: dict[str, tuple[Answer, Answer, set[Any], set[Any], str]] = {
    "nothing new": (FIRST, poll(1, 1, BEFORE), set(), set(), ""),
    "an epoch": (FIRST, poll(1, 1, with_changes(leader_epoch=4)), ONE, ONE, "t"),
    "an epoch that fell": (FIRST, poll(1, 1, with_changes(leader_epoch=2)), ONE, ONE, "t"),
    "a leader": (FIRST, poll(1, 1, with_changes(leader=2)), ONE, ONE, "t"),
    "an error": (FIRST, poll(1, 1, with_changes(error_code=9)), ONE, ONE, "t"),
    "the order of replicas": (FIRST, poll(1, 1, with_changes(replicas=[1, 0, 2])), ONE, ONE, "t"),
    "an ISR": (FIRST, poll(1, 1, with_changes(isr=[0, 1])), ONE, ONE, "t"),
    "offline replicas": (FIRST, poll(1, 1, with_changes(offline_replicas=[2])), ONE, ONE, "t"),
    "what an old version does not tell": (
        FIRST,
        poll(1, 1, with_changes(offline_replicas=None, leader_epoch=9), api_version=4),
        set(),
        set(),
        "t",
    ),
    "more partitions": (
        FIRST,
        poll(1, 1, BEFORE | {"t": [*BEFORE["t"], led(0)]}),
        T | {("t", 3)},
        T,
        "t",
    ),
    "fewer partitions": (FIRST, poll(1, 1, BEFORE | {"t": BEFORE["t"][:1]}), {("t", 0)}, T, "t"),
    "another id": (FIRST, poll(1, 1, BEFORE, topic_id="{}-B"), ALL_OF_IT, ALL_OF_IT, "tu"),
    "an id that an answer does not tell": (
        FIRST,
        poll(1, 1, BEFORE, topic_id=None, api_version=12),
        set(),
        set(),
        "tu",
    ),
    "an epoch that fell, without an id": (
        NO_ID,
        poll(1, 1, with_changes(leader_epoch=2), topic_id=None),
        T,
        T,
        "t",
    ),
    "an epoch that rose, without an id": (
        NO_ID,
        poll(1, 1, with_changes(leader_epoch=9), topic_id=None),
        ONE,
        ONE,
        "t",
    ),
    "an error in the place of partitions": (FIRST, poll(1, 1, BEFORE | {"t": None}), set(), T, "t"),
    "absent from a key frame": (FIRST, poll(1, 1, {"u": BEFORE["u"]}), set(), T, "t"),
    "absent from what differs": (FIRST, poll(1, 1, {"u": BEFORE["u"]}, batch=0), set(), T, "t"),
    "a new topic": (FIRST, poll(1, 1, BEFORE | {"v": [led(0)]}), {("v", 0)}, set(), "v"),
}
"""What an answer shows otherwise than one before -> the partitions that are looked at as it tells
them, the live ones, and topics.
"""


@pytest.mark.parametrize("case", LOOKED_AT)
def test_topics_and_partitions_that_say_nothing_new_are_left_out(case: str) -> None:
    before, after, told, live, topics = LOOKED_AT[case]
    assert looked_at(before, after) == (told, live, [*topics])


def test_a_topic_that_is_missing_is_looked_at_until_that_is_decided() -> None:
    without, again = poll(1, 1, {"u": BEFORE["u"]}), poll(2, 1, BEFORE)
    assert looked_at(FIRST, without, again) == (T, T, ["t"])
    assert looked_at(FIRST, without, poll(2, 1, {"u": BEFORE["u"]}, batch=1)) == (set(), T, ["t"])


def test_digests_of_two_versions_of_the_algorithm_say_nothing_of_each_other() -> None:
    same = poll(1, 1, BEFORE)
    assert looked_at(FIRST, same, digest_version=1) == (set(), set(), [])
    assert looked_at(FIRST, same, digest_version=2) == (set(), set(), ["t", "u"])


def test_of_another_kind_all_is_looked_at() -> None:
    assert looked_at(FIRST, poll(1, 1, BEFORE), kind="redpanda") == (
        ALL_OF_IT,
        ALL_OF_IT,
        ["t", "u"],
    )


def test_without_an_id_an_epoch_may_fall_within_a_round() -> None:
    """By the last answer it is as before, and by the one in between another topic."""
    polls = [poll(n, 1, {"t": [led(0), led(n % 2)]}, topic_id=None) for n in range(3)]
    narrowed = taken(*polls, cuts=[1], narrowed=True)
    assert narrowed.rows == taken(*polls).rows
    assert narrowed.looked_at == 2


# --- the first answer ---

SCHEMA = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        *LIVE_PARTITIONS.remove(0),
        ("valid_from", pa.timestamp("us", "UTC")),
        ("prev_leader", pa.int32()),
        ("superseded_poll", pa.string()),
    ]
)


@for_each("api_version", [None, 8, 9, 12])
@for_each("kind", [*KINDS])
def test_the_rows_of_a_first_answer_are_those_that_a_fold_makes(
    kind: str, api_version: int | None
) -> None:
    partitions = [
        led(5),
        led(5) | {"error_code": 5, "leader": 0},
        led(5) | {"error_code": 5, "leader": -1},
        led(5) | {"isr": [2, 2], "offline_replicas": [-1]},
        led(5) | {"replicas": [1, 1]},
        led(5) | {"isr": [2, 0], "offline_replicas": [2, 1]},
        led(5) | {"offline_replicas": None},
    ]
    answer = poll(0, 1, {"t": partitions, "u": [led(0)], "v": [led(0)], "w": [led(0)]})
    answer.api_version = api_version
    for name, error_code in (("u", 3), ("v", 29)):
        answer.topics[name]["error_code"] = error_code
    bronze = bronze_rows("c", [answer])
    headers = headers_of(bronze)
    made = fold(None, {}, headers, bronze, "id-prod", kind=kind).rows[PARTITIONS.full_name]
    said = pa.RecordBatch.from_pylist([row for row in bronze if row["record"] == "topic"], SAID)
    found = first_rows(
        Observation(poll_of(headers[0]), None),
        api_version,
        said,
        {"cluster": "c"},
        SCHEMA,
        kind=kind,
    )
    assert found.to_pylist() == [{name: row[name] for name in SCHEMA.names} for row in made]


# --- random lives ---


def digested_otherwise(bronze: list[dict[str, Any]], since: str) -> list[dict[str, Any]]:
    """The rows as a program with another algorithm would have written those of polls from one on.
    For the first state of each topic that algorithm has the digest that the one before had for the
    last: versions have nothing in common.
    """
    last = {
        row["topic"]: row["digest"]
        for row in bronze
        if row["record"] == "topic" and row["poll_id"] < since
    }
    places: dict[bytes, bytes] = {}

    def other(old: bytes | None, topic: str | None = None) -> bytes | None:
        if old is None:
            return None
        mistaken = last.pop(topic, None)
        return places.setdefault(old, mistaken or hashlib.blake2b(old, digest_size=16).digest())

    def row_of(row: dict[str, Any]) -> dict[str, Any]:
        if row["poll_id"] < since:
            return row
        own = {
            "digest": other(row["digest"], row["topic"]),
            "digest_version": row["digest_version"] and 2,
        }
        return row | own

    return [row_of(row) for row in bronze]


@given(histories(most=12, mistaken_for=[None]), st.data())
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
def test_digests_of_another_version_change_nothing_and_hide_nothing(
    answers: list[Answer], data: st.DataObject
) -> None:
    """A program whose digests are others takes over at a batch."""
    begins = [b.poll_id for a, b in pairwise(answers) if (a.stream, a.batch) != (b.stream, b.batch)]
    since = data.draw(st.sampled_from(begins or [answers[0].poll_id]))
    ids = [a.poll_id for a in answers]
    cuts = sorted({0, ids.index(since), len(ids), *data.draw(cuts_of(answers))})
    bronze = digested_otherwise(bronze_rows(ALIAS, answers), since)
    lake = Lake(ALIAS, data.draw(st.booleans()))
    for begin, end in pairwise(cuts):
        lake.take(bronze, ids[begin:end], claimed(answers[:end]))
    check_rows(lake, answers)


@given(histories(most=12, mistaken_for=[None]), st.sampled_from([*KINDS]), st.data())
@settings(max_examples=examples(20), suppress_health_check=list(HealthCheck))
def test_a_kind_declared_later_means_the_same_whatever_the_fold_is_given(
    answers: list[Answer], other: str, data: st.DataObject
) -> None:
    bronze, ids = bronze_rows(ALIAS, answers), sorted(a.poll_id for a in answers)
    cut = data.draw(st.integers(0, len(ids) - 1))
    lakes = [Lake(ALIAS, narrowed=narrowed) for narrowed in (False, True)]
    for lake in lakes:
        lake.take(bronze, ids[:cut], claimed(answers[:cut]))
        lake.kind = other
        for poll_id in ids[cut:]:
            lake.take(bronze, [poll_id], claimed(answers))
    assert lakes[0].rows == lakes[1].rows
    state = lakes[0].state
    if state is not None and state.kind == other:
        current = [row for row in rows(lakes[0], PARTITIONS) if row["valid_to"] is None]
        there = [row for row in current if row["topic"] not in state.missing]
        assert not [row for row in there for name in KINDS[other].columns if row[name] is not None]


@given(histories(most=12, mistaken_for=[None]), st.randoms(use_true_random=False), st.data())
@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
def test_leaders_that_move_in_their_epochs_mean_the_same_whatever_the_fold_is_given(
    answers: list[Answer], life: random.Random, data: st.DataObject
) -> None:
    """Each broker, now and then, names one broker as the leader of nearly everything."""
    for answer in answers:
        agent, is_named = life.randrange(3), life.random() < 0.6
        for p in (p for topic in answer.topics.values() for p in topic["partitions"] if is_named):
            if p["leader"] >= 0 and life.random() < 0.9:
                p["leader"] = agent
    cuts, whole = data.draw(cuts_of(answers)), folded(answers, []).rows
    assert all(folded(answers, cuts, narrowed=narrowed).rows == whole for narrowed in (False, True))
