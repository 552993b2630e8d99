"""The memory of silver: polls in their order, times of rows, and what is settled."""

import json
from datetime import datetime, timedelta

import pytest

from jobs.rules.silver.state import Answered, Behind, Observation, Poll, State
from tests.support.histories import START


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def poll(sent: float, came: float, poll_id: str = "s/1") -> Poll:
    return Poll(poll_id, at(came), at(sent), 10_000)


@pytest.mark.parametrize(
    ("before", "others", "sent", "came"),
    [
        (None, [], 5, 6),
        (poll(1, 2), [], 5, 6),
        (poll(7, 8), [], 7, 8),
        (None, [poll(7, 8)], 5, 8),
        (poll(1, 2), [poll(7, 9), poll(3, 4)], 5, 9),
    ],
    ids=["the first", "in order", "a clock set back", "set back after another", "after the last"],
)
def test_times_of_answers_do_not_fall(
    before: Poll | None, others: list[Poll], sent: float, came: float
) -> None:
    assert poll(5, 6).following(before, *others) == poll(sent, came)


def test_an_answer_beside_a_poll_keeps_its_digest() -> None:
    answered = Answered("s/1", at(6), at(5), 10_000, b"d")
    assert answered.following(poll(7, 8)) == Answered("s/1", at(8), at(7), 10_000, b"d")


def test_a_row_begins_after_the_poll_before_was_sent() -> None:
    found = Observation(poll(5, 6, "s/2"), poll(1, 2))
    assert found.began | {"last_poll": None} == found.began
    names = "first_poll", "valid_from", "prev_poll", "prev_sent_at", "interval_ms", "from_offset"
    assert tuple(found.began[name] for name in names) == ("s/2", at(6), "s/1", at(1), 10_000, None)
    first = Observation(poll(5, 6), None).began
    assert (first["prev_poll"], first["prev_sent_at"]) == (None, None)


def test_a_row_ends_between_the_poll_that_saw_it_last_and_the_one_that_did_not() -> None:
    assert Observation(poll(5, 6, "s/2"), poll(1, 2)).ended == {
        "last_poll": "s/1",
        "last_seen_at": at(2),
        "last_seen_sent_at": at(1),
        "superseded_poll": "s/2",
        "valid_to": at(6),
        "to_offset": None,
    }
    with pytest.raises(ValueError, match="nothing can have ended by the first poll s/1"):
        _ = Observation(poll(5, 6), None).ended


def test_of_a_state_that_may_be_older_than_the_poll_before_that_poll_says_nothing() -> None:
    found = Observation(poll(5, 6, "s/2"), poll(1, 2), is_since_before=False)
    assert (found.began["prev_poll"], found.began["prev_sent_at"]) == ("s/1", None)
    assert (found.ended["last_poll"], found.ended["last_seen_sent_at"]) == ("s/1", None)


def test_a_record_of_the_log_has_its_offset() -> None:
    found = Observation(poll(5, 5, "s/1/log/00000000000000000042"), poll(1, 2))
    assert (found.began["from_offset"], found.ended["to_offset"]) == (42, 42)


def test_how_far_a_broker_is_behind_at_most() -> None:
    assert Behind(at(2), 1, 5).beside(Behind(at(1), 3, 4)) == Behind(at(2), 3, 5)
    assert Behind(at(2), 3, 4).beside(Behind(at(1), 1, 5)) == Behind(at(2), 3, 5)


def test_while_a_topic_is_missing_the_last_answer_is_not_settled() -> None:
    before, last = poll(1, 2), poll(5, 6, "s/2")
    assert State(last=last, before=before).settled == last
    assert State(last=last, before=before, missing={"t": "gone"}).settled == before
    assert State().settled is None


def test_memory_holds_no_more_than_what_is_not_as_in_the_beginning() -> None:
    assert State().to_json() == {}
    assert State(late_polls=2).to_json() == {"late_polls": 2}
    state = State(
        last=poll(1, 2),
        missing={"t": "gone"},
        ended_ids={"t": ("A", "B")},
        enriched={"quorum": Answered("s/1", at(6), at(5), 10_000, b"d")},
        behind={2: Behind(at(1), 1, 1)},
        current={2: at(1)},
        highest={1: 25},
        waiting=("s/2",),
    )
    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state
