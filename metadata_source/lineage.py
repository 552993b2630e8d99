"""Leader epochs of a log's records, and what two logs have in common by them (KIP-101, KIP-320): no
Kafka here.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Lineage: TypeAlias = tuple[tuple[int, int], ...]
"""Leader epochs of a partition's records, oldest first, each with the offset at which it ends.
Older ones may lack: of those before the first nothing is known. Empty: no epoch is known.
"""

OPEN: Final = 2**63 - 1
"""Where the leader's own epoch ends."""
NO_EPOCH: Final = -1
_KEPT_EPOCHS: Final = 4
"""How many leader epochs of a partition a position keeps."""
_ASKED_EPOCHS: Final = 16
"""How far back a leader is asked for epochs of which one is known here."""


def is_short(ours: Lineage, theirs: Lineage) -> bool:
    """Whether an older epoch than those of `theirs` is needed, to compare the log with ours."""
    if not theirs or theirs[0][0] <= 0 or len(theirs) >= _ASKED_EPOCHS:
        return False
    return common(ours, theirs) is None and (not ours or theirs[0][0] > ours[0][0])


def older(theirs: Lineage, epoch: int, end: int, begin: int) -> Lineage:
    """Return `theirs` with the leader's answer for the epoch before its first: which one it has,
    and where that ends.

    A leader that knows no epoch at all (-1) tells nothing. Nothing of an epoch that ends where the
    log begins is in it.
    """
    if epoch == NO_EPOCH:
        return ()
    return ((epoch if end > begin else NO_EPOCH, end), *theirs)


def common(ours: Lineage, theirs: Lineage) -> int | None:
    """Return the offset up to which two logs hold the same records; None if they have no known
    epoch in common.

    All records of an epoch were written by its one leader, to a log that was the same before: of
    the last epoch that both have, and of all before it, both have the same, up to where the first
    of them ends (KIP-101).
    """
    ends = dict(theirs)
    return next((min(end, ends[epoch]) for epoch, end in reversed(ours) if epoch in ends), None)


def kept(ours: Lineage, theirs: Lineage, offset: int) -> Lineage:
    """Return the newest epochs of records before `offset`, which the leader says the log has."""
    theirs = tuple(each for each in theirs if each[0] != NO_EPOCH)
    if not theirs:
        return ()
    known = [each for each in ours if each[0] < theirs[0][0]] + list(theirs)
    begun = [0, *(end for _, end in known)]
    return tuple(
        (epoch, min(end, offset))
        for (epoch, end), begin in zip(known, begun, strict=False)
        if begin < offset
    )[-_KEPT_EPOCHS:]
