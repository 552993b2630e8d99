"""The limits of the status: those of the configuration, and the window that they are about."""

from datetime import timedelta
from pathlib import Path

import pytest

from jobs.configuration.config import load
from jobs.configuration.limits import Limits
from tests.support.configurations import GOOD, config
from tests.support.repository import ROOT


def test_thresholds_of_the_status(tmp_path: Path) -> None:
    assert load(str(config(tmp_path, GOOD))).limits == Limits()
    given = "status:\n  lastGoodPoll: 7m\n  failedPercent: 0\n  lakeBytes: 5\n  window: 2 days\n"
    read = load(str(config(tmp_path, GOOD + given)))
    changed = Limits(timedelta(days=2), timedelta(minutes=7), failed_percent=0, lake_bytes=5)
    assert (read.limits, read.poll_intervals) == (changed, {"prod": timedelta(seconds=15)})


def test_the_example_shows_the_defaults_of_the_status() -> None:
    example = load(str(ROOT / "conf" / "example.yaml"))
    assert example.limits == Limits(
        last_good_poll=2 * min(example.poll_intervals.values()) + timedelta(minutes=2)
    )


@pytest.mark.parametrize(("interval", "window"), [(30, 3600), (360, 3600), (600, 6000)])
def test_the_window_has_room_for_ten_polls(interval: int, window: int) -> None:
    assert Limits().window_of(timedelta(seconds=interval)) == timedelta(seconds=window)
