"""Metadata responses for tests: plain values by field name, and what decoding them must give."""

import base64
import random
import uuid
from typing import Any

from hypothesis import strategies as st

from metadata_source.protocol.exact import Reader
from metadata_source.protocol.metadata import ClusterMetadata
from metadata_source.protocol.spec import METADATA_RESPONSE

NOT_ASKED_FOR = -(2**31)
FIRST_VERSION = {
    "throttle_time_ms": 3,
    "cluster_id": 2,
    "controller_id": 1,
    "error_code": 13,
    "rack": 1,
    "is_internal": 1,
    "authorized_operations": 8,
    "leader_epoch": 7,
    "offline_replicas": 5,
}

int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
node_ids = st.integers(-1, 12) | int32s
error_codes = st.sampled_from([0, 0, 0, 3, 5, 6, 9, 29, 72, -1]) | int16s
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
node_lists = st.lists(node_ids, max_size=5) | st.integers(120, 140).map(lambda n: list(range(n)))

partitions = st.fixed_dictionaries(
    {
        "error_code": error_codes,
        "partition_index": st.integers(0, 5) | int32s,
        "leader_id": node_ids,
        "leader_epoch": st.integers(-1, 100) | int32s,
        "replica_nodes": node_lists,
        "isr_nodes": node_lists,
        "offline_replicas": node_lists,
    }
)


def topics(version: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "error_code": error_codes,
            "name": texts | st.none() if version >= 12 else texts,
            "topic_id": st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
            "is_internal": st.booleans(),
            "partitions": st.lists(partitions, max_size=4),
            "topic_authorized_operations": st.just(NOT_ASKED_FOR) | st.integers(0, 4095),
        }
    )


def responses(version: int) -> st.SearchStrategy[dict[str, Any]]:
    brokers = st.fixed_dictionaries(
        {"node_id": node_ids, "host": texts, "port": int32s, "rack": st.none() | texts}
    )
    return st.fixed_dictionaries(
        {
            "throttle_time_ms": int32s,
            "brokers": st.lists(brokers, max_size=3),
            "cluster_id": st.none() | texts,
            "controller_id": node_ids,
            "topics": st.lists(topics(version), max_size=4),
            "cluster_authorized_operations": st.just(NOT_ASKED_FOR) | st.integers(0, 4095),
            "error_code": error_codes,
        }
    )


def cluster(
    topic_count: int,
    partition_count: int,
    *,
    seed: int = 0,
    shrunk: float = 0.0,
    replication: tuple[int, ...] = (3,),
) -> dict[str, Any]:
    """Return a response as a usual cluster sends it, with some partitions shrunk, leaderless and
    partly offline.
    """
    rng = random.Random(seed)
    made = []
    for index in range(topic_count):
        size = rng.choice(replication)
        entries = []
        for partition in range(partition_count):
            first = rng.randrange(9)
            replicas = [(first + step) % 9 for step in range(size)]
            out = rng.sample(replicas, rng.randint(1, size)) if rng.random() < shrunk else []
            isr = [node for node in replicas if node not in out]
            entries.append(
                {
                    "error_code": 0 if isr else 5,
                    "partition_index": partition,
                    "leader_id": isr[0] if isr else -1,
                    "leader_epoch": rng.randrange(300),
                    "replica_nodes": replicas,
                    "isr_nodes": isr,
                    "offline_replicas": out[:1],
                }
            )
        made.append(
            {
                "error_code": 0,
                "name": f"topic-{index}" if index % 5 else f"topic-{index}".ljust(130, "x"),
                "topic_id": rng.randbytes(16),
                "is_internal": index == 1,
                "partitions": entries,
                "topic_authorized_operations": NOT_ASKED_FOR,
            }
        )
    return {
        "throttle_time_ms": 0,
        "brokers": [
            {"node_id": node, "host": f"broker-{node}", "port": 9092, "rack": None}
            for node in range(9)
        ],
        "cluster_id": "Gv3gTtrhRZeNjtLk9YJ3_w",
        "controller_id": 4,
        "topics": made,
        "cluster_authorized_operations": NOT_ASKED_FOR,
        "error_code": 0,
    }


def tag_sections(body: bytes, version: int) -> list[int]:
    """Return where the body has an (empty) section of tagged fields."""
    found = []
    Reader(
        body,
        METADATA_RESPONSE,
        version,
        lambda path, start, *_: path.endswith("tagged_fields") and found.append(start),
    ).read_message()
    return found


def with_unknown_tags(body: bytes, version: int, rng: random.Random) -> bytes:
    """Return the body with one or two unknown tagged fields at the end of each struct."""
    out = bytearray(body)
    for position in reversed(tag_sections(body, version)):
        content = rng.randbytes(rng.choice([0, 1, 5]))
        tags = bytes([0x85, 0x01, len(content)]) + content
        out[position : position + 1] = rng.choice([b"\x01" + tags, b"\x02\x00\x02hi" + tags])
    return bytes(out)


def decoded(metadata: ClusterMetadata) -> dict[str, Any]:
    """Return what was decoded as plain values."""
    for table in (metadata.brokers, metadata.topics, metadata.partitions):
        table.validate(full=True)
    return {
        "cluster_id": metadata.cluster_id,
        "controller_id": metadata.controller_id,
        "throttle_time_ms": metadata.throttle_time_ms,
        "error_code": metadata.error_code,
        "cluster_authorized_operations": metadata.cluster_authorized_operations,
        "brokers": metadata.brokers.to_pylist(),
        "topics": metadata.topics.to_pylist(),
        "partitions": metadata.partitions.to_pylist(),
    }


def expected(response: dict[str, Any], version: int) -> dict[str, Any]:
    """Return what decoding this response in this version must give."""

    def seen(name: str, value: Any) -> Any:
        return value if version >= FIRST_VERSION[name] else None

    topic_rows = []
    partition_rows = []
    for topic in response["topics"]:
        named = {
            "topic": topic["name"],
            "topic_id": _kafka_uuid(topic["topic_id"]) if version >= 10 else None,
        }
        topic_rows.append(
            {
                **named,
                "error_code": topic["error_code"],
                "is_internal": seen("is_internal", topic["is_internal"]),
                "authorized_operations": seen(
                    "authorized_operations", topic["topic_authorized_operations"]
                ),
                "partition_count": len(topic["partitions"]),
            }
        )
        partition_rows += [
            {
                **named,
                "partition": entry["partition_index"],
                "error_code": entry["error_code"],
                "leader": entry["leader_id"],
                "leader_epoch": seen("leader_epoch", entry["leader_epoch"]),
                "replicas": entry["replica_nodes"],
                "isr": entry["isr_nodes"],
                "offline_replicas": seen("offline_replicas", entry["offline_replicas"]),
            }
            for entry in topic["partitions"]
        ]
    return {
        **{
            name: seen(name, response[name])
            for name in ("cluster_id", "controller_id", "throttle_time_ms", "error_code")
        },
        "cluster_authorized_operations": response["cluster_authorized_operations"]
        if 8 <= version <= 10
        else None,
        "brokers": [
            {
                "broker_id": broker["node_id"],
                "host": broker["host"],
                "port": broker["port"],
                "rack": seen("rack", broker["rack"]),
            }
            for broker in response["brokers"]
        ],
        "topics": topic_rows,
        "partitions": partition_rows,
    }


def _kafka_uuid(raw: bytes) -> str | None:
    """Return a topic id as Kafka's Uuid.toString prints it."""
    return (
        base64.urlsafe_b64encode(uuid.UUID(bytes=raw).bytes).decode().rstrip("=")
        if any(raw)
        else None
    )
