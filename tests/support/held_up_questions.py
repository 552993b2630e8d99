"""A group that waits for transactions, of a cluster of its own, and questions about it: `orders` is
held up on clicks-0 by one that its coordinator knows, and on clicks-1 by one that hangs; on
clicks-2 nobody knows by which. All of it comes later than the known incident.
"""

from typing import Any

from schemas import consumption, silver
from schemas.table import Table
from tests.support.incident import at
from tests.support.incident_questions import Ask, columns

Row = dict[str, Any]
SOUTH = {"cluster_id": "id-south", "cluster": "south"}
STREAM = "20261101T120200Z-00000000"
LATER = {"since": "2026-11-01T12:03:00Z", "until": "2026-11-01T12:06:00Z", "cluster": "south"}
APP, HANGING = "orders-app-0", "77 on clicks-1"
QUOTED, CUT = "it's", f"{'x' * 200}…{'0' * 32}"
TOOL = "kafka-transactions.sh --bootstrap-server HOST:PORT"
ABORT = f"{TOOL} abort --topic clicks --partition 1 --start-offset 5"
FIND = f"{TOOL} find-hanging --topic clicks --partition 2"


def lag(group_id: str, first: int, until: int | None, *held: tuple[int, int, int]) -> Row:
    """A row of gold.group_lag. `held`: number of the partition of clicks, last stable offset and
    records of each that is held up.
    """
    return {
        **SOUTH,
        "group_id": group_id,
        "first_poll": f"{STREAM}/{first:012}",
        "valid_from": at(first),
        "valid_to": at(until),
        "last_seen_at": at(until),
        "lag_min": 150,
        "lag_max": 160,
        "not_consumed_max": 160 - sum(records for *_, records in held),
        "held_up_min": sum(records for *_, records in held),
        "partitions_held_up": len(held),
        "held_up": [
            {"topic": "clicks", "partition": number, "last_stable": stable, "records": records}
            for number, stable, records in held
        ],
        "partitions": 3,
        "partitions_behind": 3,
        "partitions_beyond": 0,
        "partitions_unknown": 0,
        "partitions_without_progress": 0,
        "partitions_not_well": 0,
        "not_well": [],
        "updated_at": at(first),
    }


def transaction(opened_by: str, first: int, until: int | None, *numbers: int, **more: Any) -> Row:
    """A row of silver.open_transactions, of these partitions of clicks."""
    return {
        **SOUTH,
        "opened_by": opened_by,
        "is_hanging": opened_by == HANGING,
        "state": "Ongoing",
        "producer_epoch": 0,
        "partition_count": len(numbers),
        "partitions": [{"topic": "clicks", "partition": number} for number in numbers],
        "first_poll": f"{STREAM}/{first:012}",
        "valid_from": at(first),
        "prev_sent_at": at(first - 10),
        "interval_ms": 10_000,
        "valid_to": at(until),
        **more,
    }


def held_up_rows() -> dict[Table, list[Row]]:
    app = {"producer_id": 5, "timeout_ms": 60_000, "started_at": at(100), "coordinator": 2}
    orders = [(0, 40, 60), (1, 5, 95), (2, 9, 1)]
    return {
        consumption.GROUP_LAG: [
            lag("orders", 200, 260, *orders),
            lag("orders", 260, None, *orders),
            lag("odd ids", 200, None, (7, 1, 2)),
        ],
        silver.OPEN_TRANSACTIONS: [
            transaction("before", 110, 190, 0, producer_id=4),
            transaction(APP, 210, 270, 0, 9, **app),
            transaction(APP, 270, None, 0, **app | {"state": "PrepareAbort"}),
            transaction(HANGING, 220, None, 1, producer_id=77, start_offset=5),
            transaction(QUOTED, 230, None, 7, producer_id=8),
            transaction(CUT, 230, None, 7, producer_id=9),
        ],
    }


class HeldUp:
    def test_held_up(self, ask: Ask) -> None:
        rows = ask("held_up", **LATER, group="orders")
        figures = ("topic", "partition", "records", "last_stable", "opened_by", "command")
        assert columns(rows, *figures) == [
            ("clicks", 1, 95, 5, HANGING, ABORT),
            ("clicks", 0, 60, 40, APP, None),  # It is decided.
            ("clicks", 2, 1, 9, None, FIND),
        ]
        assert columns(rows, "is_hanging", "state", "producer_id", "coordinator", "told_at") == [
            (True, "Ongoing", 77, None, 260.0),
            (False, "PrepareAbort", 5, 2, 260.0),
            (None, None, None, None, 260.0),
        ]
        # Neither an id with a quote nor one that was cut can be put into a command.
        odd = ask("held_up", **LATER, group="odd ids")
        assert columns(odd, "opened_by", "command") == [(QUOTED, None), (CUT, None)]
        earlier = ask("held_up", **LATER | {"until": "2026-11-01T12:04:10Z"}, group="orders")
        assert columns(earlier, "opened_by", "state", "told_at", "command") == [
            (HANGING, "Ongoing", 200.0, ABORT),
            (APP, "Ongoing", 200.0, None),  # It has ended: the id may have another one now.
            (None, None, 200.0, FIND),
        ]
        assert ask("held_up", **LATER, topic="orders") == []
        assert ask("held_up", **LATER | {"cluster": "prod"}) == []

    def test_open_transactions(self, ask: Ask) -> None:
        rows = ask("open_transactions", **LATER)
        names = ("opened_by", "state", "told_after", "told_from", "told_to")
        assert columns(rows, *names) == [
            (APP, "PrepareAbort", 260.0, 270.0, None),
            (QUOTED, "Ongoing", 220.0, 230.0, None),
            (CUT, "Ongoing", 220.0, 230.0, None),
            (HANGING, "Ongoing", 210.0, 220.0, None),
            (APP, "Ongoing", 200.0, 210.0, 270.0),
            ("before", "Ongoing", 100.0, 110.0, 190.0),
        ]
        assert columns(ask("open_transactions", **LATER, broker=2), "opened_by") == [(APP,), (APP,)]
        assert ask("open_transactions", **LATER, topic="orders") == []

    def test_lag_has_both_parts(self, ask: Ask) -> None:
        (row,) = ask("lag", **LATER, group="orders")
        parts = ("lag_max", "not_consumed_max", "held_up_min", "partitions_held_up")
        assert columns([row], *parts) == [(160, 4, 156, 3)]
