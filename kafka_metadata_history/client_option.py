"""The option --client of commands: a file with the options of a cluster, which is read once."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from metadata_source.client_file import ClientFile

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
