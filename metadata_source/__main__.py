"""``python -m metadata_source inspect``: what is in a Metadata response."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metadata_source.protocol.inspect import explain, inspect
from metadata_source.protocol.spec import METADATA_RESPONSE

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    command = commands.add_parser(
        "inspect", help="print a Metadata response field by field, and where it is wrong"
    )
    command.add_argument("file", type=Path, help="the response's body, as captured from the wire")
    command.add_argument(
        "--version",
        type=int,
        required=True,
        choices=range(METADATA_RESPONSE.last_version + 1),
        metavar="N",
    )
    command.add_argument(
        "--skip", type=int, default=0, metavar="BYTES", help="bytes before the body (size, header)"
    )
    options = parser.parse_args(arguments)
    return _inspect(options)


def _inspect(options: argparse.Namespace) -> int:
    """Return 0 if the response is right, 1 if it is wrong, 2 if it cannot be looked at."""
    try:
        content = options.file.read_bytes()
    except OSError as error:
        print(f"{options.file}: {error.strerror}", file=sys.stderr)
        return 2
    if not 0 <= options.skip <= len(content):
        print(f"--skip {options.skip}: {options.file} has {len(content)} bytes", file=sys.stderr)
        return 2
    body = content[options.skip :]
    wrong = inspect(body, options.version, print)
    if wrong is not None:
        print("\n".join(explain(body, wrong)))
        return 1
    print(f"{len(body)} bytes: a MetadataResponse v{options.version}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
