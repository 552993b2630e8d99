"""What the pipeline does when one of its jobs fails: without Spark, whose part a few lines play."""

from collections.abc import Callable
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from jobs import pipeline, poll_metadata, read_group_log
from jobs.common.rounds import OvertakenError
from jobs.pipeline import Lasting, _ended, _run_once, _watch

LOG_IS_AWAY = StreamingQueryException("[KAFKA_METADATA_GROUP_LOG] cluster orders: nobody answers")
POLLS, LOG = poll_metadata.QUERY, read_group_log.QUERY


class Query:
    """A query that runs, or has ended with an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.isActive = error, error is None

    def awaitTermination(self) -> None:  # noqa: N802 - as Spark has it
        assert self.error is not None
        raise self.error


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


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """The queries of the log that were started."""
    found: list[Query] = []

    def start(spark: object, config: object, *, once: bool) -> Query:
        assert not once
        found.append(Query())
        return found[-1]

    monkeypatch.setattr(read_group_log, "start", start)
    return found


def ended(streams: Streams, queries: dict[str, Any]) -> bool:
    return _ended(SimpleNamespace(streams=streams), None, queries)  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", [True, False])
def test_the_pipeline_has_ended_when_a_query_has(started: list[Query], *, outcome: bool) -> None:
    assert ended(Streams(outcome), {POLLS: Query()}) is outcome
    assert started == []


def test_a_log_that_cannot_be_read_is_read_by_a_new_query(started: list[Query]) -> None:
    streams, polls, log = Streams(LOG_IS_AWAY), Query(), Query(LOG_IS_AWAY)
    queries = {POLLS: polls, LOG: log}
    assert not ended(streams, queries)
    assert queries == {POLLS: polls, LOG: started[0]}
    assert len(started) == 1
    assert streams.was_reset, "Spark would say again and again that the first one has ended"


@pytest.mark.parametrize("of", [POLLS, LOG])
def test_any_other_error_of_a_query_ends_the_pipeline(started: list[Query], of: str) -> None:
    error = StreamingQueryException("[SOMETHING_ELSE] rows cannot be written")
    with pytest.raises(StreamingQueryException) as raised:
        ended(Streams(error), {POLLS: Query(), LOG: Query()} | {of: Query(error)})
    assert raised.value is error
    assert started == []


def test_polls_that_ended_with_the_log_end_the_pipeline(started: list[Query]) -> None:
    error = StreamingQueryException("[SOMETHING_ELSE] polls cannot be written")
    with pytest.raises(StreamingQueryException) as raised:
        ended(Streams(LOG_IS_AWAY), {POLLS: Query(error), LOG: Query(LOG_IS_AWAY)})
    assert raised.value is error
    assert started == []


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
    _watch(None, None, queries, takers)  # type: ignore[arg-type]
    assert woken == [[], [], [POLLS], [LOG], [], [POLLS, LOG]]


def test_a_history_that_another_run_makes_ends_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "_ended", lambda *_: False)
    history, groups = (Lasting(name, lambda: lambda: None) for name in ("history", "groups"))
    groups.overtaken = OvertakenError("another run makes it now")
    with pytest.raises(OvertakenError) as raised:
        _watch(None, None, {}, {POLLS: history, LOG: groups})  # type: ignore[arg-type]
    assert raised.value is groups.overtaken


def test_the_job_of_the_log_alone_starts_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    other = StreamingQueryException("[SOMETHING_ELSE] rows cannot be written")
    queries = iter([Query(LOG_IS_AWAY), Query(LOG_IS_AWAY), Query(other)])
    monkeypatch.setattr(read_group_log, "start", lambda *_, **__: next(queries))
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, None, once=False)  # type: ignore[arg-type]
    assert raised.value is other
    queries = iter([Query(LOG_IS_AWAY)])
    with pytest.raises(StreamingQueryException) as raised:
        read_group_log.run(None, None, once=True)  # type: ignore[arg-type]
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
