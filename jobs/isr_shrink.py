"""Silver snapshots -> who left in-sync replicas, for how long, and how bad it was meanwhile.

Writes gold.isr_changes, gold.isr_episodes and gold.broker_incidents, by the rules of jobs/rules/gold/isr_shrink.py.

spark-submit jobs/isr_shrink.py --config FILE [--once | --again CLUSTER]
"""

import sys
from collections.abc import Sequence

from jobs.common.cli import run_job
from jobs.history import making, making_again

JOB = "isr_shrink"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", making(JOB), argv, making_again(JOB))


if __name__ == "__main__":
    sys.exit(main())
