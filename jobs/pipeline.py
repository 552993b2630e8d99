"""Poll and keep history, all jobs in one session.

spark-submit jobs/pipeline.py --config FILE [--once] [--believe CLUSTER]

Exit status of a run with --once: 0, or 3 if the last poll of a cluster failed or its history is
left out, or 1 if the run failed.
"""

import sys
from collections.abc import Sequence

from jobs.histories.believe import believing
from jobs.run.cli import run_job
from jobs.run.pipeline import run
from jobs.run.recording import recording


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("pipeline", __doc__, run, argv, believe=believing, beside=recording)


if __name__ == "__main__":
    sys.exit(main())
