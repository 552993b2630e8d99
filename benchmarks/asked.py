"""How long each named question takes of a lake of a year (benchmarks/year_lake/): of its last day,
of all clusters.

Cold is the command, in a new process. Warm is the question alone, of a lake that has answered it
before. The lake is made once, in `.year-lake` of the repository.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from benchmarks.product import ROOT
from benchmarks.results import Results, median
from benchmarks.year_lake.__main__ import CONFIG, SIZES, make
from benchmarks.year_lake.clusters import clusters
from jobs.configuration.config import load
from kafka_metadata_history.answers.questions import names, question
from kafka_metadata_history.opened import without_spark

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from benchmarks.results import Say
    from kafka_metadata_history.answers.questions import Ask

LAKE: Final = ROOT / ".year-lake"


def questions(_folder: Path, say: Say, runs: int) -> Results:
    """Measure asked_*_cold_s and asked_*_warm_s."""
    return measured(year_lake(say), say, runs)


def year_lake(say: Say) -> Path:
    """Return the configuration of the lake, which is made unless it is there."""
    if not (LAKE / CONFIG).exists():
        shutil.rmtree(LAKE, ignore_errors=True)
        make(LAKE, clusters(**SIZES), say)
    return LAKE / CONFIG


def measured(config: Path, say: Say, runs: int) -> Results:
    """Ask a lake each question, so many times."""
    ask = without_spark(load(str(config)).lake)
    until = ask("SELECT max(done_at) FROM internal.clusters")[0][0].as_py()
    found: Results = {}
    for name in names():
        cold = median([_cold(config, name, until) for _ in range(runs)])
        warm = median([_warm(ask, name, until) for _ in range(1 + runs)][1:])
        found |= {f"asked_{name}_cold_s": cold, f"asked_{name}_warm_s": warm}
        say(f"{name}: {cold.value:.2f} s, then {warm.value:.2f} s")
    return found


def _cold(config: Path, name: str, until: datetime) -> float:
    command = [sys.executable, "-m", "kafka_metadata_history", "query", name, "--format", "csv"]
    where = ["--config", str(config), "--until", until.isoformat()]
    begin = time.perf_counter()
    subprocess.run([*command, *where], cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - begin


def _warm(ask: Ask, name: str, until: datetime) -> float:
    sql = question(name, "1 day", until.isoformat(), {}, until).sql
    begin = time.perf_counter()
    ask(sql)
    return time.perf_counter() - begin
