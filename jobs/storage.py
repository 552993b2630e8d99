"""Sizes of log directories that polls asked for (`enrich: log_dirs`) -> what lies in them, by day.

spark-submit jobs/storage.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from jobs.histories.storage import Storage
from jobs.rounds.engine import job_of
from jobs.run.cli import run_job

run = job_of(Storage)
"""Keeps it up with what is new; with `once`, until nothing is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("storage", __doc__, run, argv)


if __name__ == "__main__":
    sys.exit(main())
