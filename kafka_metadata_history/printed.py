"""What commands print beside an answer, and how wide."""

import shutil
import sys
from collections.abc import Callable, Iterable

import click

from kafka_metadata_history.answers.text import WIDTH
from kafka_metadata_history.opened import Opened
from metadata_source.text import printable
from schemas.lake import LakeError
from schemas.table import LAKE_VERSION


def say(lines: Iterable[str]) -> None:
    """Print lines beside an answer."""
    for line in lines:
        click.echo(printable(line), err=True)


def beside(lake: Opened, known: Callable[[], list[str]]) -> list[str]:
    """The lines of `known`, as far as the lake has them, and one that says its version if that is
    an older one.
    """
    version = lake.older()
    if version is None:
        return known()
    note = (
        f"the lake is of version {version}, older than this program's {LAKE_VERSION}: columns may "
        "mean other things"
    )
    try:
        return [note, *known()]
    except LakeError:
        return [note]


def width() -> int:
    """The width of the terminal; of a file it is that of the documents."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
