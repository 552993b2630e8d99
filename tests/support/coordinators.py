"""Brokers in memory that coordinate groups and lead partitions, for what asks them."""

import itertools
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from metadata_source.messages.reading import response_of
from metadata_source.open_before import OpenBefore
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.metadata import NO_UUID
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from metadata_source.questions import Question
from metadata_source.stable_offsets import StableOffsets
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
    refuses_ids: bool = False  # that nobody has: the user may describe none, or some
    error: Exception | None = None
    moves: bool = False  # loses a partition while it lists
    commits: dict[str, dict[tuple[str, int], tuple[int, int]] | int] = field(default_factory=dict)
    """Group -> offset and leader epoch by topic and partition, or an error."""
    logs: dict[tuple[str, int], tuple[int, int] | int] = field(default_factory=dict)
    """Topic and partition -> first offset and end, or an error."""
    stable: dict[tuple[str, int], int] = field(default_factory=dict)
    """The last stable offset, where it is not the end: -1 of an error."""
    transactions: list[dict[str, Any]] = field(default_factory=list)
    """Entries of DescribeTransactions, as listed too."""
    producers: dict[tuple[str, int], list[dict[str, Any]] | int] = field(default_factory=dict)


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
        self.stable = StableOffsets()
        self.open_before = OpenBefore[int]()
        self.versions: dict[int, int] = {}
        self.ticks = itertools.count()
        self._lock = threading.Lock()
        self.when_led_anew: Callable[[], None] | None = None

    def are_new(self, topic: str, led: frozenset[tuple[int, int]]) -> bool:
        if self.when_led_anew is not None:
            self.when_led_anew()
        return self.when_led_anew is not None

    def require(self, question: Question) -> None:
        """Brokers have it."""

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
            return self.metadata(node, number, request["topics"][0]["name"])
        if name == "ListGroupsRequest":
            if node.moves:
                node.leads.popitem()
            return {"throttle_time_ms": 0, "error_code": node.list_error, "groups": node.lists}
        if name == "OffsetFetchRequest":
            return self.committed(node, request)
        if name == "ListOffsetsRequest":
            return self.ends(node, request)
        if name in TRANSACTION_REQUESTS:
            return TRANSACTION_REQUESTS[name](node, request)
        ids = request["groups"] if name == "DescribeGroupsRequest" else request["group_ids"]
        return {
            "throttle_time_ms": 0,
            "groups": [node.describes[each] for each in ids if each in node.describes],
        }

    def metadata(self, node: Node, number: int, name: str) -> dict[str, Any]:
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
            "name": name,
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
                if request["isolation_level"] and not code:
                    offset = node.stable.get((topic["name"], each["partition_index"]), offset)
                said = {
                    "partition_index": each["partition_index"],
                    "error_code": code,
                    "offset": offset,
                }
                partitions.append(said | {"timestamp": -1, "leader_epoch": 3})
            topics.append({"name": topic["name"], "partitions": partitions[::-1]})
        return {"throttle_time_ms": 0, "topics": topics[::-1]}


def listed_transactions(node: Node, request: dict[str, Any]) -> dict[str, Any]:
    """As Kafka filters (TransactionStateManager.listTransactionStates), but for times."""
    states, producer_ids = request["state_filters"], request["producer_id_filters"]
    return {
        "throttle_time_ms": 0,
        "error_code": node.list_error,
        "unknown_state_filters": [],
        "transaction_states": [
            {name: each[name] for name in ("transactional_id", "producer_id", "transaction_state")}
            for each in node.transactions
            if (not states or each["transaction_state"] in states)
            and (not producer_ids or each["producer_id"] in producer_ids)
        ],
    }


def described_transactions(node: Node, request: dict[str, Any]) -> dict[str, Any]:
    known = {each["transactional_id"]: each for each in node.transactions}
    told = [known.get(each) or unknown_id(each, node) for each in request["transactional_ids"]]
    return {"throttle_time_ms": 0, "transaction_states": [each for each in told if each]}


def unknown_id(transactional_id: str, node: Node) -> dict[str, Any]:
    return transaction(transactional_id, error=53 if node.refuses_ids else 105)


def described_producers(node: Node, request: dict[str, Any]) -> dict[str, Any]:
    def told(topic: str, number: int) -> dict[str, Any]:
        found = node.producers.get((topic, number), [])
        code = found if isinstance(found, int) else 0
        active = [] if isinstance(found, int) else found
        return {
            "partition_index": number,
            "error_code": code,
            "error_message": None,
            "active_producers": active,
        }

    return {
        "throttle_time_ms": 0,
        "topics": [
            {
                "name": each["name"],
                "partitions": [told(each["name"], n) for n in each["partition_indexes"]],
            }
            for each in request["topics"]
        ],
    }


TRANSACTION_REQUESTS: dict[str, Any] = {
    "ListTransactionsRequest": listed_transactions,
    "DescribeTransactionsRequest": described_transactions,
    "DescribeProducersRequest": described_producers,
}


def transaction(
    transactional_id: str,
    producer_id: int = 7,
    epoch: int = 0,
    state: str = "Ongoing",
    *,
    error: int = 0,
    timeout_ms: int = 60_000,
    started_ms: int = 1_700_000_000_000,
    topics: dict[str, list[int]] | None = None,
) -> dict[str, Any]:
    """An entry of DescribeTransactions: open for years, unless told."""
    return {
        "error_code": error,
        "transactional_id": transactional_id,
        "transaction_state": "" if error else state,
        "transaction_timeout_ms": timeout_ms,
        "transaction_start_time_ms": started_ms,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "topics": [{"topic": name, "partitions": each} for name, each in (topics or {}).items()],
    }


def producer(producer_id: int, epoch: int = 0, start: int = -1) -> dict[str, Any]:
    """A producer of a partition, as its leader has it. `start`: of its open transaction."""
    return {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "last_sequence": 3,
        "last_timestamp": 1_700_000_000_000,
        "coordinator_epoch": 4,
        "current_txn_start_offset": start,
    }


def listed(
    group_id: str, type_: str = "classic", state: str = "Stable", protocol: str = "consumer"
) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "protocol_type": protocol,
        "group_state": state,
        "group_type": type_,
    }
