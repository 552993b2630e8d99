"""Hold what is new in bronze, in silver and of rebalances against the rules of
jobs/validation/validity.yaml.

spark-submit jobs/validate.py --config FILE

Exit status: 0 when nothing critical was found, 3 when something was, 1 when it could not be
validated.
"""

import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from jobs.configuration.config import load
from jobs.run.cli import parser_of, reported
from jobs.run.session import writing_session
from jobs.validation.run import apply, is_critical, report

JOB = "validate"
CRITICAL_FOUND = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    arguments = parser_of(JOB, __doc__, "lake, clusters, validation").parse_args(argv)
    for noisy in ("great_expectations", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)

    def run() -> int:
        config = load(arguments.config)
        findings = apply(writing_session(JOB, config), config, datetime.now(UTC))
        print(report(findings), end="")
        return CRITICAL_FOUND if any(map(is_critical, findings)) else 0

    return reported(JOB, run)


if __name__ == "__main__":
    sys.exit(main())
