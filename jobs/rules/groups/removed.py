"""Which time-out removed a member, where the coordinator's records tell it: inferred.

Records do not say why a member is gone. Of a group that the coordinator reconciles (KIP-848,
KIP-1071) they say what it waited for (GroupMetadataManager of Kafka's coordinator). A member that
left by itself, or died while nothing was asked of it, is removed by the same records; and the
record of a classic group tells who is there, and nothing of who is not.
"""

from datetime import datetime, timedelta
from typing import Final

from jobs.rules.groups.state import AWAY, CONSUMER, STREAMS, Member

REBALANCE, SESSION = "rebalance", "session"
UNREVOKED: Final = {CONSUMER: 1, STREAMS: 2}
"""Code of the state in which a member is to give something up: MemberState of Kafka's modern and
streams groups. Its rebalance time-out runs from the record that has it, and from no other."""


def revoking_since(group_type: str | None, epoch: int, state: int, at: datetime) -> datetime | None:
    """Return since when a member has been asked to give up partitions, by a record of what it has;
    None if it is asked for nothing, or away.
    """
    is_asked = group_type in UNREVOKED and state == UNREVOKED[group_type] and epoch != AWAY
    return at if is_asked else None


def time_out(member: Member, at: datetime) -> str | None:
    """Return which time-out removed a member then: rebalance | session; None: nothing tells.

    A static member that is away was to be back within its session time-out. One that was asked to
    give up partitions is removed once its rebalance time-out has passed, and never later.
    """
    if member.epoch == AWAY:
        return SESSION
    if member.revoking_since is None or member.rebalance_timeout_ms is None:
        return None
    waited = at - member.revoking_since
    return REBALANCE if waited >= timedelta(milliseconds=member.rebalance_timeout_ms) else None
