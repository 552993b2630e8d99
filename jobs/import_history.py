"""Take what jobs/export.py has written into a lake that has none of its clusters.

spark-submit jobs/import_history.py --config FILE --from PLACE
"""

import sys
from collections.abc import Sequence

from jobs.configuration.config import load
from jobs.copies.imported import imported
from jobs.run.cli import parser_of, reported
from jobs.run.session import spark_session
from metadata_source.text import printable

JOB = "import"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "lake, checkpoints")
    parser.add_argument(
        "--from", dest="place", required=True, metavar="PLACE", help="a folder or URI of an export"
    )
    given = parser.parse_args(argv)

    def run() -> None:
        config = load(given.config)
        for line in imported(spark_session(JOB), config, given.place):
            print(printable(line), file=sys.stderr)

    return reported(JOB, run)


if __name__ == "__main__":
    sys.exit(main())
