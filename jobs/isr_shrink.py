"""Silver snapshots -> who left in-sync replicas, for how long, and how bad it was meanwhile.

Writes gold.isr_changes, gold.isr_episodes and gold.broker_incidents, by the rules of jobs/rules/gold/isr_shrink.py.

spark-submit jobs/isr_shrink.py --config FILE [--once | --again CLUSTER]
"""

import sys

from jobs.common.cli import run_job
from jobs.history import making, making_again

if __name__ == "__main__":
    sys.exit(run_job("isr_shrink", __doc__, making("isr_shrink"), again=making_again("isr_shrink")))
