"""Mark a change, or a window of maintenance, in the lake.

spark-submit jobs/mark.py TEXT --config FILE [--since TIME] [--until TIME] [--cluster ALIAS]
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from jobs.configuration.config import load
from jobs.run.cli import parser_of, reported
from jobs.run.session import writing_session
from jobs.upkeep.marks import keep, mark
from metadata_source.text import printable

JOB = "mark"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "the lake")
    parser.add_argument("text", metavar="TEXT", help="what is marked")
    parser.add_argument("--since", help="a time in ISO form, or how long ago (default: now)")
    parser.add_argument("--until", help="the end of a window, in the same forms")
    parser.add_argument("--cluster", metavar="ALIAS", help="this cluster alone (default: all)")
    given = parser.parse_args(argv)

    def run() -> None:
        now = datetime.now(UTC)
        made = mark(given.text, given.since, given.until, given.cluster, now)
        config = load(given.config)
        spark = writing_session(JOB, config)
        print(printable(keep(spark, config.lake, made)), file=sys.stderr)

    return reported(JOB, run)


if __name__ == "__main__":
    sys.exit(main())
