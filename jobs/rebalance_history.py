"""The coordinators' log and polls of groups -> rebalances: who had what before and after, why, for
how long, and how often.

spark-submit jobs/rebalance_history.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from jobs.histories.rebalances import RebalanceHistory
from jobs.rounds.engine import job_of
from jobs.run.cli import run_job

run = job_of(RebalanceHistory)
"""Keeps it up with what is new; with `once`, until nothing is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("rebalance_history", __doc__, run, argv)


if __name__ == "__main__":
    sys.exit(main())
