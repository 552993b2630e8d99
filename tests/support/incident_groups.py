"""What became of groups while brokers 2 and 3 failed (tests/support/incident.py), as rows of gold
and silver.

All are kept in `__consumer_offsets-0`, which broker 2 leads, broker 1 from 10 s, broker 2 again
from 50 s. A broker that fails takes a member of `billing` along; it comes back at 34 s, and from 72
s another one crashes again and again. A member of `audit` restarts statically at 30 s, another
times out at 95 s. `search` (KIP-848) takes in a member at 80 s. `reports` is stuck from 30 s,
`shop` (streams) from 85 s. `fresh` (share) is made at 55 s.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Commit, GroupAnswer, Visit, fold
from jobs.rules.groups.state import to_micros
from schemas import groups, silver
from schemas.consumption import GROUP_LAG, REBALANCE_COST
from schemas.table import Table
from tests.support.incident import CLUSTER, NOON, STREAM, at

TYPES = {
    "audit": "classic",
    "billing": "classic",
    "fresh": "share",
    "reports": "classic",
    "search": "consumer",
    "shop": "streams",
}
MEMBERS = {
    # member id: client id, host, instance id
    "b1": ("billing-1", "/10.0.0.1", None),
    "b2": ("billing-2", "/10.0.0.2", None),
    "b3": ("billing-2", "/10.0.0.2", None),
    "c1": ("billing-3", "/10.0.0.3", None),
    "c2": ("billing-3", "/10.0.0.3", None),
    "c3": ("billing-3", "/10.0.0.3", None),
    "a1": ("audit", "/10.0.0.4", "audit-0"),
    "a2": ("audit", "/10.0.0.4", "audit-0"),
    "a9": ("audit", "/10.0.0.5", "audit-1"),
    "s1": ("search", "/10.0.0.6", None),
    "s2": ("search", "/10.0.0.7", None),
    "t1": ("shop", "/10.0.0.8", None),
}

Assignment = Mapping[str, Mapping[str, list[int]]]
"""Member -> topic -> partitions."""


def ms(begin: float | None, end: float | None) -> int | None:
    return None if begin is None or end is None else round((end - begin) * 1000)


def owners(assignment: Assignment) -> dict[tuple[str, int], str]:
    return {
        (t, p): member
        for member, topics in assignment.items()
        for t, ps in topics.items()
        for p in ps
    }


@dataclass
class History:
    """Rows of each table."""

    rebalances: list[dict[str, Any]] = field(default_factory=list)
    members: list[dict[str, Any]] = field(default_factory=list)

    def rebalance(
        self,
        group: str,
        generations: tuple[int, int],
        *,
        began: tuple[float | None, float],
        ended: float | None,
        before: Assignment,
        after: Assignment,
        reasons: list[str],
        **more: Any,
    ) -> None:
        id_ = f"{group}-{generations[1]}"
        had, has = owners(before), owners(after)
        kept = sum(had.get(place) == member for place, member in has.items())
        moved = sum(place in had and had[place] != member for place, member in has.items())
        self.rebalances.append(
            {
                "id": id_,
                **CLUSTER,
                "group_id": group,
                "group_type": TYPES[group],
                "protocol_type": "consumer" if TYPES[group] == "classic" else None,
                "source": "log",
                "prev_generation": generations[0],
                "generation": generations[1],
                "skipped_generations": 0,
                "log_partition": 0,
                "first_offset": len(self.rebalances),
                "last_offset": len(self.rebalances),
                "began_after": at(began[0]),
                "began_before": at(began[1]),
                "ended_after": at(ended),
                "ended_before": at(ended),
                "duration_ms_min": ms(began[1], ended),
                "duration_ms_max": ms(began[0], ended),
                "end_reason": None if ended is None else "completed",
                "mode": "cooperative",
                "phases": 1,
                "members": len(after),
                "prev_members": len(before),
                "members_joined": len(after.keys() - before.keys()),
                "members_left": len(before.keys() - after.keys()),
                "members_restarted": 0,
                "partitions_kept": kept,
                "partitions_moved": moved,
                "partitions_added": len(has.keys() - had.keys()),
                "partitions_lost": len(had.keys() - has.keys()),
                **topics_of(group, before, after),
                "stickiness": kept / (kept + moved + len(had.keys() - has.keys())),
                "reasons": reasons,
                "updated_at": NOON,
                "is_live": ended is None,
                **more,
            }
        )
        for member in sorted(before.keys() | after.keys()):
            client_id, client_host, instance_id = MEMBERS[member]
            self.members.append(
                {
                    "rebalance_id": id_,
                    **CLUSTER,
                    "group_id": group,
                    "member_id": member,
                    "instance_id": instance_id,
                    "client_id": client_id,
                    "client_host": client_host,
                    "rack": "a" if group == "billing" else None,
                    "change": "left"
                    if member not in after
                    else "stayed"
                    if member in before
                    else "joined",
                    "before": assigned(before.get(member, {})),
                    "after": assigned(after.get(member, {})),
                    "began_before": at(began[1]),
                    "updated_at": NOON,
                    "is_live": ended is None,
                }
            )


def topics_of(group: str, before: Assignment, after: Assignment) -> dict[str, Any]:
    """What members subscribe to, and how many partitions of it they have; of a streams group it is
    not known.
    """
    if TYPES[group] == "streams":
        return {}
    counts = Counter(topic for topic, _ in owners(after))
    return {
        "subscribed": sorted({topic for topic, _ in owners(before) | owners(after)}),
        "assigned": assigned(counts),
    }


def assigned(topics: Mapping[str, list[int] | int]) -> list[dict[str, Any]]:
    """As a column: partitions by topic, or how many."""
    return [
        {"topic": topic, "topic_id": f"id-{topic}", "partitions": partitions}
        for topic, partitions in topics.items()
    ]


def history() -> History:
    made = History()
    two = {"b1": {"orders": [0]}, "b2": {"orders": [1]}}
    alone = {"b1": {"orders": [0, 1]}}
    again = {"b1": {"orders": [0]}, "b3": {"orders": [1]}}
    joined, left = ["member_joined"], ["member_left"]
    made.rebalance(
        "billing",
        (10, 11),
        began=(-601, -600.5),
        ended=-600,
        before=alone,
        after=two,
        reasons=joined,
    )
    # The log has only its end; polls saw it begin.
    made.rebalance(
        "billing", (11, 12), began=(None, 27), ended=27, before=two, after=alone, reasons=left
    )
    # Two phases: 13 gives the partition up, 14 takes it over.
    made.rebalance(
        "billing",
        (12, 14),
        began=(30, 34.2),
        ended=35.3,
        before=alone,
        after=again,
        reasons=joined,
        phases=2,
    )
    for n, member in enumerate(("c1", "c2", "c3")):
        t, g = 72 + 6 * n, 14 + 2 * n
        crashing = {"b1": {"orders": [0]}, "b3": {}, member: {"orders": [1]}}
        made.rebalance(
            "billing",
            (g, g + 1),
            began=(t - 2.5, t),
            ended=t + 1,
            before=again,
            after=crashing,
            reasons=joined,
        )
        made.rebalance(
            "billing",
            (g + 1, g + 2),
            began=(t + 0.5, t + 3),
            ended=t + 4,
            before=crashing,
            after=again,
            reasons=left,
        )
    made.rebalance(
        "search", (4, 5), began=(80, 80), ended=81.2, before={"s1": {"clicks": [0], "logs": [0]}},
        after={"s1": {"clicks": [0]}, "s2": {"logs": [0]}}, reasons=joined,
    )  # fmt: skip
    made.rebalance(
        "shop", (2, 3), began=(85, 85), ended=None, before={"t1": {"0": [0]}},
        after={"t1": {"0": [0, 1]}}, reasons=["partitions_changed"],
    )  # fmt: skip
    # Nobody polled its state: its begin has no bound.
    made.rebalance(
        "audit", (7, 8), began=(None, 95), ended=95.02,
        before={"a2": {"orders": [0]}, "a9": {"orders": [1]}}, after={"a2": {"orders": [0, 1]}},
        reasons=["static_member_left"], mode="eager",
    )  # fmt: skip
    return made


def costs() -> list[dict[str, Any]]:
    """Of the rebalance at 27 s, in which orders-1 changed hands; and of the next, after which
    nobody asked for lag.
    """
    common = {
        **CLUSTER,
        "group_id": "billing",
        "topic": "orders",
        "cadence_ms": 5_000,
        "updated_at": NOON,
    }
    of_27 = common | {"rebalance_id": "billing-12", "began_before": at(27), "ended_before": at(27)}
    of_34 = common | {
        "rebalance_id": "billing-14",
        "began_before": at(34.2),
        "ended_before": at(35.3),
    }
    done = {"pause_ms_min": 0, "reprocessed_min": 0, "close_reason": "recovered"}
    return [
        of_27
        | done
        | {
            "partition": 0,
            "commit_gap_ms": 5_000,
            "pause_ms_max": 5_000,
            "lag_before": 10,
            "lag_peak": 10,
        }
        | {
            "last_committed": 400,
            "last_commit_at": at(25),
            "first_committed": 420,
            "first_commit_at": at(30),
        }
        | {"lag_back_before": at(30), "reprocessed_max": 5, "lost_unread": 0},
        of_27
        | {"partition": 1, "commit_gap_ms": 24_000, "pause_ms_min": 14_000, "pause_ms_max": 24_000}
        | {
            "last_committed": 300,
            "last_commit_at": at(5),
            "first_committed": 280,
            "first_commit_at": at(29),
        }
        | {
            "lag_before": 12,
            "lag_peak": 90,
            "lag_peak_at": at(30),
            "lag_back_after": at(40),
            "lag_back_before": at(50),
        }
        | {
            "reprocessed_min": 20,
            "reprocessed_max": 90,
            "lost_unread": 0,
            "close_reason": "recovered",
        },
        of_34
        | {"partition": 1, "pause_unknown": "no_commit_after", "reprocessed_min": 0}
        | {
            "awaits_after": {"committed": 290, "at": at(33), "there_before": None, "set_to": None},
            "committed_before": 290,
        },
    ]


def events() -> list[dict[str, Any]]:
    common = {**CLUSTER, "source": "log", "log_partition": 0, "updated_at": NOON, "is_live": False}
    client_id, client_host, instance_id = MEMBERS["a2"]
    restart = {
        "id": "restart",
        "group_id": "audit",
        "event": "static_restart",
        "group_type": "classic",
        "began_after": at(30),
        "began_before": at(30),
        "generation": 7,
        "prev_member_id": "a1",
        "member_id": "a2",
        "instance_id": instance_id,
        "client_id": client_id,
        "client_host": client_host,
    }
    made = {
        "id": "made",
        "group_id": "fresh",
        "event": "created",
        "group_type": "share",
        "began_after": at(55),
        "began_before": at(55),
        "generation": 0,
    }
    return [{**common, **restart}, {**common, **made}]


def storms() -> list[dict[str, Any]]:
    common = {**CLUSTER, "group_id": "billing", "began_before": at(72), "updated_at": NOON}
    common |= {"source": "log", "is_live": False}
    client_id, client_host, _ = MEMBERS["c1"]
    return [
        {
            **common,
            "id": "storm",
            "kind": "storm",
            "last_before": at(87),
            "rebalances": 6,
            "per_hour": 1440.0,
        },
        {
            **common,
            "id": "loop",
            "kind": "crash_loop",
            "client_id": client_id,
            "client_host": client_host,
            "last_before": at(84),
            "rebalances": 3,
            "per_hour": 900.0,
        },
    ]


def lives() -> list[dict[str, Any]]:
    return [
        {
            **CLUSTER,
            "group_id": group,
            "group_type": type_,
            "source": "log",
            "log_partition": 0,
            "valid_from": at(55 if group == "fresh" else -3600),
            "known_since": at(55 if group == "fresh" else -3600),
            "updated_at": NOON,
            "is_live": True,
        }
        for group, type_ in TYPES.items()
    ]


def begins() -> list[dict[str, Any]]:
    """What polls saw of the rebalance of `billing` that the log told at 27 s, when it was over."""
    seen = {"began_after": at(10), "began_before": at(20.1), "ended_before": at(30.1)}
    return [{**CLUSTER, "group_id": "billing", **seen}]


def snapshots() -> list[dict[str, Any]]:
    """What each poll, 10 s apart, was told: group, state, its first poll and its last (None:
    still).
    """
    rows = []
    for group, state, first, last in (
        ("billing", "Stable", 0, 1),
        ("billing", "PreparingRebalance", 2, 2),
        ("billing", "Stable", 3, None),
        ("reports", "Stable", 0, 2),
        ("reports", "PreparingRebalance", 3, None),
        ("search", "Stable", 0, None),
        ("shop", "Stable", 0, 8),
        ("shop", "Reconciling", 9, None),
    ):
        row = {
            **CLUSTER,
            "group_id": group,
            "group_type": TYPES[group],
            "state": state,
            "members": [],
            "first_poll": f"{STREAM}/{first:012d}",
            "valid_from": at(10 * first + 0.1),
            "prev_poll": f"{STREAM}/{first - 1:012d}" if first else None,
            "prev_sent_at": at(10 * first - 10) if first else None,
            "interval_ms": 10_000,
        }
        if last is not None:
            row |= {
                "last_poll": f"{STREAM}/{last:012d}",
                "last_seen_at": at(10 * last + 0.1),
                "last_seen_sent_at": at(10 * last),
                "superseded_poll": f"{STREAM}/{last + 1:012d}",
                "valid_to": at(10 * last + 10.1),
            }
        rows.append(row)
    return rows


def lag_rows() -> list[dict[str, Any]]:
    """Offsets were asked for each minute, from ten minutes before noon on: of billing, which
    stopped when it lost its coordinator; of audit, which keeps up and stumbled; of shop, which is
    always behind; of reports, which was deleted.
    """
    rows = []
    told: dict[str, Callable[[int], tuple[int, int] | None]] = {
        "billing": lambda minute: (10 * min(minute, 10), 10 * minute),
        "audit": lambda minute: (minute - (minute == 6), minute),
        "shop": lambda minute: (2 * minute, 3 * minute + 100),
        "reports": lambda minute: (1, 2) if minute < 9 else None,
    }
    for group, offsets in told.items():
        memory, live, before = None, None, None
        for minute in range(12):
            micros = to_micros(at(60 * minute - 600))
            visit = Visit(f"{STREAM}/{minute:012}", micros, micros + 100_000, micros + 300_000)
            commit = offsets(minute)
            said = (
                {visit.poll: GroupAnswer(micros + 200_000, False, [Commit("clicks", 0, *commit)])}
                if commit
                else {}
            )
            memory, made = fold(
                Group("id-prod", "prod", group), memory, live, [visit], told=said, before=before
            )
            before = visit
            for row in made.lag:
                live = row if row["valid_to"] is None else None
            rows += [row | {"updated_at": at(0)} for row in made.lag]
    newest = {(row["group_id"], row["first_poll"]): row for row in rows}
    return list(newest.values())


def group_rows() -> dict[Table, list[dict[str, Any]]]:
    """Rows of tables of groups, and of those that polls of groups make."""
    made = history()
    return {
        groups.REBALANCES: made.rebalances,
        groups.REBALANCE_MEMBERS: made.members,
        groups.GROUP_EVENTS: events(),
        groups.REBALANCE_STORMS: storms(),
        groups.GROUP_LIVES: lives(),
        groups.REBALANCE_BEGINS: begins(),
        REBALANCE_COST: costs(),
        GROUP_LAG: lag_rows(),
        silver.GROUP_SNAPSHOTS: snapshots(),
    }
