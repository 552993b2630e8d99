"""The command may-stop: whether a broker may stop now. It asks the cluster, or reads the record."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobs.configuration.config import Config, load
from kafka_metadata_history.answers.questions import QueryError, one_of
from kafka_metadata_history.answers.whatif.losses import loss_of_nodes
from kafka_metadata_history.answers.whatif.rules import what_if
from kafka_metadata_history.answers.whatif.verdict import (
    ACCEPTABLE,
    FORMS,
    SAFE,
    STATUSES,
    Verdict,
    judged,
    stale,
    unanswered,
)
from kafka_metadata_history.client_option import client_option, options_of_one
from kafka_metadata_history.config_option import config_option
from kafka_metadata_history.opened import opened
from kafka_metadata_history.recorded import recorded
from metadata_source.errors import PollError
from metadata_source.options import parse
from metadata_source.options.readers import duration_ms
from metadata_source.text import did_you_mean, printable

if TYPE_CHECKING:
    from kafka_metadata_history.answers.whatif.state import Cluster as State
    from metadata_source.options import Cluster

PAUSE_S = 3.0
"""Between two askings of --wait."""


def _wait(context: click.Context, option: click.Parameter, given: str | None) -> float:
    """Read a duration, in seconds."""
    try:
        return 0.0 if given is None else duration_ms(given) / 1000
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from error


def _accepted(context: click.Context, option: click.Parameter, given: str | None) -> Sequence[str]:
    accepted = [each.strip() for each in given.split(",")] if given else []
    if unknown := [each for each in accepted if each not in ACCEPTABLE]:
        hint = did_you_mean(unknown[0], ACCEPTABLE, f"one of {', '.join(ACCEPTABLE)}")
        raise click.BadParameter(printable(f"{unknown[0]}: {hint}"), context, option)
    return accepted


@click.command("may-stop")
@click.argument("broker", type=click.IntRange(0))
@config_option
@click.option("--bootstrap", metavar="HOST:PORT", help="Ask this cluster, without a configuration.")
@client_option
@click.option("--cluster", help="This cluster of the configuration. Default: the only one.")
@click.option(
    "--by-record",
    is_flag=True,
    help="Ask nobody: read the lake. A record of more than 10 s ago is not known.",
)
@click.option(
    "--accept",
    metavar="REASON,...",
    callback=_accepted,
    help=f"Pass over what was so before: {', '.join(ACCEPTABLE)}.",
)
@click.option(
    "--wait", metavar="TIME", callback=_wait, help="Ask again until it is safe, so long at most."
)
@click.option(
    "--format", "form", type=click.Choice(tuple(FORMS)), default="text", show_default=True
)
def may_stop(
    *,
    broker: int,
    config: str,
    bootstrap: str | None,
    client: Path | None,
    cluster: str | None,
    by_record: bool,
    accept: Sequence[str],
    wait: float,
    form: str,
) -> int:
    """Say whether a broker may stop now. Asks the cluster, or reads the record of it, and writes
    nothing. Exits 0 if it is safe, 3 if it is not, 4 if that is not known.
    """
    options = options_of_one(bootstrap, client)
    if options is not None and by_record:
        raise QueryError("--by-record reads a lake: leave out --bootstrap and --client")
    if by_record:
        judge = partial(_read, load(config), cluster)
    else:
        options = options or parse(load(config).source_options({}), "stream")
        clusters = {each.alias: each for each in options.clusters}
        asked = clusters[one_of([*clusters], cluster, "the configuration")]
        judge = partial(_asked, asked, options.request_timeout_ms)
    until = time.monotonic() + wait
    while True:
        found = judge(broker, accept)
        left = until - time.monotonic()
        if found.verdict == SAFE or left <= 0:
            break
        time.sleep(min(PAUSE_S, left))
    click.echo(FORMS[form](found), nl=False)
    return STATUSES[found.verdict]


def _asked(cluster: "Cluster", timeout_ms: int, broker: int, accepted: Sequence[str]) -> Verdict:
    """Ask once. Raises QueryError for a broker that the cluster does not have."""
    from kafka_metadata_history.answers.whatif.asked import state_of  # noqa: PLC0415 - Kafka's client takes a second
    from metadata_source.now import ask_now  # noqa: PLC0415

    try:
        now = ask_now(cluster, timeout_ms)
    except PollError as error:
        return Verdict(cluster.alias, broker, lacks=[f"{error.kind}: {error.problem}"])
    state, lacks = state_of(cluster.alias, cluster.kind, now)
    return _verdict(state, broker, lacks, accepted)


def _read(config: Config, cluster: str | None, broker: int, accepted: Sequence[str]) -> Verdict:
    """Read the record once. Raises QueryError for a broker that the cluster does not have."""
    now = datetime.now(UTC)
    record, lacks = recorded(
        opened(config.lake, spark=config.spark), config, cluster, None, now=now, controller_racks={}
    )
    if old := stale(record, now):
        return Verdict(record.cluster.name, broker, lacks=old)
    polling = parse(config.source_options({}), "stream").polling
    enrich = polling[record.cluster.name].enrich if record.cluster.name in polling else {}
    beats = {question: timedelta(milliseconds=beat) for question, beat in enrich.items()}
    lacks = [*lacks, *unanswered(record, beats, now)]
    return _verdict(record.cluster, broker, lacks, accepted)


def _verdict(state: "State", broker: int, lacks: Sequence[str], accepted: Sequence[str]) -> Verdict:
    if broker not in state.broker_ids:
        brokers = ", ".join(map(str, sorted(state.broker_ids)))
        raise QueryError(
            printable(f"there is no broker {broker} in {state.name}; brokers are {brokers}")
        )
    return judged(what_if(state, loss_of_nodes(state, [broker])), broker, lacks, accepted)
