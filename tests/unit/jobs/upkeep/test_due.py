"""Upkeep is made when it is due, and waits for a clock that can be believed."""

import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.configuration.config import Config
from jobs.upkeep import due
from jobs.upkeep.lake_clock import ClockError
from schemas.lake import Lake

CONFIG = Config(Lake(root="/lake"), "", {}, silver_retention=timedelta(days=30))


class Upkeep:
    """`later`: by how much it is due after now. `doubts`: whether the lake doubts the clock, before
    the work and while it is done.
    """

    def __init__(self) -> None:
        self.later, self.doubts = timedelta(0), [False, False]
        self.made: list[str] = []

    def next_due(self, _: Any, lake: Lake, now: datetime) -> datetime:
        assert lake == CONFIG.lake
        assert abs(datetime.now(UTC) - now) < timedelta(minutes=1)
        return now + self.later

    def check_clock(self, *_: Any) -> None:
        self.made.append("checked")
        self._doubt(0)

    def take_what_is_left(self, *_: Any) -> None:
        self.made.append("taken")

    def keep_up(self, _: Any, lake: Lake, bronze: timedelta, kept: Any, now: datetime) -> None:
        assert (bronze, kept) == (CONFIG.bronze_retention, CONFIG.kept)
        self._doubt(1)
        self.made.append("kept up")

    def _doubt(self, which: int) -> None:
        if self.doubts[which]:
            raise ClockError("the clock is far ahead")


@pytest.fixture
def upkeep(monkeypatch: pytest.MonkeyPatch) -> Upkeep:
    found = Upkeep()
    for name in ("next_due", "check_clock", "take_what_is_left", "keep_up"):
        monkeypatch.setattr(due, name, getattr(found, name))
    return found


SPARK: Any = None


def test_nothing_is_done_before_it_is_due(upkeep: Upkeep) -> None:
    upkeep.later = timedelta(seconds=1)
    assert not due.keep_up_when_due(SPARK, CONFIG)
    assert upkeep.made == []


def test_what_is_left_is_taken_before_bronze_drops_it(upkeep: Upkeep) -> None:
    assert not due.keep_up_when_due(SPARK, CONFIG, waits=True)
    assert upkeep.made == ["checked", "taken", "kept up"]


@pytest.mark.parametrize("doubts", [[True, False], [False, True]])
def test_a_clock_that_is_doubted_is_waited_for_and_told_of_once(
    upkeep: Upkeep, doubts: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    upkeep.doubts = doubts
    keeps_up = due.upkeep(SPARK, CONFIG)
    for _ in range(3):
        keeps_up()
    lines = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert lines == ["upkeep waits: the clock is far ahead"]
    assert "kept up" not in upkeep.made
    upkeep.doubts = [False, False]
    keeps_up()
    assert upkeep.made[-1] == "kept up"
    upkeep.doubts = doubts
    keeps_up()
    assert len(caplog.records) == 2, "it waits another time"


def test_a_history_that_nobody_wants_any_more_takes_what_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []

    def history(name: str, *, wanted: bool, waits: bool) -> Any:
        found = SimpleNamespace(name=name, waits=lambda *_: waits)

        class History:
            @staticmethod
            def wanted(_: Config) -> bool:
                return wanted

            def __new__(cls) -> Any:
                return found

        return History

    class Engine:
        def __init__(self, _: Any, config: Config, of: Any) -> None:
            assert config is CONFIG
            self.of = of

        def catch_up(self, *, whole: bool) -> None:
            made.append((self.of.name, whole))

    histories = (
        history("wanted", wanted=True, waits=True),
        history("over", wanted=False, waits=False),
        history("left", wanted=False, waits=True),
    )
    monkeypatch.setattr(due, "HISTORIES", histories)
    monkeypatch.setattr(due, "Engine", Engine)
    due.take_what_is_left(SPARK, CONFIG)
    assert made == [("left", True)]
