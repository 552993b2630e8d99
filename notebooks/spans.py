"""The computations that a picture of bounded times needs before it is drawn. Times are naive and UTC, as Spark hands
them to pandas.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

_BINS = (
    *("1s", "2s", "5s", "10s", "15s", "30s"),
    *("1min", "2min", "5min", "10min", "15min", "30min"),
    *("1h", "2h", "3h", "6h", "12h", "1D"),
)
"""Widths that people count in. Days and nothing wider: a year is 365 of them."""


@dataclass(frozen=True)
class Window:
    """The time that is looked at, and up to when history has been made of polls (None: nothing is known at all)."""

    since: pd.Timestamp
    until: pd.Timestamp
    known_until: pd.Timestamp | None = None

    @property
    def known_end(self) -> pd.Timestamp:
        """The end of what is known of it."""
        known = self.since if self.known_until is None else self.known_until
        return min(max(known, self.since), self.until)

    def clip(self, at: pd.Timestamp) -> pd.Timestamp:
        """`at`, or the end of the window that is nearer to it."""
        return min(max(at, self.since), self.until)


@dataclass(frozen=True)
class Span:
    """Something that surely lasted from `sure_from` to `sure_until`, and at most from `maybe_from` to `maybe_until`,
    within a window.
    """

    maybe_from: pd.Timestamp
    sure_from: pd.Timestamp
    sure_until: pd.Timestamp
    maybe_until: pd.Timestamp
    goes_on: bool


def span(row: Any, window: Window) -> Span:
    """The part of `row` (began_after, began_before, ended_after, ended_before) within `window`.

    What has not ended is sure up to the last poll, and goes on. Without a lower bound it may have begun at any time
    before.
    """
    is_open = pd.isna(row.ended_before)
    sure_from = window.clip(row.began_before)
    ended_after = window.known_end if is_open else row.ended_after
    return Span(
        maybe_from=window.since if pd.isna(row.began_after) else window.clip(row.began_after),
        sure_from=sure_from,
        # Seen by one poll alone, it ended after that was sent and had begun by its answer: the order is turned.
        sure_until=max(sure_from, window.clip(ended_after)),
        maybe_until=window.until if is_open else window.clip(row.ended_before),
        goes_on=is_open or row.ended_after >= window.until,
    )


def bin_width(window: Window, most: int) -> pd.Timedelta:
    """The least width of `_BINS` that cuts the window into at most `most` bins; days where none does."""
    widths = [pd.Timedelta(width) for width in _BINS]
    return next((width for width in widths if (window.until - window.since) / width <= most - 1), widths[-1])


def framed(window: Window, width: pd.Timedelta) -> Window:
    """The window with its first and last bin whole; bins begin at multiples of their width."""
    return replace(window, since=window.since.floor(width), until=window.until.ceil(width))


def running(edges: pd.DataFrame, window: Window, columns: Iterable[str]) -> pd.DataFrame:
    """How many there are over time: `edges` (at, and what is added to each of `columns` then) summed up, to the end of
    what is known.

    The first row is the window's beginning, the last one its known end.
    """
    columns = list(columns)
    ends = pd.DataFrame({"at": [window.since, window.known_end], **dict.fromkeys(columns, 0)})
    within = edges.assign(at=edges["at"].clip(lower=window.since))
    within = within[within["at"] <= window.known_end]
    steps = pd.concat([ends, within[["at", *columns]]]).groupby("at", as_index=False).sum()
    steps[columns] = steps[columns].cumsum()
    return steps


def thinned(steps: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most some `2 * most` rows that draw the same: of the rows within a pixel the largest and the last, by each
    column.
    """
    if len(steps) <= 2 * most:
        return steps
    first, last = steps["at"].iloc[0], steps["at"].iloc[-1]
    pixel = ((steps["at"] - first) / (last - first) * most).astype(int).clip(upper=most - 1)
    grouped = steps.groupby(pixel.to_numpy())
    peaks = grouped.max().assign(at=grouped["at"].first())
    return pd.concat([peaks, grouped.last()]).sort_values("at", kind="stable", ignore_index=True)


def capped(title: str, shown: int, of: int) -> str:
    """The title, with how many are shown where that is not all."""
    return title if shown >= of else f"{title} ({shown} of {of:,} shown)"


def said(width: pd.Timedelta) -> str:
    """A bin's width: `hour`, `5 minutes`."""
    seconds = int(width.total_seconds())
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds % size == 0:
            count = seconds // size
            return unit if count == 1 else f"{count} {unit}s"
    raise ValueError(f"{width} is no whole number of seconds")
