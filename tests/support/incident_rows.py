"""Incidents as a fold would write them, by hand, and the lake that explains them.

One that lasts: broker 3 is missing, with a chain down to lag. One that is over: a rolling restart.
One whose cause nobody knows.
"""

from typing import Any

from schemas import incidents, internal, silver
from schemas.table import Table
from tests.support.incident import STREAM, at

Row = dict[str, Any]

OPEN, RESTART, UNKNOWN = "a3f0c1d2e4b5", "b7d9e8f7a6b5", "c0ffee00c0de"
NOW = 300
"""When the lake is asked: seconds after noon."""
GROUP = "shop"


def bounds(
    began: tuple[float | None, float], ended: tuple[float | None, float] | None = None
) -> Row:
    """The four times of a row, given as seconds after noon."""
    after, before = ended or (None, None)
    return {
        "began_after": at(began[0]),
        "began_before": at(began[1]),
        "ended_after": at(after),
        "ended_before": at(before),
    }


def incident(id_: str, kind: str, times: Row, cluster: str = "prod", **more: Any) -> Row:
    """A row of gold.incidents."""
    lasts = times["ended_before"] is None
    return {
        "id": id_,
        "cluster": cluster,
        "cluster_id": f"id-{cluster}",
        "kind": kind,
        "class": "incident",
        "severity": "ticket",
        **times,
        "end_reason": None if lasts else "recovered",
        "cause": "unknown",
        "alternatives": [],
        "is_escalated": False,
        "brokers": [],
        "group_ids": [],
        "topics": [],
        "steps": 1,
        "offline": 0,
        "under_min_isr": 0,
        "offline_most": 0,
        "under_min_isr_most": 0,
        "out_of_sync_most": 0,
        "reopened": 0,
        "overlaps": [],
        "updated_at": at(NOW),
        "is_live": lasts,
        **more,
    }


def finding(incident_id: str, nth: int, kind: str, times: Row, **more: Any) -> Row:
    """A row of gold.incident_links: the nth finding of an incident."""
    cluster = more.pop("cluster", "prod")
    return {
        "id": f"{incident_id}-{nth:03}",
        "incident_id": incident_id,
        "cluster": cluster,
        "cluster_id": f"id-{cluster}",
        "kind": kind,
        "brokers": [],
        "partitions": 0,
        "partitions_now": 0,
        **times,
        "source": "polls",
        "updated_at": at(NOW),
        "is_live": times["ended_before"] is None,
        **more,
    }


def follows(rule: str, of: int, sureness: str = "bounded") -> Row:
    """How a finding is tied to the nth one of `OPEN`."""
    return {"rule": rule, "from_id": f"{OPEN}-{of:03}", "sureness": sureness}


def _open() -> tuple[Row, list[Row]]:
    lasts = bounds((9, 10))
    counts = {"offline": 2, "under_min_isr": 12, "offline_most": 3, "under_min_isr_most": 12}
    row = incident(
        OPEN,
        "broker_missing",
        lasts,
        severity="page",
        cause="broker_down",
        cause_of="3",
        cause_sureness="bounded",
        alternatives=["broker_hung: 3", "rack: b"],
        brokers=[3],
        group_ids=[GROUP],
        topics=["orders"],
        worst_level="offline",
        out_of_sync_most=14,
        **counts,
    )
    orders = {"topic": "orders", "brokers": [3]}
    chain = [
        finding(OPEN, 1, "broker_missing", lasts, broker_id=3, brokers=[3], rack="b"),
        finding(
            OPEN, 2, "isr_left", bounds((10, 12)), broker_id=3, leader=1, partitions=14,
            partitions_now=14, cause="broker_down", **orders, **follows("missing_isr", 1, "exact"),
        ),
        finding(
            OPEN, 3, "partition_offline", bounds((10, 12)), partitions=3, partitions_now=2,
            **orders, **follows("missing_level", 1),
        ),
        finding(
            OPEN, 4, "under_min_isr", bounds((10, 12)), partitions=12, **orders,
            **follows("isr_level", 2),
        ),
        finding(
            OPEN, 5, "leader_changed", bounds((12, 13), (12, 13)), broker_id=3, partitions=7,
            cause="failover", **orders, **follows("missing_leader", 1),
        ),
        finding(
            OPEN, 6, "coordinator_moved", bounds((12, 13), (12, 13)), broker_id=3, brokers=[2, 3],
            group_id=GROUP, **follows("leader_coordinator", 5),
        ),
        finding(
            OPEN, 7, "rebalance", bounds((14, 14), (30, 30)), group_id=GROUP, source="log",
            **follows("coordinator_rebalance", 6),
        ),
        finding(
            OPEN, 8, "pause", bounds((14, 15), (44, 45)), group_id=GROUP, number=29_000,
            **follows("rebalance_pause", 7),
        ),
        finding(
            OPEN, 9, "lag", bounds((20, 30)), group_id=GROUP, number=12_345,
            **follows("pause_lag", 8, "inferred"),
        ),
    ]  # fmt: skip
    return row, chain


def _restart() -> tuple[Row, list[Row]]:
    row = incident(
        RESTART,
        "broker_missing",
        bounds((-600, -599), (-301, -300)),
        **{"class": "maintenance"},
        severity="info",
        cause="controlled_shutdown",
        cause_of="1",
        cause_sureness="exact",
        began_controlled=True,
        brokers=[1, 2, 3],
        steps=3,
        out_of_sync_most=9,
    )
    found = []
    for step in range(3):
        begin = -600 + 100 * step
        times = bounds((begin, begin + 1), (begin + 98, begin + 99))
        tied = {} if step == 0 else {"rule": "rolling", "sureness": "inferred"}
        found.append(
            finding(
                RESTART, step, "broker_missing", times, broker_id=step + 1, brokers=[step + 1],
                is_controlled=True, **tied,
            )
        )  # fmt: skip
    return row, found


def _unknown() -> tuple[Row, list[Row]]:
    times = bounds((None, -100), (-90, -80))
    row = incident(
        UNKNOWN, "under_min_isr", times, severity="page", under_min_isr_most=1, topics=["clicks"]
    )
    return row, [finding(UNKNOWN, 1, "under_min_isr", times, partitions=1, topic="clicks")]


def event(number: int, name: str, incident_id: str | None, known: float, **more: Any) -> Row:
    """A row of gold.events: known so many seconds after noon, and happened two seconds before."""
    cluster = more.pop("cluster", "prod")
    return {
        "id": f"event-{number:03}",
        "cluster": cluster,
        "cluster_id": f"id-{cluster}",
        "event": name,
        "incident_id": incident_id,
        "kind": "broker_missing",
        "severity": "page",
        "what": "broker 3",
        "happened_after": at(known - 3),
        "happened_before": at(known - 2),
        "known_at": at(known),
        "offline": 0,
        "under_min_isr": 0,
        **more,
    }


def _events() -> list[Row]:
    return [
        event(3, "worse", OPEN, 14, offline=3, under_min_isr=12, detail="offline"),
        event(2, "opened", OPEN, 12),
        event(1, "ended", RESTART, -298, severity="info", what="brokers 1, 2 and 3"),
    ]


def incident_rows(cluster: str = "prod") -> dict[Table, list[Row]]:
    """Rows of the three tables of incidents."""
    pairs = [_open(), _restart(), _unknown()]
    tables = {
        incidents.INCIDENTS: [row for row, _ in pairs],
        incidents.INCIDENT_LINKS: [each for _, findings in pairs for each in findings],
        incidents.EVENTS: _events(),
    }
    of = {"cluster": cluster, "cluster_id": f"id-{cluster}"}
    return {table: [row | of for row in rows] for table, rows in tables.items()}


def recorded_rows(until: float = NOW - 3) -> dict[Table, list[Row]]:
    """Rows that say up to when `prod` is recorded, by polls and the coordinators' log, that its
    incidents are made, and where its brokers are. The first row alone has silver.
    """
    of = {"cluster": "prod", "cluster_id": "id-prod"}
    began = {"first_poll": f"{STREAM}/{0:012d}", "valid_from": at(-3600)}
    state = of | {"round": 1, "done_at": at(until), "last_seen_at": at(until), "memory": "{}"}
    histories = {"silver": None, "incidents": None, "rebalance_history": {"0": [0, 5]}}
    return {
        internal.STATE: [
            state | {"history": history, "positions": positions and [*positions.items()]}
            for history, positions in (histories | {"group_lag": None}).items()
        ],
        silver.CLUSTER_SNAPSHOTS: [of | began | {"kind": "kafka", "not_meaningful": []}],
        silver.BROKER_SNAPSHOTS: [
            of | began | {"broker_id": broker, "host": f"kafka{broker}", "port": 9092}
            for broker in (1, 2, 3)
        ],
        silver.QUORUM: [
            of | began | {"controller_id": 3001, "voters": [3001, 3002], "quorum_epoch": 1}
        ],
        silver.POLL_GAPS: [
            of | {"gap_start": at(60), "gap_end": at(90), "reason": "failed", "error_kinds": []}
        ],
        silver.HISTORY_SOURCES: [],
    }
