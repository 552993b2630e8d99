"""The rules of gold a second time, in the dumbest way: one partition, one row of silver at a time,
lists and dictionaries.

Rows of silver come in as dictionaries by full table names, and rows of gold go out so, without ids,
durations and `updated_at`.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from schemas.gold import LEVELS

Row = dict[str, Any]
FLAPS, FLAP_WINDOW = 3, timedelta(minutes=10)


def by_partition(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["first_poll"]):
        found[row["topic"], row["partition"]].append(row)
    return found


def place_of(row: Row) -> tuple[str, int]:
    return row["topic"], row["partition"]


def counted(topic_ids: Iterable[str | None]) -> int:
    """How many partitions these are, one after the other: one that gets an id is the same one."""
    return 1 + sum(one not in (None, other) for one, other in pairwise(topic_ids))


def look_ahead(row: Row) -> datetime:
    return row["valid_from"] + max(
        timedelta(seconds=15), 2 * timedelta(milliseconds=row["interval_ms"])
    )


def held_at(rows: Iterable[Row], poll: str) -> list[Row]:
    return [
        r
        for r in rows
        if r["first_poll"] <= poll and (r["superseded_poll"] is None or r["superseded_poll"] > poll)
    ]


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
    if level == "under_replicated":
        return bool(out)
    if level == "offline":
        return not has_leader
    if not has_leader:
        return False
    if min_isr is None:
        return None
    return len(state["isr"]) == min_isr if level == "at_min_isr" else len(state["isr"]) < min_isr


def broker_incidents(changes: list[Row], episodes: list[Row]) -> list[Row]:
    """Rows of gold.broker_incidents of one cluster."""
    incidents: list[Row] = []
    absences = [c for c in changes if c["cause_due_at"] and c["broker_id"] in c["replicas"]]
    for broker in {c["broker_id"] for c in absences}:
        together: list[Row] = []
        until: datetime | None = None
        groups: list[list[Row]] = []
        for made in sorted(
            (c for c in absences if c["broker_id"] == broker),
            key=lambda c: (c["began_before"], c["poll"]),
        ):
            if not together or (
                until is not None and made["began_before"] >= until + timedelta(seconds=60)
            ):
                together, until = [], datetime.min.replace(tzinfo=made["began_before"].tzinfo)
                groups.append(together)
            together.append(made)
            until = (
                None
                if until is None or made["ended_before"] is None
                else max(until, made["ended_before"])
            )
        for group in groups:
            first, places = group[0], {place_of(c) for c in group}
            last = (
                None
                if any(c["ended_before"] is None for c in group)
                else max(group, key=lambda c: (c["ended_before"], c["ended_poll"]))
            )
            levels = [
                LEVELS.index(e["level"])
                for c in group
                for e in episodes
                if (e["topic"], e["partition"]) == (c["topic"], c["partition"])
                and (e["ended_poll"] is None or e["ended_poll"] > c["poll"])
                and (c["ended_poll"] is None or e["poll"] < c["ended_poll"])
            ]
            incidents.append(
                {
                    "broker_id": broker,
                    "poll": first["poll"],
                    "source": "polls",
                    "began_before": first["began_before"],
                    **{
                        name: last and last[name]
                        for name in ("ended_poll", "ended_after", "ended_before")
                    },
                    "partitions": sum(
                        counted(c["topic_id"] for c in group if place_of(c) == place)
                        for place in places
                    ),
                    "first_out_before": first["began_before"],
                    "last_out_before": max(c["began_before"] for c in group),
                    "causes": sorted({c["cause"] for c in group if c["cause"]}),
                    "worst_level": LEVELS[max(levels, default=0)],
                }
            )
    return incidents


def leader_changes(silver: dict[str, list[Row]]) -> list[Row]:
    """Rows of gold.leader_changes of one cluster."""
    changes = []
    elr = by_partition(silver["silver.partition_elr"])
    for place, rows in by_partition(silver["silver.partition_snapshots"]).items():
        for i, row in enumerate(rows):
            old, new = row["prev_leader"], row["leader"]
            if old is None:
                continue
            epochs = row["prev_leader_epoch"], row["leader_epoch"]
            raised = None if None in epochs else epochs[1] - epochs[0]
            hidden_listener = 72 in {row["error_code"], row["prev_error_code"]}
            visible = int(old != new and not hidden_listener)
            if not visible and not (raised or 0) > 0:
                continue
            (levels,) = held_at(silver["silver.cluster_snapshots"], row["first_poll"])
            if raised is None or raised < 0 or (old != new and raised == 0):
                semantics, bounds, hidden = "unreliable", (visible, None), None
            elif is_exact(row, silver["silver.cluster_snapshots"]):
                semantics, bounds, hidden = "exact", (raised, raised), raised - visible
            else:
                semantics, bounds, hidden = "upper_bound", (visible, max(raised, visible)), None
            if semantics != "unreliable" and old == new and raised == 1 and not hidden_listener:
                # Away and back again are two steps.
                bounds, hidden = (0, 0), 0
            before = rows[i - 1]
            leaderless = leaderless_bounds(row, before, bounds[1])
            # The eligible leaders of another ISR may be others, and so may those of another topic.
            life = rows[max(n for n in range(i) if rows[n]["prev_replicas"] is None) : i]
            same = [
                r
                for r in life
                if all(r[n] == before[n] for n in ("leader", "leader_epoch", "isr", "replicas"))
            ]
            unlike = [r["first_poll"] for r in life if r not in same]
            since = min(
                r["first_poll"] for r in same if not unlike or r["first_poll"] > max(unlike)
            )
            lists = [
                # Told after the poll before, they may be of the state after: an election takes the
                # new leader out.
                (r["elr"], r["last_known_elr"], r["valid_from"] > row["prev_sent_at"])
                for r in elr[place]
                if since <= r["first_poll"] < row["first_poll"]
                and (r["superseded_poll"] is None or r["superseded_poll"] >= row["first_poll"])
            ]
            known = lists[-1] if lists else None
            if known and new != -1 and known[2] and new not in known[0] and new not in known[1]:
                known = None
            changes.append(
                {
                    "topic": place[0],
                    "partition": place[1],
                    **{
                        name: row[name]
                        for name in (
                            "topic_id",
                            "prev_leader",
                            "leader",
                            "prev_leader_epoch",
                            "leader_epoch",
                            "replicas",
                            "prev_isr",
                            "isr",
                        )
                    },
                    "poll": row["first_poll"],
                    "source": "polls",
                    "began_after": row["prev_sent_at"],
                    "began_before": row["valid_from"],
                    "changes_min": bounds[0],
                    "changes_max": bounds[1],
                    "changes_hidden": hidden,
                    "epoch_semantics": semantics,
                    "reason": reason(
                        row,
                        [
                            r
                            for r in silver["silver.partition_snapshots"]
                            if r["first_poll"] == row["first_poll"]
                        ],
                        silver["silver.cluster_snapshots"],
                        bounds[1],
                    ),
                    "unclean": unclean(row, levels["elr_version_level"], known),
                    "is_last_known_leader": None
                    if known and may_have_been_killed(row, known)
                    else known and is_from_none(row) and new in known[1] and new not in known[0],
                    "leaderless_ms_min": leaderless[0],
                    "leaderless_ms_max": leaderless[1],
                }
            )
    return changes


def is_from_none(row: Row) -> bool:
    return (
        row["prev_leader"] == -1
        and row["leader"] != -1
        and 72 not in {row["error_code"], row["prev_error_code"]}
    )


def leaderless_bounds(row: Row, before: Row, changes_max: int | None) -> tuple[int, int | None]:
    def ms(begin: datetime | None, end: datetime) -> int | None:
        return None if begin is None else (end - begin) // timedelta(milliseconds=1)

    if row["prev_leader"] == -1 and row["prev_error_code"] != 72:
        shortest = ms(before["valid_from"], row["prev_sent_at"])
        return max(0, shortest or 0), ms(before["prev_sent_at"], row["valid_from"])
    return 0, ms(
        row["prev_sent_at"], row["valid_from"]
    ) if changes_max is None or changes_max > 1 else 0


def lost(row: Row) -> bool:
    """The leader lost the partition, and is a replica still."""
    old, new = row["prev_leader"], row["leader"]
    return (
        old not in {None, -1, new}
        and 72 not in {row["error_code"], row["prev_error_code"]}
        and old in row["replicas"]
    )


def is_preferred(row: Row) -> bool:
    return row["leader"] in {row["replicas"][0], row["prev_replicas"][0]}


def is_exact(row: Row, clusters: list[Row]) -> bool:
    """Every step of the epoch is a change of the leader, where it rose at all."""
    return has_quiet_shrinks(row, clusters) and row["replicas"] == row["prev_replicas"]


def has_quiet_shrinks(row: Row, clusters: list[Row]) -> bool:
    """No shrink of an ISR raises the epoch."""
    (levels,) = held_at(clusters, row["first_poll"])
    level = levels["metadata_version_level"]
    if levels["first_poll"] == row["first_poll"]:
        pair = level, levels["prev_metadata_version_level"]
        level = None if None in pair else min(pair)
    return level is not None and level >= 12


def is_shrunk(row: Row, clusters: list[Row]) -> bool:
    """At least as many brokers left the ISR as the epoch rose by, and nothing else is to be
    seen.
    """
    same = all(row[name] == row[f"prev_{name}"] for name in ("leader", "replicas"))
    if not same or row["leader"] == -1 or 72 in {row["error_code"], row["prev_error_code"]}:
        return False
    epochs = row["prev_leader_epoch"], row["leader_epoch"]
    if None in epochs or epochs[1] <= epochs[0] or has_quiet_shrinks(row, clusters):
        return False
    return len([b for b in row["prev_isr"] if b not in row["isr"]]) >= epochs[1] - epochs[0]


def came_back(row: Row) -> bool:
    """The preferred replica leads as before, but has lost the partition in between."""
    old, new = row["prev_leader"], row["leader"]
    if old != new or new == -1 or 72 in {row["error_code"], row["prev_error_code"]}:
        return False
    epochs = row["prev_leader_epoch"], row["leader_epoch"]
    is_its_own = row["replicas"][0] == row["prev_replicas"][0] == new
    return is_its_own and None not in epochs and epochs[1] - epochs[0] >= 2


def reason(row: Row, of_poll: list[Row], clusters: list[Row], changes_max: int | None) -> str:
    old, new = row["prev_leader"], row["leader"]
    if is_shrunk(row, clusters):
        return "isr_shrink"
    if old == new or 72 in {row["error_code"], row["prev_error_code"]}:
        return "unknown"
    if new == -1:
        return "offline"
    if old == -1:
        return "recovery"
    moves = [r for r in of_poll if lost(r)]
    failed = {
        r["prev_leader"] for r in moves if not is_preferred(r) or r["prev_leader"] not in r["isr"]
    }
    failed |= {r["leader"] for r in of_poll if came_back(r) and not is_shrunk(r, clusters)}
    if old not in row["replicas"]:
        return (
            "unknown"
            if old in failed or (is_preferred(row) and changes_max != 1)
            else "reassignment"
        )
    if not is_preferred(row):
        return "failover" if is_failover(row, clusters) else "unknown"
    return "unknown" if old in failed else "preferred"


def steps(row: Row) -> int | None:
    """How many records have set the leader, or raised its epoch; None where that is not known."""
    epochs = row["prev_leader_epoch"], row["leader_epoch"]
    return None if None in epochs else epochs[1] - epochs[0]


def is_failover(row: Row, clusters: list[Row]) -> bool:
    """The leader before lost it, not to the preferred replica, and that one has not led in between:
    no step is left.
    """
    if not lost(row) or is_preferred(row):
        return False
    count = steps(row)
    if count is None or count <= 0:
        return row["prev_leader"] not in row["isr"]
    firsts = (row["replicas"][0], row["prev_replicas"][0])
    others_left = [b for b in row["prev_isr"] if b not in row["isr"] and b not in firsts]
    return count == 1 or (count == 2 and bool(others_left) and not has_quiet_shrinks(row, clusters))


def unclean(
    row: Row, elr_level: int | None, known: tuple[list[int], list[int], bool] | None
) -> str | None:
    old, new = row["prev_leader"], row["leader"]
    if row["error_code"] == 72:
        return None
    if new == -1:
        return "no"
    has_elr = elr_level != 0 or not row["prev_isr"]  # no ISR is empty without it
    is_in_known_list = has_elr and known is not None and new in known[0]
    if (new == old or new in row["prev_isr"] or is_in_known_list) and (steps(row) or 0) > 1:
        return None
    if new == old or new in row["prev_isr"]:
        return "no"
    if not has_elr:
        epochs = row["prev_leader_epoch"], row["leader_epoch"]
        one_step = None not in epochs and epochs[1] - epochs[0] == 1
        return "proven" if old == -1 and row["prev_error_code"] != 72 and one_step else "suspected"
    if known is None or may_have_been_killed(row, known):
        return None
    return "no" if new in known[0] else "suspected"


def may_have_been_killed(row: Row, known: tuple[list[int], list[int], bool]) -> bool:
    """The new leader was in the ELR while it was down: nobody sees whether it still was when it was
    back.
    """
    return row["leader"] in known[0] and row["leader"] in (row["prev_offline_replicas"] or [])


def leader_balance(silver: dict[str, list[Row]]) -> list[Row]:
    """Rows of gold.leader_balance of one cluster: counted anew at each poll."""
    rows = silver["silver.partition_snapshots"]
    polls: dict[str, datetime] = {}
    for row in rows:
        polls[row["first_poll"]] = row["valid_from"]
        if row["superseded_poll"]:
            polls[row["superseded_poll"]] = row["valid_to"]
    balance: list[Row] = []
    current: dict[int, Row] = {}
    for poll, at in sorted(polls.items()):
        held = held_at(rows, poll)
        leaders = [row["leader"] for row in held if row["leader"] != -1]
        preferred = [row["replicas"][0] for row in held]
        elsewhere = [
            row["replicas"][0]
            for row in held
            if row["leader"] != row["replicas"][0] and row["error_code"] != 72
        ]
        for broker in {*leaders, *preferred, *current}:
            counts = {
                "leads": leaders.count(broker),
                "preferred_for": preferred.count(broker),
                "led_elsewhere": elsewhere.count(broker),
            }
            before = current.get(broker)
            if before and all(before[name] == counts[name] for name in counts):
                continue
            if before:
                before.update(superseded_poll=poll, valid_to=at)
            imbalance = (
                counts["led_elsewhere"] / counts["preferred_for"]
                if counts["preferred_for"]
                else None
            )
            current[broker] = {
                "broker_id": broker,
                "poll": poll,
                "source": "polls",
                "valid_from": at,
                **counts,
                "imbalance": imbalance,
            }
            current[broker].update(superseded_poll=None, valid_to=None)
            balance.append(current[broker])
    return balance
