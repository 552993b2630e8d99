"""Events read off silver in the plainest way: what follows what.

The least that gold has to know, written apart from it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from truth.compare_events import IsrChange, LeaderChange
from truth.compare_isrs import LEFT
from truth.compare_leaders import EXACT, UNRELIABLE, UPPER_BOUND
from truth.observed import Poll, Seen, Watch


def leader_changes(
    rows: Sequence[Seen], watch: Watch, *, shrinks_raise: bool
) -> list[LeaderChange]:
    """A row for each change of epoch or leader, with the rule book's bounds."""
    changes = []
    for before, after, (began_after, began_before) in _turns(rows, watch):
        difference = after.leader_epoch - before.leader_epoch
        moved = before.leader != after.leader
        if not difference and not moved:
            continue
        exact = before.replicas == after.replicas and not shrinks_raise
        if difference <= 0:
            count = UNRELIABLE, int(moved), None
        # The same leader one epoch later can be no transition.
        elif difference == 1 and not moved:
            count = EXACT if exact else UPPER_BOUND, 0, 0
        else:
            count = (
                (EXACT, difference, difference) if exact else (UPPER_BOUND, int(moved), difference)
            )
        semantics, least, most = count
        changes.append(
            LeaderChange(
                topic=after.topic,
                topic_id=after.topic_id,
                partition=after.partition,
                prev_leader=before.leader,
                leader=after.leader,
                prev_leader_epoch=before.leader_epoch,
                leader_epoch=after.leader_epoch,
                changes_min=least,
                changes_max=most,
                epoch_semantics=semantics,
                reason=None,
                unclean="suspected",
                began_after=began_after.sent_at,
                began_before=began_before.received_at,
            )
        )
    return changes


def isr_changes(rows: Sequence[Seen], watch: Watch) -> list[IsrChange]:
    """A row for each broker that is in one ISR and not in the next; nothing of causes."""
    return [
        IsrChange(
            topic=after.topic,
            topic_id=after.topic_id,
            partition=after.partition,
            broker_id=broker_id,
            change=LEFT if broker_id in before.isr else "joined",
            cause=None,
            began_after=began_after.sent_at,
            began_before=began_before.received_at,
        )
        for before, after, (began_after, began_before) in _turns(rows, watch)
        for broker_id in sorted(set(before.isr) ^ set(after.isr))
    ]


def _turns(rows: Sequence[Seen], watch: Watch) -> Iterator[tuple[Seen, Seen, tuple[Poll, Poll]]]:
    """Rows of a partition that follow each other, with the last poll before the second and its
    first, where these prove anything.
    """
    before_poll = {after.poll_id: before for before, after in pairwise(watch.polls)}
    polls = {poll.poll_id: poll for poll in watch.polls}
    ordered = sorted(rows, key=lambda row: (row.key, row.first_poll))
    for before, after in pairwise(ordered):
        if before.key == after.key and after.first_poll in before_poll:
            yield before, after, (before_poll[after.first_poll], polls[after.first_poll])
