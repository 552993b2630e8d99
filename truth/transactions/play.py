"""Does the tracks of a script to a cluster, all at once."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from local_cluster import LocalCluster
from metadata_source.kafka_constants import TRANSACTIONS_TOPIC
from truth.administration import NewTopic
from truth.dump import TruthError
from truth.transactions.producers import Producer, Producers
from truth.transactions.script import HANGS, PAIRS, PARTITIONS, Step, Track
from truth.transactions.written import Place

LOG_PARTITIONS: Final = 4
BROKERS: Final = 3
_ENDED_SECONDS: Final = 180.0
"""The longest time-out, and a coordinator's look at it."""
_SECONDS: Final = 10.0

TOPICS: Final = tuple(
    NewTopic(
        name,
        tuple(
            tuple((number + n) % BROKERS + 1 for n in range(1 if name == PAIRS else 0, BROKERS))
            for number in range(partitions)
        ),
        (("min.insync.replicas", "2"),) if name == PAIRS else (),
    )
    for name, partitions in PARTITIONS.items()
)
PLACES: Final = [
    (name, number) for name, partitions in PARTITIONS.items() for number in range(partitions)
]

Say = Callable[[str], None]


class Player:
    """Does one track."""

    def __init__(self, cluster: LocalCluster, producers: Producers, track: Track, say: Say) -> None:
        self._cluster = cluster
        self._producers = producers
        self._track = track
        self._say = say
        self._mine: dict[str, Producer] = {}
        self._elsewhere: Place = (PAIRS, 0)

    def play(self) -> None:
        """Do its steps. Raises TruthError for one that cannot be done."""
        for step in self._track.steps:
            self._do(step)
            if step.action not in {"wait", "answer"} and self._track.name == "kills":
                self._say(f"{self._track.name}: {step.action} {self._name(step)}")
        self._say(f"{self._track.name}: done")

    def _do(self, step: Step) -> None:
        if step.action == "wait":
            time.sleep(step.seconds)
        elif step.action == "answer":
            for producer in self._mine.values():
                producer.answer()
        elif step.action == "start":
            of = (step.transactional_id, step.client, step.timeout_ms)
            self._mine[step.producer] = self._producers.start(*of)
            self._answered(step)
        elif step.action == "restore":
            restore(self._cluster)
        elif step.action == "kill_elsewhere":
            self._cluster.kill((self._elsewhere[1] + 1) % BROKERS + 1)
        else:
            self._do_to(step, self._mine[step.producer])

    def _do_to(self, step: Step, producer: Producer) -> None:
        if step.action == "crash":
            producer.crash()
            del self._mine[step.producer]
        elif step.action == "kill_coordinator":
            self._cluster.kill(coordinator(self._cluster, producer.transactional_id))
        elif step.action == "begin_elsewhere":
            mine = coordinator(self._cluster, producer.transactional_id)
            self._elsewhere = (PAIRS, mine - 1)
            producer.ask("begin", [self._elsewhere])
            self._answered(step)
        else:
            producer.ask(step.action, step.places)
            self._answered(step)

    def _answered(self, step: Step) -> None:
        """Wait for the answer. Who could not commit aborts, as applications do."""
        if not step.waits:
            return
        producer = self._mine[step.producer]
        act = producer.answer()
        if not act.is_done and act.action in {"begin", "commit"}:
            producer.ask("abort")
            producer.answer()

    def _name(self, step: Step) -> str:
        producer = self._mine.get(step.producer)
        return step.producer if producer is None else producer.transactional_id


def play(cluster: LocalCluster, producers: Producers, tracks: Sequence[Track], say: Say) -> None:
    """Do all tracks at once; however it goes, all brokers run in the end."""
    players = [Player(cluster, producers, track, say) for track in tracks]
    try:
        with ThreadPoolExecutor(len(players)) as pool:
            for done in [pool.submit(player.play) for player in players]:
                done.result()
    finally:
        restore(cluster)


def restore(cluster: LocalCluster) -> None:
    """Start what was killed."""
    if down := [number for number in cluster.nodes if cluster.state(number) == "down"]:
        cluster.start(*down)


def log_partition_of(transactional_id: str) -> int:
    """The partition of the coordinators' log: by Java's hash of the id, as Kafka does."""
    number = 0
    for unit in transactional_id.encode("utf-16-be")[1::2]:  # ids here are ASCII
        number = (31 * number + unit) & 0xFFFFFFFF
    return (number & 0x7FFFFFFF) % LOG_PARTITIONS


def coordinator(cluster: LocalCluster, transactional_id: str) -> int:
    """The broker that coordinates an id now."""
    return leaders(cluster)[log_partition_of(transactional_id)]


def leaders(cluster: LocalCluster) -> dict[int, int]:
    """The brokers that lead the partitions of the coordinators' log, all of which run."""
    deadline = time.monotonic() + _ENDED_SECONDS
    while time.monotonic() < deadline:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        try:
            topic = admin.list_topics(TRANSACTIONS_TOPIC, timeout=_SECONDS).topics[
                TRANSACTIONS_TOPIC
            ]
        except KafkaException:
            continue
        found = {number: each.leader for number, each in topic.partitions.items()}
        if len(found) == LOG_PARTITIONS and all(
            leader > 0 and cluster.state(leader) == "running" for leader in found.values()
        ):
            return found
        time.sleep(0.2)
    raise TruthError(f"{TRANSACTIONS_TOPIC} has no leaders after {_ENDED_SECONDS:.0f} s")


def await_ended(servers: str) -> None:
    """Wait until no transaction is open anywhere, but for the one that hangs."""
    deadline = time.monotonic() + _ENDED_SECONDS
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    left = PLACES
    while time.monotonic() < deadline:
        try:
            ends = [_ends(admin, level) for level in IsolationLevel]
        except KafkaException:
            continue
        left = [place for place in PLACES if ends[0][place] != ends[1][place] and place != HANGS]
        if not left:
            return
        time.sleep(0.5)
    raise TruthError(f"transactions are open on {left} after {_ENDED_SECONDS:.0f} s")


def _ends(admin: AdminClient, level: IsolationLevel) -> dict[Place, int]:
    asked = {TopicPartition(*place): OffsetSpec.latest() for place in PLACES}
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=_SECONDS)
    return {
        (each.topic, each.partition): answer.result(_SECONDS).offset
        for each, answer in answers.items()
    }
