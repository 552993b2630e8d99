"""The command notify: messages of incidents, to whoever has to act."""

import click

from jobs.configuration.config import load
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.names import FAILED, NAME
from kafka_metadata_history.printed import say


@click.command()
@config_option
@click.option("--once", is_flag=True, help="Look and send once, and end: for schedulers.")
def notify(*, config: str, once: bool) -> int:
    """Send messages when incidents open, get worse and are over. To the targets of the
    configuration, until a signal comes.
    """
    from kafka_metadata_history.notify.sending import sender  # noqa: PLC0415 - only this command needs a client of HTTP

    with sender(load(config), lambda line: say([f"{NAME}: {line}"])) as found:
        if not once:
            found.go_on()
        return 0 if found.once() else FAILED
