"""The stretches in which some ISR lacked a broker: rows of gold.broker_incidents.

Absences of a replica that are less than a minute apart belong together, in whichever partitions they are.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from jobs.rules.gold.bounds import NOT_ENDED, Bounds, end
from jobs.rules.gold.news import Row
from jobs.rules.ids import row_id
from schemas.gold import LEVELS

MERGED_WITHIN = timedelta(seconds=60)
"""Stretches of a broker's absence that are less apart are one incident."""


def may_go_on(incident: Row, at: datetime) -> bool:
    """Whether an absence that a poll shows, answered at `at` or later, may belong to it."""
    return incident["ended_before"] is None or at < joined_until(incident)


def joined_until(incident: Row) -> datetime:
    """The time at which an incident that has ended is over for good."""
    over: datetime = incident["ended_before"] + MERGED_WITHIN
    return over


def begin(first: Row) -> Row:
    """The incident that begins with an absence, one of those of its poll; they are joined to it later."""
    return {
        "id": row_id(first["cluster_id"], first["broker_id"], first["poll"]),
        **{name: first[name] for name in ("cluster_id", "cluster", "broker_id", "rack")},
        **{name: first[name] for name in ("poll", "began_after", "began_before")},
        **NOT_ENDED,
        "partitions": 0,
        "partitions_out": 0,
        "first_out_before": first["began_before"],
        "last_out_before": first["began_before"],
        "causes": [],
        "worst_level": LEVELS[0],
        "is_live": True,
    }


def join(incident: Row, absences: Sequence[Row], partitions: int) -> None:
    """Add absences that begin with one poll. `partitions`: of how many partitions it had none before."""
    incident["partitions"] += partitions
    incident["partitions_out"] += len(absences)
    incident["last_out_before"] = absences[0]["began_before"]
    incident |= NOT_ENDED


def leave(incident: Row, ended: Sequence[Row]) -> None:
    """Take off absences that end with one poll: with the last, the incident ends."""
    incident["partitions_out"] -= len(ended)
    if incident["partitions_out"] == 0:
        after = max((row["ended_after"] for row in ended if row["ended_after"] is not None), default=None)
        end(incident, Bounds(ended[0]["ended_poll"], after, ended[0]["ended_before"]))
