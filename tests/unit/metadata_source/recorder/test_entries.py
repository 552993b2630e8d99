"""Entries of one cluster, made of polls and answers of brokers that speak bytes: when each is
written, with which answers, and what becomes of those that find no room.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from metadata_source.enrichment import Answer, subject
from metadata_source.options import Options, parse
from metadata_source.poll import OVERLAPPED, Poll
from metadata_source.poller import Poller
from metadata_source.recorder.entries import Entries
from metadata_source.recorder.news import News
from metadata_source.schedule import day_of
from tests.support.byte_cluster import ByteCluster
from tests.support.kept import Kept
from tests.support.recorded_clusters import TOPICS, changed, two_groups

FAILED = Poll(error_kind="unreachable", error="one:9092: connection refused")
DAY_S = 86_400


@dataclass
class Made:
    """Entries, the broker bytes that they are made of, and the sink that has them."""

    entries: Entries
    kept: Kept
    brokers: ByteCluster
    options: Options
    poller: Poller

    def poll(self) -> Poll:
        found = self.poller.poll()
        assert found.error is None
        return found

    def changed(self, epoch: int) -> Poll:
        """A poll after a leader of topic `orders` was elected."""
        changed(self.brokers, epoch)
        return self.poll()

    def answers(self, *kinds: str) -> list[Answer]:
        """Answers of the brokers to these questions, in the order in which they were given."""
        poll = self.poll()
        with closing(self.poller.asking(60_000)) as asking:
            return list(asking.answers(subject(kinds, poll.metadata), self.poller.answerer))

    def write(self, due_s: float, poll: Poll, *answers: Answer) -> None:
        self.entries.make(due_s, poll)
        for each in answers:
            self.entries.add(each)
        self.entries.write()


@pytest.fixture
def made() -> Iterator[Made]:
    with two_groups() as brokers:
        options = parse({"kafka.bootstrap.servers": brokers.servers()})
        kept = Kept()
        entries = Entries("c0", 1_000, options, kept, None)
        cluster = options.clusters[0]
        with Poller(cluster, options.topic_filter, 60_000, needs_id=True) as poller:
            yield Made(entries, kept, brokers, options, poller)


def waits(made: Made) -> threading.Thread:
    """A thread that waits for the answers of the entry that was made."""
    thread = threading.Thread(target=made.entries.wait, args=(None,), daemon=True)
    thread.start()
    return thread


def test_an_entry_waits_for_its_answers_and_no_longer(made):
    groups, configs = sorted(
        made.answers("groups", "configs"), key=lambda answer: answer.enrichment, reverse=True
    )
    made.entries.make(time.monotonic(), made.poll())
    made.entries.await_kinds(("groups", "configs"))
    begin = time.monotonic()
    made.entries.wait(0.2)
    assert time.monotonic() - begin >= 0.2, "nobody answers"
    thread = waits(made)
    made.entries.add(configs)
    thread.join(0.2)
    assert thread.is_alive(), "until the last one"
    made.entries.add(groups)
    thread.join(60)
    assert not thread.is_alive()
    made.entries.write()
    (entry,) = made.kept.entries
    assert entry.outcomes == {"groups": "ok", "configs": "ok"}


def test_an_entry_whose_questions_nobody_asks_waits_for_none(made):
    made.entries.make(time.monotonic(), made.poll())
    made.entries.await_kinds(("groups",))
    thread = waits(made)
    made.entries.await_kinds(())
    thread.join(60)
    assert not thread.is_alive()


def test_late_answers_go_once_and_with_a_good_poll_in_the_order_in_which_they_were_given(made):
    first, second, third = made.answers("groups", "configs", "reassignments")
    due_s = time.monotonic()
    made.write(due_s, made.poll())
    made.entries.add(second)
    made.entries.add(first)
    made.write(due_s + 1, OVERLAPPED)
    made.write(due_s + 2, FAILED)
    made.entries.make(due_s + 3, made.poll())
    made.entries.await_kinds((third.enrichment,))
    made.entries.add(third)
    made.entries.write()
    made.write(due_s + 4, made.poll())
    kinds = [list(each.outcomes) for each in made.kept.entries]
    assert kinds == [[], [], [], [first.enrichment, second.enrichment, third.enrichment], []]


@pytest.mark.parametrize("fails", [False, True])
def test_of_a_late_answer_and_the_poll_s_own_the_newest_good_one_is_kept(made, fails):
    """Their rows could not be told apart: each group's lag would count twice."""
    (late,) = made.answers("groups")
    made.brokers.brokers[0].groups = ("billing", "new")
    (own,) = made.answers("groups")
    if fails:
        own = replace(own, outcome="failed: no answer", rows=None)
    due_s = time.monotonic()
    made.write(due_s, made.poll())
    made.entries.add(late)
    made.entries.make(due_s + 1, made.poll())
    made.entries.await_kinds(("groups",))
    made.entries.add(own)
    made.entries.write()
    made.write(due_s + 2, made.poll())
    _, entry, last = made.kept.entries
    assert [row["kind"] for row in entry.rows if row["record"] == "answer"] == ["groups"]
    groups = sorted(each["group_id"] for row in entry.rows for each in row["groups"] or ())
    assert groups == (["billing", "shipping"] if fails else ["billing", "new", "shipping"])
    assert last.outcomes == {}


def test_an_answer_that_came_with_a_poll_that_failed_waits_for_a_good_one(made):
    (groups,) = made.answers("groups")
    due_s = time.monotonic()
    made.entries.make(due_s, FAILED)
    made.entries.add(groups)
    made.entries.write()
    made.write(due_s + 1, made.poll())
    assert [list(each.outcomes) for each in made.kept.entries] == [[], ["groups"]]


def test_a_key_frame_comes_five_minutes_after_the_last_one(made):
    due_s = time.monotonic() + 10 * DAY_S
    due_s += 60 - (wall_s(due_s) % DAY_S) + DAY_S  # a minute of a day has passed
    polls = [(0, True), (1, False), (299, False), (301, True), (302, False), (602, True)]
    for after_s, _ in polls:
        made.write(due_s + after_s, made.poll())
    assert [each.is_key_frame for each in made.kept.entries] == [is_key for _, is_key in polls]
    assert [each.topics for each in made.kept.entries if each.is_key_frame] == [[*TOPICS]] * 3


def test_a_day_begins_with_a_key_frame_though_its_first_poll_failed(made):
    due_s = time.monotonic() + 10 * DAY_S
    due_s += DAY_S - 60 - (wall_s(due_s) % DAY_S)  # the last minute of a day
    for after_s, poll in ((0, made.poll()), (30, made.poll()), (61, FAILED), (62, made.poll())):
        made.write(due_s + after_s, poll)
    made.write(due_s + 63, made.poll())
    entries = made.kept.entries
    assert [each.is_key_frame for each in entries] == [True, False, False, True, False]
    days = [day_of(each.at_ms) for each in entries]
    assert days[0] == days[1] < days[2] == days[4]
    assert {row["day"] for each in entries[2:] for row in each.rows} == {days[2]}


def wall_s(due_s: float) -> float:
    return time.time() + due_s - time.monotonic()


def test_an_entry_is_of_the_time_at_which_its_poll_was_due(made):
    due_s = time.monotonic() - 2.5
    made.write(due_s, made.poll())
    (entry,) = made.kept.entries
    assert abs(entry.at_ms / 1000 - wall_s(due_s)) < 1
    header = entry.header
    assert (header["interval_ms"], header["scheduled_at"].timestamp() * 1000) == (
        1_000,
        pytest.approx(entry.at_ms),
    )


def test_the_polls_that_found_no_room_are_counted_up_to_the_last_one(made, caplog):
    due_s = time.monotonic()
    due_s += 0.5 - wall_s(due_s) % 1  # no clock's rounding makes it another second
    made.write(due_s, made.poll())
    made.kept.has_room = False
    for number in (1, 2, 3):
        made.write(due_s + number, made.changed(5 + number) if number == 2 else made.poll())
    assert made.kept.refused == 3
    assert caplog.text.count("the spool has no room") == 1
    made.kept.has_room = True
    made.write(due_s + 4, made.poll())
    made.write(due_s + 5, made.poll())
    _, full, whole, later = made.kept.entries
    begin, end = (time.strftime("%FT%TZ", time.gmtime(wall_s(due_s + n))) for n in (1, 3))
    assert full.header["error"].startswith(f"3 polls from {begin} to {end} found no room in the sp")
    assert (full.header["error_kind"], full.ok, full.is_key_frame, full.news) == (
        *("spool_full", False, False),
        News.NEWS,
    )
    assert abs(full.at_ms / 1000 - wall_s(due_s + 3)) < 0.5
    assert full.header["scheduled_at"].timestamp() * 1000 == pytest.approx(full.at_ms)
    assert (whole.is_key_frame, whole.topics, whole.news) == (True, [*TOPICS], News.NEWS)
    assert (later.is_key_frame, later.topics, later.news) == (False, [], News.FOLLOWS)
    made.kept.has_room = False
    made.write(due_s + 6, FAILED)
    made.kept.has_room = True
    made.write(due_s + 7, made.poll())
    assert made.kept.entries[4].header["error"].startswith("1 poll from ")
    assert caplog.text.count("the spool has no room") == 2


def test_the_newest_answer_of_each_kind_waits_for_room(made):
    first = made.answers("groups", "configs")
    made.brokers.brokers[0].groups = ("billing", "new")
    (newer,) = made.answers("groups")
    due_s = time.monotonic()
    made.write(due_s, made.poll())
    made.kept.has_room = False
    made.write(due_s + 1, made.poll(), *first)
    made.write(due_s + 2, FAILED)
    made.write(due_s + 3, made.poll(), newer)
    made.kept.has_room = True
    made.write(due_s + 4, FAILED)
    made.write(due_s + 5, made.poll())
    made.write(due_s + 6, made.poll())
    *_, failed, good, last = made.kept.entries
    assert (failed.outcomes, last.outcomes) == ({}, {})
    assert [row["kind"] for row in good.rows if row["record"] == "answer"] == ["configs", "groups"]
    groups = [each["group_id"] for row in good.rows for each in row["groups"] or ()]
    assert sorted(groups) == ["billing", "new", "shipping"]


def test_a_poll_that_found_no_room_is_not_what_the_next_one_is_compared_with(made):
    """Whether it is news, too."""
    due_s = time.monotonic()
    made.write(due_s, made.poll())
    made.write(due_s + 1, made.poll())
    made.kept.has_room = False
    made.write(due_s + 2, made.changed(6))
    made.kept.has_room = True
    made.entries.make(due_s + 3, made.poll())
    assert made.entries.has_news
    made.entries.write()
    made.entries.make(due_s + 4, made.poll())
    assert not made.entries.has_news
    made.entries.write()
    news = [each.news for each in made.kept.entries]
    assert news == [News.NEWS, News.FOLLOWS, News.NEWS, News.NEWS, News.FOLLOWS]


def test_news_are_followed_for_twelve_minutes_after_the_last_ones(made):
    due_s = time.monotonic()
    afters = (0, 719, 721, 722, 1_441, 1_443)
    for after_s in afters:
        made.write(due_s + after_s, made.changed(6) if after_s == 722 else made.poll())
    assert [each.news for each in made.kept.entries] == [
        *(News.NEWS, News.FOLLOWS, News.QUIET),
        *(News.NEWS, News.FOLLOWS, News.QUIET),
    ]


def test_a_poll_that_is_stumbled_over_leaves_no_earlier_one_to_be_written(made):
    due_s, good = time.monotonic(), made.poll()
    made.entries.make(due_s, good)
    with pytest.raises(pa.ArrowTypeError):
        made.entries.make(due_s + 1, replace(good, sent_at="no time"))
    made.entries.finish()
    assert made.kept.entries == []


def test_the_end_writes_what_waits_and_nothing_after(made, caplog):
    caplog.set_level(logging.INFO)
    configs, groups = made.answers("groups", "configs")
    due_s = time.monotonic()
    made.write(due_s, made.poll())
    made.entries.make(due_s + 1, made.poll())
    made.entries.await_kinds(("groups", "configs"))
    made.entries.add(groups)
    made.entries.finish()
    made.entries.add(configs)
    made.write(due_s + 2, made.poll())
    assert [list(each.outcomes) for each in made.kept.entries] == [[], ["groups"]]
    assert "are not recorded" not in caplog.text
    made.entries.finish()
    assert "answers after the last poll are not recorded: configs" in caplog.text
    assert len(made.kept.entries) == 2
