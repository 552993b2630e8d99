"""When the pipeline ends, what wakes the work beside its streams, and what one run does."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from jobs.configuration.config import Config
from jobs.histories.polls import Polls
from jobs.rounds.history import Run
from jobs.rounds.plan import OvertakenError
from jobs.run import metadata_stream, pipeline, streams
from jobs.run.pipeline import STOPS_WITHIN_S, _ended, _watch, join_within, run_once
from jobs.run.streams import Running
from jobs.run.work import Lasting
from schemas.lake import Lake
from tests.support.for_each import for_each
from tests.support.spark_queries import (
    CRASHED,
    LOG_IS_AWAY,
    Clock,
    Query,
    Streams,
    polling,
    query_of,
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_AGAIN_AFTER_S", 0.0)


def ended(outcome: Streams, **streams: Running) -> bool:
    return _ended(SimpleNamespace(streams=outcome), streams)  # type: ignore[arg-type]


@pytest.mark.parametrize("outcome", [True, False])
def test_the_pipeline_has_ended_when_a_query_has(*, outcome: bool) -> None:
    assert ended(Streams(outcome), polls=polling(Query()), log=polling(Query())) is outcome


def test_the_pipeline_has_ended_when_a_query_was_stopped() -> None:
    polls = polling(Query())
    polls.query.stop()
    assert ended(Streams(outcome=False), polls=polls, log=polling(Query()))


def test_a_stream_that_had_got_somewhere_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that was killed ends its query. The next one makes the batch again."""
    polls, log = polling(Query(has_progress=True), following := Query()), polling(Query())
    query_of(polls).end(CRASHED)
    spark = Streams(CRASHED)
    assert not ended(spark, polls=polls, log=log)
    assert spark.was_reset, "Spark would say again and again that the first one has ended"
    assert not ended(Streams(outcome=False), polls=polls, log=log)
    assert polls.query is following
    assert caplog.messages == ["a stream ended: Python worker exited; it is started again"]
    still = Streams(outcome=False)
    assert not ended(still, polls=polls, log=log)
    assert not still.was_reset


def test_a_query_that_waits_to_be_started_again_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    polls, log = polling(Query(), Query()), polling(Query(), Query())
    for stream in (polls, log):
        query_of(stream).end(CRASHED)
        assert not ended(Streams(CRASHED), polls=polls, log=log)
    assert clock.now == 0.0
    clock.sleep(1)
    assert not ended(Streams(outcome=False), polls=polls, log=log)
    assert polls.query.isActive
    assert log.query.isActive


@for_each("of", ["polls", "log"])
@for_each(
    "says",
    [
        "[KAFKA_METADATA_OPTIONS] pollInterval: 'often' is not a duration",
        "[KAFKA_METADATA_SPOOL] /spool cannot be written",
        (
            "[KAFKA_METADATA_SPOOL] the checkpoint holds an offset of version 2, and this is "
            "version 3: remove it"
        ),
        "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
    ],
)
def test_what_a_person_has_to_mend_ends_the_pipeline(of: str, says: str) -> None:
    """Also beside a stream that may be started again."""
    both = {"log": polling(Query(), Query()), "polls": polling(Query(), Query())}
    error = StreamingQueryException(says)
    for name, stream in both.items():
        query_of(stream).end(error if name == of else CRASHED)
    with pytest.raises(StreamingQueryException) as raised:
        ended(Streams(CRASHED), **both)
    assert raised.value is error


class Looks(Streams):
    """At each look of the pipeline something is done first; it has ended when that says so."""

    def __init__(self, look: Callable[[], bool]) -> None:
        super().__init__(outcome=False)
        self.look = look

    def awaitAnyTermination(self, timeout: float) -> bool:  # noqa: N802
        return self.look()


def watch(look: Callable[[], bool], streams: Any, works: list[Lasting]) -> None:
    _watch(SimpleNamespace(streams=Looks(look)), streams, works)  # type: ignore[arg-type]


def test_a_batch_that_is_committed_wakes_what_takes_it() -> None:
    """The newest batches of polls and of the log at each look, None before the first; then a query
    has ended.
    """
    looks = iter([(None, None), (0, None), (0, 0), (0, 0), (1, 2)])
    streams = {name: polling(Query()) for name in ("polls", "log")}
    takers = {name: Lasting(name, lambda: lambda: None, [name]) for name in streams}  # type: ignore[list-item]
    woken: list[list[str]] = []

    def look() -> bool:
        woken.append([name for name, each in takers.items() if each.wake.is_set()])
        for each in takers.values():
            each.wake.clear()
        if (batches := next(looks, None)) is None:
            return True
        for stream, batch in zip(streams.values(), batches, strict=True):
            progress = None if batch is None else SimpleNamespace(batchId=batch)
            query_of(stream).lastProgress = progress
        return False

    watch(look, streams, [*takers.values()])
    assert woken == [[], [], ["polls"], ["log"], [], ["polls", "log"]]


def test_a_history_that_another_run_makes_ends_the_pipeline() -> None:
    works = [Lasting(name, lambda: lambda: None) for name in ("history", "groups", "lag")]
    works[-1].overtaken = OvertakenError("another run makes it now")
    with pytest.raises(OvertakenError) as raised:
        watch(lambda: False, {}, works)
    assert raised.value is works[-1].overtaken


class Once:
    """One run: Spark's part is played, and `done` says what was done, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.headers: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self.log_fails: Exception | None = None
        monkeypatch.setattr(metadata_stream, "run", lambda *_: self.done.append("polls"))
        monkeypatch.setattr(pipeline, "follow", self.follow)
        monkeypatch.setattr(pipeline, "Engine", self.engine)
        monkeypatch.setattr(pipeline, "keep_up_when_due", lambda *_: self.done.append("upkeep"))

    def follow(self, *_: object, once: bool) -> None:
        assert once
        self.done.append("log")
        if self.log_fails is not None:
            raise self.log_fails

    def engine(self, _: object, __: object, history: Any, run: Run) -> SimpleNamespace:
        def catch_up(*, whole: bool) -> None:
            assert whole
            self.done.append(history.job)
            if isinstance(history, Polls):
                list(run.outages.see(self.headers))

        return SimpleNamespace(catch_up=catch_up, left_out=self.left_out, history=history)

    def run(self) -> int:
        config: Any = SimpleNamespace(
            clusters={"orders": {}},
            group_log={},
            transaction_log=None,
            cluster_log=None,
            asked_for=lambda question: {"orders"} if question == "offsets" else (),
        )
        return run_once(None, config)  # type: ignore[arg-type]


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> Once:
    return Once(monkeypatch)


def test_one_run_says_by_its_status_that_a_cluster_fails(once: Once) -> None:
    at = datetime.now(UTC)
    good = {"cluster": "orders", "poll_id": "s/1", "outcome": "ok", "scheduled_at": at}
    once.headers = [good]
    assert once.run() == 0
    once.left_out.append("orders")
    assert once.run() == 3, "its history stands still"
    once.left_out.clear()
    failed = {"outcome": "failed", "error_kind": "timeout", "error": "too late"}
    once.headers.append(good | failed | {"cluster": "payments"})
    assert once.run() == 3


@pytest.mark.parametrize("is_away", [False, True])
def test_one_run_makes_history_though_the_log_cannot_be_read(once: Once, *, is_away: bool) -> None:
    if is_away:
        once.log_fails = LOG_IS_AWAY
        with pytest.raises(StreamingQueryException) as raised:
            once.run()
        assert raised.value is LOG_IS_AWAY, "the exit status says so"
    else:
        once.run()
    assert once.done.index("log") < once.done.index("rebalance_history")
    once.done.remove("log")  # It is read while polls are made, or history of them.
    histories = ["history", "rebalance_history", "rebalance_cost", "group_lag", "incidents"]
    assert once.done == ["polls", *histories, "upkeep"]


@pytest.mark.parametrize(
    ("given", "is_older", "done"),
    [
        ("auto", True, ["upgrade", "set aside", "ensure"]),
        ("auto", False, ["ensure"]),
        ("", True, ["ensure"]),
    ],
)
def test_an_older_lake_is_upgraded_before_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, given: str, done: list[str], *, is_older: bool
) -> None:
    found: list[str] = []

    def noting(name: str) -> Callable[..., list[str]]:
        return lambda *_: found.append(name) or []

    monkeypatch.setattr(pipeline, "is_older", lambda *_: is_older)
    monkeypatch.setattr(pipeline, "upgrade", noting("upgrade"))
    monkeypatch.setattr(pipeline, "set_aside_once", noting("set aside"))
    monkeypatch.setattr(pipeline, "ensure_lake", noting("ensure"))
    monkeypatch.setattr(pipeline, "run_once", lambda *_: 0)
    config = Config(Lake(root="lake"), "", {}, upgrade=given)
    assert pipeline.run(cast("Any", None), config, True) == 0
    assert found == done


def test_all_threads_together_have_so_long_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now, given = [100.0], list[float]()

    def join(seconds: float) -> None:
        given.append(seconds)
        now[0] += min(seconds, 12.0)

    monkeypatch.setattr(pipeline, "time", SimpleNamespace(monotonic=lambda: now[0]))
    join_within(20.0, [SimpleNamespace(join=join)] * 4)  # type: ignore[list-item]
    assert given == [20.0, 8.0, 0.0, 0.0]
    assert STOPS_WITHIN_S < 30, "a pod is killed then"
