"""A subcommand of the command, run in this process."""

import pytest

from kafka_metadata_history.command import exit_status


def printed_by(
    command: str, config: str, *arguments: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, list[str]]:
    """Its exit status, the text of its output, and the lines of its errors."""
    found = exit_status([command, "--config", config, *arguments])
    printed = capsys.readouterr()
    return found, printed.out, printed.err.splitlines()
