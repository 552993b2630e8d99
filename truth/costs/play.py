"""Groups of workers to which things are done, while records keep coming: what each worker did is kept."""

import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka.admin import AdminClient, NewTopic

from local_cluster import LocalCluster
from local_cluster.process import NodeProcess
from local_cluster.traffic import Traffic
from truth.costs import worker

PARTITIONS: Final = 4
CADENCE_SECONDS: Final = 1.0
SESSION_SECONDS: Final = 6
STEADY_SECONDS: Final = 8.0
"""Between two steps: a rebalance is over by then, and the cadence of commits is known again."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Kind:
    """A kind of group. `commits_revoked`: its workers commit what they give up."""

    name: str
    config: Mapping[str, Any]
    commits_revoked: bool = True
    in_transactions: bool = False


_CLASSIC: Final = {"session.timeout.ms": SESSION_SECONDS * 1000, "heartbeat.interval.ms": 500}
KINDS: Final = (
    Kind("range", {**_CLASSIC, "partition.assignment.strategy": "range"}),
    Kind("careless", {**_CLASSIC, "partition.assignment.strategy": "range"}, commits_revoked=False),
    Kind("cooperative", {**_CLASSIC, "partition.assignment.strategy": "cooperative-sticky"}),
    Kind("consumer", {"group.protocol": "consumer"}),
    Kind("transactions", {**_CLASSIC, "partition.assignment.strategy": "range"}, in_transactions=True),
)


@dataclass(frozen=True)
class Done:
    """One record that a worker did."""

    at: datetime
    worker: str
    partition: int
    offset: int


@dataclass
class Group:
    """The workers of a group, each a process of its own."""

    kind: Kind
    bootstrap_servers: str
    folder: Path
    running: dict[str, NodeProcess] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the group, and of its topic."""
        return f"costs-{self.kind.name}"

    def join(self, name: str) -> None:
        """Start a worker."""
        settings = {
            "topics": [self.name],
            "cadence_s": CADENCE_SECONDS,
            "commits_revoked": self.kind.commits_revoked,
            "config": {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": self.name,
                "client.id": name,
                "auto.offset.reset": "earliest",
                "reconnect.backoff.max.ms": 500,
                **self.kind.config,
            },
        }
        if self.kind.in_transactions:
            settings["transactional_id"] = f"{self.name}-{name}"
        file = self._file(name)
        command = [sys.executable, "-P", worker.__file__, json.dumps(settings), str(file)]
        self.running[name] = NodeProcess.supervised(command, file.with_suffix(".log"), remove=self.folder)

    def leave(self, name: str) -> None:
        """Let a worker close its client."""
        self.running[name].send(signal.SIGTERM)
        self.running.pop(name).wait(30)

    def crash(self, name: str) -> None:
        """Kill a worker."""
        self.running[name].send(signal.SIGKILL)
        self.running.pop(name).wait(30)

    def hang(self, name: str) -> None:
        """Hold a worker with SIGSTOP, for longer than its session, then let it run on."""
        self.running[name].send(signal.SIGSTOP)
        time.sleep(SESSION_SECONDS + STEADY_SECONDS)
        self.running[name].send(signal.SIGCONT)

    def end(self) -> None:
        """Kill whoever still runs."""
        for name in list(self.running):
            self.crash(name)

    def done(self) -> list[Done]:
        """All that workers did, in order of time."""
        found = []
        for file in self.folder.glob(f"{self.name}-*.work"):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    at, _, partition, offset = json.loads(line)
                    found.append(Done(datetime.fromisoformat(at), file.stem, partition, offset))
        return sorted(found, key=lambda each: each.at)

    def _file(self, name: str) -> Path:
        return self.folder / f"{self.name}-{name}.work"


class Records(Traffic):
    """Ten records a second for each partition of the groups' topics."""

    SETTINGS: ClassVar[Mapping[str, Any]] = {"linger.ms": 0, "message.timeout.ms": 10_000}
    SECONDS_BETWEEN_ROUNDS: ClassVar[float] = 0.1
    SECONDS_TO_FLUSH: ClassVar[float] = 5.0

    def __init__(self, bootstrap_servers: str, topics: Sequence[str]) -> None:
        super().__init__(bootstrap_servers)
        self._topics = topics

    def records(self, n: int) -> Iterator[dict[str, Any]]:
        """One to each partition."""
        for topic in self._topics:
            for partition in range(PARTITIONS):
                yield {"topic": topic, "partition": partition, "value": str(n).encode()}


STEPS: Final[Sequence[tuple[str, str]]] = (
    ("join", "first"),
    ("join", "second"),
    ("leave", "first"),
    ("join", "third"),
    ("crash", "second"),
    ("join", "fourth"),
    ("hang", "fourth"),
)


def play(cluster: LocalCluster, kinds: Sequence[Kind], say: Say) -> dict[str, list[Done]]:
    """Do all steps to a group of each kind at once, then stop the broker that coordinates the first one; what was done,
    by group. No worker runs when this returns or raises.
    """
    servers = cluster.bootstrap_servers
    folder = Path(tempfile.mkdtemp(prefix="workers-"))
    groups = [Group(kind, servers, folder) for kind in kinds]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    topics = [NewTopic(group.name, PARTITIONS, 3) for group in groups]
    for created in admin.create_topics(topics).values():
        created.result(30)
    try:
        with Records(servers, [group.name for group in groups]), contextlib.ExitStack() as ended:
            for group in groups:
                ended.callback(group.end)
            for deed, name in STEPS:
                say(f"{deed} {name}")
                with ThreadPoolExecutor(len(groups)) as pool:
                    list(pool.map(lambda group, deed=deed, name=name: getattr(group, deed)(name), groups))
                time.sleep(STEADY_SECONDS)
            found = admin.describe_consumer_groups([groups[0].name])[groups[0].name].result(30)
            broker = found.coordinator.id
            say(f"stop broker {broker}, which coordinates {groups[0].name}")
            cluster.stop(broker)
            time.sleep(2 * STEADY_SECONDS)
        return {group.name: group.done() for group in groups}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
