"""An incident on a real cluster, kept as history: ``make demo``.

Three brokers with traffic and two groups of consumers are polled every two seconds, and the log of their coordinators
is read, while consumers join, leave and crash, brokers stop and come back, one that coordinates a group among them, a
partition moves, leadership returns to the preferred replicas and a topic is made again. Then it prints what the tables
say about it. Everything is in .demo/ (made again each time); nothing is left running.
"""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from demo.consumers import BILLING, GROUPS, SEARCH, Consumers
from demo.incident import MOVED, RECREATED, TOPICS, Administration, IncidentError
from demo.pipeline import POLL_INTERVAL, ROOT, Pipeline, PipelineError, configuration
from demo.traffic import Traffic
from local_cluster import LocalCluster, LocalClusterError
from local_cluster.members import Members

FOLDER = ROOT / ".demo"
RACKS = ("a", "b", "c")
MORE = """
Ask further, for instance what happened to one topic, in order:

PATH="$PWD/.venv/bin:$PATH" spark-submit --properties-file conf/spark-defaults.conf jobs/query.py \\
  timeline --config .demo/demo.yaml --topic orders
"""

SHORT_SESSIONS = {"group.consumer.min.session.timeout.ms": "6000", "group.consumer.session.timeout.ms": "6000"}
"""A member that crashed is missed soon, in groups of both protocols."""

Say = Callable[[str], None]


def main() -> int:
    """Run the demo; return the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything that was started is ended
    # As in an activated environment: spark-submit takes the first python3 on the PATH.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"[{time.monotonic() - started:4.0f} s] {what}", flush=True)

    try:
        pipeline = record(FOLDER, say)
        say("read the tables, and draw the pictures meanwhile")
        with pipeline.pictures() as pictures:
            print(f"\n{pipeline.summary()}", flush=True)
            print(f"\nThe same with pictures, for a browser:\n{pictures()}{MORE}")
    except KeyboardInterrupt:
        print("\nstopped; nothing is left running", file=sys.stderr)
        return 130
    except (LocalClusterError, IncidentError, PipelineError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say("done")
    return 0


def record(folder: Path, say: Say) -> Pipeline:
    """Play the script with the pipeline running, so that the lake in `folder` has it all; return the
    pipeline, ended.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    say(f"start three brokers and a controller, in racks {', '.join(RACKS)}")
    # Leadership returns when the script says so. And a controller of its own: two brokers can be down at once.
    properties = {"auto.leader.rebalance.enable": "false", **SHORT_SESSIONS}
    with (
        LocalCluster(brokers=3, controllers=1, racks=RACKS, properties=properties) as cluster,
        Members(cluster.bootstrap_servers) as members,
        Pipeline(folder) as pipeline,
    ):
        administration = Administration(cluster.bootstrap_servers)
        administration.create_topics(TOPICS)
        pipeline.config.write_text(configuration(cluster.bootstrap_servers, folder))
        with Traffic(cluster.bootstrap_servers, TOPICS) as traffic:
            say(f"{len(TOPICS)} topics with traffic; poll them every {POLL_INTERVAL}: {' '.join(pipeline.command)}")
            pipeline.start()
            consumers = Consumers(members)
            say(f"groups {' and '.join(GROUPS)}: two members each")
            for group in (*GROUPS, *GROUPS):
                consumers.join(group)
            pipeline.await_batches(1)
            play(cluster, administration, consumers, pipeline, say)
        say(
            f"stop the pipeline and make history of the last polls ({traffic.delivered} records were delivered, "
            f"{traffic.refused} not)"
        )
        pipeline.stop()
        pipeline.run_once()
        return pipeline


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


if __name__ == "__main__":
    sys.exit(main())
