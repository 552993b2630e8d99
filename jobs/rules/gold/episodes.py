"""How bad it was meanwhile: rows of gold.isr_episodes, the stretches of a partition at a level.

Levels do not exclude each other. They are looked at where a state of the partition begins, and those that follow from
min ISR where a setting of its topic changes too; another finalized level alone changes nothing before then.
"""

from collections.abc import Mapping

from jobs.rules.gold.bounds import NOT_ENDED, Bounds, end, event
from jobs.rules.gold.elections import LISTENER_NOT_FOUND, NO_LEADER
from jobs.rules.gold.isr import Partition
from jobs.rules.gold.news import Row

BOUNDED_BY_REPLICAS_FROM_LEVEL = 15
"""Feature level of metadata.version 3.7-IV0: from there on min ISR counts only as far as replicas exist (KIP-966)."""

UNKNOWN = "unknown"

AtLevels = Mapping[str, bool | None]
"""Level -> whether a state is at it; None: not known."""


def effective_min_isr(setting: int | None, replicas: int, metadata_version: int | None) -> int | None:
    """How many in-sync replicas acks=all asks for; None where that is not known.

    Before 3.7 a setting larger than the number of replicas counts as it is; of a level that is not known, neither
    holds.
    """
    if setting is None or setting <= replicas:
        return setting
    if metadata_version is None:
        return None
    return replicas if metadata_version >= BOUNDED_BY_REPLICAS_FROM_LEVEL else setting


def by_state(state: Row, *, is_any_out: bool) -> AtLevels:
    """The levels that follow from a state alone. `is_any_out`: whether a replica is out of the ISR."""
    return {"under_replicated": is_any_out, "offline": not _has_leader(state)}


def by_min_isr(state: Row, min_isr: int | None) -> AtLevels:
    """The levels that follow from the effective min ISR."""
    if not _has_leader(state):
        return {"at_min_isr": False, "under_min_isr": False}
    if min_isr is None:
        return {"at_min_isr": None, "under_min_isr": None}
    return {"at_min_isr": len(state["isr"]) == min_isr, "under_min_isr": len(state["isr"]) < min_isr}


def mark(
    partition: Partition, levels: AtLevels, state: Row, bounds: Bounds, *, min_isr: int | None = None
) -> list[Row]:
    """Begin, continue and end the episodes of a partition by what holds from a poll on; returns those that begin.

    `min_isr`: the effective one, where the levels follow from it.
    """
    begun, out = [], partition.out()
    for level, is_at in levels.items():
        if not is_at:
            end_one(partition, level, bounds, UNKNOWN if is_at is None else None)
            continue
        if level not in partition.episodes:
            partition.episodes[level] = _episode(state, level, bounds)
            begun.append(partition.episodes[level])
        episode = partition.episodes[level]
        episode["brokers_out"] = sorted({*episode["brokers_out"], *out})
        episode["smallest_isr"] = min(episode["smallest_isr"], len(state["isr"]))
        if min_isr is not None:
            episode["min_isr"] = max(min_isr, episode["min_isr"] or 0)
    return begun


def end_one(partition: Partition, level: str, bounds: Bounds, reason: str | None) -> None:
    """End the episode of a partition at a level, if there is one."""
    episode = partition.episodes.pop(level, None)
    if episode is not None:
        end(episode, bounds)
        episode |= {"end_reason": reason, "is_live": False}


def _has_leader(state: Row) -> bool:
    return bool(state["leader"] != NO_LEADER or state["error_code"] == LISTENER_NOT_FOUND)


def _episode(state: Row, level: str, bounds: Bounds) -> Row:
    return {
        **event(state, bounds, level),
        "level": level,
        **NOT_ENDED,
        "end_reason": None,
        "brokers_out": [],
        "smallest_isr": len(state["isr"]),
        "min_isr": None,
        "is_live": True,
    }
