"""Take what jobs/export.py has written into a lake that has none of its clusters.

spark-submit jobs/import_history.py --config FILE (--from PLACE | --undo)
"""

import sys
from collections.abc import Sequence

from jobs.configuration.config import load
from jobs.copies.imported import imported, undone
from jobs.run.cli import parser_of, reported
from jobs.run.session import writing_session
from metadata_source.text import printable

JOB = "import_history"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "lake, checkpoints")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--from", dest="place", metavar="PLACE", help="a folder or URI of an export")
    what.add_argument("--undo", action="store_true", help="take back one that has not ended")
    given = parser.parse_args(argv)

    def run() -> None:
        config = load(given.config)
        spark = writing_session(JOB, config)
        undo = given.undo
        lines = undone(spark, config.lake) if undo else imported(spark, config, given.place)
        for line in lines:
            print(printable(line), file=sys.stderr)

    return reported(JOB, run)


if __name__ == "__main__":
    sys.exit(main())
