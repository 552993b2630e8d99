"""Gold of all sources -> gold.incidents, gold.incident_links, gold.events: which rows belong
together, their first cause, and what can be sent of them.

spark-submit jobs/incidents.py --config FILE [--once]
"""

import sys
from collections.abc import Sequence

from jobs.histories.incidents import Incidents
from jobs.rounds.engine import job_of
from jobs.run.cli import run_job

run = job_of(Incidents)
"""Keeps them up with what is new; with `once`, until nothing is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job("incidents", __doc__, run, argv)


if __name__ == "__main__":
    sys.exit(main())
