"""Brokers that are listed no more, and may still answer clients: witnesses of a poll, too."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from metadata_source import brokers as brokers_module
from tests.support.byte_cluster import METADATA
from tests.support.changing import Changing, behind, changing, of_cluster, polls


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Changing]:
    with changing(monkeypatch) as found:
        yield found


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
    with of_cluster(brokers, interval_ms=4_000) as each:
        polls(each, 3)
        brokers.set(brokers.fenced, 0, 1)
        polls(each, 2)
        each.brokers.avoided.clear()
        brokers.then(2, lambda: brokers.hang(0, 1, on=(METADATA,)))
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


def test_an_isolated_broker_is_looked_at_again_though_its_answer_stays_the_same(brokers):
    """Nothing changes any more, and polls ask the others alone: its image gets older, which silver
    has to know. It is not asked with each poll.
    """
    found = []
    with of_cluster(brokers) as each:
        polls(each, 3)
        brokers.set(brokers.fenced, 0, 1)
        polls(each, 2)
        for _ in range(3):
            each.brokers.avoided.clear()
            (told,) = each.poll().witnesses
            assert (told.broker_id, told.is_behind) == (2, True)
            found.append(told.behind_ms)
            brokers.asked.clear()
            polls(each, 4)
            assert {broker for broker, _ in brokers.polled} == {0, 1}
    assert found == sorted(found)
    assert found[0] < found[-1]
