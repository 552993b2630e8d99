"""Real members of groups, each a process of its own, that a test starts, crashes, pauses and stops,
and that tell their callbacks, and their work if they have any.
"""

import itertools
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self

from kafka_metadata_history.jars.fetch import JARS, fetch_jars
from kafka_metadata_history.jars.java import java_command
from local_cluster import member
from local_cluster.cluster import KAFKA_VERSION
from local_cluster.errors import LocalClusterError
from local_cluster.jars import kafka_jars
from local_cluster.process import NodeProcess

STOP_TIMEOUT = 30.0
_LOG_LINES = 15
_LATER = timedelta(seconds=5)

_CONFLUENT_CONFIG = {
    # Partitions that are new are noticed by whoever refreshes.
    "topic.metadata.refresh.interval.ms": 1000,
    "reconnect.backoff.max.ms": 1000,
}
_WORKER_CONFIG = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
_CLASSIC_SESSION = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
"""Of the client; in the other protocols the broker says."""
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_BYTES_SERDE = "org.apache.kafka.common.serialization.Serdes$ByteArraySerde"
_JAVA_CONFIG: Mapping[str, dict[str, Any]] = {
    "share": {
        "key.deserializer": _BYTES,
        "value.deserializer": _BYTES,
        "metadata.max.age.ms": 1000,
    },
    "streams": {
        "group.protocol": "streams",
        "metadata.max.age.ms": 1000,
        "default.key.serde": _BYTES_SERDE,
        "default.value.serde": _BYTES_SERDE,
    },
}

TopicPartition = tuple[str, int]


@dataclass(frozen=True)
class Told:
    """An event that a member told of, by the member's clock."""

    at: datetime
    what: str
    """started | assigned | revoked | lost | closed; of a share member only subscribed."""
    member_id: str | None
    """None of the Java clients."""
    generation: int | None
    """Generation, or member epoch, then; None of the Java clients, -1 while it has none."""
    partitions: frozenset[TopicPartition]
    """That came or went. Of streams: active tasks, the topic is the subtopology."""
    owned: frozenset[TopicPartition]
    """That it has afterwards."""


@dataclass(frozen=True)
class Work:
    """How a member works through records, which it writes down."""

    commits_revoked: bool = True
    """Whether it commits what it gives up."""
    in_transactions: bool = False
    cadence_seconds: float = 1.0
    """Between two commits."""


@dataclass(frozen=True)
class Done:
    """One record that a member did."""

    at: datetime
    member: str
    """One process has one name, whatever its client id."""
    partition: int
    offset: int


@dataclass(frozen=True)
class Commit:
    """A commit of one partition that a member made: called and over by these times."""

    called: datetime
    over: datetime
    partition: int
    offset: int
    is_certain: bool
    """It was answered."""


class Member:
    """One process, one member."""

    def __init__(
        self,
        group: str,
        client_id: str,
        instance_id: str | None,
        process: NodeProcess,
        files: Path,
        *,
        in_transactions: bool = False,
    ) -> None:
        self.group = group
        self.client_id = client_id
        self.instance_id = instance_id
        self._process = process
        self._files = files
        self._in_transactions = in_transactions

    @property
    def told(self) -> list[Told]:
        """All that it has told so far, in order."""
        return [_told(line) for line in _lines(_events(self._files))]

    @property
    def done(self) -> list[Done]:
        """The records that it did so far, in order."""
        lines = (line for line in _lines(_work(self._files)) if isinstance(line, list))
        return [Done(datetime.fromisoformat(at), self._files.name, *of) for at, _, *of in lines]

    @property
    def commits(self) -> list[Commit]:
        """Its commits so far, in order, but for those that were not made."""
        lines = [line for line in _lines(_work(self._files)) if isinstance(line, dict)]
        # The last one of a member that was killed has no end.
        ends = [*lines[1::2], {"returned": None, "is_committed": None}]
        return [
            commit
            for called, end in zip(lines[::2], ends, strict=False)
            if end["is_committed"] is not False
            for commit in _committed(called, end, in_transaction=self._in_transactions)
        ]

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that it has, by what it told last."""
        told = self.told
        return told[-1].owned if told else frozenset()

    @property
    def state(self) -> str:
        """`running`, `paused` or `down`."""
        return self._process.state

    @property
    def pid(self) -> int:
        """Its process id."""
        pid: int = self._process.java.pid
        return pid

    def subscribe(self, *topics: str) -> None:
        """Subscribe to these topics instead. Not for streams, whose topics are of the topology."""
        with _commands(self._files).open("a") as commands:
            commands.write(json.dumps({"subscribe": topics}) + "\n")

    def stop(self) -> None:
        """Let it close its client and end. Only a dynamic member leaves its group."""
        self.resume()
        self._process.send(signal.SIGTERM)
        if not self._process.wait(STOP_TIMEOUT):
            raise LocalClusterError(
                f"{self} still runs {STOP_TIMEOUT:.0f} s after SIGTERM: crash it\n{self.log_end}"
            )

    def crash(self) -> None:
        """End it with SIGKILL: its group notices when its session times out."""
        self._send(signal.SIGKILL)
        self._process.wait(STOP_TIMEOUT)

    def pause(self) -> None:
        """Hold it with SIGSTOP."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it run on (SIGCONT)."""
        self._send(signal.SIGCONT)

    @property
    def log_end(self) -> str:
        """The last lines that its client logged."""
        return "\n".join(_log(self._files).read_text(errors="replace").splitlines()[-_LOG_LINES:])

    def __str__(self) -> str:
        return f"{self.client_id} of {self.group}"

    def _send(self, which: signal.Signals) -> None:
        """Signal the process, and the JVM that it may have."""
        started = self._process.java.children() if self._process.is_running else []
        for each in [*started, self._process.java]:
            NodeProcess(each).send(which)


class Members:
    """Starts members of groups on one cluster; a context manager, after which none of them runs.

    They do not outlive this process, however it ends. Raises LocalClusterError when one cannot be
    started.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._folder = Path()
        self._numbers = itertools.count(1)
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="members-"))
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._members:
            each.crash()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(
        self,
        *,
        group: str,
        topics: Sequence[str],
        client_id: str,
        protocol: str = "classic",
        assignor: str | None = None,
        instance_id: str | None = None,
        config: Mapping[str, Any] | None = None,
        work: Work | None = None,
    ) -> Member:
        """Start a member; it joins when its client has come up.

        `protocol` is classic, consumer (KIP-848), share (KIP-932) or streams (KIP-1071). `assignor`
        is the client's for classic (range, roundrobin, cooperative-sticky) and the server's for
        consumer (uniform, range). `instance_id` makes it static. `config` is the client's own, and
        wins. `work` is for classic and consumer members of one topic, which alone commit then.
        """
        files = self._folder / f"{next(self._numbers)}-{client_id}"
        files.mkdir()
        for file in (_events(files), _commands(files), _work(files)):
            file.touch()
        settings = {
            "protocol": protocol,
            "topics": list(topics),
            "config": {
                "bootstrap.servers": self._bootstrap_servers,
                "client.id": client_id,
                **_client_config(protocol, group, assignor, instance_id),
                **(_WORKER_CONFIG if work else {}),
                **(config or {}),
            },
            **java_settings(protocol),
        }
        if work is not None:
            settings["work"] = {
                "file": str(_work(files)),
                "cadence_seconds": work.cadence_seconds,
                "commits_revoked": work.commits_revoked,
                "transactional_id": f"{group}-{client_id}" if work.in_transactions else None,
            }
        command = [
            sys.executable,
            "-P",
            member.__file__,
            json.dumps(settings),
            str(_events(files)),
            str(_commands(files)),
        ]
        process = NodeProcess.supervised(command, _log(files), remove=self._folder)
        in_transactions = work is not None and work.in_transactions
        started = Member(
            group, client_id, instance_id, process, files, in_transactions=in_transactions
        )
        self._members.append(started)
        return started


def java_settings(protocol: str) -> dict[str, str]:
    """Settings for Kafka's own client of a protocol: `class_path`, `java`; none for librdkafka."""
    if protocol not in ("share", "streams"):
        return {}
    jars = kafka_jars(KAFKA_VERSION)
    if protocol == "streams":
        # Its own jars, the client's among them, and of the broker's the logger alone.
        folder = JARS / f"kafka-streams-{KAFKA_VERSION}"
        streams = fetch_jars("org.apache.kafka", "kafka-streams", KAFKA_VERSION, folder)
        jars = streams + [jar for jar in jars if jar.name.startswith("slf4j-simple-")]
    return {"class_path": ":".join(map(str, jars)), "java": java_command()}


def _client_config(
    protocol: str, group: str, assignor: str | None, instance_id: str | None
) -> dict[str, Any]:
    if protocol in ("share", "streams"):
        config = _JAVA_CONFIG[protocol] | {
            "application.id" if protocol == "streams" else "group.id": group
        }
    else:
        config = {**_CONFLUENT_CONFIG, "group.protocol": protocol, "group.id": group}
        if protocol == "classic":
            config |= _CLASSIC_SESSION
        if assignor:
            config[
                "group.remote.assignor"
                if protocol == "consumer"
                else "partition.assignment.strategy"
            ] = assignor
    return config | ({"group.instance.id": instance_id} if instance_id else {})


def _told(line: dict[str, Any]) -> Told:
    return Told(
        at=datetime.fromisoformat(line["at"]),
        what=line["what"],
        member_id=line["member_id"],
        generation=line["generation"],
        partitions=frozenset((topic, partition) for topic, partition in line["partitions"]),
        owned=frozenset((topic, partition) for topic, partition in line["owned"]),
    )


def _committed(
    called: Mapping[str, Any], end: Mapping[str, Any], *, in_transaction: bool
) -> Iterator[Commit]:
    begun, is_certain = datetime.fromisoformat(called["called"]), end["is_committed"] is not None
    over = datetime.fromisoformat(end["returned"] or called["called"])
    # A transaction is answered before its markers are written, and a coordinator may do what nobody
    # waits for.
    if in_transaction or not is_certain:
        over += _LATER
    for partition, offset in called["offsets"].items():
        yield Commit(begun, over, int(partition), offset, is_certain)


def _lines(file: Path) -> list[Any]:
    """The lines that were written as a whole."""
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _work(files: Path) -> Path:
    return files / "work"


def _events(files: Path) -> Path:
    return files / "events"


def _commands(files: Path) -> Path:
    return files / "commands"


def _log(files: Path) -> Path:
    return files / "log"
