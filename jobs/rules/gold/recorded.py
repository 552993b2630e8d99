"""The change of a leader by one record of the controllers' log: why, and whether it was clean.
Nothing is inferred from what came before or after.
"""

from jobs.rules.gold.elections import NO_LEADER, is_last_known, left_isr, preferred
from jobs.rules.gold.rows import Evidence, PartitionState, Why


def why(row: PartitionState, evidence: Evidence) -> Why:
    """The columns of gold.leader_changes that a record decides. `row`: the state that it began."""
    return {
        "reason": reason(row, evidence),
        "unclean": unclean(row, evidence),
        "is_last_known_leader": is_last_known(
            row, evidence.elr["elr"], evidence.elr["last_known_elr"]
        ),
    }


def reason(row: PartitionState, evidence: Evidence) -> str:
    """Why the leader, or its epoch, changed, as gold.leader_changes has it.

    A record names the same leader again where a replica is no more or, below 3.6-IV0, where the ISR
    shrinks (``PartitionChangeBuilder.triggerLeaderEpochBump...``).
    """
    leader, prev_leader = row["leader"], row["prev_leader"]
    if leader == prev_leader:
        if set(row["prev_replicas"] or ()) - set(row["replicas"] or ()):
            return "reassignment"
        return "isr_shrink" if left_isr(row) else "unknown"
    if leader == NO_LEADER:
        return "offline"
    if prev_leader == NO_LEADER:
        return "recovery"
    if prev_leader not in (row["replicas"] or ()):
        return "reassignment"
    if evidence.lost_leader:
        return "failover"
    return "preferred" if leader == preferred(row["replicas"]) else "unknown"


def unclean(row: PartitionState, evidence: Evidence) -> str:
    """Whether the new leader was out of sync: no | proven.

    A record that completes a reassignment may bring a leader that the ISR had not before: it has
    joined in the request that completes it. Recovery is set by the first of several unclean
    elections only.
    """
    leader = row["leader"]
    if evidence.began_recovery:
        return "proven"
    if leader in (NO_LEADER, row["prev_leader"], *(row["prev_isr"] or ()), *evidence.elr["elr"]):
        return "no"
    return "no" if evidence.completes_reassignment else "proven"
