"""Asks a cluster for its log: where each partition begins and ends, under which leader epochs it
was written, and its records. Each partition's leader is asked, over one connection a broker.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafka.protocol.consumer import OffsetForLeaderEpochRequest

from metadata_source import questions
from metadata_source.addresses import format_address
from metadata_source.broker_errors import error_name
from metadata_source.errors import LogError, PollError
from metadata_source.kafka_constants import TRUSTED_EPOCHS_VERSION
from metadata_source.lineage import NO_EPOCH, OPEN, is_short, older
from metadata_source.logs.topic.long_fetch import LongFetch
from metadata_source.logs.topic.positions import LogExtent
from metadata_source.poller import NO_TOPIC, Poller
from metadata_source.protocol.record_batches import MOST_BYTES
from metadata_source.questions import (
    CONSUMER,
    DENIED,
    EARLIEST,
    LATEST,
    FetchFrom,
    Question,
    TopicQuestion,
    fetch,
    fetch_error,
    fetched,
    read_probe,
)
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    import pyarrow as pa

    from metadata_source.addresses import Address
    from metadata_source.lineage import Lineage
    from metadata_source.logs.topic.positions import LogPosition
    from metadata_source.options import Cluster
    from metadata_source.questions import FetchedPartition

_READ: Final = 1 << 3
"""AclOperation.READ, as a bit of the authorized operations (KIP-430)."""
_NOT_TOLD: Final = -(2**31)
_FIRST_FOR_CONSUMERS: Final = 3
"""Before, OffsetForLeaderEpoch is answered as to a broker that debugs."""
_PARTITION_BYTES: Final = 1 << 21
_ANSWER_BYTES: Final = 1 << 22
"""A leader answers with so many bytes at most. A single batch may be larger."""
_LARGEST_ANSWER: Final = MOST_BYTES + (1 << 20)
"""With a batch that is as large as may be."""


class Led(NamedTuple):
    """A partition and the epoch of its leader, -1 where it is not known."""

    partition: int
    epoch: int


def _all_news(_: pa.RecordBatch) -> bool:
    return True


class LogWatcher:
    """Asks one cluster about its log, again and again; keeps its connections. Of one thread at a
    time, but for `interrupt`.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        timeout_ms: int,
        has_news: Callable[[pa.RecordBatch], bool] = _all_news,
    ) -> None:
        """Ask nobody yet. `has_news`: of records, for `wait`."""
        self._topic = topic
        self._timeout_s = timeout_ms / 1000
        # `maxResponseBytes` bounds answers about metadata, this those of a log. As extents and
        # records have the same cluster, they share its token.
        reached = replace(
            cluster, max_response_bytes=max(cluster.max_response_bytes, _LARGEST_ANSWER)
        )
        # Who answers says who the brokers are: no topic is asked for.
        self._poller = Poller(reached, NO_TOPIC, timeout_ms, needs_id=True)
        self._leaders: dict[Address, list[Led]] = {}
        self._topic_id: str | None = None
        self._lineages: dict[Led, Lineage] = {}
        """Answers of leaders about older epochs: they hold for as long as those brokers lead."""
        self._last: LogExtent | None = None
        self._long_fetch = LongFetch(reached, topic, has_news)

    def ask_extent(self, position: LogPosition | None = None) -> LogExtent:
        """Return what the log is now; its epochs as far back as it takes to compare it with what
        was read before `position`. Raises LogError.
        """
        deadline = time.monotonic() + self._timeout_s
        self._last = None
        try:
            self._last = self._extent({} if position is None else position.epochs, deadline)
        except PollError as error:
            self._poller.close()
            raise _refused(error) from None
        return self._last

    def wait(self, position: LogPosition, seconds: float) -> LogExtent | None:
        """Return the log as it is once something comes that is news, None if nothing like it came
        for so long. Raises LogError where it is to be asked for again.
        """
        if self._last is None or not self._leaders:
            raise LogError("no_leader", "no leader is known")
        try:
            found = self._long_fetch.news(self._leaders, position.next, seconds)
        except PollError as error:
            raise _refused(error) from None
        # Where a leader has just changed, it may not know yet all that is committed.
        ends = {each: max(end, self._last.ends.get(each, end)) for each, end in found.ends.items()}
        begins = {**self._last.begins, **found.begins}
        self._last = replace(self._last, begins=begins, ends={**self._last.ends, **ends})
        return self._last if found.is_news else None

    def interrupt(self) -> None:
        """End `wait`, from another thread, and every one after it."""
        self._long_fetch.wake()

    def leaders(self) -> Mapping[Address, list[Led]]:
        """Return which partitions each broker leads. Raises LogError."""
        try:
            self._find(time.monotonic() + self._timeout_s)
        except PollError as error:
            raise _refused(error) from None
        return self._leaders

    def fetch(
        self, address: Address, offsets: Mapping[Led, int], deadline: float
    ) -> list[FetchedPartition]:
        """Return what a leader has of partitions from offsets on, open transactions too; nothing
        while it throttles. Raises PollError.

        Threads may ask different brokers at once.
        """
        partitions = [
            FetchFrom(each.partition, offset, each.epoch) for each, offset in offsets.items()
        ]
        question = fetch(
            self._topic, partitions, most_bytes=_ANSWER_BYTES, partition_bytes=_PARTITION_BYTES
        )
        answer = self._poller.ask_broker(address, question, deadline)
        if answer.error_code:
            where, code = format_address(address), answer.error_code
            raise PollError("broker_error", f"{where}: error {code} ({error_name(code)})")
        return fetched(answer)

    def starting(
        self, log: LogExtent, starting: Literal["earliest", "latest"] | int
    ) -> Mapping[int, int]:
        """Return the offsets to begin at, of the partitions with a leader. Raises LogError."""
        if starting == "earliest":
            return log.begins
        if starting == "latest":
            return log.ends
        deadline = time.monotonic() + self._timeout_s
        offsets: dict[int, int] = {}
        for address, led in self._leaders.items():
            try:
                offsets |= self._offsets(address, led, starting, deadline)
            except PollError as error:
                raise LogError(error.kind, error.problem) from None
        if log.ends.keys() - offsets.keys():
            raise LogError("no_leader", "not all partitions say where they are to be read from")
        # -1: nothing so late.
        return {
            partition: end if offsets[partition] < 0 else offsets[partition]
            for partition, end in log.ends.items()
        }

    def close(self) -> None:
        """Close the connections."""
        self._long_fetch.close()
        self._poller.close()

    def _extent(self, ours: Mapping[int, Lineage], deadline: float) -> LogExtent:
        asked_ms = time.time_ns() // 1_000_000
        cluster_id, numbers = self._find(deadline)
        begins, ends, epochs = self._of_leaders(ours, deadline)
        return LogExtent(
            cluster_id, self._topic_id, numbers, begins, ends, epochs, asked_ms=asked_ms
        )

    def _find(self, deadline: float) -> tuple[str | None, frozenset[int]]:
        """Find the leaders; return the cluster's id and the partitions."""
        poll = self._poller.poll()
        if poll.metadata is None or poll.error_kind is not None:
            raise PollError(poll.error_kind or "protocol", poll.error or "")
        metadata = self._poller.ask(TopicQuestion(self._topic), deadline)
        topic: dict[str, Any] = next(iter(metadata.topics.to_pylist()), {})
        self._check_read(topic, deadline)
        has_epochs = (poll.api_version or 0) >= TRUSTED_EPOCHS_VERSION
        brokers = {
            row["broker_id"]: (row["host"], row["port"]) for row in metadata.brokers.to_pylist()
        }
        partitions = metadata.partitions.to_pylist()
        leaders: dict[Address, list[Led]] = {}
        for each in partitions:
            if each["leader"] in brokers:
                epoch = each["leader_epoch"] if has_epochs else NO_EPOCH
                leaders.setdefault(brokers[each["leader"]], []).append(
                    Led(each["partition"], epoch)
                )
        self._leaders = leaders
        if topic.get("topic_id") != self._topic_id:
            self._topic_id, self._lineages = topic.get("topic_id"), {}
        return poll.cluster_id, frozenset(each["partition"] for each in partitions)

    def _check_read(self, topic: Mapping[str, Any], deadline: float) -> None:
        """Raise PollError unless the topic may be read: DESCRIBE alone allows all but that."""
        allowed, code = topic.get("authorized_operations"), topic.get("error_code")
        if code in DENIED:
            missing = True
        elif code or allowed is None or allowed == _NOT_TOLD:
            # A broker before Kafka 2.3, or another software, or no topic: one that may not be
            # described is left out of an answer about all topics. Beside an error the operations
            # mean nothing.
            missing = fetch_error(self._poller.ask(read_probe(self._topic), deadline)) in DENIED
        else:
            missing = not allowed & _READ
        if missing:
            raise PollError("authorization", f"READ on topic {self._topic} is missing")

    def _of_leaders(
        self, ours: Mapping[int, Lineage], deadline: float
    ) -> tuple[dict[int, int], dict[int, int], dict[int, Lineage]]:
        """Return begins, ends and epochs of the partitions whose leaders answer. Raises PollError
        if none does.
        """
        begins: dict[int, int] = {}
        ends: dict[int, int] = {}
        epochs: dict[int, Lineage] = {}
        failed: list[PollError] = []

        def ask(address: Address, led: list[Led]) -> None:
            try:
                first = self._offsets(address, led, EARLIEST, deadline)
                last = self._offsets(address, led, LATEST, deadline)
                lineages = self._epochs(
                    address,
                    [each for each in led if each.partition in first],
                    first,
                    ours,
                    deadline,
                )
            except PollError as error:
                failed.append(error)
                return
            for each in led:
                if each.partition in first.keys() & last.keys() & lineages.keys():
                    begins[each.partition], ends[each.partition] = (
                        first[each.partition],
                        last[each.partition],
                    )
                    epochs[each.partition] = lineages[each.partition]

        side_by_side(self._leaders.items(), lambda leader: ask(*leader), "leaders")
        if failed and len(failed) == len(self._leaders):
            raise failed[0]
        return begins, ends, epochs

    def _offsets(
        self, address: Address, led: Iterable[Led], when: int, deadline: float
    ) -> dict[int, int]:
        """Return the offset at a time, or at an end of the log, of the partitions of which this
        broker tells it.
        """
        # The latest is the high watermark: an open transaction must not hide what coordinators
        # write, which is never part of one.
        answer = self._poller.ask_broker(
            address, questions.ends([(self._topic, led)], when), deadline
        ).response
        # Another partition's leader may well answer: where there is an error, the offset is not
        # known now. A new leader does not say where its log ends before it knows (KIP-207).
        partitions = (
            each for topic in answer.topics for each in topic.partitions if not each.error_code
        )
        return {each.partition_index: each.offset for each in partitions}

    def _epochs(
        self,
        address: Address,
        led: Iterable[Led],
        begins: Mapping[int, int],
        ours: Mapping[int, Lineage],
        deadline: float,
    ) -> dict[int, Lineage]:
        """Return partitions' newest epochs, back to one that is known here, as leaders tell."""
        lineages = {
            each: self._lineages.get(each, ((each.epoch, OPEN),)) if each.epoch != NO_EPOCH else ()
            for each in led
        }
        while asked := [
            each for each in lineages if is_short(ours.get(each.partition, ()), lineages[each])
        ]:
            answers = self._ends_of_epochs(
                address, {each: lineages[each][0][0] - 1 for each in asked}, deadline
            )
            for each in asked:
                if each.partition in answers:
                    epoch, end = answers[each.partition]
                    lineages[each] = older(lineages[each], epoch, end, begins[each.partition])
                else:
                    # It does not lead any more. What it told before may not hold.
                    del lineages[each]
        self._lineages |= lineages
        return {each.partition: lineage for each, lineage in lineages.items()}

    def _ends_of_epochs(
        self, address: Address, epochs: Mapping[Led, int], deadline: float
    ) -> dict[int, tuple[int, int]]:
        """Return the last epoch that a leader has up to the one asked for, and where it ends."""
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        partitions = [
            topic.OffsetForLeaderPartition(
                partition=each.partition, current_leader_epoch=each.epoch, leader_epoch=epoch
            )
            for each, epoch in epochs.items()
        ]
        fields = {
            "replica_id": CONSUMER,
            "topics": [topic(topic=self._topic, partitions=partitions)],
        }
        answer = self._poller.ask_broker(
            address, Question(OffsetForLeaderEpochRequest, fields, _FIRST_FOR_CONSUMERS), deadline
        )
        answered = (
            each for topic in answer.topics for each in topic.partitions if not each.error_code
        )
        return {each.partition: (each.leader_epoch, each.end_offset) for each in answered}


def _refused(error: PollError) -> LogError:
    return LogError("not_allowed" if error.kind == "authorization" else error.kind, error.problem)
