"""The command show: the state of clusters, of a topic, a broker or a group at a time."""

from datetime import UTC, datetime
from functools import partial

import click

from jobs.configuration.config import load
from kafka_metadata_history.answers.asof import show as states
from kafka_metadata_history.answers.asof.read import AsOf, reaches, time_of
from kafka_metadata_history.answers.questions import check_filters
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.rows_options import print_rows, rows_options, without_cluster


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
    given = {"topic": topic, "broker": broker, "group": group}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(f'--{each}' for each in named)} exclude each other")
    now = datetime.now(UTC)
    lake = opened(load(config).lake)
    state = AsOf.of(lake.ask, reaches(lake.ask, cluster), time_of(at, now))
    check_filters({"cluster": state.cluster, **named} if state.cluster else named, lake.ask)
    shown = partial(states.clusters, now=now)
    if topic is not None:
        shown = partial(states.topic, name=topic)
    elif broker is not None:
        shown = partial(states.broker, broker_id=broker)
    elif group is not None:
        shown = partial(states.group, group_id=group)
    rows, lacks = shown(state)
    print_rows(
        lake,
        rows,
        lambda: [*state.lines(now), *lacks],
        form,
        limit,
        wide=wide,
        whole=lambda shown: without_cluster(shown, {*state.reach}),
    )
