"""Single brokers that speak bytes: in which version they are asked, and if their answer counts."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from metadata_source import attempts as attempts_module
from metadata_source import brokers as brokers_module
from metadata_source.answer_lock import SMALL_BYTES
from metadata_source.options import parse
from metadata_source.poller import Poller
from tests.support.byte_cluster import encoded, made
from tests.support.changing import (
    Changing,
    answered_by,
    changing,
    next_of,
    of_cluster,
    poller,
    polls,
)


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Changing]:
    with changing(monkeypatch) as found:
        yield found


@pytest.mark.parametrize(
    ("error", "said"),
    [(RuntimeError("two\nlines"), "RuntimeError: two lines"), (MemoryError(), "MemoryError: ")],
)
def test_whatever_an_attempt_stumbles_over_is_a_failed_poll(brokers, monkeypatch, error, said):
    def stumble(*_, **__):
        raise error

    monkeypatch.setattr(attempts_module, "decode_response", stumble)
    with of_cluster(brokers) as each:
        result = each.poll()
    assert (result.error_kind, result.attempts) == ("protocol", 3)
    assert sorted(result.error.split("; ")) == sorted(
        f"{server}: {said}" for server in brokers.servers().split(",")
    )


def test_an_answer_that_lists_no_broker_says_nothing_of_the_cluster(brokers):
    """As that of a broker that is starting: another one is asked."""
    nothing = replace(brokers.whole, brokers=brokers.whole.brokers.slice(0, 0))
    brokers.set(nothing)
    with of_cluster(brokers) as each:
        poll = each.poll()
        assert (poll.error_kind, poll.metadata, poll.image) == ("no_brokers", None, None)
        assert poll.received_at is not None
        assert [broker.connections for broker in brokers.brokers] == [3] * 3, "none is kept"
        brokers.set(brokers.whole, 1)
        brokers.asked.clear()
        assert each.poll().broker_id == 1


def test_an_answer_that_lists_something_twice_is_odd(brokers):
    listed = brokers.whole.brokers
    brokers.set(replace(brokers.whole, brokers=pa.concat_tables([listed, listed.slice(1, 1)])))
    with of_cluster(brokers) as each:
        poll = each.poll()
    assert (poll.error_kind, poll.attempts, poll.metadata) == ("odd_answer", 3, None)
    assert "it lists broker 1 twice" in poll.error


@pytest.mark.parametrize(
    ("code", "kind", "attempts"),
    [(31, "authorization", 1), (29, "authorization", 1), (41, "broker_error", 3)],
)
def test_an_answer_that_is_an_error_is_none(brokers, code, kind, attempts):
    """Metadata has such a field from version 13 on."""
    for broker in brokers.brokers:
        broker.versions = (0, 13)
    brokers.set(replace(brokers.whole, error_code=code))
    with of_cluster(brokers) as each:
        poll = each.poll()
        assert (poll.error_kind, poll.metadata, poll.api_version) == (kind, None, 13)
        assert poll.attempts >= attempts
        assert f": error {code} (" in poll.error
        brokers.set(brokers.whole)
        assert each.poll().error_kind is None


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
        poll = each.poll()
        assert (poll.broker_id, poll.throttle_time_ms) == (asked_last, 60_000)
        assert asked_last not in {broker for broker, _ in polls(each, 4)}


def test_before_version_6_a_broker_has_waited_itself(brokers):
    """KIP-219: it holds the answer back, and says for how long it did."""
    for broker in brokers.brokers:
        broker.versions = (0, 5)
    with of_cluster(brokers) as each:
        brokers.brokers[0].throttle_ms = 60_000
        answered_by(each, 0)
        assert each.brokers.throttled_until == {}
        answered_by(each, 0)


def test_a_broker_that_cannot_be_asked_in_the_time_left_is_not_asked(brokers):
    with poller(brokers.servers(0)) as each:
        each.poll()
        for place in brokers.places:
            each.brokers.throttle(place, 3_600_000)
        brokers.asked.clear()
        poll = each.poll()
    assert (poll.error_kind, brokers.polled) == ("timeout", [])
    assert "throttled by the broker for another 3" in poll.error


@pytest.mark.parametrize("told", [None, ""])
def test_a_server_without_a_cluster_id_is_told_apart_from_another_cluster(brokers, told):
    """Nothing could be recorded: history is kept by alias and cluster id."""

    def polled(answered: str | None, *, needs_id: bool = True, **given: str):
        brokers.set(replace(brokers.whole, cluster_id=answered))
        options = parse({"kafka.bootstrap.servers": brokers.servers()} | given)
        with Poller(options.clusters[0], options.topic_filter, 60_000, needs_id=needs_id) as each:
            return each.poll()

    without = polled(told)
    assert (without.error_kind, without.metadata) == ("no_cluster_id", None)
    assert without.error.endswith(f": {attempts_module.NO_ID}")
    assert polled(told, needs_id=False).cluster_id is None
    assert polled(told, clusterId="mine").cluster_id == "mine"
    assert polled("other").cluster_id == "other"
    wrong = polled("other", clusterId="mine")
    assert (wrong.error_kind, wrong.cluster_id, wrong.attempts) == ("wrong_cluster", "other", 1)
    assert ": belongs to cluster other, clusterId is mine" in wrong.error


@pytest.mark.parametrize(
    ("versions", "pinned", "said"),
    [
        (None, None, "this server does not name Metadata among its requests"),
        (None, "9", "this server does not name Metadata among its requests"),
        ((14, 15), None, "has Metadata v14 to v15, none of v0 to v13"),
        ((0, 8), "9", "has Metadata v0 to v8, metadataVersion pins v9"),
        ((10, 12), "9", "has Metadata v10 to v12, metadataVersion pins v9"),
    ],
)
def test_versions_that_cannot_be_asked_in(brokers, versions, pinned, said):
    for broker in brokers.brokers:
        broker.versions = versions
    with of_cluster(brokers, **({} if pinned is None else {"metadataVersion": pinned})) as each:
        poll = each.poll()
    assert (poll.error_kind, poll.attempts) == ("unsupported_version", 3)
    assert {line.partition(": ")[2] for line in poll.error.split("; ")} == {said}


@pytest.mark.parametrize(("versions", "pinned", "asked"), [((0, 12), "9", 9), ((3, 15), None, 13)])
def test_the_version_is_the_pinned_one_or_the_highest_that_both_have(
    brokers, versions, pinned, asked
):
    for broker in brokers.brokers:
        broker.versions = versions
    with of_cluster(brokers, **({} if pinned is None else {"metadataVersion": pinned})) as each:
        assert each.poll().api_version == asked


def test_an_address_that_the_cluster_does_not_name_has_no_broker_id(brokers):
    """A load balancer's. A broker without DescribeTopicPartitions has no eligible leaders."""
    places = [("elsewhere", port) for _, port in brokers.places]
    brokers.set(made(places, orders=[(5, (0, 1, 2))], payments=[(3, (1, 2, 0))]))
    with of_cluster(brokers) as each:
        poll = each.poll()
    assert (poll.error_kind, poll.broker_id) == (None, None)
    assert poll.broker in brokers.servers().split(",")
    assert (poll.metadata_version_level, poll.elr_version_level) == (None, 0)


def test_options_that_are_wrong_leave_no_broker_out(brokers, tmp_path):
    """None has a part in it."""
    password = tmp_path / "password"
    secured = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}
    secured |= {"kafka.sasl.username": "alice", "kafka.sasl.password": f"file:{password}"}
    with of_cluster(brokers, **secured) as each:
        poll = each.poll()
        assert (poll.error_kind, poll.attempts, brokers.asked) == ("options", 1, [])
        assert each.brokers.avoided == {}


def test_a_large_answer_has_a_slot_until_it_is_let_go(brokers):
    decoders = threading.Semaphore(1)

    def is_free() -> bool:
        found = decoders.acquire(blocking=False)
        if found:
            decoders.release()
        return found

    def answers(body: bytes | None) -> None:
        for broker in brokers.brokers:
            broker.odd = body

    large = encoded(brokers.made(orders=[(5, (0, 1, 2))] * 7_000), 12, None)
    assert len(large) > SMALL_BYTES
    options = parse({"kafka.bootstrap.servers": brokers.servers()})
    with Poller(options.clusters[0], options.topic_filter, 60_000, decoders) as each:
        for let_go in (each.let_go, each.close):
            answers(large)
            assert (each.poll().error_kind, is_free()) == (None, False)
            let_go()
            assert is_free()
        each.poll()
        answers(None)
        assert each.poll().error_kind is None
        assert is_free(), "the next poll lets go of it, and a small answer has none"
