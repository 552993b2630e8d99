"""Keep the tables of a lake small, now: drop rows past their retention, compact files, remove those
without use.

spark-submit jobs/maintain.py --config FILE

jobs/pipeline.py does so by itself every six hours. This job is for lakes whose jobs run apart, and
for after a change of `retention`.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from jobs.configuration.config import load
from jobs.run.cli import parser_of, reported
from jobs.run.session import writing_session
from jobs.upkeep.upkeep import keep_up
from schemas.in_spark import check_tables
from schemas.internal import STATE

JOB = "maintain"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    arguments = parser_of(JOB, __doc__, "lake, retention").parse_args(argv)

    def run() -> None:
        config = load(arguments.config)
        spark = writing_session(JOB, config)
        check_tables(spark, config.lake, [STATE])
        keep_up(spark, config.lake, config.bronze_retention, config.kept, datetime.now(UTC))

    return reported(JOB, run)


if __name__ == "__main__":
    sys.exit(main())
