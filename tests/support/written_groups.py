"""Records of classic groups in bytes, as each version of Kafka writes them, and decoded."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.rules.groups.state import to_micros
from metadata_source.protocol.group_records import decode_records
from metadata_source.protocol.group_specs import ASSIGNMENT, SUBSCRIPTION
from tests.support.group_messages import embedded, key_bytes, value_bytes
from tests.support.group_records import at

Written = tuple[int, Mapping[str, Sequence[int]]]
"""A generation, and what each of its members has of t."""


def written(version: int, *groups: Written | None) -> list[dict[str, Any]]:
    """Rows of a group's records of this version, ten seconds apart; None is a tombstone."""
    said = {"topics": ["t"], "user_data": None, "owned_partitions": []}
    of_all = {
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout": 60_000,
        "session_timeout": 10_000,
        "group_instance_id": None,
        "subscription": embedded(SUBSCRIPTION, min(version, 1), said),
    }
    values = []
    for n, group in enumerate(groups):
        generation, members = group or (0, {})
        value = {
            "protocol_type": "consumer",
            "generation": generation,
            "protocol": "range" if members else None,
            "leader": next(iter(members), None),
            "current_state_timestamp": to_micros(at(10 * n - 1)) // 1000,
            "members": [
                {"member_id": each, **of_all, "assignment": _assigned(has)}
                for each, has in members.items()
            ],
        }
        values.append(None if group is None else value_bytes(2, version, value))
    rows = decode_records([key_bytes(2, {"group": "g"})] * len(values), values).to_pylist()
    of_log = {"record": "record", "log_partition": 7, "next_offset": None, "leader_epoch": 0}
    return [
        row | of_log | {"offset": 2 * n, "timestamp": at(10 * n), "read_at": at(100)}
        for n, row in enumerate(rows)
    ]


def _assigned(partitions: Sequence[int]) -> bytes:
    parts = [{"topic": "t", "partitions": partitions}]
    return embedded(ASSIGNMENT, 0, {"assigned_partitions": parts, "user_data": None})
