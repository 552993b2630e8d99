"""Clusters of byte brokers, recorded: each beat kept, what is asked beside, key frames, and
whatever goes wrong.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from metadata_source.answer_lock import SMALL_BYTES
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.recorder import cluster as cluster_module
from metadata_source.recorder import entries as entries_module
from metadata_source.recorder import questions as questions_module
from metadata_source.recorder.entries import Entries
from metadata_source.recorder.fleet import Fleet, ThreadsError
from metadata_source.recorder.news import News
from metadata_source.recorder.questions import QuestionThread
from metadata_source.schedule import day_of
from tests.support.byte_cluster import METADATA, OFFSETS, ByteCluster, encoded
from tests.support.kept import Entry, Kept

TOPICS = {
    "orders": [(5, (0, 1, 2))],
    "payments": [(3, (1, 2, 0))],
    OFFSETS: [(1, (0, 1, 2)), (1, (1, 2, 0))],
}
ALL = ("groups", "offsets", "configs", "reassignments")


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    with ByteCluster(3, **TOPICS) as found:
        found.brokers[0].groups, found.brokers[1].groups = ("billing",), ("shipping",)
        yield found


def changed(brokers: ByteCluster, epoch: int = 6) -> None:
    brokers.set(brokers.made(**TOPICS | {"orders": [(epoch, (1, 2))]}))


@contextmanager
def recorded(
    kept: Kept, *clusters: ByteCluster, is_once: bool = False, kind_ms: int = 5_000, **given: str
) -> Iterator[Fleet]:
    """Clusters c0, c1, ... on a beat of a second, or as given. `kind_ms`: the time that a question
    has.
    """
    of_each = {
        f"c{n}": {"kafka.bootstrap.servers": each.servers()} for n, each in enumerate(clusters)
    }
    options = parse({"clusters": json.dumps(of_each), "pollInterval": "1s"} | given, "stream")
    polling = {
        alias: replace(each, enrich_timeout_ms=kind_ms) for alias, each in options.polling.items()
    }
    fleet = Fleet(replace(options, polling=polling), kept, is_once=is_once)
    fleet.begin()
    try:
        yield fleet
    finally:
        fleet.end()


def late_s(entry: Entry) -> float:
    """How long after its time a poll was sent."""
    return (entry.header["sent_at"] - entry.header["scheduled_at"]).total_seconds()


def written_after_s(entry: Entry) -> float:
    """How long after the last answer that it has an entry was appended."""
    times = [row[name] for row in entry.rows for name in ("received_at", "answered_at")]
    answered_s = max(each.timestamp() for each in times if each is not None)
    return time.time() - (time.monotonic() - entry.appended_s) - answered_s


def test_polls_are_sent_on_the_beat_and_hold_what_changed(brokers):
    kept = Kept()
    with recorded(kept, brokers, pollInterval="1s"):
        kept.until(lambda: len(kept.entries) >= 2)
        changed(brokers)
        kept.until(lambda: len(kept.entries) >= 5)
    entries = kept.entries
    headers = [each.header for each in entries]
    assert {(header["outcome"], header["error"]) for header in headers} == {("ok", None)}
    assert {(header["stream"], header["n"], header["interval_ms"]) for header in headers} == {
        ("", 0, 1_000)
    }
    dues = [each.at_ms for each in entries]
    steps = [after - before for before, after in pairwise(dues)]
    assert all(abs(step - 1_000) <= 2 for step in steps), steps
    assert [round(header["scheduled_at"].timestamp() * 1000) for header in headers] == dues
    assert all(0 <= late_s(each) < 0.8 for each in entries)
    assert [each.is_key_frame for each in entries] == [True] + [False] * (len(entries) - 1)
    assert entries[0].topics == [*TOPICS]
    assert [each.topics for each in entries[1:] if each.topics] == [["orders"]]
    assert [each.news for each in entries][:2] == [News.NEWS, News.FOLLOWS]
    assert [each.news for each in entries if each.topics] == [News.NEWS] * 2
    assert {row["day"] for each in entries for row in each.rows} == {day_of(dues[0])}
    assert max(broker.connections for broker in brokers.brokers) <= 1, "they are kept"


def test_what_is_asked_beside_is_in_the_entry_of_its_poll_on_beats_of_its_own(brokers):
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


def test_an_answer_beside_that_is_news_makes_its_entry_news(brokers):
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
    for broker in brokers.brokers:
        broker.hangs_on = frozenset({"ListGroupsRequest"})
    with recorded(
        kept, brokers, enrich="groups=10m,reassignments=10m", kind_ms=1_000, pollInterval="700ms"
    ):
        kept.until(lambda: len(kept.entries) >= 4)
    entries = kept.entries[:4]
    assert all(late_s(each) < 0.3 for each in entries)
    assert {each.header["outcome"] for each in entries} == {"ok"}
    # `enrichTimeout` bounds each kind: the one that hangs is in the way of no other.
    outcomes = {kind: outcome for each in entries for kind, outcome in each.outcomes.items()}
    assert outcomes["reassignments"] == "ok"
    assert "no answer in time (1.0 s, see enrichTimeout)" in outcomes["groups"]
    (with_groups,) = [n for n, each in enumerate(entries) if "groups" in each.outcomes]
    assert with_groups >= 2, "it came after its poll was written, and goes with the next good one"
    asked = next(row for row in entries[with_groups].rows if row["kind"] == "groups")
    assert asked["asked_at"] < entries[with_groups].header["sent_at"]
    first = entries[0]
    assert first.appended_s - (entries[1].appended_s - 0.7) < 0.7, (
        "the first entry waited for half of the time left"
    )


def test_a_broker_that_hangs_lets_the_next_poll_go_to_another(brokers):
    """The poll of a cluster of which nobody else was known yet hangs; ticks that pass meanwhile are
    `overlapped`.
    """
    kept = Kept()
    brokers.brokers[0].hangs_on = frozenset({METADATA})
    with recorded(kept, brokers, pollInterval="400ms", requestTimeout="3s"):
        kept.until(lambda: len(kept.entries) >= 8)
    kinds = [each.header["error_kind"] for each in kept.entries]
    assert set(kinds) <= {None, "overlapped"}
    good = [each for each in kept.entries if each.ok]
    assert len(good) >= 5
    assert all(each.header["broker_id"] != 0 for each in good)
    dues = [each.at_ms for each in kept.entries]
    assert all(abs(after - before - 400) <= 2 for before, after in pairwise(dues)), (
        "none is left out"
    )


def test_ticks_that_pass_while_a_poll_runs_are_overlapped(brokers):
    kept = Kept()
    for broker in brokers.brokers:
        broker.late_s = 0.7
    with recorded(kept, brokers, pollInterval="300ms", requestTimeout="5s"):
        # 0.5 s are the least that a broker gets, which none of them keeps.
        kept.until(lambda: sum(not each.ok for each in kept.entries) >= 3, 20)
        for broker in brokers.brokers:
            broker.late_s = 0.4
        seen = len(kept.entries)
        kept.until(lambda: sum(each.ok for each in kept.entries[seen:]) >= 3, 20)
    kinds = {each.header["error_kind"] for each in kept.entries}
    assert kinds <= {None, "overlapped", "timeout"}
    overlapped = [each for each in kept.entries if each.header["error_kind"] == "overlapped"]
    assert overlapped
    assert {each.header["attempts"] for each in overlapped} == {0}
    assert {each.header["sent_at"] for each in overlapped} == {None}
    dues = [each.at_ms for each in kept.entries]
    assert dues == sorted(dues)
    assert all(abs(after - before - 300) <= 2 for before, after in pairwise(dues)), (
        "none is left out"
    )


def test_without_room_polls_go_on_and_one_row_says_so_before_a_key_frame(brokers):
    kept = Kept()
    with recorded(kept, brokers, pollInterval="300ms"):
        kept.until(lambda: len(kept.entries) >= 2)
        kept.has_room = False
        kept.until(lambda: kept.refused >= 2)
        changed(brokers)
        kept.until(lambda: kept.refused >= 4)
        kept.has_room = True
        kept.until(lambda: sum(each.ok for each in kept.entries) >= 6)
    full = next(
        n for n, each in enumerate(kept.entries) if each.header["error_kind"] == "spool_full"
    )
    gap = kept.entries[full]
    # A busy machine may let ticks pass: these have entries, too.
    whole, later = [each for each in kept.entries[full + 1 :] if each.ok][:2]
    assert (gap.ok, gap.is_key_frame, gap.news, gap.header["outcome"]) == (
        False,
        False,
        News.NEWS,
        "failed",
    )
    count = int(gap.header["error"].split()[0])
    assert gap.header["error"].split(" from ")[0] == f"{count} polls"
    assert count >= 3
    assert round((gap.at_ms - kept.entries[full - 1].at_ms) / 300) == count, (
        "up to the last poll that was not kept"
    )
    assert (whole.ok, whole.is_key_frame, whole.topics) == (True, True, [*TOPICS])
    assert (whole.news, later.is_key_frame, later.topics) == (News.NEWS, False, [])
    assert [each.header["error_kind"] for each in kept.entries].count("spool_full") == 1


def test_a_key_frame_follows_the_gap_also_where_a_failed_poll_comes_first(brokers):
    kept = Kept()
    with recorded(kept, brokers, pollInterval="300ms", requestTimeout="250ms"):
        kept.until(lambda: len(kept.entries) >= 1)
        kept.has_room = False
        kept.until(lambda: kept.refused >= 1)
        for number in range(3):
            brokers.stop(number)
        refused = kept.refused
        kept.until(lambda: kept.refused >= refused + 2)
        kept.has_room = True
        kept.until(lambda: any(each.header["error_kind"] == "unreachable" for each in kept.entries))
        for number in range(3):
            brokers.start(number)
        seen = len(kept.entries)
        kept.until(lambda: any(each.ok for each in kept.entries[seen:]))
    assert "spool_full" in [each.header["error_kind"] for each in kept.entries]
    assert next(each for each in kept.entries[seen:] if each.ok).is_key_frame


def test_a_spool_that_stumbles_is_one_without_room(brokers):
    kept = Kept()
    with recorded(kept, brokers, pollInterval="300ms"):
        kept.until(lambda: len(kept.entries) >= 1)
        kept.stumbles = True
        time.sleep(0.7)
        kept.stumbles = False
        kept.until(lambda: any(each.header["error_kind"] == "spool_full" for each in kept.entries))
        kept.until(lambda: kept.entries[-1].ok)


def test_key_frames_come_each_five_minutes_and_with_the_first_poll_of_a_day(brokers, monkeypatch):
    kept, shift_ms = Kept(), [0]
    usual = entries_module.wall_ms
    monkeypatch.setattr(entries_module, "wall_ms", lambda *given: usual(*given) + shift_ms[0])
    with recorded(kept, brokers, pollInterval="300ms"):
        kept.until(lambda: len(kept.entries) >= 2)
        shift_ms[0] = 86_400_000
        kept.until(lambda: len(kept.entries) >= 5)
        assert [each.is_key_frame for each in kept.entries[:2]] == [True, False]
        days = [day_of(each.at_ms) for each in kept.entries]
        first = days.index(days[-1])
        assert 2 <= first <= 3
        assert [each.is_key_frame for each in kept.entries[first : first + 2]] == [True, False]
        assert kept.entries[first].rows[0]["day"] == days[first]
        assert kept.entries[first].news is News.FOLLOWS, "a key frame says nothing new"


def test_another_cluster_at_the_address_is_recorded_whole(brokers):
    kept = Kept()
    with recorded(kept, brokers, pollInterval="300ms"):
        kept.until(lambda: len(kept.entries) >= 2)
        brokers.set(replace(brokers.brokers[0].image, cluster_id="rebuilt"))
        kept.until(lambda: kept.entries[-1].header["cluster_id"] == "rebuilt")
    (found,) = [each for each in kept.entries[1:] if each.is_key_frame]
    assert (found.header["cluster_id"], found.topics, found.news) == (
        "rebuilt",
        [*TOPICS],
        News.NEWS,
    )


def test_facts_that_only_the_lake_knows_hold_from_the_next_poll_on(brokers):
    kept = Kept()
    with recorded(kept, brokers, pollInterval="300ms", requestTimeout="250ms") as fleet:
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
        kept.until(lambda: len(kept.entries) >= 16)
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
    with recorded(
        kept, brokers, down, is_once=True, enrich=",".join(ALL), kind_ms=1_500, requestTimeout="1s"
    ) as fleet:
        end = time.monotonic() + 15
        while not fleet.has_ended:
            assert time.monotonic() < end
            time.sleep(0.02)
        time.sleep(1.2)
    good, failed = kept.of("c0"), kept.of("c1")
    assert (len(good), len(failed)) == (1, 1)
    assert good[0].outcomes.keys() == set(ALL)
    assert good[0].outcomes["configs"] == "ok"
    assert failed[0].header["error_kind"] == "unreachable"


def test_its_end_writes_what_waits_for_answers_and_nothing_after(brokers):
    kept = Kept()
    for broker in brokers.brokers:
        broker.hangs_on = frozenset({"ListGroupsRequest"})
    with recorded(kept, brokers, enrich="groups", kind_ms=700, pollInterval="10s") as fleet:
        end = time.monotonic() + 5
        while fleet.clusters[0]._entries._entry is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert kept.entries == []
    assert len(kept.entries) == 1
    assert not [each for each in threading.enumerate() if each.name.startswith("c0")]


def test_its_end_waits_for_questions_that_still_run(brokers, caplog):
    kept = Kept()
    for broker in brokers.brokers:
        broker.hangs_on = frozenset({"ListGroupsRequest"})
    with recorded(kept, brokers, enrich="groups", kind_ms=2_000, pollInterval="10s"):
        kept.until(lambda: kept.entries)
        assert [each for each in threading.enumerate() if each.name == "c0: questions"]
    assert not [each for each in threading.enumerate() if each.name.startswith("c0")]
    assert "given up" not in caplog.text


class Started(threading.Thread):
    """A thread; none for questions while there are no more, and `left` for clusters."""

    no_more = False

    def start(self):
        if type(self).no_more and "questions" in self.name:
            raise RuntimeError("can't start new thread")
        super().start()


def test_questions_that_no_thread_can_ask_are_asked_with_a_later_poll(brokers, monkeypatch):
    monkeypatch.setattr(questions_module.threading, "Thread", Started)
    monkeypatch.setattr(Started, "no_more", True)
    kept = Kept()
    with recorded(kept, brokers, enrich="groups=10m", pollInterval="1500ms") as fleet:
        kept.until(lambda: len(kept.entries) >= 2)
        assert not any(each.outcomes for each in kept.entries)
        monkeypatch.setattr(Started, "no_more", False)
        kept.until(lambda: any(each.outcomes for each in kept.entries))
        assert not fleet.has_ended
    assert all(each.ok for each in kept.entries)
    assert all(written_after_s(each) < 0.5 for each in kept.entries[:2]), "they wait for nobody"


def test_what_fails_after_a_poll_ends_no_polls(brokers, monkeypatch):
    kept = Kept()
    record_alone, failures = cluster_module.ClusterRecorder._record_alone, []

    def fails(self, tick, *error):
        if tick == 1:
            failures.append(tick)
            time.sleep(0.5)
            raise ValueError("a bug")
        return (
            cluster_module.ClusterRecorder._recorded(self, tick)
            if not error
            else record_alone(self, tick, *error)
        )

    monkeypatch.setattr(
        cluster_module.ClusterRecorder, "_recorded", cluster_module.ClusterRecorder._record, False
    )
    monkeypatch.setattr(cluster_module.ClusterRecorder, "_record", fails)
    monkeypatch.setattr(cluster_module.ClusterRecorder, "_record_alone", fails)
    with recorded(kept, brokers, pollInterval="400ms") as fleet:
        kept.until(lambda: len(kept.entries) >= 3)
        assert not fleet.has_ended
    assert failures == [1, 1]
    assert all(late_s(each) < 0.3 for each in kept.entries), "ticks that passed are not made up for"


def test_answers_that_found_no_room_are_written_with_the_next_poll(brokers):
    kept = Kept()
    append, refused = kept.append, []

    def full(cluster, at_ms, batches, news, **more):
        if len(refused) < 2:
            refused.append(at_ms)
            return False
        return append(cluster, at_ms, batches, news, **more)

    kept.append = full
    with recorded(kept, brokers, enrich="groups=10m", pollInterval="400ms"):
        kept.until(lambda: any("groups" in each.outcomes for each in kept.entries), 10)
    assert len(refused) == 2


def test_an_answer_that_is_stumbled_over_is_a_failed_one_and_the_rest_is_kept(brokers, monkeypatch):
    beside = entries_module.BatchRecords.beside

    def stumbles(self, answers):
        answers = list(answers)
        if any(each.enrichment == "groups" and each.rows is not None for each in answers):
            raise ValueError("a bug")
        return beside(self, answers)

    monkeypatch.setattr(entries_module.BatchRecords, "beside", stumbles)
    kept = Kept()
    with recorded(kept, brokers, is_once=True, enrich="groups=10m,configs=10m"):
        kept.until(lambda: kept.entries)
    (entry,) = kept.entries
    assert entry.ok
    assert entry.outcomes["configs"] == "ok"
    assert "ValueError: a bug" in entry.outcomes["groups"]


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


def test_questions_that_came_due_while_others_hang_are_asked_once_these_are_answered(brokers):
    """By one thread: all that came due meanwhile, and what a poll with news asks for."""
    kept = Kept()
    for broker in brokers.brokers:
        broker.hangs_on = frozenset({"ListGroupsRequest"})
    enrich = "groups=10m,configs=10m,reassignments=600ms"
    with recorded(kept, brokers, enrich=enrich, kind_ms=2_000, pollInterval="300ms"):
        kept.until(lambda: "configs" in {kind for each in kept.entries for kind in each.outcomes})
        asked = len([each for each in brokers.asked if each.request == "DescribeConfigsRequest"])
        seen = len(kept.entries)
        changed(brokers)
        kept.until(lambda: len(kept.entries) >= seen + 4)
        threads = [each.name for each in threading.enumerate() if each.name == "c0: questions"]
        kept.until(lambda: any("groups" in each.outcomes for each in kept.entries))
        hung = len(kept.entries)
        kept.until(lambda: any("configs" in each.outcomes for each in kept.entries[hung - 1 :]))
    assert threads == ["c0: questions"]
    (groups,) = [row for each in kept.entries for row in each.rows if row["kind"] == "groups"]
    later = [
        row
        for each in kept.entries[seen:]
        for row in each.rows
        if row["kind"] in {"configs", "reassignments"}
    ]
    given_up = groups["asked_at"] + timedelta(seconds=1.9)
    assert all(row["asked_at"] >= given_up for row in later), "one thread asks"
    assert len([row for row in later if row["kind"] == "configs"]) == 1
    now = len([each for each in brokers.asked if each.request == "DescribeConfigsRequest"])
    assert now == asked + 1


def test_an_entry_is_written_as_soon_as_its_questions_are_answered(brokers):
    kept = Kept()
    with recorded(kept, brokers, enrich="groups=10m,configs=10m", pollInterval="30s"):
        kept.until(lambda: kept.entries)
    (entry,) = kept.entries
    assert entry.outcomes == {"groups": "ok", "configs": "ok"}
    assert written_after_s(entry) < 0.5


def test_clusters_that_wait_for_answers_hold_no_slot_of_those_that_decode():
    """As many clusters as have a slot, and one more, whose metadata is large."""
    kept = Kept()
    with ByteCluster(3) as large:
        body = encoded(large.made(orders=[(1, (0, 1, 2))] * 7_000), 12, None)
        assert len(body) > SMALL_BYTES
        for broker in large.brokers:
            broker.hangs_on, broker.odd = frozenset({"ListGroupsRequest"}), body
        with recorded(kept, *[large] * 5, is_once=True, enrich="groups=10m", kind_ms=4_000):
            kept.until(lambda: len(kept.entries) >= 5, 30)
    received = [each.header["received_at"] for each in kept.entries]
    assert (max(received) - min(received)).total_seconds() < 3


def test_an_entry_waits_for_no_question_that_is_stumbled_over(brokers, caplog):
    class Stumbles:
        def answers(self, about, address):
            raise ZeroDivisionError("a bug")

    options = parse({"kafka.bootstrap.servers": brokers.servers(), "enrich": "groups=1s"})
    cluster, kept = options.clusters[0], Kept()
    entries = Entries("c0", 1_000, options, kept, None)
    thread = QuestionThread("c0", options.polling["default"], options, Stumbles(), entries)
    with Poller(cluster, options.topic_filter, 5_000) as poller:
        for after_ms in (0, 1_000):
            poll = poller.poll()
            with entries.changed:
                entries.make(time.monotonic(), poll)
                about = thread.take_due(after_ms, poll.metadata, has_news=False)
                entries.await_kinds(about.enrichments)
                thread.ask(about, poller.answerer)
                begin = time.monotonic()
                entries.wait(20)
                assert time.monotonic() - begin < 10
                entries.write()
            assert thread.join(time.monotonic() + 10)
    assert [each.outcomes for each in kept.entries] == [{}, {}]
    assert caplog.text.count("cluster c0: the questions beside the poll failed") == 2
