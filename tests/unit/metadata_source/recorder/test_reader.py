"""The stream's reader over spools that tests write: no recorder and no Spark."""

import json
import shutil
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from metadata_source.columns.polls import POLLS
from metadata_source.datasource import KafkaMetadataSource
from metadata_source.errors import OptionsError
from metadata_source.recorder import pace, segments, spool
from metadata_source.recorder.news import News
from metadata_source.recorder.offsets import Offset
from metadata_source.recorder.spool import Spool, Spooled, SpoolError
from metadata_source.recorder.start import Hold
from tests.support.spool_query import OPTIONS, Clock, Query, headers, once, polls_once
from tests.support.spools import BEGIN_MS, opened, record

NEWS, FOLLOWS = News.NEWS, News.FOLLOWS


@pytest.fixture
def written(tmp_path) -> Spool:
    return opened(tmp_path / "spool", run="first")


@pytest.fixture
def clock(monkeypatch) -> Clock:
    return Clock(monkeypatch)


def test_polls_come_with_their_numbers_and_what_is_news_at_once(written, clock):
    for number in range(3):
        record(written, "east", number, key=number == 0, rows=2)
    record(written, "west", 1, key=True, news=NEWS)
    query = Query(written.folder)
    rows = query.batch()
    assert clock.now_s == 0
    assert headers(rows) == [
        ("east", 0, "east@0"),
        ("east", 1, "east@1"),
        ("east", 2, "east@2"),
        ("west", 0, "west@1"),
    ]
    assert {(row["n"], row["topic"]) for row in rows if row["record"] == "topic"} == {
        (n, f"topic-{each}") for n in range(3) for each in range(2)
    }
    (stream,) = {row["stream"] for row in rows}
    assert stream.startswith(f"{datetime.fromtimestamp(BEGIN_MS / 1000, UTC):%Y%m%dT%H%M%SZ}-"), (
        "since its first poll"
    )
    assert query.offset["from"] == BEGIN_MS
    assert query.offset["to"] == BEGIN_MS + 2_000
    clock.then(0.3, lambda: record(written, "west", 2, news=NEWS))
    rows = query.batch()
    assert 0.3 <= clock.now_s < 0.5
    assert headers(rows) == [("west", 1, "west@2")]
    assert {row["stream"] for row in rows} == {stream}


def test_a_late_poll_of_a_slow_cluster_is_read(written):
    record(written, "east", 0, key=True)
    record(written, "west", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.batch()
    for number in range(1, 4):
        record(written, "east", number, news=NEWS)
    query.batch()
    record(written, "west", 1, news=NEWS)
    assert headers(query.batch()) == [("west", 1, "west@1")]


def test_polls_for_which_history_may_wait_are_passed_on_soon_and_quiet_ones_later(written, clock):
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder, commitInterval="40s")
    query.batch()
    for news, seconds in ((FOLLOWS, 5), (News.QUIET, 40)):
        record(written, "east", clock.now_s, news=news)
        begin = clock.now_s
        assert len(query.batch()) == 1
        assert seconds <= clock.now_s - begin < seconds + 0.2


def test_a_batch_that_is_run_again_has_the_same_rows_also_by_a_reader_that_was_asked_nothing_before(
    written,
):
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.batch()
    record(written, "east", 1, news=NEWS, rows=3)
    record(written, "west", 1, key=True)
    start, end = query.offset, query.plan()
    rows = query.read(end)
    record(written, "east", 2, news=NEWS)
    again = Query(written.folder, start, clientHashKey="env:OTHER", commitInterval="5m")
    assert again.read(end) == rows == query.read(end)
    assert headers(rows) == [("east", 1, "east@1"), ("west", 0, "west@1")]
    again.offset = end
    assert headers(again.batch()) == [("east", 2, "east@2")]


def test_a_commit_that_never_came_is_made_up_for_by_the_next_batch(written, monkeypatch):
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", 1)
    query = Query(written.folder)
    for number in range(4):
        record(written, "east", number, key=number == 0, news=NEWS)
        query.batch(commits=False)
        record(written, "west", number, key=number == 0)
        entries = Spooled(written.folder).after(0)
        of_batch = range(max(1, 2 * number), 2 * number + 2)
        assert [entry.seq for entry in entries] == [*of_batch, 2 * number + 2], (
            "the batch is there to run again"
        )
    query.reader.commit(query.offset)
    assert [entry.seq for entry in Spooled(written.folder).after(0)] == [8]
    assert [row["n"] for row in query.rows if row["cluster"] == "east"] == [0, 1, 2, 3]


def test_a_batch_that_is_run_again_says_what_was_committed_before_it(written):
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.batch(commits=False)
    record(written, "east", 1, news=NEWS)
    start, end = query.offset, query.plan()
    (written.folder / "committed.json").unlink()
    Query(written.folder, start).read(end)
    assert Spooled(written.folder).committed == 1


def test_an_offset_names_nothing_that_a_power_cut_takes(written, monkeypatch):
    synced = []
    monkeypatch.setattr(spool, "sync_file", lambda path: synced.append(path.name))
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.plan()
    assert synced == ["00000001.arrows", "00000001.index", written.folder.name]
    record(written, "east", 1, news=NEWS)
    query.plan()
    assert synced[3:] == ["00000001.arrows", "00000001.index"]


def test_a_segment_that_is_lost_in_the_middle_is_told_and_nothing_is_had_until_a_key_frame(
    written, monkeypatch
):
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", 1)
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.batch()
    for number in range(1, 7):
        record(written, "east", number, key=number == 5)
    record(written, "west", 6, key=True, news=NEWS)
    (written.folder / "00000003.arrows").unlink()
    rows = query.batch()
    assert headers(rows) == [
        ("east", 1, "east@1"),
        ("east", 4, "lost"),
        ("east", 5, "east@5"),
        ("east", 6, "east@6"),
        ("west", 0, "west@6"),
    ]
    (gap,) = [row for row in rows if row["outcome"] == "failed"]
    assert gap["error"] == (
        "3 polls recorded here, and the spool has lost them, or the polls whose differences they "
        "are"
    )
    assert gap["scheduled_at"] == datetime.fromtimestamp(BEGIN_MS / 1000 + 4, UTC)
    assert gap["day"] == gap["scheduled_at"].date()
    assert gap["attempts"] is gap["sent_at"] is gap["cluster_id"] is None


def test_a_poll_whose_bytes_are_not_as_they_were_written_is_lost(written):
    for number in range(4):
        record(written, "east", number, key=number in {0, 3}, news=NEWS)
    second = Spooled(written.folder).after(1)[0]
    with (written.folder / "00000001.arrows").open("r+b") as file:
        file.seek(second.end - 1)
        file.write(b"\xff")
    query = Query(written.folder)
    end = query.plan()
    rows = query.read(end)
    assert headers(rows) == [("east", 0, "east@0"), ("east", 2, "lost"), ("east", 3, "east@3")]
    assert Query(written.folder, query.offset).read(end) == rows
    assert query.read(end) == rows


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_batch_that_has_lost_its_end_when_it_is_run_again_is_followed_from_a_key_frame_on(
    written, monkeypatch, is_restarted
):
    monkeypatch.setattr(spool, "_SEGMENT_BYTES", 1)
    query = Query(written.folder)
    record(written, "east", 0, key=True)
    record(written, "west", 0, key=True)
    record(written, "east", 1, news=NEWS)
    end = query.plan()
    (written.folder / "00000003.arrows").unlink()
    again = Query(written.folder, query.offset)
    assert headers(again.read(end)) == [
        ("east", 0, "east@0"),
        ("east", 1, "lost"),
        ("west", 0, "west@0"),
    ]
    again = Query(written.folder, end) if is_restarted else again
    again.offset = end
    for number in (2, 3, 4):
        record(written, "east", number, key=number == 3, news=NEWS)
        record(written, "west", number, key=number == 3)
    following = again.plan()
    rows = again.read(following)
    assert headers(rows)[:3] == [("east", 2, "lost"), ("east", 3, "east@3"), ("east", 4, "east@4")]
    assert Query(written.folder, end).read(following) == rows, "by the offsets alone"


def test_a_spool_that_was_removed_is_told_and_another_one_follows(written, tmp_path):
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.batch()
    record(written, "east", 1, news=NEWS)
    record(written, "west", 1, key=True)
    start, end = query.offset, query.plan()
    written.close()
    shutil.rmtree(written.folder)
    again = Query(written.folder, start)
    assert headers(again.read(end)) == [("east", 1, "lost"), ("west", 0, "lost")]
    new = opened(written.folder)
    record(new, "east", 5, key=True, news=NEWS)
    record(new, "west", 5, key=True)
    assert again.read(end) == query.read(end)
    again.offset = end
    assert headers(again.batch()) == [("east", 2, "east@5"), ("west", 1, "west@5")]


def test_a_spool_of_another_machine_is_handed_over(written, tmp_path):
    """A on, B elsewhere, A again."""
    record(written, "east", 0, key=True, news=NEWS)
    here = Query(written.folder)
    here.batch()
    for number in (1, 2):
        record(written, "east", number, news=NEWS)
        record(written, "west", number, key=number == 1)
    there = Query(tmp_path / "there", here.offset)
    other = opened(tmp_path / "there")
    record(other, "east", 3, key=True, news=NEWS)
    assert headers(there.batch()) == [("east", 1, "east@3")]
    again = Query(written.folder, there.offset)
    record(written, "east", 4, key=True, news=NEWS)
    record(written, "east", 5)
    record(written, "west", 4, key=True)
    rows = again.batch()
    assert headers(rows) == [
        ("east", 3, "handed_over"),
        ("east", 4, "east@4"),
        ("east", 5, "east@5"),
        ("west", 1, "handed_over"),
        ("west", 2, "west@4"),
    ]
    assert {row["error"] for row in rows if row["outcome"] == "failed"} == {
        (
            "2 polls recorded here, and not committed before another machine, or another stream, "
            "took over"
        )
    }
    record(written, "west", 6, news=NEWS)
    assert headers(again.batch()) == [("west", 3, "west@6")]


def test_what_was_committed_before_another_machine_took_over_is_not_handed_over(written, tmp_path):
    record(written, "east", 0, key=True, news=NEWS)
    here = Query(written.folder)
    here.batch()
    other = opened(tmp_path / "there")
    record(other, "east", 1, key=True, news=NEWS)
    there = Query(tmp_path / "there", here.offset)
    there.batch()
    record(written, "east", 2, key=True, news=NEWS)
    assert headers(Query(written.folder, there.offset).batch()) == [("east", 2, "east@2")]


def test_a_machine_whose_clock_was_ahead_keeps_nobodys_polls_out_for_long(written, tmp_path, clock):
    other = opened(tmp_path / "there")
    record(other, "east", 86_400, key=True, news=NEWS)
    there = Query(tmp_path / "there")
    there.batch()
    query = Query(written.folder, there.offset)
    record(written, "east", 0, key=True)
    record(written, "east", 5, key=True, news=NEWS)
    assert headers(query.batch()) == [("east", 1, "handed_over"), ("east", 2, "east@5")]


def test_a_new_stream_takes_what_there_is_and_after_another_one_what_this_run_recorded(written):
    record(written, "east", 0, key=True)
    record(written, "east", 1)
    written.close()
    again = opened(written.folder, run="second")
    record(again, "east", 2, key=True, news=NEWS)
    assert headers(Query(written.folder).batch()) == [
        ("east", 0, "east@0"),
        ("east", 1, "east@1"),
        ("east", 2, "east@2"),
    ]


def test_a_new_stream_after_another_one_takes_what_this_run_recorded(written):
    record(written, "east", 0, key=True)
    record(written, "east", 1)
    written.close()
    again = opened(written.folder, run="second")
    record(again, "east", 2, key=True, news=NEWS)
    newest = "29990101T000000Z-00000000"
    rows = Query(written.folder, newestStream=newest).batch()
    assert headers(rows) == [("east", 1, "handed_over"), ("east", 2, "east@2")]
    assert {row["stream"] > newest for row in rows} == {True}


def test_a_new_stream_after_another_one_takes_nothing_before_this_run_records(written, monkeypatch):
    """Else polls of a run before, which the lake has, would come twice."""
    record(written, "east", 0, key=True, news=NEWS)
    written.close()
    monkeypatch.setattr(Hold, "attach", lambda _: None)
    clock = Clock(monkeypatch)
    query = Query(written.folder, newestStream="29990101T000000Z-00000000", recorder="of-this-run")

    def begin() -> None:
        again = opened(written.folder, token="of-this-run", run="second")  # noqa: S106 - no password
        record(again, "east", 2, key=True, news=NEWS)

    clock.then(0.5, begin)
    query.batch()
    assert headers(query.rows) == [("east", 0, "handed_over"), ("east", 1, "east@2")]


def test_a_checkpoint_whose_stream_is_older_than_the_newest_is_refused(written):
    """History would take none of its polls, and nobody would be told."""
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.batch()
    own, newer = query.offset["stream"], "29990101T000000Z-00000000"
    record(written, "east", 1, news=NEWS)
    assert Query(written.folder, query.offset, newestStream=own).plan()["stream"] == own
    with pytest.raises(
        OptionsError,
        match=rf"newer stream \({newer}\) than this checkpoint's \({own}\).*: remove the",
    ):
        Query(written.folder, query.offset, newestStream=newer).plan()


def test_polls_by_a_doubted_clock_are_left_out_if_the_recorder_did_not_know(written):
    for number in range(4):
        record(written, "east", number, key=number == 0, ok=number != 2, news=NEWS)
    between = "/".join(
        datetime.fromtimestamp(BEGIN_MS / 1000 + at, UTC).isoformat() for at in (-1, 10)
    )
    query = Query(written.folder, doubtedClock=between, knownIds='{"east": "abc"}')
    assert headers(query.batch()) == [
        ("east", 1, "clock"),
        ("east", 2, "east@2"),
        ("east", 3, "clock"),
    ]
    facts = json.loads((written.folder / "facts.json").read_text())
    assert facts == {
        "token": "token",
        "cluster_ids": {"east": "abc"},
        "doubted_clock": [BEGIN_MS / 1000 - 1, BEGIN_MS / 1000 + 10],
    }
    record(written, "east", 11, key=True, news=NEWS)
    query = Query(written.folder, query.offset)
    assert headers(query.batch()) == [("east", 4, "east@11")]
    facts = json.loads((written.folder / "facts.json").read_text())
    assert facts == {"token": "token", "cluster_ids": {}, "doubted_clock": None}


def test_a_batch_is_cut_where_it_would_be_too_much_and_so_are_its_tasks(
    written, monkeypatch, clock
):
    size = 13_500
    monkeypatch.setattr("metadata_source.recorder.batches.BATCH_BYTES", 6 * size)
    monkeypatch.setattr(pace, "BATCH_BYTES", 6 * size)
    monkeypatch.setattr(segments, "PACK_BYTES", 2 * size)
    for number in range(15):
        record(written, "east", number, key=number == 0)
    query = Query(written.folder)
    found = []
    for _ in range(3):
        end = query.plan()
        tasks = query.reader.partitions(query.offset, end)
        found.append([len(task.polls) for task in tasks])
        assert all(len(task.data) < 3 * size for task in tasks)
        query.offset = end
    assert [sum(tasks) for tasks in found] == [6, 6, 3]
    assert clock.now_s < 1, "the rest was due with it"
    assert found[0] == [2, 2, 2]


def test_rows_come_in_few_batches(written):
    for number in range(300):
        record(written, "east", number, key=number == 0, news=NEWS)
    query = Query(written.folder)
    (task,) = query.reader.partitions(query.offset, query.plan())
    (rows,) = query.reader.read(task)
    assert rows.schema.equals(POLLS)
    assert rows["n"].to_pylist() == [*range(300)]


def test_an_offset_of_before_is_refused(written):
    with pytest.raises(
        SpoolError,
        match="the checkpoint holds an offset of version 2, and this is version 3: remove",
    ):
        Query(written.folder, {"version": 2, "stream": None}).plan()


def test_readers_that_only_plan_tasks_make_nothing(tmp_path):
    source = KafkaMetadataSource(OPTIONS | {"spool": str(tmp_path / "spool")})
    reader = source.streamReader(source.schema())
    assert Offset.from_json(reader.initialOffset()) == Offset()
    reader.stop()
    assert [*tmp_path.iterdir()] == []


def test_a_run_that_polls_once_takes_what_is_there_and_one_more_poll(written, monkeypatch):
    record(written, "east", 0, key=True)
    record(written, "east", 1)
    written.close()
    once(monkeypatch, [lambda _: 1, polls_once])
    query = Query(written.folder, recorder="of-this-run")
    query.reader.prepareForTriggerAvailableNow()
    rows = query.batch()
    assert headers(rows) == [
        ("east", 0, "east@0"),
        ("east", 1, "east@1"),
        ("east", 2, "east@9"),
        ("west", 0, "west@9"),
    ]
    later = opened(written.folder, run="later")
    record(later, "east", 20, news=NEWS, key=True)
    assert query.plan() == query.offset
    assert query.reader.partitions(query.offset, query.offset) == []


def test_a_run_that_polls_once_has_batches_of_no_more_than_they_may_be(written, monkeypatch):
    monkeypatch.setattr("metadata_source.recorder.batches.BATCH_BYTES", 29_000)
    for number in range(5):
        record(written, "east", number, key=number == 0)
    written.close()
    once(monkeypatch, [polls_once])
    query = Query(written.folder, recorder="of-this-run")
    query.reader.prepareForTriggerAvailableNow()
    sizes = []
    while (end := query.plan()) != query.offset:
        sizes.append(len(query.read(end)))
        query.offset = end
    assert sizes == [2, 2, 2, 1]


def test_a_batch_of_a_stream_that_was_never_asked_before_has_no_spool_to_read(written):
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    end = query.plan()
    source = KafkaMetadataSource(OPTIONS)
    stream = source.streamReader(source.schema())
    (task,) = stream.partitions(query.offset, end)
    assert headers(pa.Table.from_batches(stream.read(task), POLLS).to_pylist()) == [
        ("east", 0, "lost")
    ]
