"""The command report: a page about a window, and seven days against the seven before."""

from datetime import UTC, datetime

import click
from click.core import ParameterSource

from jobs.configuration.config import load
from kafka_metadata_history.answers.asking import beside
from kafka_metadata_history.answers.questions import option
from kafka_metadata_history.answers.text import written
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.printed import say, width
from kafka_metadata_history.report.week import WEEK, read_week, week_until
from kafka_metadata_history.window_options import window_options


@click.command()
@config_option
@window_options()
@click.option("--cluster", help="This cluster. Default: the one to which most happened.")
@click.option("--topic", help="ISRs, leaders and groups of this topic alone.")
@click.option("--broker", type=int, help="This broker alone.")
@click.option("--group", help="This consumer, share or streams group alone.")
@click.option("--out", default="report.html", show_default=True, metavar="FILE", help="The page.")
@click.option(
    "--week",
    "is_week",
    is_flag=True,
    help="Of the last seven whole days (UTC), printed beside the seven before, too.",
)
def report(
    *, config: str, since: str, until: str | None, out: str, is_week: bool, **filters: object
) -> None:
    """Make one page about a window of a cluster's history. The file loads nothing from
    elsewhere.
    """
    if is_week and (narrower := _narrower_than_week()):
        raise click.UsageError(
            f"--week is of seven whole days, and of whole clusters: leave out {narrower}"
        )
    read = load(config)
    from kafka_metadata_history.report import listings, make  # noqa: PLC0415 - takes a second

    lake, now, week = opened(read.lake, spark=read.spark), datetime.now(UTC), None
    if is_week:
        end, cluster = week_until(until, now), filters["cluster"]
        since, until = (end - WEEK).isoformat(), end.isoformat()
        week = read_week(lake.ask, end, None if cluster is None else str(cluster))
        click.echo(written(week, "table", width=width()), nl=False)
    page = make.make_report(
        lake.ask, since, until, filters, now, listings=listings.LISTINGS, week=week
    )
    say(beside(lake, lambda: [make.write_report(page, out)]))


def _narrower_than_week() -> str:
    """The options that were given, and do not go with --week."""
    source = click.get_current_context().get_parameter_source
    given = (each for each in ("since", "topic", "broker", "group"))
    return ", ".join(option(each) for each in given if source(each) is not ParameterSource.DEFAULT)
