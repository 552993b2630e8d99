"""Changes of leaders, and how many partitions each broker leads: one row of silver at a time."""

from collections import Counter
from datetime import datetime, timedelta

from tests.support.oracles.held import Row, by_partition, held_at
from truth.model.spells import BALANCE, LED_ELSEWHERE, PREFERRED_FOR, counted


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
    """Rows of gold.leader_balance of one cluster: counted at each poll."""
    rows = silver["silver.partition_snapshots"]
    polls: dict[str, datetime] = {}
    for row in rows:
        polls[row["first_poll"]] = row["valid_from"]
        if row["superseded_poll"]:
            polls[row["superseded_poll"]] = row["valid_to"]
    balance: list[Row] = []
    current: dict[int, Row] = {}
    for poll, at in sorted(polls.items()):
        numbers = Counter(
            (broker, what)
            for row in held_at(rows, poll)
            for broker, what in counted(row["leader"], row["replicas"][0])
            if what != LED_ELSEWHERE or row["error_code"] != 72
        )
        for broker in {broker for broker, _ in numbers} | current.keys():
            counts = {what: numbers[broker, what] for what in BALANCE}
            before = current.get(broker)
            if before and all(before[name] == counts[name] for name in counts):
                continue
            if before:
                before.update(superseded_poll=poll, valid_to=at)
            of = counts[PREFERRED_FOR]
            current[broker] = {
                "broker_id": broker,
                "poll": poll,
                "source": "polls",
                "valid_from": at,
                **counts,
                "imbalance": counts[LED_ELSEWHERE] / of if of else None,
            }
            current[broker].update(superseded_poll=None, valid_to=None)
            balance.append(current[broker])
    return balance
