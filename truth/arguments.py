"""The options that truth.groups and truth.transactions share."""

import argparse
import secrets
from collections.abc import Sequence


def parser(
    prog: str, doc: str | None, parts: str, names: Sequence[str], versions: Sequence[str]
) -> argparse.ArgumentParser:
    """The parser of `python -m prog`. `parts`: the option that takes some of `names` alone;
    `versions`: of Kafka, the one that it takes without being asked first.
    """
    found = argparse.ArgumentParser(
        prog=f"python -m {prog}", description=(doc or "").partition("\n\n")[0]
    )
    found.add_argument(f"--{parts}", nargs="+", choices=names, help="these alone")
    found.add_argument(
        "--kafka-version", choices=versions, default=versions[0], help="default: %(default)s"
    )
    found.add_argument(
        "--seed",
        type=int,
        default=secrets.randbelow(100_000),
        help="decides what is done (default: another each time)",
    )
    return found
