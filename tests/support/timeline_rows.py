"""Rows of silver and gold whose events the timeline has to have: all that polls tell, and what the
controllers' log tells beside them.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jobs.rules.ids import log_id
from schemas import consumption, gold, silver
from schemas.table import Table
from tests.support.incident import CLUSTER, NOON, STREAM, at

Row = dict[str, Any]
States = Mapping[float, Row | None]
"""Seconds at which a state was first seen -> its columns; None: it was not there any more."""
BEAT = 10.0
"""From one poll to the next, s."""


def polled(table: Table, states: States, **key: Any) -> list[Row]:
    """The rows of a thing that polls show, each state until the next. At 0 s is the first poll."""
    state_names = [name for name in table.column_names if f"prev_{name}" in table.column_names]
    rows: list[Row] = []
    before: Row | None = None
    for seconds, state in states.items():
        poll, poll_before = f"{STREAM}/{int(seconds):012d}", f"{STREAM}/{int(seconds - BEAT):012d}"
        last = at(seconds - BEAT)
        if before is not None:
            rows[-1] |= {
                "last_poll": poll_before,
                "last_seen_at": last,
                "last_seen_sent_at": last,
                "superseded_poll": poll,
                "valid_to": at(seconds),
                "end_reason": None if state is not None else "gone",
            }
        if state is not None:
            prev = {f"prev_{name}": before and before.get(name) for name in state_names}
            is_first = seconds == 0
            began = {"first_poll": poll, "valid_from": at(seconds), "interval_ms": 10_000}
            began |= {
                "prev_poll": None if is_first else poll_before,
                "prev_sent_at": None if is_first else last,
            }
            rows.append({**CLUSTER, **key, **state, **prev, **began})
        before = state
    return rows


def logged(table: Table, states: States, **key: Any) -> list[Row]:
    """The same as `polled`, as the controllers' log shows it: each is exact."""
    rows = polled(table, states, **key)

    def offset_at(moment: datetime) -> int:
        return int((moment - NOON).total_seconds())

    for row in rows:
        offset = offset_at(row["valid_from"])
        exact = {"first_poll": log_id(STREAM, offset), "from_offset": offset, "interval_ms": 0}
        exact |= {} if row["prev_sent_at"] is None else {"prev_sent_at": row["valid_from"]}
        if row.get("valid_to"):
            offset = offset_at(row["valid_to"])
            exact |= {"last_seen_sent_at": row["valid_to"], "to_offset": offset}
            exact |= {"superseded_poll": log_id(STREAM, offset)}
        row.update(exact)
    return rows


def elected(seconds: float, controller: int, epoch: int) -> Row:
    after = f"{STREAM}/{int(seconds - BEAT):012d}"
    named = {"id": f"elected-{epoch}", "poll": log_id(after, epoch), "source": "log"}
    told = {"controller_id": controller, "controller_epoch": epoch}
    return {
        **CLUSTER,
        **named,
        **told,
        "began_after": at(seconds),
        "began_before": at(seconds),
    }


def access_changed(seconds: float, change: str) -> Row:
    named = {"id": change, "poll": log_id(STREAM, int(seconds)), "source": "log"}
    bounds = {"began_after": at(seconds), "began_before": at(seconds)}
    return {**CLUSTER, **named, "change": change, **bounds}


def behind(group_id: str, *statuses: str | None, gone: bool = False) -> list[Row]:
    """The lag of a group: a row a minute, with these statuses of Burrow."""
    rows: list[Row] = []
    known: Row = {"prev_burrow_status": None, "prev_seen_at": None}
    for n, status in enumerate(statuses):
        seconds = 60.0 * n
        is_last = n == len(statuses) - 1
        is_over = gone or not is_last
        lag = 0 if status == "OK" else 10 * n
        counts = dict.fromkeys(
            (
                *("partitions", "partitions_behind", "partitions_beyond"),
                *("partitions_without_progress", "partitions_unknown", "partitions_not_well"),
            ),
            0,
        )
        seen = at(seconds + 50) if is_over else None
        rows.append(
            {**CLUSTER, "group_id": group_id, "first_poll": f"{STREAM}/{n:012d}", **counts}
            | {"valid_from": at(seconds), "valid_to": at(seconds + 60) if is_over else None}
            | {"last_seen_at": seen, "burrow_status": status, "lag_min": lag, "lag_max": lag + 1}
            | {"end_reason": "gone" if gone and is_last else None, "not_well": []}
            | {"updated_at": at(seconds), **known}
        )
        if status is not None or known["prev_burrow_status"] is None:
            known = {"prev_burrow_status": status, "prev_seen_at": seen}
    return rows


_A, _B = {"host": "h", "port": 9092, "rack": "a"}, {"host": "h", "port": 9092, "rack": "b"}
_MOVED_HOST = {"host": "other", "port": 9093, "rack": "b"}
_FENCED = {"host": "h", "port": 9092, "rack": "a"}


def _partition(*replicas: int) -> Row:
    return {"error_code": 0, "leader": replicas[0], "leader_epoch": 1, "replicas": [*replicas]} | {
        "isr": sorted(replicas),
        "offline_replicas": [],
    }


def _topic(partitions: int | None) -> Row:
    return {"error_code": 0, "is_internal": False, "partition_count": partitions}


def _quorum(
    controller: int,
    epoch: int | None,
    *voters: int,
    observers: tuple[int, ...] = (4, 5),
    behind: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
) -> Row:
    told = {"controller_id": controller, "quorum_epoch": epoch, "voters": [*voters] or None}
    told |= {"observers": [*observers]}
    return told | {"voters_behind": [*behind[0]], "observers_behind": [*behind[1]]}


def _settings(min_isr: int | None, *, unclean: bool | None = False) -> Row:
    return {"min_insync_replicas": min_isr, "unclean_leader_election_enable": unclean}


def _moving(adding: list[int], removing: list[int]) -> Row:
    return {"adding_replicas": adding, "removing_replicas": removing}


def rows_of_polls() -> dict[Table, list[Row]]:
    """What polls tell."""
    brokers, fenced = silver.BROKER_SNAPSHOTS, silver.FENCED_BROKERS
    partitions, moves = silver.PARTITION_SNAPSHOTS, silver.REASSIGNMENTS
    return {
        brokers: [
            *polled(brokers, {0: _A, 100: _B, 200: _MOVED_HOST}, broker_id=1),
            # It restarts, and has another rack then.
            *polled(brokers, {0: _A, 110: None, 130: _B}, broker_id=2),
            *polled(brokers, {0: _A, 120: None, 180: _A}, broker_id=3),
        ],
        fenced: [
            *polled(fenced, {0: _FENCED}, broker_id=4),
            *polled(fenced, {120: _FENCED, 150: _MOVED_HOST, 180: None}, broker_id=3),
            # Nobody lists it when it is fenced no more.
            *polled(fenced, {140: _FENCED, 190: None}, broker_id=5),
        ],
        silver.QUORUM: polled(
            silver.QUORUM,
            {
                0: _quorum(1, 4, 1, 2, 3),
                110: _quorum(2, 5, 1, 2, 3),
                120: _quorum(2, 5, 1, 2),
                130: _quorum(2, 7, 1, 2),
                140: _quorum(-1, 8, 1, 2),
                150: _quorum(-1, 8, 1, 2, observers=(4,)),
                160: _quorum(-1, 8, 1, 2, observers=(4,), behind=((2,), (4,))),
            },
        ),
        silver.TOPIC_SNAPSHOTS: [
            *polled(silver.TOPIC_SNAPSHOTS, {0: _topic(2), 100: _topic(4)}, topic="orders"),
            *polled(silver.TOPIC_SNAPSHOTS, {0: _topic(None), 20: _topic(3)}, topic="hidden"),
        ],
        silver.TOPIC_CONFIGS: [
            *polled(
                silver.TOPIC_CONFIGS,
                {
                    0: _settings(2),
                    100: _settings(1),
                    110: _settings(1, unclean=True),
                    120: _settings(None, unclean=True),
                },
                topic="orders",
            ),
        ],
        partitions: [
            *polled(
                partitions,
                {0: _partition(1, 2), 100: _partition(1, 2, 3)},
                topic="grows",
                partition=0,
            ),
            *polled(
                partitions,
                {0: _partition(1, 2, 3), 100: _partition(1)},
                topic="shrinks",
                partition=0,
            ),
            *polled(
                partitions,
                {0: _partition(1, 2), 100: _partition(3, 4, 1, 2), 200: _partition(3, 4)},
                topic="moves",
                partition=0,
            ),
            *polled(
                partitions,
                {0: _partition(1, 2), 100: _partition(3, 4, 1, 2), 300: _partition(3, 4, 1)},
                topic="moves and grows",
                partition=0,
            ),
        ],
        moves: [
            *polled(moves, {101: _moving([3], []), 220: None}, topic="grows", partition=0),
            *polled(moves, {102: _moving([3, 4], [1, 2]), 210: None}, topic="moves", partition=0),
            *polled(
                moves,
                {101: _moving([3, 4], [2]), 301: None},
                topic="moves and grows",
                partition=0,
            ),
        ],
        consumption.GROUP_LAG: [
            *behind("slow", None, "OK", "WARNING", None, "ERROR", "OK"),
            *behind("left", "OK", None, "ERROR", gone=True),
            *behind("new", None, "WARNING"),
            *behind("well", None, "OK", None, "OK"),
        ],
    }


def rows_of_log() -> dict[Table, list[Row]]:
    """What the controllers' log tells of the same: a part of it, seconds before polls show it."""
    active, not_active = (
        {"broker_epoch": 3, "is_fenced": fenced, "in_controlled_shutdown": False}
        for fenced in (False, True)
    )
    brokers, configs = silver.BROKER_REGISTRATIONS, silver.CONFIGS
    return {
        brokers: logged(brokers, {0: active, 115: not_active, 175: active}, broker_id=3),
        gold.CONTROLLER_CHANGES: [elected(105, 2, 5)],
        gold.ACCESS_CHANGES: [access_changed(85, "acl_added"), access_changed(86, "quota_changed")],
        configs: [
            *logged(
                configs,
                {0: {"value": "2"}, 95: None},
                resource_type=2,
                resource_name="orders",
                name="min.insync.replicas",
            ),
            *logged(
                configs,
                {30: {"value": None}, 40: {"value": None}, 50: None, 60: {"value": None}},
                resource_type=4,
                resource_name="",
                name="my.password",
            ),
            *logged(
                configs,
                {70: {"value": None}, 80: {"value": "7"}, 90: {"value": "8"}},
                resource_type=32,
                resource_name="g",
                name="share.session.timeout.ms",
            ),
        ],
    }
