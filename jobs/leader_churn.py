"""Silver snapshots -> changes of leaders, seen and hidden, why they were made, and what each broker leads.

Writes gold.leader_changes and gold.leader_balance, by the rules of jobs/rules/gold/leaders.py.

spark-submit jobs/leader_churn.py --config FILE [--once | --again CLUSTER]
"""

import sys

from jobs.common.cli import run_job
from jobs.history import making, making_again

if __name__ == "__main__":
    sys.exit(run_job("leader_churn", __doc__, making("leader_churn"), again=making_again("leader_churn")))
