"""The rules of history need no Spark, and only some files of the jobs know it."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.repository import ROOT

RULES = ROOT / "jobs" / "rules"
PURE = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in RULES.rglob("*.py")]


def test_rules_can_be_imported_where_pyspark_cannot() -> None:
    code = "\n".join(
        [
            "import sys",
            "sys.modules['pyspark'] = sys.modules['delta'] = None",
            *(f"import {module.removesuffix('.__init__')}" for module in PURE),
        ]
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_spark_is_known_to_the_entry_points_and_what_they_share() -> None:
    imported = re.compile(r"^\s*(?:from|import) (?:pyspark|delta)\b", re.MULTILINE)
    knowing = {
        file.parent.relative_to(ROOT)
        for file in (ROOT / "jobs").rglob("*.py")
        if imported.search(file.read_text())
    }
    assert knowing == {
        Path("jobs"),
        *(Path("jobs") / name for name in ("copies", "histories", "rounds", "run")),
        *(Path("jobs") / name for name in ("upkeep", "validation")),
    }


def test_commits_of_history_stand_in_one_file() -> None:
    written = re.compile(r"\.saveAsTable\(|\.save\(|MERGE INTO")
    assert {
        file.name for file in (ROOT / "jobs").rglob("*.py") if written.search(file.read_text())
    } == {"commit.py", "older.py"}, "the latter makes a lake that it removes again"
