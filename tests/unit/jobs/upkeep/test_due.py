"""When upkeep is done, and what comes before it."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.histories.lag import GroupLag
from jobs.histories.polls import Polls
from jobs.upkeep import due
from jobs.upkeep.lake_clock import ClockError


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
