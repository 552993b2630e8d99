"""The command diff: what differs between two times, or between the settings of two clusters."""

from collections.abc import Sequence
from datetime import UTC, datetime

import click

from jobs.configuration.config import load
from kafka_metadata_history.answers.asof.asked import Comparison, Thing, difference
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.rows_options import print_rows, rows_options


@click.command()
@click.argument("times", metavar="[T1 [T2]]", nargs=-1)
@config_option
@click.option("--cluster", help="This cluster. Default: all.")
@click.option("--topic", help="This topic alone.")
@click.option("--broker", type=int, help="This broker alone.")
@click.option("--group", help="This group alone.")
@click.option(
    "--clusters",
    "pair",
    nargs=2,
    metavar="A B",
    help="The settings of two clusters, of topics of the same name and of all brokers.",
)
@click.option("--at", help="With --clusters: a time, or how long ago. Default: the newest state.")
@rows_options
def diff(
    *,
    times: Sequence[str],
    config: str,
    cluster: str | None,
    topic: str | None,
    broker: int | None,
    group: str | None,
    pair: tuple[str, str] | None,
    at: str | None,
    form: str,
    limit: int | None,
    wide: bool,
) -> None:
    """Say what differs between two times, by the record. T1 and T2 are times in ISO form, or how
    long ago; without T2 it is the newest state. A table has like differences as one row.
    """
    of = Comparison(times, pair, at, cluster, Thing(topic, broker, group))
    read = load(config)
    lake = opened(read.lake, spark=read.spark)
    answer = difference(lake.ask, of, datetime.now(UTC), is_folded=form == "table")
    print_rows(lake, answer, form, limit, wide=wide)
