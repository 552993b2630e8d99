"""A transactional producer, for as long as this process runs: `python -m
truth.transactions.producer SETTINGS EVENTS COMMANDS`.

SETTINGS is JSON: `servers`, `transactional_id`, `timeout_ms`, and for Kafka's own client
`class_path` and `java`. From the file COMMANDS it reads JSON lines `{"action": begin | commit |
abort, "places": [[topic, partition], ...]}`; its first action is `init`, unasked. To the file
EVENTS it writes two JSON lines for each: `{"action", "asked_at"}` before, and `{"answered_at",
"error"}` after.
"""

import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from confluent_kafka import KafkaException, Producer
from py4j.protocol import Py4JJavaError

from local_cluster.member import java_machine, java_properties

Place = tuple[str, int]
"""Topic and partition."""

SECONDS: Final = 90.0
"""So long a call lasts at most: a coordinator that was killed is replaced by then."""
_LOOK_SECONDS: Final = 0.01


class Transactional(Protocol):
    """A producer that has begun (InitProducerId)."""

    def begin(self, places: Sequence[Place]) -> None:
        """Begin a transaction, and write a record to each of these."""

    def commit(self) -> None:
        """Commit it."""

    def abort(self) -> None:
        """Abort it."""


class OfC:
    """A producer of librdkafka, which ends transactions as before KIP-890."""

    def __init__(self, servers: str, of: str, timeout_ms: int) -> None:
        given = {"bootstrap.servers": servers, "transactional.id": of, "log_level": 0}
        self._producer = Producer(given | {"transaction.timeout.ms": timeout_ms})
        self._producer.init_transactions(SECONDS)

    def begin(self, places: Sequence[Place]) -> None:
        """Begin a transaction, and write a record to each of these."""
        self._producer.begin_transaction()
        for topic, partition in places:
            self._producer.produce(topic, b"x", partition=partition)
        if left := self._producer.flush(SECONDS):
            raise RuntimeError(f"{left} records are not written after {SECONDS:.0f} s")

    def commit(self) -> None:
        """Commit it."""
        self._producer.commit_transaction(SECONDS)

    def abort(self) -> None:
        """Abort it."""
        self._producer.abort_transaction(SECONDS)


class OfJava:
    """Kafka's own producer, whose transactions raise the epoch as their cluster's version says."""

    def __init__(self, jvm: Any, servers: str, of: str, timeout_ms: int) -> None:
        serializer = "org.apache.kafka.common.serialization.StringSerializer"
        given = {
            "bootstrap.servers": servers,
            "transactional.id": of,
            "transaction.timeout.ms": timeout_ms,
            "max.block.ms": int(SECONDS * 1000),
            "key.serializer": serializer,
            "value.serializer": serializer,
        }
        clients = jvm.org.apache.kafka.clients.producer
        self._record = clients.ProducerRecord
        self._producer = clients.KafkaProducer(java_properties(jvm, given))
        self._producer.initTransactions()

    def begin(self, places: Sequence[Place]) -> None:
        """Begin a transaction, and write a record to each of these."""
        self._producer.beginTransaction()
        for topic, partition in places:
            self._producer.send(self._record(topic, partition, None, "x"))
        self._producer.flush()

    def commit(self) -> None:
        """Commit it."""
        self._producer.commitTransaction()

    def abort(self) -> None:
        """Abort it."""
        self._producer.abortTransaction()


def main(argv: Sequence[str]) -> None:
    """Do what is asked, until the process is ended."""
    settings, events, commands = json.loads(argv[0]), Path(argv[1]), Path(argv[2])
    is_java = "java" in settings
    given = (settings["servers"], settings["transactional_id"], settings["timeout_ms"])
    machine = (
        java_machine(settings["class_path"], settings["java"]) if is_java else nullcontext(None)
    )
    producer: Transactional | None = None
    with machine as jvm, events.open("a") as written, commands.open() as asked:

        def note(**line: object) -> None:
            written.write(json.dumps(line) + "\n")
            written.flush()

        command: dict[str, Any] = {"action": "init", "places": []}
        while True:
            action, error = command["action"], None
            note(action=action, asked_at=datetime.now(UTC).isoformat())
            try:
                if producer is None:
                    producer = OfJava(jvm, *given) if is_java else OfC(*given)
                elif action == "begin":
                    producer.begin(command["places"])
                else:
                    getattr(producer, action)()
            except Py4JJavaError as failed:
                error = str(failed.java_exception.toString())
            except (KafkaException, RuntimeError) as failed:
                error = str(failed)
            note(answered_at=datetime.now(UTC).isoformat(), error=error)
            command = _next(asked)


def _next(commands: Any) -> dict[str, Any]:
    while not (line := commands.readline()).endswith("\n"):
        time.sleep(_LOOK_SECONDS)
    command: dict[str, Any] = json.loads(line)
    return command


if __name__ == "__main__":
    main(sys.argv[1:])
