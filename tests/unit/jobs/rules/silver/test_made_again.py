"""Topics without ids that are made again: their leader epochs fall, as those of an old image do."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.silver.state import Header
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import START, Answer, good_answer
from tests.support.silver_rounds import PARTITIONS, TOPICS, Lake

STREAM = "20261101T000000Z-00000000"
ALL = (0, 1, 2)
STEP = timedelta(seconds=10)

Epochs = Mapping[str, Sequence[int] | None]
"""Leader epochs of the partitions of each topic; None: its partitions are not told (an error)."""


def led(epoch: int) -> dict[str, Any]:
    """A partition, led by the broker that follows from the epoch."""
    replicas = [0, 1, 2]
    state = {
        "error_code": 0,
        "leader": epoch % 3,
        "leader_epoch": epoch,
        "replicas": replicas,
        "isr": replicas,
    }
    return {**state, "offline_replicas": []}


def heard(broker: int, *, is_behind: bool | None = False, error_kind: str | None = None) -> Header:
    """Another broker that was asked with a poll."""
    return {
        "broker_id": broker,
        "broker": f"host{broker}:9092",
        "is_behind": is_behind,
        "error_kind": error_kind,
    }


def poll(n: int, broker: int | None, shown: Epochs, *witnesses: Header, **more: Any) -> Answer:
    """Answer n, by a broker, as Metadata v9 has it: with leader epochs, without topic ids."""
    at = START + n * STEP
    topics = {topic: [led(epoch) for epoch in epochs or ()] for topic, epochs in shown.items()}
    answer = good_answer(STREAM, n, at, dict.fromkeys(ALL), topics, batch=more.pop("batch", n))
    for topic, epochs in shown.items():
        answer.topics[topic] |= {
            "topic_id": more.get("topic_id"),
            "error_code": 5 if epochs is None else 0,
        }
    told = {
        "sent_at": at,
        "received_at": at,
        "behind_ms": None,
        "partitions_behind": 1,
        "epochs_behind": 1,
    }
    answer.witnesses = [{**told, **each} for each in witnesses] or None
    answer.broker_id, answer.api_version = broker, 9
    return answer


def taken(*answers: Answer, cuts: Sequence[int] = (), narrowed: bool = False) -> Lake:
    """History of the answers, in rounds that are cut there."""
    bronze, ids = bronze_rows("c", list(answers)), [answer.poll_id for answer in answers]
    lake = Lake("c", narrowed)
    for begin, end in zip((0, *cuts), (*cuts, len(ids)), strict=True):
        lake.take(bronze, ids[begin:end], "id-prod")
    return lake


def waits(lake: Lake) -> int:
    assert lake.state is not None
    return len(lake.state.waiting)


def ends(lake: Lake) -> list[tuple[str, str, datetime]]:
    """Topics that ended: the name, why, and when."""
    rows = lake.tables[TOPICS].values()
    return [(row["topic"], row["end_reason"], row["valid_to"]) for row in rows if row["end_reason"]]


def answered(n: int) -> datetime:
    return START + n * STEP + timedelta(milliseconds=100)


BEFORE = poll(0, 0, {"t": (5, 3), "u": (7,)})
RECREATED = ("t", "recreated", answered(1))


@pytest.mark.parametrize(
    "again",
    [
        poll(1, 1, {"t": (0, 0), "u": (8,)}, heard(0)),
        poll(1, 0, {"t": (0, 0), "u": (8,)}),
        # A leader moved since.
        poll(1, 1, {"t": (2, 0), "u": (8,)}, heard(0)),
        # With more partitions, or fewer.
        poll(1, 1, {"t": (0, 0, 0), "u": (8,)}, heard(0)),
        poll(1, 1, {"t": (0,), "u": (8,)}, heard(0)),
        poll(
            1,
            1,
            {"t": (0, 0), "u": (8,)},
            heard(2, error_kind="unreachable", is_behind=None),
            heard(0),
        ),
    ],
)
def test_a_fall_of_all_epochs_of_one_topic_by_a_broker_that_showed_them_is_another_topic(
    again: Answer,
) -> None:
    lake = taken(BEFORE, again)
    assert ends(lake) == [RECREATED]
    partitions = lake.tables[PARTITIONS].values()
    ended = [
        row for row in partitions if row["topic"] == "t" and row["first_poll"] == BEFORE.poll_id
    ]
    assert {(row["end_reason"], row["superseded_poll"]) for row in ended} == {
        ("recreated", again.poll_id)
    }
    begun = [
        row for row in partitions if row["topic"] == "t" and row["first_poll"] == again.poll_id
    ]
    assert len(begun) == len(again.topics["t"]["partitions"])
    assert all(row["prev_leader_epoch"] is None and row["valid_to"] is None for row in begun)
    others = [row["leader_epoch"] for row in partitions if row["topic"] == "u"]
    assert (others, waits(lake)) == ([7, 8], 0), "the history of other topics does not wait"


@pytest.mark.parametrize(
    "other",
    [
        # Whoever shows it never showed the higher epochs: it may be cut off from the controller.
        poll(1, 1, {"t": (0, 0), "u": (7,)}),
        poll(1, 1, {"t": (0, 0), "u": (7,)}, heard(2)),
        poll(1, 1, {"t": (0, 0), "u": (7,)}, heard(0, is_behind=None)),
        poll(1, 1, {"t": (0, 0), "u": (7,)}, heard(0, is_behind=None, error_kind="timeout")),
        poll(1, None, {"t": (0, 0), "u": (7,)}),
        # Some epochs did not fall: no new topic has them.
        poll(1, 0, {"t": (4, 3), "u": (7,)}),
        poll(1, 0, {"t": (0, 4), "u": (7,)}),
        # More than one topic fell.
        poll(1, 0, {"t": (0, 0), "u": (0,)}),
        # An id would have told.
        poll(1, 0, {"t": (0, 0), "u": (7,)}, topic_id="A"),
    ],
)
def test_any_other_fall_waits(other: Answer) -> None:
    lake = taken(BEFORE, other)
    assert (ends(lake), waits(lake)) == ([], 1)
    better = taken(BEFORE, other, poll(2, 2, {"t": (5, 3), "u": (8,)}))
    assert (ends(better), waits(better)) == ([], 0), "discarded"


def test_ids_that_both_answers_tell_decide() -> None:
    known = poll(0, 0, {"t": (5, 3)}, topic_id="A")
    assert waits(taken(known, poll(1, 0, {"t": (0, 0)}, topic_id="A"))) == 1
    assert waits(taken(known, poll(1, 0, {"t": (0, 0)}))) == 1, (
        "another version may hide an id that is there"
    )


def test_one_whose_leaders_never_moved_looks_as_before() -> None:
    lake = taken(poll(0, 0, {"t": (0, 0), "u": (1,)}), poll(1, 0, {"t": (0, 0), "u": (2,)}))
    assert (ends(lake), waits(lake)) == ([], 0)
    assert ends(taken(poll(0, 0, {"t": (0, 3)}), poll(1, 0, {"t": (0, 0)}))) == [RECREATED]


def test_partitions_that_look_as_before_are_of_the_other_topic_too() -> None:
    polls = (
        poll(0, 0, {"t": (0, 3)}),
        poll(1, 0, {"t": (0, 4)}),
        poll(2, 0, {"t": (0, 3)}),
        poll(3, 0, {"t": (0, 0)}),
    )
    for of in (polls[:1] + polls[3:], polls):
        for cuts in ([], [1]):
            lake = taken(*of, cuts=cuts, narrowed=True)
            assert lake.rows == taken(*of).rows
            assert {row["end_reason"] for row in lake.tables[PARTITIONS].values()} == {
                None,
                "recreated",
            }
    # Within one round the last answer is as the first was.
    risen_and_again = (
        poll(0, 0, {"t": (0, 0)}),
        poll(1, 0, {"t": (0, 1)}),
        poll(2, 0, {"t": (0, 0)}),
    )
    assert taken(*risen_and_again, cuts=[1], narrowed=True).rows == taken(*risen_and_again).rows


def test_it_waits_until_a_broker_that_showed_the_higher_epochs_shows_it() -> None:
    again = {"t": (0, 0), "u": (7,)}
    lake = taken(BEFORE, poll(1, 1, again), poll(2, 2, again), poll(3, 0, again))
    assert (ends(lake), waits(lake)) == ([("t", "recreated", answered(3))], 0)
    deleted = taken(
        BEFORE, poll(1, 1, again, heard(0)), *(poll(n, n % 3, {"u": (7,)}) for n in (2, 3))
    )
    assert ends(deleted) == [RECREATED, ("t", "gone", answered(2))]


def test_one_that_was_absent_ended_as_of_then() -> None:
    lake = taken(BEFORE, poll(1, 1, {"u": (7,)}), poll(2, 1, {"t": (0, 0), "u": (7,)}))
    assert ends(lake) == [RECREATED]


def test_an_error_between_tells_nothing() -> None:
    lake = taken(BEFORE, poll(1, 1, {"t": None, "u": (7,)}), poll(2, 1, {"t": (0, 0), "u": (7,)}))
    assert ends(lake) == [("t", "recreated", answered(2))]


def test_a_fall_of_several_that_is_believed_is_of_topics_that_were_made_again() -> None:
    again = {"t": (0, 0), "u": (0,)}
    lake = taken(BEFORE, *(poll(n, n % 3, again) for n in range(1, 8)))
    assert (ends(lake), waits(lake)) == ([RECREATED, ("u", "recreated", answered(1))], 0)


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
        poll(n, broker, shown, *others, batch=batches[n])
        for n, (broker, shown, others, _) in enumerate(answers)
    ]
    cuts = sorted(
        data.draw(st.sets(st.integers(1, max(1, len(polls) - 1)), max_size=4))
        & set(range(1, len(polls)))
    )
    whole, cut = taken(*polls), taken(*polls, cuts=cuts, narrowed=data.draw(st.booleans()))
    assert cut.rows == whole.rows
    assert cut.state == whole.state
    for row in whole.tables[PARTITIONS].values():
        raised = (
            None
            if row["prev_leader_epoch"] is None
            else row["leader_epoch"] - row["prev_leader_epoch"]
        )
        assert raised is None or raised >= 0 or len(polls) > 5, (
            "nothing falls within a life, but what is believed"
        )
