"""What the pipeline does when one of its jobs fails: without Spark, whose part a few lines play."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from jobs import read_group_log
from jobs.configuration.config import Config
from jobs.histories.lag import GroupLag
from jobs.histories.polls import Polls
from jobs.rounds.history import Run
from jobs.rounds.plan import OvertakenError
from jobs.run import metadata_stream, pipeline, streams
from jobs.run import reading as of_logs
from jobs.run.logs import FOLLOWED_GROUP_LOG
from jobs.run.pipeline import _ended, _watch, join_within, run_once
from jobs.run.reading import FollowedLog, Reading
from jobs.run.streams import Running
from jobs.run.work import PAUSE_S, Lasting
from jobs.upkeep import due
from jobs.upkeep.lake_clock import ClockError
from schemas.lake import LakeError

LOG_IS_AWAY = StreamingQueryException(
    "[KAFKA_METADATA_GROUP_LOG] timeout: cluster orders: nobody answers"
)
POLLS, LOG = metadata_stream.QUERY, FOLLOWED_GROUP_LOG.query


class Query:
    """A query that runs, or has ended with an error, before it got anywhere or later."""

    def __init__(self, error: Exception | None = None, *, has_progress: bool = False) -> None:
        self.error, self.isActive = error, error is None
        self.lastProgress = object() if has_progress else None
        self.clusters: list[str] = []
        self.name = "polls"

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as Spark has it
        if self.error is not None:
            raise self.error
        return not self.isActive or timeout is not None

    def stop(self) -> None:
        self.isActive = False

    def end(self, error: Exception) -> None:
        self.error, self.isActive = error, False


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
        of_logs, "forget_planned", lambda _, checkpoint: checkpoint == f"folder/{LOG}"
    )
    return found


def ended(outcome: Streams, **streams: Running) -> bool:
    return _ended(SimpleNamespace(streams=outcome), streams)  # type: ignore[arg-type]


def polling(*queries: Query) -> Running:
    """A stream of polls with these queries, one after the other."""
    found = iter(queries)
    return Running(lambda: next(found))  # type: ignore[arg-type, return-value]


def query_of(stream: Running) -> Query:
    return stream.query  # type: ignore[return-value]


@pytest.mark.parametrize("outcome", [True, False])
def test_the_pipeline_has_ended_when_a_query_has(started: list[Query], *, outcome: bool) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG)  # type: ignore[arg-type]
    assert ended(Streams(outcome), polls=polling(Query()), log=reading) is outcome
    assert len(started) == 1


def test_the_pipeline_has_ended_when_a_query_was_stopped() -> None:
    polls = polling(Query())
    polls.query.stop()
    assert ended(Streams(outcome=False), polls=polls)


def test_one_cluster_that_cannot_be_read_holds_up_nobody_elses_log(started: list[Query]) -> None:
    reading, polls = Reading(None, CONFIG, FOLLOWED_GROUP_LOG), polling(Query())  # type: ignore[arg-type]
    streams = Streams(LOG_IS_AWAY)
    query_of(reading).end(LOG_IS_AWAY)
    assert not ended(streams, polls=polls, log=reading)
    assert reading.query is started[1]
    assert streams.was_reset, "Spark would say again and again that the first one has ended"
    assert not ended(Streams(outcome=False), polls=polls, log=reading)
    # The other goes away too: the batch is planned again, and whoever answers is read.
    other = StreamingQueryException(str(LOG_IS_AWAY).replace("orders", "billing"))
    query_of(reading).end(other)
    assert not ended(Streams(other), polls=polls, log=reading)
    reading._until = dict.fromkeys(reading._until, 0.0)  # its time is over
    streams = Streams(outcome=False)
    assert not ended(streams, polls=polls, log=reading)
    assert streams.was_reset, "stopped to be started again, a query has ended"
    assert [each.clusters for each in started] == [
        ["billing", "orders"],
        ["billing"],
        ["billing"],
        ["billing", "orders"],
    ]
    assert [each.isActive for each in started] == [False, False, False, True]


CRASHED = StreamingQueryException(
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python worker exited "
    "SQLSTATE: XXKST"
)


def test_a_stream_that_had_got_somewhere_is_started_again(
    started: list[Query], caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that was killed ends its query. The next one makes the batch again."""
    reading, polls = (
        Reading(None, CONFIG, FOLLOWED_GROUP_LOG),
        polling(Query(has_progress=True), following := Query()),
    )  # type: ignore[arg-type]
    query_of(polls).end(CRASHED)
    streams = Streams(CRASHED)
    assert not ended(streams, polls=polls, log=reading)
    assert streams.was_reset
    assert not ended(Streams(outcome=False), polls=polls, log=reading)
    assert polls.query is following
    assert [record.getMessage() for record in caplog.records] == [
        "a stream ended: Python worker exited; it is started again"
    ]
    query_of(reading).lastProgress = object()
    query_of(reading).end(CRASHED)
    for _ in range(2):
        assert not ended(Streams(CRASHED), polls=polls, log=reading)
    assert (len(started), started[1].clusters) == (2, ["billing", "orders"])


class Clock:
    """Time that passes where somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(
            streams, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        )
        monkeypatch.setattr(streams, "_AGAIN_AFTER_S", 1.0)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def keep_on(stream: Running, clock: Clock) -> None:
    """Until it has ended."""
    while stream.keep():
        clock.sleep(1)


FAULTS = [
    CRASHED,
    StreamingQueryException("[STREAM_FAILED] Python worker failed to connect back."),
    StreamingQueryException("[STREAM_FAILED] ExecutorLostFailure (executor 1 exited)"),
    StreamingQueryException("[DELTA_CONCURRENT_APPEND] Files were added by a concurrent update"),
    StreamingQueryException("[STREAM_FAILED] java.net.ConnectException: the storage is away"),
    StreamingQueryException("[STREAM_FAILED] /lake/offsets/.7.tmp (Read-only file system)"),
    StreamingQueryException("[KAFKA_METADATA_GROUP_LOG] timeout: cluster orders: nobody answers"),
]


@pytest.mark.parametrize("has_progress", [True, False])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_that_may_pass_ends_no_stream_however_often_it_comes(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: Exception,
    *,
    has_progress: bool,
) -> None:
    """Whether or not a query had got anywhere. It is tried again after ever longer, and logged once
    a minute.
    """
    clock, times = Clock(monkeypatch), list[float]()
    outcomes = iter(
        [
            Query(fault, has_progress=has_progress),
            *[Query(fault), fault] * 10,
            Query(has_progress=True),
            Query(),
        ]
    )

    def start() -> Query:
        times.append(clock.now)
        if isinstance(found := next(outcomes), Exception):
            raise found
        return found

    polls = Running(start)  # type: ignore[arg-type]
    while not polls.query.isActive:
        assert not ended(Streams(fault), polls=polls)
        clock.sleep(0.25)
    assert not ended(Streams(outcome=False), polls=polls)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    expected = [1, 2, 4, 8, 16, *[30] * 16]
    assert gaps == [pytest.approx(each, abs=0.5) for each in expected]
    clock.sleep(60)
    assert not ended(Streams(outcome=False), polls=polls)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].endswith("; it is started again")
    assert lines[-1] == "the stream polls works again, after it failed 21 times"
    assert len(lines) <= 2 + clock.now / 60
    query_of(polls).end(fault)
    worked_at = clock.now
    while not polls.query.isActive:
        assert not ended(Streams(fault), polls=polls)
        clock.sleep(0.25)
    assert clock.now - worked_at < 2


def test_a_query_that_fails_again_after_its_first_batch_is_started_ever_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, times = Clock(monkeypatch), list[float]()

    def start() -> Query:
        times.append(clock.now)
        return Query(CRASHED, has_progress=True)

    polls = Running(start)  # type: ignore[arg-type]
    while len(times) < 7:
        assert polls.keep()
        clock.sleep(0.25)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == [pytest.approx(each, abs=0.5) for each in (1, 2, 4, 8, 16, 30)]


def test_a_log_that_cannot_be_taken_back_at_once_ends_no_pipeline(
    started: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading(None, CONFIG, FOLLOWED_GROUP_LOG)  # type: ignore[arg-type]
    query_of(reading).end(LOG_IS_AWAY)
    assert not ended(Streams(LOG_IS_AWAY), log=reading)
    reading._until = dict.fromkeys(reading._until, 0.0)

    def fail(*_: object, **__: object) -> Query:
        raise LakeError("lake: No space left on device")

    monkeypatch.setattr(of_logs, "start", fail)
    streams = Streams(outcome=False)
    assert not ended(streams, log=reading)
    assert streams.was_reset, "Spark would say that a query has ended, as if all were over"


def test_a_query_that_waits_to_be_started_again_keeps_nobody_waiting(
    started: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    reading, polls = Reading(None, CONFIG, FOLLOWED_GROUP_LOG), polling(Query(), Query())  # type: ignore[arg-type]
    query_of(polls).end(CRASHED)
    assert not ended(Streams(CRASHED), polls=polls, log=reading)
    query_of(reading).end(LOG_IS_AWAY)
    assert not ended(Streams(LOG_IS_AWAY), polls=polls, log=reading)
    assert reading.query is started[1], "of the log, which does not wait"
    assert (clock.now, polls.query.isActive) == (0.0, False)


@pytest.mark.parametrize("of", [POLLS, LOG])
@pytest.mark.parametrize(
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
def test_what_a_person_has_to_mend_ends_the_pipeline(
    started: list[Query], of: str, says: str
) -> None:
    streams = {POLLS: polling(Query()), LOG: Reading(None, CONFIG, FOLLOWED_GROUP_LOG)}  # type: ignore[arg-type]
    error = StreamingQueryException(says)
    query_of(streams[of]).end(error)
    with pytest.raises(StreamingQueryException) as raised:
        ended(Streams(error), **streams)
    assert raised.value is error
    assert len(started) == 1


def test_a_secret_that_is_away_for_a_while_ends_no_stream_that_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, error = (
        Clock(monkeypatch),
        StreamingQueryException("[KAFKA_METADATA_OPTIONS] file:/secret cannot be read"),
    )
    polls = polling(Query(error, has_progress=True), Query())
    assert polls.keep()
    clock.sleep(1)
    assert polls.keep()
    assert polls.query.isActive


def test_a_lake_that_cannot_be_continued_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint is an old copy, say, that was put back while the query was down."""
    clock, queries = (
        Clock(monkeypatch),
        iter([Query(CRASHED, has_progress=True), LakeError("an old copy")]),
    )

    def start() -> Query:
        if isinstance(found := next(queries), Exception):
            raise found
        return found

    polls = Running(start)  # type: ignore[arg-type]
    with pytest.raises(LakeError, match="an old copy"):
        keep_on(polls, clock)


BESIDE = StreamingQueryException(
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs"
)


def test_of_two_runs_with_one_checkpoint_the_one_that_began_first_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Were it the other, neither would be left: history has been taken over already."""
    clock = Clock(monkeypatch)
    first, second = (
        polling(Query(BESIDE, has_progress=True)),
        polling(*[Query(BESIDE) for _ in range(9)]),
    )
    with pytest.raises(
        OvertakenError,
        match=r"^another run has taken over the stream polls; nothing is lost, this one en",
    ):
        first.keep()
    while clock.now < streams._TAKEN_OVER_S:
        assert second.keep()
        clock.sleep(1)
    with pytest.raises(StreamingQueryException) as raised:  # no end of the first one is in sight
        keep_on(second, clock)
    assert raised.value is BESIDE


def test_the_run_whose_recorder_another_one_has_ended_ends() -> None:
    """Started again, its reader would end the other's."""
    polls = polling(
        Query(
            StreamingQueryException("another run has taken over the spool /spool; nothing is lost")
        )
    )
    with pytest.raises(OvertakenError):
        polls.keep()


READ_ONLY = StreamingQueryException(
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: /lake/offsets/.7.tmp "
    "(Read-only file system)"
)


def test_a_lake_that_cannot_be_written_for_a_while_ends_no_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, ends = (
        Clock(monkeypatch),
        iter([Query(READ_ONLY), *[LakeError(str(READ_ONLY))] * 3, Query()]),
    )

    def start() -> Query:
        if isinstance(found := next(ends), Exception):
            raise found
        return found

    polls = Running(start)  # type: ignore[arg-type]
    while not polls.query.isActive:
        assert polls.keep()
        clock.sleep(1)


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


def test_polls_that_are_mended_by_nobody_end_the_pipeline_beside_a_log_that_is_read(
    started: list[Query],
) -> None:
    reading, polls = Reading(None, CONFIG, FOLLOWED_GROUP_LOG), polling(Query())  # type: ignore[arg-type]
    error = StreamingQueryException("[KAFKA_METADATA_OPTIONS] no")
    query_of(polls).end(error)
    query_of(reading).end(LOG_IS_AWAY)
    with pytest.raises(StreamingQueryException) as raised:
        ended(Streams(LOG_IS_AWAY), log=reading, polls=polls)
    assert raised.value is error


def test_the_job_of_polls_alone_starts_again_too() -> None:
    final = StreamingQueryException("[KAFKA_METADATA_OPTIONS] no")
    polls = polling(Query(CRASHED), Query(CRASHED), Query(final))
    with pytest.raises(StreamingQueryException) as raised:
        polls.run(0)
    assert raised.value is final


def test_a_batch_that_is_committed_wakes_what_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest batches of polls and of the log at each look, None before the first; then a query
    has ended.
    """
    looks = iter([(None, None), (0, None), (0, 0), (0, 0), (1, 2)])
    streams: Any = {name: SimpleNamespace(query=SimpleNamespace()) for name in (POLLS, LOG)}
    takers = {name: Lasting(name, lambda: lambda: None, [name]) for name in streams}
    woken: list[list[str]] = []

    def look(*_: object) -> bool:
        woken.append([name for name, each in takers.items() if each.wake.is_set()])
        for each in takers.values():
            each.wake.clear()
        if (batches := next(looks, None)) is None:
            return True
        for stream, batch in zip(streams.values(), batches, strict=True):
            stream.query.lastProgress = None if batch is None else SimpleNamespace(batchId=batch)
        return False

    monkeypatch.setattr(pipeline, "_ended", look)
    _watch(None, streams, takers.values())  # type: ignore[arg-type]
    assert woken == [[], [], [POLLS], [LOG], [], [POLLS, LOG]]


def test_a_history_that_another_run_makes_ends_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "_ended", lambda *_: False)
    history, groups, lag = (
        Lasting(name, lambda: lambda: None) for name in ("history", "groups", "lag")
    )
    lag.overtaken = OvertakenError("another run makes it now")
    with pytest.raises(OvertakenError) as raised:
        _watch(None, {}, [history, groups, lag])  # type: ignore[arg-type]
    assert raised.value is lag.overtaken


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


def test_one_run_says_by_its_status_that_a_cluster_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    headers: list[Any] = []
    left_out: list[str] = []

    class Made:
        def __init__(self, _: object, __: object, history: Polls, run: Run) -> None:
            self.history, self.run, self.left_out = history, run, left_out

        def catch_up(self, *, whole: bool) -> None:
            if whole and isinstance(self.history, Polls):
                list(self.run.outages.see(headers))

    monkeypatch.setattr(metadata_stream, "run", lambda *_: None)
    monkeypatch.setattr(pipeline, "Engine", Made)
    monkeypatch.setattr(pipeline, "keep_up_when_due", lambda *_: None)
    config: Any = SimpleNamespace(
        clusters={"orders": {}}, group_log=None, cluster_log=None, asked_for_offsets=frozenset()
    )
    good = {
        "cluster": "orders",
        "poll_id": "s/1",
        "outcome": "ok",
        "scheduled_at": datetime.now(UTC),
    }
    headers.append(good)
    assert run_once(None, config) == 0  # type: ignore[arg-type]
    left_out.append("orders")
    assert run_once(None, config) == 3, "its history stands still"  # type: ignore[arg-type]
    left_out.clear()
    headers.append(
        good
        | {"cluster": "payments", "outcome": "failed", "error_kind": "timeout", "error": "too late"}
    )
    assert run_once(None, config) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("is_away", [False, True])
def test_one_run_makes_history_though_the_log_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, *, is_away: bool
) -> None:
    done: list[str] = []

    def read(*_: object, once: bool) -> None:
        done.append("log" if once else "log for ever")
        if is_away:
            raise LOG_IS_AWAY

    def engine(_: object, __: object, history: Any, ___: object) -> SimpleNamespace:
        catch_up = lambda *, whole: done.append(f"{history.job}, {whole}")  # noqa: E731
        return SimpleNamespace(catch_up=catch_up, left_out=[], history=history)

    monkeypatch.setattr(metadata_stream, "run", lambda *_: done.append("polls"))
    monkeypatch.setattr(pipeline, "follow", read)
    monkeypatch.setattr(pipeline, "Engine", engine)
    monkeypatch.setattr(pipeline, "keep_up_when_due", lambda *_: done.append("upkeep"))
    config: Any = SimpleNamespace(
        clusters={"orders": {}},
        group_log={},
        cluster_log=None,
        asked_for_offsets=frozenset({"orders"}),
    )
    if is_away:
        with pytest.raises(StreamingQueryException) as raised:
            run_once(None, config)  # type: ignore[arg-type]
        assert raised.value is LOG_IS_AWAY, "the exit status says so"
    else:
        run_once(None, config)  # type: ignore[arg-type]
    assert done.index("log") < done.index("rebalance_history, True")
    done.remove("log")  # It is read while polls are made, or history of them.
    assert done == [
        "polls",
        *(
            f"{name}, True"
            for name in ("history", "rebalance_history", "rebalance_cost", "group_lag")
        ),
        "upkeep",
    ]


@pytest.mark.parametrize(
    ("is_wanted", "is_left", "due_s", "done"),
    [
        (True, True, -1, ["upkeep"]),
        (False, True, -1, ["what is left", "upkeep"]),
        (False, False, -1, ["upkeep"]),
        (False, True, 60, []),
    ],
)
def test_what_is_left_for_a_history_that_nobody_wants_any_more_is_taken_before_the_upkeep(
    monkeypatch: pytest.MonkeyPatch, *, is_wanted: bool, is_left: bool, due_s: int, done: list[str]
) -> None:
    class Left(GroupLag):
        wanted = staticmethod(lambda _: is_wanted)

        def waits(self, *_: object) -> bool:
            return is_left

    did: list[str] = []
    made = SimpleNamespace(
        catch_up=lambda *, whole: did.append("what is left" if whole else "some")
    )
    monkeypatch.setattr(due, "HISTORIES", (Polls, Left))
    monkeypatch.setattr(due, "Engine", lambda *_: made)
    monkeypatch.setattr(due, "next_due", lambda *_: datetime.now(UTC) + timedelta(seconds=due_s))
    monkeypatch.setattr(due, "check_clock", lambda *_: None)
    monkeypatch.setattr(due, "keep_up", lambda *_: did.append("upkeep"))
    config: Any = SimpleNamespace(
        clusters={"orders": {}}, **dict.fromkeys(("lake", "bronze_retention", "kept"))
    )
    due.keep_up_when_due(None, config)  # type: ignore[arg-type]
    assert did == done


def test_upkeep_waits_while_the_clock_is_not_believed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run with --once ends as it would without upkeep, and one that lasts does not try again each
    second.
    """

    def doubt(*_: object) -> None:
        raise ClockError("the clock is ahead")

    monkeypatch.setattr(due, "next_due", lambda *_: datetime.min.replace(tzinfo=UTC))
    monkeypatch.setattr(due, "check_clock", doubt)
    monkeypatch.setattr(
        due, "take_what_is_left", lambda *_: pytest.fail("the clock is asked first")
    )
    names = ("lake", "bronze_retention", "kept")
    config: Any = SimpleNamespace(**dict.fromkeys(names), asked_for_offsets=frozenset())
    work = due.upkeep(None, config)  # type: ignore[arg-type]
    for _ in range(3):
        work()
    assert caplog.messages == ["upkeep waits: the clock is ahead"], "once, not each minute"


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
    assert prepared == [0, 1], (
        "made of what the tables say after an error, and kept where there was none"
    )
    assert each.overtaken is None


def test_work_that_fails_is_tried_again_after_ever_longer_and_at_once_after_it_worked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each attempt of a history says in the lake that it starts."""
    waited, stop, outcomes = list[float | None](), Event(), iter([*"ffffffffff", "", "f", "end"])
    monkeypatch.setattr(Event, "wait", lambda _, timeout=None: waited.append(timeout) or True)

    def work() -> None:
        outcome = next(outcomes)
        if outcome == "end":
            stop.set()
        if outcome == "f":
            raise RuntimeError("no space left")

    Lasting("history", lambda: work).run(None, stop)  # type: ignore[arg-type]
    assert waited == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, PAUSE_S, 1, PAUSE_S]


def test_all_threads_together_have_so_long_to_end() -> None:
    stuck = Event()
    threads = [Thread(target=stuck.wait, daemon=True) for _ in range(5)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    join_within(0.2, threads)
    assert 0.2 <= time.monotonic() - began < 1.0
    stuck.set()
    join_within(10, threads)
    assert not any(thread.is_alive() for thread in threads)
    assert pipeline.STOPS_WITHIN_S < 30, "a pod is killed then"


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
    return lambda event, timeout=None: wait(
        event, timeout if timeout is None or timeout > 1 else timeout / 100
    )


def test_work_that_keeps_failing_says_what_to_do_and_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It fails six times, half a minute apart, then it works; much later it fails once."""
    clock = iter([100.0, 130.0, 160.5, 190.0, 221.0, 250.0, 1_000.0])
    monkeypatch.setattr("jobs.run.work.time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(Event, "wait", lambda *_: True)
    stop, outcomes = Event(), iter([*"ffffff", "", "", "f", "end"])

    def work() -> None:
        outcome = next(outcomes)
        if outcome == "end":
            stop.set()
        if outcome == "f":
            raise RuntimeError("no space left\non device")

    Lasting("history", lambda: work).run(None, stop)  # type: ignore[arg-type]
    mend = (
        "no space left; correct what the error names, it is tried again. Polling continues, and "
        "bronze keeps"
    )
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "history failed and is tried again: no space left"),
        ("ERROR", f"history has failed for 60 s: {mend} what history has not had"),
        ("ERROR", f"history has failed for 121 s: {mend} what history has not had"),
        ("WARNING", "history works again, after it failed 6 time(s)"),
        ("WARNING", "history failed and is tried again: no space left"),
        ("WARNING", "history works again, after it failed 1 time(s)"),
    ]
