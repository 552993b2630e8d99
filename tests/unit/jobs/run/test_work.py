"""Work beside polling that fails, and is done again."""

from collections.abc import Callable
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from jobs.rounds.plan import OvertakenError
from jobs.run.work import AGAIN_WITHIN_S, PAUSE_S, Lasting


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
    assert waited == [1, 2, 4, 8, 16, 32, *[AGAIN_WITHIN_S] * 4, PAUSE_S, 1, PAUSE_S]


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
