"""A poll of brokers that speak bytes: how long each gets, what is wrong, and what is forgotten."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from metadata_source import poller as poller_module
from metadata_source.attempts import Attempts
from metadata_source.errors import PollError
from metadata_source.questions import reassignments
from tests.support.byte_cluster import METADATA, ByteCluster
from tests.support.changing import (
    ORDERS,
    PAYMENTS,
    Changing,
    changing,
    in_order,
    next_of,
    of_cluster,
    poller,
    polls,
    seen,
)
from tests.support.waiting import eventually

REASSIGNMENTS = "ListPartitionReassignmentsRequest"


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Changing]:
    with changing(monkeypatch) as found:
        yield found


def test_nobody_is_asked_while_the_clock_is_in_doubt(monkeypatch, brokers):
    """What the other polls of then show would have times that no later one comes up to."""
    with of_cluster(brokers) as each:
        polls(each, 2)
        brokers.asked.clear()
        doubts = iter(["set ahead", None, "set ahead", None, None])
        monkeypatch.setattr(poller_module.CLOCK, "doubt", lambda _: next(doubts))
        before, meanwhile, later = (each.poll() for _ in range(3))
    for poll in (before, meanwhile):
        assert (poll.error_kind, poll.error, poll.received_at, poll.metadata) == (
            "clock",
            "set ahead",
            None,
            None,
        )
    assert (later.error_kind, later.image, len(later.witnesses)) == (None, seen(brokers.whole), 1)


def test_facts_that_come_later_hold_from_the_next_poll_on(brokers, monkeypatch):
    with of_cluster(brokers) as each:
        assert each.poll().error_kind is None
        each.expect("another", None)
        assert each.poll().error_kind == "wrong_cluster"
        each.expect("the-cluster", (0.0, time.time() + 60))
        assert each.poll().error_kind == "clock"
        each.expect("the-cluster", None)
        assert each.poll().error_kind is None
        each.expect(None, None)
        assert each.poll().error_kind is None
    with of_cluster(brokers, clusterId="the-cluster") as each:
        each.expect("another", None)
        assert each.poll().error_kind is None, "the id that was given counts for more"


# --- how long each gets ---


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that each attempt was given, s."""
    times: list[float] = []
    ask = Attempts.ask

    def asked(self, address, deadline, names=None):
        times.append(deadline - time.monotonic())
        return ask(self, address, deadline, names)

    monkeypatch.setattr(Attempts, "ask", asked)
    return times


@pytest.mark.parametrize(
    ("interval_ms", "first", "later"),
    [
        # Of 60 s: a half, and a half, as nobody says when the next poll is due.
        (None, 30, 30),
        # Half of the interval: the next poll goes to another broker. A quarter once there is a
        # connection to fall back on.
        (40_000, 20, 10),
        (400_000, 30, 30),
    ],
)
def test_a_broker_gets_a_part_of_the_time(brokers, given, interval_ms, first, later):
    with of_cluster(brokers, interval_ms=interval_ms) as each:
        polls(each, 2)
        assert len(given) == 3, "the first answer has a witness"
        assert given[0] == pytest.approx(first, abs=3)
        assert given[2] == pytest.approx(later, abs=3)


def test_a_broker_gets_half_a_second_however_short_the_interval_is(brokers, given):
    with of_cluster(brokers, interval_ms=100) as each:
        each.poll()
    assert 0.1 < given[0] <= 0.5


def test_who_answered_last_has_nobody_to_fall_back_on(given, monkeypatch):
    in_order(monkeypatch)
    with (
        ByteCluster(1, orders=[(5, (0,))], payments=[(3, (0,))]) as alone,
        of_cluster(alone, interval_ms=40_000) as each,
    ):
        polls(each, 2)
    assert given == [pytest.approx(20, abs=3)] * 2


def test_a_broker_that_hangs_leaves_time_for_another_and_is_left_out_for_a_while(brokers):
    with of_cluster(brokers, interval_ms=4_000) as each:
        polls(each, 3)
        hung = next_of(each, brokers)
        brokers.hang(hung, on=(METADATA,))
        poll = each.poll()
        assert (poll.error_kind, poll.attempts) == (None, 2)
        assert poll.broker_id != hung
        brokers.asked.clear()
        polls(each, 3)
    assert hung not in {broker for broker, _ in brokers.polled}


def test_a_broker_that_hangs_once_is_asked_again_by_the_same_poll(brokers):
    """The first poll of a process has nobody to fall back on."""
    brokers.hang(0, on=(METADATA,))
    with poller(brokers.servers(0), interval_ms=2_000) as each:
        brokers.then(1, lambda: brokers.hang(0, on=()))
        poll = each.poll()
    assert (poll.error_kind, poll.attempts) == (None, 2)
    assert brokers.brokers[0].connections == 2, "the first one was of no use"


def test_the_end_of_a_polls_time_says_less_than_the_failure_before(monkeypatch):
    """Both brokers are starting. Asked again one shows an old image, and the other, which shows it,
    hangs then.
    """
    in_order(monkeypatch)
    with (
        ByteCluster(2, orders=[ORDERS], payments=[PAYMENTS]) as brokers,
        poller(brokers.servers(), "2s") as each,
    ):
        polls(each, 2)
        older, newer = (
            brokers.made(orders=[(epoch, (0, 1))], payments=[PAYMENTS]) for epoch in (4, 6)
        )
        brokers.set(replace(older, brokers=older.brokers.slice(0, 0)))
        brokers.then(2, lambda: brokers.set(older))
        brokers.then(3, lambda: (brokers.set(newer), each.brokers.avoided.clear()))
        hangs = frozenset({METADATA})
        brokers.then(5, lambda: [setattr(broker, "hangs_on", hangs) for broker in brokers.brokers])
        poll = each.poll()
        assert brokers.polled[-1][1] is None
        assert len(brokers.polled) == 3 + 6
    assert (poll.error_kind, poll.attempts) == ("no_brokers", 3)
    assert poll.error.count("its broker list is empty, as while it starts") == 2
    assert (poll.metadata, poll.image) == (None, None), "the old answer is none"


# --- what a failed poll says ---


def test_what_got_farther_than_the_connection_says_more(brokers):
    """The last of these, in the order of the first tries."""
    brokers.brokers[0].odd = b"\xff"
    brokers.brokers[1].versions = (14, 15)
    brokers.stop(2)
    with of_cluster(brokers) as each:
        poll = each.poll()
    said = zip(brokers.servers().split(","), poll.error.split("; "), strict=True)
    assert all(line.startswith(f"{server}: ") for server, line in said)
    assert (poll.error_kind, poll.attempts) == ("unsupported_version", 5)
    brokers.stop(0)
    brokers.stop(1)
    with of_cluster(brokers) as each:
        assert each.poll().error_kind == "unreachable"


def test_a_failed_poll_forgets_whom_it_asked(brokers):
    with of_cluster(brokers) as each:
        polls(each, 2)
        for number in range(3):
            brokers.stop(number)
        result = each.poll()
    assert result.error_kind == "unreachable"
    assert {error.partition(": ")[0] for error in result.error.split("; ")} == set(
        brokers.servers().split(",")
    )
    assert (each.brokers.answered, each.brokers.learnt) == (None, {})


def test_a_poll_without_an_answer_says_when_it_was_sent(brokers):
    brokers.hang(0, 1, 2, on=(METADATA,))
    with of_cluster(brokers, timeout="1s") as each:
        poll = each.poll()
    assert (poll.error_kind, poll.received_at, poll.metadata) == ("timeout", None, None)
    assert abs((datetime.now(UTC) - poll.sent_at).total_seconds()) < 60


def test_a_poll_says_when_it_was_sent_though_what_followed_was_refused(brokers):
    brokers.hang(0, on=(METADATA,))

    def stop() -> None:
        eventually(lambda: brokers.polled, "the request")
        brokers.stop(0)

    with poller(brokers.servers(0)) as each, ThreadPoolExecutor(1) as beside:
        stopped = beside.submit(stop)
        poll = each.poll()
        stopped.result()
    assert (poll.error_kind, poll.received_at) == ("unreachable", None)
    assert abs((datetime.now(UTC) - poll.sent_at).total_seconds()) < 60


# --- connections ---


def test_other_questions_go_over_the_connections_of_polls(brokers):
    with of_cluster(brokers) as each:
        with pytest.raises(PollError, match="unreachable: no poll was answered yet"):
            each.ask(reassignments(), time.monotonic() + 30)
        answered = each.poll().broker_id
        assert each.answerer == brokers.places[answered]
        polls(each, 2)
        last, deadline = brokers.places.index(each.answerer), time.monotonic() + 60
        brokers.asked.clear()
        each.ask(reassignments(), deadline)
        for number in (0, 1):
            each.ask_broker(brokers.places[number], reassignments(), deadline)
        assert [(asked.broker, asked.request) for asked in brokers.asked] == [
            (number, REASSIGNMENTS) for number in (last, 0, 1)
        ]
        assert [broker.connections for broker in brokers.brokers] == [1, 1, 1]
        for number in range(3):
            brokers.stop(number)
        assert each.poll().error_kind == "unreachable"
        assert each.answerer == brokers.places[last], "the last good answer's"


def test_what_asks_beside_has_connections_of_its_own(brokers):
    with of_cluster(brokers) as each:
        polls(each, 3)
        asking = each.asking(1_000)
        asking.requester.ask(each.answerer, reassignments(), time.monotonic() + 30)
        asking.close()
        assert sorted(broker.connections for broker in brokers.brokers) == [1, 1, 2]


def test_its_end_closes_all_connections(brokers):
    with of_cluster(brokers) as each:
        polls(each, 3)
        assert [len(broker.open) for broker in brokers.brokers] == [1, 1, 1]
    eventually(lambda: not any(broker.open for broker in brokers.brokers), "the end")
