"""What the views over groups' tables are asked of: cases made by hand, each in a cluster of its
own, and random ones.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from typing import Any

from schemas import groups, internal, silver
from schemas.table import Table
from tests.support.group_states import at

Row = dict[str, Any]
Rows = dict[Table, list[Row]]


POLL_S = 10
"""Polls are sent every so many seconds, and answered a second later."""
LOOK_AHEAD = timedelta(seconds=2 * POLL_S)
LISTENER_NOT_FOUND = 72
_DEFAULTS = {"string": "", "int": 0, "bigint": 0, "boolean": False}


def poll(number: int) -> str:
    return f"s/{number:012d}"


def place(cluster: str) -> Row:
    return {"cluster_id": f"id-{cluster}", "cluster": cluster}


def whole(table: Table, row: Row) -> Row:
    """`row` with something in each column that must not be null."""
    known = {"updated_at": at(0), "members": 1, "round": 1, "memory": "{}"}
    needed = (
        c for c in table.columns if not c.nullable and c.generated_as is None and c.name not in row
    )
    return row | {c.name: known[c.name] if c.name in known else _DEFAULTS[c.type] for c in needed}


def merged(parts: Iterable[Rows]) -> Rows:
    rows: Rows = defaultdict(list)
    for part in parts:
        for table, of_it in part.items():
            rows[table] += [whole(table, row) for row in of_it]
    return dict(rows)


def settled(cluster: str, done_at: datetime | None) -> Row:
    return {**place(cluster), "history": "silver", "round": 1, "done_at": done_at, "memory": "{}"}


def life(
    cluster: str, group: str, since: datetime, until: datetime | None = None, **more: Any
) -> Row:
    row = {
        **place(cluster),
        "group_id": group,
        "source": "log",
        "valid_from": since,
        "valid_to": until,
    }
    return {**row, "log_partition": 3, **more}


def rebalance(cluster: str, id_: str, began: datetime, ended: datetime | None, **more: Any) -> Row:
    row = {
        **place(cluster),
        "id": id_,
        "group_id": "here",
        "group_type": "consumer",
        "source": "log",
        "log_partition": 3,
    }
    row |= {"began_before": began, "ended_after": ended, "ended_before": ended}
    return row | {"end_reason": ended and "completed", "is_live": ended is None} | more


def led(cluster: str, *seen: tuple[int, int | None, int | None], partition: int = 3) -> list[Row]:
    """Rows of silver.coordinators of a partition by (first poll, leader, error), a leader of None
    where the topic ends.

    The leader epoch is 4 at first, and one more with each change of the leader; an error hides the
    leader alone.
    """
    changes = (
        None not in (leader, before) and not (error or error_before) and leader != before
        for (_, before, error_before), (_, leader, error) in pairwise(seen)
    )
    epochs = list(accumulate(changes, initial=4))
    rows = []
    for i, (first, leader, error) in enumerate(seen):
        _, before, error_before = seen[i - 1] if i else (0, None, None)
        began_before = at(POLL_S * first + 1)
        rows.append(
            {
                **place(cluster),
                "log_partition": partition,
                "poll": poll(first),
                "began_after": at(POLL_S * (first - 1)) if first else None,
                "began_before": began_before,
                "leader": leader,
                "leader_epoch": None if leader is None else epochs[i],
                "prev_leader": before,
                "prev_leader_epoch": None if before is None else epochs[i - 1],
                "is_move": not (None in (leader, before) or error or error_before)
                and leader != before,
                "followed_until": began_before + LOOK_AHEAD,
            }
        )
    return rows


# --- coordinators, and moves that rebalances followed ---

MOVES = "moves"
SETTLED = at(651)
ASKED: dict[str, tuple[datetime, datetime | None, int | None, bool | None, str | None]] = {
    # began_before, ended_before -> coordinator, followed_coordinator_move, poll of the move. The
    # look-ahead of a move is 20 s.
    "before the first poll": (at(-5), at(-4), None, None, None),
    "watched for less than the look-ahead": (at(20), at(20), 1, None, None),
    "long before": (at(22), at(22), 1, False, None),
    "before, maybe after: the polls leave it open": (at(195), at(195), None, True, "20"),
    "before, by its epoch": (at(195), at(195), None, False, None),
    "after, by its epoch": (at(195), at(195), None, True, "20"),
    "went on for long before, by its epoch": (at(150), at(199), 1, False, None),
    "ended before the last poll with the old one": (at(188), at(189), 1, False, None),
    "began as that poll was sent": (at(190), at(190), 1, True, "20"),
    "began as the next one was answered": (at(201), at(201), 2, True, "20"),
    "went on meanwhile": (at(150), at(230), 1, True, "20"),
    "in the look-ahead": (at(221), at(222), 2, True, "20"),
    "after it": (at(222), at(223), 2, False, None),
    "between two moves": (at(405), at(406), None, True, "41"),
    "no leader by both polls": (at(399), at(399), None, True, "40"),
    "goes on, one behind": (at(425), None, 1, True, "41"),
    "goes on, none so far": (at(500), None, 1, None, None),
    "asked in the wrong place, before": (at(588), at(588), 1, False, None),
    "asked in the wrong place": (at(595), at(596), None, None, None),
    "asked in the wrong place, before by its epoch": (at(595), at(596), None, False, None),
    "soon after": (at(625), at(626), 1, None, None),
    "long after": (at(640), at(640), 1, False, None),
    "it ended when no poll had come": (at(640), at(660), 1, None, None),
    "it began when no poll had come": (at(652), at(660), None, None, None),
}
_ENDED_UNDER = {  # leader epochs, where they are told; the first move was from 4 to 5
    "before, by its epoch": 4,
    "went on for long before, by its epoch": 4,
    "after, by its epoch": 5,
    "asked in the wrong place, before by its epoch": 7,
}


def moves() -> Rows:
    """Polls at 0, 10, 20, ... s: broker 1 leads, from poll 20 on 2, from poll 40 none, from poll 41
    on 1.

    At poll 60 it was asked on a listener that 1 does not have.
    """
    lives = [
        life(MOVES, "here", at(0)),
        # By both sources: the same move is one event.
        life(MOVES, "here", at(0), source="polls"),
        life(MOVES, "late", at(202)),
        life(MOVES, "gone", at(0), at(202)),
        life(MOVES, "back", at(300)),
        life(MOVES, "back", at(0), at(150)),
        life(MOVES, "just there", at(201)),
        life(MOVES, "just gone", at(0), at(201)),
        life(MOVES, "other", at(0), log_partition=4),
    ]
    told = [
        rebalance(MOVES, name, began, ended, ended_leader_epoch=_ENDED_UNDER.get(name))
        for name, (began, ended, *_) in ASKED.items()
    ]
    told += [
        rebalance(MOVES, "made after the move", at(205), at(205), group_id="late"),
        rebalance(MOVES, "of a partition that is not polled", at(205), at(205), log_partition=9),
        rebalance(MOVES, "of no known partition", at(205), at(205), log_partition=None),
        rebalance("never polled", "never polled", at(205), at(205)),
    ]
    return {
        silver.COORDINATORS: led(
            MOVES,
            (0, 1, None),
            (20, 2, None),
            (40, -1, None),
            (41, 1, None),
            (60, -1, LISTENER_NOT_FOUND),
            (61, 1, None),
        ),
        groups.GROUP_LIVES: lives,
        groups.REBALANCES: told,
        internal.STATE: [
            settled(MOVES, SETTLED),
            {**settled(MOVES, at(900)), "history": "rebalance_history"},
            settled("never polled", None),
        ],
    }


# --- the topic of the log ends, and comes back ---

ENDED = "ended"


def topic_ended() -> Rows:
    return {
        silver.COORDINATORS: led(ENDED, (0, 1, None), (20, None, None), (40, 2, None)),
        groups.GROUP_LIVES: [
            life(ENDED, "here", at(0)),
            life(ENDED, "here", at(0), source="polls"),
        ],
        groups.REBALANCES: [
            rebalance(ENDED, "while there", at(100), at(100)),
            rebalance(ENDED, "meanwhile", at(300), at(300)),
            rebalance(ENDED, "soon after", at(405), at(405)),
            rebalance(ENDED, "long after", at(500), at(500)),
        ],
        internal.STATE: [settled(ENDED, at(600))],
    }


# --- what lies months apart, and is compared nevertheless ---

MONTHS = "months"


def months() -> Rows:
    """A leader for 104 days, and then another."""
    later = 9_000_001
    return {
        silver.COORDINATORS: led(MONTHS, (0, 1, None), (900_000, 2, None)),
        groups.GROUP_LIVES: [life(MONTHS, "here", at(0))],
        groups.REBALANCES: [
            rebalance(MONTHS, "led for months", at(8_000_000), at(8_000_000)),
            rebalance(MONTHS, "went on for months, to the move", at(500), at(later)),
            rebalance(MONTHS, "goes on since before the move", at(500), None),
            rebalance(MONTHS, "went on for months, not to the move", at(500), at(later - 1000)),
            rebalance(
                MONTHS, "long after the last news", at(later + 8_000_000), at(later + 8_000_000)
            ),
        ],
        internal.STATE: [settled(MONTHS, at(later + 9_000_000))],
    }


# --- begins of classic rebalances ---

BEGINS = "begins"
BEGUN: dict[str, tuple[str, float, float | None, int | None, datetime | None, datetime | None]] = {
    # group, began_before, began_after and ms since the one before, of the log -> narrowed_after,
    # narrowed_before.
    "seen while it went on": ("g", 50, None, None, at(20), at(31)),
    "before the poll that would have shown it": ("g", 25, None, None, at(20), None),
    "a second one, before a poll saw that the first was over": ("g", 55, 50, 5_000, None, None),
    "known closer": ("g", 50, 25, 25_000, None, at(31)),
    "of what no poll saw, and another before": ("g", 15, None, None, None, None),
    "between two polls": ("g", 85, None, None, at(80), None),
    "emptied": ("g", 140, 85, 55_000, at(110), at(121)),
    "after all of it": ("g", 142, None, None, None, None),
    "goes on by the polls": ("made anew", 300, None, None, at(40), at(51)),
    "before any poll": ("first", 20, None, None, None, at(1)),
    "no polls": ("unknown", 20, None, None, None, None),
}


def begins() -> Rows:
    seen = [
        ("g", at(20), at(31), at(61)),
        ("g", at(80), at(91), at(91)),
        ("g", at(110), at(121), at(141)),
        ("made anew", at(10), at(21), at(31)),
        ("made anew", at(40), at(51), None),
        ("first", None, at(1), at(41)),
    ]
    names = ("group_id", "began_after", "began_before", "ended_before")
    told = []
    for name, (group, by, after, since, *_) in BEGUN.items():
        row = rebalance(BEGINS, name, at(by), at(by + 1), group_id=group, group_type="classic")
        row |= {"began_after": None if after is None else at(after), "since_previous_ms": since}
        row |= {
            "duration_ms_min": 1000,
            "duration_ms_max": None if after is None else 1000 * (by + 1 - after),
        }
        told.append(row)
    goes_on = rebalance(BEGINS, "goes on", at(50), None, group_id="g", group_type="classic")
    return {
        groups.REBALANCE_BEGINS: [
            {**place(BEGINS), **dict(zip(names, row, strict=True))} for row in seen
        ],
        groups.REBALANCES: [
            *told,
            goes_on,
            {**told[0], "id": "of another type", "group_type": "consumer"},
            {**told[0], "id": "of polls", "source": "polls"},
        ],
    }


# --- topics: their names, and partitions that nobody has ---

TOPICS = "topics"
WANTED: dict[
    str, tuple[float, list[str] | None, list[tuple[str | None, str | None, int]] | None, int | None]
] = {
    # when it ended, topics that are subscribed to, what members have (topic, id, partitions) ->
    # partitions_unassigned
    "all are taken": (50, ["orders"], [("orders", None, 4)], 0),
    "some are left": (50, ["clicks", "orders"], [("orders", None, 3), ("clicks", None, 1)], 2),
    "nobody is there": (50, [], [], 0),
    "nobody has any": (50, ["orders"], [], 4),
    "by id": (50, ["orders"], [(None, "id-orders", 3)], 1),
    "by id and by name": (50, ["orders"], [(None, "id-orders", 2), ("orders", None, 1)], 1),
    "what nobody subscribes to any more does not count": (
        50,
        ["clicks"],
        [("clicks", None, 2), ("orders", None, 1)],
        0,
    ),
    "more than there were": (
        50,
        ["clicks", "orders"],
        [("orders", None, 6), ("clicks", None, 1)],
        1,
    ),
    "an id without a name": (50, ["orders"], [("orders", None, 4), (None, "id-?", 1)], None),
    "an id without a name, and nothing is wanted": (50, [], [(None, "id-?", 1)], None),
    "a topic that polls do not show": (50, ["orders", "secret"], [("orders", None, 4)], None),
    "only errors were answered": (50, ["odd"], [], None),
    "it was not known what is subscribed to": (50, None, [("orders", None, 4)], None),
    "it was not known what they have": (50, ["orders"], None, None),
    "grown since": (150, ["orders"], [("orders", None, 4)], 2),
    "grown maybe: the earlier counts": (95, ["orders"], [("orders", None, 4)], 0),
    "made anew under the same name": (250, ["orders"], [(None, "id-orders-2", 1)], 1),
    "had under the id of before": (250, ["orders"], [(None, "id-orders", 1)], 1),
    "before polls saw it, but maybe there": (45, ["late"], [], 5),
    "before it was there": (35, ["late"], [], None),
    "gone": (250, ["clicks"], [], None),
}


def topics() -> Rows:
    def seen(topic: str, id_: str | None, count: int | None, first: int, until: int | None) -> Row:
        row: Row = {
            **place(TOPICS),
            "topic": topic,
            "topic_id": id_,
            "partition_count": count,
            "error_code": 0,
        }
        row |= {"first_poll": poll(first), "valid_from": at(POLL_S * first + 1)}
        row["prev_sent_at"] = at(POLL_S * (first - 1)) if first else None
        if until is not None:
            row |= {
                "last_poll": poll(until - 1),
                "superseded_poll": poll(until),
                "valid_to": at(POLL_S * until + 1),
            }
            row["last_seen_at"] = at(POLL_S * (until - 1) + 1)
        return row

    told = [
        rebalance(TOPICS, name, at(ended - 10), at(ended), subscribed=subscribed)
        | {"assigned": None if assigned is None else as_assigned(assigned)}
        for name, (ended, subscribed, assigned, _) in WANTED.items()
    ]
    goes_on = rebalance(TOPICS, "goes on", at(250), None, subscribed=["orders"], assigned=[])
    members = [
        {
            **place(TOPICS),
            "rebalance_id": "by id",
            "group_id": "here",
            "member_id": "a",
            "change": "stayed",
            "began_before": at(40),
            "before": [("orders", None, [0]), (None, "id-clicks", [1])],
            "after": [(None, "id-orders", [0, 1]), (None, "id-?", [7]), (None, "id-clicks", [])],
        },
        {
            **place(TOPICS),
            "rebalance_id": "by id",
            "group_id": "here",
            "member_id": "b",
            "change": "unknown",
            "began_before": at(40),
            "before": None,
            "after": [],
        },
    ]
    for row in members:
        for side in ("before", "after"):
            if row[side] is not None:
                row[side] = [
                    dict(zip(("topic", "topic_id", "partitions"), has, strict=True))
                    for has in row[side]
                ]
    return {
        silver.TOPIC_SNAPSHOTS: [
            seen("orders", "id-orders", 4, 0, 10),
            seen("orders", "id-orders", 6, 10, 20),
            seen("orders", "id-orders-2", 2, 20, None),
            seen("clicks", "id-clicks", 2, 0, 20),
            seen("odd", None, None, 0, 4),
            seen("odd", None, None, 4, None),
            seen("late", "id-late", 5, 5, None),
        ],
        groups.REBALANCES: [*told, goes_on],
        groups.REBALANCE_MEMBERS: members,
    }


def as_assigned(assigned: list[tuple[str | None, str | None, int]]) -> list[Row]:
    return [dict(zip(("topic", "topic_id", "partitions"), has, strict=True)) for has in assigned]


# --- what polls told gives way to the log ---

HIDDEN = "hidden"


def hidden() -> Rows:
    """Polls told of a group from 0 s on, and the log from 100 s on; of another nothing but polls
    tell, and once more the log alone.
    """
    told: Rows = defaultdict(list)
    for group, source, seconds in (
        *(("both", "polls", when) for when in (50, 100, 150)),
        ("both", "log", 90),
        ("both", "log", 150),
        ("polled", "polls", 150),
        ("logged", "log", 50),
    ):
        id_ = f"{group} {source} {seconds}"
        common = {**place(HIDDEN), "group_id": group, "source": source, "began_before": at(seconds)}
        told[groups.REBALANCES].append(
            rebalance(HIDDEN, id_, at(seconds), at(seconds + 1)) | common
        )
        told[groups.GROUP_EVENTS].append(
            {**common, "id": id_, "event": "created", "log_partition": 3}
        )
        told[groups.REBALANCE_STORMS].append(
            {**common, "id": id_, "kind": "storm", "last_before": at(500)}
        )
        member = {
            **place(HIDDEN),
            "group_id": group,
            "began_before": at(seconds),
            "rebalance_id": id_,
        }
        told[groups.REBALANCE_MEMBERS].append({**member, "member_id": "a", "change": "joined"})
    told[groups.GROUP_LIVES] = [
        life(HIDDEN, "both", at(0), at(100), source="polls"),
        life(HIDDEN, "both", at(100), at(120)),
        life(HIDDEN, "both", at(200)),
        life(HIDDEN, "polled", at(0), source="polls"),
        life(HIDDEN, "logged", at(60)),
    ]
    told[internal.STATE] = [settled(HIDDEN, at(600))]
    return dict(told)


def by_hand() -> Rows:
    return merged([moves(), topic_ended(), months(), begins(), topics(), hidden()])


def by_id(rows: Iterable[Mapping[str, Any]], *names: str, key: str = "id") -> dict[str, Any]:
    """What the named columns have, by id."""
    return {row[key]: tuple(row[name] for name in names) for row in rows}
