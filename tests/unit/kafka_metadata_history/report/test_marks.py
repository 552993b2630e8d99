"""The marks of a figure, within its window."""

from datetime import timedelta

import pytest

from kafka_metadata_history.report import queries
from kafka_metadata_history.report.marks import Window, drawn_section
from tests.support.incident import NOON
from tests.support.report_pages import marks_of
from tests.support.reports import Lake, page_of


def test_a_bar_is_sure_between_the_inner_bounds(page: str) -> None:
    marks = marks_of(page, "brokers")
    incidents = {
        lane: [round((at - NOON.timestamp() * 1000) / 1000, 1) for at in times]
        for lane, what, *times in zip(
            marks["lane"], marks["what"], marks["maybe_from"], marks["sure_from"],
            marks["sure_until"], marks["maybe_until"], strict=True,
        )
        if "broker" not in what
    }  # fmt: skip
    # Clipped to the window, which begins at 5 s.
    assert incidents == {"broker 2": [5, 10.1, 30, 40.1], "broker 3": [10, 20.1, 50, 60.1]}
    assert "between 12:00:00.000 and 12:00:10.100" in marks["began"]
    assert set(marks["inferred"]) == {
        "broker_down",
        "broker_down; lagging; broker_down, lagging",
        "-",
    } or set(marks["inferred"]) >= {"-"}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((10, 20.1, 40, 50.1), (10, 20.1, 40, 50.1)),
        ((10, 20.1, None, None), (10, 20.1, 90, 100)),  # sure as far as polls go
        ((None, 20.1, 40, 50.1), (0, 20.1, 40, 50.1)),  # nobody looked before
        (
            (10, 20.1, 20, 30.1),
            (10, 20.1, 20.1, 30.1),
        ),  # one poll alone, sent before it was answered
        ((-50, -40, 10, 20), (0, 0, 10, 20)),
        ((80, 90, 140, 150), (80, 90, 100, 100)),
        ((80, 90, 95, 150), (80, 90, 95, 100)),  # may have ended within the window
    ],
)
def test_bounds_within_the_window(
    bounds: tuple[float | None, ...], expected: tuple[float, ...]
) -> None:
    ends = [None if second is None else NOON + timedelta(seconds=second) for second in bounds]
    times = dict(
        zip(("began_after", "began_before", "ended_after", "ended_before"), ends, strict=True)
    )
    row = {
        **dict.fromkeys(("id", "subject", "details", "inferred"), "a"), **times, "lane": "a",
        "kind": "offline", "lane_number": 1, "mark": 1, "mark_rows": 1, "mark_size": 1,
        "mark_last_before": times["began_before"], "rows_all": 1, "counted_all": 1, "lanes_all": 1,
        **{f"mark_{name}": at for name, at in times.items()},
    }  # fmt: skip
    noon = NOON.timestamp() * 1000
    (mark,) = drawn_section(
        queries.PARTITIONS, [row], (), Window(noon, noon + 100_000, noon + 90_000)
    ).marks
    found = (mark.maybe_from, mark.sure_from, mark.sure_until, mark.maybe_until)
    assert [round((at - noon) / 1000, 1) for at in found] == [*expected]


def test_what_lasts_is_sure_to_the_end_of_what_is_known(lake: Lake) -> None:
    page = page_of(lake, "2026-11-01T12:00:00Z", "2026-11-01T12:10:00Z")
    marks = marks_of(page, "groups")
    place = marks["lane"].index("shop")
    assert marks["ended"][place] == "not by the end of what is known"
    assert round(marks["sure_until"][place] / 1000 - NOON.timestamp(), 1) == 120.1
    assert round(marks["maybe_until"][place] / 1000 - NOON.timestamp()) == 600
