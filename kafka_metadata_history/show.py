"""The command show: the state of clusters, of a topic, a broker or a group at a time."""

from datetime import UTC, datetime

import click

from jobs.configuration.config import load
from kafka_metadata_history.answers.asof.asked import Thing, state
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.rows_options import print_rows, rows_options


@click.command()
@config_option
@click.option("--at", help="A time in ISO form, or how long ago. Default: the newest state.")
@click.option("--cluster", help="This cluster. Default: all, the worst first.")
@click.option("--topic", help="The partitions of this topic.")
@click.option("--broker", type=int, help="This broker: what it leads, replicates and lacks.")
@click.option("--group", help="This group and its members.")
@rows_options
def show(
    *,
    config: str,
    at: str | None,
    cluster: str | None,
    topic: str | None,
    broker: int | None,
    group: str | None,
    form: str,
    limit: int | None,
    wide: bool,
) -> None:
    """Show the state of clusters at a time, by the record. With --topic, --broker or --group, the
    state of that.
    """
    of = Thing(topic, broker, group)
    read = load(config)
    lake = opened(read.lake, spark=read.spark)
    answer = state(lake.ask, at, cluster, of, datetime.now(UTC))
    print_rows(lake, answer, form, limit, wide=wide)
