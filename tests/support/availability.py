"""Lakes of which gold.availability tells: a cluster that was observed from noon on, for a day and
a half.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from schemas import silver
from schemas.table import Table
from tests.support import sums_of_time
from tests.support.incident import CLUSTER, NOON

Row = dict[str, Any]
HOUR, DAY = 3600, 86_400
OBSERVED_S = 3 * DAY // 2


def at(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def _maybe(seconds: float | None) -> datetime | None:
    return None if seconds is None else at(seconds)


def answered() -> Row:
    """The cluster."""
    return {
        **CLUSTER,
        "first_poll": "p",
        "valid_from": at(0),
        "kind": "kafka",
        "not_meaningful": [],
    }


def topic(
    name: str = "orders",
    *,
    partitions: int = 1,
    before: int | None = None,
    after: float | None = None,
    since: float = 0,
    last: float | None = None,
    until: float | None = None,
    end: str | None = None,
) -> Row:
    """A row of silver.topic_snapshots. `before`: its partitions in the row before."""
    return {
        **CLUSTER,
        "topic": name,
        "partition_count": partitions,
        "prev_partition_count": before,
        "first_poll": f"p{since:09}",
        "prev_sent_at": _maybe(after),
        "valid_from": at(since),
        "last_seen_sent_at": _maybe(last),
        "valid_to": _maybe(until),
        "end_reason": end,
    }


def setting(since: float = 0, name: str = "orders") -> Row:
    """A row of silver.topic_configs."""
    return {**CLUSTER, "topic": name, "min_insync_replicas": 2, "valid_from": at(since)}


def episode(
    level: str,
    bounds: tuple[float | None, float, float | None, float | None],
    name: str = "orders",
) -> Row:
    """A row of gold.isr_episodes: it began after, had begun by, ended after, had ended by."""
    after, before, ended_after, ended_before = bounds
    return {
        **CLUSTER,
        "id": f"{level} of {name} at {before}",
        "topic": name,
        "partition": 0,
        "level": level,
        "began_after": _maybe(after),
        "began_before": at(before),
        "ended_after": _maybe(ended_after),
        "ended_before": _maybe(ended_before),
        "brokers_out": [2],
        "is_live": ended_before is None,
    }


def changed(after: float, before: float, *, changes_max: int | None) -> Row:
    """A row of gold.leader_changes."""
    return {
        **CLUSTER,
        "id": f"change at {before}",
        "topic": "orders",
        "partition": 0,
        "prev_leader": 1,
        "leader": 2,
        "changes_min": 1,
        "changes_max": changes_max,
        "reason": "failover",
        "epoch_semantics": "unreliable" if changes_max is None else "exact",
        "began_after": at(after),
        "began_before": at(before),
    }


def marked(since: float, until: float | None, cluster: str | None = None) -> Row:
    """A row of gold.marks."""
    return {
        "id": f"mark of {since} to {until} of {cluster}",
        "cluster": cluster,
        "text": "new disks",
        "since": at(since),
        "until": _maybe(until),
        "made_at": at(0),
        "made_by": "operator",
    }


def lake_of(rows: Mapping[Table, list[Row]]) -> dict[Table, list[Row]]:
    """These rows in a lake that was observed; unless given, of one topic whose min ISR is known."""
    return {
        **sums_of_time.observed([], OBSERVED_S),
        silver.TOPIC_SNAPSHOTS: [topic()],
        silver.TOPIC_CONFIGS: [setting()],
        **rows,
    }
