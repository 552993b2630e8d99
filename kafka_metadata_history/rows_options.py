"""The options of commands whose answer is rows, and how these are printed."""

import click
import pyarrow as pa

from kafka_metadata_history.answers.asking import Answer, beside
from kafka_metadata_history.answers.text import FORMS, written
from kafka_metadata_history.opened import Opened
from kafka_metadata_history.printed import say, width
from kafka_metadata_history.window_options import Command
from metadata_source.text import counted

LIMIT = 100
"""Rows of a table, unless the user says otherwise."""


def rows_options(command: Command) -> Command:
    """Give a command the options --format, --limit and --wide."""
    for option in (
        click.option("--wide", is_flag=True, help="A table of all columns, each by itself."),
        click.option(
            "--limit",
            type=click.IntRange(0),
            help="Rows at most; 0: all. Default: 100 of a table, else all.",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMS),
            default="table",
            help="Tables are for people.",
        ),
    ):
        command = option(command)
    return command


def print_rows(
    lake: Opened,
    answer: Answer,
    form: str,
    limit: int | None,
    *,
    wide: bool,
) -> None:
    """Print an answer, and beside it how many rows there are, who answered, and its lines. A table
    for people lacks the column `cluster` if all are of the one that was asked for.
    """
    rows = answer.rows
    most = (LIMIT if form == "table" else 0) if limit is None else limit
    shown = rows.slice(0, most) if most else rows
    table = _without_cluster(shown, answer.clusters) if form == "table" and not wide else shown
    click.echo(written(table, form, wide=wide, width=width()), nl=False)
    left = f"; {len(shown)} shown, --limit 0 shows all" if len(shown) < len(rows) else ""
    say([f"{counted(len(rows), 'row')}, by {lake.engine}{left}", *beside(lake, answer.lines)])


def _without_cluster(rows: pa.Table, clusters: frozenset[str]) -> pa.Table:
    if "cluster" not in rows.column_names or len(clusters) != 1:
        return rows
    is_one = {*rows["cluster"].to_pylist()} == clusters
    return rows.drop_columns(["cluster"]) if is_one else rows
