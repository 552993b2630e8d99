"""One member of a group, for as long as this process runs: `python -P member.py SETTINGS EVENTS
COMMANDS`.

SETTINGS is JSON: `protocol` (classic | consumer | share | streams), `topics`, `config` of the
client, and for the Java clients `class_path` and `java`. To the file EVENTS it writes one JSON line
for each callback; from the file COMMANDS it reads JSON lines `{"subscribe": [topic, ...]}`. SIGTERM
lets it leave the group as its client does.

With the setting `work` a classic or KIP-848 member does records and commits on a cadence
(`cadence_seconds`): also what it gives up (`commits_revoked`), or in transactions, of which each
third is aborted (`transactional_id`). To its `file` it writes a JSON line for each record: when,
topic, partition, offset. Of a commit it writes an object before, `called` and `offsets` by
partition, and one after, `returned` and `is_committed` (null: unknown).
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Confluent
from py4j.java_gateway import GatewayParameters, JavaGateway, JVMView, launch_gateway

POLL_SECONDS = 0.1
CLOSE_SECONDS = 1
RECORDS, WORK_SECONDS, TRANSACTION_SECONDS = 100, 0.02, 5.0
"""At most so many records are done at once, and waited for so long."""

TopicPartition = tuple[str, int]

_JVM = (
    *("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
_METADATA = b"CGMDv2:"
"""The first bytes that rd_kafka_consumer_group_metadata_write writes; the generation follows, four
bytes of this machine's order.
"""

Commands = Callable[[], list[str] | None]
"""The topics to subscribe to from now on; None while nothing is asked."""


class Journal:
    """The events of the member, and the partitions that it owns after each."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.owned: set[TopicPartition] = set()

    def tell(
        self,
        what: str,
        partitions: Sequence[TopicPartition] = (),
        *,
        member_id: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Write a line."""
        line = {
            "at": datetime.now(UTC).isoformat(),
            "what": what,
            "member_id": member_id,
            "generation": generation,
            "partitions": sorted(partitions),
            "owned": sorted(self.owned),
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class Worker:
    """Does records, commits them, and writes down both."""

    def __init__(self, settings: Mapping[str, Any], bootstrap_servers: str) -> None:
        self._settings = settings
        self._file = Path(settings["file"]).open("a")  # noqa: SIM115 - as long as the process
        self._next: dict[TopicPartition, int] = {}
        self._due = time.monotonic() + settings["cadence_seconds"]
        self._producer = None
        self._transactions = 0
        if settings["transactional_id"] is not None:
            named = {"transactional.id": settings["transactional_id"]}
            self._producer = Producer({"bootstrap.servers": bootstrap_servers, **named})
            self._producer.init_transactions(TRANSACTION_SECONDS)

    def work(self, consumer: Consumer) -> None:
        """Do the records that are there; commit if it is time."""
        for message in consumer.consume(RECORDS, WORK_SECONDS):
            if message.error() is None:
                self._do(message)
        if time.monotonic() >= self._due:
            self._commit(consumer)
            self._due = time.monotonic() + self._settings["cadence_seconds"]

    def give_up(
        self, consumer: Consumer, partitions: Sequence[TopicPartition], *, is_lost: bool
    ) -> None:
        """Commit them no more; those that are not lost perhaps once more."""
        if self._settings["commits_revoked"] and not is_lost:
            self._commit(consumer)
        for each in partitions:
            self._next.pop(each, None)

    def _do(self, message: Message) -> None:
        partition = (str(message.topic()), int(message.partition() or 0))
        offset = int(message.offset() or 0)
        self._note([datetime.now(UTC).isoformat(), *partition, offset])
        self._next[partition] = offset + 1

    def _commit(self, consumer: Consumer) -> None:
        offsets = [Confluent(*partition, offset) for partition, offset in self._next.items()]
        if not offsets:
            return
        of_partitions = {partition: offset for (_, partition), offset in self._next.items()}
        self._note({"called": datetime.now(UTC).isoformat(), "offsets": of_partitions})
        is_committed = None
        try:
            if self._producer is None:
                consumer.commit(offsets=offsets, asynchronous=False)
                is_committed = True
            else:
                is_committed = self._commit_in_transaction(self._producer, consumer, offsets)
        except KafkaException:
            # It is no member any more, or its coordinator moves: the next time, or the next owner.
            pass
        self._note({"returned": datetime.now(UTC).isoformat(), "is_committed": is_committed})

    def _commit_in_transaction(
        self, producer: Producer, consumer: Consumer, offsets: list[Confluent]
    ) -> bool:
        """Whether the transaction was committed."""
        self._transactions += 1
        producer.begin_transaction()
        try:
            group = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(offsets, group, TRANSACTION_SECONDS)
            if self._transactions % 3:
                producer.commit_transaction(TRANSACTION_SECONDS)
                return True
        except KafkaException:
            producer.abort_transaction(TRANSACTION_SECONDS)
            raise
        producer.abort_transaction(TRANSACTION_SECONDS)
        return False

    def _note(self, line: object) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class Callbacks:
    """confluent-kafka's, of one consumer.

    That the callbacks do nothing else lets it assign by its own protocol.
    """

    def __init__(self, journal: Journal, *, eager: bool, worker: Worker | None = None) -> None:
        self._journal = journal
        self._eager = eager
        self._worker = worker

    def assigned(self, consumer: Consumer, partitions: Sequence[Confluent]) -> None:
        """Partitions that it has now; of an eager assignor all, else those that came."""
        pairs = _pairs(partitions)
        self._journal.owned = set(pairs) if self._eager else self._journal.owned | set(pairs)
        self._tell("assigned", consumer, pairs)

    def revoked(self, consumer: Consumer, partitions: Sequence[Confluent]) -> None:
        """Partitions that it gives up."""
        self._give_up("revoked", consumer, partitions)

    def lost(self, consumer: Consumer, partitions: Sequence[Confluent]) -> None:
        """Partitions that were taken: the group had thrown it out."""
        self._give_up("lost", consumer, partitions)

    def _give_up(self, what: str, consumer: Consumer, partitions: Sequence[Confluent]) -> None:
        pairs = _pairs(partitions)
        if self._worker is not None:
            self._worker.give_up(consumer, pairs, is_lost=what == "lost")
        self._journal.owned -= set(pairs)
        self._tell(what, consumer, pairs)

    def _tell(self, what: str, consumer: Consumer, pairs: list[TopicPartition]) -> None:
        self._journal.tell(
            what, pairs, member_id=consumer.memberid(), generation=generation(consumer)
        )


def generation(consumer: Consumer) -> int | None:
    """The consumer's generation, or member epoch; None where the library writes it otherwise."""
    metadata = bytes(consumer.consumer_group_metadata())
    if not metadata.startswith(_METADATA):
        return None
    return int.from_bytes(metadata[len(_METADATA) :][:4], sys.byteorder, signed=True)


def consume(
    settings: dict[str, Any], journal: Journal, commands: Commands, running: Callable[[], bool]
) -> None:
    """Be a member by confluent-kafka: of a classic or a KIP-848 group."""
    config = settings["config"]
    assignor = config.get("partition.assignment.strategy", "")
    worker = Worker(settings["work"], config["bootstrap.servers"]) if "work" in settings else None
    eager = settings["protocol"] == "classic" and assignor != "cooperative-sticky"
    callbacks = Callbacks(journal, eager=eager, worker=worker)
    consumer = Consumer(config)

    def subscribe(topics: list[str]) -> None:
        consumer.subscribe(
            topics,
            on_assign=callbacks.assigned,
            on_revoke=callbacks.revoked,
            on_lost=callbacks.lost,
        )

    subscribe(settings["topics"])
    try:
        while running():
            if (topics := commands()) is not None:
                subscribe(topics)
            if worker is None:
                consumer.poll(POLL_SECONDS)
            else:
                worker.work(consumer)
    finally:
        consumer.close()


def share(
    settings: dict[str, Any], journal: Journal, commands: Commands, running: Callable[[], bool]
) -> None:
    """Be a member of a share group by KafkaShareConsumer, which does not tell what it owns."""
    with java_machine(settings["class_path"], settings["java"]) as jvm:
        consumer = jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(
            java_properties(jvm, settings["config"])
        )
        consumer.subscribe(_java_list(jvm, settings["topics"]))
        journal.tell("subscribed")
        try:
            while running():
                if (topics := commands()) is not None:
                    consumer.subscribe(_java_list(jvm, topics))
                consumer.poll(jvm.java.time.Duration.ofMillis(int(POLL_SECONDS * 1000)))
        finally:
            # It leaves its group by this. Closing first ends its sessions with all brokers, and
            # waits for those that are down.
            consumer.unsubscribe()
            consumer.close(jvm.java.time.Duration.ofSeconds(CLOSE_SECONDS))


def streams(
    settings: dict[str, Any], journal: Journal, commands: Commands, running: Callable[[], bool]
) -> None:
    """Be a member of a streams group by Kafka's KafkaStreams: one thread, one subtopology that only
    reads.

    Its active tasks are told as partitions of the subtopology, whenever they have changed.
    """
    with java_machine(settings["class_path"], settings["java"]) as jvm:
        package = jvm.org.apache.kafka.streams
        builder = package.StreamsBuilder()
        builder.stream(_java_list(jvm, settings["topics"]))
        client = package.KafkaStreams(builder.build(), java_properties(jvm, settings["config"]))
        client.start()
        try:
            while running():
                if commands() is not None:
                    raise RuntimeError(
                        "the topics of a streams member are of its topology: start another"
                    )
                owned = {
                    (str(task.taskId().subtopology()), task.taskId().partition())
                    for thread in client.metadataForLocalThreads()
                    for task in thread.activeTasks()
                }
                if owned != journal.owned:
                    gone, come = journal.owned - owned, owned - journal.owned
                    journal.owned = owned
                    if gone:
                        journal.tell("revoked", list(gone))
                    if come:
                        journal.tell("assigned", list(come))
                time.sleep(POLL_SECONDS)
        finally:
            options = package.CloseOptions
            client.close(
                options.groupMembershipOperation(options.GroupMembershipOperation.LEAVE_GROUP)
            )


@contextmanager
def java_machine(class_path: str, java: str, options: Sequence[str] = _JVM) -> Iterator[JVMView]:
    """A JVM of its own, which ends with this process: its standard input does."""
    port = launch_gateway(
        classpath=class_path,
        java_path=java,
        javaopts=list(options),
        die_on_exit=True,
        redirect_stdout=sys.stderr,
        redirect_stderr=sys.stderr,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def java_properties(jvm: JVMView, config: Mapping[str, Any]) -> Any:
    """A java.util.Properties."""
    properties = jvm.java.util.Properties()
    for name, value in config.items():
        properties.setProperty(name, str(value))
    return properties


KINDS = {"classic": consume, "consumer": consume, "share": share, "streams": streams}


def main(argv: Sequence[str]) -> None:
    """Be the member until SIGTERM."""
    settings, events, commands = json.loads(argv[0]), Path(argv[1]), Path(argv[2])
    terminated = []
    signal.signal(signal.SIGTERM, lambda *_: terminated.append(True))
    with events.open("a") as written, commands.open() as asked:
        journal = Journal(written)
        journal.tell("started")
        KINDS[settings["protocol"]](
            settings, journal, lambda: _asked(asked), lambda: not terminated
        )
        journal.tell("closed")


def _asked(commands: IO[str]) -> list[str] | None:
    line = commands.readline()
    return json.loads(line)["subscribe"] if line.endswith("\n") else None


def _pairs(partitions: Sequence[Confluent]) -> list[TopicPartition]:
    return [(each.topic, each.partition) for each in partitions]


def _java_list(jvm: JVMView, texts: Sequence[str]) -> Any:
    found = jvm.java.util.ArrayList()
    for text in texts:
        found.add(text)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
