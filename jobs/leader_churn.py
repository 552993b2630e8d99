"""Silver snapshots -> changes of leaders, seen and hidden, why they were made, and what each broker
leads.

Writes gold.leader_changes and gold.leader_balance, by the rules of jobs/rules/gold/leaders.py.

spark-submit jobs/leader_churn.py --config FILE [--once | --again CLUSTER]
"""

import sys
from functools import partial

from jobs.histories.polls import Polls
from jobs.rounds.engine import again_of, job_of
from jobs.run.cli import run_job

if __name__ == "__main__":
    history = partial(Polls, ["leader_churn"])
    sys.exit(run_job("leader_churn", __doc__, job_of(history), again=again_of(history)))
