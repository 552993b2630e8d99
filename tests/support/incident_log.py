"""The controllers' log of the known incident (tests/support/incident.py), as rows of silver and
gold that it alone tells: broker 2 loses its session, broker 3 is stopped, and people change
configurations.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any

from jobs.rules.ids import log_id
from schemas import gold, silver
from schemas.table import Table
from tests.support.incident import CLUSTER, RACKS, STREAM, at

Row = dict[str, Any]

_LONG_AGO = -3600.0
_ACTIVE = {"is_fenced": False, "in_controlled_shutdown": False}
_FENCED = {"is_fenced": True}
BROKERS: Mapping[int, Mapping[float, Row | None]] = {
    1: {_LONG_AGO: {"broker_epoch": 11, "rack": RACKS[1], **_ACTIVE}},
    2: {
        _LONG_AGO: {"broker_epoch": 12, "rack": RACKS[2], **_ACTIVE},
        9: _FENCED,
        38: {"is_fenced": False},
    },
    3: {
        _LONG_AGO: {"broker_epoch": 13, "rack": RACKS[3], **_ACTIVE},
        16: {"in_controlled_shutdown": True},
        17.5: _FENCED,
        35: {"broker_epoch": 40, "in_controlled_shutdown": False},
        36.25: {"is_fenced": False},
    },
    4: {
        _LONG_AGO: {"broker_epoch": 3, "is_fenced": True, "in_controlled_shutdown": False},
        91: None,
    },
}
"""Broker -> from when on it was registered how, and when it was not any more."""
CONFIGS: Mapping[tuple[int, str, str], Mapping[float, Row | None]] = {
    (2, "orders", "retention.ms"): {_LONG_AGO: {"value": "604800000"}, 65: {"value": "86400000"}},
    (4, "", "ssl.keystore.password"): {67: {"value": None}, 68: None},
    (4, "3", "follower.replication.throttled.rate"): {64: {"value": "1000"}},
    (16, "apps", "interval.ms"): {66: {"value": None}},
    (32, "fresh", "consumer.session.timeout.ms"): {56: {"value": "45000"}},
}
REASSIGNMENTS: Mapping[tuple[str, int], Mapping[float, Row | None]] = {
    ("logs", 0): {63: {"adding_replicas": [1], "removing_replicas": [3]}, 72: None},
}
"""Of a partition whose replicas stay as they are: it was cancelled."""
FEATURES: Mapping[str, Mapping[float, Row | None]] = {
    "metadata.version": {_LONG_AGO: {"level": 25}, 75: {"level": 27}},
    "group.version": {_LONG_AGO: {"level": 1}, 76: None},
}


def _states(table: Table, key: Row, states: Mapping[float, Row | None]) -> list[Row]:
    """The rows of a thing of an interval table. States name the columns that changed."""
    offsets, rows, known = count(), list[Row](), dict[str, Any]()
    for seconds, state in states.items():
        offset = next(offsets)
        is_first = seconds == _LONG_AGO
        poll, before = (
            log_id(f"{STREAM}/{0 if is_first else 1:012d}", each) for each in (offset, offset - 1)
        )
        if known:
            times = {
                "last_seen_at": at(seconds),
                "last_seen_sent_at": at(seconds),
                "valid_to": at(seconds),
            }
            ended = {"last_poll": before, "superseded_poll": poll, "to_offset": offset}
            rows[-1] |= times | ended | {"end_reason": None if state else "gone"}
        if state is not None:
            prev = {f"prev_{name}": value for name, value in known.items()}
            known = known | state
            began = {
                "first_poll": poll,
                "valid_from": at(seconds),
                "from_offset": offset,
                "interval_ms": 0,
            }
            began |= (
                {"prev_poll": None, "prev_sent_at": None} if is_first else {"prev_poll": before}
            )
            began |= {} if is_first else {"prev_sent_at": at(seconds)}
            kept = {
                name: value for name, value in (known | prev).items() if name in table.column_names
            }
            rows.append({**CLUSTER, **key, **kept, **began})
    return rows


def _elections() -> list[Row]:
    """Controller 3001 was active, 3002 is from 62 s on. A third election came after a part of the
    log was lost.
    """
    rows = []
    for seconds, after, now, before in (
        (_LONG_AGO, None, (3001, 4), (None, None)),
        (62, 62, (3002, 5), (3001, 4)),
        (93, 93, (3001, 8), (None, None)),
    ):
        named = {
            "id": f"elected-{now[1]}",
            "poll": log_id(f"{STREAM}/{0:012d}", now[1]),
            "source": "log",
        }
        bounds = {"began_after": at(after), "began_before": at(seconds)}
        told = {"controller_id": now[0], "controller_epoch": now[1]}
        told |= {"prev_controller_id": before[0], "prev_controller_epoch": before[1]}
        rows.append({**CLUSTER, **named, **told, **bounds})
    return rows


def log_rows() -> dict[Table, list[Row]]:
    """Rows of the tables that the controllers' log alone tells."""
    found: dict[Table, list[Row]] = {gold.CONTROLLER_CHANGES: _elections()}
    of_tables: tuple[tuple[Table, tuple[str, ...], Mapping[Any, Any]], ...] = (
        (
            silver.BROKER_REGISTRATIONS,
            ("broker_id",),
            {(broker,): of for broker, of in BROKERS.items()},
        ),
        (silver.CONFIGS, ("resource_type", "resource_name", "name"), CONFIGS),
        (silver.REASSIGNMENTS, ("topic", "partition"), REASSIGNMENTS),
        (silver.FEATURES, ("name",), {(name,): of for name, of in FEATURES.items()}),
    )
    for table, names, things in of_tables:
        found[table] = [
            row
            for key, states in things.items()
            for row in _states(table, dict(zip(names, key, strict=True)), states)
        ]
    # Around all that happens: what begins or ends in between are others' events.
    found[gold.MARKS] = [
        {
            "id": "20261101T130000Z-1",
            "text": "new disks",
            "since": at(-60),
            "until": at(105),
            "made_at": at(3600),
            "made_by": "operator",
        }
    ]
    return found
