"""The part of an answer that may contradict the kind of a cluster (metadata_source/contradictions.py)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from jobs.rules.silver.state import Header, Row
from jobs.rules.silver.topic_lives import Answer, TopicLives, moves_in_epoch
from metadata_source.contradictions import Evidence

_INTS = pa.list_(pa.int32())
_PARTITIONS = pa.schema(
    [
        *((name, pa.int32()) for name in ("error_code", "leader")),
        *((name, _INTS) for name in ("replicas", "isr", "offline_replicas")),
    ]
)
_COMPARED = ("error_code", "leader", "leader_epoch", "replicas", "isr", "offline_replicas")


def evidence(header: Header, answer: Answer, lives: TopicLives) -> Evidence:
    """The part of an answer that may contradict a kind: of partitions, those that it shows otherwise than before.

    So it is the same whatever else of the answer was brought.
    """
    changed = list(_changed(answer, lives))
    flat = [(topic, told) for topic, told, known in changed if known is not None and moves_in_epoch(told, known)]
    # Without ids, topics that were made again may look the same. All of them?
    are_same = len({topic for topic, _ in flat}) > 1 or any(told["topic_id"] is not None for _, told in flat)
    are_most = len(flat) > 1 and 2 * len(flat) > (header["partition_count"] or 0)
    brokers = header["brokers"] or ()
    return Evidence(
        header["cluster_id"],
        [broker["host"] for broker in brokers],
        [broker["broker_id"] for broker in brokers],
        [topic for topic, said in answer.topics.items() if said.absence is None],
        pa.Table.from_pylist([{name: told[name] for name in _PARTITIONS.names} for _, told, _ in changed], _PARTITIONS),
        has_flat_epochs=are_most and are_same,
    )


def _changed(answer: Answer, lives: TopicLives) -> Iterator[tuple[str, Row, Mapping[str, Any] | None]]:
    """The partitions that an answer tells otherwise than they are known: topic, as told, as known."""
    compared = [name for name in _COMPARED if name not in lives.nothing]
    for topic, said in answer.topics.items():
        is_new = (topic,) not in lives.topics.open or lives.shows_another(topic, said)
        for number, told in said.partitions.items():
            known = None if is_new else lives.partitions.open.get((topic, number))
            if known is None or any(told[name] is not None and told[name] != known[name] for name in compared):
                yield topic, told, known
