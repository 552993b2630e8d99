"""An incident on a real cluster, recorded: three brokers with traffic and two groups of consumers
are polled every few seconds, and the logs of their coordinators and controllers are read, while
consumers join, leave and crash, brokers stop and come back, one that coordinates a group among
them, a partition moves, leadership returns to the preferred replicas and a topic is made again.
Then the command answers about it.
"""

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from jobs.configuration.config import load
from kafka_metadata_history.demo.consumers import BILLING, GROUPS, SEARCH, Consumers
from kafka_metadata_history.demo.incident import (
    MOVED,
    RECREATED,
    TOPICS,
    Administration,
    IncidentError,
)
from kafka_metadata_history.demo.pipeline import (
    POLL_INTERVAL,
    Pipeline,
    PipelineError,
    configuration,
)
from kafka_metadata_history.demo.traffic import Traffic
from kafka_metadata_history.jars.errors import JarsError
from kafka_metadata_history.names import INTERRUPTED, NAME
from kafka_metadata_history.opened import opened
from local_cluster import LocalCluster, LocalClusterError
from local_cluster.members import Members
from metadata_source.errors import KafkaMetadataHistoryError

RACKS = ("a", "b", "c")
SHORT_SESSIONS = {
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
}
"""A member that crashed is missed soon, in groups of both protocols."""
CONFIG = "demo.yaml"
BEFORE = timedelta(seconds=15)
"""So much of the time before the first poll is asked about too."""
MARK = ".kafka-metadata-history-demo"
"""A file that says whose the folder is: each demo removes all of it."""
ANSWERS = ("overview", "broker_incidents", "rebalances", "rebalance_cost")
POLLS_AND_LOG = """SELECT c.topic, c.partition, c.prev_leader, c.leader,
  max(h.sent_at) FILTER (WHERE NOT is_shown) AS polls_after,
  min(h.received_at) FILTER (WHERE is_shown) AS polls_before,
  c.began_after AS log_after, c.began_before AS log_before
FROM (
  SELECT c.*, t.poll_id,
    exists(
      t.partitions, p -> p.partition = c.partition AND p.leader_epoch >= c.leader_epoch
    ) AS is_shown
  FROM gold.leader_changes c JOIN bronze.metadata_polls t USING (cluster_id, topic, topic_id)
  WHERE c.reason = 'failover' AND t.record = 'topic'
) c JOIN bronze.metadata_polls h ON h.poll_id = c.poll_id AND h.record = 'poll'
GROUP BY ALL ORDER BY log_before, topic, partition LIMIT 3"""
"""Between which polls, as bronze has them, leaders changed that the controllers' log tells."""
FIRST_INCIDENT = (
    "SELECT id FROM gold.incidents WHERE merged_into IS NULL "
    "ORDER BY severity <> 'page', began_before LIMIT 1"
)
MORE = (
    ("timeline", "--topic", "payments"),
    ("who_joined_and_left", "--group", BILLING),
    ("unclean_elections",),
)

Say = Callable[[str], None]
RunCommand = Callable[[Sequence[str]], int]
"""Runs the command with these arguments, and returns its exit status."""


class DemoError(KafkaMetadataHistoryError, RuntimeError):
    """Raised if the demo cannot be played to its end. Its message says why."""


def demo(folder: Path, run: RunCommand) -> None:
    """Record the incident in `folder`, which is made again, print what the command answers, and
    name three more questions. Nothing is left running. Raises DemoError.
    """
    # So that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = time.monotonic()

    def say(what: str) -> None:
        click.echo(f"[{time.monotonic() - started:4.0f} s] {what}")

    try:
        since = f"{record(folder, say) - BEFORE:%Y-%m-%dT%H:%M:%SZ}"
    except (LocalClusterError, JarsError, IncidentError, PipelineError) as error:
        raise DemoError(str(error)) from error
    config, page = str(folder / CONFIG), str(folder / "incident.html")
    for asked in (*ANSWERS, POLLS_AND_LOG):
        _run(run, "query", asked, "--config", config, "--since", since)
    _run(run, "report", "--config", config, "--since", since, "--out", page)
    _run(run, "explain", "--config", config)
    for id_ in opened(load(config).lake).ask(FIRST_INCIDENT)["id"].to_pylist():
        _run(run, "explain", id_, "--config", config)
    click.echo(f"\nOpen {page} in a browser, or all of it as pages:\n")
    click.echo(f"  {shlex.join([*_command(), 'serve', '--config', config])}")
    click.echo("\nAsk more:\n")
    for question in MORE:
        click.echo(f"  {shlex.join([*_command(), 'query', *question, '--config', config])}")
    click.echo()
    say("done")


def _run(run: RunCommand, *arguments: str) -> None:
    """Run a command, below the line that runs it. Raises DemoError."""
    words = (f'"{each}"' if "'" in each else shlex.quote(each) for each in arguments)
    click.echo(f"\n$ {shlex.join(_command())} {' '.join(words)}")
    status = run(arguments)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status != 0:
        raise DemoError(f"{NAME} {arguments[0]} ended with status {status}")


def _command() -> list[str]:
    """The command as it was started: it may not be on the PATH of the user's shell."""
    return (
        [sys.argv[0]]
        if Path(sys.argv[0]).name == NAME
        else [sys.executable, "-m", "kafka_metadata_history"]
    )


def record(folder: Path, say: Say) -> datetime:
    """Play the script beside the recorder, so that the lake in `folder` has it all. Return the time
    at which the first poll was there. Raises DemoError, and what the cluster and the recorder
    raise.
    """
    _make_again(folder)
    say(
        f"start three brokers and a controller, in racks {', '.join(RACKS)}; the first time, "
        "download Kafka"
    )
    # Leadership returns when the script says so. And a controller of its own: two brokers can be
    # down at once.
    properties = {"auto.leader.rebalance.enable": "false", **SHORT_SESSIONS}
    with (
        LocalCluster(brokers=3, controllers=1, racks=RACKS, properties=properties) as cluster,
        Members(cluster.bootstrap_servers) as members,
        Pipeline(folder / CONFIG) as pipeline,
    ):
        administration = Administration(cluster.bootstrap_servers)
        administration.create_topics(TOPICS)
        pipeline.config.write_text(
            configuration(cluster.bootstrap_servers, cluster.controller_servers)
        )
        with Traffic(cluster.bootstrap_servers, TOPICS) as traffic:
            say(
                f"{len(TOPICS)} topics with traffic; {NAME} run --config {folder / CONFIG} polls "
                f"every {POLL_INTERVAL}"
            )
            pipeline.start()
            consumers = Consumers(members)
            pipeline.await_polls(1)
            begun = datetime.now(UTC)
            say(
                f"polls are recorded, while Spark starts; groups {' and '.join(GROUPS)}: two "
                "members each"
            )
            for group in (*GROUPS, *GROUPS):
                consumers.join(group)
            play(cluster, administration, consumers, pipeline, say)
            say(
                f"wait until the pipeline has made history of it ({traffic.delivered} records were "
                f"delivered, {traffic.refused} not)"
            )
            pipeline.await_history(datetime.now(UTC))
        return begun


def _make_again(folder: Path) -> None:
    """Empty a folder that a demo made. Raises DemoError for any other that is not empty."""
    mark = folder / MARK
    try:
        if folder.exists() and any(folder.iterdir()) and not mark.exists():
            raise DemoError(
                f"{folder} is there and is not a demo's: move it, or name another --folder"
            )
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        mark.touch()
    except OSError as error:
        raise DemoError(f"{folder} cannot be made again: {error.strerror}") from error


def play(
    cluster: LocalCluster,
    administration: Administration,
    consumers: Consumers,
    pipeline: Pipeline,
    say: Say,
) -> None:
    """The script. After each step two polls, the second of which began after it."""

    def seen() -> None:
        pipeline.await_polls(2)

    say(f"a third member joins {BILLING}")
    consumers.join(BILLING)
    say(f"{consumers.leave(SEARCH)} leaves {SEARCH}")
    say("stop broker 2 (controlled)")
    cluster.stop(2)
    seen()
    coordinator = administration.coordinator(BILLING)
    say(f"kill broker {coordinator} (SIGKILL), which coordinates {BILLING}")
    cluster.kill(coordinator)
    administration.await_brokers({1, 3} - {coordinator})
    seen()
    say(f"start brokers 2 and {coordinator}")
    cluster.start(2, coordinator)
    administration.await_in_sync()
    consumers.await_shared()
    seen()
    say(f"{consumers.crash(BILLING)} of {BILLING} was killed, and its session is over")
    say(f"reassign {MOVED.topic}-{MOVED.partition}")
    before, after = administration.reassign(MOVED)
    say(f"  from {before} to {after}: done")
    seen()
    say("return leadership to the preferred replicas")
    administration.elect_preferred_leaders()
    seen()
    say(f"delete topic {RECREATED} and make it again")
    administration.delete_topic(RECREATED)
    administration.create_topics([RECREATED])
    seen()
