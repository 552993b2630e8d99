"""When a topic is there, when it is believed to be gone, and why."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.state import Observation, Poll, State
from jobs.rules.silver.topic_lives import (
    Answer,
    Said,
    TopicLives,
    answer_of,
    asked_for,
    is_another,
    is_guess,
    odd_lists,
)
from schemas import silver
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import START
from tests.support.silver_cases import (
    ALL,
    Row,
    answered,
    epochs,
    heard,
    led,
    poll,
    rows,
    shown_by,
    shows,
    taken,
    waits,
)
from tests.support.silver_rounds import Lake

TOPICS, PARTITIONS = silver.TOPIC_SNAPSHOTS, silver.PARTITION_SNAPSHOTS
NOTHING: dict[str, Any] = {}


def ends(lake: Lake) -> list[tuple[str, str, datetime]]:
    """Topics that ended: the name, why, and when."""
    found = sorted(rows(lake, TOPICS), key=lambda row: row["topic"])
    return [
        (row["topic"], row["end_reason"], row["valid_to"]) for row in found if row["end_reason"]
    ]


# --- why a topic ends ---

ERROR_29 = {"t": {"topic_id": None, "error_code": 29, "is_internal": False, "partitions": []}}
ERROR_5, ERROR_3 = ({"t": ERROR_29["t"] | {"error_code": code}} for code in (5, 3))
NAMED, PATTERN = json.dumps({"topics": ["t"]}), json.dumps({"pattern": "t.*"})
OTHERS = json.dumps({"topics": ["u"]})

ENDS: dict[str, tuple[Sequence[Row], str | None, int]] = {
    "gone": ([shows(1), NOTHING, NOTHING], None, 1),
    "gone: though it is asked for by name": ([shows(1), NOTHING, NOTHING], NAMED, 1),
    "gone: though it is asked for by pattern": ([shows(1), NOTHING, NOTHING], PATTERN, 1),
    "gone: error 3 in its place": ([shows(1), ERROR_3, ERROR_3], NAMED, 1),
    "gone: the second answer decides": ([shows(1), ERROR_29, NOTHING], None, 1),
    "unauthorized": ([shows(1), ERROR_29, ERROR_29], None, 1),
    "unauthorized: though it is not asked for": ([shows(1), ERROR_29, ERROR_29], OTHERS, 1),
    "not_polled": ([shows(1), NOTHING, NOTHING], OTHERS, 1),
    "recreated: at once": ([shows(1), shows(0, topic_id="B")], None, 1),
    "recreated: as of when it was absent": ([shows(1), NOTHING, shows(0, topic_id="B")], None, 1),
    "None: absent once": ([shows(1), NOTHING], None, 0),
    "None: back again": ([shows(1), NOTHING, shows(1), NOTHING, shows(1)], None, 0),
    "None: an error in the place of partitions": ([shows(1), ERROR_5, ERROR_5], None, 0),
    "None: it got an id": ([shows(1, topic_id=None), shows(1)], None, 0),
}
"""Value of `end_reason` -> answers each 30 s, the filter, and the poll as of which it ends."""


@pytest.mark.parametrize("case", ENDS)
def test_why_and_when_a_topic_ends(case: str) -> None:
    shown, topic_filter, by = ENDS[case]
    lake = taken(*shown_by(None, *shown, topic_filter=topic_filter))
    for table in (TOPICS, PARTITIONS):
        first, *later = rows(lake, table)
        if case.startswith("None"):
            assert {row["end_reason"] for row in (first, *later)} == {None}
            continue
        assert first["end_reason"] == case.partition(":")[0]
        assert (first["superseded_poll"][-1], first["last_poll"][-1]) == (str(by), str(by - 1))


def test_while_a_topic_is_missing_nothing_after_the_last_answer_that_showed_it_is_settled() -> None:
    lake = taken(*shown_by(None, shows(1), NOTHING))
    assert lake.state is not None
    assert lake.state.settled is not None
    assert (lake.state.missing, lake.state.settled.id[-1]) == ({"t": "gone"}, "0")
    assert all(row["valid_to"] is None for row in rows(lake, PARTITIONS))


def test_an_answer_that_tells_what_differs_leaves_other_topics_as_they_are() -> None:
    both = {**shows(1), "u": shows(1, topic_id="U")["t"]}
    one, two, three = shown_by(None, both, both, both | shows(2))
    for each in (one, two, three):
        each.batch = 0
    assert ends(taken(one, two, three)) == []


def test_a_topic_that_was_made_again_is_not_replaced_by_what_it_replaced() -> None:
    old, new = shows(5), shows(0, topic_id="B")
    lake = taken(*shown_by(None, old, new, old, new, old, new))
    assert [(row["topic_id"], row["end_reason"]) for row in rows(lake, TOPICS)] == [
        ("A", "recreated"),
        ("B", None),
    ]


def test_an_id_that_is_shown_for_long_is_believed_though_it_had_ended() -> None:
    answers = shown_by(
        None, shows(5), shows(0, topic_id="B"), *[shows(5)] * 5, shows(0, topic_id="B")
    )
    lake = taken(*answers[:-1])
    assert [row["topic_id"] for row in rows(lake, TOPICS)] == ["A", "B", "A"]
    again = taken(*answers)
    assert again.state is not None
    assert (len(again.state.waiting), again.state.ended_ids) == (1, {"t": ("B",)})


def test_no_more_than_some_ids_are_kept_of_a_name() -> None:
    state = taken(*shown_by(None, *(shows(0, topic_id=str(n)) for n in range(20)))).state
    assert state is not None
    assert State.from_json(state.to_json()).ended_ids == {"t": tuple(map(str, range(11, 19)))}


def test_a_topic_that_gets_an_id_is_the_same_one() -> None:
    """Topics get ids when their cluster is upgraded to Kafka 2.8."""
    lake = taken(*shown_by(None, shows(5, 3, topic_id=None), shows(5, 3), shows(6, 3)))
    for table in (TOPICS, PARTITIONS):
        found = rows(lake, table)
        assert {row["end_reason"] for row in found} == {None}
        assert (found[0]["topic_id"], found[-1]["topic_id"]) == (None, "A")
    (last,) = (row for row in rows(lake, PARTITIONS) if row["leader_epoch"] == 6)
    assert last["prev_leader_epoch"] == 5


def test_of_a_topic_that_is_missing_nothing_is_forgotten_before_that_is_decided() -> None:
    """Another kind is declared when it is absent: it may have ended before."""
    answers = shown_by(None, shows(1), NOTHING, NOTHING)
    lake, bronze = Lake("c"), bronze_rows("c", answers)
    for each in answers:
        lake.take(bronze, [each.poll_id], "id-prod")
        lake.kind = "redpanda"
    (row,) = rows(lake, PARTITIONS)
    assert (row["end_reason"], row["superseded_poll"]) == ("gone", answers[1].poll_id)


def test_a_topic_without_a_digest_has_none() -> None:
    cluster, state = {"cluster_id": "id", "cluster": "c"}, State(topic_digests={"t": "1:00"})
    lives = TopicLives(*(Intervals(table, cluster, ()) for table in (TOPICS, PARTITIONS)), state)
    now = Observation(Poll("s/1", START, START, 10_000), None)
    told = {"topic_id": "A", "error_code": 0, "is_internal": False, "partition_count": 0}
    lives.take(Answer(True, {"t": Said(state=told)}), None, now, now)
    assert state.topic_digests == {}


# --- a topic without an id that was made again ---

Epochs = Mapping[str, Sequence[int] | None]
RECREATED = ("t", "recreated", answered(1))


def unnamed(n: int, broker: int | None, told: Epochs, *witnesses: Row, **more: Any) -> Any:
    """As Metadata v9 has it: with leader epochs, without topic ids."""
    return poll(n, broker, epochs(**told), *witnesses, **{"topic_id": None, **more})


BEFORE = unnamed(0, 0, {"t": (5, 3), "u": (7,)})
FALLS: dict[str, Epochs] = {
    "recreated: all epochs are 0": {"t": (0, 0), "u": (8,)},
    "recreated: a leader moved since": {"t": (2, 0), "u": (8,)},
    "recreated: more partitions": {"t": (0, 0, 0), "u": (8,)},
    "recreated: fewer partitions": {"t": (0,), "u": (8,)},
    "waits: one epoch did not fall": {"t": (4, 3), "u": (7,)},
    "waits: one epoch rose": {"t": (0, 4), "u": (7,)},
    "waits: two topics fell": {"t": (0, 0), "u": (0,)},
}
"""Leader epochs that the broker shows next which showed those of before."""


@pytest.mark.parametrize("case", FALLS)
def test_a_fall_of_all_epochs_of_one_topic_is_another_topic(case: str) -> None:
    told = FALLS[case]
    lake = taken(BEFORE, unnamed(1, 0, told))
    if case.startswith("waits"):
        assert (ends(lake), waits(lake)) == ([], 1)
        return
    assert ends(lake) == [RECREATED]
    of_t = [row for row in rows(lake, PARTITIONS) if row["topic"] == "t"]
    ended = [row for row in of_t if row["first_poll"] == BEFORE.poll_id]
    assert {(row["end_reason"], row["valid_to"]) for row in ended} == {("recreated", answered(1))}
    begun = [row for row in of_t if row["first_poll"] != BEFORE.poll_id]
    assert len(begun) == len(told["t"] or ())
    assert all(row["prev_leader_epoch"] is None and row["valid_to"] is None for row in begun)
    others = [row["leader_epoch"] for row in rows(lake, PARTITIONS) if row["topic"] == "u"]
    assert (others, waits(lake)) == ([7, 8], 0), "the history of other topics does not wait"
    assert waits(taken(BEFORE, unnamed(1, 0, told), unnamed(2, 0, told))) == 0


@pytest.mark.parametrize(("known", "told"), [("{}-id", "{}-id"), ("{}-id", None), (None, "{}-id")])
def test_if_an_id_is_known_or_told_epochs_decide_nothing(
    known: str | None, told: str | None
) -> None:
    """Another version of Metadata may hide an id that is there."""
    before = poll(0, 0, epochs(t=(5, 3)), topic_id=known)
    lake = taken(before, poll(1, 0, epochs(t=(0, 0)), topic_id=told))
    assert (ends(lake), waits(lake)) == ([], 1)


def test_epochs_that_go_with_a_guessed_leader_are_guessed() -> None:
    """Redpanda names a leader with error 5."""
    guessed = unnamed(1, 0, {"t": (0, 0), "u": (8,)})
    guessed.topics["t"]["partitions"][1] |= {"error_code": 5, "leader": 2}
    assert waits(taken(BEFORE, guessed)) == 1


def test_one_whose_leaders_never_moved_looks_as_before() -> None:
    lake = taken(unnamed(0, 0, {"t": (0, 0), "u": (1,)}), unnamed(1, 0, {"t": (0, 0), "u": (2,)}))
    assert (ends(lake), waits(lake)) == ([], 0)
    assert ends(taken(unnamed(0, 0, {"t": (0, 3)}), unnamed(1, 0, {"t": (0, 0)}))) == [RECREATED]


def test_partitions_that_look_as_before_are_of_the_other_topic_too() -> None:
    polls = (
        unnamed(0, 0, {"t": (0, 3)}),
        unnamed(1, 0, {"t": (0, 4)}),
        unnamed(2, 0, {"t": (0, 3)}),
        unnamed(3, 0, {"t": (0, 0)}),
    )
    for of in (polls[:1] + polls[3:], polls):
        for cuts in ([], [1]):
            lake = taken(*of, cuts=cuts, narrowed=True)
            assert lake.rows == taken(*of).rows
            assert {row["end_reason"] for row in rows(lake, PARTITIONS)} == {None, "recreated"}
    # Within one round the last answer is as the first was.
    risen_and_again = (
        unnamed(0, 0, {"t": (0, 0)}),
        unnamed(1, 0, {"t": (0, 1)}),
        unnamed(2, 0, {"t": (0, 0)}),
    )
    assert taken(*risen_and_again, cuts=[1], narrowed=True).rows == taken(*risen_and_again).rows


def test_it_waits_until_a_broker_that_showed_the_higher_epochs_shows_it() -> None:
    again = {"t": (0, 0), "u": (7,)}
    lake = taken(BEFORE, unnamed(1, 1, again), unnamed(2, 2, again), unnamed(3, 0, again))
    assert (ends(lake), waits(lake)) == ([("t", "recreated", answered(3))], 0)
    deleted = taken(
        BEFORE, unnamed(1, 1, again, heard(0)), *(unnamed(n, n % 3, {"u": (7,)}) for n in (2, 3))
    )
    assert ends(deleted) == [RECREATED, ("t", "gone", answered(2))]


def test_one_that_was_absent_ended_as_of_then() -> None:
    lake = taken(BEFORE, unnamed(1, 1, {"u": (7,)}), unnamed(2, 1, {"t": (0, 0), "u": (7,)}))
    assert ends(lake) == [RECREATED]


def test_an_error_between_tells_nothing() -> None:
    lake = taken(
        BEFORE, unnamed(1, 1, {"t": None, "u": (7,)}), unnamed(2, 1, {"t": (0, 0), "u": (7,)})
    )
    assert ends(lake) == [("t", "recreated", answered(2))]


def test_a_fall_of_several_that_is_believed_is_of_topics_that_were_made_again() -> None:
    again = {"t": (0, 0), "u": (0,)}
    lake = taken(BEFORE, *(unnamed(n, n % 3, again) for n in range(1, 8)))
    assert (ends(lake), waits(lake)) == ([RECREATED, ("u", "recreated", answered(1))], 0)


# --- one answer ---


def of_bronze(**told: Any) -> Row:
    partition = {"partition": 0, **led(7, 2, 1)}
    return {
        "topic": "t",
        "present": True,
        "error_code": 0,
        "partition_count": 1,
        "topic_id": "A",
        "is_internal": False,
        "digest": b"\1",
        "digest_version": 1,
        "partitions": [partition],
        **told,
    }


def said(*of: Row, api_version: int | None = 12) -> Said:
    return answer_of({"is_key_frame": True, "api_version": api_version}, of).topics["t"]


def test_a_topic_is_told_in_several_rows() -> None:
    found = said(of_bronze(), of_bronze(partitions=[{"partition": 1, **led(8)}]))
    assert found.state == {
        "topic_id": "A",
        "error_code": 0,
        "is_internal": False,
        "partition_count": 1,
    }
    assert found.digest == "1:01"
    assert list(found.partitions) == [0, 1]
    assert found.partitions[0] == {"partition": 0, **led(7, 1, 2), "leader": 2, "topic_id": "A"}, (
        "sets are in order"
    )


@pytest.mark.parametrize(
    ("told", "absence"),
    [
        ({"present": False}, "gone"),
        ({"error_code": 3}, "gone"),
        ({"error_code": 29}, "unauthorized"),
        ({"error_code": 5}, None),
    ],
)
def test_why_a_topic_counts_as_missing(told: Row, absence: str | None) -> None:
    assert said(of_bronze(**told)).absence == absence


@pytest.mark.parametrize(
    ("error_code", "count", "known"), [(0, 0, 0), (5, 0, None), (5, 2, 2), (0, 2, 2)]
)
def test_an_error_in_the_place_of_partitions_tells_no_count(
    error_code: int, count: int, known: int | None
) -> None:
    told = said(of_bronze(error_code=error_code, partition_count=count, partitions=None))
    assert told.state["partition_count"] == known


@pytest.mark.parametrize(("api_version", "epoch"), [(None, None), (8, None), (9, 7), (12, 7)])
def test_epochs_below_metadata_v9_cannot_be_trusted(
    api_version: int | None, epoch: int | None
) -> None:
    """KAFKA-9212."""
    assert said(of_bronze(), api_version=api_version).partitions[0]["leader_epoch"] == epoch


def test_answers_of_one_batch_are_read_as_one() -> None:
    one, two, three = Said(digest="1"), Said(digest="2"), Said(digest="3")
    frame, later = Answer(True, {"a": one, "b": two}), Answer(False, {"b": three})
    assert frame.then(later) == Answer(True, {"a": one, "b": three})
    assert later.then(frame) == frame


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("A", "B", True), ("A", "A", False), ("A", None, False), (None, "B", False)],
)
def test_an_id_that_is_not_known_is_taken_for_the_same(
    one: str | None, other: str | None, expected: bool
) -> None:
    assert is_another({"topic_id": one}, {"topic_id": other}) == expected


@pytest.mark.parametrize(
    ("error_code", "leader", "expected"), [(5, 0, True), (5, -1, False), (0, 0, False)]
)
def test_a_leader_that_is_named_with_error_5_is_a_guess(
    error_code: int, leader: int, expected: bool
) -> None:
    assert is_guess({"error_code": error_code, "leader": leader}) == expected


EVERY = {"replicas", "isr", "offline_replicas"}


@pytest.mark.parametrize(
    ("lists", "odd"),
    [
        ({}, set()),
        ({"isr": [1, 1]}, {"isr"}),
        ({"offline_replicas": [-1]}, {"offline_replicas"}),
        ({"isr": [0], "offline_replicas": None}, set()),
        ({"replicas": [1, 2, 1]}, EVERY),
        ({"replicas": [-1]}, EVERY),
    ],
)
def test_lists_that_cannot_be_meant_are_unknown(lists: Row, odd: set[str]) -> None:
    assert odd_lists(led(0) | lists) == odd


def test_a_guess_and_an_odd_list_leave_what_was_known() -> None:
    first, second = poll(0, 0, {"t": [led(5)]}), poll(1, 0, {"t": [led(6, 1)]})
    second.topics["t"]["partitions"][0] |= {"error_code": 5, "isr": [1, 1]}
    last = rows(taken(first, second), PARTITIONS)[-1]
    names = ("error_code", "leader", "leader_epoch", "isr")
    assert [last[name] for name in names] == [5, 2, 5, None]


@pytest.mark.parametrize(("count", "last_ends"), [(1, "gone"), (2, None)])
def test_a_partition_that_a_topic_has_no_more_is_gone(count: int, last_ends: str | None) -> None:
    lake = taken(*shown_by(None, shows(1, 1), shows(*[2] * count)))
    of_last = [row for row in rows(lake, PARTITIONS) if row["partition"] == 1]
    assert of_last[-1]["end_reason"] == last_ends


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


# --- random lives ---

EPOCHS = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple)
SHOWN = st.fixed_dictionaries({}, optional={"t": EPOCHS | st.none(), "u": EPOCHS})
HEARD = st.builds(
    lambda broker, said: heard(broker, is_behind=said[0], error_kind=said[1]),
    st.sampled_from(ALL),
    st.sampled_from([(False, None), (True, None), (None, None), (None, "timeout")]),
)
ANSWERS = st.lists(
    st.tuples(st.sampled_from([*ALL, None]), SHOWN, st.lists(HEARD, max_size=2), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(75))
@given(ANSWERS, st.data())
def test_rows_are_the_same_however_polls_are_cut_into_rounds(
    answers: list[Any], data: st.DataObject
) -> None:
    batches = [sum(is_next for *_, is_next in answers[: n + 1]) for n in range(len(answers))]
    polls = [
        unnamed(n, broker, shown, *others, batch=batches[n])
        for n, (broker, shown, others, _) in enumerate(answers)
    ]
    cuts = sorted(
        data.draw(st.sets(st.integers(1, max(1, len(polls) - 1)), max_size=4))
        & set(range(1, len(polls)))
    )
    whole, cut = taken(*polls), taken(*polls, cuts=cuts, narrowed=data.draw(st.booleans()))
    assert cut.rows == whole.rows
    assert cut.state == whole.state
    for row in rows(whole, PARTITIONS):
        raised = (
            None
            if row["prev_leader_epoch"] is None
            else row["leader_epoch"] - row["prev_leader_epoch"]
        )
        assert raised is None or raised >= 0 or len(polls) > 5, (
            "nothing falls within a life, but what is believed"
        )
