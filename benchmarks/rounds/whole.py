"""Whole commands of the Makefile, timed once."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks.product import ROOT, ProductError
from benchmarks.results import Measured, Results
from benchmarks.rounds.beat import NOT_MADE, holes_in, polls_of, polls_on_time
from jobs.configuration.config import load

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say


def demo(folder: Path, say: Say, _runs: int) -> Results:
    """Measure demo_s and, of the lake that it leaves, demo_polls_on_time and demo_missed."""
    took = _made("demo", folder, say)
    polls = polls_of(load(str(ROOT / ".demo" / "demo.yaml")))
    missed = sum(row["error_kind"] in NOT_MADE for row in polls) + holes_in(polls)
    say(f"{len(polls)} polls, of which {missed} were not made")
    return {
        "demo_s": took,
        "demo_polls_on_time": polls_on_time(polls),
        "demo_missed": Measured(missed, (missed,)),
    }


def tests(folder: Path, say: Say, _runs: int) -> Results:
    """Measure test_s."""
    return {"test_s": _made("test", folder, say)}


def _made(target: str, folder: Path, say: Say) -> Measured:
    start = time.perf_counter()
    log = folder / "log"
    with log.open("wb") as output:
        status = subprocess.run(
            ["make", target], cwd=ROOT, stdout=output, stderr=output, check=False
        ).returncode
    seconds = time.perf_counter() - start
    if status:
        raise ProductError(
            f"make {target} ended with status {status}: {log.read_text(errors='replace')[-2000:]}"
        )
    say(f"make {target} took {seconds:.0f} s")
    return Measured(seconds, (seconds,))
