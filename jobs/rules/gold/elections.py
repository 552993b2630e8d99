"""The leaders between one row of silver.partition_snapshots and the state before it.

KRaft raises the leader epoch by one for each record that sets a leader (PartitionChangeBuilder), so
the difference of two epochs counts what happened between two polls. From metadata.version 3.6-IV0
on an ISR that shrinks raises it no more (KAFKA-15021), which makes the count exact.
"""

from collections.abc import Iterable, Sequence

from jobs.rules.gold.news import Levels
from jobs.rules.gold.rows import PartitionState
from jobs.rules.silver.rows import PartitionSnapshot
from metadata_source.kafka_constants import EXACT_FROM_LEVEL, LISTENER_NOT_FOUND

NO_LEADER = -1


EXACT, UPPER_BOUND, UNRELIABLE = "exact", "upper_bound", "unreliable"


def epoch_semantics(row: PartitionState, levels: Levels) -> str:
    """How the difference of two leader epochs counts elections: exact | upper_bound | unreliable.

    A cancelled reassignment raises the epoch and may leave the same replicas in another order, so
    any other list of replicas makes it a bound. One record of the controllers' log hides nothing.
    """
    if "evidence" in row:
        return EXACT
    raised = raised_by(row)
    if raised is None or raised < 0 or (raised == 0 and row["leader"] != row["prev_leader"]):
        return UNRELIABLE
    return (
        EXACT
        if has_quiet_shrinks(levels) and row["replicas"] == row["prev_replicas"]
        else UPPER_BOUND
    )


def has_quiet_shrinks(levels: Levels) -> bool:
    """Whether an ISR that shrinks is known not to raise the epoch."""
    return levels.lower is not None and levels.lower >= EXACT_FROM_LEVEL


def is_isr_shrink(row: PartitionState, levels: Levels) -> bool:
    """Whether brokers that left the ISR account for the epochs, under one leader: one record each,
    at most.

    Below metadata.version 3.6-IV0 each record that shrinks the ISR raises the epoch by one
    (PartitionChangeBuilder); under ZooKeeper those of the controller do. What left and came back
    between the polls does not show.
    """
    is_same = (
        row["leader"] == row["prev_leader"] != NO_LEADER and row["replicas"] == row["prev_replicas"]
    )
    if not is_same or hides_leader(row) or has_quiet_shrinks(levels) or not has_isr(row):
        return False
    return 0 < (raised_by(row) or 0) <= len(left_isr(row))


def raised_by(row: PartitionState) -> int | None:
    """By how much the leader epoch rose; None where an epoch is not known."""
    before, now = row["prev_leader_epoch"], row["leader_epoch"]
    return None if before is None or now is None else now - before


def is_failover(row: PartitionState, levels: Levels) -> bool:
    """Whether the leader before failed, for it lost the partition to another than the preferred
    replica.

    The leader before may be well if an election brought the preferred replica, and the preferred
    replica failed. Those are two records, and the second takes the preferred replica out of the
    ISR. If other replicas left the ISR, and shrinks raise the epoch, there was a third record at
    least. If the epochs do not tell, a leader before that is in sync has not failed as far as
    anybody knows.
    """
    if not _has_lost(row) or is_preferred(row):
        return False
    raised = raised_by(row)
    if raised is None or raised < 1:
        return row["prev_leader"] not in (row["isr"] or ())
    others_shrank = not has_quiet_shrinks(levels) and left_isr(row) - _preferred_of(row)
    return raised < (3 if others_shrank else 2)


def hides_leader(row: PartitionSnapshot) -> bool:
    """Whether the answer now, or before, lacks the leader's listener: its -1 tells nothing."""
    return LISTENER_NOT_FOUND in (row["error_code"], row["prev_error_code"])


def has_isr(row: PartitionState) -> bool:
    """Whether the ISR means something, now and in the state before."""
    return row["isr"] is not None and row["prev_isr"] is not None


def has_moved(row: PartitionSnapshot) -> bool:
    """Whether another broker, or none, leads than in the state before. Not of the first state of a
    partition, nor where leaders mean nothing.
    """
    leaders = row["prev_leader"], row["leader"]
    return None not in leaders and leaders[0] != leaders[1] and not hides_leader(row)


def was_leaderless(row: PartitionState) -> bool:
    """Whether nobody led in the state before."""
    return bool(row["prev_leader"] == NO_LEADER and row["prev_error_code"] != LISTENER_NOT_FOUND)


def is_last_known(row: PartitionState, elr: Sequence[int], last_known_elr: Sequence[int]) -> bool:
    """Whether the last known leader, not eligible, came from none. Lists: of the state before."""
    leader = row["leader"]
    from_none = leader != NO_LEADER and row["prev_leader"] == NO_LEADER and not hides_leader(row)
    return from_none and leader in last_known_elr and leader not in elr


def is_preferred(row: PartitionState) -> bool:
    """Whether the leader is preferred, or was before a reassignment that came between the polls."""
    return row["leader"] in _preferred_of(row)


def preferred(replicas: Sequence[int] | None) -> int | None:
    """The preferred one of a list of replicas; None where there is none."""
    return replicas[0] if replicas else None


def _preferred_of(row: PartitionState) -> set[int | None]:
    """The preferred replicas of the list of replicas now, and of the list before."""
    return {preferred(row["replicas"]), preferred(row["prev_replicas"])}


def left_isr(row: PartitionState) -> set[int]:
    """The brokers that are out of the ISR, and were in it."""
    return set(row["prev_isr"] or ()) - set(row["isr"] or ())


def failed_leaders(rows: Iterable[PartitionState], levels: Levels) -> set[int]:
    """The brokers that lost a leadership as only one that failed does, by states that began with
    one poll.

    Preferred replicas are elected, and reassignments done, with the old leader alive. Where epochs
    are upper bounds, shrinks of the ISR may have raised them too.
    """
    return _leaders_before(
        row
        for row in filter(has_isr, rows)
        if is_failover(row, levels) or (_came_back(row) and epoch_semantics(row, levels) == EXACT)
    )


def _leaders_before(rows: Iterable[PartitionState]) -> set[int]:
    return {leader for row in rows if (leader := row["prev_leader"]) is not None}


def may_have_failed(rows: Iterable[PartitionState], levels: Levels) -> set[int]:
    """The brokers that may have failed, by states that began with one poll.

    KRaft takes a broker that fails, or is stopped, out of the ISR in the same record that moves the
    leader (PartitionChangeBuilder), but it may be back in sync when the next poll comes. So
    whatever a broker lost in the same poll counts: only one that failed loses what it leads to
    another than the preferred replica. These are rules of Kafka's controllers: where the ISR means
    nothing they do not hold.
    """
    return _leaders_before(
        row
        for row in filter(has_isr, rows)
        if (_came_back(row) and not is_isr_shrink(row, levels))
        or (_has_lost(row) and not (is_preferred(row) and row["prev_leader"] in (row["isr"] or ())))
    )


def _has_lost(row: PartitionState) -> bool:
    """Whether the leader before lost the partition, though it is a replica still."""
    leader = row["prev_leader"]
    return has_moved(row) and leader != NO_LEADER and leader in (row["replicas"] or ())


def _came_back(row: PartitionState) -> bool:
    """Whether the preferred replica, which only a broker that failed is not for long, lost the
    partition and got it back: it leads as before, two or more epochs later.
    """
    leaders = {row["leader"], row["prev_leader"], *_preferred_of(row)}
    return len(leaders) == 1 and (raised_by(row) or 0) >= 2
