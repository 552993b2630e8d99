"""A year by a test clock, and a day of commits: nothing grows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.year import CLUSTERS, MOST, Period, grown
from tests.support.repository import ROOT

COUNTED = ("files", "log entries", "rows of internal", "memory of folds", "heap", "python")
"""What must not grow; how long things take, the benchmark prints beside it."""


@pytest.mark.soak
@pytest.mark.timeout(0)  # hours
def test_nothing_grows_in_a_year_nor_in_a_day_of_commits(tmp_path: Path) -> None:
    file = tmp_path / "year.json"
    command = [sys.executable, "-m", "benchmarks.year", "--json", str(file)]
    subprocess.run(command, cwd=ROOT, check=False)  # 1: something grew
    for what, periods in json.loads(file.read_text()).items():
        found = [Period(**each) for each in periods]
        assert len(found) == 12, what
        ratios = grown(found)
        assert {name: ratios[name] for name in COUNTED if ratios[name] > MOST} == {}, what
        assert found[-1].internal_rows > CLUSTERS, f"{what}: history was made"
