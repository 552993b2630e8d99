"""What a run of the event jobs costs after a short and after a long history, the changes since the last run being the same hundred.

``python -m benchmarks.increment [--quick]``. Two lakes have the same cluster's history (`benchmarks.history`), one of them a hundred
times as long, and gold of it, as the jobs make it. Then, again and again, silver of both gets the same hundred changes, and each
job's run is timed, in both lakes in turn, in one Spark session. Beside the time stand the files that it opened and the rows that it
read from them, as Spark counted them, and what a run with nothing new reads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.aims import aim
from benchmarks.history import History, fill_gold, repeat_gold, restart_for_a_hundred, write_silver
from benchmarks.reads import Read, counted, counted_session
from jobs import isr_shrink, leader_churn
from jobs.common.config import Thresholds
from jobs.common.session import spark_session
from schemas.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

JOBS: Final = (isr_shrink.JOB, leader_churn.JOB)
TOPICS: Final = 100
RESTARTS: Final = (15, 1_665)
QUICK_RESTARTS: Final = (15, 165)
RUNS: Final = 5
ROOT: Final = Path(__file__).resolve().parent.parent


class Run(NamedTuple):
    """What one run of a job took, and what it read of which table."""

    seconds: float
    reads: dict[str, Read]


def main() -> None:
    """Print what runs took and read, then the aims and what was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the longer history is ten times the shorter one")
    both = QUICK_RESTARTS if parser.parse_args().quick else RESTARTS
    spark = _session()
    histories = [History(TOPICS, restarts) for restarts in both]
    with tempfile.TemporaryDirectory() as folder:
        lakes = {history: Lake(root=f"{folder}/{history.changes}") for history in histories}
        _fill(spark, lakes)
        runs = _increments(spark, lakes)
        nothing_new = {
            (job, history): measured(spark, run)
            for history, lake in lakes.items()
            for job, run in jobs_of(lake).items()
        }
    spark.stop()
    _print_times(runs)
    _print_reads("", {key: each[-1].reads for key, each in runs.items()})
    _print_reads(", nothing new", {key: run.reads for key, run in nothing_new.items()})
    for each in aims(runs, *histories):
        print(each)


def aims(runs: dict[tuple[str, History], list[Run]], short: History, long: History) -> Iterator[str]:
    """Return the lines of the aims."""
    for job in JOBS:
        what = f"{job}, a hundred changes after {long.changes:,} and after {short.changes:,}"
        yield aim(f"{what}, medians", _median(runs[job, long]) / _median(runs[job, short]), "<=", 1.5)
        rows = [
            sum(read.rows for run in runs[job, history] for read in run.reads.values()) for history in (long, short)
        ]
        yield aim(f"{what}, rows read", rows[0] / rows[1], "<=", 1)


def jobs_of(lake: Lake) -> dict[str, Callable[[SparkSession], None]]:
    """What makes the events of what is new in a lake, by job."""
    return {
        isr_shrink.JOB: partial(isr_shrink.apply, lake, Thresholds()),
        leader_churn.JOB: partial(leader_churn.apply, lake),
    }


def measured(spark: SparkSession, run: Callable[[SparkSession], None]) -> Run:
    """Run a job once."""
    own = counted_session(spark)
    with counted(own) as reads:
        start = time.perf_counter()
        run(own)
        seconds = time.perf_counter() - start
    return Run(seconds, reads)


def _session() -> SparkSession:
    """A session with the settings that the jobs are run with."""
    os.chdir(ROOT)  # the settings name folders of the repository
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--properties-file conf/spark-defaults.conf --master local[2] --driver-memory 4g pyspark-shell"
    )
    return spark_session("benchmarks")


def _fill(spark: SparkSession, lakes: dict[History, Lake]) -> None:
    start = time.perf_counter()
    (short, of), (long, lake) = lakes.items()
    write_silver(spark, of, short)
    fill_gold(spark, of, short, jobs_of(of).values())
    write_silver(spark, lake, long)
    repeat_gold(spark, lake, long, of, short)
    print(
        f"histories of {short.changes:,} and {long.changes:,} changes, made in {time.perf_counter() - start:.0f} s",
        flush=True,
    )


def _increments(spark: SparkSession, lakes: dict[History, Lake]) -> dict[tuple[str, History], list[Run]]:
    """The runs of each job after the same changes in each lake. The first round is not counted: it warms up."""
    runs: dict[tuple[str, History], list[Run]] = {(job, history): [] for job in JOBS for history in lakes}
    for number in range(RUNS + 1):
        for history, lake in lakes.items():
            restart_for_a_hundred(spark, lake, history.restarts + number)
        for job in JOBS:
            for history in sorted(lakes, key=lambda history: history.restarts, reverse=bool(number % 2)):
                run = measured(spark, jobs_of(lakes[history])[job])
                if number:
                    runs[job, history].append(run)
    return runs


def _print_times(runs: dict[tuple[str, History], list[Run]]) -> None:
    print(f"\n{'a run after the same hundred changes':<50} {'after':>10} {'median':>8}  all, s")
    for (job, history), each in runs.items():
        seconds = " ".join(f"{run.seconds:.2f}" for run in each)
        print(f"{job:<50} {history.changes:>10,} {_median(each):>6.2f} s  {seconds}")


def _print_reads(what: str, reads: dict[tuple[str, History], dict[str, Read]]) -> None:
    histories = dict.fromkeys(history for _, history in reads)
    titles = " ".join(f"{f'after {history.changes:,}':>18}" for history in histories)
    print(f"\n{f'files / rows read{what}':<55} {titles}")
    for job in JOBS:
        of_job = [reads[job, history] for history in histories]
        for table in sorted({table for each in of_job for table in each}):
            cells = (each.get(table, Read(0, 0)) for each in of_job)
            print(f"{f'{job}: {table}':<55} " + " ".join(f"{f'{c.files} / {c.rows:,}':>18}" for c in cells))


def _median(runs: list[Run]) -> float:
    return statistics.median(run.seconds for run in runs)


if __name__ == "__main__":
    main()
