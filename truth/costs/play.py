"""Groups of workers to which things are done while records come; what each did is kept.

At the end producers rest while the groups are behind.
"""

import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from local_cluster import LocalCluster
from local_cluster.process import NodeProcess
from local_cluster.traffic import Traffic
from truth.costs import worker
from truth.dump import TruthError

PARTITIONS: Final = 4
CADENCE_SECONDS: Final = 1.0
SESSION_SECONDS: Final = 6
STEADY_SECONDS: Final = 8.0
"""Between two steps: a rebalance is over by then, and the cadence of commits is known again."""
LEFT: Final = 50
"""Records of each partition that nobody does, at the end."""
_COMMITTED_SECONDS: Final = 4.0
"""Once no record comes, all were committed by then, with a third of transactions aborted too."""

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
    Kind(
        "transactions", {**_CLASSIC, "partition.assignment.strategy": "range"}, in_transactions=True
    ),
)


@dataclass(frozen=True)
class Done:
    """One record that a worker did."""

    at: datetime
    worker: str
    partition: int
    offset: int


@dataclass(frozen=True)
class Committed:
    """A commit of one partition that a worker made: called and over by these times. `is_certain`:
    it was answered.
    """

    called: datetime
    over: datetime
    partition: int
    offset: int
    is_certain: bool


@dataclass(frozen=True)
class Work:
    """All that a group's workers did and committed, in order of time; and when each record was
    appended to its log, by partition, in the order of offsets.
    """

    done: Sequence[Done]
    committed: Sequence[Committed]
    appended: Mapping[int, Sequence[datetime]]


@dataclass(frozen=True)
class Played:
    """The work of each group, and from when on nobody did anything."""

    work: Mapping[str, Work]
    rests_from: datetime


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
        self.running[name] = NodeProcess.supervised(
            command, file.with_suffix(".log"), remove=self.folder
        )

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

    def work(self) -> Work:
        """All that workers did, in order of time."""
        done, committed = list[Done](), list[Committed]()
        for file in self.folder.glob(f"{self.name}-*.work"):
            lines = [
                json.loads(line)
                for line in file.read_text().splitlines(keepends=True)
                if line.endswith("\n")
            ]
            done += [
                Done(datetime.fromisoformat(line[0]), file.stem, *line[2:])
                for line in lines
                if isinstance(line, list)
            ]
            commits = [line for line in lines if isinstance(line, dict)]
            # The last one of a worker that was killed has no end.
            for called, returned in zip(commits[::2], [*commits[1::2], _UNKNOWN], strict=False):
                committed += self._committed(called, returned)
        done.sort(key=lambda each: each.at)
        committed.sort(key=lambda each: each.called)
        return Work(done, committed, _appended(self.bootstrap_servers, self.name))

    def _committed(
        self, called: Mapping[str, Any], returned: Mapping[str, Any]
    ) -> Iterator[Committed]:
        if returned["is_committed"] is False:
            return
        begin, is_certain = (
            datetime.fromisoformat(called["called"]),
            returned["is_committed"] is not None,
        )
        over = datetime.fromisoformat(returned["returned"]) if returned["returned"] else begin
        # A transaction is answered before its markers are written, and a coordinator may do what
        # nobody waits for.
        over += _LATER if self.kind.in_transactions or not is_certain else timedelta()
        for partition, offset in called["offsets"].items():
            yield Committed(begin, over, int(partition), offset, is_certain)

    def _file(self, name: str) -> Path:
        return self.folder / f"{self.name}-{name}.work"


_UNKNOWN: Final = {"returned": None, "is_committed": None}
_LATER: Final = timedelta(seconds=5)


def _appended(bootstrap_servers: str, topic: str) -> dict[int, list[datetime]]:
    """When each record was appended, by the broker's clock, which is that of this machine."""
    settings = {"bootstrap.servers": bootstrap_servers, "group.id": "nobody", "log_level": 0}
    consumer = Consumer(settings)
    try:
        ends = {
            n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1]
            for n in range(PARTITIONS)
        }
        consumer.assign([TopicPartition(topic, n, 0) for n in ends])
        found: dict[int, list[datetime]] = {n: [] for n in ends}
        while any(len(found[n]) < end for n, end in ends.items()):
            for message in consumer.consume(10_000, 1):
                kind, at = message.timestamp()
                if kind != TIMESTAMP_LOG_APPEND_TIME or message.offset() != len(
                    found[message.partition()]
                ):
                    raise TruthError(f"{topic}-{message.partition()} is not as it was written")
                found[message.partition()].append(datetime.fromtimestamp(at / 1000, UTC))
    finally:
        consumer.close()
    return found


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
        return records_of(self._topics, n)


def records_of(topics: Iterable[str], n: int) -> Iterator[dict[str, Any]]:
    """A record to each partition of these topics, as arguments of `Producer.produce`."""
    for topic in topics:
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


@dataclass(frozen=True)
class Script:
    """The steps of a run. At least `rest_seconds` nobody does anything at its end: history has a
    row of each group's lag each minute.
    """

    brokers: int
    steps: Sequence[tuple[str, str]]
    stops_coordinator: bool
    rest_seconds: float


LONG: Final = Script(3, STEPS, stops_coordinator=True, rest_seconds=68)
SHORT: Final = Script(
    1, (*STEPS[:2], ("crash", "second")), stops_coordinator=False, rest_seconds=38
)


def play(cluster: LocalCluster, kinds: Sequence[Kind], script: Script, say: Say) -> Played:
    """Do all steps to a group of each kind at once, then stop the broker that coordinates the first
    one. Then workers commit all that is there, end, and leave some records that come after them. No
    worker runs when this returns or raises.
    """
    servers = cluster.bootstrap_servers
    folder = Path(tempfile.mkdtemp(prefix="workers-"))
    groups = [Group(kind, servers, folder) for kind in kinds]
    names = [group.name for group in groups]
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    appended = {"message.timestamp.type": "LogAppendTime"}
    topics = [NewTopic(name, PARTITIONS, script.brokers, config=appended) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(30)
    try:
        with contextlib.ExitStack() as ended:
            for group in groups:
                ended.callback(group.end)
            with Records(servers, names):
                for deed, name in script.steps:
                    say(f"{deed} {name}")
                    with ThreadPoolExecutor(len(groups)) as pool:
                        list(
                            pool.map(
                                lambda group, deed=deed, name=name: getattr(group, deed)(name),
                                groups,
                            )
                        )
                    time.sleep(STEADY_SECONDS)
                if script.stops_coordinator:
                    found = admin.describe_consumer_groups([names[0]])[names[0]].result(30)
                    broker = found.coordinator.id
                    say(f"stop broker {broker}, which coordinates {names[0]}")
                    cluster.stop(broker)
                    time.sleep(2 * STEADY_SECONDS)
            time.sleep(_COMMITTED_SECONDS)
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        for record in (each for n in range(LEFT) for each in records_of(names, n)):
            producer.produce(**record)
        if producer.flush(30):
            raise TruthError("the last records were not taken")
        rests_from = datetime.now(UTC)
        say("rest")
        time.sleep(script.rest_seconds)
        return Played({group.name: group.work() for group in groups}, rests_from)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
