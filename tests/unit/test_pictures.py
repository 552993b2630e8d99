"""What pictures compute: bounds within a window, bins, counts over time, what is left out and says so. Nothing is
shown.
"""

import io
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any

import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from notebooks import colours, pictures, tables
from notebooks.spans import Span, Window, bin_width, capped, framed, running, said, span, thinned
from schemas.gold import LEADER_CHANGES, LEVELS
from schemas.groups import REASONS

NOON = pd.Timestamp("2026-11-01 12:00:00")
NOTHING = pd.DataFrame()
NO_GAPS = pd.DataFrame(columns=["gap_start", "gap_end", "reason"])


def at(seconds: float | None) -> Any:
    return pd.NaT if seconds is None else NOON + pd.Timedelta(seconds=seconds)


def row(*bounds: float | None) -> Any:
    return next(episodes([("a", "offline", *bounds)]).itertuples())


def episodes(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["lane", "kind", "began_after", "began_before", "ended_after", "ended_before"])
    times = frame.columns[2:]
    frame[times] = frame[times].map(lambda seconds: at(None if pd.isna(seconds) else seconds))
    return frame


WINDOW = Window(at(0), at(100), known_until=at(90))


def seconds(part: Span) -> tuple[float, ...]:
    ends = (part.maybe_from, part.sure_from, part.sure_until, part.maybe_until)
    return tuple((end - NOON).total_seconds() for end in ends)


class TestSpans:
    @pytest.mark.parametrize(
        ("bounds", "expected", "goes_on"),
        [
            ((10, 20.1, 40, 50.1), (10, 20.1, 40, 50.1), False),
            ((10, 20.1, None, None), (10, 20.1, 90, 100), True),  # sure as far as polls go
            ((None, 20.1, 40, 50.1), (0, 20.1, 40, 50.1), False),  # nobody looked before
            ((10, 20.1, 20, 30.1), (10, 20.1, 20.1, 30.1), False),  # one poll alone, sent before it was answered
            ((-50, -40, 10, 20), (0, 0, 10, 20), False),
            ((80, 90, 140, 150), (80, 90, 100, 100), True),
            ((80, 90, 95, 150), (80, 90, 95, 100), False),  # may have ended within the window
        ],
    )
    def test_bounds_within_the_window(
        self, bounds: tuple[float | None, ...], expected: tuple[float, ...], *, goes_on: bool
    ) -> None:
        part = span(row(*bounds), WINDOW)
        assert seconds(part) == expected
        assert part.goes_on is goes_on

    def test_without_history_nothing_is_sure(self) -> None:
        assert Window(at(0), at(100)).known_end == at(0)
        assert Window(at(0), at(100), known_until=at(-5)).known_end == at(0)
        assert Window(at(0), at(100), known_until=at(500)).known_end == at(100)


class TestBins:
    @pytest.mark.parametrize(
        ("length", "width"),
        [("100s", "5s"), ("20min", "1min"), ("2h", "5min"), ("1D", "1h"), ("7D", "6h"), ("30D", "1D"), ("800D", "1D")],
    )
    def test_width(self, length: str, width: str) -> None:
        window = Window(at(7), at(7) + pd.Timedelta(length))
        assert bin_width(window, 36) == pd.Timedelta(width)

    def test_bins_are_whole_and_hold_the_window(self) -> None:
        frame = framed(Window(at(7), at(61)), pd.Timedelta("5s"))
        assert (frame.since, frame.until) == (at(5), at(65))

    def test_widths_in_words(self) -> None:
        assert [said(pd.Timedelta(width)) for width in ("1h", "5min", "30s", "1D", "90min")] == [
            "hour", "5 minutes", "30 seconds", "day", "90 minutes",
        ]  # fmt: skip


class TestCounts:
    def test_edges_before_the_window_count_from_its_beginning(self) -> None:
        edges = pd.DataFrame({"at": [at(-30), at(10), at(20), at(95)], "n": [2, 3, -2, 7]})
        steps = running(edges, WINDOW, ["n"])
        assert list(zip(steps["at"], steps["n"], strict=True)) == [
            (at(0), 2), (at(10), 5), (at(20), 3), (at(90), 3),  # and nothing beyond what is known
        ]  # fmt: skip

    def test_thinning_keeps_peaks_and_ends(self) -> None:
        many = pd.DataFrame(
            {"at": [at(n / 100) for n in range(10_000)], "n": [7 if n == 4321 else 1 for n in range(10_000)]}
        )
        few = thinned(many, 100)
        assert len(few) <= 200
        assert few["n"].max() == 7
        assert few.loc[few["n"].idxmax(), "at"] <= at(43.21) < few.loc[few["n"].idxmax() + 2, "at"]
        assert few["n"].iloc[-1] == 1
        assert few["at"].is_monotonic_increasing

    def test_what_is_left_out_is_said(self) -> None:
        assert capped("Partitions", 40, 40) == "Partitions"
        assert capped("Partitions", 40, 1312) == "Partitions (40 of 1,312 shown)"


def apart(one: str, other: str) -> float:
    return sum((a - b) ** 2 for a, b in zip(to_rgb(one), to_rgb(other), strict=True))


class TestColours:
    def test_everything_has_one(self) -> None:
        assert tuple(colours.LEVEL) == LEVELS
        assert all(reason in LEADER_CHANGES.constraints["reason_known"] for reason in colours.REASON)
        assert LEADER_CHANGES.constraints["reason_known"].count("'") == 2 * len(colours.REASON)
        assert tuple(colours.REBALANCE) == (*REASONS, "unknown")

    def test_one_colour_has_one_meaning(self) -> None:
        """Black alone is shared, without a leader, as a level, as a reason and as the leader; and white, unknown."""
        styles = colours.of_brokers(range(6)).values()
        brokers = [style.colour for style in styles]
        groups = [set(group.values()) for group in (colours.LEVEL, colours.REASON, colours.REBALANCE, colours.STORM)]
        groups += [set(brokers), set(colours.MEMBER.values())]
        assert [len(group) for group in groups] == [4, 7, 11, 2, 6, 4]
        own = [group - {colours.NONE, colours.UNKNOWN} for group in groups]
        for one, other in combinations(own, 2):
            assert min(apart(x, y) for x in one for y in other) > 0.015
        for group in own[2:]:
            assert min(apart(x, y) for x, y in combinations(group, 2)) > 0.03

    def test_levels_darken(self) -> None:
        """So that they can be told apart without seeing their hue."""
        lightness = [
            sum(w * v for w, v in zip((0.3, 0.59, 0.11), to_rgb(c), strict=True)) for c in colours.LEVEL.values()
        ]
        assert all(milder - worse > 0.12 for milder, worse in pairwise(lightness))

    def test_brokers_that_cannot_be_told_apart_are_others(self) -> None:
        styles = colours.of_brokers([*range(30), 5])
        assert len(styles) == 30
        assert sum(style is colours.OTHER for style in styles.values()) == 12
        assert colours.of_brokers([3, 1, 2]) == colours.of_brokers([1, 2, 3])


class TestTables:
    def test_both_ends_in_one_cell(self, capsys: pytest.CaptureFixture[str]) -> None:
        rows = episodes([("a", "offline", 0, 10.1, 30, 40.1), ("b", "offline", None, 20.1, None, None)])
        rows = rows.assign(duration_ms_min=[19_900, None], duration_ms_max=[40_100, None], ids=[[2, 3], []])
        shown = tables.readable(rows)
        assert shown.to_dict("list") == {
            "lane": ["a", "b"],
            "kind": ["offline", "offline"],
            "began": ["11-01 12:00:00.0Z to 11-01 12:00:10.1Z", "by 11-01 12:00:20.1Z"],
            "ended": ["11-01 12:00:30.0Z to 11-01 12:00:40.1Z", "goes on"],
            "duration_s": ["19.9 to 40.1", ""],
            "ids": ["2, 3", ""],
        }
        assert capsys.readouterr().out == ""

    def test_names_are_no_html(self) -> None:
        table = tables.readable(pd.DataFrame({"group_id": ["<script>x</script>", "a\u202eb"]}))
        page = table._repr_html_()
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert r"a\u202eb" in page

    def test_counts_that_are_bounded(self) -> None:
        rows = pd.DataFrame({"changes_min": [3, 1, 2], "changes_max": [3, None, 1234]})
        assert list(tables.readable(rows)["changes"]) == ["3", "1 or more", "2 to 1,234"]

    def test_what_is_left_out_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert len(tables.readable(pd.DataFrame({"n": range(50)}), most=20)) == 20
        assert capsys.readouterr().out == "The first 20 of 50 rows.\n"
        assert tables.readable(NOTHING).empty
        assert capsys.readouterr().out == "None in this window.\n"


def texts(figure: Figure) -> set[str]:
    return {text.get_text() for axes in figure.axes for text in axes.texts}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for each in figure.legends for text in each.get_texts()]


class TestPictures:
    def test_bars_stand_where_things_were(self) -> None:
        gaps = pd.DataFrame({"gap_start": [at(60), at(90)], "gap_end": [at(75), at(300)], "reason": ["failed", "end"]})
        rows = episodes([("b", "under_replicated", 10, 20, 40, 50), ("a", "offline", 70, 80, None, None)])
        figure = pictures.bars(rows, WINDOW, gaps, title="Bars", colour_of=colours.LEVEL)
        (axes,) = figure.axes
        assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a"]
        boxes = [path.get_extents() for bars in axes.collections for path in bars.get_paths()]
        day = 86_400
        noon = pictures.mdates.date2num(NOON)
        found = [
            (round((box.x0 - noon) * day, 1), round((box.x1 - noon) * day, 1), round(box.y0 + box.y1, 2))
            for box in boxes
        ]
        assert found == [(10, 50, 0), (20, 40, 0), (70, 100, 2), (80, 90, 2)]
        assert legend(figure) == ["under replicated", "offline", "thin: may have been", "goes on", "nothing known here"]
        hatched = [
            (round((p.get_x() - noon) * day), round((p.get_x() + p.get_width() - noon) * day)) for p in axes.patches
        ]
        assert hatched == [(60, 75), (90, 100)]

    def test_what_is_too_short_for_its_colour_is_a_diamond(self) -> None:
        rows = episodes([("a", "offline", 10, 10, 10.2, 10.2), ("a", "under_min_isr", 10, 50, 50.1, 60)])
        (axes,) = pictures.bars(rows, WINDOW, NO_GAPS, title="Bars", colour_of=colours.LEVEL).axes
        marks = [(list(line.get_xdata()), line.get_color()) for line in axes.lines if line.get_marker() == "d"]
        assert [(len(places), colour) for places, colour in marks] == [
            (0, colours.LEVEL["under_min_isr"]), (1, colours.LEVEL["offline"]),
        ]  # fmt: skip

    def test_lanes_that_are_left_out_are_said(self) -> None:
        rows = episodes([(f"t-{n}", "offline", 10, 20, 40, 50) for n in range(3)]).assign(of=312)
        figure = pictures.bars(rows, WINDOW, NO_GAPS, title="Partitions", colour_of=colours.LEVEL)
        assert figure.axes[0].get_title(loc="left") == "Partitions (3 of 312 shown)"

    def test_long_names_keep_their_partition(self) -> None:
        rows = episodes([("a-topic-with-a-name-beyond-all-measure-17", "offline", 10, 20, 40, 50)])
        (axes,) = pictures.bars(rows, WINDOW, NO_GAPS, title="Partitions", colour_of=colours.LEVEL).axes
        assert axes.get_yticklabels()[0].get_text() == "a-topic-with-…ll-measure-17"

    def test_names_are_drawn_as_they_are(self) -> None:
        # Two dollars are a formula to Matplotlib, and this one ends a notebook.
        hostile = episodes([(name, "offline", 10, 20, 30, 40) for name in ("orders_$1_$2", "$\\x$", "a\x1b\u202eb\n")])
        noted = hostile.assign(note="$\\y$", label="$\\z$")
        figure = pictures.bars(noted, WINDOW, NO_GAPS, title="$\\t$", colour_of=colours.LEVEL)
        figure.savefig(io.BytesIO())
        assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
            "orders $1 $2",
            "$\\x$",
            r"a\x1b\u202eb\n",
        ]

    def test_heat_is_cut_to_the_busiest(self) -> None:
        rows = pd.DataFrame({"lane": range(60), "began_before": [at(50)] * 60, "count": range(1, 61)})
        figure = pictures.heat(rows, WINDOW, NO_GAPS, title="Churn")
        assert figure.axes[0].get_title(loc="left") == "Churn (40 of 60 shown), in each 5 seconds"
        assert texts(figure) == {str(n) for n in range(21, 61)}

    def test_changes_stack_to_the_most(self) -> None:
        rows = pd.DataFrame(
            {"began_before": [at(11), at(12), at(51)], "reason": ["failover", "offline", "preferred"],
             "changes_min": [2, 1, 4], "changes_max": [2, 5, None]}
        )  # fmt: skip
        figure = pictures.changes(rows, WINDOW, NO_GAPS, title="Changes", colour_of=colours.REASON)
        tops = {round(bar.get_y() + bar.get_height(), 1) for bar in figure.axes[0].patches if bar.get_height()}
        assert tops == {2, 3, 7, 4}
        assert legend(figure)[-1] == "perhaps, hidden between polls"

    def test_a_broker_without_colour_is_grey_and_said(self) -> None:
        rows = pd.DataFrame(
            {
                "what": "isr_left",
                "broker_id": [1, 99, None],
                "began_after": at(0),
                "began_before": at(10),
                "count": [1, 2, 3],
            }
        )
        figure = pictures.events(rows, WINDOW, NO_GAPS, title="Events", brokers=colours.of_brokers([1]))
        assert legend(figure) == ["broker 1", "others", "line: at some time in it"]
        assert texts(figure) == {"1", "2", "3"}

    def test_imbalance_that_is_not_known_is_not_drawn(self) -> None:
        rows = pd.DataFrame(
            {"broker_id": [1], "imbalance_before": [None], "imbalance_after": [0.25], "imbalance_worst": [0.5]}
        )
        figure = pictures.before_and_after(rows, title="Imbalance", brokers={})
        assert [list(line.get_xdata()) for line in figure.axes[0].lines] == [[25, 50], [50], [25]]

    @pytest.mark.parametrize(
        "draw",
        [
            lambda *where: pictures.bars(*where, title="", colour_of=colours.LEVEL),
            lambda *where: pictures.levels(*where, title=""),
            lambda *where: pictures.stack(*where, title="", colour_of=colours.LEFT),
            lambda *where: pictures.events(*where, title="", brokers={}),
            lambda *where: pictures.balance(*where, title="", brokers={}),
            lambda *where: pictures.changes(*where, title="", colour_of=colours.REASON),
            lambda *where: pictures.heat(*where, title=""),
            lambda rows, *_: pictures.before_and_after(rows, title="", brokers={}),
            lambda rows, *_: pictures.seen_and_hidden(rows, title=""),
        ],
    )
    def test_without_rows_a_picture_says_so(self, draw: Callable[..., Figure]) -> None:
        assert "nothing of this in the window" in texts(draw(NOTHING, Window(at(0), at(100)), NO_GAPS))

    def test_time_is_utc_and_says_its_day(self) -> None:
        (axes,) = pictures.bars(NOTHING, WINDOW, NO_GAPS, title="", colour_of={}).axes
        assert axes.get_xlabel() == "UTC, 2026-11-01"
        labels = [label.get_text() for label in axes.get_xticklabels()]
        assert "12:00:30" in labels
