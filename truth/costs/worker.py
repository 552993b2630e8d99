"""A member that works through records and commits on a cadence, for as long as this process runs:
`python -P worker.py SETTINGS WORK`.

SETTINGS is JSON: `topics`, `config` of the consumer, `cadence_s`, `commits_revoked` (whether it
commits what it gives up), and for commits in transactions, of which each third is aborted,
`transactional_id`. To the file WORK it writes a JSON line for each record: when, topic, partition,
offset. Of a commit it writes an object before: `called`, `offsets` by partition; and one after:
`returned`, `is_committed` (null: unknown). SIGTERM lets it leave its group as its client does.
"""

import json
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

RECORDS, WAIT_SECONDS, TRANSACTION_SECONDS = 100, 0.02, 5.0


class Worker:
    """The member, and how far it is with each of its partitions."""

    def __init__(self, settings: dict[str, Any], work: IO[str]) -> None:
        self._work, self._settings = work, settings
        self._consumer = Consumer({**settings["config"], "enable.auto.commit": False})
        self._next: dict[tuple[str, int], int] = {}
        self._producer = None
        self._transactions = 0
        if "transactional_id" in settings:
            servers = settings["config"]["bootstrap.servers"]
            self._producer = Producer(
                {"bootstrap.servers": servers, "transactional.id": settings["transactional_id"]}
            )
            self._producer.init_transactions(TRANSACTION_SECONDS)
        self._consumer.subscribe(settings["topics"], on_revoke=self._revoked, on_lost=self._lost)

    def run(self, terminated: Sequence[bool]) -> None:
        """Work until told to end."""
        due = time.monotonic() + self._settings["cadence_s"]
        try:
            while not terminated:
                for message in self._consumer.consume(RECORDS, WAIT_SECONDS):
                    if message.error() is None:
                        self._do(message)
                if time.monotonic() >= due:
                    self._commit()
                    due = time.monotonic() + self._settings["cadence_s"]
        finally:
            self._consumer.close()

    def _do(self, message: Message) -> None:
        place = (str(message.topic()), int(message.partition() or 0))
        offset = int(message.offset() or 0)
        self._note([datetime.now(UTC).isoformat(), *place, offset])
        self._next[place] = offset + 1

    def _commit(self) -> None:
        offsets = [TopicPartition(*place, offset) for place, offset in self._next.items()]
        if not offsets:
            return
        of_partitions = {partition: offset for (_, partition), offset in self._next.items()}
        self._note({"called": datetime.now(UTC).isoformat(), "offsets": of_partitions})
        is_committed = None
        try:
            if self._producer is None:
                self._consumer.commit(offsets=offsets, asynchronous=False)
                is_committed = True
            else:
                is_committed = self._commit_in_transaction(self._producer, offsets)
        except KafkaException:
            # It is no member any more, or its coordinator moves: the next time, or the next owner.
            pass
        self._note({"returned": datetime.now(UTC).isoformat(), "is_committed": is_committed})

    def _note(self, line: object) -> None:
        self._work.write(json.dumps(line) + "\n")
        self._work.flush()

    def _commit_in_transaction(self, producer: Producer, offsets: list[TopicPartition]) -> bool:
        """Whether the transaction was committed."""
        self._transactions += 1
        producer.begin_transaction()
        try:
            producer.send_offsets_to_transaction(
                offsets, self._consumer.consumer_group_metadata(), TRANSACTION_SECONDS
            )
            if self._transactions % 3:
                producer.commit_transaction(TRANSACTION_SECONDS)
                return True
        except KafkaException:
            producer.abort_transaction(TRANSACTION_SECONDS)
            raise
        producer.abort_transaction(TRANSACTION_SECONDS)
        return False

    def _revoked(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self._settings["commits_revoked"]:
            self._commit()
        self._lost(_, partitions)

    def _lost(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._next.pop((each.topic, each.partition), None)


def main(argv: Sequence[str]) -> None:
    """Be the worker until SIGTERM."""
    terminated: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: terminated.append(True))
    with Path(argv[1]).open("a") as work:
        Worker(json.loads(argv[0]), work).run(terminated)


if __name__ == "__main__":
    main(sys.argv[1:])
