"""Poll the clusters' metadata on a schedule into bronze.metadata_polls.

spark-submit jobs/poll_metadata.py --config FILE [--once]
"""

import sys

from jobs.run.cli import run_job
from jobs.run.metadata_stream import QUERY, run
from jobs.run.recording import recording

if __name__ == "__main__":
    sys.exit(run_job(QUERY, __doc__, run, beside=recording))
