"""The options --since and --until of commands."""

from collections.abc import Callable

import click

Command = Callable[..., object]


def window_options(since: str = "1 day") -> Callable[[Command], Command]:
    """Give a command the options of the window that it is about. `since`: unless it is given."""
    says = "A time in ISO form, or how long before --until."

    def given(command: Command) -> Command:
        until = "A time in ISO form, or how long ago. Default: now."
        command = click.option("--until", help=until)(command)
        return click.option("--since", default=since, show_default=True, help=says)(command)

    return given
