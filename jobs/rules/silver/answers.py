"""Rows of bronze -> what one answer says of the topics that changed since the answer before it in its batch."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.rules.silver.state import Header, Row

TRUSTED_EPOCHS_VERSION = 9
"""Metadata versions below do not carry leader epochs that can be trusted (KAFKA-9212)."""

UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_AUTHORIZATION_FAILED = 29

GONE = "gone"
UNAUTHORIZED = "unauthorized"
NOT_POLLED = "not_polled"
RECREATED = "recreated"


@dataclass(frozen=True)
class Said:
    """One topic as an answer shows it.

    `absence`: why it counts as missing (gone | unauthorized), None when it is there. `state`: its columns, None where
    the answer does not tell. `partitions`: their states by number.
    """

    absence: str | None = None
    state: Row = field(default_factory=dict)
    partitions: Mapping[int, Row] = field(default_factory=dict)
    digest: str | None = None


@dataclass(frozen=True)
class Answer:
    """Topics as an answer shows them. One that it does not name is as before or, in a key frame, absent."""

    is_key_frame: bool = False
    topics: Mapping[str, Said] = field(default_factory=dict)

    def then(self, later: "Answer") -> "Answer":
        """This answer and a later one of the same batch as one."""
        return later if later.is_key_frame else Answer(self.is_key_frame, {**self.topics, **later.topics})


def answer_of(header: Header, rows: Iterable[Mapping[str, Any]]) -> Answer:
    """The answer of a good poll. `rows`: its rows of topics; a large topic has several."""
    chunks = defaultdict(list)
    for row in rows:
        chunks[row["topic"]].append(row)
    trusted = (header["api_version"] or 0) >= TRUSTED_EPOCHS_VERSION
    topics = {topic: _said(of_topic, epochs_trusted=trusted) for topic, of_topic in chunks.items()}
    return Answer(bool(header["is_key_frame"]), topics)


def is_another(topic: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """Whether a name stands for another topic than before; an id that is not told is taken for the same."""
    return None not in (topic["topic_id"], known["topic_id"]) and topic["topic_id"] != known["topic_id"]


def in_order(numbers: list[int] | None) -> list[int] | None:
    """A set as silver keeps it; None where it is not told."""
    return None if numbers is None else sorted(numbers)


def _said(chunks: list[Mapping[str, Any]], *, epochs_trusted: bool) -> Said:
    row = chunks[0]
    error_code, count, digest = row["error_code"], row["partition_count"], row["digest"]
    if not row["present"] or error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return Said(GONE)
    if error_code == TOPIC_AUTHORIZATION_FAILED:
        return Said(UNAUTHORIZED)
    state = {name: row[name] for name in ("topic_id", "error_code", "is_internal")}
    # An error in place of partitions tells no count.
    state["partition_count"] = count if error_code == 0 or count else None
    partitions = {
        partition["partition"]: _partition(partition, row["topic_id"], epochs_trusted=epochs_trusted)
        for chunk in chunks
        for partition in chunk["partitions"] or ()
    }
    # Digests of two versions of the algorithm count as different.
    return Said(None, state, partitions, digest and f"{row['digest_version']}:{digest.hex()}")


def _partition(partition: Mapping[str, Any], topic_id: str | None, *, epochs_trusted: bool) -> Row:
    """The columns of a partition's state."""
    return {
        "topic_id": topic_id,
        "error_code": partition["error_code"],
        "leader": partition["leader"],
        "leader_epoch": partition["leader_epoch"] if epochs_trusted else None,
        "replicas": partition["replicas"],
        "isr": in_order(partition["isr"]),
        "offline_replicas": in_order(partition["offline_replicas"]),
    }
