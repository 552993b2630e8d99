"""Say how recording fares: the last good poll of each cluster, failures, gaps, what waits, sizes,
the last upkeep.

spark-submit jobs/status.py --config FILE [--format table|json|prometheus]

Writes nothing. Exit status: 0, or 3 when a threshold of `status` in the configuration is crossed,
or 1 when it could not be told.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from jobs.configuration.config import load
from jobs.configuration.limits import CROSSED
from jobs.run.cli import parser_of, reported
from jobs.run.session import reading_session
from kafka_metadata_history.answers.in_spark import status_in_spark
from kafka_metadata_history.answers.status_text import FORMS
from kafka_metadata_history.answers.thresholds import judge

JOB = "status"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "lake, clusters, poll, status")
    parser.add_argument(
        "--format", choices=tuple(FORMS), default="table", help="(default %(default)s)"
    )
    arguments = parser.parse_args(argv)

    def run() -> int:
        config = load(arguments.config)
        found = status_in_spark(reading_session(JOB, config), config, datetime.now(UTC))
        crossed = judge(found, config.limits)
        print(FORMS[arguments.format](found, crossed), end="")
        return CROSSED if crossed else 0

    return reported(JOB, run)


if __name__ == "__main__":
    sys.exit(main())
