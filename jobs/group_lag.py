"""Offsets of groups that polls asked for (`enrich: offsets`) -> how far each group was behind, and
commits that were removed.

spark-submit jobs/group_lag.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from jobs.histories.lag import GroupLag
from jobs.rounds.engine import job_of
from jobs.run.cli import run_job

run = job_of(GroupLag)
"""Keeps it up with what is new; with `once`, until nothing is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("group_lag", __doc__, run, argv)


if __name__ == "__main__":
    sys.exit(main())
