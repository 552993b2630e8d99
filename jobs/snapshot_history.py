"""Bronze polls -> silver snapshots: state over time, by the rules of jobs/rules/silver.

spark-submit jobs/snapshot_history.py --config FILE [--once | --again CLUSTER]
"""

import sys
from functools import partial

from jobs.histories.polls import Polls
from jobs.rounds.engine import again_of, job_of
from jobs.run.cli import run_job

if __name__ == "__main__":
    history = partial(Polls, ["silver"])
    sys.exit(run_job("snapshot_history", __doc__, job_of(history), again=again_of(history)))
