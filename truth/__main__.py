"""``python -m truth [--long | --versions [NAME ...]]``: do things to clusters, poll them meanwhile,
and print how history agrees with their logs.

Exit status 1 when it does not.
"""

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from kafka_metadata_history.jars.errors import JarsError
from local_cluster import LocalClusterError
from metadata_source.text import text_table
from schemas.lake import Lake
from truth.administration import AdministrationError
from truth.dump import TruthError
from truth.missed import HEADINGS as MISSED_HEADINGS
from truth.missed import missed, said
from truth.report import HEADINGS, Verdict, failed_on_nodes, failed_steps, judge, judge_log
from truth.run import Run, Say, run
from truth.session import concluded, local_session, saying
from truth.setups import NEWEST, SETUPS, Setup
from truth.versions import VERSIONS

SHORT_SECONDS, LONG_SECONDS = 60.0, 150.0
INTERVALS = (1, 2, 5, 15)
VERSIONS_INTERVALS = (2,)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; the exit status is 0 when everything agrees."""
    arguments = _parser().parse_args(argv)
    setups, intervals = _asked(arguments)
    seconds = arguments.seconds or (LONG_SECONDS if arguments.long else SHORT_SECONDS)
    say = saying()
    verdicts: list[Verdict] = []
    faults: list[str] = []
    with local_session(len(intervals) + 2) as (spark, folder):
        for number, setup in enumerate(setups):
            try:
                done = run(
                    spark,
                    setup,
                    folder / str(number),
                    seed=arguments.seed,
                    seconds=seconds,
                    intervals=intervals if setup.is_polled else (),
                    say=say,
                )
            except (LocalClusterError, JarsError, AdministrationError, TruthError) as error:
                say(f"{setup.name}: {error}")
                faults.append(f"{setup.name}: {error}")
                continue
            faults += _of_log(done, say)
            new = [judge(done, interval, spark) for interval in done.lakes]
            for verdict in new:
                say(f"{verdict.name}\n{verdict}")
            if new:
                print(_table(new), flush=True)
            if new and done.log is not None:
                print(f"\n{_missed(spark, done, done.log.lake)}", flush=True)
            verdicts += new
    if len(setups) > 1:
        print(f"\n{_table(verdicts)}")
    faults += [f"{verdict.name}: {fault}" for verdict in verdicts for fault in verdict.faults]
    return concluded(faults)


def _asked(arguments: argparse.Namespace) -> tuple[list[Setup], tuple[int, ...]]:
    """The set-ups that are asked for, and how often they are polled."""
    if arguments.versions is not None:
        return [
            each for each in VERSIONS if each.name in (arguments.versions or [each.name])
        ], VERSIONS_INTERVALS
    if arguments.long:
        return [each for each in SETUPS if arguments.setup in (None, each.name)], INTERVALS
    return [NEWEST], INTERVALS[:1]


def _of_log(done: Run, say: Say) -> Iterator[str]:
    """Compare history of the controllers' log; the faults in it, and if nothing was polled, of the
    steps.
    """
    setup = done.setup
    for score in judge_log(done) or ():
        say(f"{setup.name}, by its controllers' log: {score}")
        yield from (f"{setup.name}, by its controllers' log: {fault}" for fault in score.faults)
    if not setup.is_polled:  # else each verdict says it
        failed = failed_on_nodes if setup.quorum_fails else failed_steps
        yield from (f"{setup.name}, a step failed: {step}" for step in failed(done.journal))


def _table(verdicts: Sequence[Verdict]) -> str:
    return "\n".join(text_table(HEADINGS, [row for verdict in verdicts for row in verdict.rows()]))


def _missed(spark: SparkSession, done: Run, log: Lake) -> str:
    """How much polls miss of what the log has, by interval."""
    rows = [
        (done.setup.name, f"{interval} s", *said(counts))
        for interval, config in done.lakes.items()
        for counts in missed(spark, config.lake, log, done.setup.tolerance(interval))
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
    names = [version.name for version in VERSIONS]
    parser.add_argument(
        "--versions",
        nargs="*",
        choices=names,
        metavar="NAME",
        help=f"the same script on each version of Kafka, or on these alone: {', '.join(names)}",
    )
    seed = secrets.randbelow(100_000)
    parser.add_argument(
        "--seed", type=int, default=seed, help="decides what is done (default: another each time)"
    )
    parser.add_argument("--seconds", type=float, help="of things done to each cluster, about")
    return parser


if __name__ == "__main__":
    sys.exit(main())
