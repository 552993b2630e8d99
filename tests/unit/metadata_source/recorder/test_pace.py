"""When a batch begins: by news, by what may be waited for, by time and by size. No clock but the
test's.
"""

import pytest

from metadata_source.recorder import pace as paces
from metadata_source.recorder.news import News
from metadata_source.recorder.pace import FOLLOWS_S, Pace
from metadata_source.recorder.spool import Entry

QUIET, FOLLOWS, NEWS = News.QUIET, News.FOLLOWS, News.NEWS


class Query:
    """Spark, which asks for batches; the wall clock is `ahead_s` of the other one."""

    def __init__(self, commit_interval_s: float = 60.0, min_commit_interval_s: float = 1.0) -> None:
        self.pace = Pace(commit_interval_s, min_commit_interval_s)
        self.entries: list[Entry] = []
        self.now = 100.0
        self.ahead_s = 1_780_000_000.0
        self.seq = 0

    def add(self, news: News, *, late_s: float = 0.0, size: int = 10) -> None:
        """Append an entry of a poll that was due so long ago."""
        at_ms = round((self.now + self.ahead_s - late_s) * 1000)
        self.seq += 1
        self.entries.append(
            Entry(self.seq, "east", self.seq, at_ms, news, False, True, "run", 1, 0, size, 1, 0)
        )

    def ask(self) -> None:
        self.pace.ask(self.now)

    def is_due(self) -> bool:
        return self.pace.is_due(self.entries, self.now, round((self.now + self.ahead_s) * 1000))

    def waits(self, most_s: float = 200.0, step_s: float = 0.1) -> float:
        """How long until a batch of what is there begins, s; it is taken."""
        begin = self.now
        while not self.is_due():
            self.now += step_s
            assert self.now - begin < most_s
        self.pace.begin(self.now)
        self.entries = []
        return round(self.now - begin, 6)


def test_nothing_begins_without_an_entry():
    query = Query()
    query.ask()
    for _ in range(10):
        query.now += 100
        assert not query.is_due()


def test_news_begin_a_batch_at_once_and_quiet_entries_after_a_while():
    query = Query()
    query.add(NEWS)
    query.ask()
    assert query.waits() == 0
    query.ask()
    query.add(QUIET)
    assert 59.9 < query.waits() < 60.3
    query.ask()
    query.add(QUIET)
    query.waits(step_s=1.0)
    query.ask()
    query.now += 20
    query.add(QUIET)
    assert not query.is_due()
    query.now += 10
    query.add(NEWS)
    assert query.waits() == 0


def test_the_oldest_entry_says_when_not_the_newest():
    query = Query(commit_interval_s=10)
    query.ask()
    for _ in range(9):
        query.add(QUIET)
        assert not query.is_due()
        query.now += 1
    assert 0.9 < query.waits() < 1.3


def test_entries_for_which_history_may_wait_go_within_seconds():
    query = Query()
    query.ask()
    query.add(QUIET)
    query.is_due()
    query.now += 3
    query.add(FOLLOWS)
    assert FOLLOWS_S - 0.1 < query.waits() < FOLLOWS_S + 0.3


def test_time_that_an_entry_waited_while_the_batch_before_was_made_counts():
    query = Query()
    query.ask()
    query.add(NEWS)
    query.waits()
    query.now += 1
    query.add(FOLLOWS)
    query.now += 3
    query.ask()
    assert 1.9 < query.waits() < 2.3


def test_a_clock_that_is_set_makes_no_entry_old_and_keeps_none_waiting():
    query = Query(commit_interval_s=30)
    query.ask()
    query.is_due()
    query.now += 1
    query.ahead_s += 3_600
    query.add(QUIET, late_s=3_600)
    assert 28.9 < query.waits() < 30.3, "it came after the last look"
    query.ask()
    query.ahead_s -= 7_200
    query.add(QUIET, late_s=-7_200)
    assert 29.9 < query.waits() < 30.3


def test_what_a_query_finds_when_it_begins_is_as_old_as_it_says():
    query = Query()
    query.add(QUIET, late_s=300)
    query.ask()
    assert query.waits() == 0


def test_batches_are_apart_and_more_so_in_a_burst():
    query = Query()
    query.add(NEWS)
    query.ask()
    query.waits()
    query.now += 0.3
    query.add(NEWS)
    query.ask()
    assert 0.6 < query.waits() < 0.9, "a second after the last one began"
    query.now += 3
    query.add(NEWS)
    query.ask()
    assert 2.9 < query.waits() < 3.3, (
        "twice the three seconds of the last one: batches follow each other"
    )
    query.now += 8
    query.add(NEWS)
    query.ask()
    assert 1.9 < query.waits() < 2.3, "ten seconds at most"
    query.now += 3
    query.ask()
    query.is_due()
    query.now += 0.1
    query.add(NEWS)
    assert query.waits() == 0, "Spark had to wait: no burst any more"


def test_two_batches_in_a_row_are_a_burst():
    query = Query()
    query.add(NEWS)
    query.ask()
    assert query.waits() == 0
    query.now += 3
    query.add(NEWS)
    query.ask()
    assert query.waits() == pytest.approx(3, abs=0.15), "twice the time of the first one"


def test_a_first_event_after_a_quiet_time_does_not_wait_for_its_second():
    query = Query()
    for _ in range(2):
        query.ask()
        query.is_due()
        query.now += 30
        query.add(NEWS)
        assert query.waits() == 0
        query.now += 4
        query.add(NEWS)
        query.ask()
        assert query.waits() == 0
        query.now += 4


def test_a_lot_begins_a_batch(monkeypatch):
    monkeypatch.setattr(paces, "BATCH_BYTES", 1_000)
    query = Query()
    for _ in range(2):
        query.pace.begin(query.now, has_left=True)
        query.ask()
        assert not query.is_due(), "the rest may be gone"
        query.add(QUIET, size=600)
        assert query.waits() == 0, "the rest was due with it"
        query.ask()
        query.add(QUIET, size=600)
        assert not query.is_due()
        query.add(QUIET, size=600)
        assert query.waits() == 0
