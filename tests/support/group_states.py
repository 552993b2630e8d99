"""Groups as polls saw them over time: rows of silver.group_snapshots, without the place of the
group.
"""

import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.silver import GROUP_SNAPSHOTS

Row = dict[str, Any]
START = datetime(2026, 11, 1, tzinfo=UTC)
STATE = [
    name for name in GROUP_SNAPSHOTS.column_names if f"prev_{name}" in GROUP_SNAPSHOTS.column_names
]
ORDERS, AUDIT = "orders-id-0000000000aa", "audit-id-00000000000bb"
NAMES = {ORDERS: "orders", AUDIT: "audit"}
GONE = None
"""What a poll says of a group that is not there."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def poll(number: int) -> str:
    return f"s/{number:012d}"


def member(id_: str, has: Mapping[str, list[int]] | None = None, **more: Any) -> Row:
    """A member of any group; what it has is by topic id of groups with epochs, by topic of classic
    ones.
    """
    made = dict.fromkeys(
        (
            "instance_id",
            "rack",
            "epoch",
            "topics",
            "regex",
            "assigned",
            "target",
            "topology_epoch",
            "active_tasks",
        )
    )
    made |= {
        "member_id": id_,
        "client_id": "app",
        "client_host": "/10.0.0.1",
        "target_active_tasks": None,
    }

    def parts(of: Mapping[str, list[int]]) -> list[Row]:
        return [
            {
                "topic_id": key if key in NAMES else None,
                "topic": NAMES.get(key, key),
                "partitions": list(numbers),
            }
            for key, numbers in of.items()
        ]

    made["assigned"] = None if has is None else parts(has)
    more = dict(more)
    if "target" in more:
        more["target"] = parts(more["target"])
    return made | more


def classic(state: str, *members: Row, **more: Any) -> Row:
    return {
        "group_type": "classic",
        "protocol_type": "consumer",
        "state": state,
        "assignor": "range",
    } | {"members": list(members), **more}


def consumer(state: str, epoch: int, target: int, *members: Row, type_: str = "consumer") -> Row:
    return {
        "group_type": type_,
        "state": state,
        "group_epoch": epoch,
        "target_epoch": target,
        "assignor": "uniform",
    } | {"members": list(members)}


def states(*seen: tuple[int, Row | None], first: int = 0) -> list[Row]:
    """Rows of silver of one group, by the polls at which it was seen other than before; None: it
    was gone. Polls every 10 s.
    """
    rows: list[Row] = []
    for number, state in seen:
        if rows and rows[-1]["superseded_poll"] is None:
            rows[-1] |= {
                "superseded_poll": poll(number),
                "valid_to": at(10 * number + 1),
                "last_seen_sent_at": at(10 * number - 10),
                "end_reason": "gone" if state is GONE else None,
            }
            before = rows[-1]
        else:
            before = None
        if state is GONE:
            continue
        row = dict.fromkeys([*STATE, *(f"prev_{name}" for name in STATE)]) | copy.deepcopy(state)
        if before is not None:
            row |= {f"prev_{name}": before[name] for name in STATE}
        row |= {
            "first_poll": poll(number),
            "valid_from": at(10 * number + 1),
            "prev_poll": poll(number - 1) if number > first else None,
            "prev_sent_at": at(10 * number - 10) if number > first else None,
            **dict.fromkeys(("superseded_poll", "valid_to", "last_seen_sent_at", "end_reason")),
            "is_new": True,
        }
        rows.append(row)
    return rows
