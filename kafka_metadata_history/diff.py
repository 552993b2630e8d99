"""The command diff: what differs between two times, or between the settings of two clusters."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click

from jobs.configuration.config import load
from kafka_metadata_history.answers.asof.diff import (
    Row,
    as_rows,
    between_clusters,
    between_times,
    differences,
    folded,
    hidden,
    narrowed,
)
from kafka_metadata_history.answers.asof.read import AsOf, reaches, record_reaches, time_of
from kafka_metadata_history.answers.questions import Ask, QueryError, check_filters, moment, shown
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.rows_options import print_rows, rows_options, without_cluster


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
    now = datetime.now(UTC)
    given = {"topic": topic, "broker": broker, "group": group}
    named = {name: value for name, value in given.items() if value is not None}
    _check(times, pair, at, cluster, named)
    lake = opened(load(config).lake)
    if pair:
        rows, lines = _of_clusters(lake.ask, pair, at, named, now)
        found, clusters = differences(rows), {""}
    else:
        known = reaches(lake.ask, cluster)
        begin = moment(times[0], now)
        end = moment(times[1], now) if len(times) > 1 else None
        if end is not None and begin > end:
            raise QueryError(f"T1 {shown(begin)} is after T2 {shown(end)}")
        before = AsOf.of(lake.ask, known, begin, "T1")
        after = AsOf.of(lake.ask, [*before.reach.values()], end, "T2")
        check_filters({"cluster": after.cluster, **named} if after.cluster else named, lake.ask)
        rows, lines = between_times(before, after)
        found = differences(narrowed(rows, named), hidden(before), hidden(after))
        lines = [*before.notes(), *after.lines(now), *lines]
        clusters = {*after.reach}
    shown_rows = as_rows(folded(found) if form == "table" else found)
    print_rows(
        lake,
        shown_rows,
        lambda: lines,
        form,
        limit,
        wide=wide,
        whole=lambda rows: without_cluster(rows, clusters),
    )


def _check(
    times: Sequence[str],
    pair: tuple[str, str] | None,
    at: str | None,
    cluster: str | None,
    named: Mapping[str, object],
) -> None:
    """Raise UsageError for arguments that do not fit together."""
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(f'--{each}' for each in named)} exclude each other")
    if pair is None and (at is not None or not 1 <= len(times) <= 2):
        raise click.UsageError("give T1 and T2, or --clusters A B [--at T]")
    if pair is not None and (times or cluster is not None or named.keys() - {"topic"}):
        raise click.UsageError("--clusters takes --at and --topic alone")


def _of_clusters(
    ask: Ask, pair: tuple[str, str], at: str | None, named: Mapping[str, object], now: datetime
) -> tuple[list[Row], list[str]]:
    then = time_of(at, now)
    if pair[0] == pair[1]:
        raise QueryError(f"--clusters: {pair[0]} is named twice")
    first, second = (AsOf.of(ask, reaches(ask, each), then) for each in pair)
    for each in pair:
        check_filters({"cluster": each, **named}, ask)
    rows, lines = between_clusters(first, second)
    heads = [
        f"{side}: {name} at {shown(state.at_of(name))}; {record_reaches(state.reach[name], now)}"
        for side, name, state in zip(("before", "after"), pair, (first, second), strict=True)
    ]
    return narrowed(rows, named), [*heads, *first.notes(), *second.notes(), *lines]
