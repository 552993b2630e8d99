"""An incident on a real cluster, recorded: three brokers with traffic and two groups of consumers are polled every few
seconds, and the log of their coordinators is read, while consumers join, leave and crash, brokers stop and come back,
one that coordinates a group among them, a partition moves, leadership returns to the preferred replicas and a topic is
made again. Then the command answers about it.
"""

import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from kafka_metadata_history.command import NAME, exit_status
from kafka_metadata_history.demo.consumers import BILLING, GROUPS, SEARCH, Consumers
from kafka_metadata_history.demo.incident import MOVED, RECREATED, TOPICS, Administration, IncidentError
from kafka_metadata_history.demo.pipeline import POLL_INTERVAL, Pipeline, PipelineError, configuration
from kafka_metadata_history.demo.traffic import Traffic
from local_cluster import LocalCluster, LocalClusterError
from local_cluster.members import Members

RACKS = ("a", "b", "c")
SHORT_SESSIONS = {"group.consumer.min.session.timeout.ms": "6000", "group.consumer.session.timeout.ms": "6000"}
"""A member that crashed is missed soon, in groups of both protocols."""
CONFIG = "demo.yaml"
BEFORE = timedelta(seconds=15)
"""So much of the time before the first batch is asked about too: its poll is older, and all was well."""
ANSWERS = ("overview", "broker_incidents", "rebalances")

Say = Callable[[str], None]


class DemoError(RuntimeError):
    """Raised if the demo cannot be played to its end. Its message says why."""


def demo(folder: Path) -> None:
    """Record the incident in `folder`, which is made again, print what the command answers, and name three more
    questions. Nothing is left running. Raises DemoError.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything that was started is ended
    started = time.monotonic()

    def say(what: str) -> None:
        click.echo(f"[{time.monotonic() - started:4.0f} s] {what}")

    try:
        since = f"{record(folder, say) - BEFORE:%Y-%m-%dT%H:%M:%SZ}"
    except (LocalClusterError, IncidentError, PipelineError) as error:
        raise DemoError(f"demo: {error}") from error
    config = folder / CONFIG
    for name in ANSWERS:
        _asked("query", name, "--config", str(config), "--since", since)
    _asked("report", "--config", str(config), "--since", since, "--out", str(folder / "incident.html"))
    command = NAME if shutil.which(NAME) else sys.argv[0]
    click.echo(
        f"""
Open {folder / "incident.html"} in a browser. Ask more:

  {command} query timeline --topic payments --config {config}
  {command} query who_joined_and_left --group {BILLING} --config {config}
  {command} query unclean_elections --config {config}
"""
    )
    say("done")


def _asked(*arguments: str) -> None:
    """Run a command, below the line that runs it."""
    click.echo(f"\n$ {NAME} {' '.join(arguments)}")
    if (status := exit_status(arguments)) != 0:
        raise DemoError(f"demo: {NAME} {arguments[0]} ended with status {status}")


def record(folder: Path, say: Say) -> datetime:
    """Play the script beside the recorder, so that the lake in `folder` has it all. Return when the first batch of
    polls was there.
    """
    if folder.exists() and not (folder / CONFIG).exists():
        raise DemoError(f"demo: {folder} is there and is not a demo's: move it, or say another --folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / CONFIG).touch()
    say(f"start three brokers and a controller, in racks {', '.join(RACKS)}")
    # Leadership returns when the script says so. And a controller of its own: two brokers can be down at once.
    properties = {"auto.leader.rebalance.enable": "false", **SHORT_SESSIONS}
    with (
        LocalCluster(brokers=3, controllers=1, racks=RACKS, properties=properties) as cluster,
        Members(cluster.bootstrap_servers) as members,
        Pipeline(folder / CONFIG) as pipeline,
    ):
        administration = Administration(cluster.bootstrap_servers)
        administration.create_topics(TOPICS)
        pipeline.config.write_text(configuration(cluster.bootstrap_servers))
        with Traffic(cluster.bootstrap_servers, TOPICS) as traffic:
            say(f"{len(TOPICS)} topics with traffic; {NAME} run --config {folder / CONFIG} polls every {POLL_INTERVAL}")
            pipeline.start()
            consumers = Consumers(members)
            say(f"groups {' and '.join(GROUPS)}: two members each")
            for group in (*GROUPS, *GROUPS):
                consumers.join(group)
            pipeline.await_batches(1)
            begun = datetime.now(UTC)
            play(cluster, administration, consumers, pipeline, say)
        say(
            f"stop the pipeline and make history of the last polls ({traffic.delivered} records were delivered, "
            f"{traffic.refused} not)"
        )
        pipeline.stop()
        pipeline.run_once()
        return begun


def play(
    cluster: LocalCluster, administration: Administration, consumers: Consumers, pipeline: Pipeline, say: Say
) -> None:
    """The script. After each step some batches of polls, until it is certain that one began after it."""

    def seen() -> None:
        pipeline.await_batches(2)

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
    administration.create_topics([RECREATED])  # the last run polls once more
