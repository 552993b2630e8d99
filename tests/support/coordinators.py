"""Brokers in memory that coordinate groups and lead partitions, for what asks them."""

import itertools
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from metadata_source.messages.reading import response_of
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.metadata import NO_UUID
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from metadata_source.questions import Question
from tests.support.messages import REQUESTS, read_request, written

if TYPE_CHECKING:
    from collections.abc import Callable

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
"""The time of the first message."""


@dataclass
class Node:
    leads: dict[int, int] = field(default_factory=dict)  # partition -> leader epoch
    lists: list[dict[str, Any]] = field(default_factory=list)
    describes: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # group -> its entry in an answer
    list_error: int = 0
    error: Exception | None = None
    moves: bool = False  # loses a partition while it lists
    commits: dict[str, dict[tuple[str, int], tuple[int, int]] | int] = field(default_factory=dict)
    """Group -> offset and leader epoch by topic and partition, or an error."""
    logs: dict[tuple[str, int], tuple[int, int] | int] = field(default_factory=dict)
    """Topic and partition -> first offset and end, or an error."""


class Cluster:
    """Answers with messages as they come out of their bytes, in the highest version, or the one in
    `versions` by API key.
    """

    metadata_of_commits: str | None = ""

    def __init__(self, *nodes: Node, partitions: int = 2, seconds: float = 10.0) -> None:
        self.nodes = {("host", n): node for n, node in enumerate(nodes)}
        self.partitions = partitions
        self.seconds = seconds
        self.deadline = 0.0
        self.asked: list[tuple[int, str, dict[str, Any]]] = []
        self.coordinated: Any = None
        self.versions: dict[int, int] = {}
        self.ticks = itertools.count()
        self._lock = threading.Lock()
        self.when_led_anew: Callable[[], None] | None = None

    def are_new(self, led: frozenset[tuple[int, int]]) -> bool:
        if self.when_led_anew is not None:
            self.when_led_anew()
        return self.when_led_anew is not None

    def visits(self) -> "Cluster":
        self.deadline = time.monotonic() + self.seconds
        return self

    def ask(self, address, question: Question, deadline: float) -> Any:
        key, first, last = question.versions
        connection = self.connection(address)
        connection.api_versions = {key: (first, self.versions.get(key, last))}
        return question.ask(connection, deadline)

    def tick(self) -> datetime:
        """A second after the one before."""
        with self._lock:
            return BEGIN + timedelta(seconds=next(self.ticks))

    def connection(self, address) -> Any:
        def request(api_key: int, version: int, body: bytes, **_: object) -> Any:
            node, is_metadata = self.nodes[address], api_key == METADATA_REQUEST.api_key
            asked = METADATA_REQUEST if is_metadata else REQUESTS[api_key]
            values = (
                read_values(body, asked, version)
                if is_metadata
                else read_request(asked, version, body)
            )
            connection.sent_at = self.tick()
            self.asked.append((address[1], asked.name, values))
            if node.error is not None:
                raise node.error
            answer = self.answer(node, address[1], asked.name, values)
            write, answered = (
                (write_message, METADATA_RESPONSE) if is_metadata else (written, response_of(asked))
            )
            return SimpleNamespace(body=write(answered, version, answer), received_at=self.tick())

        connection = SimpleNamespace(request=request, address=address, sent_at=None)
        return connection

    def answer(self, node: Node, number: int, name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name == "MetadataRequest":
            assert request["allow_auto_topic_creation"] is False
            return self.metadata(node, number)
        if name == "ListGroupsRequest":
            if node.moves:
                node.leads.popitem()
            return {"throttle_time_ms": 0, "error_code": node.list_error, "groups": node.lists}
        if name == "OffsetFetchRequest":
            return self.committed(node, request)
        if name == "ListOffsetsRequest":
            return self.ends(node, request)
        ids = request["groups"] if name == "DescribeGroupsRequest" else request["group_ids"]
        return {
            "throttle_time_ms": 0,
            "groups": [node.describes[each] for each in ids if each in node.describes],
        }

    def metadata(self, node: Node, number: int) -> dict[str, Any]:
        partitions = [
            {
                "error_code": 0,
                "partition_index": n,
                "leader_id": number if n in node.leads else 99,
                "leader_epoch": node.leads.get(n, 0),
                "replica_nodes": [],
                "isr_nodes": [],
                "offline_replicas": [],
            }
            for n in range(self.partitions)
        ]
        topic = {
            "error_code": 0 if partitions else 29,
            "name": "__consumer_offsets",
            "topic_id": NO_UUID,
            "is_internal": True,
            "partitions": partitions,
            "topic_authorized_operations": 0,
        }
        return {
            "throttle_time_ms": 0,
            "brokers": [],
            "cluster_id": None,
            "controller_id": 0,
            "topics": [topic],
            "error_code": 0,
        }

    def committed(self, node: Node, request: dict[str, Any]) -> dict[str, Any]:
        assert not request["require_stable"], (
            "what a transaction is about to commit must not be waited for"
        )
        asked = [each["group_id"] for each in request["groups"] or ()] or [request["group_id"]]
        groups = [
            self.group(group_id, node.commits[group_id])
            for group_id in asked
            if group_id in node.commits
        ]
        alone = {"topics": [], "error_code": 0} | (groups[0] if groups else {})
        return {"throttle_time_ms": 0, "groups": groups, **alone}

    def group(
        self, group_id: str, commits: dict[tuple[str, int], tuple[int, int]] | int
    ) -> dict[str, Any]:
        if isinstance(commits, int):
            return {"group_id": group_id, "topics": [], "error_code": commits}
        topics: dict[str, list[Any]] = {}
        for (topic, partition), (offset, epoch) in commits.items():
            entry = {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": epoch,
            }
            topics.setdefault(topic, []).append(
                entry | {"metadata": self.metadata_of_commits, "error_code": 0}
            )
        told = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        return {"group_id": group_id, "topics": told, "error_code": 0}

    def ends(self, node: Node, request: dict[str, Any]) -> dict[str, Any]:
        assert request["replica_id"] == -1
        assert not request["isolation_level"], "to be the high watermark"
        topics = []
        for topic in request["topics"]:
            partitions = []
            for each in topic["partitions"]:
                log = node.logs.get((topic["name"], each["partition_index"]))
                if log is None:
                    continue
                offset, code = (
                    (-1, log)
                    if isinstance(log, int)
                    else (log[{-2: 0, -1: 1}[each["timestamp"]]], 0)
                )
                said = {
                    "partition_index": each["partition_index"],
                    "error_code": code,
                    "offset": offset,
                }
                partitions.append(said | {"timestamp": -1, "leader_epoch": 3})
            topics.append({"name": topic["name"], "partitions": partitions[::-1]})
        return {"throttle_time_ms": 0, "topics": topics[::-1]}


def listed(
    group_id: str, type_: str = "classic", state: str = "Stable", protocol: str = "consumer"
) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "protocol_type": protocol,
        "group_state": state,
        "group_type": type_,
    }
