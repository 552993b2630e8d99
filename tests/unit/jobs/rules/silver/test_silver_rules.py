"""Single rules of silver, on cases that are easily got wrong; test_silver_fold.py has the rest, on
random histories.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.rules.silver.acceptance import MOST_FAILED, are_believed, claims, let_go
from jobs.rules.silver.cluster import fold, records_to_read
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import State
from jobs.rules.silver.topic_lives import asked_for
from metadata_source.kafka_constants import KEY_FRAME_EVERY
from schemas import silver
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import START, UNTOLD, Answer, good_answer
from tests.support.silver_rounds import PARTITIONS, TOPICS, Lake

TWO = [{"broker_id": 0}, {"broker_id": 1}]
STREAM, LATER = "20261101T000000Z-00000000", "20261102T000000Z-00000000"
Topics = Mapping[str, list[dict[str, Any]]]


def shows(*epochs: int | None, topic_id: str | None = "A") -> dict[str, Any]:
    """Topic t with partitions of these epochs."""
    partitions = [
        {
            "error_code": 0,
            "leader": 1,
            "leader_epoch": e,
            "replicas": [1],
            "isr": [1],
            "offline_replicas": [],
        }
        for e in epochs
    ]
    return {
        "t": {"topic_id": topic_id, "error_code": 0, "is_internal": False, "partitions": partitions}
    }


ERROR = {"t": {"topic_id": "A", "error_code": 5, "is_internal": False, "partitions": []}}
NOTHING: dict[str, Any] = {}


def polls(*topics: dict[str, Any], stream: str = STREAM) -> list[Answer]:
    """An answer every 30 s, each in a batch of its own."""
    answers = []
    for n, each in enumerate(topics):
        answer = good_answer(stream, n, START + timedelta(seconds=30 * n), {1: None}, {}, batch=n)
        answer.topics, answer.cluster_id, answer.interval_ms = each, "id-c", 30_000
        answers.append(answer)
    return answers


def taken(*answers: Answer) -> Lake:
    lake = Lake("c")
    lake.take(bronze_rows("c", list(answers)), [a.poll_id for a in answers], "id-c")
    return lake


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        ([shows(5), shows(6)], False),
        ([shows(5), shows(4)], True),
        # An answer with an error in place of partitions, or of an old version, tells no epoch: it
        # was known already.
        ([shows(5), ERROR, shows(4)], True),
        ([shows(5), shows(None), shows(4)], True),
        # A topic that is absent once never went away; one that is absent twice has ended.
        ([shows(5), NOTHING, shows(4)], True),
        ([shows(5), NOTHING, NOTHING, shows(4)], False),
        # Another id is another topic; no id is taken for the same.
        ([shows(5), shows(0, topic_id="B")], False),
        ([shows(5), shows(4, topic_id=None)], True),
        # An id that another one has replaced is of an old image, whatever the epochs: ids are never
        # used again.
        ([shows(5), shows(0, topic_id="B"), shows(5)], True),
        ([shows(5), shows(0, topic_id="B"), shows(0, topic_id="C"), shows(5)], True),
        ([shows(5), shows(0, topic_id="B"), NOTHING, shows(5)], True),
        # A name that nobody has any more may come back; what it was before is forgotten.
        ([shows(5), shows(0, topic_id="B"), NOTHING, NOTHING, shows(5)], False),
        ([shows(5), shows(5, topic_id=None), shows(0, topic_id="B")], False),
        # A partition number that a whole answer lacks has ended.
        ([shows(5, 7), shows(5), shows(5, 6)], False),
        ([shows(5, 7), shows(6, 6)], True),
    ],
)
def test_one_lower_epoch_under_the_same_topic_id_is_stale(
    answers: list[dict[str, Any]], waits: bool
) -> None:
    state = taken(*polls(*answers)).state
    assert state is not None
    assert len(state.waiting) == waits


def test_stale_answers_are_believed_after_five_over_a_minute() -> None:
    at = [START + timedelta(seconds=15 * n) for n in range(5)]
    headers = [
        {"received_at": each, "interval_ms": 15_000, "broker_id": n % 2, "brokers": TWO}
        for n, each in enumerate(at)
    ]
    assert are_believed(headers, START)
    assert not are_believed(headers[:4], START)
    assert not are_believed([headers[0], *headers[:4]], START)
    # The poller's clock stepped back: no time passed until it has caught up.
    assert not are_believed(headers, at[1])


@pytest.mark.parametrize(
    ("interval_ms", "count"), [(1_000, 121), (10_000, 13), (15_000, 10), (30_000, 10)]
)
def test_stale_answers_are_believed_by_count_while_the_clock_that_was_ahead_stands(
    interval_ms: int, count: int
) -> None:
    """One poll ten years ahead, and no time would pass for ten years."""
    ahead = START + timedelta(days=3_650)
    headers = [
        {
            "received_at": START + timedelta(milliseconds=interval_ms * n),
            "interval_ms": interval_ms,
            "broker_id": n % 2,
            "brokers": TWO,
        }
        for n in range(count)
    ]
    assert are_believed(headers, ahead)
    assert not are_believed(headers[1:], ahead)
    one = [{**each, "broker_id": 0} for each in headers]
    assert not are_believed(one, ahead), "of one broker however many"


def test_nothing_is_believed_because_one_broker_repeats_it() -> None:
    at = [START + timedelta(seconds=30 * n) for n in range(9)]
    one: list[dict[str, Any]] = [
        {"received_at": each, "interval_ms": 30_000, "broker_id": 0, "brokers": TWO} for each in at
    ]
    assert not are_believed(one, START)
    assert are_believed([*one, {**one[-1], "broker_id": 1}], START)
    assert are_believed([{**each, "brokers": TWO[:1]} for each in one], START), "there is no other"
    assert are_believed([{**each, "broker_id": None} for each in one], START), (
        "nobody knows who answered"
    )


def by_broker(answers: list[Answer], broker: int) -> list[Answer]:
    """The same, answered by one of the two brokers that the cluster lists."""
    brokers = {each: (f"host{each}", 9092, None) for each in (0, 1)}
    return [replace(answer, broker_id=broker, brokers=brokers) for answer in answers]


def in_rounds(answers: list[Answer], each: int) -> Lake:
    """Rounds of so many polls."""
    lake, bronze = Lake("c"), bronze_rows("c", answers)
    for first in range(0, len(answers), each):
        lake.take(bronze, [a.poll_id for a in answers[first : first + each]], "id-c")
        assert lake.state is not None
        assert len(lake.state.waiting) <= MOST_FAILED + 10
    return lake


def failed(answer: Answer) -> Answer:
    return replace(answer, ok=False, error_kind="timeout")


def test_answers_of_one_broker_do_not_pile_up_while_they_wait() -> None:
    """A cluster that came back from an older snapshot, of which one broker alone can be reached.
    The oldest answers are let go that those after them do not need; they are of the gap before.
    """
    before, *old = polls(shows(5), *[shows(4)] * 61)
    answers = [*by_broker([before], 1), *by_broker(old[:60], 0), *by_broker(old[60:], 1)]
    whole, by_one, by_seven = (in_rounds(answers, each) for each in (len(answers), 1, 7))
    assert by_one.tables == by_seven.tables == whole.tables
    assert by_one.state == by_seven.state == whole.state
    waits = in_rounds(answers[:-1], 1).state
    assert waits is not None
    assert [poll_id[-2:] for poll_id in waits.waiting] == ["56", "57", "58", "59", "60"]
    assert waits.stale_polls == 55
    assert whole.state is not None
    assert (whole.state.waiting, whole.state.stale_polls) == ((), 0)
    (gap,) = whole.tables[silver.POLL_GAPS.full_name].values()
    assert (gap["stale_polls"], gap["until_poll"][-2:], gap["reason"]) == (55, "56", "stale")


def test_failed_polls_do_not_pile_up_behind_an_answer_that_waits() -> None:
    before, old, *later = polls(shows(5), *[shows(4)] * (MOST_FAILED + 20), shows(5))
    answers = [before, old, *map(failed, later[:-1]), later[-1]]
    whole, by_one = in_rounds(answers, len(answers)), in_rounds(answers, 1)
    assert by_one.tables == whole.tables
    (gap,) = whole.tables[silver.POLL_GAPS.full_name].values()
    assert (gap["failed_polls"], gap["stale_polls"], gap["reason"]) == (
        MOST_FAILED + 19,
        1,
        "failed",
    )
    waits = in_rounds(answers[: MOST_FAILED + 2], 1).state
    assert waits is not None
    assert len(waits.waiting) == MOST_FAILED + 1
    none = in_rounds(answers[: MOST_FAILED + 3], 1).state
    assert none is not None
    assert (none.waiting, none.failed_polls, none.stale_polls) == ((), MOST_FAILED + 1, 1)


@given(
    failed_for=st.lists(st.integers(0, 2 * MOST_FAILED), min_size=1, max_size=4),
    interval_s=st.sampled_from([1, 2, 5]),
    cuts=st.lists(st.floats(0, 1), max_size=5),
)
@settings(max_examples=examples(15))
@example(failed_for=[MOST_FAILED + 20], interval_s=1, cuts=[0.5])
@example(failed_for=[MOST_FAILED + 20], interval_s=5, cuts=[0.5])
def test_answers_that_wait_among_failed_polls_make_the_same_however_rare_key_frames_are(
    failed_for: list[int], interval_s: int, cuts: list[float]
) -> None:
    """An old answer shows another leader epoch of `t`, and beside it a topic that is new: the next
    one tells of that no more, unless it is a key frame. Then so many polls fail, and what comes is
    good again.
    """
    more = shows(5) | {"new": shows(0, topic_id="N")["t"]}
    shown: list[dict[str, Any] | None] = [shows(5)]
    for failing in failed_for:
        shown += [shows(4) | {"new": more["new"]}, *[None] * failing, more]
    answers = []
    last, run = START - KEY_FRAME_EVERY, 0
    for n, topics in enumerate(shown):
        at = START + timedelta(seconds=interval_s * n)
        # As the recorder does: after so long the next good poll is one.
        if topics is not None and at - last >= KEY_FRAME_EVERY:
            last, run = at, run + 1
        answer = good_answer(STREAM, n, at, {1: None}, {}, batch=run)
        answer.topics, answer.cluster_id, answer.interval_ms = (
            topics or {},
            "id-c",
            1_000 * interval_s,
        )
        answers.append(failed(answer) if topics is None else answer)
    whole = [replace(each, batch=n) for n, each in enumerate(answers)]
    every = sorted({0, len(answers), *(int(cut * len(answers)) for cut in cuts)})
    found, expected = Lake("c"), Lake("c")
    bronze, of_whole = bronze_rows("c", answers), bronze_rows("c", whole)
    for begin, end in pairwise(every):
        found.take(bronze, [a.poll_id for a in answers[begin:end]], "id-c")
    expected.take(of_whole, [a.poll_id for a in whole], "id-c")
    assert found.rows == expected.rows


def test_an_answer_is_not_read_without_those_before_it_up_to_a_key_frame() -> None:
    """Answers tell what differs from the one before; only a key frame can begin those that stay."""
    header = {"broker_id": 0, "brokers": TWO, "interval_ms": 1_000}
    waiting = [
        (
            header | {"received_at": at, "scheduled_at": at, "is_key_frame": n % 75 == 0},
            n == 0 or n > MOST_FAILED + 20,
        )
        for n, at in ((n, START + n * KEY_FRAME_EVERY / 75) for n in range(390))
    ]
    assert let_go(waiting[:1], START) == 0
    assert let_go(waiting[: MOST_FAILED + 1], START) == 0
    assert let_go(waiting[: MOST_FAILED + 2], START) == MOST_FAILED + 2, (
        "the next answer is a key frame"
    )
    begins = let_go(waiting, START)
    assert begins == 300
    within = {"scheduled_at": START + KEY_FRAME_EVERY}
    soon = [
        waiting[0],
        *((each | within, is_answer) for each, is_answer in waiting[1 : MOST_FAILED + 2]),
    ]
    assert let_go(soon, START) == 0


def test_what_waits_is_believed_if_a_person_says_so() -> None:
    before, *old = polls(shows(5), *[shows(4)] * 3)
    answers = [*by_broker([before], 1), *by_broker(old, 0)]
    lake, bronze = Lake("c"), bronze_rows("c", answers)
    lake.take(bronze, [a.poll_id for a in answers[:3]], "id-c")
    lake.take(bronze, [answers[3].poll_id], "id-c", believe=True)
    assert lake.state is not None
    assert lake.state.waiting == ()
    epochs = sorted(
        (row["first_poll"][-1], row["leader_epoch"]) for row in lake.tables[PARTITIONS].values()
    )
    assert epochs == [("0", 5), ("1", 4)]
    assert [poll.id[-1] for poll in lake.polls] == ["0", "1", "2", "3"]


def test_a_topic_ends_as_of_the_first_of_two_absences() -> None:
    lake = taken(*polls(shows(1), NOTHING, NOTHING))
    (row,) = lake.tables[TOPICS].values()
    assert (row["end_reason"], row["superseded_poll"][-1], row["last_poll"][-1]) == (
        "gone",
        "1",
        "0",
    )
    assert {row["end_reason"] for row in lake.tables[PARTITIONS].values()} == {"gone"}
    unsettled = taken(*polls(shows(1), NOTHING))
    assert unsettled.state is not None
    assert unsettled.state.settled is not None
    assert (dict(unsettled.state.missing), unsettled.state.settled.id[-1]) == ({"t": "gone"}, "0")
    assert all(row["valid_to"] is None for row in unsettled.tables[PARTITIONS].values())


def test_a_topic_that_was_made_again_is_not_replaced_by_what_it_replaced() -> None:
    old, new = shows(5), shows(0, topic_id="B")
    lake = taken(*polls(old, new, old, new, old, new))
    rows = sorted(lake.tables[TOPICS].values(), key=lambda row: row["first_poll"])
    assert [(row["topic_id"], row["end_reason"]) for row in rows] == [
        ("A", "recreated"),
        ("B", None),
    ]


def test_an_id_that_is_shown_for_long_is_believed_though_it_had_ended() -> None:
    answers = polls(shows(5), shows(0, topic_id="B"), *[shows(5)] * 5, shows(0, topic_id="B"))
    lake = taken(*answers[:-1])
    rows = sorted(lake.tables[TOPICS].values(), key=lambda row: row["first_poll"])
    assert [row["topic_id"] for row in rows] == ["A", "B", "A"]
    again = taken(*answers)
    assert again.state is not None
    assert (len(again.state.waiting), again.state.ended_ids) == (1, {"t": ("B",)})


def test_memory_holds_no_more_than_what_is_not_as_in_the_beginning() -> None:
    assert State().to_json() == {}
    assert State(late_polls=2).to_json() == {"late_polls": 2}


def test_no_more_than_some_ids_are_kept_of_a_name() -> None:
    state = taken(*polls(*(shows(0, topic_id=str(n)) for n in range(20)))).state
    assert state is not None
    assert State.from_json(state.to_json()).ended_ids == {"t": tuple(map(str, range(11, 19)))}


def test_a_topic_that_gets_an_id_is_the_same_one() -> None:
    """Topics get ids when their cluster is upgraded to Kafka 2.8."""
    lake = taken(*polls(shows(5, 3, topic_id=None), shows(5, 3), shows(6, 3)))
    for table in (TOPICS, PARTITIONS):
        rows = sorted(lake.tables[table].values(), key=lambda row: row["first_poll"])
        assert {row["end_reason"] for row in rows} == {None}
        assert (rows[0]["topic_id"], rows[-1]["topic_id"]) == (None, "A")
    (last,) = (row for row in lake.tables[PARTITIONS].values() if row["leader_epoch"] == 6)
    assert last["prev_leader_epoch"] == 5


def test_an_answer_that_is_not_whole_ends_no_group() -> None:
    """A broker that did not answer may coordinate those that were not listed."""
    stable = ("classic", "consumer", "Stable", None, None, None, "range", ())
    empty = ("classic", "consumer", "Empty", None, None, None, None, ())
    answers = polls(*[shows(5)] * 4)
    lost = (
        "failed: broker 3 (b3:9092): no answer in time (2.5 s, see enrichTimeout); no broker that "
        "answered leads "
    )
    some = (
        "ok: 1 of 2 groups could not be described: broker 3 (b3:9092): no answer in time (2.5 s, "
        "see enrichTimeout)"
    )
    for answer, outcome in zip(
        answers, ("ok", f"{lost}__consumer_offsets partitions 3", some, "ok"), strict=True
    ):
        answer.enriched = {"groups": outcome}
    answers[0].enrichments = {"groups": {("g1",): stable, ("g2",): stable}}
    answers[2].enrichments = {"groups": {("g1",): empty, ("g2",): UNTOLD}}
    answers[3].enrichments = {"groups": {("g1",): empty}}

    def told(*answers: Answer) -> list[tuple[Any, ...]]:
        rows = taken(*answers).tables[silver.GROUP_SNAPSHOTS.full_name].values()
        names = ("group_id", "state", "first_poll", "end_reason", "superseded_poll")
        return sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: row[:3])

    first, _, third, fourth = (answer.poll_id for answer in answers)
    assert told(*answers[:2]) == [
        ("g1", "Stable", first, None, None),
        ("g2", "Stable", first, None, None),
    ]
    assert told(*answers[:3]) == [
        ("g1", "Empty", third, None, None),
        ("g1", "Stable", first, None, third),
        ("g2", "Stable", first, None, None),
    ]
    assert told(*answers)[2:] == [("g2", "Stable", first, "gone", fourth)], (
        "a whole answer does not list it"
    )


def test_polls_of_an_older_stream_are_late_and_polls_taken_before_are_passed_over() -> None:
    # By their epochs they are no old images.
    early, late = polls(shows(3), shows(4)), polls(shows(1), stream=LATER)
    lake = taken(*late)
    rows = lake.rows
    for _ in range(2):
        lake.take(bronze_rows("c", [*early, *late]), [a.poll_id for a in (*early, *late)], "id-c")
        assert lake.state is not None
        assert (lake.state.late_polls, dict(lake.state.seen)) == (2, {LATER: 0, STREAM: 1})
    assert lake.rows == rows


@pytest.mark.parametrize(("late_by", "gaps"), [(timedelta(0), 0), (timedelta(milliseconds=1), 1)])
def test_a_gap_is_longer_than_two_intervals(late_by: timedelta, gaps: int) -> None:
    first, _, third = polls(shows(1), shows(1), shows(1))
    assert third.received_at is not None
    third.received_at += late_by
    assert len(taken(first, third).tables["silver.poll_gaps"]) == gaps


@pytest.mark.parametrize(("api_version", "racks"), [(0, ["a"]), (1, ["a", None])])
def test_no_rack_is_a_state_where_the_answer_has_racks(
    api_version: int, racks: list[str | None]
) -> None:
    first, then = polls(shows(1), shows(1))
    first.brokers, then.brokers = {1: ("host1", 9092, "a")}, {1: ("host1", 9092, None)}
    then.api_version = api_version
    rows = taken(first, then).tables["silver.broker_snapshots"].values()
    assert [row["rack"] for row in sorted(rows, key=lambda row: row["first_poll"])] == racks


def test_a_poll_that_says_the_same_again_needs_no_rows_and_makes_none() -> None:
    one, again = polls(shows(1), shows(1))
    lake = taken(one)
    headers = headers_of(bronze_rows("c", [one, again]))
    assert records_to_read(lake.state, headers) == {}
    folded = fold(lake.state, {}, headers, [])
    assert (folded.rows, [poll.id for poll in folded.polls]) == ({}, [again.poll_id])
    unsure = [header | {"digest": None} for header in headers]
    assert records_to_read(lake.state, unsure) == {again.poll_id: {"topic"}}


def test_without_an_id_of_its_own_an_alias_has_no_history() -> None:
    rows = bronze_rows("c", polls(shows(1)))
    folded = fold(None, {}, headers_of(rows), rows)
    assert (folded.rows, folded.state.refused_polls, folded.state.last) == ({}, 1, None)
    assert fold(None, {}, [], []).state == State()


def test_an_alias_keeps_the_first_id_that_nobody_has() -> None:
    # `b` was pointed at a's cluster first, and then put right.
    shown = [("b", "Z", 5), ("b", "Y", 4), ("c", "Y", 3), ("b", "X", 2), ("a", "X", 1)]
    pairs = [(alias, cluster_id, START + timedelta(seconds=at)) for alias, cluster_id, at in shown]
    assert claims(pairs) == {"a": "X", "c": "Y", "b": "Z"}
    # Of polls that are due at one moment the alias decides, so that a round done again decides the
    # same.
    assert claims([("b", "X", START), ("a", "X", START)]) == {"a": "X"}


@pytest.mark.parametrize(
    ("topic_filter", "asked"),
    [
        (None, {"a", "c", "prod-x", "prod-1"}),
        ({"topics": ["a", "b"]}, {"a"}),
        ({"pattern": "(?P<env>prod)-.*"}, {"prod-x", "prod-1"}),
        ({"pattern": "[[:alpha:]-]+"}, {"a", "c", "prod-x"}),
    ],
)
def test_a_filter_asks_for_what_the_poller_matches(
    topic_filter: dict[str, Any] | None, asked: set[str]
) -> None:
    text = None if topic_filter is None else json.dumps(topic_filter)
    assert asked_for(text, ["a", "c", "prod-x", "prod-1"]) == asked
    assert asked_for(text, []) == set()
