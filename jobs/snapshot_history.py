"""Bronze polls -> silver snapshots: state over time, by the rules of jobs/rules/silver.

spark-submit jobs/snapshot_history.py --config FILE [--once | --again CLUSTER]
"""

import sys

from jobs.common.cli import run_job
from jobs.history import making, making_again

if __name__ == "__main__":
    sys.exit(run_job("snapshot_history", __doc__, making("silver"), again=making_again("silver")))
