"""Clusters of byte brokers, recorded side by side: their begin, what the lake says, their end."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from metadata_source.answer_lock import SMALL_BYTES
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.recorder.fleet import Fleet, ThreadsError
from tests.support.byte_cluster import ByteCluster, encoded
from tests.support.kept import Kept
from tests.support.recorded_clusters import (
    ALL,
    TOPICS,
    answer,
    hang,
    recorded,
    two_groups,
    wait_for_answers,
)
from tests.support.waiting import eventually


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    with two_groups() as found:
        yield found


def test_facts_that_only_the_lake_knows_hold_from_the_next_poll_on(brokers):
    kept = Kept()
    with recorded(kept, brokers, pollInterval="300ms") as fleet:
        kept.until(lambda: len(kept.entries) >= 1)
        fleet.expect({"cluster_ids": {"c0": "another"}, "doubted_clock": None})
        kept.until(lambda: kept.entries[-1].header["error_kind"] == "wrong_cluster")
        fleet.expect({"cluster_ids": {}, "doubted_clock": [0.0, time.time() + 60]})
        kept.until(lambda: kept.entries[-1].header["error_kind"] == "clock")
        fleet.expect({"doubted_clock": None})
        kept.until(lambda: kept.entries[-1].header["error_kind"] is None)


def test_a_cluster_whose_polls_stumble_disturbs_no_other(brokers, monkeypatch, caplog):
    poll = Poller.poll

    def stumble(self: Poller):
        if self._cluster.alias == "c0":
            raise ZeroDivisionError("two\nlines")
        return poll(self)

    monkeypatch.setattr(Poller, "poll", stumble)
    kept = Kept()
    with ExitStack() as stack:
        other = stack.enter_context(ByteCluster(3, **TOPICS))
        stack.enter_context(recorded(kept, brokers, other, pollInterval="300ms"))
        kept.until(lambda: len(kept.of("c0")) >= 3 and len(kept.of("c1")) >= 3)
    assert {each.header["error_kind"] for each in kept.of("c0")} == {"protocol"}
    assert "ZeroDivisionError: two lines" in kept.of("c0")[0].header["error"]
    assert {each.header["outcome"] for each in kept.of("c1")} == {"ok"}
    assert "cluster c0: the poll failed" in caplog.text


def test_clusters_begin_one_after_the_other(brokers):
    kept = Kept()
    with recorded(kept, *[brokers] * 8, pollInterval="800ms"):
        kept.until(lambda: all(len(kept.of(f"c{n}")) >= 2 for n in range(8)), 60)
    begin = min(each.at_ms for each in kept.entries)
    for place in range(8):
        assert [each.at_ms - begin - place * 97 for each in kept.of(f"c{place}")][:2] == [
            pytest.approx(0, abs=3),
            pytest.approx(800, abs=3),
        ]


def test_once_is_one_poll_of_each_cluster_with_all_that_is_asked_beside(brokers):
    kept = Kept()
    brokers.brokers[2].hangs_on = frozenset({"ListGroupsRequest"})
    down = ByteCluster(1, **TOPICS)
    with down:
        pass
    with recorded(kept, brokers, down, is_once=True, enrich=",".join(ALL), kind_ms=2_000) as fleet:
        eventually(lambda: fleet.has_ended, "its end")
    good, failed = kept.of("c0"), kept.of("c1")
    assert (len(good), len(failed)) == (1, 1)
    assert good[0].outcomes.keys() == {*ALL}
    assert good[0].outcomes["configs"] == "ok"
    assert failed[0].header["error_kind"] == "unreachable"


def test_its_end_writes_what_waits_for_answers_and_nothing_after(brokers, monkeypatch):
    wait_for_answers(monkeypatch, 600)
    kept = Kept()
    hang(brokers, "ListGroupsRequest")
    with recorded(kept, brokers, enrich="groups", kind_ms=1_500, pollInterval="10s"):
        eventually(
            lambda: "ListGroupsRequest" in {each.request for each in brokers.asked}, "a question"
        )
        assert kept.entries == []
    assert len(kept.entries) == 1
    assert not [each for each in threading.enumerate() if each.name.startswith("c0")]


def test_its_end_waits_for_questions_that_still_run(brokers, monkeypatch, caplog):
    wait_for_answers(monkeypatch, 0)
    kept = Kept()
    hang(brokers, "ListGroupsRequest")
    with recorded(kept, brokers, enrich="groups", kind_ms=1_500, pollInterval="10s"):
        kept.until(lambda: kept.entries)
        assert [each for each in threading.enumerate() if each.name == "c0: questions"]
    assert not [each for each in threading.enumerate() if each.name.startswith("c0")]
    assert "given up" not in caplog.text


def test_a_machine_without_threads_is_one_line_and_the_end_reaches_all(brokers, monkeypatch):
    of_each = {f"c{n}": {"kafka.bootstrap.servers": brokers.servers()} for n in range(2)}
    fleet = Fleet(parse({"clusters": json.dumps(of_each), "pollInterval": "1s"}, "stream"), Kept())
    finished = []
    for each in fleet.clusters:
        monkeypatch.setattr(each, "finish", lambda alias=each.alias: finished.append(alias))

    def none_left():
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(fleet._threads[1], "start", none_left)
    with pytest.raises(
        ThreadsError, match="of 2 clusters only 1 can be polled: can't start new thread"
    ):
        fleet.begin()
    monkeypatch.setattr(fleet.clusters[0], "join", lambda _: 1 / 0)
    monkeypatch.setattr(fleet._threads[1], "join", lambda _: None)
    fleet.end()
    for each in fleet.clusters:
        each.close()
    assert finished == ["c1"]


def test_clusters_that_wait_for_answers_hold_no_slot_of_those_that_decode():
    """As many clusters as have a slot, and one more, whose metadata is large."""
    kept = Kept()
    with ByteCluster(3) as large:
        body = encoded(large.made(orders=[(1, (0, 1, 2))] * 7_000), 12, None)
        assert len(body) > SMALL_BYTES
        for broker in large.brokers:
            broker.odd = body
        hang(large, "ListGroupsRequest")
        with recorded(kept, *[large] * 5, is_once=True, enrich="groups=10m"):
            eventually(
                lambda: [each.request for each in large.asked].count("ListGroupsRequest") == 15,
                "five clusters that ask three brokers each",
            )
            assert kept.entries == []
            answer(large)
            kept.until(lambda: len(kept.entries) == 5)
