"""Questions beside metadata, asked of brokers that speak bytes: in which order, for how long, and
over which connections.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from metadata_source.asking import Asking
from metadata_source.brokers import Brokers
from metadata_source.enrichment import Subject
from metadata_source.many_brokers import Broker
from metadata_source.options import parse
from tests.support.byte_cluster import OFFSETS, ByteCluster
from tests.support.waiting import eventually

BEGAN = datetime.now(UTC)
REASSIGNMENTS = "ListPartitionReassignmentsRequest"


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    """Two, each of which leads one partition of the offsets topic, and has a group."""
    topics = {"orders": [(5, (0, 1))], "payments": [(3, (1, 0))]}
    with ByteCluster(2, **topics, **{OFFSETS: [(1, (0, 1)), (1, (1, 0))]}) as found:
        found.brokers[0].groups, found.brokers[1].groups = ("billing",), ("shipping",)
        yield found


def asking_of(brokers: ByteCluster, timeout_ms: int = 60_000) -> closing[Asking]:
    cluster = parse({"kafka.bootstrap.servers": brokers.servers()}).clusters[0]
    return closing(Asking(cluster, Brokers(cluster.bootstrap_servers), timeout_ms))


def enriched(asking: Asking, brokers: ByteCluster, *kinds: str) -> dict[str, str]:
    """The outcomes, as broker 0 is asked, in the order in which they came."""
    visited = tuple(Broker(number, address) for number, address in enumerate(brokers.places))
    about = Subject(kinds, ["orders", "payments"], [], visited)
    answers = list(asking.answers(about, brokers.places[0]))
    for each in answers:
        assert (each.asked_at is None) == each.outcome.startswith("failed: put off")
        assert (each.answered_at is not None) == (each.rows is not None) == (each.outcome == "ok")
        assert (
            each.answered_at is None
            or BEGAN <= each.asked_at <= each.answered_at <= datetime.now(UTC)
        )
    asked = [each.asked_at for each in answers if each.asked_at]
    assert asked == sorted(asked)
    return {each.enrichment: each.outcome for each in answers}


def connections(brokers: ByteCluster) -> list[int]:
    return [each.connections for each in brokers.brokers]


def test_each_broker_has_one_connection_for_all_questions(brokers):
    with asking_of(brokers) as asking:
        for _ in range(2):
            assert set(enriched(asking, brokers, "configs", "groups").values()) == {"ok"}
        assert connections(brokers) == [1, 1]
    eventually(lambda: not any(each.open for each in brokers.brokers), "the end")


@pytest.mark.parametrize("is_first", [False, True])
def test_a_kind_that_gets_no_answer_takes_its_own_time_and_its_connection_alone(brokers, is_first):
    with asking_of(brokers, 1_500) as asking:
        if not is_first:
            assert enriched(asking, brokers, "configs") == {"configs": "ok"}
        brokers.brokers[0].hangs_on = frozenset({REASSIGNMENTS})
        found = enriched(asking, brokers, "reassignments", "configs")
    (where,) = (f"{host}:{port}" for host, port in brokers.places[:1])
    assert found == {"reassignments": f"failed: {where}: no answer in time", "configs": "ok"}
    assert connections(brokers) == [2, 0]


def test_a_connection_over_which_came_what_is_no_answer_is_of_no_use(brokers):
    with asking_of(brokers) as asking:
        brokers.brokers[0].odd = b"\xff"
        assert enriched(asking, brokers, "groups")["groups"].startswith("failed: broker 0 (")
        eventually(lambda: not brokers.brokers[0].open, "its end")


def test_kinds_that_failed_come_last_the_longest_ago_first(brokers):
    with asking_of(brokers) as asking:
        kinds = ("reassignments", "configs", "groups")
        for each in brokers.brokers:
            each.error_code = 41
        assert list(enriched(asking, brokers, *kinds)) == [*kinds]
        for given in (kinds, kinds[::-1]):
            found = enriched(asking, brokers, *given)
            assert list(found) == ["configs", "reassignments", "groups"]
            assert [each.startswith("failed: ") for each in found.values()] == [False, True, True]
        for each in brokers.brokers:
            each.error_code = 0
        enriched(asking, brokers, *kinds)
        assert list(enriched(asking, brokers, *kinds)) == [*kinds], "they answer again"


def test_a_refusal_leaves_the_connection_to_the_next(brokers):
    brokers.brokers[0].error_code = 31
    with asking_of(brokers) as asking:
        assert enriched(asking, brokers, "reassignments", "quorum", "elr", "configs") == {
            "reassignments": "not_allowed",
            "quorum": "not_supported",
            "elr": "not_supported",
            "configs": "ok",
        }
        assert not [each for each in brokers.asked if "Quorum" in each.request]
    assert connections(brokers) == [1, 0]


def test_a_connection_that_the_broker_closed_is_made_again(brokers):
    with asking_of(brokers) as asking:
        assert enriched(asking, brokers, "configs") == {"configs": "ok"}
        brokers.hang_up(0)
        assert enriched(asking, brokers, "configs") == {"configs": "ok"}
    assert connections(brokers) == [2, 0]


def test_throttling_is_obeyed(brokers):
    with asking_of(brokers) as asking:
        brokers.brokers[0].throttle_ms = 200
        begin = time.monotonic()
        assert enriched(asking, brokers, "configs", "reassignments") == {
            "configs": "ok",
            "reassignments": "ok",
        }
        assert time.monotonic() - begin >= 0.2
        brokers.brokers[0].throttle_ms = 3_600_000
        enriched(asking, brokers, "configs")
        brokers.asked.clear()
        (said,) = enriched(asking, brokers, "reassignments").values()
    assert said.startswith("failed: put off: throttled by the broker for another 3")
    assert brokers.asked == []


def test_partitions_are_new_that_were_not_led_in_that_epoch_the_last_time(brokers):
    with asking_of(brokers) as asking:
        both = frozenset({(0, 5), (1, 5)})
        for led, is_new in (
            (both, False),  # nothing was known before
            (both, False),
            (frozenset({(0, 5)}), False),
            (both, True),
            (frozenset({(0, 6), (1, 5)}), True),
            (frozenset({(0, 6), (1, 5)}), False),
        ):
            assert asking.has_moved("offsets", led) is is_new
            asking.has_moved("of another kind", frozenset({(9, 9)}))
