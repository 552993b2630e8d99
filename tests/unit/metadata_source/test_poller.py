"""A poll of brokers that speak bytes: whom it believes, what it remembers, how long each gets, and
what is wrong.
"""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Self

import pytest

from metadata_source import attempts as attempts_module
from metadata_source import brokers as brokers_module
from metadata_source import connections
from metadata_source import poller as poller_module
from metadata_source import witnesses as witnesses_module
from metadata_source.errors import PollError
from metadata_source.images import Image
from metadata_source.options import parse
from metadata_source.poll import Poll
from metadata_source.poller import Poller
from metadata_source.protocol.metadata import ClusterMetadata, decode_response
from metadata_source.witnesses import Known
from tests.support.byte_cluster import METADATA, ByteCluster, encoded, made, without_ids

ORDERS, PAYMENTS = (5, (0, 1, 2)), (3, (1, 2, 0))
"""The leader epoch and the ISR of a partition of topic `orders`, and of one of `payments`."""


def poller(
    servers: str = "one:9092,two:9092",
    timeout: str = "250ms",
    interval_ms: int | None = None,
    **more: str,
) -> Poller:
    options = parse({"kafka.bootstrap.servers": servers, "requestTimeout": timeout} | more)
    return Poller(
        options.clusters[0],
        options.topic_filter,
        options.request_timeout_ms,
        interval_ms=interval_ms,
    )


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.example", ".a"])
def test_what_is_no_name_is_unreachable(host):
    result = poller(f"{host}:9092").poll()
    assert result.error_kind == "unreachable"
    assert result.error == f"{host}:9092: not a host's name (a part is empty or too long)"


def test_a_look_up_that_hangs_ends_in_time(monkeypatch):
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(10) and [])
    begin = time.monotonic()
    try:
        result = poller("one:9092").poll()
        assert time.monotonic() - begin < 0.4
    finally:
        answered.set()
    assert result.error_kind == "timeout"
    assert result.error == "one:9092: the look-up of the host's name gave no answer in time"


@pytest.mark.parametrize(
    ("error", "said"),
    [(RuntimeError("two\nlines"), "RuntimeError: two lines"), (MemoryError(), "MemoryError: ")],
)
def test_whatever_an_attempt_stumbles_over_is_a_failed_poll(monkeypatch, error, said):
    def stumble(*_):
        raise error

    monkeypatch.setattr(connections, "Connection", stumble)
    result = poller().poll()
    assert (result.error_kind, result.attempts) == ("protocol", 2)
    assert sorted(result.error.split("; ")) == [f"{host}:9092: {said}" for host in ("one", "two")]


class Changing(ByteCluster):
    """Brokers 0 to 2, whose round is in the order of their ids: topics `orders` and `payments` of a
    partition each.
    """

    def __enter__(self) -> Self:
        super().__enter__()
        self.whole = self.image(ORDERS)
        self.shrunk = self.image((5, (0, 1)))
        self.moved = self.image((6, (1, 2)), (4, (2, 1)))
        self.fenced = self.image((5, (0, 1)), (3, (1, 0)), listed=(0, 1))
        """As the cluster is once broker 2 is fenced, which leads nothing."""
        self.set(self.whole)
        return self

    def image(
        self,
        orders: tuple[int, tuple[int, ...]],
        payments: tuple[int, tuple[int, ...]] = PAYMENTS,
        listed: tuple[int, ...] | None = None,
        **more: list[tuple[int, tuple[int, ...]]],
    ) -> ClusterMetadata:
        return self.made(listed, orders=[orders], payments=[payments], **more)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Changing]:
    monkeypatch.setattr(brokers_module.random, "randint", lambda _, last: last)
    monkeypatch.setattr(witnesses_module, "_SPREAD_S", 0.02)
    with Changing(3) as found:
        yield found


def of_cluster(brokers: Changing, timeout: str = "5s", **more: str) -> Poller:
    return poller(brokers.servers(), timeout, **more)


def seen(image: ClusterMetadata) -> Image:
    """An image as its answer shows it."""
    return Image.of(decode_response(encoded(image, 12, None), 12))


def behind(poll: Poll) -> list[tuple[int | None, bool | None]]:
    """Which other brokers answered, and whether they were behind."""
    return [(each.broker_id, each.is_behind) for each in poll.witnesses]


def polls(each: Poller, count: int) -> list[tuple[int, list[tuple[int, bool]]]]:
    """Who answered, and which others did, with whether they were behind."""
    return [(poll.broker_id, behind(poll)) for poll in (each.poll() for _ in range(count))]


def next_of(each: Poller, brokers: Changing) -> int:
    """The broker that the next poll asks."""
    return brokers.places.index(each.brokers.ring(each.brokers.answered)[0])


def answered_by(each: Poller, broker: int) -> None:
    """Poll until this broker has answered last."""
    while each.poll().broker_id != broker:
        pass


def at(number: int) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=number)


def test_what_did_not_change_is_asked_of_nobody_else(brokers):
    with of_cluster(brokers) as each:
        (first, told), *later = polls(each, 4)
    assert told == [((first + 1) % 3, False)], "nothing was known before"
    assert later == [((first + n) % 3, []) for n in (1, 2, 3)]
    assert len(brokers.polled) == 5
    assert [broker.connections for broker in brokers.brokers] == [1, 1, 1]


def test_what_is_known_stays_known_as_long_as_the_poller_lives(brokers):
    """Also through polls that fail: no second broker is asked for all."""
    with of_cluster(brokers) as each:
        polls(each, 2)
        for number in range(3):
            brokers.stop(number)
        assert each.poll().error_kind == "unreachable"
        for number in range(3):
            brokers.start(number)
        brokers.asked.clear()
        assert [told for _, told in polls(each, 2)] == [[], []]
    assert len(brokers.polled) == 2


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


def test_where_each_broker_names_leaders_of_its_own_nobody_else_is_asked(brokers):
    for number in range(3):
        brokers.set(brokers.image((0, (number,)), (0, (number,))), number)
    with of_cluster(brokers, kind="warpstream") as each:
        (first, told), *later = polls(each, 4)
    assert [told, *later] == [[], *(((first + n) % 3, []) for n in (1, 2, 3))]
    assert len(brokers.polled) == 4


def test_news_are_checked_with_the_broker_that_answered_before_and_about_them_alone(brokers):
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        brokers.asked.clear()
        brokers.set(brokers.image((5, (0, 1)), audit=[(0, (2,))]))
        second = each.poll()
    assert second.broker_id == (first + 1) % 3
    assert behind(second) == [(first, False)]
    assert brokers.polled == [((first + 1) % 3, None), (first, ("orders", "audit"))]


def test_more_topics_than_a_request_should_name_are_all_asked_for(brokers, monkeypatch):
    monkeypatch.setattr(witnesses_module, "_WITNESS_S", 10.0)  # large answers, on a busy machine
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        for count, named in ((200, 200), (401, None)):
            brokers.asked.clear()
            brokers.set(brokers.image(ORDERS, **{f"t-{n}": [(0, (2,))] for n in range(count)}))
            poll = each.poll()
            ((_, whole), (other, names)) = brokers.polled
            assert (whole, other, names and len(names)) == (None, first, named)
            assert behind(poll) == [(first, False)]
            first = poll.broker_id


def test_a_topic_that_is_gone_makes_nobody_look_behind(brokers):
    with_audit = brokers.image(ORDERS, audit=[(0, (2,))])
    brokers.set(with_audit)
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        brokers.set(brokers.whole)
        assert behind(each.poll()) == [(first, False)]
        # Nor is it forgotten who is: a broker that has the topic still.
        brokers.set(with_audit, 2)
        assert (2, True) in [told for _, witnesses in polls(each, 3) for told in witnesses]


def test_news_of_brokers_alone_are_checked_without_a_topic(brokers):
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        brokers.asked.clear()
        fourth = made([*brokers.places, ("127.0.0.1", 1)], orders=[ORDERS], payments=[PAYMENTS])
        brokers.set(replace(brokers.whole, brokers=fourth.brokers))
        assert behind(each.poll()) == [(first, False)]
    assert brokers.polled[1:] == [(first, ())]


def test_an_image_that_spreads_a_moment_late_is_not_behind(brokers):
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        late = (first + 1) % 3
        brokers.set(brokers.moved, *({0, 1, 2} - {first}))
        brokers.then(2, lambda: brokers.set(brokers.moved))
        second = each.poll()
    assert (second.broker_id, second.image) == (late, seen(brokers.moved))
    assert behind(second) == [(first, False)]


def test_an_answer_of_a_moment_too_early_is_not_the_polls(brokers):
    """Without topic ids, leader epochs that fall in all of a topic could be taken for another
    topic.
    """
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        late = (first + 1) % 3
        brokers.set(brokers.moved, *({0, 1, 2} - {late}))
        each._witnesses._known = replace(each._witnesses._known, image=seen(brokers.moved))
        brokers.then(2, lambda: brokers.set(brokers.moved))
        second = each.poll()
    assert (second.broker_id, second.image) == (first, seen(brokers.moved))
    assert behind(second) == [(late, False)]


@pytest.mark.parametrize(
    ("now", "partitions", "epochs"), [("moved", 2, 2), ("shrunk", 1, 0), ("fenced", 2, 0)]
)
def test_an_old_image_is_put_aside_and_said_to_be_behind(brokers, now, partitions, epochs):
    """Leader epochs tell which of two is older, or who is listed, or a third."""
    now, found = getattr(brokers, now), set()
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.set(now, 0, 1)  # broker 2 is cut off
        for _ in range(8):
            each.brokers.avoided.clear()
            poll = each.poll()
            if poll.image != seen(now):
                assert (poll.broker_id, poll.image) == (2, seen(brokers.whole)), (
                    "nobody else was asked since"
                )
            found |= {
                (told.broker_id, told.partitions_behind, told.epochs_behind)
                for told in poll.witnesses
                if told.is_behind
            }
    assert found == {(2, partitions, epochs)}


def test_an_answer_in_the_place_of_an_old_one_is_of_all_topics(brokers):
    """The broker that showed the old one to be old was asked about what differs alone."""
    with of_cluster(brokers) as each:
        answered_by(each, 0)
        polls(each, 1)
        brokers.set(brokers.moved, 1, 0)  # broker 2, which is next, is cut off
        each._witnesses._known = replace(each._witnesses._known, image=seen(brokers.moved))
        brokers.asked.clear()
        poll = each.poll()
    assert brokers.polled[0] == (2, None)
    assert poll.broker_id != 2
    assert poll.image == seen(brokers.moved)
    assert poll.metadata.topics["topic"].to_pylist() == ["orders", "payments"]


def test_no_more_than_three_others_are_asked(monkeypatch):
    monkeypatch.setattr(brokers_module.random, "randint", lambda _, last: last)
    monkeypatch.setattr(witnesses_module, "_SPREAD_S", 0.02)
    with (
        ByteCluster(6, orders=[ORDERS], payments=[PAYMENTS]) as brokers,
        poller(brokers.servers(), "5s") as each,
    ):
        answered_by(each, 0)
        for number in (0, 2, 3, 4, 5):
            brokers.stop(number)
        brokers.set(brokers.made(orders=[(6, (1, 2))], payments=[PAYMENTS]), 1)
        poll = each.poll()
        assert poll.broker_id == 1
        assert [told.error_kind for told in poll.witnesses] == ["unreachable"] * 3


def test_two_against_one_that_answered_a_moment_before_them(brokers):
    """ISRs that shrink one after the other tell no age: a broker that follows is not behind."""

    def of(*orders: tuple[int, tuple[int, ...]]) -> ClusterMetadata:
        return brokers.made(orders=list(orders), payments=[PAYMENTS])

    brokers.set(of((5, (0, 1, 2)), (3, (0, 1, 2))))
    with of_cluster(brokers) as each:
        polls(each, 3)
        first, now = next_of(each, brokers), of((5, (0, 1)), (3, (0, 1)))
        brokers.set(now)
        brokers.set(of((5, (0, 1)), (3, (0, 1, 2))), first)
        brokers.then(3, lambda: brokers.set(now))
        poll = each.poll()
    assert poll.image == seen(now)
    assert behind(poll) == [(first, False)]


def known_cases() -> list[tuple[ClusterMetadata, ClusterMetadata, int]]:
    def of(orders: list, listed: tuple[int, ...] | None = None, **more: list) -> ClusterMetadata:
        return made(places, listed, orders=orders, **more)

    places = [(f"broker-{n}", 9092) for n in range(3)]
    whole, moved = [(5, (0, 1, 2)), (3, (0, 1, 2))], [(6, (1, 2)), (4, (1, 2))]
    return [
        (of(whole), of([(6, (1, 2)), (4, (1,))]), 5),
        (of(moved), of([(6, (1, 2)), (4, (1,))]), 5),
        (of(whole), of(moved, audit=[(0, (2,))]), 2),
        (of(moved, (0, 1)), of([(6, (1, 2)), (4, (1,))]), 2),
        (of(moved, (0, 1)), of([(7, (2,)), (4, (1, 2))], (0, 1)), 5),
    ]


@pytest.mark.parametrize(
    ("older", "newer", "since"),
    known_cases(),
    ids=[
        "both are other",
        "as known",
        "lacks what was known",
        "lacks a broker",
        "brokers are later",
    ],
)
def test_a_broker_is_behind_since_what_it_lacks_was_seen(older, newer, since):
    """The poll before showed the moved image at 2. An answer that differs from that may be a later
    one.
    """
    known = Known(Image.of(known_cases()[1][0]), at(2))
    answers = (
        Poll(image=Image.of(older), received_at=at(4)),
        Poll(image=Image.of(newer), received_at=at(5)),
    )
    assert known.since(*answers) == at(since)


def test_how_long_a_broker_is_behind_counts_from_the_first_poll_that_showed_what_it_lacks(brokers):
    """Not from the last one that showed the same again."""
    with of_cluster(brokers) as each:
        answered_by(each, 2)
        brokers.set(brokers.moved, 0, 1)
        first = each.poll()
        assert (first.broker_id, behind(first)) == (0, [(2, True)])
        each.brokers.avoided.clear()
        again = each.poll()
        assert (again.broker_id, behind(again)) == (1, [])
        time.sleep(0.2)
        each.brokers.avoided.clear()
        (found,) = each.poll().witnesses
    assert (found.broker_id, found.is_behind) == (2, True)
    since_first = (found.sent_at - first.received_at).total_seconds() * 1000
    assert abs(found.behind_ms - since_first) <= 1


def test_without_ids_an_old_image_of_a_topic_that_was_made_again_is_put_aside(brokers):
    """It shows the higher epochs; but nobody lists its broker, which answered last, and two brokers
    show the same.
    """
    again = without_ids(brokers.image((0, (0, 1)), (0, (1, 0)), listed=(0, 1)))
    brokers.set(without_ids(brokers.whole))
    found = set()
    with of_cluster(brokers) as each:
        answered_by(each, 2)
        brokers.set(again, 0, 1)  # broker 2 is cut off
        for _ in range(6):
            each.brokers.avoided.clear()
            poll = each.poll()
            if poll.image != seen(again):
                assert poll.broker_id == 2, "nobody else was asked since"
            found |= {told.broker_id for told in poll.witnesses if told.is_behind}
    assert (poll.image, found) == (seen(again), {2})


def test_the_broker_that_said_nothing_had_changed_is_found_to_be_behind(brokers):
    with of_cluster(brokers) as each:
        answered_by(each, 2)
        brokers.set(brokers.shrunk, 0, 1)
        poll = each.poll()
    assert poll.image == seen(brokers.shrunk)
    assert [told for told in behind(poll) if told[0] == 2] == [(2, True)]


def test_two_brokers_that_cannot_be_told_apart_by_age(brokers):
    """The one whose news these are is believed, and nobody knows of the other; unless it was behind
    with the same before.
    """
    brokers.set(brokers.image((5, (0, 1)), listed=(0, 1)))
    with of_cluster(brokers) as each:
        polls(each, 2)
        old = brokers.places.index(each.brokers.answered)
        new = 1 - old
        brokers.set(brokers.image((5, (1,)), listed=(0, 1)), new)
        first = each.poll()
        assert (first.broker_id, behind(first), each.brokers.behind) == (new, [(old, None)], {})
        each.brokers.behind[brokers.places[old]] = seen(brokers.brokers[old].image)
        poll = each.poll()
    assert (poll.broker_id, behind(poll)) == (new, [(old, True)])


def test_who_was_put_aside_once_is_so_again_where_nobody_else_can_tell(brokers):
    """A third broker told which of two is older, and is gone: what was put aside before with the
    same image is not believed now.
    """
    with of_cluster(brokers) as each:
        answered_by(each, 1)
        brokers.set(brokers.shrunk, 0, 1)  # broker 2, which is next, is cut off
        each._witnesses._known = replace(each._witnesses._known, image=seen(brokers.shrunk))
        poll = each.poll()
        assert (poll.broker_id in {0, 1}, behind(poll)[-1]) == (True, (2, True))
        brokers.stop(0)
        each.brokers.avoided.clear()
        each.brokers.answered = brokers.places[1]
        poll = each.poll()
    assert (poll.broker_id, poll.image) == (1, seen(brokers.shrunk))
    assert (2, True) in behind(poll)


def test_a_broker_that_is_listed_no_more_is_asked_whether_it_still_answers(brokers):
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.set(brokers.fenced, 0, 1)
        polls(each, 2)
        assert each.brokers.former == {brokers.places[2]: 2}
        each.brokers.avoided.clear()
        assert behind(each.poll()) == [(2, True)]
        brokers.set(brokers.image((4, (0, 1, 2)), (4, (1, 0, 2))), 2)
        each.brokers.avoided.clear()
        assert behind(each.poll()) == [(2, None)], "older in one, newer in the other"
        brokers.stop(2)
        each.brokers.avoided.clear()
        assert [(told.broker_id, told.error_kind) for told in each.poll().witnesses] == [
            (2, "unreachable")
        ]
        brokers.start(2)
        brokers.set(brokers.whole)
        each.brokers.avoided.clear()
        polls(each, 2)
        assert each.brokers.former == {}


def test_a_broker_that_is_listed_no_more_and_answers_no_more_is_forgotten(brokers):
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.set(brokers.fenced, 0, 1)
        polls(each, 2)
        brokers.stop(2)
        seen = 0
        while each.brokers.former and seen < 10:
            for avoided in [brokers.places[2]]:
                each.brokers.avoided[avoided] = replace(
                    each.brokers.avoided.get(avoided, brokers_module.Avoided(0.0, 0.0)), until=0.0
                )
            seen += [told.error_kind for told in each.poll().witnesses] == ["unreachable"]
    assert (each.brokers.former, seen) == ({}, 7), "after waits of 1, 2, 4, 8, 16, 32 and 60 s"


def test_a_broker_that_comes_back_while_it_is_asked_has_no_old_image(brokers):
    """It is in ISRs again, which raises no epoch; whoever answered a moment earlier did not list it
    yet.
    """
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.set(brokers.fenced, 0, 1)
        polls(each, 2)
        assert each.brokers.former == {brokers.places[2]: 2}
        each.brokers.avoided.clear()
        brokers.set(brokers.whole, 2)
        brokers.then(2, lambda: brokers.set(brokers.whole))
        assert behind(each.poll()) == [(2, False)]


def test_whether_a_broker_comes_back_is_unknown_where_nobody_says(brokers):
    def hang() -> None:
        for number in (0, 1):
            brokers.brokers[number].hangs_on = frozenset({METADATA})

    with of_cluster(brokers, interval_ms=1_000) as each:
        polls(each, 3)
        brokers.set(brokers.fenced, 0, 1)
        polls(each, 2)
        each.brokers.avoided.clear()
        brokers.then(2, hang)
        assert behind(each.poll()) == [(2, None)]


def test_an_address_that_is_another_clusters_by_now_is_no_witness(brokers):
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.set(replace(brokers.whole, cluster_id="another"), 2)
        brokers.set(brokers.fenced, 0, 1)
        told = [
            witness for _ in range(4) for witness in each.poll().witnesses if witness.broker_id == 2
        ]
    assert {(witness.error_kind, witness.is_behind) for witness in told} == {
        ("wrong_cluster", None)
    }
    assert each.brokers.former == {}


def test_the_only_bootstrap_server_is_cut_off(brokers):
    """A process that knows nothing yet."""
    brokers.set(brokers.fenced, 0, 1)
    with poller(brokers.servers(2), "5s") as each:
        poll = each.poll()
    assert poll.broker_id in {0, 1}
    assert poll.image == seen(brokers.fenced)
    assert behind(poll) == [(2, True)]


def test_an_isolated_broker_is_looked_at_again_though_its_answer_stays_the_same(
    brokers, monkeypatch
):
    """Nothing changes any more, and polls ask the others alone: its image gets older, which silver
    has to know.
    """
    monkeypatch.setattr(witnesses_module, "BEHIND_S", 0.2)
    found = []
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.set(brokers.fenced, 0, 1)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            found += [
                told.behind_ms
                for told in each.poll().witnesses
                if told.is_behind and told.broker_id == 2
            ]
            time.sleep(0.02)
    assert 3 <= len(found) <= 7
    assert found == sorted(found)
    assert found[-1] > 600


# --- how long each gets ---


def test_a_broker_that_hangs_gets_a_quarter_of_the_interval_where_another_can_be_asked(brokers):
    with of_cluster(brokers, interval_ms=1_200) as each:
        polls(each, 3)
        hung = next_of(each, brokers)
        brokers.brokers[hung].hangs_on = frozenset({METADATA})
        begin = time.monotonic()
        poll = each.poll()
        took = time.monotonic() - begin
        assert (poll.error_kind, poll.attempts) == (None, 2)
        assert poll.broker_id != hung
        assert 0.3 <= took < 0.55
        begin = time.monotonic()
        assert hung not in {broker for broker, _ in polls(each, 3)}
        assert time.monotonic() - begin < 0.3, "it is left out for a while"


def test_no_broker_gets_longer_than_half_of_the_interval(brokers):
    """The first poll of a process has nobody to fall back on."""
    brokers.brokers[0].hangs_on = frozenset({METADATA})
    with poller(brokers.servers(0), "5s", interval_ms=1_200) as each:
        brokers.then(1, lambda: setattr(brokers.brokers[0], "hangs_on", frozenset()))
        begin = time.monotonic()
        poll = each.poll()
    assert (poll.error_kind, poll.attempts) == (None, 2)
    assert 0.6 <= time.monotonic() - begin < 1.2


def test_one_broker_gets_half_of_the_time_that_is_left(brokers):
    brokers.brokers[0].hangs_on = frozenset({METADATA})
    with poller(brokers.servers(0), "1s") as each:
        brokers.then(1, lambda: setattr(brokers.brokers[0], "hangs_on", frozenset()))
        begin = time.monotonic()
        poll = each.poll()
    assert (poll.error_kind, poll.attempts) == (None, 2)
    assert 0.5 <= time.monotonic() - begin < 0.95


def test_the_end_of_a_polls_time_says_less_than_the_failure_before(monkeypatch):
    """Both brokers are starting. Asked again one shows an old image, and the other, which shows it,
    hangs then.
    """
    monkeypatch.setattr(witnesses_module, "_SPREAD_S", 0.02)
    with (
        ByteCluster(2, orders=[ORDERS], payments=[PAYMENTS]) as brokers,
        poller(brokers.servers(), "700ms") as each,
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


def test_an_answer_that_lists_no_broker_says_nothing_of_the_cluster(brokers):
    """As that of a broker that is starting: another one is asked."""
    nothing = replace(brokers.whole, brokers=brokers.whole.brokers.slice(0, 0))
    brokers.set(nothing)
    with of_cluster(brokers, timeout="2s") as each:
        poll = each.poll()
        assert (poll.error_kind, poll.metadata) == ("no_brokers", None)
        brokers.set(brokers.whole, 1)
        brokers.asked.clear()
        assert each.poll().broker_id == 1
    assert {broker for broker, _ in brokers.polled} <= {0, 1, 2}


def test_a_connection_that_was_closed_meanwhile_is_made_again(brokers):
    """Brokers close those over which nothing came for ten minutes: a round of many brokers takes
    longer.
    """
    with of_cluster(brokers) as each:
        polls(each, 3)
        upcoming = next_of(each, brokers)
        for number in range(3):
            brokers.hang_up(number)
        time.sleep(0.05)
        poll = each.poll()
        assert (poll.broker_id, poll.attempts, poll.error_kind) == (upcoming, 1, None)
        assert brokers.brokers[upcoming].connections == 2
        assert not each.brokers.is_avoided(brokers.places[upcoming])


def test_a_broker_that_answers_again_is_believed_to_be_well(brokers):
    """Its next failure is as short as a first one."""
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.stop(1)
        while brokers.places[1] not in each.brokers.avoided:
            each.poll()
        brokers.start(1)
        each.brokers.avoided[brokers.places[1]] = brokers_module.Avoided(0.0, 32.0)
        answered_by(each, 1)
        assert brokers.places[1] not in each.brokers.avoided


def test_a_broker_that_was_upgraded_is_asked_in_its_new_version(brokers):
    for broker in brokers.brokers:
        broker.versions = (0, 9)
    with of_cluster(brokers) as each:
        assert {each.poll().api_version for _ in range(3)} == {9}
        for number, broker in enumerate(brokers.brokers):
            brokers.stop(number)
            broker.versions = (0, 12)
            brokers.start(number)
        assert {each.poll().api_version for _ in range(3)} == {12}


def test_before_version_4_no_topic_is_named_which_could_create_it(brokers):
    for last, names in ((3, None), (4, ("orders", "missing"))):
        for number, broker in enumerate(brokers.brokers):
            brokers.hang_up(number)
            broker.versions = (0, last)
        brokers.asked.clear()
        with of_cluster(brokers, topics="orders,missing") as each:
            poll = each.poll()
        assert (poll.api_version, brokers.polled[0][1]) == (last, names)
        assert poll.metadata.topics["topic"].to_pylist()[:1] == ["orders"]
        assert "payments" not in poll.metadata.topics["topic"].to_pylist()


def test_a_broker_that_throttles_is_left_alone(brokers):
    with of_cluster(brokers) as each:
        polls(each, 3)
        asked_last = next_of(each, brokers)
        brokers.brokers[asked_last].throttle_ms = 60_000
        assert each.poll().broker_id == asked_last
        assert asked_last not in {broker for broker, _ in polls(each, 4)}


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


@pytest.mark.parametrize("told", [None, ""])
def test_a_server_without_a_cluster_id_is_told_apart_from_another_cluster(told):
    """Nothing could be recorded: history is kept by alias and cluster id."""

    whole = made([("one", 9092)], orders=[(5, (0,))], payments=[(3, (0,))])

    def good(answered: str | None, *, needs_id: bool = True, **given: str) -> Poll:
        options = parse({"kafka.bootstrap.servers": "one:9092"} | given)
        poll = Poll(
            metadata=replace(whole, cluster_id=answered), broker="one:9092", cluster_id=answered
        )
        return attempts_module._good(
            options.clusters[0], options.topic_filter, poll, needs_id=needs_id
        )

    with pytest.raises(PollError) as raised:
        good(told)
    assert (raised.value.kind, raised.value.problem) == (
        "no_cluster_id",
        f"one:9092: {attempts_module.NO_ID}",
    )
    assert good(told, needs_id=False).cluster_id is None
    assert good(told, clusterId="mine").cluster_id == "mine"
    assert good("other").cluster_id == "other"
    with pytest.raises(
        PollError, match=r"wrong_cluster: one:9092: belongs to cluster other, clusterId is mine"
    ):
        good("other", clusterId="mine")


@pytest.mark.parametrize(
    ("versions", "pinned", "said"),
    [
        ({}, None, "one:9092: this server does not name Metadata among its requests"),
        ({18: (0, 3)}, 9, "one:9092: this server does not name Metadata among its requests"),
        ({3: (14, 15)}, None, "one:9092: has Metadata v14 to v15, none of v0 to v13"),
        ({3: (0, 8)}, 9, "one:9092: has Metadata v0 to v8, metadataVersion pins v9"),
    ],
)
def test_versions_that_cannot_be_asked_in(versions, pinned, said):
    with pytest.raises(PollError) as raised:
        attempts_module._version(
            SimpleNamespace(address=("one", 9092), api_versions=versions), pinned
        )
    assert (raised.value.kind, raised.value.problem) == ("unsupported_version", said)


def test_a_broker_that_was_put_aside_is_left_out_for_a_while(brokers):
    with of_cluster(brokers) as each:
        answered_by(each, 1)
        brokers.set(brokers.moved, 0, 1)  # broker 2, which is next, is cut off
        each._witnesses._known = replace(each._witnesses._known, image=seen(brokers.moved))
        assert each.poll().broker_id != 2
        assert each.brokers.is_avoided(brokers.places[2])


def test_a_witness_that_hangs_takes_a_second_at_most(brokers):
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        brokers.brokers[first].hangs_on = frozenset({METADATA})
        brokers.set(brokers.moved)
        begin = time.monotonic()
        poll = each.poll()
        assert 1 <= time.monotonic() - begin < 2.5
    assert [told.error_kind for told in poll.witnesses] == ["timeout", None]


def test_a_poll_without_an_answer_says_when_it_was_sent(brokers):
    for broker in brokers.brokers:
        broker.hangs_on = frozenset({METADATA})
    with of_cluster(brokers, timeout="2s") as each:
        poll = each.poll()
    assert (poll.error_kind, poll.received_at, poll.metadata) == ("timeout", None, None)
    assert abs((datetime.now(UTC) - poll.sent_at).total_seconds()) < 5


def test_a_poll_says_when_it_was_sent_though_what_followed_was_refused(brokers):
    brokers.brokers[0].hangs_on = frozenset({METADATA})
    with poller(brokers.servers(0), "1s") as each, ThreadPoolExecutor(1) as beside:
        beside.submit(lambda: (time.sleep(0.3), brokers.stop(0)))
        poll = each.poll()
    assert (poll.error_kind, poll.received_at) == ("unreachable", None)
    assert abs((datetime.now(UTC) - poll.sent_at).total_seconds()) < 5
