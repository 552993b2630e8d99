"""Copy a lake, or the history of one cluster, to Parquet with a manifest, which
jobs/import_history.py takes into another lake.

spark-submit jobs/export.py --config FILE --to PLACE [--cluster ALIAS]
"""

import sys
from collections.abc import Sequence

from jobs.configuration.config import load
from jobs.copies.exported import exported
from jobs.run.cli import parser_of, reported
from jobs.run.session import reading_session
from metadata_source.text import printable

JOB = "export"


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = parser_of(JOB, __doc__, "lake")
    parser.add_argument(
        "--to", required=True, metavar="PLACE", help="a folder or URI without files"
    )
    parser.add_argument("--cluster", metavar="ALIAS", help="the history of this cluster alone")
    given = parser.parse_args(argv)

    def run() -> None:
        config = load(given.config)
        spark = reading_session(JOB, config)
        for line in exported(spark, config.lake, given.to, given.cluster):
            print(printable(line), file=sys.stderr)

    return reported(JOB, run)


if __name__ == "__main__":
    sys.exit(main())
