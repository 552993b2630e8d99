"""Rebalances that the coordinators' log tells, offset commits and the ends of logs ->
gold.rebalance_cost: for how long nobody consumed, how far a group fell behind, how much may have
been done twice.

spark-submit jobs/rebalance_cost.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from jobs.histories.cost import RebalanceCost
from jobs.rounds.engine import job_of
from jobs.run.cli import run_job

run = job_of(RebalanceCost)
"""Keeps it up with what is new; with `once`, until nothing is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("rebalance_cost", __doc__, run, argv)


if __name__ == "__main__":
    sys.exit(main())
