"""The command explain: the incidents that are open, or one of them."""

from datetime import UTC, datetime

import click
from click.core import ParameterSource

from jobs.configuration.config import load
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.explained import FORMS, explained
from kafka_metadata_history.opened import opened


@click.command()
@click.argument("incident", metavar="[ID]", required=False)
@config_option
@click.option("--cluster", help="This cluster alone. Default: all.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
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
    read = load(config)
    is_given = context.get_parameter_source("config") is ParameterSource.COMMANDLINE
    named = config if is_given else None
    ask, now = opened(read.lake, spark=read.spark).ask, datetime.now(UTC)
    say = explained(ask, read, incident, cluster, now=now, named=named)
    click.echo(say(form), nl=False)
