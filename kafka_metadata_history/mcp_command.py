"""The command mcp: tools for agents, over stdin and stdout."""

import click

from jobs.configuration.config import load
from kafka_metadata_history.config_option import config_option
from metadata_source.errors import KafkaMetadataHistoryError

_NEEDED = {"anyio", "mcp", "mcp_types", "pydantic"}


class NotInstalledError(KafkaMetadataHistoryError, RuntimeError):
    """Raised if an extra of this package is needed and not installed. One line."""


@click.command()
@config_option
def mcp(*, config: str) -> None:
    """Answer agents, over MCP on stdin and stdout. The Model Context Protocol: each named query is
    a tool. Reads the lake alone, and ends when stdin does.
    """
    read = load(config)
    try:
        from kafka_metadata_history.agents.server import serve  # noqa: PLC0415 - an extra, and takes a second
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        raise NotInstalledError(
            f"the MCP SDK is not installed ({error.name} is missing): "
            "pip install 'kafka-metadata-history[mcp]'"
        ) from error
    serve(read)
