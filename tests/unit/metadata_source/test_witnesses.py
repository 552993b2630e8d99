"""News of a poll, checked with other brokers that speak bytes: whom it believes, who is behind and
since when, and what it remembers of them.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from metadata_source import witnesses as witnesses_module
from metadata_source.attempts import Attempts
from metadata_source.images import Image
from metadata_source.poll import Poll
from metadata_source.protocol.metadata import ClusterMetadata
from metadata_source.witnesses import Known
from tests.support.byte_cluster import METADATA, ByteCluster, made, without_ids
from tests.support.changing import (
    ORDERS,
    PAYMENTS,
    Changing,
    answered_by,
    behind,
    changing,
    in_order,
    next_of,
    of_cluster,
    poller,
    polls,
    seen,
)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Changing]:
    with changing(monkeypatch) as found:
        yield found


def at(number: int) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=number)


# --- whom it asks ---


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


def test_more_topics_than_a_request_should_name_are_all_asked_for(brokers):
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


def test_no_more_than_three_others_are_asked(monkeypatch):
    in_order(monkeypatch)
    with (
        ByteCluster(6, orders=[ORDERS], payments=[PAYMENTS]) as brokers,
        of_cluster(brokers) as each,
    ):
        answered_by(each, 0)
        for number in (0, 2, 3, 4, 5):
            brokers.stop(number)
        brokers.set(brokers.made(orders=[(6, (1, 2))], payments=[PAYMENTS]), 1)
        poll = each.poll()
        assert poll.broker_id == 1
        assert [told.error_kind for told in poll.witnesses] == ["unreachable"] * 3


def test_after_a_doubt_of_the_clock_everything_is_news(brokers):
    with of_cluster(brokers) as each:
        polls(each, 3)
        each.expect(None, (0.0, 2.0**40))
        assert each.poll().error_kind == "clock"
        each.expect(None, None)
        brokers.asked.clear()
        assert [len(told) for _, told in polls(each, 2)] == [1, 0]
    assert [names for _, names in brokers.polled] == [None] * 3


@pytest.mark.parametrize(("interval_ms", "most"), [(None, 1.0), (2_000, 0.5)])
def test_a_witness_has_a_second_at_most_and_a_quarter_of_the_interval(
    monkeypatch, interval_ms, most
):
    given: list[float] = []
    ask = Attempts.ask

    def asked(self, address, deadline, names=None):
        given.append(deadline - witnesses_module.time.monotonic())
        return ask(self, address, deadline, names)

    monkeypatch.setattr(Attempts, "ask", asked)
    with Changing(3) as brokers, of_cluster(brokers, interval_ms=interval_ms) as each:
        each.poll()
        assert len(given) >= 2
        assert 0 < given[1] <= most < given[0]


def test_a_witness_that_gives_no_answer_is_one_and_another_is_asked(brokers):
    with of_cluster(brokers, interval_ms=4_000) as each:
        ((first, _),) = polls(each, 1)
        brokers.hang(first, on=(METADATA,))
        brokers.set(brokers.moved)
        poll = each.poll()
        assert [(told.error_kind, told.is_behind) for told in poll.witnesses] == [
            ("timeout", None),
            (None, False),
        ]
        assert poll.witnesses[0].broker_id == first


def test_a_broker_that_is_left_out_is_no_witness(brokers):
    with of_cluster(brokers) as each:
        ((first, _),) = polls(each, 1)
        second, third = (first + 1) % 3, (first + 2) % 3
        for gone, image, answering, asked in (
            (first, brokers.moved, second, [first, third]),
            (second, brokers.image((7, (2, 1)), (5, (1, 2))), third, [second]),
        ):
            brokers.stop(gone)
            brokers.set(image)
            poll = each.poll()
            assert poll.broker_id == answering
            assert [told.broker_id for told in poll.witnesses] == asked


# --- whom it believes ---


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
        answered_by(each, 0)
        brokers.set(brokers.moved, 0, 1)
        answered_by(each, 1)
        brokers.then(2, lambda: brokers.set(brokers.moved))
        poll = each.poll()
    assert (poll.broker_id, poll.image) == (1, seen(brokers.moved))
    assert behind(poll) == [(2, False)]


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
    now = brokers.image((6, (1, 2)))
    with of_cluster(brokers) as each:
        answered_by(each, 0)
        brokers.set(now, 0, 1)  # broker 2 is cut off
        answered_by(each, 1)
        brokers.asked.clear()
        poll = each.poll()
    assert brokers.polled[0] == (2, None)
    assert brokers.polled[1] == (1, ("orders",))
    assert brokers.polled[-1] == (1, None)
    assert poll.broker_id == 1
    assert poll.image == seen(now)
    assert poll.metadata.topics["topic"].to_pylist() == ["orders", "payments"]
    assert poll.metadata.partitions["leader"].to_pylist() == [1, 1]


def test_an_answer_that_does_not_come_in_the_place_of_an_old_one_fails_the_poll(brokers):
    """An old answer is no answer: the next attempt may have a better one."""
    with poller(brokers.servers(0), interval_ms=4_000) as each:
        answered_by(each, 0)
        brokers.set(brokers.moved, 0, 1)
        answered_by(each, 1)
        brokers.then(3, lambda: brokers.hang(1, on=(METADATA,)))
        poll = each.poll()
    assert (poll.broker_id, poll.image, poll.attempts) == (0, seen(brokers.moved), 2)


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
    """The one whose news these are is believed, and nobody knows of the other."""
    brokers.set(brokers.image((5, (0, 1)), listed=(0, 1)))
    with of_cluster(brokers) as each:
        polls(each, 2)
        old = brokers.places.index(each.answerer)
        new = 1 - old
        brokers.set(brokers.image((5, (1,)), listed=(0, 1)), new)
        poll = each.poll()
        assert (poll.broker_id, behind(poll), each.brokers.behind) == (new, [(old, None)], {})


def put_aside(brokers: Changing, each) -> None:
    """Let broker 2 be put aside: it shows the whole image, and the others the shrunk one."""
    answered_by(each, 0)
    brokers.set(brokers.shrunk, 0, 1)
    answered_by(each, 1)
    poll = each.poll()
    assert poll.broker_id in {0, 1}
    assert behind(poll)[-1] == (2, True)
    assert brokers.places[2] in each.brokers.behind


def test_who_was_put_aside_is_left_out_for_a_while(brokers):
    with of_cluster(brokers) as each:
        put_aside(brokers, each)
        assert each.brokers.is_avoided(brokers.places[2])
        assert 2 not in {broker for broker, _ in polls(each, 4)}


def test_who_was_put_aside_once_is_so_again_where_nobody_else_can_tell(brokers):
    """A third broker told which of two is older, and is gone: what was put aside before with the
    same image is not believed now.
    """
    with of_cluster(brokers) as each:
        put_aside(brokers, each)
        brokers.stop(0)
        while (poll := each.poll()).broker_id != 1:
            each.brokers.avoided.clear()
        each.brokers.avoided.clear()
        poll = each.poll()
    assert (poll.broker_id, poll.image) == (1, seen(brokers.shrunk))
    assert (2, True) in behind(poll)


def test_who_was_put_aside_once_is_believed_after_it_has_followed(brokers):
    """The ISR is whole again, and the broker that shows it first shows what it showed when it was
    behind.
    """
    with of_cluster(brokers) as each:
        put_aside(brokers, each)
        brokers.set(brokers.shrunk)
        each.brokers.avoided.clear()
        answered_by(each, 2)
        assert each.brokers.behind == {}
        answered_by(each, 1)
        brokers.stop(0)
        brokers.set(brokers.whole, 2)
        poll = each.poll()
    assert (poll.broker_id, poll.image) == (2, seen(brokers.whole))
    assert (1, None) in behind(poll)


# --- how long a broker is behind ---


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
        assert again.received_at - first.received_at > timedelta(milliseconds=2)
        each.brokers.avoided.clear()
        (found,) = each.poll().witnesses
    assert (found.broker_id, found.is_behind) == (2, True)
    since_first = (found.sent_at - first.received_at) / timedelta(milliseconds=1)
    assert since_first - 1 <= found.behind_ms <= since_first


def test_the_only_bootstrap_server_is_cut_off(brokers):
    """A process that knows nothing yet."""
    brokers.set(brokers.fenced, 0, 1)
    with poller(brokers.servers(2)) as each:
        poll = each.poll()
    assert poll.broker_id in {0, 1}
    assert poll.image == seen(brokers.fenced)
    assert behind(poll) == [(2, True)]
