"""The command events: what happened to incidents, as lines."""

import os
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NoReturn

import click

from jobs.configuration.config import load
from kafka_metadata_history.answers.incidents.following import FORMS, Following, version
from kafka_metadata_history.answers.incidents.listing import not_made
from kafka_metadata_history.answers.incidents.read import read_recorded
from kafka_metadata_history.answers.questions import Ask, moment
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.live import LOOK_S, LiveLake
from kafka_metadata_history.names import NAME
from kafka_metadata_history.opened import opened
from metadata_source.text import printable
from schemas.lake import Lake, LakeError

PAUSE_S = 1.0
"""Between two looks at Delta's log in a folder; one at an object store is paid."""


@click.command()
@config_option
@click.option("--follow", is_flag=True, help="Go on with new ones, until Ctrl-C.")
@click.option(
    "--since",
    default="1 day",
    show_default=True,
    help="Known since then: a time in ISO form, or how long ago.",
)
@click.option("--cluster", help="This cluster alone. Default: all.")
@click.option(
    "--format", "form", type=click.Choice(tuple(FORMS)), default="text", show_default=True
)
def events(*, config: str, follow: bool, since: str, cluster: str | None, form: str) -> None:
    """Print what happened to incidents, a line each. In the order in which it was known: opened,
    worse, eased, ended, reopened, merged, revised, withdrawn.
    """
    read = load(config)
    new = Following(moment(since, datetime.now(UTC)), cluster)
    try:
        if follow:
            _follow(read.lake, new, cluster, form)
        ask = opened(read.lake, spark=read.spark).ask
        recorded = read_recorded(ask, cluster)
        _print(FORMS[form](new.new(ask)))
        for each in not_made(recorded):
            click.echo(printable(each), err=True)
    except BrokenPipeError:  # whoever read the lines has had enough; Python still flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _follow(lake: Lake, new: Following, cluster: str | None, form: str) -> NoReturn:
    """Print events until Ctrl-C, or until nobody reads them. A lake that cannot be read is one
    line, and asked again.
    """
    live = None if lake.is_folder else LiveLake(lake)
    asked: int | str | None = None
    said = ""
    while True:
        try:
            newest, ask = _changed(lake, asked) if live is None else _moved(live, asked)
            if ask is not None:
                if cluster is not None and asked is None:
                    read_recorded(ask, cluster)
                _print(FORMS[form](new.new(ask)))
            asked, said = newest, ""
        except LakeError as error:
            line = printable(f"{NAME}: {error}; waiting for it")
            if line != said:
                click.echo(line, err=True)
            said = line
        time.sleep(PAUSE_S if live is None else LOOK_S)


def _changed(lake: Lake, asked: int | str | None) -> tuple[int | None, Ask | None]:
    """The version of a lake in a folder, and what answers it if that is another one."""
    newest = version(lake)
    return newest, opened(lake).ask if newest is None or newest != asked else None


def _moved(live: LiveLake, asked: int | str | None) -> tuple[str, Ask | None]:
    """The version of a lake in an object store, and what answers it if that is another one."""
    newest = live.now()
    return newest.name, newest.ask if newest.name != asked else None


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
