"""The command whatif: what the loss of brokers or controllers would do."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from jobs.configuration.config import load
from kafka_metadata_history.answers.whatif.read import LOST
from kafka_metadata_history.answers.whatif.written import FORMS
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.recorded import without


def _racks(context: click.Context, option: click.Parameter, given: Sequence[str]) -> dict[int, str]:
    """Read ID=RACK, each."""
    found = {}
    for node, is_there, rack in (each.partition("=") for each in given):
        if not node.isdecimal() or not is_there:
            raise click.BadParameter(f"{node}{is_there}{rack}: not ID=RACK", context, option)
        found[int(node)] = rack
    return found


@click.command()
@config_option
@click.option(
    "--lose",
    "lost",
    type=(click.Choice(LOST), str),
    multiple=True,
    required=True,
    metavar="KIND NAME",
    help="broker ID,... or controller ID,... or rack NAME. More of them add up.",
)
@click.option("--at", help="A time in ISO form, or how long ago. Default: the newest state.")
@click.option("--cluster", help="This cluster. Default: the only one.")
@click.option(
    "--controller-rack",
    "racks",
    metavar="ID=RACK",
    multiple=True,
    callback=_racks,
    help="The rack of a controller, as `controllerRacks` of the configuration has it.",
)
@click.option(
    "--format", "form", type=click.Choice(tuple(FORMS)), default="text", show_default=True
)
def whatif(
    *,
    config: str,
    lost: Sequence[tuple[str, str]],
    at: str | None,
    cluster: str | None,
    racks: dict[int, str],
    form: str,
) -> None:
    """Say what the loss of brokers or controllers would do. By the record, at a time: which
    partitions it takes offline or under min ISR, who leads then, whether the quorum holds.
    """
    now, read = datetime.now(UTC), load(config)
    found, record = without(
        opened(read.lake, spark=read.spark),
        read,
        lost,
        cluster,
        at,
        now=now,
        controller_racks=racks,
    )
    click.echo(FORMS[form](found, record, now), nl=False)
