"""Episodes that polls observed in part, and the sums of seconds that questions answer for them.

Clusters were polled from 0 s on; polls failed from 100 s to 200 s, and the last one was answered at
305 s.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from kafka_metadata_history.answers.markers import with_values
from schemas import consumption, gold, groups, incidents, internal, silver, views
from schemas.table import Table
from tests.support import duckdb_lake
from tests.support.incident import CLUSTER, NOON

Row = dict[str, Any]


Ask = Callable[..., list[Row]]


Bounds = tuple[int | None, int, int | None, int | None]
"""Seconds: it began after, had begun by, ended after, had ended by."""


LAST, ASKED = 305, 814


THINGS: Mapping[str, Bounds] = {
    "closed": (5, 10, 30, 35),
    "lasts": (40, 50, None, None),
    "ended in the gap": (55, 60, 100, 200),
    "over the gap": (80, 90, 210, 220),
}


BY_POLLS = {
    # at least, at most, of which nobody observed
    "closed": (20, 30, 0),
    "lasts": (155, 774, 609),
    "ended in the gap": (40, 145, 100),
    "over the gap": (20, 140, 100),
}


BY_LOG = {
    "closed": (20, 30, 0),
    "lasts": (255, 774, 509),
    "ended in the gap": (40, 145, 0),
    "over the gap": (120, 140, 0),
}
"""A log that is read later has what happened meanwhile."""


NUMBER = {thing: number for number, thing in enumerate(THINGS, 1)}


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def began(thing: str) -> Row:
    after, before, *_ = THINGS[thing]
    return CLUSTER | {
        "id": thing,
        "began_after": at(after),
        "began_before": at(before),
        "updated_at": NOON,
    }


def lasted(thing: str) -> Row:
    _, _, after, before = THINGS[thing]
    return began(thing) | {
        "ended_after": at(after),
        "ended_before": at(before),
        "is_live": before is None,
    }


def state_of(thing: str, **more: Any) -> Row:
    """A row of silver."""
    after, first, last, over = THINGS[thing]
    times = {
        "prev_sent_at": at(after),
        "valid_from": at(first),
        "last_seen_sent_at": at(last),
        "valid_to": at(over),
    }
    ends = (
        {}
        if over is None
        else {"last_poll": poll(last), "last_seen_at": at(last), "superseded_poll": poll(over)}
    )
    return CLUSTER | {"first_poll": poll(first)} | times | ends | more


def poll(seconds: float | None) -> str:
    return f"20261101T110000Z-00000000/{seconds:012}"


def state(history: str, done: int, **more: Any) -> Row:
    told = {
        "history": history,
        "round": 1,
        "done_poll": poll(done),
        "done_at": at(done),
        "memory": "{}",
    }
    return CLUSTER | told | more


def observed(gaps: list[tuple[int, int]], last: int) -> dict[Table, list[Row]]:
    """What says when a cluster was observed, from 0 s on."""
    histories = ("isr_shrink", "leader_churn", "rebalance_history", "group_lag", "cluster_log")
    seen = {"last_seen_at": at(last)}
    began = {"first_poll": poll(0), "valid_from": at(0), "kind": "kafka", "not_meaningful": []}
    return {
        internal.STATE: [
            state("silver", last, changed_poll=poll(0), **seen),
            *(state(history, last, **seen) for history in histories),
        ],
        silver.CLUSTER_SNAPSHOTS: [CLUSTER | began],
        silver.HISTORY_SOURCES: [
            CLUSTER | {"source": "polls", "first_poll": poll(0), "valid_from": at(0)}
        ],
        silver.POLL_GAPS: [
            CLUSTER | {"gap_start": at(begin), "gap_end": at(end)} for begin, end in gaps
        ],
    }


def ms(begin: int, end: int) -> int:
    return 1000 * (end - begin)


def recovered(thing: str) -> Row:
    """The change with which a time without a leader ended."""
    after, before, ended_after, ended_before = THINGS[thing]
    assert None not in (after, ended_after, ended_before)
    bounds = {"began_after": at(ended_after), "began_before": at(ended_before)}
    leaderless = {
        "leaderless_ms_min": ms(before, ended_after),
        "leaderless_ms_max": ms(after, ended_before),
    }  # type: ignore[arg-type]
    changed = {
        "prev_leader": -1,
        "leader": 1,
        "changes_min": 1,
        "changes_max": 1,
        "reason": "recovery",
    }
    return CLUSTER | {"id": thing, "topic": thing, "partition": 0} | bounds | leaderless | changed


def rebalance(thing: str, source: str) -> Row:
    told = {
        "id": f"{thing}, by {source}",
        "group_id": f"{thing}, by {source}",
        "group_type": "consumer",
        "members": 1,
    }
    is_over = {} if THINGS[thing][3] is None else {"end_reason": "completed"}
    return lasted(thing) | told | is_over | {"source": source, "reasons": ["member_left"]}


def life(thing: str, source: str) -> Row:
    times = {"valid_from": at(0), "known_since": at(0), "group_type": "consumer"}
    return CLUSTER | {"group_id": f"{thing}, by {source}", "source": source} | times


def cost(group: str, began_before: int, **more: Any) -> Row:
    times = {"began_before": at(began_before), "ended_before": at(began_before)}
    return (
        CLUSTER
        | {"rebalance_id": group, "group_id": group, "topic": "orders", "partition": 0}
        | times
        | more
    )


def lag(seconds: int, behind: int, **more: Any) -> Row:
    counts = {
        "partitions": 1,
        "partitions_behind": behind,
        "partitions_beyond": 0,
        "partitions_unknown": 0,
        "lag_min": behind,
        "lag_max": behind,
    }
    return (
        CLUSTER
        | {"group_id": "lasts", "first_poll": poll(seconds), "valid_from": at(seconds)}
        | counts
        | more
    )


def happened() -> dict[Table, list[Row]]:
    replicas = {"replicas": [1, 2], "isr": [1], "partition": 0}
    fenced = {"is_fenced": True, "in_controlled_shutdown": False}
    told = [(thing, source) for thing in THINGS for source in ("polls", "log")]
    return {
        gold.ISR_EPISODES: [
            lasted(thing)
            | {
                "topic": thing,
                "partition": 0,
                "level": "under_replicated",
                "brokers_out": [2],
                "smallest_isr": 1,
            }
            for thing in THINGS
        ],
        silver.PARTITION_SNAPSHOTS: [
            state_of(thing, topic=thing, leader_epoch=1, **replicas) for thing in THINGS
        ],
        silver.TOPIC_CONFIGS: [],
        silver.TOPIC_SNAPSHOTS: [
            CLUSTER
            | {"topic": thing, "partition_count": 1, "first_poll": poll(0), "valid_from": at(0)}
            for thing in THINGS
        ],
        gold.BROKER_INCIDENTS: [
            lasted(thing)
            | {
                "broker_id": number,
                "partitions": 1,
                "worst_level": "under_replicated",
                "causes": ["broker_down"],
            }
            for thing, number in NUMBER.items()
        ],
        gold.ISR_CHANGES: [
            lasted(thing)
            | {"broker_id": number, "change": "left", "topic": thing, "replicas": [number]}
            for thing, number in NUMBER.items()
        ],
        incidents.INCIDENT_LINKS: [],
        incidents.INCIDENTS: [
            lasted(thing) | {"kind": "broker_missing", "cause": "broker_down", "cause_of": thing}
            for thing in THINGS
        ],
        gold.STALE_BROKERS: [
            lasted(thing) | {"broker_id": number} for thing, number in NUMBER.items()
        ],
        silver.BROKER_REGISTRATIONS: [
            state_of(thing, broker_id=number, **fenced) for thing, number in NUMBER.items()
        ],
        gold.LEADER_CHANGES: [recovered(thing) for thing in THINGS if thing != "lasts"],
        gold.LEADER_BALANCE: [
            CLUSTER
            | {
                "broker_id": number,
                "poll": poll(first),
                "valid_from": at(first),
                "valid_to": at(over),
            }
            | {"led_elsewhere": 1, "preferred_for": 1, "imbalance": 1.0}
            for thing, number in NUMBER.items()
            for _, first, _, over in [THINGS[thing]]
        ],
        groups.REBALANCES: [rebalance(thing, source) for thing, source in told],
        groups.GROUP_LIVES: [life(thing, source) for thing, source in told],
        silver.GROUP_SNAPSHOTS: [
            state_of(
                "lasts",
                group_id="of a polled state",
                state="PreparingRebalance",
                group_type="classic",
            )
        ],
        consumption.GROUP_LAG: [lag(0, 0, valid_to=at(50), last_seen_at=at(40)), lag(50, 7)],
        consumption.REBALANCE_COST: [
            cost(
                "awaits a commit",
                50,
                awaits_after={"committed": 1, "at": at(45), "there_before": None},
            ),
            cost(
                "lag is back",
                90,
                lag_before=1,
                lag_back_after=at(210),
                lag_back_before=at(220),
                close_reason="recovered",
            ),
            cost(
                "never told",
                60,
                awaits_after={"committed": 1, "at": at(55), "there_before": None},
                close_reason="removed",
            ),
        ],
    }


def window(until: int) -> Row:
    filters = ("cluster", "topic", "broker", "group", "at_least", "incident", "slo")
    nothing = dict.fromkeys(filters)
    return nothing | {"since": str(at(0)), "until": str(at(until))}


def seconds(row: Row) -> tuple[Any, ...]:
    """At least, at most, not observed."""
    for least, most, scale in (
        ("seconds_min", "seconds_max", 1),
        ("leaderless_s_min", "leaderless_s_max", 1),
        ("duration_ms_min", "duration_ms_max", 1000),
        ("shortest_ms_min", "longest_ms_max", 1000),
    ):
        if least in row:
            ends = (
                None if row[name] is None else float(row[name]) / scale for name in (least, most)
            )
            return *ends, row["not_observed_s"]
    return (row["not_observed_s"],)


def by(ask: Ask, name: str, of: str, **more: object) -> dict[Any, tuple[Any, ...]]:
    return {row[of]: seconds(row) for row in ask(name, **more)}


def narrow(rows: Mapping[Table, list[Row]], sql: str, parameters: Row) -> list[Row]:
    """The answer of a lake that has little more than silver.observed, which takes a tenth of the
    time.
    """
    with duckdb_lake.duckdb_lake(rows, (internal.STATE_NOW, views.OBSERVED)) as lake:
        return duckdb_lake.ask(lake, with_values(sql, parameters))
