"""A year by a test clock, and a day of commits: nothing grows."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.aims import BY_NAME
from tests.support.repository import ROOT

COUNTED = ("year_counts_x", "day_counts_x")
"""What must not grow; how long things take, the benchmark prints beside it."""


@pytest.mark.soak
@pytest.mark.timeout(0)  # hours
def test_nothing_grows_in_a_year_nor_in_a_day_of_commits(tmp_path: Path) -> None:
    file = tmp_path / "year.json"
    command = [sys.executable, "-m", "benchmarks", "year", "day", "--json", str(file)]
    subprocess.run(command, cwd=ROOT, check=True)
    found = json.loads(file.read_text())
    assert {
        name: found[name] for name in COUNTED if found[name]["value"] > BY_NAME[name].wanted
    } == {}
