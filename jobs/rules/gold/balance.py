"""The partitions that each broker leads over time: rows of gold.leader_balance, one whenever its numbers change."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from jobs.rules.gold.elections import LISTENER_NOT_FOUND, NO_LEADER, preferred
from jobs.rules.gold.news import PARTITIONS, TIMES, Poll, Row

LEADER_BALANCE = "gold.leader_balance"
COUNTS = ("leads", "preferred_for", "led_elsewhere")


def leader_balance(polls: Iterable[Poll], live: Iterable[Row]) -> list[Row]:
    """Rows of gold.leader_balance that are new or superseded after `polls`. `live`: the current row of each broker."""
    current = {row["broker_id"]: row for row in live}
    changed: dict[tuple[int, str], Row] = {}
    for poll in polls:
        for broker, steps in _steps(poll).items():
            if not any(steps.values()):
                continue
            before = current.get(broker)
            if before is not None:
                changed[broker, before["poll"]] = before | {"superseded_poll": poll.poll_id, "valid_to": poll.at}
            counts = {name: (before[name] if before else 0) + steps[name] for name in COUNTS}
            changed[broker, poll.poll_id] = current[broker] = _row(poll, broker, counts)
    return list(changed.values())


def _steps(poll: Poll) -> Mapping[int, Counter[str]]:
    """By how much the numbers of each broker rise, or fall, with a poll."""
    steps: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for sign, rows in ((1, poll.began[PARTITIONS]), (-1, poll.over[PARTITIONS])):
        for row in rows:
            step = sign * row.get(TIMES, 1)
            leader, first = row["leader"], preferred(row["replicas"])
            if leader != NO_LEADER:
                steps[leader]["leads"] += step
            if first is not None:
                steps[first]["preferred_for"] += step
                # Of a leader that hides behind a missing listener nothing is known.
                if leader != first and row["error_code"] != LISTENER_NOT_FOUND:
                    steps[first]["led_elsewhere"] += step
    return steps


def _row(poll: Poll, broker: int, counts: Mapping[str, int]) -> Row:
    some_row = (poll.began[PARTITIONS] or poll.over[PARTITIONS])[0]
    return {
        **{name: some_row[name] for name in ("cluster_id", "cluster")},
        "broker_id": broker,
        "poll": poll.poll_id,
        "valid_from": poll.at,
        **counts,
        "imbalance": counts["led_elsewhere"] / counts["preferred_for"] if counts["preferred_for"] else None,
        "superseded_poll": None,
        "valid_to": None,
    }
