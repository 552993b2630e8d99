"""Rows of silver and gold that become findings of incidents, beside those of the controllers' log
(tests/support/incident_log.py): each source of findings has some that count, and some that do not.
"""

from typing import Any

from schemas import gold, groups, silver
from schemas.consumption import GROUP_LAG, REBALANCE_COST
from schemas.table import Table
from tests.support.incident import CLUSTER, NOON, at

Row = dict[str, Any]
OTHER = {"cluster_id": "id-other", "cluster": "other"}


def interval(first: float | None, began: float, ended: float | None = None, **columns: Any) -> Row:
    """A row of a table of states over time."""
    times = {"prev_sent_at": at(first), "valid_from": at(began), "valid_to": at(ended)}
    seen = {"last_seen_at": at(ended), "last_seen_sent_at": at(ended)}
    polls = {
        "first_poll": f"p{began}",
        "last_poll": ended and "q",
        "superseded_poll": ended and "r",
    }
    return {**CLUSTER, **times, **seen, **polls, **columns}


def broker(broker_id: int, rack: str) -> Row:
    return interval(None, -60, broker_id=broker_id, rack=rack, **OTHER)


def placed(
    topic: str, replicas: list[int], began: float, ended: float | None = None, *, isr: int = 2
) -> Row:
    """The first partition of a topic."""
    own = {"topic": topic, "partition": 0, "replicas": replicas, "isr": replicas[:isr]}
    return interval(began - 2, began, ended, error_code=0, is_current=ended is None, **own, **OTHER)


def of_broker(began: float, broker_id: str, name: str, value: str) -> Row:
    return interval(began, began, resource_type=4, resource_name=broker_id, name=name, value=value)


def storm(kind: str, began: float, last: float, **columns: Any) -> Row:
    times = {"began_before": at(began), "last_before": at(last), "rebalances": 3}
    key = {"id": kind, "group_id": "billing", "kind": kind, "source": "log", "updated_at": NOON}
    return {**CLUSTER, **times, **key, "is_live": False, **columns}


def min_isr(began: float, topic: str, value: str, before: str | None = None) -> Row:
    key = {"resource_type": 2, "resource_name": topic, "name": "min.insync.replicas"}
    return interval(began, began, value=value, prev_value=before, **key)


def move(began: float, prev_leader: int, partition: int) -> Row:
    return {
        **CLUSTER,
        "log_partition": partition,
        "poll": f"p{began}",
        "source": "log",
        "began_after": at(began),
        "began_before": at(began),
        "leader": 1,
        "prev_leader": prev_leader,
        "is_move": True,
        "followed_until": at(began + 15),
    }


def election(began: float, leader: int, before: int, isr: list[int], unclean: str = "no") -> Row:
    return {
        **CLUSTER,
        "id": f"e{began}",
        "topic": "clicks",
        "partition": 0,
        "poll": f"p{began:03}",
        "source": "log",
        "began_after": at(began),
        "began_before": at(began),
        "leader": leader,
        "prev_leader": before,
        "prev_isr": isr,
        "reason": "offline" if leader == -1 else "recovery",
        "unclean": unclean,
    }


def rebalance(group: str, partition: int, began: float, ended: float | None) -> Row:
    return {
        **CLUSTER,
        "id": group,
        "group_id": group,
        "group_type": "classic",
        "source": "log",
        "log_partition": partition,
        "began_after": at(began),
        "began_before": at(began),
        "ended_after": at(ended),
        "ended_before": at(ended),
        "subscribed": ["orders"],
        "members": 1,
        "updated_at": NOON,
        "is_live": ended is None,
    }


def cost(partition: int, **columns: Any) -> Row:
    key = {"rebalance_id": "billing", "group_id": "billing", "topic": "orders"}
    times = {"began_before": at(50), "ended_before": at(52), "updated_at": NOON}
    return {**CLUSTER, **key, **times, "partition": partition, **columns}


def lag(began: float, ended: float | None, status: str, of_partition: str | None) -> Row:
    not_well = {"topic": "orders", "partition": 0, "burrow_status": of_partition}
    counts = dict.fromkeys(
        (
            *("partitions", "partitions_behind", "partitions_beyond"),
            *("partitions_without_progress", "partitions_unknown"),
        ),
        0,
    )
    return {
        **CLUSTER,
        "group_id": "billing",
        "first_poll": f"p{began}",
        "valid_from": at(began),
        "valid_to": at(ended),
        "last_seen_at": ended and at(ended - 10),
        "lag_max": 900,
        "burrow_status": status,
        "partitions_not_well": 1,
        "not_well": [not_well] if of_partition else [],
        "updated_at": NOON,
        **counts,
    }


ROWS: dict[Table, list[Row]] = {
    silver.BROKER_SNAPSHOTS: [broker(1, "a"), broker(2, "b"), broker(3, "b")],
    silver.PARTITION_SNAPSHOTS: [
        placed("logs", [2, 3], 20),
        placed("orders", [3, 2], 10, 30),
        placed("orders", [2, 3], 30, 50, isr=1),
        placed("orders", [1, 2], 50),
        placed("clicks", [3, 2], 12),
        # There are fewer racks than replicas.
        placed("audit", [1, 2, 3], 5, isr=3),
    ],
    silver.QUORUM: [
        interval(None, -60, 10, controller_id=3001, quorum_epoch=4, voters=[3001, 3002]),
        interval(
            *(8, 10, 30),
            controller_id=-1,
            quorum_epoch=4,
            voters=[3001, 3002],
            prev_controller_id=3001,
            prev_quorum_epoch=4,
        ),
        interval(
            *(28, 30),
            controller_id=3002,
            quorum_epoch=6,
            voters=[3001, 3002],
            prev_controller_id=-1,
            prev_quorum_epoch=4,
        ),
    ],
    silver.TOPIC_CONFIGS: [
        interval(None, -60, 20, topic="orders", min_insync_replicas=1),
        interval(18, 20, topic="orders", min_insync_replicas=2, prev_min_insync_replicas=1),
        # Nobody could tell before.
        interval(18, 20, topic="logs", min_insync_replicas=1, prev_min_insync_replicas=None),
    ],
    silver.CONFIGS: [
        min_isr(40, "orders", "2", "1"),
        min_isr(41, "logs", "1"),
        min_isr(45, "fresh", "2"),
        of_broker(44, "3", "num.io.threads", "16"),
        *(of_broker(40, broker, "background.threads", "20") for broker in "123"),
        of_broker(46, "1", "leader.replication.throttled.rate", "1000"),
    ],
    silver.TOPIC_SNAPSHOTS: [
        interval(None, -60, topic="logs", error_code=0, partition_count=1),
        # It was made with this setting: nobody changed it.
        interval(45, 45, topic="fresh", error_code=0, partition_count=1),
    ],
    # With an ELR no replica is in the ISR while nobody leads.
    gold.LEADER_CHANGES: [
        election(10, -1, 2, [2]),
        election(20, 3, -1, [], "proven"),
        election(30, -1, 3, [3]),
        election(35, 2, -1, [3], "proven"),
    ],
    silver.COORDINATORS: [move(48, 2, 7)],
    groups.REBALANCES: [rebalance("billing", 7, 50, 52), rebalance("audit", 8, 50, None)],
    groups.REBALANCE_BEGINS: [
        {**CLUSTER, "group_id": "shop", "began_after": at(61), "began_before": at(62)}
    ],
    REBALANCE_COST: [
        cost(
            0,
            pause_ms_min=4_000,
            pause_ms_max=6_000,
            last_commit_at=at(49),
            first_commit_at=at(55),
            lag_before=10,
            lag_peak=70,
            lag_peak_at=at(60),
            lag_back_after=at(60),
            lag_back_before=at(70),
            close_reason="recovered",
        ),
        cost(
            1,
            pause_ms_min=9_000,
            pause_ms_max=11_000,
            last_commit_at=at(48),
            first_commit_at=at(59),
            lag_before=10,
            lag_peak=10,
            close_reason="recovered",
        ),
    ],
    groups.REBALANCE_STORMS: [
        storm("storm", 10, 40),
        storm("crash_loop", 12, 40, client_id="app", client_host="/10.0.0.1"),
    ],
    GROUP_LAG: [
        lag(-60, 100, "OK", None),
        lag(100, 160, "WARNING", "WARNING"),
        lag(160, None, "ERROR", "STOP"),
    ],
}
