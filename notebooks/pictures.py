"""Pictures of a review: rows in, a figure out. Bars are thick or full where something is sure, and thin or light where
it may have been.

Every picture over time has the window's time axis, in UTC, and hatching where nothing is known. Colours are those of
notebooks/colours.py. A picture without rows says so.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

import matplotlib.dates as mdates
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from metadata_source.text import printable
from notebooks import colours
from notebooks.colours import COUNT, FRAME, LIGHT_COUNT
from notebooks.spans import Span, Window, bin_width, capped, framed, running, said, span, thinned
from notebooks.tables import number_range

WIDTH = 11.0
MOST_LANES = 40
MOST_LINES = 12
"""Lines that can be followed in one picture."""
MOST_BINS = 36
MOST_NOTES = 80
"""Numbers beside what they are about, before they hide each other."""
_PIXELS = 1_000
_LEFT, _RIGHT, _TOP, _BOTTOM = 1.95, 0.35, 0.35, 0.95
"""Margins in inches: the same in each picture, so that their time axes are in line."""
_LEGEND_COLUMNS = 7
_LABEL_LENGTH = 26
_UNKNOWN: Mapping[str, Any] = {"facecolor": "#ffffff80", "edgecolor": "#b0b0b0", "hatch": "////", "linewidth": 0}
_SURE, _MAYBE = 0.62, 0.2
"""Heights of a bar in its lane, which is 1 high."""
_LEAST = 0.003
"""Of the window: what is shorter is no wider than the edges of its bar."""
_GREYS = LinearSegmentedColormap.from_list("counts", ["#f4f4f4", "#4a4a4a"])


def bars(
    rows: pd.DataFrame,
    window: Window,
    gaps: pd.DataFrame,
    *,
    title: str,
    colour_of: Mapping[str, str],
) -> Figure:
    """Bars in lanes: `rows` have lane, kind (a key of `colour_of`; later keys are drawn over earlier ones),
    began_after, began_before, ended_after, ended_before; and may have note (above the bar), label (in it, where it
    fits), of: how many lanes there are with those left out.

    Lanes stand from the top in the order of their first rows.
    """
    lanes = [] if rows.empty else list(dict.fromkeys(rows["lane"]))
    of = int(rows["of"].iloc[0]) if lanes and "of" in rows else len(lanes)
    if len(lanes) > MOST_LANES:
        lanes = lanes[:MOST_LANES]
        rows = rows[rows["lane"].isin(lanes)]
    title = capped(title, len(lanes), of)
    has_notes = "note" in rows and len(rows) <= MOST_NOTES
    figure, (axes,) = _figure(title, 0.9 + (0.5 if has_notes else 0.3) * max(len(lanes), 2))
    parts: dict[tuple[str, int], list[Span]] = {}
    for row in rows.itertuples():
        part = span(row, window)
        parts.setdefault((row.kind, lanes.index(row.lane)), []).append(part)
        if has_notes:
            _note(axes, lanes.index(row.lane), part, window, row.note)
        if "label" in rows:
            _label(axes, lanes.index(row.lane), part, window, row.label)
    kinds = [kind for kind in colour_of if any(kind == drawn for drawn, _ in parts)]
    least = (window.until - window.since) * _LEAST
    for kind, lane in sorted(parts, key=lambda place: kinds.index(place[0])):
        _bars(axes, lane, parts[kind, lane], colour_of[kind], least)
    _lanes(axes, lanes)
    handles: list[Artist] = [
        Patch(facecolor=colour_of[kind], edgecolor=FRAME, label=kind.replace("_", " ")) for kind in kinds
    ]
    if kinds:
        handles.append(Line2D([], [], color=COUNT, linewidth=2, label="thin: may have been"))
    if any(part.goes_on for spans in parts.values() for part in spans):
        handles.append(Line2D([], [], color=COUNT, marker=">", linestyle="", label="goes on"))
    return _finished(figure, [axes], window, gaps, handles, empty=rows.empty)


def levels(edges: pd.DataFrame, window: Window, gaps: pd.DataFrame, *, title: str) -> Figure:
    """How many partitions were at each level over time: `edges` have level, at, sure and maybe (what is added to both
    counts).
    """
    found = [] if edges.empty else [level for level in colours.LEVEL if level in set(edges["level"])]
    figure, panels = _figure(title, 0.7 + 1.15 * max(len(found), 1), len(found) or 1)
    for axes, level in zip(panels, found, strict=False):
        steps = thinned(running(edges[edges["level"] == level], window, ("sure", "maybe")), _PIXELS)
        colour = colours.LEVEL[level]
        axes.fill_between(steps["at"], steps["maybe"], step="post", color=colour, alpha=0.3, linewidth=0)
        axes.fill_between(steps["at"], steps["sure"], step="post", color=colour, linewidth=0)
        axes.step(steps["at"], steps["maybe"], where="post", color=colour, linewidth=1)
        axes.set_ylabel(
            f"{level.replace('_', ' ')}\n(most: {steps['maybe'].max()})", rotation=0, ha="right", va="center"
        )
        _counts(axes)
    handles = [
        Patch(facecolor=COUNT, label="full: surely so many partitions"),
        Patch(facecolor=COUNT, alpha=0.3, label="light: at most so many"),
    ]
    return _finished(figure, panels, window, gaps, handles, empty=not found)


def stack(
    edges: pd.DataFrame, window: Window, gaps: pd.DataFrame, *, title: str, colour_of: Mapping[str, str]
) -> Figure:
    """Counts over time, one upon the other: `edges` have kind (a key of `colour_of`, the first lowest),
    at and added.
    """
    figure, (axes,) = _figure(title, 2.6)
    handles = []
    if not edges.empty:
        wide = edges.pivot_table(index="at", columns="kind", values="added", aggfunc="sum", fill_value=0)
        kinds = [kind for kind in colour_of if kind in wide]
        steps = thinned(running(wide.reset_index(), window, kinds), _PIXELS)
        base = steps[kinds[0]] * 0
        for kind in kinds:
            top = base + steps[kind]
            axes.fill_between(
                steps["at"], base, top, step="post", facecolor=colour_of[kind], edgecolor=FRAME, linewidth=0.4
            )
            handles.append(Patch(facecolor=colour_of[kind], edgecolor=FRAME, label=kind))
            base = top
        _counts(axes)
        axes.set_ylabel("partitions")
    return _finished(figure, [axes], window, gaps, handles, empty=edges.empty)


def events(
    rows: pd.DataFrame, window: Window, gaps: pd.DataFrame, *, title: str, brokers: Mapping[int, colours.Style]
) -> Figure:
    """Events, a lane for each kind: `rows` have what, broker_id (null: none, -1: no leader), began_*, count."""
    lanes = [] if rows.empty else list(dict.fromkeys(rows["what"]))
    figure, (axes,) = _figure(title, 0.9 + 0.55 * max(len(lanes), 2))
    seen = [] if rows.empty else sorted({int(broker) for broker in rows["broker_id"].dropna()})
    for id_, own in [] if rows.empty else rows.groupby("broker_id", dropna=False):
        broker = None if pd.isna(id_) else int(id_)
        colour = _broker(broker, brokers).colour
        places = [lanes.index(what) + _aside(broker, seen) for what in own["what"]]
        begins = own["began_after"].fillna(window.since).clip(lower=window.since)
        axes.hlines(places, begins, own["began_before"], color=colour, linewidth=1.5)
        axes.plot(own["began_before"], places, color=colour, marker="o", markersize=5, linestyle="", zorder=4)
        if len(rows) <= MOST_NOTES:
            # Below the line where the number of the one before would run into it.
            aside = own.groupby("what")["began_before"].diff() < (window.until - window.since) * 0.03
            for at, place, count, below in zip(own["began_before"], places, own["count"], aside, strict=True):
                offset = (4, -8 if below else 3)
                axes.annotate(f"{count:,}", (at, place), offset, textcoords="offset points", fontsize=7.5, zorder=4)
    _lanes(axes, lanes)
    handles = _broker_handles(seen, brokers, line=False)
    if lanes:
        handles.append(Line2D([], [], color=COUNT, linewidth=1.5, label="line: at some time in it"))
    return _finished(figure, [axes], window, gaps, handles, empty=rows.empty)


def balance(
    rows: pd.DataFrame, window: Window, gaps: pd.DataFrame, *, title: str, brokers: Mapping[int, colours.Style]
) -> Figure:
    """The partitions that each broker led, and those that others led though it should have, as counts over time.

    `rows` of gold.leader_balance, with of: how many brokers there are.
    """
    of_each = [] if rows.empty else list(rows.sort_values("valid_from").groupby("broker_id"))
    figure, panels = _figure(capped(title, len(of_each), int(rows["of"].iloc[0]) if len(rows) else 0), 5.0, 2)
    for axes, column, what in zip(
        panels,
        ("leads", "led_elsewhere"),
        ("partitions\nthat it leads", "partitions that it\nshould lead, but\nothers do"),
        strict=True,
    ):
        for broker, own in of_each:
            style = _broker(int(broker), brokers)
            last = own.iloc[-1]
            end = window.known_end if pd.isna(last.valid_to) else window.clip(last.valid_to)
            times = [*own["valid_from"].clip(lower=window.since), end]
            axes.step(
                times, [*own[column], last[column]], where="post", color=style.colour, linestyle=style.line, linewidth=2
            )
        axes.set_ylabel(what, rotation=0, ha="right", va="center")
        _counts(axes)
    seen = [int(broker) for broker, _ in of_each]
    return _finished(figure, panels, window, gaps, _broker_handles(seen, brokers, line=True), empty=not of_each)


def changes(
    rows: pd.DataFrame,
    window: Window,
    gaps: pd.DataFrame,
    *,
    title: str,
    colour_of: Mapping[str, str],
    what: str = "changes",
) -> Figure:
    """How much happened for which reason in each bin.

    `rows` have began_before (when seen), reason (a key of `colour_of`), changes_min and changes_max.
    """
    figure, (axes,) = _figure(title, 2.6)
    width = bin_width(window, MOST_BINS)
    handles: list[Artist] = []
    if not rows.empty:
        binned = rows.assign(bin=rows["began_before"].dt.floor(width))
        least = binned.pivot_table(index="bin", columns="reason", values="changes_min", aggfunc="sum", fill_value=0)
        base = least.sum(axis=1) * 0
        for reason in [reason for reason in colour_of if reason in least]:
            axes.bar(
                least.index, least[reason], width * 0.9, bottom=base, align="edge",
                facecolor=colour_of[reason], edgecolor=FRAME, linewidth=0.6,
            )  # fmt: skip
            handles.append(Patch(facecolor=colour_of[reason], edgecolor=FRAME, label=reason.replace("_", " ")))
            base = base + least[reason]
        # Where one of them has no upper bound the bin has none.
        perhaps = (binned.groupby("bin")["changes_max"].agg(lambda most: most.sum(skipna=False)) - base).fillna(0)
        if perhaps.any():
            axes.bar(
                perhaps.index, perhaps, width * 0.9, bottom=base, align="edge",
                facecolor="none", edgecolor=FRAME, linestyle=":", linewidth=1,
            )  # fmt: skip
            handles.append(
                Patch(facecolor="none", edgecolor=FRAME, linestyle=":", label="perhaps, hidden between polls")
            )
        _counts(axes)
        axes.set_ylabel(f"{what} in {said(width)}")
    return _finished(figure, [axes], framed(window, width), gaps, handles, empty=rows.empty, binned=True)


def heat(rows: pd.DataFrame, window: Window, gaps: pd.DataFrame, *, title: str) -> Figure:
    """Counts by lane and time: `rows` have lane, began_before and count.

    Lanes keep their order; where not all fit, those with the most are shown.
    """
    width = bin_width(window, MOST_BINS)
    most_in = [] if rows.empty else rows.groupby("lane")["count"].sum().nlargest(MOST_LANES).index
    lanes = sorted(most_in)
    of = 0 if rows.empty else rows["lane"].nunique()
    figure, (axes,) = _figure(
        f"{capped(title, len(lanes), of)}, in each {said(width)}", 0.9 + 0.36 * max(len(lanes), 2)
    )
    if lanes:
        binned = rows.assign(bin=rows["began_before"].dt.floor(width))
        counts = binned[binned["lane"].isin(lanes)].groupby(["lane", "bin"])["count"].sum()
        for (lane, begin), count in counts.items():
            shade, y = count / counts.max(), lanes.index(lane)
            left, wide = mdates.date2num(begin), width / pd.Timedelta("1D")
            axes.broken_barh([(left, wide * 0.96)], (y - 0.46, 0.92), facecolor=_GREYS(shade))
            axes.text(
                left + wide * 0.48, y, f"{count:,}", ha="center", va="center", fontsize=8,
                color="white" if shade > 0.55 else "black",
            )  # fmt: skip
    _lanes(axes, [f"broker {lane}" for lane in lanes])
    return _finished(figure, [axes], framed(window, width), gaps, [], empty=rows.empty, binned=True)


def before_and_after(rows: pd.DataFrame, *, title: str, brokers: Mapping[int, colours.Style]) -> Figure:
    """Imbalance of brokers: `rows` have broker_id, imbalance_before, imbalance_after, imbalance_worst (0 to 1, null:
    not known).
    """
    of = len(rows)
    if of > MOST_LANES:
        rows = rows.nlargest(MOST_LANES, "imbalance_worst")
    figure, (axes,) = _figure(capped(title, len(rows), of), 1.2 + 0.36 * max(len(rows), 2))
    for y, row in enumerate(rows.itertuples()):
        colour = _broker(int(row.broker_id), brokers).colour
        known = [v * 100 for v in (row.imbalance_before, row.imbalance_after, row.imbalance_worst) if pd.notna(v)]
        if known:
            axes.plot([min(known), max(known)], [y, y], color=LIGHT_COUNT, linewidth=3, zorder=1)
        for value, marker, fill, size in (
            (row.imbalance_worst, "|", colour, 16),
            (row.imbalance_before, "o", "white", 11), (row.imbalance_after, "o", colour, 6),
        ):  # fmt: skip
            if pd.notna(value):
                axes.plot(
                    [value * 100], [y], marker=marker, markersize=size, color=colour, markerfacecolor=fill,
                    markeredgewidth=2, clip_on=False, zorder=2,
                )  # fmt: skip
    _lanes(axes, [] if rows.empty else [f"broker {broker}" for broker in rows["broker_id"]])
    axes.set_xlim(-2, 102)
    axes.set_xlabel("% of the partitions that it should lead")
    axes.grid(axis="x", color="#e4e4e4")
    handles = [
        Line2D([], [], color=COUNT, marker="o", markerfacecolor="white", markersize=10,
               markeredgewidth=2, linestyle="", label="before (since)"),
        Line2D([], [], color=COUNT, marker="o", markersize=6, linestyle="", label="after (until)"),
        Line2D([], [], color=COUNT, marker="|", markersize=14, markeredgewidth=2, linestyle="", label="worst between"),
    ]  # fmt: skip
    return _closed(figure, [axes], handles, empty=rows.empty)


def seen_and_hidden(rows: pd.DataFrame, *, title: str) -> Figure:
    """Changes of leaders by topic: `rows` have topic, seen, changes_min and changes_max (null: not known). The first
    ones are shown.
    """
    of, rows = len(rows), rows.head(MOST_LANES)
    figure, (axes,) = _figure(capped(title, len(rows), of), 1.2 + 0.3 * max(len(rows), 2))
    if not rows.empty:
        lanes = range(len(rows))
        hidden = (rows["changes_min"] - rows["seen"]).clip(lower=0)
        perhaps = (rows["changes_max"] - rows["changes_min"]).fillna(0).clip(lower=0)
        axes.barh(lanes, rows["seen"], color=COUNT, height=_SURE)
        axes.barh(lanes, hidden, left=rows["seen"], color=LIGHT_COUNT, height=_SURE)
        some = perhaps[perhaps > 0]
        axes.barh(
            [lanes[y] for y in range(len(rows)) if perhaps.iloc[y] > 0], some, left=rows["changes_min"][some.index],
            facecolor="none", edgecolor=FRAME, linestyle=":", height=_SURE,
        )  # fmt: skip
        for y, row in enumerate(rows.itertuples()):
            end = max(row.changes_min, perhaps.iloc[y] + row.changes_min)
            text = number_range(row.changes_min, row.changes_max)
            axes.annotate(text, (end, y), (4, 0), textcoords="offset points", va="center", fontsize=8)
        axes.set_xlim(0, (rows["changes_min"] + perhaps).max() * 1.1)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _lanes(axes, [] if rows.empty else list(rows["topic"]))
    axes.set_xlabel("changes of leaders")
    handles = [
        Patch(facecolor=COUNT, label="seen by a poll"),
        Patch(facecolor=LIGHT_COUNT, label="hidden between two polls, by the epochs"),
        Patch(facecolor="none", edgecolor=FRAME, linestyle=":", label="perhaps"),
    ]
    return _closed(figure, [axes], handles, empty=rows.empty)


def _figure(title: str, height: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure whose panels are `height` inches high together."""
    # No pyplot: a figure belongs to the cell that shows it, and is forgotten with it.
    figure = Figure(figsize=(WIDTH, height + _TOP + _BOTTOM), dpi=100)
    axes = list(figure.subplots(panels, 1, sharex=True, squeeze=False)[:, 0])
    axes[0].set_title(title, loc="left", fontsize=11, fontweight="bold")
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    # Notebooks cut off what is blank around a picture, and time axes that stand below each other would not be in line.
    figure.add_artist(Rectangle((0, 0), 1, 1, transform=figure.transFigure, fill=False, edgecolor="none"))
    return figure, axes


def _bars(axes: Axes, lane: int, spans: Sequence[Span], colour: str, least: pd.Timedelta) -> None:
    """Thick where they surely were, thin where they may have been. A diamond shows the colour of what is too short for
    it.
    """
    for height, ends in (
        (_MAYBE, [(part.maybe_from, part.maybe_until) for part in spans]),
        (_SURE, [(part.sure_from, part.sure_until) for part in spans]),
    ):
        numbers = [(mdates.date2num(begin), mdates.date2num(end)) for begin, end in ends]
        axes.broken_barh(
            [(begin, end - begin) for begin, end in numbers], (lane - height / 2, height),
            facecolor=colour, edgecolor=FRAME, linewidth=0.5,
        )  # fmt: skip
    short = [part.sure_from for part in spans if part.maybe_until - part.maybe_from < least]
    axes.plot(
        short,
        [lane] * len(short),
        marker="d",
        markersize=8,
        color=colour,
        markeredgecolor=FRAME,
        linestyle="",
        zorder=5,
    )
    if any(part.goes_on for part in spans):
        end = max(part.maybe_until for part in spans)
        axes.plot([end], [lane], marker=">", markersize=9, color=colour, markeredgecolor=FRAME, clip_on=False, zorder=5)


def _note(axes: Axes, lane: int, part: Span, window: Window, text: str) -> None:
    """Above its bar, from its begin or, in the right half, up to its end."""
    right = part.sure_from - window.since > (window.until - window.since) / 2
    axes.annotate(
        text,
        (part.maybe_until if right else part.maybe_from, lane - _SURE / 2),
        (0, 2),
        textcoords="offset points",
        ha="right" if right else "left",
        fontsize=8,
        zorder=4,
    )


def _label(axes: Axes, lane: int, part: Span, window: Window, text: str) -> None:
    """In its bar, if that is wide enough."""
    if part.sure_until - part.sure_from > (window.until - window.since) * 0.015 * len(text):
        middle = part.sure_from + (part.sure_until - part.sure_from) / 2
        axes.text(
            middle, lane, text, ha="center", va="center", fontsize=8, zorder=4,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
        )  # fmt: skip


def _lanes(axes: Axes, lanes: Sequence[str]) -> None:
    axes.set_yticks(range(len(lanes)), [_short(lane.replace("_", " ")) for lane in lanes])
    axes.set_ylim(max(len(lanes), 1) - 0.4, -0.7)
    axes.tick_params(axis="y", length=0)
    for y in range(len(lanes) - 1):
        axes.axhline(y + 0.5, color="#ececec", linewidth=0.8, zorder=0)


def _short(text: str) -> str:
    """Cut the middle out of a text that has no room: a partition's number is at the end."""
    text = printable(text)
    half = _LABEL_LENGTH // 2
    return text if len(text) <= _LABEL_LENGTH else f"{text[:half]}…{text[-half:]}"


def _counts(axes: Axes) -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="#ececec", zorder=0)
    axes.set_axisbelow(True)


def _finished(
    figure: Figure,
    panels: Sequence[Axes],
    window: Window,
    gaps: pd.DataFrame,
    handles: Sequence[Artist],
    *,
    empty: bool,
    binned: bool = False,
) -> Figure:
    """With the time axis, what is not known, and the legend."""
    for axes in panels:
        for gap in gaps.itertuples():
            # Over what lasts: that it was so before and afterwards does not say that it was so in between.
            axes.axvspan(window.clip(gap.gap_start), window.clip(gap.gap_end), zorder=0.5 if binned else 3, **_UNKNOWN)
        axes.set_xlim(window.since, window.until)
    _time_axis(panels[-1], window)
    if len(gaps):
        handles = [*handles, Patch(label="nothing known here", **_UNKNOWN)]
    return _closed(figure, panels, handles, empty=empty)


def _closed(figure: Figure, panels: Sequence[Axes], handles: Sequence[Artist], *, empty: bool) -> Figure:
    if empty:
        for axes in panels:
            axes.set_yticks([])
        panels[-1].text(
            0.5, 0.5, "nothing of this in the window", transform=panels[-1].transAxes, ha="center", va="center",
            color=FRAME, bbox={"facecolor": "white", "edgecolor": "none"}, zorder=4,
        )  # fmt: skip
    lines = math.ceil(len(handles) / _LEGEND_COLUMNS)
    bottom = _BOTTOM + 0.22 * max(lines - 1, 0)
    height = figure.get_figheight() + bottom - _BOTTOM
    figure.set_figheight(height)
    figure.subplots_adjust(
        left=_LEFT / WIDTH, right=1 - _RIGHT / WIDTH, top=1 - _TOP / height, bottom=bottom / height, hspace=0.16
    )
    if handles:
        figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0, 0), ncols=_LEGEND_COLUMNS,
            frameon=False, fontsize=8.5, columnspacing=1.3, handlelength=1.7,
        )  # fmt: skip
    for text in figure.findobj(Text):
        # The dollars of a group's name are no formula.
        text.set_parse_math(False)
    return figure


def _time_axis(axes: Axes, window: Window) -> None:
    """Labels that can be read without the others: the date too, wherever the window has more than one."""
    locator = mdates.AutoDateLocator(tz=UTC, minticks=4, maxticks=9)
    length = window.until - window.since
    clock = "%H:%M:%S" if length < pd.Timedelta("20min") else "%H:%M"
    one_day = window.since.date() == window.until.date()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(mdates.DateFormatter(clock if one_day else f"%m-%d\n{clock}", tz=UTC))
    days = f"{window.since:%Y-%m-%d}" if one_day else f"{window.since:%Y-%m-%d} to {window.until:%Y-%m-%d}"
    axes.set_xlabel(f"UTC, {days}")


def _broker(broker: int | None, brokers: Mapping[int, colours.Style]) -> colours.Style:
    if broker is None:
        return colours.Style(COUNT, "-")
    return colours.Style(colours.NONE, "-") if broker == -1 else brokers.get(broker, colours.OTHER)


def _broker_handles(seen: Sequence[int], brokers: Mapping[int, colours.Style], *, line: bool) -> list[Artist]:
    handles: list[Artist] = []
    others = [broker for broker in seen if _broker(broker, brokers) is colours.OTHER]
    for broker in [broker for broker in seen if broker not in others]:
        style = _broker(broker, brokers)
        look = {"linestyle": style.line, "linewidth": 2} if line else {"linestyle": "", "marker": "o"}
        handles.append(Line2D([], [], color=style.colour, label="none" if broker == -1 else f"broker {broker}", **look))
    if others:
        handles.append(Line2D([], [], color=colours.OTHER.colour, linewidth=2, label="others"))
    return handles


def _aside(broker: int | None, seen: Sequence[int]) -> float:
    """Where in its lane a broker's events stand, so that those of one time do not hide each other."""
    if broker is None or len(seen) < 2:
        return 0.0
    return (seen.index(broker) / (len(seen) - 1) - 0.5) * 0.6
