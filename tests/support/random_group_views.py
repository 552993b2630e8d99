"""Rows of groups for views, at random."""

import random
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Any

from schemas import bronze, consumption, groups, internal, silver
from schemas.table import Table
from tests.support.group_states import at
from tests.support.group_views import (
    LISTENER_NOT_FOUND,
    POLL_S,
    Row,
    as_assigned,
    led,
    life,
    merged,
    place,
    poll,
    rebalance,
    settled,
)

Rows = dict[Table, list[Row]]


def by_chance(seed: int, groups_each: int = 15) -> Rows:
    """Two clusters whose partitions of the log move now and then, with rebalances at whole and half
    polls, so that bounds often touch.
    """
    pick = random.Random(seed)

    def maybe(value: Any, odds: float = 0.5) -> Any:
        return value if pick.random() < odds else None

    parts: list[Rows] = []
    for cluster in (f"chance-{seed}-a", f"chance-{seed}-b"):
        rows: Rows = defaultdict(list)
        for partition in range(3):
            seen: list[tuple[int, int | None, int | None]] = [(pick.randint(0, 3), 1, None)]
            for number in sorted(pick.sample(range(5, 60), pick.randint(0, 8))):
                error = maybe(LISTENER_NOT_FOUND, 0.1)
                leader = -1 if error else maybe(pick.choice([-1, 1, 2, 3]), 0.9)
                if leader != seen[-1][1]:
                    seen.append((number, leader, error))
            rows[silver.COORDINATORS] += led(cluster, *seen, partition=partition)
        for topic in "abc":
            known, numbers = maybe(f"id-{topic}", 0.8), sorted(pick.sample(range(60), 3))
            for number, following in zip(numbers, [*numbers[1:], None], strict=True):
                row = {
                    **place(cluster),
                    "topic": topic,
                    "topic_id": known,
                    "partition_count": maybe(pick.randint(1, 6), 0.9),
                }
                row |= {
                    "error_code": 0,
                    "first_poll": poll(number),
                    "valid_from": at(POLL_S * number + 1),
                }
                row["prev_sent_at"] = maybe(at(POLL_S * number - POLL_S), 0.9)
                if following is not None:
                    row |= {"last_poll": poll(following - 1), "superseded_poll": poll(following)}
                    row |= {
                        "last_seen_at": row["valid_from"],
                        "valid_to": at(POLL_S * following + 1),
                    }
                rows[silver.TOPIC_SNAPSHOTS].append(row)
        for number in range(groups_each):
            _group(pick, cluster, f"g{number}", rows)
        rows[internal.STATE].append(settled(cluster, at(500)))
        parts.append(dict(rows))
    return merged(parts)


def _group(pick: random.Random, cluster: str, group: str, rows: Rows) -> None:
    def maybe(value: Any, odds: float = 0.5) -> Any:
        return value if pick.random() < odds else None

    def time() -> datetime:
        return at(pick.randint(0, 120) * POLL_S / 2 + pick.choice([0, 0, 1]))

    partition, kind = pick.randint(0, 2), pick.choice(["classic", "consumer"])
    for source in pick.choice([("log",), ("polls",), ("log", "polls"), ()]):
        edges = sorted({time() for _ in range(4)})
        for since, until in zip(edges[::2], [*edges[1::2], None], strict=False):
            rows[groups.GROUP_LIVES].append(
                life(cluster, group, since, until, source=source, log_partition=partition)
            )
    for begin in sorted({time() for _ in range(3)}) if kind == "classic" else ():
        lasted = timedelta(seconds=pick.choice([0, 10, 25]))
        rows[groups.REBALANCE_BEGINS].append(
            {
                **place(cluster),
                "group_id": group,
                "began_before": begin,
                "ended_before": maybe(begin + lasted, 0.9),
            }
            | {"began_after": maybe(begin - timedelta(seconds=11), 0.8)}
        )
    for number, began in enumerate(time() for _ in range(12)):
        ended = maybe(began + timedelta(seconds=pick.choice([0, 1, 20, 100])), 0.9)
        row = rebalance(
            cluster, f"{cluster} {group} {number}", began, ended, group_id=group, group_type=kind
        )
        row |= {"source": pick.choice(["log", "polls"]), "log_partition": maybe(partition, 0.9)}
        row |= {"ended_leader_epoch": ended and maybe(pick.randint(3, 8))}
        row |= {
            "began_after": maybe(began - timedelta(seconds=pick.choice([0, 15]))),
            "duration_ms_min": ended and 1,
        }
        row |= {"since_previous_ms": maybe(pick.choice([0, 5_000, 50_000]))}
        row |= {"subscribed": maybe(pick.sample("abcd", pick.choice([0, 1, 1, 2])), 0.8)}
        has = [
            (maybe(topic), maybe(f"id-{topic}", 0.9), pick.randint(0, 4))
            for topic in pick.sample("abc", 2)
        ]
        row |= {"assigned": maybe(as_assigned(has[: pick.randint(0, 2)]), 0.9)}
        rows[groups.REBALANCES].append(row)
        member = {
            **place(cluster),
            "rebalance_id": row["id"],
            "group_id": group,
            "began_before": began,
            "change": "stayed",
        }
        for side in ("before", "after"):
            member[side] = maybe(
                [{**topic, "partitions": [topic["partitions"]]} for topic in as_assigned(has)], 0.8
            )
        rows[groups.REBALANCE_MEMBERS].append({**member, "member_id": "m"})
        event = {
            **place(cluster),
            "id": f"event {row['id']}",
            "group_id": group,
            "event": "deleted",
        }
        rows[groups.GROUP_EVENTS].append({**event, "source": row["source"], "began_before": began})
        storm = {
            **event,
            "kind": "storm",
            "source": row["source"],
            "began_before": began,
            "last_before": began,
        }
        rows[groups.REBALANCE_STORMS].append(storm)


def removals(seed: int) -> Rows:
    """Commits of two clusters that were removed, some of them by the log and by polls, with
    tombstones beside.
    """
    pick = random.Random(f"removals {seed}")
    rows: Rows = defaultdict(list)
    for number in range(60):
        where = {**place(f"removals-{pick.randint(0, 1)}"), "group_id": f"g{pick.randint(0, 3)}"}
        commit = {"topic": pick.choice("ab"), "partition": pick.randint(0, 1)}
        removed = at(pick.randint(0, 40) * 30)
        if pick.random() < 0.7:
            bounds = {"removed_after": removed - timedelta(seconds=30), "removed_before": removed}
            told = {
                "poll": poll(number),
                "committed_offset": number,
                "is_group_gone": pick.random() < 0.5,
            }
            rows[consumption.REMOVED_COMMITS].append(where | commit | bounds | told)
        in_log = where | {
            "log_partition": 1,
            "offset": number,
            "read_at": at(0),
            "day": at(0).date(),
        }
        if pick.random() < 0.7:
            by = timedelta(seconds=pick.choice([0, -20, 59, 60, 61, -91]))
            entry = {column.name: commit.get(column.name) for column in bronze.COMMIT_COLUMNS}
            entry |= {"last_committed": number, "removed_timestamp": removed + by}
            entry |= {"removed_offset": number if pick.random() < 0.9 else None}
            rows[bronze.GROUP_LOG].append(
                in_log
                | {
                    "record": "commits",
                    "chunk": 0,
                    "next_offset": number + 1,
                    "offset_commits": [entry],
                }
            )
            if pick.random() < 0.5:
                tombstone = {
                    "record": "record",
                    "type": pick.choice([2, 3, 5]),
                    "timestamp": removed + by,
                }
                rows[bronze.GROUP_LOG] += [
                    in_log | tombstone | {"is_tombstone": True}
                ] * pick.choice([1, 2])
    return dict(rows)
