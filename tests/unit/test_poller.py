"""Whom a poll asks, in which order and how often, what it remembers, and names that cannot be looked up."""

import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise, repeat
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from metadata_source import connections
from metadata_source import poller as poller_module
from metadata_source.connections import Connections
from metadata_source.errors import PollError
from metadata_source.images import Image, with_topics
from metadata_source.options import parse
from metadata_source.poller import Poll, Poller
from metadata_source.protocol.metadata import ClusterMetadata
from metadata_source.schedule import Turn
from metadata_source.witnesses import Known
from tests.support.made_answers import PLACES, made

BOOTSTRAP = [("one", 9092), ("two", 9092)]
LEARNT = PLACES
FINAL = ("authentication", "authorization", "too_large", "wrong_cluster")


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    """A worker that never polled anything before."""
    monkeypatch.setattr(poller_module, "_memories", {})


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """How long it slept, which takes no time here."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def poller(servers: str = "one:9092,two:9092", timeout: str = "250ms", **more: str) -> Poller:
    options = parse({"kafka.bootstrap.servers": servers, "requestTimeout": timeout} | more)
    return Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms)


def asked(each: Poller, *kinds: str) -> list[tuple[str, int]]:
    """Return whom a poll asks, one after the other, when its attempts end in these kinds, the last one for ever."""
    failures: dict[tuple[str, int], PollError] = {}
    addresses = []
    ends = chain(kinds, repeat(kinds[-1]))
    for address in each._addresses(failures, time.monotonic() + 1_000):
        addresses.append(address)
        failures[address] = PollError(next(ends), "")
    return addresses


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
    ("error", "said"), [(RuntimeError("two\nlines"), "RuntimeError: two lines"), (MemoryError(), "MemoryError: ")]
)
def test_whatever_an_attempt_stumbles_over_is_a_failed_poll(monkeypatch, error, said):
    def stumble(*_):
        raise error

    monkeypatch.setattr(connections, "Connection", stumble)
    result = poller().poll()
    assert (result.error_kind, result.attempts) == ("protocol", 2)
    assert sorted(result.error.split("; ")) == [f"{host}:9092: {said}" for host in ("one", "two")]


def test_nobody_is_asked_while_the_clock_is_in_doubt(monkeypatch, brokers):
    """What the other polls of then show would have times that no later one comes up to."""
    each = of_cluster()
    polls(each, 2)
    brokers.asked.clear()
    doubts = iter(["set ahead", None, "set ahead", None, None])
    monkeypatch.setattr(poller_module.CLOCK, "doubt", lambda _: next(doubts))
    before, meanwhile, later = (each.poll(n) for n in (2, 3, 4))
    for poll in (before, meanwhile):
        assert (poll.error_kind, poll.error, poll.received_at, poll.metadata) == ("clock", "set ahead", None, None)
    assert (later.error_kind, later.image, len(later.witnesses)) == (None, Image.of(WHOLE), 1)


def learnt(each: Poller, answered: tuple[str, int] | None = None) -> None:
    each._memory.answered, each._memory.learnt = answered, {address: n for n, address in enumerate(LEARNT)}


def test_polls_go_round_the_brokers(pauses):
    each = poller()
    for answered, following in (*pairwise(LEARNT), (LEARNT[-1], LEARNT[0]), (None, LEARNT[0])):
        learnt(each, answered)
        order = asked(each, "unreachable")
        rounds = [order[:7], order[7:14], order[14:]]
        assert [set(addresses) for addresses in rounds] == [{*LEARNT, *BOOTSTRAP}] * 3
        for addresses in rounds:
            assert addresses[0] == following
            assert set(addresses[1:3]) == set(BOOTSTRAP)


def test_bootstrap_servers_come_first_once_no_other_address_can_be_reached(pauses):
    each = poller()
    learnt(each, LEARNT[0])
    each._memory.avoided = dict.fromkeys(LEARNT, poller_module._Avoided(time.monotonic() + 60, 60.0))
    assert set(asked(each, "unreachable")[:2]) == set(BOOTSTRAP)
    each._memory.avoided[LEARNT[3]] = poller_module._Avoided(time.monotonic() - 1, 1.0)
    assert asked(each, "unreachable")[0] == LEARNT[3]


@pytest.mark.parametrize("kind", FINAL)
def test_what_is_final_is_so_only_at_a_bootstrap_server(pauses, kind):
    each = poller()
    assert len(asked(each, kind)) == 1
    learnt(each, LEARNT[4])
    first, *others = asked(each, kind, "unreachable")
    assert (first, set(others), len(others)) == (LEARNT[0], set(BOOTSTRAP), 6)
    assert (each._memory.answered, each._memory.learnt) == (None, {})


def test_an_error_of_the_broker_sends_back_to_the_bootstrap_servers(pauses):
    """REBOOTSTRAP_REQUIRED is one."""
    each = poller("one:9092")
    learnt(each, LEARNT[4])
    assert asked(each, "broker_error", "unreachable") == [LEARNT[0], *BOOTSTRAP[:1] * 3]


def test_options_are_not_tried_again(pauses):
    each = poller()
    learnt(each)
    assert (asked(each, "options"), pauses) == ([LEARNT[0]], [])


def test_pauses_grow_to_a_second_and_differ(pauses):
    for _ in range(50):
        assert poller_module._back_off(1, float("inf"))
        assert poller_module._back_off(2, float("inf"))
        assert poller_module._back_off(9, float("inf"))
    for middle, slept in ((0.1, pauses[::3]), (0.2, pauses[1::3]), (1.0, pauses[2::3])):
        assert 0.8 * middle <= min(slept) < max(slept) <= 1.2 * middle
        assert len(set(slept)) > 40
    assert not poller_module._back_off(1, time.monotonic() + 0.05)
    assert len(pauses) == 150


def test_a_pause_comes_before_each_further_round_and_only_if_somebody_is_left_to_ask(pauses):
    assert len(asked(poller(), "unreachable")) == 6
    assert len(pauses) == 2
    assert all(later > earlier for earlier, later in pairwise(pauses))
    pauses.clear()
    assert len(asked(poller(), "tls")) == 2
    assert pauses == []
    assert len(asked(poller(), "tls", "timeout", "tls")) == 3
    assert len(pauses) == 1


def test_a_failed_poll_forgets_whom_it_asked():
    each = poller("127.0.0.1:1")
    each._memory.answered, each._memory.learnt = ("127.0.0.1", 2), {("127.0.0.1", 2): 2, ("127.0.0.1", 3): 3}
    result = each.poll()
    assert result.error_kind == "unreachable"
    assert {error.partition(": ")[0] for error in result.error.split("; ")} == {f"127.0.0.1:{n}" for n in (1, 2, 3)}
    assert (each._memory.answered, each._memory.learnt) == (None, {})


class Brokers:
    """Brokers 0 to 2 at `LEARNT`, each with an image of its own, in the place of connections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.images = dict.fromkeys(range(3), made(orders=[(5, (0, 1, 2)), (3, (0, 1, 2))]))
        self.asked: list[tuple[int, tuple[str, ...] | None]] = []
        self.down: set[int] = set()
        monkeypatch.setattr(Connections, "get", lambda _, address, __: self._connect(address))
        monkeypatch.setattr(Poller, "_ask", lambda _, address, __, names: self._answer(address, names))

    def set(self, image: ClusterMetadata, *brokers: int) -> None:
        self.images |= dict.fromkeys(brokers or self.images, image)

    def _connect(self, address: tuple[str, int]) -> tuple[str, int]:
        if LEARNT.index(address) in self.down:
            raise PollError("unreachable", f"{address}: down")
        return address

    def _answer(self, address: tuple[str, int], names: list[str] | None) -> Poll:
        number = LEARNT.index(address)
        self.asked.append((number, None if names is None else tuple(names)))
        metadata = self.images[number]
        if names is not None:
            lacking = sorted(set(names) - set(metadata.topics["topic"].to_pylist()))
            metadata = with_topics(metadata, pc.is_in(metadata.topics["topic"], pa.array(names, pa.string())))
            # UNKNOWN_TOPIC_OR_PARTITION: an answer has an entry of each topic that is asked for by name.
            unknown = [{"topic": name, "error_code": 3, "is_internal": False, "partition_count": 0} for name in lacking]
            unknown_topics = pa.Table.from_pylist(unknown, metadata.topics.schema)
            metadata = replace(metadata, topics=pa.concat_tables([metadata.topics, unknown_topics]))
        told = {"metadata": metadata, "cluster_id": metadata.cluster_id, "broker": f"{address[0]}:9092"}
        return Poll(broker_id=number, api_version=12, **told)


WHOLE = made(orders=[(5, (0, 1, 2)), (3, (0, 1, 2))])
SHRUNK = made(orders=[(5, (0, 1)), (3, (0, 1, 2))])
MOVED = made(orders=[(6, (1, 2)), (4, (1, 2))])
FENCED = made((0, 1), orders=[(5, (0, 1)), (3, (0, 1))])
"""As the cluster is once broker 2 is fenced, which leads nothing."""


@pytest.fixture
def brokers(monkeypatch, pauses) -> Brokers:
    monkeypatch.setattr(poller_module.random, "randint", lambda _, last: last)
    found = Brokers(monkeypatch)
    found.set(WHOLE)
    return found


def turn(number: int) -> Turn:
    """The turns of a cluster that is polled with every poll."""
    return Turn(number, 0, number, number - 1)


def polls(each: Poller, count: int) -> list[tuple[int, list[tuple[int, bool]]]]:
    """Who answered, and which others did, with whether they were behind."""
    answered = [each.poll(turn(n)) for n in range(count)]
    return [(poll.broker_id, [(told.broker_id, told.is_behind) for told in poll.witnesses]) for poll in answered]


def next_of(each: Poller) -> int:
    """The broker that the next poll asks."""
    return LEARNT.index(each._ring(each._memory.answered)[0])


def at(number: int) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=number)


def of_cluster() -> Poller:
    return poller(",".join(f"{host}:{port}" for host, port in LEARNT[:3]))


def test_what_did_not_change_is_asked_of_nobody_else(brokers):
    each = of_cluster()
    (first, told), *later = polls(each, 4)
    assert told == [((first + 1) % 3, False)], "nothing was known before"
    assert later == [((first + n) % 3, []) for n in (1, 2, 3)]
    assert len(brokers.asked) == 5


def test_where_each_broker_names_leaders_of_its_own_nobody_else_is_asked(brokers):
    each = poller(",".join(f"{host}:{port}" for host, port in LEARNT[:3]), kind="warpstream")
    for number in range(3):
        brokers.set(made(orders=[(0, (number,)), (0, (number,))]), number)
    (first, told), *later = polls(each, 4)
    assert [told, *later] == [[], *(((first + n) % 3, []) for n in (1, 2, 3))]
    assert len(brokers.asked) == 4


def test_news_are_checked_with_the_broker_that_answered_before_and_about_them_alone(brokers):
    each = of_cluster()
    ((first, _),) = polls(each, 1)
    brokers.asked.clear()
    brokers.set(made(orders=[(5, (0, 1)), (3, (0, 1, 2))], audit=[(0, (2,))]))
    second = each.poll()
    assert second.broker_id == (first + 1) % 3
    assert [(told.broker_id, told.is_behind) for told in second.witnesses] == [(first, False)]
    assert brokers.asked == [((first + 1) % 3, None), (first, ("orders", "audit"))]


def test_a_topic_that_is_gone_makes_nobody_look_behind(brokers):
    with_audit = made(orders=[(5, (0, 1, 2)), (3, (0, 1, 2))], audit=[(0, (2,))])
    brokers.set(with_audit)
    each = of_cluster()
    ((first, _),) = polls(each, 1)
    brokers.set(WHOLE)
    poll = each.poll()
    assert [(told.broker_id, told.is_behind) for told in poll.witnesses] == [(first, False)]
    # Nor is it forgotten who is: a broker that has the topic still.
    brokers.set(with_audit, 2)
    assert (2, True) in [told for _, witnesses in polls(each, 3) for told in witnesses]


def test_news_of_brokers_alone_are_checked_without_a_topic(brokers):
    each = of_cluster()
    ((first, _),) = polls(each, 1)
    brokers.asked.clear()
    brokers.set(replace(WHOLE, brokers=made((0, 1, 2, 3)).brokers))
    second = each.poll()
    assert [(told.broker_id, told.is_behind) for told in second.witnesses] == [(first, False)]
    assert brokers.asked[1:] == [(first, ())]


def test_an_image_that_spreads_a_moment_late_is_not_behind(brokers, monkeypatch):
    each = of_cluster()
    ((first, _),) = polls(each, 1)
    late = (first + 1) % 3
    brokers.set(MOVED, *({0, 1, 2} - {first}))
    monkeypatch.setattr(time, "sleep", lambda _: brokers.set(MOVED))
    second = each.poll()
    assert (second.broker_id, second.image) == (late, Image.of(MOVED))
    assert [(told.broker_id, told.is_behind) for told in second.witnesses] == [(first, False)]


def test_an_answer_of_a_moment_too_early_is_not_the_polls(brokers, monkeypatch):
    """Without topic ids, leader epochs that fall in all of a topic could be taken for another topic."""
    each = of_cluster()
    ((first, _),) = polls(each, 1)
    late = (first + 1) % 3
    brokers.set(MOVED, *({0, 1, 2} - {late}))
    each._memory.known = replace(each._memory.known, image=Image.of(MOVED))
    monkeypatch.setattr(time, "sleep", lambda _: brokers.set(MOVED))
    second = each.poll()
    assert (second.broker_id, second.image) == (first, Image.of(MOVED))
    assert [(told.broker_id, told.is_behind) for told in second.witnesses] == [(late, False)]


@pytest.mark.parametrize(
    ("now", "partitions", "epochs"), [(MOVED, 2, 2), (SHRUNK, 1, 0), (FENCED, 2, 0)], ids=["moved", "shrunk", "fenced"]
)
def test_an_old_image_is_put_aside_and_said_to_be_behind(brokers, now, partitions, epochs):
    """Leader epochs tell which of two is older, or who is listed, or a third."""
    each = of_cluster()
    polls(each, 3)
    brokers.set(now, 0, 1)  # broker 2 is cut off
    found = set()
    for _ in range(8):
        each._memory.avoided.clear()
        poll = each.poll()
        if poll.image != Image.of(now):
            assert (poll.broker_id, poll.image) == (2, Image.of(WHOLE)), "nobody else was asked since"
        found |= {
            (told.broker_id, told.partitions_behind, told.epochs_behind) for told in poll.witnesses if told.is_behind
        }
    assert found == {(2, partitions, epochs)}


def test_two_against_one_that_answered_a_moment_before_them(brokers, monkeypatch):
    """ISRs that shrink one after the other tell no age: a broker that follows is not behind."""
    each = of_cluster()
    polls(each, 3)
    first, now = next_of(each), made(orders=[(5, (0, 1)), (3, (0, 1))])
    brokers.set(now)
    brokers.set(SHRUNK, first)
    monkeypatch.setattr(time, "sleep", lambda _: brokers.set(now))
    poll = each.poll()
    assert poll.image == Image.of(now)
    assert [(told.broker_id, told.is_behind) for told in poll.witnesses] == [(first, False)]


@pytest.mark.parametrize(
    ("older", "newer", "since"),
    [
        (WHOLE, {"orders": [(6, (1, 2)), (4, (1,))]}, 5),
        (MOVED, {"orders": [(6, (1, 2)), (4, (1,))]}, 5),
        (WHOLE, {"orders": [(6, (1, 2)), (4, (1, 2))], "audit": [(0, (2,))]}, 2),
        (made((0, 1), orders=[(6, (1, 2)), (4, (1, 2))]), {"orders": [(6, (1, 2)), (4, (1,))]}, 2),
        (made((0, 1), orders=[(6, (1, 2)), (4, (1, 2))]), {"listed": (0, 1), "orders": [(7, (2,)), (4, (1, 2))]}, 5),
    ],
    ids=["both are other", "as known", "lacks what was known", "lacks a broker", "brokers are later"],
)
def test_a_broker_is_behind_since_what_it_lacks_was_seen(older, newer, since):
    """The poll before showed MOVED at 2. An answer that differs from that may be a later one."""
    known = Known(Image.of(MOVED), at(2))
    answers = (Poll(image=Image.of(older), received_at=at(4)), Poll(image=Image.of(made(**newer)), received_at=at(5)))
    assert known.since(*answers) == at(since)


def test_without_ids_an_old_image_of_a_topic_that_was_made_again_is_put_aside(brokers):
    """It shows the higher epochs; but nobody lists its broker, which answered last, and two brokers show the same."""

    def without_ids(image: ClusterMetadata) -> ClusterMetadata:
        return replace(image, topics=image.topics.set_column(1, "topic_id", pa.nulls(len(image.topics), pa.string())))

    each, again = of_cluster(), without_ids(made((0, 1), orders=[(0, (0, 1)), (0, (0, 1))]))
    brokers.set(without_ids(WHOLE))
    while each.poll().broker_id != 2:
        pass
    brokers.set(again, 0, 1)  # broker 2 is cut off
    found = set()
    for _ in range(6):
        each._memory.avoided.clear()
        poll = each.poll()
        if poll.image != Image.of(again):
            assert poll.broker_id == 2, "nobody else was asked since"
        found |= {told.broker_id for told in poll.witnesses if told.is_behind}
    assert (poll.image, found) == (Image.of(again), {2})


def test_the_broker_that_said_nothing_had_changed_is_found_to_be_behind(brokers):
    each = of_cluster()
    while each.poll().broker_id != 2:
        pass
    brokers.set(SHRUNK, 0, 1)
    poll = each.poll()
    assert poll.image == Image.of(SHRUNK)
    assert [(told.broker_id, told.is_behind) for told in poll.witnesses if told.broker_id == 2] == [(2, True)]


def test_two_brokers_that_cannot_be_told_apart_by_age(brokers):
    """The one whose news these are is believed, unless it was behind with the same before."""
    each = of_cluster()
    brokers.set(made((0, 1), orders=[(5, (0, 1))]))
    polls(each, 2)
    first = each._memory.answered[0]
    old, new = (0, 1) if first == LEARNT[0][0] else (1, 0)
    brokers.set(made((0, 1), orders=[(5, (1,))]), new)
    assert (each.poll().broker_id, each._memory.behind) == (new, {})
    each._memory.behind[LEARNT[old]] = Image.of(brokers.images[old])
    poll = each.poll()
    assert (poll.broker_id, [(told.broker_id, told.is_behind) for told in poll.witnesses]) == (new, [(old, True)])


def test_a_broker_that_is_listed_no_more_is_asked_whether_it_still_answers(brokers):
    each = of_cluster()
    polls(each, 3)
    brokers.set(FENCED, 0, 1)
    each.poll()
    each.poll()
    assert each._memory.former == {LEARNT[2]: 2}
    each._memory.avoided.clear()
    poll = each.poll()
    assert [(told.broker_id, told.is_behind) for told in poll.witnesses] == [(2, True)]
    brokers.set(made(orders=[(4, (0, 1, 2)), (4, (0, 1, 2))]), 2)
    each._memory.avoided.clear()
    assert [told.is_behind for told in each.poll().witnesses] == [None], "older in one, newer in the other"
    brokers.down.add(2)
    each._memory.avoided.clear()
    poll = each.poll()
    assert [(told.broker_id, told.error_kind) for told in poll.witnesses] == [(2, "unreachable")]
    brokers.down.clear()
    brokers.set(WHOLE)
    polls(each, 2)
    assert each._memory.former == {}


def test_a_broker_that_comes_back_while_it_is_asked_has_no_old_image(brokers, monkeypatch):
    """It is in ISRs again, which raises no epoch; whoever answered a moment earlier did not list it yet."""
    each = of_cluster()
    polls(each, 3)
    brokers.set(FENCED, 0, 1)
    polls(each, 2)
    assert each._memory.former == {LEARNT[2]: 2}
    each._memory.avoided.clear()
    brokers.set(made(orders=[(5, (0, 1, 2)), (3, (0, 1, 2))]), 2)
    monkeypatch.setattr(time, "sleep", lambda _: brokers.set(WHOLE))
    assert [(told.broker_id, told.is_behind) for told in each.poll().witnesses] == [(2, False)]


def test_whether_a_broker_comes_back_is_unknown_where_nobody_says(brokers, monkeypatch):
    each = of_cluster()
    polls(each, 3)
    brokers.set(FENCED, 0, 1)
    polls(each, 2)
    each._memory.avoided.clear()
    monkeypatch.setattr(time, "sleep", lambda _: brokers.down.update({0, 1}))
    assert [(told.broker_id, told.is_behind) for told in each.poll().witnesses] == [(2, None)]


def test_an_address_that_is_another_clusters_by_now_is_no_witness(brokers):
    each = of_cluster()
    polls(each, 3)
    brokers.set(replace(WHOLE, cluster_id="another"), 2)
    brokers.set(FENCED, 0, 1)
    told = [witness for _ in range(4) for witness in each.poll().witnesses if witness.broker_id == 2]
    assert {(witness.error_kind, witness.is_behind) for witness in told} == {("wrong_cluster", None)}
    assert each._memory.former == {}


def test_a_broker_that_hangs_is_left_out_for_longer_than_one_that_is_down():
    down, hung = PollError("unreachable", ""), PollError("timeout", "")
    waits = [avoided := poller_module._Avoided.after(None, down)]
    waits += [avoided := poller_module._Avoided.after(avoided, each) for each in (down, hung, hung, hung, hung)]
    assert [each.wait for each in waits] == [1, 2, 10, 20, 40, 60]


def test_the_only_bootstrap_server_is_cut_off(brokers):
    """A process that knows nothing yet."""
    brokers.set(FENCED, 0, 1)
    poll = poller(f"{LEARNT[2][0]}:9092").poll(turn(0))
    assert poll.broker_id in {0, 1}
    assert poll.image == Image.of(FENCED)
    assert [(told.broker_id, told.is_behind) for told in poll.witnesses] == [(2, True)]


def test_who_polled_last_decides_whether_an_answer_is_known(brokers):
    """Spark may poll one batch in one process, and the next in another."""
    of_cluster().poll(turn(0))
    assert of_cluster().poll(turn(1)).witnesses == ()
    assert len(of_cluster().poll(turn(3)).witnesses) == 1, "another process polled in between"


@pytest.mark.parametrize("told", [None, ""])
def test_a_server_without_a_cluster_id_is_told_apart_from_another_cluster(told):
    """Nothing could be recorded: history is kept by alias and cluster id."""

    def good(answered: str | None, *, needs_id: bool = True, **given: str) -> Poll:
        options = parse({"kafka.bootstrap.servers": "one:9092"} | given)
        poll = Poll(metadata=replace(WHOLE, cluster_id=answered), broker="one:9092", cluster_id=answered)
        return poller_module._good(options.clusters[0], options.topic_filter, poll, needs_id=needs_id)

    with pytest.raises(PollError) as raised:
        good(told)
    assert (raised.value.kind, raised.value.problem) == ("no_cluster_id", f"one:9092: {poller_module.NO_ID}")
    assert good(told, needs_id=False).cluster_id is None
    assert good(told, clusterId="mine").cluster_id == "mine"
    assert good("other").cluster_id == "other"
    with pytest.raises(PollError, match=r"wrong_cluster: one:9092: belongs to cluster other, clusterId is mine"):
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
        poller_module._version(SimpleNamespace(address=("one", 9092), api_versions=versions), pinned)
    assert (raised.value.kind, raised.value.problem) == ("unsupported_version", said)
