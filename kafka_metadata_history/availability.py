"""The command availability: what is left of a budget of bad seconds."""

from datetime import UTC, datetime

import click

from jobs.configuration.config import load
from kafka_metadata_history.answers.asking import beside
from kafka_metadata_history.answers.questions import check_filters, question, reach
from kafka_metadata_history.answers.text import FORMS, written
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.printed import say, width
from kafka_metadata_history.window_options import window_options
from metadata_source.text import counted


@click.command()
@config_option
@window_options("30 days")
@click.option("--cluster", help="This cluster alone, by its alias.")
@click.option("--slo", default="99.9", show_default=True, help="The objective, in percent.")
@click.option("--format", "form", type=click.Choice(FORMS), default="table", show_default=True)
def availability(
    *, config: str, since: str, until: str | None, form: str, **filters: object
) -> None:
    """Say what is left of a budget of bad seconds. Of each cluster, then of the worst topics:
    seconds in which partitions could not be read or written, as metadata tells. A leader that hangs
    looks well until it is fenced.
    """
    of = question("availability", since, until, filters, datetime.now(UTC))
    read = load(config)
    lake = opened(read.lake, spark=read.spark)
    check_filters(of.filters, lake.ask)
    rows = lake.ask(of.sql)
    click.echo(written(rows, form, width=width()), nl=False)
    found = f"{counted(len(rows), 'row')}, by {lake.engine}; objective {filters['slo']} %"
    say([found, *beside(lake, lambda: reach(of, lake.ask, 1))])
