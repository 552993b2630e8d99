"""A stream whose query ends with an error: whether, and when, another one is started."""

from itertools import pairwise

import pytest
from pyspark.errors import StreamingQueryException

from jobs.rounds.plan import OvertakenError
from jobs.run import streams
from jobs.run.streams import Running
from schemas.lake import LakeError
from tests.support.spark_queries import CRASHED, READ_ONLY, Clock, Query, polling, query_of


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
        assert polls.keep()
        clock.sleep(0.25)
    assert polls.keep()
    gaps = [later - earlier for earlier, later in pairwise(times)]
    expected = [1, 2, 4, 8, 16, *[30] * 16]
    assert gaps == [pytest.approx(each, abs=0.5) for each in expected]
    clock.sleep(60)
    assert polls.keep()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0].endswith("; it is started again")
    assert lines[-1] == "the stream polls works again, after it failed 21 times"
    assert len(lines) <= 2 + clock.now / 60
    query_of(polls).end(fault)
    worked_at = clock.now
    while not polls.query.isActive:
        assert polls.keep()
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


def test_the_job_of_polls_alone_starts_again_too() -> None:
    final = StreamingQueryException("[KAFKA_METADATA_OPTIONS] no")
    polls = polling(Query(CRASHED), Query(CRASHED), Query(final))
    with pytest.raises(StreamingQueryException) as raised:
        polls.run(0)
    assert raised.value is final


@pytest.mark.parametrize("has_progress", [True, False])
@pytest.mark.parametrize(
    "says", ["Cannot call methods on a stopped SparkContext.", "SparkContext was shut down"]
)
def test_a_session_that_is_over_ends_the_stream(says: str, *, has_progress: bool) -> None:
    """Whether it is said of a query that ran, or of one that was to follow it."""
    error = StreamingQueryException(f"[STREAM_FAILED] java.lang.IllegalStateException: {says}")
    with pytest.raises(StreamingQueryException) as raised:
        polling(Query(error, has_progress=has_progress)).keep()
    assert raised.value is error


def test_a_query_that_failed_once_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(monkeypatch)
    polls = polling(Query(CRASHED), Query(has_progress=True))
    for seconds in (0, 1, 60, 60):
        clock.sleep(seconds)
        assert polls.keep()
    assert caplog.messages == ["a stream ended: Python worker exited; it is started again"]
