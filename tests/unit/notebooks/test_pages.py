"""Pages of notebooks hold names of a cluster as text, whatever they are; and tables are rows as
people read them.
"""

import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from notebooks.render import html
from notebooks.tables import readable

HOSTILE = "<script>run()</script><img src=x onerror=run()>"


def test_names_are_text_in_tables_and_in_what_is_printed() -> None:
    table = readable(pd.DataFrame({"group_id": [HOSTILE]}))
    outputs = [
        new_output("stream", text=f"group {HOSTILE}\n"),
        new_output(
            "display_data", data={"text/html": table._repr_html_(), "text/plain": repr(table)}
        ),
    ]
    page = html(new_notebook(cells=[new_code_cell("", outputs=outputs)]), "incident")
    assert page.count("&lt;script&gt;run()&lt;/script&gt;&lt;img src=x onerror=run()&gt;") == 2
    assert "<script" not in page
    assert "<img" not in page


def test_both_ends_are_in_one_cell(capsys: pytest.CaptureFixture[str]) -> None:
    noon = pd.Timestamp("2026-11-01 12:00:00")
    ends = {
        "began_after": [0, None],
        "began_before": [10.1, 20.1],
        "ended_after": [30, None],
        "ended_before": [40.1, None],
    }
    rows = {
        "lane": ["a", "b"],
        **{name: noon + pd.to_timedelta(at, unit="s") for name, at in ends.items()},
    }
    rows |= {
        "duration_ms_min": [19_900, None],
        "duration_ms_max": [40_100, None],
        "ids": [[2, 3], []],
    }
    shown = readable(pd.DataFrame(rows))
    assert shown.to_dict("list") == {
        "lane": ["a", "b"],
        "began": ["11-01 12:00:00.0Z to 11-01 12:00:10.1Z", "by 11-01 12:00:20.1Z"],
        "ended": ["11-01 12:00:30.0Z to 11-01 12:00:40.1Z", "goes on"],
        "duration_s": ["19.9 to 40.1", ""],
        "ids": ["2, 3", ""],
    }
    assert capsys.readouterr().out == ""


def test_names_are_no_html() -> None:
    table = readable(pd.DataFrame({"group_id": ["<script>x</script>", "a\u202eb"]}))
    page = table._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert r"a\u202eb" in page


def test_counts_that_are_bounded() -> None:
    rows = pd.DataFrame({"changes_min": [3, 1, 2], "changes_max": [3, None, 1234]})
    assert list(readable(rows)["changes"]) == ["3", "1 or more", "2 to 1,234"]


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(readable(pd.DataFrame({"n": range(50)}), most=20)) == 20
    assert capsys.readouterr().out == "The first 20 of 50 rows.\n"
    assert readable(pd.DataFrame()).empty
    assert capsys.readouterr().out == "None in this window.\n"
