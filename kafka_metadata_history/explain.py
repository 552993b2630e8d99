"""The command explain: the incidents that are open, or one of them."""

from datetime import UTC, datetime

import click
from click.core import ParameterSource

from jobs.configuration.config import load
from jobs.configuration.severities import NOTHING_RECORDED
from kafka_metadata_history.answers.incidents import listing, written
from kafka_metadata_history.answers.incidents.read import (
    read_account,
    read_open,
    read_over,
    read_recorded,
)
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened


@click.command()
@click.argument("incident", metavar="[ID]", required=False)
@config_option
@click.option("--cluster", help="This cluster alone. Default: all.")
@click.option(
    "--format",
    "form",
    type=click.Choice(tuple(written.FORMS)),
    default="text",
    show_default=True,
    help="md: Markdown, for a post-mortem.",
)
@click.pass_context
def explain(
    context: click.Context, *, incident: str | None, config: str, cluster: str | None, form: str
) -> None:
    """Say which incidents are open, or explain one. ID is its id, or the beginning of it: what
    happened in which order, the cause, what to read and to ask next.
    """
    now = datetime.now(UTC)
    read = load(config)
    ask = opened(read.lake).ask
    is_given = context.get_parameter_source("config") is ParameterSource.COMMANDLINE
    named = config if is_given else None
    recorded = read_recorded(ask, cluster)
    if incident is not None:
        found = read_account(ask, incident, cluster, recorded)
        click.echo(written.FORMS[form](found, now, named), nl=False)
        return
    all_of_them = listing.Listing(
        recorded,
        read_open(ask, cluster),
        read_over(ask, cluster),
        [name for name in read.clusters if cluster in {None, name}],
        read.severities[NOTHING_RECORDED].page,
    )
    click.echo(listing.FORMS[form](all_of_them, now, named), nl=False)
