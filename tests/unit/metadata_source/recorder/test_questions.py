"""Questions beside the polls of a cluster of byte brokers: on which beat, and by which thread."""

import threading
import time
from collections.abc import Iterator

import pytest

from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.recorder import questions as questions_module
from metadata_source.recorder.entries import Entries
from metadata_source.recorder.news import News
from metadata_source.recorder.questions import QuestionThread
from tests.support.byte_cluster import ByteCluster
from tests.support.kept import Kept
from tests.support.recorded_clusters import (
    ALL,
    answer,
    changed,
    hang,
    recorded,
    two_groups,
    wait_for_answers,
)

REASSIGNMENTS = "ListPartitionReassignmentsRequest"


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    with two_groups() as found:
        yield found


def test_what_is_asked_beside_is_in_the_entry_of_its_poll_on_beats_of_its_own(brokers, monkeypatch):
    wait_for_answers(monkeypatch, 600)
    kept = Kept()
    enrich = "groups=2s,offsets=1s,configs=10m,reassignments=10m"
    with recorded(kept, brokers, enrich=enrich):
        kept.until(lambda: len(kept.entries) >= 3)
        changed(brokers)
        kept.until(lambda: len(kept.entries) >= 5)
    first, second, third, fourth = kept.entries[:4]
    assert first.outcomes == dict.fromkeys(ALL, "ok")
    groups = [each["group_id"] for row in first.rows for each in row["groups"] or ()]
    assert sorted(groups) == ["billing", "shipping"]
    commits = {
        (each["group_id"], each["topic"]) for row in first.rows for each in row["offsets"] or ()
    }
    assert commits == {(group, topic) for group in groups for topic in ("orders", "payments")}
    assert second.outcomes == {"offsets": "ok"}
    assert third.outcomes == {"groups": "ok", "offsets": "ok"}
    assert second.news is third.news is News.FOLLOWS, "nothing is new in them"
    assert fourth.outcomes == {"offsets": "ok", "configs": "ok", "reassignments": "ok"}, (
        "the poll has news"
    )
    for entry in (first, second, third, fourth):
        for row in entry.rows:
            if row["record"] == "answer":
                assert entry.header["received_at"] <= row["asked_at"] <= row["answered_at"]
    assert max(broker.connections for broker in brokers.brokers) <= 2, (
        "one for polls and one for questions"
    )


def test_an_answer_beside_that_is_news_makes_its_entry_news(brokers, monkeypatch):
    wait_for_answers(monkeypatch, 600)
    kept = Kept()
    with recorded(kept, brokers, enrich="groups=1s"):
        kept.until(lambda: len(kept.entries) >= 2)
        brokers.brokers[0].groups = ("billing", "new")
        kept.until(lambda: len(kept.entries) >= 3)
        for broker in brokers.brokers:
            broker.error_code = 15
        kept.until(lambda: len(kept.entries) >= 4)
    assert [each.news for each in kept.entries[:4]] == [
        News.NEWS,
        News.FOLLOWS,
        News.NEWS,
        News.NEWS,
    ]


def test_a_question_that_hangs_delays_no_poll_and_is_written_with_a_later_one(brokers):
    kept = Kept()
    hang(brokers, "ListGroupsRequest")
    with recorded(kept, brokers, enrich="groups=10m,configs=10m", pollInterval="300ms"):
        kept.until(lambda: sum(each.ok for each in kept.entries) >= 4)
        outcomes = {kind: said for each in kept.entries for kind, said in each.outcomes.items()}
        assert outcomes == {"configs": "ok"}
        answer(brokers)
        kept.until(lambda: any("groups" in each.outcomes for each in kept.entries))
    (entry,) = [each for each in kept.entries if "groups" in each.outcomes]
    assert entry.outcomes == {"groups": "ok"}
    asked = next(row for row in entry.rows if row["kind"] == "groups")
    assert asked["asked_at"] < kept.entries[1].header["sent_at"] < entry.header["sent_at"]


class Started(threading.Thread):
    """A thread; none for questions while there are no more, and `left` for clusters."""

    no_more = False

    def start(self):
        if type(self).no_more and "questions" in self.name:
            raise RuntimeError("can't start new thread")
        super().start()


def test_questions_that_no_thread_can_ask_are_asked_with_a_later_poll(brokers, monkeypatch):
    """Until then entries wait for nobody."""
    wait_for_answers(monkeypatch, 600)
    monkeypatch.setattr(questions_module.threading, "Thread", Started)
    monkeypatch.setattr(Started, "no_more", True)
    kept = Kept()
    with recorded(kept, brokers, enrich="groups=10m", pollInterval="300ms") as fleet:
        kept.until(lambda: len(kept.entries) >= 2)
        assert not any(each.outcomes for each in kept.entries)
        monkeypatch.setattr(Started, "no_more", False)
        kept.until(lambda: any(each.outcomes for each in kept.entries))
        assert not fleet.has_ended
    assert {each.header["error_kind"] for each in kept.entries} <= {None, "overlapped"}


def test_questions_that_came_due_while_others_hang_are_asked_once_these_are_answered(brokers):
    """By one thread: all that came due meanwhile, and what a poll with news asks for."""
    kept = Kept()
    hang(brokers, "ListGroupsRequest")

    def asked(request: str) -> int:
        return [each.request for each in brokers.asked].count(request)

    enrich = "groups=10m,configs=10m,reassignments=600ms"
    with recorded(kept, brokers, enrich=enrich, pollInterval="300ms"):
        kept.until(lambda: "configs" in {kind for each in kept.entries for kind in each.outcomes})
        seen = len(kept.entries)
        changed(brokers)
        kept.until(lambda: sum(each.ok for each in kept.entries[seen:]) >= 4)
        threads = [each.name for each in threading.enumerate() if each.name == "c0: questions"]
        assert threads == ["c0: questions"]
        assert (asked("DescribeConfigsRequest"), asked(REASSIGNMENTS)) == (1, 0)
        answer(brokers)
        kept.until(lambda: any("configs" in each.outcomes for each in kept.entries[seen:]))
    later = [row for each in kept.entries[seen:] for row in each.rows if row["record"] == "answer"]
    kinds = [row["kind"] for row in later]
    assert (kinds.count("groups"), kinds.count("configs")) == (1, 1)
    assert "reassignments" in kinds
    assert {row["outcome"] for row in later} == {"ok"}
    assert asked("DescribeConfigsRequest") == 2


def test_an_entry_waits_for_no_question_that_is_stumbled_over(brokers, caplog):
    class Stumbles:
        def answers(self, about, address):
            raise ZeroDivisionError("a bug")

    options = parse({"kafka.bootstrap.servers": brokers.servers(), "enrich": "groups=1s"})
    cluster, kept = options.clusters[0], Kept()
    entries = Entries("c0", 1_000, options, kept, None)
    thread = QuestionThread("c0", options.polling["default"], options, Stumbles(), entries)
    with Poller(cluster, options.topic_filter, 60_000) as poller:
        for after_ms in (0, 1_000):
            poll = poller.poll()
            with entries.changed:
                entries.make(time.monotonic(), poll)
                about = thread.take_due(after_ms, poll.metadata, has_news=False)
                entries.await_kinds(about.enrichments)
                thread.ask(about, poller.answerer)
                entries.wait(None)
                entries.write()
            assert thread.join(time.monotonic() + 60)
    assert [each.outcomes for each in kept.entries] == [{}, {}]
    assert caplog.text.count("cluster c0: the questions beside the poll failed") == 2
