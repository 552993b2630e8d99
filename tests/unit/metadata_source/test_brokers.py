"""Whom a poll asks, in which order and how often, and for how long nobody asks a broker."""

import time
from itertools import chain, pairwise, repeat

import pytest

from metadata_source import brokers as brokers_module
from metadata_source.brokers import Avoided, Brokers, back_off
from metadata_source.errors import PollError
from metadata_source.images import Image
from metadata_source.poll import Poll
from tests.support.byte_cluster import made

BOOTSTRAP = (("one", 9092), ("two", 9092))
LEARNT = tuple((f"broker-{n}", 9092) for n in range(5))
FINAL = ("authentication", "authorization", "too_large", "wrong_cluster")


@pytest.fixture
def pauses(monkeypatch) -> list[float]:
    """How long it slept, which takes no time here."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


def brokers(
    answered: tuple[str, int] | None = None, *, learnt: bool = True, servers: int = 2
) -> Brokers:
    found = Brokers(BOOTSTRAP[:servers])
    learn(found, answered, learnt=learnt)
    return found


def learn(found: Brokers, answered: tuple[str, int] | None = None, *, learnt: bool = True) -> None:
    found.answered, found.learnt = (
        answered,
        {address: n for n, address in enumerate(LEARNT)} if learnt else {},
    )


def asked(found: Brokers, *kinds: str) -> list[tuple[str, int]]:
    """Return whom a poll asks, one after the other, when its attempts end in these kinds, the last
    one for ever.
    """
    failures: dict[tuple[str, int], PollError] = {}
    addresses = []
    ends = chain(kinds, repeat(kinds[-1]))
    for address in found.to_ask(failures, time.monotonic() + 1_000):
        addresses.append(address)
        failures[address] = PollError(next(ends), "")
    return addresses


def test_polls_go_round_the_brokers(pauses):
    found = brokers()
    for answered, following in (*pairwise(LEARNT), (LEARNT[-1], LEARNT[0]), (None, LEARNT[0])):
        learn(found, answered)
        order = asked(found, "unreachable")
        rounds = [order[:7], order[7:14], order[14:]]
        assert [set(addresses) for addresses in rounds] == [{*LEARNT, *BOOTSTRAP}] * 3
        for addresses in rounds:
            assert addresses[0] == following
            assert set(addresses[1:3]) == set(BOOTSTRAP)


def test_bootstrap_servers_come_first_once_no_other_address_can_be_reached(pauses):
    found = brokers(LEARNT[0])
    found.avoided = dict.fromkeys(LEARNT, Avoided(time.monotonic() + 60, 60.0))
    assert set(asked(found, "unreachable")[:2]) == set(BOOTSTRAP)
    found.avoided[LEARNT[3]] = Avoided(time.monotonic() - 1, 1.0)
    assert asked(found, "unreachable")[0] == LEARNT[3]


def test_who_wants_to_be_left_alone_comes_last(pauses):
    found = brokers(LEARNT[0])
    for address in (LEARNT[1], BOOTSTRAP[0]):
        found.throttle(address, 60_000)
    found.throttle(LEARNT[2], 0)
    order = asked(found, "tls")
    assert order[0] == BOOTSTRAP[1]
    assert set(order[-2:]) == {LEARNT[1], BOOTSTRAP[0]}


@pytest.mark.parametrize("kind", FINAL)
def test_what_is_final_is_so_only_at_a_bootstrap_server(pauses, kind):
    assert len(asked(brokers(learnt=False), kind)) == 1
    found = brokers(LEARNT[4])
    first, *others = asked(found, kind, "unreachable")
    assert (first, set(others), len(others)) == (LEARNT[0], set(BOOTSTRAP), 6)
    assert (found.answered, found.learnt) == (None, {})


def test_an_error_of_the_broker_sends_back_to_the_bootstrap_servers(pauses):
    """REBOOTSTRAP_REQUIRED is one."""
    found = brokers(LEARNT[4], servers=1)
    assert asked(found, "broker_error", "unreachable") == [LEARNT[0], *BOOTSTRAP[:1] * 3]


def test_options_are_not_tried_again(pauses):
    assert (asked(brokers(), "options"), pauses) == ([LEARNT[0]], [])


def test_pauses_grow_to_a_second_and_differ(pauses):
    for _ in range(50):
        assert back_off(1, float("inf"))
        assert back_off(2, float("inf"))
        assert back_off(9, float("inf"))
    for middle, slept in ((0.1, pauses[::3]), (0.2, pauses[1::3]), (1.0, pauses[2::3])):
        assert 0.8 * middle <= min(slept) < max(slept) <= 1.2 * middle
        assert len(set(slept)) > 40
    assert not back_off(1, time.monotonic() + 0.05)
    assert len(pauses) == 150


def test_a_pause_comes_before_each_further_round_and_only_if_somebody_is_left_to_ask(pauses):
    assert len(asked(brokers(learnt=False), "unreachable")) == 6
    assert len(pauses) == 2
    assert all(later > earlier for earlier, later in pairwise(pauses))
    pauses.clear()
    assert len(asked(brokers(learnt=False), "tls")) == 2
    assert pauses == []
    assert len(asked(brokers(learnt=False), "tls", "timeout", "tls")) == 3
    assert len(pauses) == 1


def test_a_broker_that_hangs_is_left_out_for_longer_than_one_that_is_down():
    found, down, hung = Brokers(BOOTSTRAP), PollError("unreachable", ""), PollError("timeout", "")
    waits = []
    for each in (down, down, hung, hung, hung, hung):
        found.failed(LEARNT[0], each)
        waits.append(found.avoided[LEARNT[0]].wait)
    assert waits == [1, 2, 10, 20, 40, 60]
    assert found.is_avoided(LEARNT[0])
    assert not found.is_avoided(LEARNT[1])


def test_brokers_that_are_new_come_somewhere_into_the_round(monkeypatch):
    """Processes that know the same brokers do not all ask the same one."""
    found, places = Brokers(BOOTSTRAP), list(LEARNT)
    monkeypatch.setattr(brokers_module.random, "randint", lambda first, _: first)
    found.learn(LEARNT[0], Poll(metadata=made(places, (0, 1, 2))))
    assert found.learnt == {LEARNT[2]: 2, LEARNT[1]: 1, LEARNT[0]: 0}
    found.learn(LEARNT[0], Poll(metadata=made(places, (1, 2, 3, 4))))
    assert list(found.learnt) == [LEARNT[4], LEARNT[3], LEARNT[2], LEARNT[1]]
    assert found.former == {LEARNT[0]: 0}
    assert found.id_of(LEARNT[0]) == 0
    assert found.ring(LEARNT[3]) == [LEARNT[2], LEARNT[1], LEARNT[4], LEARNT[3]]


def test_nothing_is_remembered_of_addresses_that_nobody_has_any_more():
    """A memory lives as long as its process, and brokers of a cloud get other addresses each
    day.
    """
    found, image = Brokers(BOOTSTRAP), Image.of(made(list(LEARNT)))
    gone = ("gone", 1)
    for address in (gone, LEARNT[0], BOOTSTRAP[0]):
        found.avoid(address, 60)
        found.throttle(address, 60_000)
        found.behind[address] = image
    found.learn(LEARNT[0], Poll(metadata=made(list(LEARNT))))
    kept = {LEARNT[0], BOOTSTRAP[0]}
    assert (set(found.avoided), set(found.behind), set(found.throttled_until)) == (kept, kept, kept)


def test_throttling_is_waited_for_or_is_a_timeout(pauses):
    found = brokers()
    found.obey_throttle(LEARNT[0], time.monotonic() + 1)
    assert pauses == []
    found.throttle(LEARNT[0], 500)
    found.obey_throttle(LEARNT[0], time.monotonic() + 1)
    assert 0.4 < pauses[0] <= 0.5
    with pytest.raises(
        PollError, match=r"timeout: broker-0:9092: throttled by the broker for another 0\.[45] s"
    ):
        found.obey_throttle(LEARNT[0], time.monotonic() + 0.1)
