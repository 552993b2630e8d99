"""What commands print beside an answer, and how wide."""

import shutil
import sys
from collections.abc import Iterable

import click

from kafka_metadata_history.answers.text import WIDTH
from metadata_source.text import printable


def say(lines: Iterable[str]) -> None:
    """Print lines beside an answer."""
    for line in lines:
        click.echo(printable(line), err=True)


def width() -> int:
    """The width of the terminal; of a file it is that of the documents."""
    return shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
