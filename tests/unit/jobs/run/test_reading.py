"""Logs of several clusters in one query: one that cannot be read holds up nobody else's log."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException

from jobs import read_group_log
from jobs.configuration.config import Config
from jobs.run import reading as of_logs
from jobs.run import streams
from jobs.run.logs import FOLLOWED_GROUP_LOG
from jobs.run.reading import FollowedLog, Reading
from schemas.lake import LakeError
from tests.support.spark_queries import CRASHED, LOG_IS_AWAY, READ_ONLY, Clock, Query, query_of

CONFIG = Config(lake=None, checkpoints="folder", clusters={"orders": {}, "billing": {}})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_AGAIN_AFTER_S", 0.0)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """The queries of the log that were started, each with the clusters that it reads."""
    found: list[Query] = []

    def start(
        spark: object, config: Config, followed: FollowedLog, *, clusters: list[str], once: bool
    ) -> Query:
        found.append(Query())
        found[-1].clusters = sorted(clusters)
        return found[-1]

    monkeypatch.setattr(of_logs, "start", start)
    monkeypatch.setattr(
        of_logs,
        "forget_planned",
        lambda _, checkpoint: checkpoint == f"folder/{FOLLOWED_GROUP_LOG.query}",
    )
    return found


def test_one_cluster_that_cannot_be_read_holds_up_nobody_elses_log(started: list[Query]) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG)  # type: ignore[arg-type]
    query_of(reading).end(LOG_IS_AWAY)
    assert reading.keep()
    assert reading.query is started[1]
    assert reading.keep()
    # The other goes away too: the batch is planned again, and whoever answers is read.
    query_of(reading).end(StreamingQueryException(str(LOG_IS_AWAY).replace("orders", "billing")))
    assert reading.keep()
    reading._until = dict.fromkeys(reading._until, 0.0)  # its time is over
    assert reading.keep()
    assert [each.clusters for each in started] == [
        ["billing", "orders"],
        ["billing"],
        ["billing"],
        ["billing", "orders"],
    ]
    assert [each.isActive for each in started] == [False, False, False, True]


def test_a_query_of_all_logs_that_crashes_leaves_none_out(started: list[Query]) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG)  # type: ignore[arg-type]
    query_of(reading).end(CRASHED)
    for _ in range(2):
        assert reading.keep()
    assert [each.clusters for each in started] == [["billing", "orders"]] * 2


def test_a_cluster_is_left_out_for_two_minutes(
    started: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr(of_logs, "time", streams.time)
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG)  # type: ignore[arg-type]
    query_of(reading).end(LOG_IS_AWAY)
    for seconds in (0.0, 119.0):
        clock.sleep(seconds)
        assert reading.keep()
        assert started[-1].clusters == ["billing"]
    clock.sleep(1)
    assert reading.keep()
    assert started[-1].clusters == ["billing", "orders"]


def test_a_log_that_cannot_be_taken_back_at_once_ends_no_stream(
    started: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG)  # type: ignore[arg-type]
    query_of(reading).end(LOG_IS_AWAY)
    assert reading.keep()
    reading._until = dict.fromkeys(reading._until, 0.0)

    def fail(*_: object, **__: object) -> Query:
        raise LakeError("lake: No space left on device")

    monkeypatch.setattr(of_logs, "start", fail)
    assert reading.keep()
    assert not reading.query.isActive


@pytest.mark.parametrize("once", [True, False])
def test_a_run_that_is_to_end_waits_for_no_disk(
    started: list[Query], monkeypatch: pytest.MonkeyPatch, *, once: bool
) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG, once=once)  # type: ignore[arg-type]
    ends = iter([READ_ONLY, Query()])

    def start(*_: object, **__: object) -> Query:
        if isinstance(found := next(ends), Exception):
            raise found
        return found

    monkeypatch.setattr(of_logs, "start", start)
    query_of(reading).end(LOG_IS_AWAY)
    with nullcontext() if not once else pytest.raises(StreamingQueryException):
        reading.keep()
        reading.keep()
    assert (next(ends, None) is None) is not once


def test_the_job_of_the_log_alone_starts_again_too(
    started: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = StreamingQueryException("[KAFKA_METADATA_OPTIONS] rows cannot be written")
    queries = iter([Query(LOG_IS_AWAY), Query(LOG_IS_AWAY), Query(other)])
    monkeypatch.setattr(of_logs, "start", lambda *_, **__: next(queries))
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, CONFIG, once=False)  # type: ignore[arg-type]
    assert raised.value is other


def test_one_run_reads_the_other_logs_and_fails_then(
    started: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = iter([Query(LOG_IS_AWAY), Query()])
    monkeypatch.setattr(of_logs, "start", lambda *_, **__: next(queries))
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, CONFIG, once=True)  # type: ignore[arg-type]
    assert raised.value is LOG_IS_AWAY, "the exit status says so"
    assert next(queries, None) is None
    queries = iter([Query(LOG_IS_AWAY)])
    alone = replace(CONFIG, clusters={"orders": {}})
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, alone, once=True)  # type: ignore[arg-type]
    assert raised.value is LOG_IS_AWAY, "a run that is to end does not wait for a cluster"


def test_an_error_that_names_a_cluster_and_is_not_its_logs_leaves_nobody_out(
    started: list[Query],
) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG)  # type: ignore[arg-type]
    error = StreamingQueryException("[KAFKA_METADATA_OPTIONS] group log: cluster orders: no such")
    query_of(reading).end(error)
    with pytest.raises(StreamingQueryException) as raised:
        reading.keep()
    assert raised.value is error
    assert len(started) == 1


def test_a_run_that_is_to_end_reads_nobody_again(started: list[Query]) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG, once=True)  # type: ignore[arg-type]
    query_of(reading).end(LOG_IS_AWAY)
    assert reading.keep()
    reading._until = dict.fromkeys(reading._until, 0.0)  # its time is over
    assert reading.keep()
    assert [each.clusters for each in started] == [["billing", "orders"], ["billing"]]
    query_of(reading).end(CRASHED)
    with pytest.raises(StreamingQueryException) as raised:
        reading.keep()
    assert raised.value is CRASHED
