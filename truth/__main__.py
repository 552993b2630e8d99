"""``python -m truth [--long]``: do things to clusters, poll them meanwhile, and print how history
agrees with their logs.

Exit status 1 when it does not.
"""

import argparse
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from metadata_source.text import text_table
from truth.compare import tolerance
from truth.compare_log import compare_log
from truth.missed import HEADINGS as MISSED_HEADINGS
from truth.missed import missed, said
from truth.report import HEADINGS, Verdict, failed_on_nodes, failed_steps, judge
from truth.run import NEWEST, SETUPS, Run, run
from truth.session import local_session

SHORT_SECONDS, LONG_SECONDS = 60.0, 150.0
INTERVALS = (1, 2, 5, 15)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; the exit status is 0 when everything agrees."""
    arguments = _parser().parse_args(argv)
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that everything that was started is ended
    setups = (
        [each for each in SETUPS if arguments.setup in (None, each.name)]
        if arguments.long
        else [NEWEST]
    )
    intervals = INTERVALS if arguments.long else INTERVALS[:1]
    seconds = arguments.seconds or (LONG_SECONDS if arguments.long else SHORT_SECONDS)
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {what}", flush=True)

    verdicts: list[Verdict] = []
    of_logs: list[str] = []
    # Outside of all else: Spark may be gone already when it is to be stopped.
    with tempfile.TemporaryDirectory(prefix="truth-", ignore_cleanup_errors=True) as folder:
        spark = local_session(len(intervals) + 2)
        try:
            for setup in setups:
                home = Path(folder) / setup.name.replace(" ", "-").replace(",", "")
                polled = intervals if setup.is_polled else ()
                done = run(
                    spark,
                    setup,
                    home,
                    seed=arguments.seed,
                    seconds=seconds,
                    intervals=polled,
                    say=say,
                )
                exact = compare_log(done.log.lake, done.truth, done.journal)
                say(f"{setup.name}, by its controllers' log: {exact}")
                of_logs += [
                    f"{setup.name}, by its controllers' log: {fault}" for fault in exact.faults
                ]
                if not setup.is_polled:  # else each verdict says it
                    failed = (
                        failed_on_nodes(done.journal)
                        if setup.quorum_fails
                        else failed_steps(done.journal)
                    )
                    of_logs += [f"{setup.name}, a step failed: {step}" for step in failed]
                new = [judge(done, interval) for interval in polled]
                for verdict in new:
                    say(f"{verdict.name}\n{verdict}")
                if new:
                    print(f"{_table(new)}\n\n{_missed(spark, done)}", flush=True)
                verdicts += new
        finally:
            spark.stop()
    if len(setups) > 1:
        print(f"\n{_table(verdicts)}")
    faults = [
        *of_logs,
        *(f"{verdict.name}: {fault}" for verdict in verdicts for fault in verdict.faults),
    ]
    print("\n".join(["", f"{len(faults)} faults", *faults]))
    return 1 if faults else 0


def _table(verdicts: Sequence[Verdict]) -> str:
    return "\n".join(text_table(HEADINGS, [row for verdict in verdicts for row in verdict.rows()]))


def _missed(spark: SparkSession, done: Run) -> str:
    """How much polls miss of what the log has, by interval."""
    rows = [
        (done.setup.name, f"{interval} s", *said(counts))
        for interval, config in done.lakes.items()
        for counts in missed(
            spark, config.lake, done.log.lake, tolerance(timedelta(seconds=interval))
        )
    ]
    return "\n".join(text_table(("shown by polls", "interval", *MISSED_HEADINGS), rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m truth", description="Hold history against the controllers' log."
    )
    parser.add_argument(
        "--long",
        action="store_true",
        help="all set-ups, those that are polled each 1, 2, 5 and 15 s",
    )
    parser.add_argument(
        "--setup", choices=[setup.name for setup in SETUPS], help="with --long, this one alone"
    )
    seed = secrets.randbelow(100_000)
    parser.add_argument(
        "--seed", type=int, default=seed, help="decides what is done (default: another each time)"
    )
    parser.add_argument("--seconds", type=float, help="of things done to each cluster, about")
    return parser


if __name__ == "__main__":
    sys.exit(main())
