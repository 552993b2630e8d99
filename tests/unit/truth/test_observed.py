"""Which polls count, and which are accepted."""

import pytest

from tests.support.small_log import TOPIC, second
from truth.chaos import Entry
from truth.observed import polls_of


def row(n: int, broker_id: int | None = 1, **more) -> dict:
    """A row of bronze: a header."""
    return {
        "poll_id": f"s/{n:012d}", "record": "poll", "topic": None, "outcome": "ok",
        "is_key_frame": n == 0, "sent_at": second(n), "received_at": second(n + 0.01),
        "interval_ms": 1000, "broker_id": broker_id, "digest": str(n).encode(), "witnesses": None,
        "brokers": [{"broker_id": id_} for id_ in (1, 2)], **more,
    }  # fmt: skip


def topic(n: int, epoch: int, leader: int = 1, **more) -> dict:
    partitions = [{"partition": 0, "leader_epoch": epoch, "leader": leader, "isr": [1]}]
    return {
        "poll_id": f"s/{n:012d}", "record": "topic", "topic": "orders", "topic_id": TOPIC,
        "present": True, "partitions": partitions, **more,
    }  # fmt: skip


def heard(**more) -> dict:
    """A witness."""
    return {"broker_id": 2, "error_kind": None, "received_at": second(1.5), **more}


def test_an_answer_was_so_by_the_time_at_which_another_broker_showed_the_same():
    confirmed = row(1, witnesses=[heard(is_behind=False)])
    behind = row(2, witnesses=[heard(is_behind=True, received_at=second(2.5))])
    polls = polls_of([row(0), confirmed, behind], [])
    assert [poll.received_at for poll in polls] == [second(0.01), second(1.5), second(2.01)]


@pytest.mark.parametrize(
    ("digest", "is_behind", "accepted"),
    [(b"0", True, False), (b"0", None, False), (b"0", False, True), (b"1", True, True)],
    ids=["behind", "perhaps", "not behind", "with news"],
)
def test_a_broker_that_is_behind_proves_not_that_nothing_changed(digest, is_behind, accepted):
    told = [heard(is_behind=is_behind)]
    rows = [row(0), topic(0, 3), row(1, 2, digest=digest), row(2, witnesses=told), topic(2, 4)]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, accepted, True]


@pytest.mark.parametrize(
    ("last", "accepted"),
    [
        ((row(2), topic(2, 4)), True),
        ((row(2), topic(2, 5)), False),
        ((row(2), topic(2, 4, leader=2)), False),
        (
            (
                row(2),
                {
                    **topic(2, 3),
                    "partitions": [{"partition": 0, "leader_epoch": 3, "leader": 1, "isr": []}],
                },
            ),
            False,
        ),
        ((row(2, brokers=[{"broker_id": 2}]),), False),
    ],
    ids=["raised", "lost and back", "moved", "shrunk", "not listed"],
)
def test_a_broker_that_lost_something_may_have_been_behind(last, accepted):
    rows = [row(0, 2), topic(0, 3), row(1, 1, digest=b"0"), *last]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, accepted, True]


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ({}, False),
        ({"witnesses": [heard(error_kind="timeout", is_behind=None)]}, False),
        ({"witnesses": [heard(is_behind=False)]}, True),
        ({"digest": b"0"}, True),
        ({"brokers": [{"broker_id": 3}]}, True),
        ({"broker_id": 2}, True),
    ],
    ids=["nobody asked", "the other hung", "confirmed", "nothing new", "alone", "listed"],
)
def test_news_of_a_broker_that_was_not_listed_count_where_another_was_heard(answer, accepted):
    """As silver has it (jobs.rules.silver.acceptance): else events would be wanted within bounds
    that no row has.
    """
    rows = [row(0), topic(0, 3), row(1, **{"broker_id": 3, **answer})]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, accepted]


def test_an_answer_that_is_not_accepted_shows_nobody_to_have_been_behind():
    alone = row(2, 3, brokers=[{"broker_id": 3}, {"broker_id": 2}])  # broker 1 is not listed
    assert [poll.accepted for poll in polls_of([row(0), row(1, digest=b"0"), alone], [])] == [
        True,
        True,
        False,
    ]


def test_an_answer_that_is_not_accepted_is_not_what_the_next_one_says_again():
    rows = [
        row(0),
        topic(0, 3),
        row(1, 3),
        topic(1, 4),
        row(2, 2, digest=b"1"),
        row(3, brokers=[{"broker_id": 1}]),
    ]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, False, True, True]


def test_answers_with_a_lower_epoch_are_not_accepted():
    rows = [
        row(0),
        topic(0, 3),
        row(1),
        topic(1, 5),
        row(2),
        topic(2, 4),
        row(3),
        row(4),
        topic(4, 5),
        row(5, outcome="failed"),
    ]
    assert [each.accepted for each in polls_of(rows, [])] == [True, True, False, False, True]


def test_a_topic_that_is_gone_or_another_lowers_no_epoch():
    other = {"topic_id": "B" * 22}
    rows = [
        row(0),
        topic(0, 3),
        row(1),
        topic(1, 0, present=False),
        row(2),
        topic(2, 0, **other),
        row(3),
        topic(3, 2),
    ]
    assert [each.accepted for each in polls_of(rows, [])] == [True, True, True, False]


def entry(action: str, since: float, until: float, *brokers: int) -> Entry:
    return Entry(action, action, brokers, second(since), second(until), None)


def test_answers_of_brokers_that_were_paused_or_just_started_are_left_out():
    journal = [
        entry("pause", 5, 5.1, 1), entry("resume", 9, 9.1, 1), entry("kill", 5, 5.1, 2),
        entry("start", 12, 15, 2),
    ]  # fmt: skip
    found = polls_of([row(n, broker_id=1) for n in range(30)], journal)
    assert [n for n, each in enumerate(found) if each.left_out == "paused"] == list(range(5, 20))
    found = polls_of([row(n, broker_id=2) for n in range(30)], journal)
    assert [n for n, each in enumerate(found) if each.left_out == "started"] == list(range(12, 26))
    assert all(
        each.left_out is None
        for each in polls_of([row(n, broker_id=3) for n in range(30)], journal)
    )


def test_of_a_broker_that_is_cut_off_answers_that_say_nothing_new_prove_nothing():
    """Unless a later poll shows that it was behind: then they are to be passed over."""
    journal = [entry("isolate", 1.5, 1.6, 1), entry("rejoin", 4.5, 4.6, 1)]
    quiet = [row(n, 1, digest=b"0") for n in range(4)]
    rows = [row(0), topic(0, 3), *quiet[1:], row(4), topic(4, 4)]
    found = polls_of(rows, journal)
    assert [(each.accepted, each.left_out) for each in found] == [
        (True, None), (True, None), (True, "cut_off"), (True, "cut_off"), (True, None),
    ]  # fmt: skip
    lost = polls_of([*rows[:-1], topic(4, 4, leader=2)], journal)
    assert [each.accepted for each in lost] == [True, False, False, False, True]
