"""The spool of a stream while its query runs: its recorder, its driver, and its folder."""

import os
import threading
import time
from types import SimpleNamespace

import psutil
import pytest

from metadata_source.datasource import KafkaMetadataSource
from metadata_source.recorder import attended, folder
from metadata_source.recorder.attended import Attended
from metadata_source.recorder.news import News
from metadata_source.recorder.spool import Spool, SpoolError, TakenOverError
from tests.support.spool_query import OPTIONS, Query, headers, once, polls_once
from tests.support.spools import opened, record
from tests.support.waiting import eventually

NEWS = News.NEWS


@pytest.fixture
def written(tmp_path) -> Spool:
    return opened(tmp_path / "spool", run="first")


def test_another_run_that_takes_the_spool_over_ends_the_query(written, monkeypatch):
    monkeypatch.setattr(attended, "_CHECKED_EVERY_S", 0.0)
    record(written, "east", 0, key=True, news=NEWS)
    query = Query(written.folder)
    query.batch()
    written.close()
    opened(written.folder, token="other")  # noqa: S106 - no password
    with pytest.raises(
        TakenOverError,
        match=(
            f"another run has taken over the spool {written.folder}; nothing is lost, this one ends"
        ),
    ):
        query.plan()


def test_a_query_lets_the_recorder_know_that_it_is_there_while_a_batch_runs_too(
    written, monkeypatch
):
    monkeypatch.setattr(folder, "ATTENDED_EVERY_S", 0.02)
    record(written, "east", 0, key=True, news=NEWS)
    before = {*threading.enumerate()}
    query = Query(written.folder)
    query.batch()
    (attends,) = {*threading.enumerate()} - before
    file = written.folder / "attended"
    for _ in range(2):
        file.unlink(missing_ok=True)
        eventually(file.exists, "the file")
    query.reader.stop()
    attends.join(30)
    assert not attends.is_alive()


def test_a_run_that_polls_once_waits_for_a_recorder_of_its_own_that_still_polls(
    written, monkeypatch
):
    once(monkeypatch, [polls_once])
    record(written, "east", 0, key=True)
    query = Query(written.folder)
    query.reader.prepareForTriggerAvailableNow()
    ends = iter([lambda: record(written, "west", 1, key=True), written.close])
    clock = SimpleNamespace(sleep=lambda _: next(ends)(), monotonic=time.monotonic)
    monkeypatch.setattr(attended, "time", clock)
    assert headers(query.batch()) == [
        ("east", 0, "east@0"),
        ("east", 1, "east@9"),
        ("west", 0, "west@1"),
        ("west", 1, "west@9"),
    ]


def test_a_recorder_that_dies_again_and_again_ends_a_run_that_polls_once(written, monkeypatch):
    written.close()
    once(monkeypatch, [lambda _: 3] * 3)
    query = Query(written.folder, recorder="of-this-run")
    query.reader.prepareForTriggerAvailableNow()
    with pytest.raises(
        SpoolError, match="its recorder ended with status 3: its last line says why"
    ):
        query.plan()


def test_a_stream_without_a_folder_has_one_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setattr(attended, "mkdtemp", lambda prefix: str(tmp_path / prefix))
    (tmp_path / "kafka-metadata-spool-").mkdir()
    once(monkeypatch, [polls_once])
    source = KafkaMetadataSource(OPTIONS)
    stream = source.streamReader(source.schema())
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    end = stream.latestOffset(start, None)
    assert len(stream.partitions(start, end)) == 1
    stream.stop()
    assert [*tmp_path.iterdir()] == []


def test_the_query_ends_with_its_driver(written, monkeypatch):
    query = Query(written.folder)
    query.reader._attended = Attended(query.reader._options, {}, once=False)
    monkeypatch.setattr(os, "getppid", lambda: -1)
    with pytest.raises(RuntimeError, match="the Spark driver is gone"):
        query.plan()


def test_a_driver_that_is_gone_already_is_one_line(written, monkeypatch):
    def gone() -> int:
        raise psutil.NoSuchProcess(1)

    monkeypatch.setattr(os, "getppid", gone)
    with pytest.raises(RuntimeError, match="the Spark driver is gone"):
        Query(written.folder).plan()


def test_a_folder_of_the_streams_own_is_removed_with_it(monkeypatch, tmp_path):
    monkeypatch.setattr(attended, "mkdtemp", lambda prefix: str(tmp_path / prefix))
    (tmp_path / "kafka-metadata-spool-").mkdir()
    source = KafkaMetadataSource(OPTIONS)
    stream = source.streamReader(source.schema())
    stream._attended = Attended(stream._options, {}, once=False)
    stream.stop()
    assert [*tmp_path.iterdir()] == []
