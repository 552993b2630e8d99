"""What the pipeline does when one of its jobs fails: without Spark, whose part a few lines play."""

from collections.abc import Callable, Collection
from dataclasses import replace
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from jobs import pipeline, poll_metadata, read_group_log
from jobs.common.config import Config
from jobs.common.rounds import OvertakenError
from jobs.pipeline import Lasting, _ended, _run_once, _watch
from jobs.read_group_log import Reading

LOG_IS_AWAY = StreamingQueryException("[KAFKA_METADATA_GROUP_LOG] timeout: cluster orders: nobody answers")
POLLS, LOG = poll_metadata.QUERY, read_group_log.QUERY


class Query:
    """A query that runs, or has ended with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.isActive = error, error is None
        self.clusters: list[str] = []

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as Spark has it
        if self.error is None:
            assert timeout is not None
            return True
        raise self.error

    def stop(self) -> None:
        self.isActive = False


class Streams:
    """Spark's streams, of which one ends: `outcome` is what Spark says of that, or raises."""

    def __init__(self, outcome: bool | Exception) -> None:
        self.outcome, self.was_reset = outcome, False

    def awaitAnyTermination(self, timeout: float) -> bool:  # noqa: N802
        assert timeout < 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def resetTerminated(self) -> None:  # noqa: N802
        self.was_reset = True


CONFIG = Config(lake=None, checkpoints="folder", clusters={"orders": {}, "billing": {}})  # type: ignore[arg-type]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """The queries of the log that were started, each with the clusters that it reads."""
    found: list[Query] = []

    def start(spark: object, config: Config, *, once: bool, without: Collection[str]) -> Query:
        found.append(Query())
        found[-1].clusters = sorted(config.clusters.keys() - set(without))
        return found[-1]

    monkeypatch.setattr(read_group_log, "start", start)
    monkeypatch.setattr(read_group_log, "forget_planned", lambda _, checkpoint: checkpoint == f"folder/{LOG}")
    return found


def ended(streams: Streams, queries: dict[str, Any], reading: Any = None) -> bool:
    return _ended(SimpleNamespace(streams=streams), queries, reading)  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", [True, False])
def test_the_pipeline_has_ended_when_a_query_has(started: list[Query], *, outcome: bool) -> None:
    reading = Reading(None, CONFIG)  # type: ignore[arg-type]
    assert ended(Streams(outcome), {POLLS: Query()}, reading) is outcome
    assert len(started) == 1


def test_one_cluster_that_cannot_be_read_holds_up_nobody_elses_log(started: list[Query]) -> None:
    reading = Reading(None, CONFIG)  # type: ignore[arg-type]
    streams, queries = Streams(LOG_IS_AWAY), {POLLS: Query(), LOG: reading.query}
    assert not ended(streams, queries, reading)
    assert queries[LOG] is started[1]
    assert streams.was_reset, "Spark would say again and again that the first one has ended"
    assert not ended(Streams(False), queries, reading)
    # The other goes away too: the batch is planned again, and whoever answers is read.
    other = StreamingQueryException(str(LOG_IS_AWAY).replace("orders", "billing"))
    assert not ended(Streams(other), queries, reading)
    reading._until = dict.fromkeys(reading._until, 0.0)  # its time is over
    streams = Streams(False)
    assert not ended(streams, queries, reading)
    assert streams.was_reset, "stopped to be started again, a query has ended"
    assert [each.clusters for each in started] == [
        ["billing", "orders"],
        ["billing"],
        ["billing"],
        ["billing", "orders"],
    ]
    assert [each.isActive for each in started] == [True, True, False, True]


@pytest.mark.parametrize("of", [POLLS, LOG])
def test_any_other_error_of_a_query_ends_the_pipeline(started: list[Query], of: str) -> None:
    error = StreamingQueryException("[SOMETHING_ELSE] rows cannot be written")
    with pytest.raises(StreamingQueryException) as raised:
        ended(Streams(error), {POLLS: Query(), LOG: Query()} | {of: Query(error)}, Reading(None, CONFIG))  # type: ignore[arg-type]
    assert raised.value is error
    assert len(started) == 1


def test_polls_that_ended_with_the_log_end_the_pipeline(started: list[Query]) -> None:
    error = StreamingQueryException("[SOMETHING_ELSE] polls cannot be written")
    with pytest.raises(StreamingQueryException) as raised:
        ended(Streams(LOG_IS_AWAY), {POLLS: Query(error), LOG: Query(LOG_IS_AWAY)}, Reading(None, CONFIG))  # type: ignore[arg-type]
    assert raised.value is error


def test_a_batch_that_is_committed_wakes_what_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest batches of polls and of the log at each look, None before the first; then a query has ended."""
    looks = iter([(None, None), (0, None), (0, 0), (0, 0), (1, 2)])
    queries: Any = {POLLS: SimpleNamespace(), LOG: SimpleNamespace()}
    takers = {name: Lasting(name, lambda: lambda: None) for name in queries}
    woken: list[list[str]] = []

    def look(*_: object) -> bool:
        woken.append([name for name, each in takers.items() if each.wake.is_set()])
        for each in takers.values():
            each.wake.clear()
        if (batches := next(looks, None)) is None:
            return True
        for query, batch in zip(queries.values(), batches, strict=True):
            query.lastProgress = None if batch is None else SimpleNamespace(batchId=batch)
        return False

    monkeypatch.setattr(pipeline, "_ended", look)
    _watch(None, queries, takers, None)  # type: ignore[arg-type]
    assert woken == [[], [], [POLLS], [LOG], [], [POLLS, LOG]]


def test_a_history_that_another_run_makes_ends_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_ended", lambda *_: False)
    history, groups = (Lasting(name, lambda: lambda: None) for name in ("history", "groups"))
    groups.overtaken = OvertakenError("another run makes it now")
    with pytest.raises(OvertakenError) as raised:
        _watch(None, {}, {POLLS: history, LOG: groups}, None)  # type: ignore[arg-type]
    assert raised.value is groups.overtaken


def test_the_job_of_the_log_alone_starts_again_too(started: list[Query], monkeypatch: pytest.MonkeyPatch) -> None:
    other = StreamingQueryException("[SOMETHING_ELSE] rows cannot be written")
    queries = iter([Query(LOG_IS_AWAY), Query(LOG_IS_AWAY), Query(other)])
    monkeypatch.setattr(read_group_log, "start", lambda *_, **__: next(queries))
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, CONFIG, once=False)  # type: ignore[arg-type]
    assert raised.value is other


def test_one_run_reads_the_other_logs_and_fails_then(started: list[Query], monkeypatch: pytest.MonkeyPatch) -> None:
    queries = iter([Query(LOG_IS_AWAY), Query()])
    monkeypatch.setattr(read_group_log, "start", lambda *_, **__: next(queries))
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, CONFIG, once=True)  # type: ignore[arg-type]
    assert raised.value is LOG_IS_AWAY, "the exit status says so"
    assert next(queries, None) is None
    queries = iter([Query(LOG_IS_AWAY)])
    alone = replace(CONFIG, clusters={"orders": {}})
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, alone, once=True)  # type: ignore[arg-type]
    assert raised.value is LOG_IS_AWAY, "a run that is to end does not wait for a cluster"


@pytest.mark.parametrize("is_away", [False, True])
def test_one_run_makes_history_though_the_log_cannot_be_read(monkeypatch: pytest.MonkeyPatch, *, is_away: bool) -> None:
    done: list[str] = []

    def read(*_: object) -> None:
        done.append("log")
        if is_away:
            raise LOG_IS_AWAY

    def history(name: str) -> Callable[..., object]:
        return lambda *_: SimpleNamespace(catch_up=lambda *, whole: done.append(f"{name}, {whole}"))

    monkeypatch.setattr(poll_metadata, "run", lambda *_: done.append("polls"))
    monkeypatch.setattr(read_group_log, "run", read)
    monkeypatch.setattr(pipeline, "History", history("history"))
    monkeypatch.setattr(pipeline, "RebalanceHistory", history("rebalances"))
    monkeypatch.setattr(pipeline, "_keep_up_when_due", lambda *_: done.append("upkeep"))
    config: Any = SimpleNamespace(group_log={})
    if is_away:
        with pytest.raises(StreamingQueryException) as raised:
            _run_once(None, config)  # type: ignore[arg-type]
        assert raised.value is LOG_IS_AWAY, "the exit status says so"
    else:
        _run_once(None, config)  # type: ignore[arg-type]
    assert done.index("log") < done.index("rebalances, True")
    done.remove("log")  # It is read while polls are made, or history of them.
    assert done == ["polls", "history, True", "rebalances, True", "upkeep"]


def run_beside(work: Lasting) -> tuple[Thread, Event]:
    stop = Event()
    thread = Thread(target=work.run, args=(object(), stop), daemon=True)
    thread.start()
    return thread, stop


def test_work_that_fails_is_prepared_and_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, done = [], Event()

    def prepare() -> Callable[[], None]:
        prepared.append(len(prepared))

        def work() -> None:
            if len(prepared) == 1:
                raise ValueError("the first time")
            done.set()

        return work

    monkeypatch.setattr(Event, "wait", quick(Event.wait))
    each = Lasting("history", prepare)
    thread, stop = run_beside(each)
    was_done = done.wait(10)
    stop.set()
    each.wake.set()
    thread.join(10)
    assert was_done
    assert not thread.is_alive()
    assert prepared == [0, 1], "made of what the tables say after an error, and kept where there was none"
    assert each.overtaken is None


def test_work_that_another_run_does_now_ends() -> None:
    error = OvertakenError("another run makes it now")

    def prepare() -> Callable[[], None]:
        raise error

    each = Lasting("history", prepare)
    thread, _ = run_beside(each)
    thread.join(10)
    assert not thread.is_alive()
    assert each.overtaken is error


def quick(wait: Callable[..., bool]) -> Callable[..., bool]:
    """Waits of a second as waits of a hundredth."""
    return lambda event, timeout=None: wait(event, timeout if timeout is None or timeout > 1 else timeout / 100)


def test_work_that_keeps_failing_says_what_to_do_and_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails six times, half a minute apart, then it works; much later it fails once."""
    clock = iter([100.0, 130.0, 160.5, 190.0, 221.0, 250.0, 1_000.0])
    monkeypatch.setattr(pipeline, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(Event, "wait", lambda *_: True)
    stop, outcomes = Event(), iter([*"ffffff", "", "", "f", "end"])

    def work() -> None:
        outcome = next(outcomes)
        if outcome == "end":
            stop.set()
        if outcome == "f":
            raise RuntimeError("no space left\non device")

    Lasting("history", lambda: work).run(None, stop)  # type: ignore[arg-type]
    mend = "no space left; correct what the error names, it is tried again. Polling continues, and bronze keeps"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "history failed and is tried again: no space left"),
        ("ERROR", f"history has failed for 60 s: {mend} what history has not had"),
        ("ERROR", f"history has failed for 121 s: {mend} what history has not had"),
        ("WARNING", "history works again, after it failed 6 time(s)"),
        ("WARNING", "history failed and is tried again: no space left"),
        ("WARNING", "history works again, after it failed 1 time(s)"),
    ]
