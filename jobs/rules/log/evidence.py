"""The facts of the controllers' log about a record that changed a partition, beside the state that
it began.

Controllers write what they change of partitions before they fence a broker, or let it go, in one
atomic batch (``ReplicationControlManager.handleBrokerFenced``): at one time. So facts about a
broker are those at the end of that moment. Which rows of silver are exact says their ids: one that
began with a record that follows the one before it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from jobs.rules.gold.news import PARTITION_ELR, PARTITIONS, REASSIGNMENTS, Row, partition_key
from jobs.rules.gold.rows import Evidence
from jobs.rules.ids import offset_of
from schemas import silver

BROKERS = silver.BROKER_REGISTRATIONS.full_name
REGISTRATIONS = silver.PARTITION_REGISTRATIONS.full_name


def with_evidence(rows: Mapping[str, Sequence[Row]], since: str = "") -> list[Row]:
    """The rows of silver.partition_snapshots among `rows`, by table, those that began with one
    record after `since` with its `Evidence`.

    `rows`: of partitions, and the rows of the other tables that the log tells that held when these
    began, or began or ended with them.
    """
    brokers = _by(rows, BROKERS, itemgetter("broker_id"))
    tables = (REASSIGNMENTS, PARTITION_ELR, REGISTRATIONS)
    reassigned, eligible, registered = (_by(rows, table, partition_key) for table in tables)

    def evidence(row: Row) -> Evidence:
        key, poll = partition_key(row), row["first_poll"]
        elr = _before(eligible.get(key, ()), poll) or _NO_ELR
        return Evidence(
            _has_lost_leader(row, brokers),
            _completes(_before(reassigned.get(key, ()), poll), row),
            {name: elr[name] for name in _NO_ELR},
            any(
                each["first_poll"] == poll and _is_recovery(each)
                for each in registered.get(key, ())
            ),
        )

    partitions = rows.get(PARTITIONS, ())
    return [
        {**row, "evidence": evidence(row)}
        if row["first_poll"] > since and _is_of_one_record(row)
        else row
        for row in partitions
    ]


_NO_ELR: Row = {"elr": (), "last_known_elr": ()}


def _by(rows: Mapping[str, Iterable[Row]], table: str, key: Any) -> dict[Any, list[Row]]:
    """Rows of a table by key, in the order in which they began."""
    found = defaultdict(list)
    for row in sorted(rows.get(table, ()), key=itemgetter("first_poll")):
        found[key(row)].append(row)
    return found


def _is_of_one_record(row: Row) -> bool:
    """Whether it followed the state of the record just before: no record between is hidden."""
    offset, before = offset_of(row["first_poll"]), offset_of(row["prev_poll"])
    return row["prev_leader"] is not None and offset is not None and before == offset - 1


def _before(rows: Sequence[Row], poll: str) -> Row | None:
    """The row, of one thing, that held until an observation."""
    index = bisect_right(rows, poll, key=itemgetter("first_poll"))
    rows = [row for row in rows[:index] if row["first_poll"] < poll]
    return rows[-1] if rows and (rows[-1]["superseded_poll"] or poll) >= poll else None


def _has_lost_leader(row: Row, brokers: Mapping[int, Sequence[Row]]) -> bool:
    leader = row["prev_leader"]
    if leader in row["offline_replicas"]:
        return True
    began = [each for each in brokers.get(leader, ()) if each["valid_from"] <= row["valid_from"]]
    if not began or (
        began[-1]["valid_to"] is not None and began[-1]["valid_to"] <= row["valid_from"]
    ):
        return True  # It is not registered.
    return bool(began[-1]["is_fenced"] or began[-1]["in_controlled_shutdown"])


def _completes(reassignment: Row | None, row: Row) -> bool:
    """Whether a reassignment that lasted until the record was completed by it, rather than
    cancelled or replaced (``PartitionReassignmentReplicas.maybeCompleteReassignment``).
    """
    if (
        reassignment is None
        or reassignment["superseded_poll"] != row["first_poll"]
        or not reassignment["end_reason"]
    ):
        return False
    replicas = set(row["replicas"])
    return replicas.issuperset(reassignment["adding_replicas"]) and replicas.isdisjoint(
        reassignment["removing_replicas"]
    )


def _is_recovery(registration: Row) -> bool:
    return bool(registration["is_recovering"] and not registration["prev_is_recovering"])
