"""Who left ISRs and why, partitions at levels, incidents of brokers: one partition, one row of
silver at a time.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise

from tests.support.oracles.held import Row, by_partition, held_at
from tests.support.oracles.leaders import came_back, is_exact, is_failover
from truth.model.spells import LEVELS, OF_MIN_ISR, Span, incidents, levels

FLAPS, FLAP_WINDOW = 3, timedelta(minutes=10)


def place_of(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def counted(topic_ids: Iterable[str | None]) -> int:
    """How many partitions these are, one after the other: one that gets an id is the same one."""
    return 1 + sum(one not in (None, other) for one, other in pairwise(topic_ids))


def look_ahead(row: Row) -> datetime:
    return row["valid_from"] + max(
        timedelta(seconds=15), 2 * timedelta(milliseconds=row["interval_ms"])
    )


def is_gone(brokers: list[Row], broker: int, poll: str, until: datetime) -> bool:
    rows = [row for row in brokers if row["broker_id"] == broker]
    if not held_at(rows, poll):
        return True
    return any(
        row["end_reason"] and row["superseded_poll"] > poll and row["valid_to"] <= until
        for row in rows
    )


def rack_of(brokers: list[Row], broker: int, poll: str) -> str | None:
    rows = [
        row
        for row in brokers
        if row["broker_id"] == broker
        and row["first_poll"] <= poll
        and (row["superseded_poll"] is None or row["superseded_poll"] >= poll)
    ]
    return max(rows, key=lambda row: row["first_poll"])["rack"] if rows else None


def isr_changes(silver: dict[str, list[Row]], now: datetime) -> list[Row]:
    """Rows of gold.isr_changes of one cluster. `now`: when its last poll was answered."""
    reassignments = by_partition(silver["silver.reassignments"])
    changes: list[Row] = []
    for place, rows in by_partition(silver["silver.partition_snapshots"]).items():
        changes += IsrOfPartition(place, silver["silver.broker_snapshots"]).changes(
            rows, reassignments[place]
        )
    for made in changes:
        if made["cause_due_at"] and made["broker_id"] not in made["replicas"]:
            made["cause"] = "reassignment"
    for made in changes:
        if made["cause_due_at"] and made["cause"] is None and made["cause_due_at"] < now:
            made["cause"] = cause(made, changes, silver)
        if made["change"] == "left":
            times = [
                c["began_before"]
                for c in changes
                if c["change"] == "left"
                and all(c[k] == made[k] for k in ("topic", "partition", "broker_id"))
            ]
            recent = [
                t for t in times if made["began_before"] - FLAP_WINDOW < t <= made["began_before"]
            ]
            made["is_flapping"] = len(recent) >= FLAPS
    return changes


class IsrOfPartition:
    """Walks through the states of one partition, and knows who is out."""

    def __init__(self, place: tuple[str, int], brokers: list[Row]) -> None:
        self.topic, self.partition = place
        self.brokers = brokers
        self.out: dict[int, Row] = {}
        self.made: list[Row] = []

    def changes(self, rows: list[Row], reassignments: list[Row]) -> list[Row]:
        for row in rows:
            if row["prev_isr"] is None:
                adding = {
                    b
                    for r in held_at(reassignments, row["first_poll"])
                    for b in r["adding_replicas"]
                }
                for broker in set(row["replicas"]) - set(row["isr"]) - adding:
                    self.out[broker] = self.change(row, broker, "initially_out")
            else:
                self.follow(
                    row,
                    {
                        b
                        for r in held_at(reassignments, row["first_poll"])
                        for b in r["adding_replicas"]
                    },
                )
            if row["end_reason"]:
                for broker in list(self.out):
                    self.end(
                        broker, row["superseded_poll"], row["last_seen_sent_at"], row["valid_to"]
                    )
                    self.out.pop(broker)["end_reason"] = row["end_reason"]
        return self.made

    def follow(self, row: Row, adding: set[int]) -> None:
        isr, began = set(row["isr"]), (row["first_poll"], row["prev_sent_at"], row["valid_from"])
        # A replica is taken away when all that were added for it are in sync, if only for a moment.
        been = set(row["prev_isr"]) | self.out.keys()
        is_over = any(
            broker in been and broker not in row["replicas"] for broker in row["prev_replicas"]
        )
        unseen = [
            b
            for b in row["replicas"]
            if is_over and b not in been and b not in isr and b not in adding
        ]
        for broker in isr - set(row["prev_isr"]):
            self.change(row, broker, "rejoined" if broker in self.out else "joined")
        for broker in list(self.out):
            if broker in isr or broker not in row["replicas"]:
                self.end(broker, *began)
                self.out.pop(broker)["end_reason"] = "rejoined" if broker in isr else "removed"
        for broker in set(row["prev_isr"]) - isr | set(unseen):
            self.out[broker] = self.change(row, broker, "left")
            if broker not in row["replicas"]:
                self.end(broker, *began)
                self.out.pop(broker)["end_reason"] = "removed"

    def end(self, broker: int, poll: str, after: datetime, by: datetime) -> None:
        self.out[broker].update(ended_poll=poll, ended_after=after, ended_before=by)

    def change(self, row: Row, broker: int, what: str) -> Row:
        made = {
            "topic": self.topic,
            "partition": self.partition,
            "topic_id": row["topic_id"],
            "broker_id": broker,
            "rack": rack_of(self.brokers, broker, row["first_poll"]),
            "change": what,
            **{
                name: row[name] for name in ("leader", "prev_leader", "isr", "prev_isr", "replicas")
            },
            "poll": row["first_poll"],
            "source": "polls",
            "began_after": row["prev_sent_at"],
            "began_before": row["valid_from"],
            **dict.fromkeys(
                ("ended_poll", "ended_after", "ended_before", "end_reason", "cause", "is_flapping")
            ),
            "cause_due_at": look_ahead(row) if what in {"left", "initially_out"} else None,
        }
        self.made.append(made)
        return made


def cause(made: Row, changes: list[Row], silver: dict[str, list[Row]]) -> str:
    shown = [
        row
        for row in silver["silver.partition_snapshots"]
        if (row["topic"], row["partition"]) == (made["topic"], made["partition"])
        and row["first_poll"] >= made["poll"]
        and row["valid_from"] <= made["cause_due_at"]
    ]
    broker = made["broker_id"]
    offline = any(broker in (row["offline_replicas"] or []) for row in shown)
    failed = any(
        row["prev_leader"] == broker
        and (
            is_failover(row, silver["silver.cluster_snapshots"])
            or (came_back(row) and is_exact(row, silver["silver.cluster_snapshots"]))
        )
        and row["first_poll"] >= made["poll"]
        and row["valid_from"] <= made["cause_due_at"]
        for row in silver["silver.partition_snapshots"]
    )
    gone = is_gone(silver["silver.broker_snapshots"], broker, made["poll"], made["cause_due_at"])
    back = any(broker in row["isr"] for row in shown if row["first_poll"] > made["poll"])
    if offline and not gone and not back:
        return "log_dir_failed"
    if failed or offline or gone:
        return "broker_down"
    together = {
        c["broker_id"]
        for c in changes
        if c["change"] == "left"
        and c["broker_id"] in c["replicas"]
        and (c["poll"], c["leader"]) == (made["poll"], made["leader"])
    }
    stalled = made["isr"] == [made["leader"]] and len(together) > 1 and back
    return "leader_stalled" if stalled else "lagging"


def isr_episodes(silver: dict[str, list[Row]], changes: list[Row]) -> list[Row]:
    """Rows of gold.isr_episodes of one cluster."""
    episodes: list[Row] = []
    partitions = by_partition(silver["silver.partition_snapshots"])
    for place, rows in partitions.items():
        configs = sorted(
            (r for r in silver["silver.topic_configs"] if r["topic"] == place[0]),
            key=lambda r: r["first_poll"],
        )
        absences = [
            c
            for c in changes
            if (c["topic"], c["partition"]) == place
            and c["cause_due_at"]
            and c["broker_id"] in c["replicas"]
        ]
        for level in LEVELS:
            polls = marks_of(rows, configs if level in {"at_min_isr", "under_min_isr"} else [])
            now: Row | None = None
            state: Row | None = None
            for (poll, order), bounds in sorted(polls.items()):
                afters = [after for after, _, _ in bounds]
                after = None if None in afters else min(afters)
                by = max(by for _, by, _ in bounds)
                end_reason = next((as_ for _, _, as_ in bounds if as_), None)
                if order == 0:
                    if now:
                        now.update(
                            ended_poll=poll,
                            ended_after=after,
                            ended_before=by,
                            end_reason=end_reason,
                        )
                    now = None
                    continue
                state = next((row for row in rows if row["first_poll"] == poll), state)
                if state is None:
                    continue
                gone = state["end_reason"] and state["superseded_poll"] <= poll
                out = sorted(
                    c["broker_id"]
                    for c in absences
                    if c["poll"] <= state["first_poll"]
                    and (c["ended_poll"] is None or c["ended_poll"] > state["first_poll"])
                )
                setting = next((c["min_insync_replicas"] for c in held_at(configs, poll)), None)
                min_isr = effective_min_isr(
                    setting, state, silver["silver.cluster_snapshots"], poll
                )
                if level in {"under_replicated", "offline"}:
                    min_isr = None
                at = False if gone else is_at(level, state, out, min_isr)
                if at and now is None:
                    now = {
                        "topic": place[0],
                        "partition": place[1],
                        "topic_id": state["topic_id"],
                        "level": level,
                        "poll": poll,
                        "source": "polls",
                        "began_after": after,
                        "began_before": by,
                        **dict.fromkeys(
                            ("ended_poll", "ended_after", "ended_before", "end_reason")
                        ),
                        "brokers_out": [],
                        "smallest_isr": len(state["isr"]),
                        "min_isr": min_isr,
                    }
                    episodes.append(now)
                elif now and not at:
                    now.update(
                        ended_poll=poll,
                        ended_after=after,
                        ended_before=by,
                        end_reason="unknown" if at is None else None,
                    )
                    now = None
                if now:
                    now["brokers_out"] = sorted({*now["brokers_out"], *out})
                    now["smallest_isr"] = min(now["smallest_isr"], len(state["isr"]))
                    now["min_isr"] = None if min_isr is None else max(min_isr, now["min_isr"] or 0)
    return episodes


def marks_of(rows: list[Row], configs: list[Row]) -> dict[tuple[str, int], list[tuple]]:
    """(poll, 0 for the end of a partition, else 1) -> the bounds of what changed there, and as what
    it ended.
    """
    polls: dict[tuple[str, int], list[tuple]] = defaultdict(list)
    for row in rows:
        polls[row["first_poll"], 1].append((row["prev_sent_at"], row["valid_from"], None))
        if row["end_reason"]:
            polls[row["superseded_poll"], 0].append(
                (row["last_seen_sent_at"], row["valid_to"], row["end_reason"])
            )
    for config in configs:
        polls[config["first_poll"], 1].append((config["prev_sent_at"], config["valid_from"], None))
        if config["end_reason"]:
            polls[config["superseded_poll"], 1].append(
                (config["last_seen_sent_at"], config["valid_to"], None)
            )
    return polls


def effective_min_isr(
    setting: int | None, state: Row, clusters: list[Row], poll: str
) -> int | None:
    level = next((row["metadata_version_level"] for row in held_at(clusters, poll)), None)
    if setting is None:
        return None
    highest = next((row["metadata_version_highest"] for row in held_at(clusters, poll)), None)
    if setting <= len(state["replicas"]):
        return setting
    if (level is not None and level >= 15) or (highest is not None and highest >= 15):
        return len(state["replicas"])
    return setting if highest is not None else None


def is_at(level: str, state: Row, out: list[int], min_isr: int | None) -> bool | None:
    has_leader = state["leader"] != -1 or state["error_code"] == 72
    if level in OF_MIN_ISR and has_leader and min_isr is None:
        return None
    return level in levels(len(state["isr"]), min_isr or 0, out, has_leader=has_leader)


def broker_incidents(changes: list[Row], episodes: list[Row]) -> list[Row]:
    """Rows of gold.broker_incidents of one cluster."""
    absences = sorted(
        (c for c in changes if c["cause_due_at"] and c["broker_id"] in c["replicas"]),
        key=lambda c: (c["began_before"], c["poll"]),
    )
    return [
        incident(broker, group, episodes)
        for broker in {c["broker_id"] for c in absences}
        for group in incidents(
            (c for c in absences if c["broker_id"] == broker),
            lambda c: Span(c["began_before"], c["ended_before"]),
        )
    ]


def incident(broker: int, group: list[Row], episodes: list[Row]) -> Row:
    first, places = group[0], {place_of(c) for c in group}
    last = (
        None
        if any(c["ended_before"] is None for c in group)
        else max(group, key=lambda c: (c["ended_before"], c["ended_poll"]))
    )
    at = [
        LEVELS.index(e["level"])
        for c in group
        for e in episodes
        if (e["topic"], e["partition"]) == (c["topic"], c["partition"])
        and (e["ended_poll"] is None or e["ended_poll"] > c["poll"])
        and (c["ended_poll"] is None or e["poll"] < c["ended_poll"])
    ]
    return {
        "broker_id": broker,
        "poll": first["poll"],
        "source": "polls",
        "began_before": first["began_before"],
        **{name: last and last[name] for name in ("ended_poll", "ended_after", "ended_before")},
        "partitions": sum(
            counted(c["topic_id"] for c in group if place_of(c) == place) for place in places
        ),
        "first_out_before": first["began_before"],
        "last_out_before": max(c["began_before"] for c in group),
        "causes": sorted({c["cause"] for c in group if c["cause"]}),
        "worst_level": LEVELS[max(at, default=0)],
    }
