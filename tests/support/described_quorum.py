"""The answer of a broker to DescribeQuorum."""

from typing import Any


def described_quorum(voters: dict[int, int], error_code: int) -> dict[str, Any]:
    """The fields of the answer. `voters`: controller -> how many ms it is behind, the active one
    first.
    """
    replicas = [
        {
            "replica_id": each,
            "log_end_offset": 9,
            "last_fetch_timestamp": -1,
            "last_caught_up_timestamp": 1_700_000_000_000 - behind_ms,
        }
        for each, behind_ms in voters.items()
    ]
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": next(iter(voters)),
        "leader_epoch": 4,
        "high_watermark": 9,
        "current_voters": replicas,
        "observers": [],
    }
    topic = {"topic_name": "__cluster_metadata", "partitions": [partition]}
    return {"topics": [topic], "error_code": error_code}
