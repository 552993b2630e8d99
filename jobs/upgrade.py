"""Upgrade a lake that an older version of this program made; history continues where it was.

spark-submit jobs/upgrade.py --config FILE [--dry-run | --undo]

Broken off anywhere and run again, it comes to its end. For seven days `--undo` takes it back.
"""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from jobs.configuration.config import Config, load
from jobs.run.cli import parser_of, reported
from jobs.run.session import reading_session, writing_session
from jobs.upkeep.checkpoint_of_polls import set_aside, set_aside_once
from jobs.upkeep.undo import undo
from jobs.upkeep.upgrade import planned, upgrade

JOB = "upgrade"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "lake")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--dry-run", action="store_true", help="say what would be done")
    which.add_argument("--undo", action="store_true", help="take an upgrade back, for seven days")
    arguments = parser.parse_args(argv)

    def run() -> None:
        config = load(arguments.config)
        for line in _lines(config, dry_run=arguments.dry_run, is_undo=arguments.undo):
            print(line, flush=True)

    return reported(JOB, run)


def _lines(config: Config, *, dry_run: bool, is_undo: bool) -> Iterator[str]:
    session = reading_session if dry_run else writing_session
    spark = session(JOB, config)
    if is_undo:
        now = datetime.now(UTC)
        yield from undo(spark, config.lake, now)
        yield from set_aside(spark, config, now)
        return
    is_none = True
    for line in planned(spark, config.lake) if dry_run else upgrade(spark, config.lake):
        is_none = False
        yield line
    if is_none:
        yield f"{config.lake}: of this program's version, nothing to do"
    if not dry_run:
        yield from set_aside_once(spark, config)


if __name__ == "__main__":
    sys.exit(main())
