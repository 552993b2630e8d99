"""Medians, percentiles, and results beside their aims."""

import json

import numpy as np
import pytest

from benchmarks.aims import BY_NAME
from benchmarks.results import (
    BEGIN,
    END,
    Measured,
    as_json,
    kept,
    machine,
    median,
    percentile,
    table,
)
from benchmarks.results import PAGE as PAGE_FILE


def test_medians_and_percentiles() -> None:
    assert median([3.0, 1.0, 2.0]) == Measured(2.0, (3.0, 1.0, 2.0))
    assert median([1.0, 2.0]).value == 1.5
    values = [7.0, 1.0, 4.0, 2.0, 9.0, 3.0]
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        assert percentile(values, share) == pytest.approx(np.percentile(values, 100 * share))
    assert percentile([5.0], 0.9) == 5.0


def test_results_stand_beside_their_aims() -> None:
    results = {
        "polls_on_time": Measured(0.94, (0.1, 0.2)),
        "quiet_s": Measured(0.51239, (0.4, 0.51239, 0.7)),
    }
    lines = table(results)
    assert ["MISSED" in line for line in lines] == [False, False, False, True]
    assert lines[2].split()[:6] == ["quiet_s", "0.5124", "<=", "1", "s", "met"]
    assert json.loads(json.dumps(as_json(results))) == {
        "quiet_s": {"value": 0.5124, "unit": "s", "aim": 1, "runs": [0.4, 0.5124, 0.7]},
        "polls_on_time": {"value": 0.94, "unit": "", "aim": 0.99, "runs": [0.1, 0.2]},
    }


PAGE = f"""# Results
{BEGIN}| name | measured | aim | | machine | |
|---|---|---|---|---|---|
| `quiet_s` | 0.4 s | <= 1 s | met | 4 cores, 12ab | a round |
| `poll_ms` | 80 ms |  |  | 4 cores, 12ab | a poll |{END}

Words stay.
"""


def test_results_are_kept_beside_those_of_other_machines() -> None:
    results = {"news_s": Measured(7.25, (7.25,)), "poll_ms": Measured(70.0, (70.0,))}
    lines = kept(PAGE, results).splitlines()
    assert [line for line in lines if line not in PAGE] == lines[6:8] == [
        f"| `news_s` | 7.25 s | <= 6 s | MISSED | {machine()} | {BY_NAME['news_s'].says} |",
        f"| `poll_ms` | 70 ms |  |  | {machine()} | {BY_NAME['poll_ms'].says} |",
    ]  # fmt: skip
    assert lines[5] in PAGE


def test_the_page_has_a_place_for_results() -> None:
    page = PAGE_FILE.read_text()
    assert kept(page, {}) == page
