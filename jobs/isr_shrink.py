"""Silver snapshots -> who left in-sync replicas, for how long, and how bad it was meanwhile.

Writes gold.isr_changes, gold.isr_episodes and gold.broker_incidents, by the rules of
jobs/rules/gold/isr_shrink.py.

spark-submit jobs/isr_shrink.py --config FILE [--once | --again CLUSTER]
"""

import sys
from functools import partial

from jobs.histories.polls import Polls
from jobs.rounds.engine import again_of, job_of
from jobs.run.cli import run_job

if __name__ == "__main__":
    history = partial(Polls, ["isr_shrink"])
    sys.exit(run_job("isr_shrink", __doc__, job_of(history), again=again_of(history)))
