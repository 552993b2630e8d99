"""The option --client of commands: a file with the options of a cluster, which is read once."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka_metadata_history.answers.questions import QueryError
from metadata_source.text import printable

if TYPE_CHECKING:
    from metadata_source.client_file import ClientFile
    from metadata_source.options import Options

client_option = click.option(
    "--client",
    metavar="FILE",
    type=click.Path(path_type=Path),
    is_eager=True,  # --bootstrap asks it
    help="The cluster's options: YAML, or a client's file (.properties).",
)


def servers_of_client() -> str | None:
    """Return where the file of --client says to ask, if it does."""
    file = client_file(click.get_current_context().params.get("client"))
    return None if file is None else file.servers


def client_file(path: object) -> "ClientFile | None":
    """Read the file of --client once: it may be a pipe. `path`: click has something of its own
    where none is given. Raises OptionsError.
    """
    from metadata_source.client_file import read_client_file  # noqa: PLC0415 - most commands have none

    if not isinstance(path, Path):
        return None
    read: dict[Path, ClientFile] = click.get_current_context().meta.setdefault(__name__, {})
    if path not in read:
        read[path] = read_client_file(path)
    return read[path]


def read_client(path: Path | None) -> "ClientFile | None":
    """Read what --client names, and say what of it is passed over. Raises OptionsError."""
    file = client_file(path)
    if file is not None and file.warning:
        click.echo(printable(file.warning), err=True)
    return file


def options_of_one(bootstrap: str | None, client: Path | None) -> "Options | None":
    """Return the options of the one cluster that --bootstrap and --client name; its alias is
    --bootstrap. None if neither is given. Raises OptionsError, QueryError.
    """
    from metadata_source.check import read_options  # noqa: PLC0415 - Kafka's client takes a second

    file = read_client(client)
    if file is not None and (bootstrap := bootstrap or file.servers) is None:
        raise QueryError(
            "--client: the file has no bootstrap.servers: give --bootstrap HOST:PORT, too"
        )
    if bootstrap is None:
        return None
    options = read_options(bootstrap, file)
    return replace(options, clusters=(replace(options.clusters[0], alias=bootstrap),))
