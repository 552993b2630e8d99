"""The transaction coordinators' log -> transactions that are long, stuck or were aborted by their
coordinator, and counts by pattern of transactional ids.

spark-submit jobs/transaction_history.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from jobs.histories.transactions import TransactionHistory
from jobs.rounds.engine import job_of
from jobs.run.cli import run_job

run = job_of(TransactionHistory)
"""Keeps it up with what is new; with `once`, until nothing is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("transaction_history", __doc__, run, argv)


if __name__ == "__main__":
    sys.exit(main())
