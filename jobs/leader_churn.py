"""Silver snapshots -> changes of leaders, seen and hidden, why they were made, and what each broker leads.

Writes gold.leader_changes and gold.leader_balance, by the rules of jobs/rules/gold/leaders.py.

spark-submit jobs/leader_churn.py --config FILE [--once | --again CLUSTER]
"""

import sys
from collections.abc import Sequence

from jobs.common.cli import run_job
from jobs.history import making, making_again

JOB = "leader_churn"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", making(JOB), argv, making_again(JOB))


if __name__ == "__main__":
    sys.exit(main())
