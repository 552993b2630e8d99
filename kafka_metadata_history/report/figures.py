"""Figures of the page: lanes of marks, and counts by level, over one time axis. Gaps are hatched in
each of them.

Nothing that a cluster named reaches HTML here: lanes are labels on a canvas, and texts of tooltips
are columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from bokeh.models import (
    BoxZoomTool,
    ColumnDataSource,
    DatetimeTicker,
    DatetimeTickFormatter,
    FactorRange,
    HoverTool,
    PanTool,
    Range1d,
    TapTool,
    WheelZoomTool,
)
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure

from kafka_metadata_history.report.moments import between, ms
from kafka_metadata_history.report.styles import LEVELS, style_of, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka_metadata_history.report.marks import DrawnSection, Mark, Window
    from kafka_metadata_history.report.report_data import Gap, Row

LABELS: Final = 190
"""Pixels to the left of each figure, for labels of lanes, so that time axes are in line."""
LABEL: Final = 27
"""Characters of a label."""
LANE: Final = 27
"""Pixels."""
TALL_LANE: Final = 46
LEVEL_LANE: Final = 54
AXIS: Final = 46
MOST_TEXTS: Final = 60
"""Texts beside marks, before they hide each other."""
CHARACTER: Final = 6 / 1000
"""Of the width of a figure, at 1280 pixels."""
EDGE: Final = "#333333"
INK: Final = "#1f2328"
GRID: Final = "#e5e7eb"
GAP: Final = "#9aa0a6"
TARGET: Final = 16
"""Pixels of a mark that a pointer hits, however short it lasts."""


@dataclass(frozen=True)
class Axis:
    """The time axis that all figures share, and the hatching where nothing is known."""

    range: Range1d
    gaps: ColumnDataSource


def axis(window: Window, gaps: Sequence[Gap]) -> Axis:
    """Return the axis of a window."""
    least = (window.until - window.since) / 100_000
    columns: dict[str, Any] = {
        "begin": np.array([gap.begin for gap in gaps], float),
        "end": np.array([gap.end for gap in gaps], float),
    }
    return Axis(
        Range1d(
            start=window.since,
            end=window.until,
            bounds=(window.since, window.until),
            min_interval=max(least, 10),
            name="time",
        ),
        ColumnDataSource(columns, name="gaps"),
    )


def lanes(drawn: DrawnSection, on: Axis, window: Window) -> figure:
    """Return a section as a figure: thick is sure, thin may have been; shapes are begins."""
    name = drawn.section.name
    tall = name == "brokers"
    plot = _plot(labels(drawn.lanes), on, TALL_LANE if tall else LANE, name)
    source = ColumnDataSource(_columns(drawn, window), name=f"{name} rows")
    plot.hbar(
        "y",
        "thin",
        "maybe_from",
        "maybe_until",
        source=source,
        fill_color="colour",
        line_color=EDGE,
        line_width=0.5,
    )
    plot.hbar(
        "y", "thick", "sure_from", "sure_until", source=source, fill_color="colour",
        line_color=EDGE, line_width=1, hatch_pattern="hatch", hatch_color="#ffffff",
        hatch_alpha=0.9, hatch_scale=10, hatch_weight=2,
    )  # fmt: skip
    plot.scatter(
        "sure_from", "y", size="point", marker="marker", source=source, fill_color="colour",
        line_color=EDGE, line_width=1,
    )  # fmt: skip
    plot.text(
        "sure_from", "text_y", "text", source=source, text_font_size="11px", text_color=INK,
        x_offset="text_x", y_offset=0, text_baseline="middle",
    )  # fmt: skip
    target = plot.segment(
        "maybe_from",
        "y",
        "maybe_until",
        "y",
        source=source,
        line_width=TARGET,
        line_alpha=0,
        name=f"{name} target",
    )
    for renderer in plot.renderers:
        if isinstance(renderer, GlyphRenderer):
            renderer.nonselection_glyph = None
    tooltips = [
        ("", "@what"),
        (drawn.section.lane, "@lane"),
        ("began", "@began"),
        ("ended", "@ended"),
        ("inferred", "@inferred"),
        ("rows", "@rows"),
    ]
    plot.add_tools(
        HoverTool(renderers=[target], tooltips=tooltips, limit=3, point_policy="follow_mouse"),
        TapTool(renderers=[target]),
    )
    return plot


def levels(rows: Iterable[Row], on: Axis, window: Window) -> figure:
    """Return how many partitions were at each level over time, as a figure: a lane for each level,
    as high as its most. `rows`: as `queries.LEVELS` answers.
    """
    by_level: dict[str, list[Row]] = {level: [] for level in reversed(LEVELS)}
    for row in rows:
        by_level[str(row["level"])].append(row)
    found = {level: _steps(own, window) for level, own in by_level.items() if own}
    most = {level: max((step[3] for step in steps), default=0) for level, steps in found.items()}
    plot = _plot(
        [f"{words(level)} (most: {most[level]:,})" for level in found], on, LEVEL_LANE, "levels"
    )
    columns: dict[str, Any] = {key: [] for key in ("begin", "end", "base", "sure_top", "maybe_top")}
    columns |= {key: [] for key in ("colour", "hatch", "what", "time", "count")}
    for number, (level, steps) in enumerate(found.items()):
        base = len(found) - 1 - number
        for begin, end, sure, maybe in steps:
            height = 0.86 / max(most[level], 1)
            values = (begin, end, base, base + height * sure, base + height * maybe)
            texts = (
                LEVELS[level].colour,
                LEVELS[level].hatch,
                words(level),
                between(begin, end, window.day).removeprefix("between "),
                f"{sure:,}" if sure == maybe else f"{sure:,} surely, {maybe:,} at most",
            )
            for key, value in zip(columns, (*values, *texts), strict=True):
                columns[key].append(value)
    for key in ("begin", "end", "base", "sure_top", "maybe_top"):
        columns[key] = np.array(columns[key], float)
    source = ColumnDataSource(columns, name="levels")
    target = plot.quad(
        "begin",
        "end",
        "maybe_top",
        "base",
        source=source,
        fill_color="colour",
        fill_alpha=0.3,
        line_color=None,
    )
    plot.quad(
        "begin", "end", "sure_top", "base", source=source, fill_color="colour", line_color=None,
        hatch_pattern="hatch", hatch_color="#ffffff", hatch_alpha=0.8, hatch_scale=12,
        hatch_weight=2,
    )  # fmt: skip
    plot.segment(
        "begin", "maybe_top", "end", "maybe_top", source=source, line_color=EDGE, line_width=1
    )
    plot.add_tools(
        HoverTool(
            renderers=[target],
            tooltips=[("", "@what"), ("partitions", "@count"), ("from", "@time")],
            point_policy="follow_mouse",
        )
    )
    return plot


def labels(names: Sequence[str]) -> list[str]:
    """Return labels of lanes, no longer than there is room for, and each once."""
    found: list[str] = []
    for name in names:
        short = name if len(name) <= LABEL else f"{name[: LABEL - 11]}…{name[-10:]}"
        again, label = 1, short
        while label in found:
            again += 1
            label = f"{short[: LABEL - 4]} ~{again}"
        # A label that is empty, or nothing but spaces, is none.
        found.append(label if label.strip() else f"'{label}'")
    return found


def _plot(names: Sequence[str], on: Axis, lane: int, name: str) -> figure:
    height = lane * max(len(names), 1) + AXIS
    plot = figure(
        x_range=on.range,
        y_range=FactorRange(factors=list(reversed(names))),
        x_axis_type="datetime",
        height=height,
        sizing_mode="stretch_width",
        min_border_left=LABELS,
        min_border_right=24,
        toolbar_location=None,
        tools=[],
        name=name,
        outline_line_color="#c7ccd1",
        background_fill_color="#ffffff",
    )
    pan, box, wheel = (
        PanTool(dimensions="width"),
        BoxZoomTool(dimensions="width"),
        WheelZoomTool(dimensions="width"),
    )
    wheel.zoom_on_axis = False
    plot.add_tools(pan, box, wheel)
    plot.toolbar.active_drag = pan
    plot.toolbar.active_scroll = wheel
    plot.xaxis.formatter = DatetimeTickFormatter(
        microseconds="%H:%M:%S.%3N",
        milliseconds="%H:%M:%S.%3N",
        seconds="%H:%M:%S",
        minsec="%H:%M:%S",
        minutes="%H:%M",
        hourmin="%H:%M",
        hours="%H:%M",
        days="%b %d",
        months="%b %Y",
        context=DatetimeTickFormatter(
            microseconds="%Y-%m-%d", milliseconds="%Y-%m-%d", seconds="%Y-%m-%d", minsec="%Y-%m-%d",
            minutes="%Y-%m-%d", hourmin="%Y-%m-%d", hours="%Y-%m-%d", days="%Y", months="",
            years="",
        ),
        context_which="start",
        hide_repeats=True,
    )  # fmt: skip
    plot.xaxis.ticker = DatetimeTicker(desired_num_ticks=8)
    for each in (plot.xaxis, plot.yaxis):
        each.major_label_text_font_size = "12px"
        each.major_label_text_color = INK
        each.axis_line_color = None
        each.major_tick_line_color = None
        each.minor_tick_line_color = None
    plot.ygrid.grid_line_color = None
    plot.xgrid.grid_line_color = GRID
    plot.vstrip(
        "begin", "end", source=on.gaps, fill_color="#f1f3f4", line_color=None,
        hatch_pattern="left_diagonal_line", hatch_color=GAP, hatch_alpha=0.7, hatch_scale=10,
        hatch_weight=1, level="underlay",
    )  # fmt: skip
    plot.hspan(
        list(range(1, len(names))), line_color=GRID, line_width=1, level="underlay",
    )  # fmt: skip
    return plot


def _columns(drawn: DrawnSection, window: Window) -> dict[str, Any]:
    """Return the columns of a figure's source, a row for each mark."""
    styles = [style_of(drawn.section.name, mark.kind) for mark in drawn.marks]
    count = len(drawn.lanes)
    middle = [
        count - mark.lane_number - 0.5 + own.lift
        for mark, own in zip(drawn.marks, styles, strict=True)
    ]
    texts = _texts(drawn, window)
    columns: dict[str, Any] = {
        "y": np.array(middle, float),
        **{
            key: np.array([getattr(mark, key) for mark in drawn.marks], float)
            for key in ("maybe_from", "sure_from", "sure_until", "maybe_until")
        },
        "thin": np.array(
            [0.06 if not each.lasts else min(0.12, each.height / 2) for each in styles]
        ),
        "thick": np.array([each.height if each.lasts else 0.0 for each in styles]),
        "colour": [each.colour for each in styles],
        "hatch": [each.hatch for each in styles],
        "marker": [each.marker or "circle" for each in styles],
        "point": np.array(
            [
                _point(mark) if each.marker else 0
                for mark, each in zip(drawn.marks, styles, strict=True)
            ]
        ),
        "text": texts,
        "text_x": np.array(
            [0 if drawn.section.name == "brokers" else _point(mark) / 2 + 1 for mark in drawn.marks]
        ),
        "text_y": np.array(
            [y + (0.32 if drawn.section.name == "brokers" else 0.24) for y in middle]
        ),
        "lane": [mark.lane for mark in drawn.marks],
        "what": [words(mark.kind) for mark in drawn.marks],
        "began": [between(*mark.began, window.day) for mark in drawn.marks],
        "ended": [
            (between(*mark.ended, window.day) or "not by the end of what is known")
            if own.lasts
            else "-"
            for mark, own in zip(drawn.marks, styles, strict=True)
        ],
        "inferred": [_inferred(mark) for mark in drawn.marks],
        "rows": [f"{mark.rows:,}" for mark in drawn.marks],
    }
    return columns


def _point(mark: Mark) -> int:
    return min((14 if mark.kind == "unclean" else 10) + round(2 * math.log2(mark.rows)), 18)


def _inferred(mark: Mark) -> str:
    found = list(dict.fromkeys(row.inferred for row in mark.behind if row.inferred))
    return "; ".join(found[:3]) + ("; …" if len(found) > 3 else "") if found else "-"


def _texts(drawn: DrawnSection, window: Window) -> list[str]:
    """Return a text for each mark, a level or how many rows; empty where it would hide another."""
    texts = [""] * len(drawn.marks)
    if len(drawn.marks) > MOST_TEXTS:
        return texts
    width = window.until - window.since
    free: dict[int, float] = {}
    for number, mark in sorted(enumerate(drawn.marks), key=lambda each: each[1].sure_from):
        is_point = not style_of(drawn.section.name, mark.kind).lasts
        if drawn.section.name == "brokers":
            text = (
                ""
                if is_point
                else f"{words(mark.kind)}, {mark.size:,} partition{'' if mark.size == 1 else 's'}"
            )
        else:
            text = f"{mark.rows:,}" if mark.rows > 1 else ""
        end = mark.sure_from + len(text) * CHARACTER * width
        if text and mark.sure_from >= free.get(mark.lane_number, -math.inf) and end <= window.until:
            texts[number] = text
            free[mark.lane_number] = end + CHARACTER * width
    return texts


def _steps(rows: Sequence[Row], window: Window) -> list[tuple[float, float, int, int]]:
    """Return stretches: from, until, how many surely, how many at most. Rows sum up steps from
    `first_at` to `last_at`; from there on the last counts are those until the next row.
    """
    end = window.clip(window.known_until)
    found = []
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        first, last = ms(row["first_at"]), ms(row["last_at"])
        until = end if after is None else ms(after["first_at"])
        assert first is not None  # noqa: S101 - never null
        assert last is not None  # noqa: S101
        assert until is not None  # noqa: S101
        found.append((first, min(last, end), int(row["most_sure"]), int(row["most_maybe"])))
        found.append((last, min(until, end), int(row["last_sure"]), int(row["last_maybe"])))
    return [step for step in found if step[0] < step[1] and step[3] > 0]
