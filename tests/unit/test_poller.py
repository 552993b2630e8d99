"""Whom a poll asks, in which order and how often, what it remembers, and names that cannot be looked up."""

import socket
import threading
import time
from itertools import chain, pairwise, repeat

import pyarrow as pa
import pytest

from metadata_source import poller as poller_module
from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.poller import Poll, Poller
from metadata_source.protocol.metadata import BROKERS, PARTITIONS, TOPICS, ClusterMetadata

BOOTSTRAP = [("one", 9092), ("two", 9092)]
LEARNT = tuple((f"broker-{n}", 9092) for n in range(5))
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


def test_whatever_an_attempt_stumbles_over_is_a_failed_poll(monkeypatch):
    def stumble(*_):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(poller_module, "Connection", stumble)
    result = poller().poll()
    assert (result.error_kind, result.attempts) == ("protocol", 2)
    assert sorted(result.error.split("; ")) == [f"{host}:9092: RuntimeError: two lines" for host in ("one", "two")]


def test_who_answered_and_one_that_was_learnt_come_before_the_bootstrap_servers(pauses):
    each = poller()
    for answered in (LEARNT[0], None) * 10:
        each._memory.answered, each._memory.learnt = answered, LEARNT
        order = asked(each, "unreachable")
        rounds = [order[:7], order[7:14], order[14:]]
        assert [set(addresses) for addresses in rounds] == [{*LEARNT, *BOOTSTRAP}] * 3
        for addresses in rounds:
            before = min(addresses.index(server) for server in BOOTSTRAP)
            assert answered in {addresses[0], None}
            assert before <= (1 if answered is None else 2)
            assert set(addresses[before : before + 2]) == set(BOOTSTRAP)


@pytest.mark.parametrize("kind", FINAL)
def test_what_is_final_is_so_only_at_a_bootstrap_server(pauses, kind):
    each = poller()
    assert len(asked(each, kind)) == 1
    each._memory.answered, each._memory.learnt = LEARNT[0], LEARNT
    first, *others = asked(each, kind, "unreachable")
    assert (first, set(others), len(others)) == (LEARNT[0], set(BOOTSTRAP), 6)
    assert (each._memory.answered, each._memory.learnt) == (None, ())


def test_an_error_of_the_broker_sends_back_to_the_bootstrap_servers(pauses):
    """REBOOTSTRAP_REQUIRED is one."""
    each = poller("one:9092")
    each._memory.answered, each._memory.learnt = LEARNT[0], LEARNT
    assert asked(each, "broker_error", "unreachable") == [LEARNT[0], *BOOTSTRAP[:1] * 3]


def test_options_are_not_tried_again(pauses):
    each = poller()
    each._memory.answered = LEARNT[0]
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
    each._memory.answered, each._memory.learnt = ("127.0.0.1", 2), (("127.0.0.1", 2), ("127.0.0.1", 3))
    result = each.poll()
    assert result.error_kind == "unreachable"
    assert {error.partition(": ")[0] for error in result.error.split("; ")} == {f"127.0.0.1:{n}" for n in (1, 2, 3)}
    assert (each._memory.answered, each._memory.learnt) == (None, ())


def test_who_answered_is_remembered_by_an_address_that_the_cluster_knows_or_where_no_other_is_reached():
    answer = ClusterMetadata(
        cluster_id="id",
        controller_id=1,
        throttle_time_ms=0,
        error_code=0,
        cluster_authorized_operations=None,
        brokers=pa.Table.from_pylist(
            [{"broker_id": n, "host": host, "port": port} for n, (host, port) in enumerate(LEARNT)], BROKERS
        ),
        topics=TOPICS.empty_table(),
        partitions=PARTITIONS.empty_table(),
    )
    each, service = poller(), BOOTSTRAP[0]
    for address, failures, remembered in (
        (LEARNT[1], (), LEARNT[1]),
        (service, (), None),
        (service, (BOOTSTRAP[1],), None),
        (service, (LEARNT[2],), service),
    ):
        each._remember(address, Poll(metadata=answer), {failed: PollError("unreachable", "") for failed in failures})
        assert (each._memory.answered, set(each._memory.learnt)) == (remembered, set(LEARNT))
