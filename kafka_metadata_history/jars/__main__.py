"""Fetch jars and print where they are: `python -m kafka_metadata_history.jars --help`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kafka_metadata_history.jars.errors import JarsError
from kafka_metadata_history.jars.fetch import fetch_jars


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status is 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(
        prog="python -m kafka_metadata_history.jars",
        description="Fetch the jars of a module into a folder of its own, once.",
    )
    parser.add_argument("organisation")
    parser.add_argument("module")
    parser.add_argument("revision")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--no-transitive", dest="transitive", action="store_false", help="this one jar only"
    )
    parser.add_argument(
        "--record", action="store_true", help="write down the checksums of jars that have none"
    )
    try:
        jars = fetch_jars(**vars(parser.parse_args(argv)))
    except JarsError as error:
        print(error, file=sys.stderr)
        return 1
    print(*jars, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
