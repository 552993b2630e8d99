"""Bronze polls -> silver snapshots: state over time, by the rules of jobs/rules/silver.

spark-submit jobs/snapshot_history.py --config FILE [--once | --again CLUSTER]
"""

import sys
from collections.abc import Sequence

from jobs.common.cli import run_job
from jobs.history import making, making_again

JOB = "snapshot_history"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(JOB, __doc__ or "", making("silver"), argv, making_again("silver"))


if __name__ == "__main__":
    sys.exit(main())
