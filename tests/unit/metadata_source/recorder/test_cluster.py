"""Clusters of byte brokers, recorded: each beat kept, what is asked beside, key frames, and
whatever goes wrong.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from metadata_source.recorder import cluster as cluster_module
from metadata_source.recorder import entries as entries_module
from metadata_source.recorder.news import News
from metadata_source.schedule import day_of
from tests.support.byte_cluster import ByteCluster
from tests.support.kept import Entry, Kept
from tests.support.recorded_clusters import TOPICS, changed, recorded, two_groups, wait_for_answers


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    with two_groups() as found:
        yield found


def check_beat(entries: list[Entry], interval_ms: int) -> list[int]:
    """When the polls were due: none of the beat is left out."""
    dues = [each.at_ms for each in entries]
    steps = [after - before for before, after in pairwise(dues)]
    assert all(abs(step - interval_ms) <= 5 for step in steps), steps
    return dues


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
    dues = check_beat(entries, 1_000)
    assert [round(header["scheduled_at"].timestamp() * 1000) for header in headers] == dues
    assert all(header["sent_at"] >= header["scheduled_at"] for header in headers)
    assert [each.is_key_frame for each in entries] == [True] + [False] * (len(entries) - 1)
    assert entries[0].topics == [*TOPICS]
    assert [each.topics for each in entries[1:] if each.topics] == [["orders"]]
    assert [each.news for each in entries][:2] == [News.NEWS, News.FOLLOWS]
    assert [each.news for each in entries if each.topics] == [News.NEWS] * 2
    assert {row["day"] for each in entries for row in each.rows} == {day_of(dues[0])}
    assert max(broker.connections for broker in brokers.brokers) <= 1, "they are kept"


def test_ticks_that_pass_while_a_poll_runs_are_overlapped(brokers):
    kept = Kept()
    for broker in brokers.brokers:
        broker.late_s = 0.5
    with recorded(kept, brokers, pollInterval="200ms"):
        kept.until(lambda: sum(each.ok for each in kept.entries) >= 3)
    assert {each.header["error_kind"] for each in kept.entries} == {None, "overlapped"}
    good = [number for number, each in enumerate(kept.entries) if each.ok]
    assert all(after - before >= 3 for before, after in pairwise(good)), "each takes half a second"
    overlapped = [each for each in kept.entries if not each.ok]
    assert {each.header["attempts"] for each in overlapped} == {0}
    assert {each.header["sent_at"] for each in overlapped} == {None}
    check_beat(kept.entries, 200)


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
    with recorded(kept, brokers, pollInterval="300ms"):
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
        kept.until(lambda: kept.refused)
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
        kept.until(lambda: len({day_of(each.at_ms) for each in kept.entries}) == 2)
        seen = len(kept.entries)
        kept.until(lambda: len(kept.entries) > seen + 1)
        days = [day_of(each.at_ms) for each in kept.entries if each.ok]
        first = days.index(days[-1])
        assert first >= 2
        keys = [each.is_key_frame for each in kept.entries if each.ok]
        assert [number for number, is_key in enumerate(keys) if is_key] == [0, first]
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
    begin, following = (each.at_ms for each in kept.entries[:2])
    assert following - begin >= 3 * 400 - 5, "ticks that passed are not made up for"


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
        kept.until(lambda: any("groups" in each.outcomes for each in kept.entries))
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


def test_an_entry_is_written_as_soon_as_its_questions_are_answered(brokers, monkeypatch):
    wait_for_answers(monkeypatch, 600)
    kept = Kept()
    with recorded(kept, brokers, enrich="groups=10m,configs=10m", pollInterval="30m"):
        kept.until(lambda: kept.entries)
    (entry,) = kept.entries
    assert entry.outcomes == {"groups": "ok", "configs": "ok"}
