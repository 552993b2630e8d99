"""The controllers' quorum as the active controller describes it, and how far its members are."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Final

from metadata_source import questions

VOTER_CAUGHT_UP_MS: Final = 2_000
"""A voter that was caught up so long ago at most counts as caught up: the default of
controller.quorum.fetch.timeout.ms.
"""
OBSERVER_CAUGHT_UP_MS: Final = 9_000
"""The same of an observer, mostly a broker: the default of broker.session.timeout.ms."""
NOT_TOLD: Final = -1
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def quorum_replicas(partition: Any) -> list[dict[str, Any]]:
    """Return the voters and the observers of a described quorum, sorted, as bronze has them."""
    bounds_ms = (
        (True, partition.current_voters, VOTER_CAUGHT_UP_MS),
        (False, partition.observers, OBSERVER_CAUGHT_UP_MS),
    )
    lags_ms = caught_up_lags(partition)
    found = [
        {
            "replica_id": replica.replica_id,
            "is_voter": is_voter,
            "is_behind": None if lag is None else lag > bound_ms,
            "log_end_offset": replica.log_end_offset,
            "last_fetch_at": _time(replica.last_fetch_timestamp),
            "last_caught_up_at": _time(replica.last_caught_up_timestamp),
        }
        for is_voter, replicas, bound_ms in bounds_ms
        for replica in replicas
        for lag in [None if lags_ms is None else lags_ms[replica.replica_id]]
    ]
    return sorted(found, key=lambda each: (each["replica_id"], each["last_caught_up_at"] or _EPOCH))


def caught_up_lags(partition: Any) -> dict[int, float] | None:
    """Return how long ago each voter and observer of a described quorum had all that the active
    controller had, ms, by the controller's clock. Endless: it never had, as far as the controller
    knows. None: the version does not say, or nobody is active.
    """
    times: dict[int, int] = {}
    for replica in (*partition.current_voters, *partition.observers):
        before = times.get(replica.replica_id, NOT_TOLD)
        times[replica.replica_id] = max(before, replica.last_caught_up_timestamp)
    now = times.get(partition.leader_id, NOT_TOLD)
    # Only a version without these times says -1 of the active controller itself.
    if now < 0:
        return None
    return {each: math.inf if time < 0 else max(0, now - time) for each, time in times.items()}


def _time(timestamp_ms: int) -> datetime | None:
    return None if timestamp_ms < 0 else datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def described_quorum(response: Any) -> Any:
    """Return the one partition that the answer to `questions.quorum` is about. Raises PollError."""
    questions.check(response.error_code)
    topic = questions.the_one(response.topics, "topic")
    partition = questions.the_one(topic.partitions, "partition")
    questions.check(partition.error_code)
    return partition
