"""The part of a lag that an open transaction holds up, for a consumer of committed records.

- held up, at least: the end of the log less the last stable offset, or the committed offset if that
  is later. The last stable offset is asked after the end, and only rises.
- not consumed, at most: the rest of the lag.

Inferred: brokers do not know a consumer's isolation.level. For one that reads all records
(read_uncommitted, Kafka's default) nothing is held up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobs.rules.groups.lag_rows import HeldUpState

LISTED: Final = 100
"""Partitions that a row names at most."""


class HeldUp(NamedTuple):
    """A partition in a visit: its last stable offset and lag, and how many records of that are held
    up; None if not known.
    """

    topic: str
    partition: int
    last_stable: int | None
    lag: int | None
    records: int | None

    @classmethod
    def of(
        cls, topic: str, partition: int, offset: int | None, end: int | None, stable: int | None
    ) -> HeldUp:
        """Of the committed offset, the end of the log and the last stable offset, as told."""
        if offset is None or end is None:
            return cls(topic, partition, None, None, None)
        lag = max(0, end - offset)
        if not lag:
            return cls(topic, partition, None, 0, 0)
        held = None if stable is None else max(0, end - max(stable, offset))
        return cls(topic, partition, stable, lag, held)


def state(partitions: Sequence[HeldUp], *, is_whole: bool) -> HeldUpState:
    """Columns of gold.group_lag. `is_whole`: the lag of each partition is known."""
    known = [each for each in partitions if each.records is not None]
    if not known:
        return {
            "not_consumed_max": None,
            "held_up_min": None,
            "partitions_held_up": None,
            "held_up": None,
        }
    waiting = sorted(
        (each for each in known if each.records),
        key=lambda each: (-(each.records or 0), each.topic, each.partition),
    )
    consumable = sum((each.lag or 0) - (each.records or 0) for each in known)
    held = sum(each.records or 0 for each in known)
    is_told = is_whole and len(known) == len(partitions)
    return {
        "not_consumed_max": _bigint(consumable) if is_told else None,
        "held_up_min": _bigint(held),
        "partitions_held_up": len(waiting),
        "held_up": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "last_stable": each.last_stable,
                "records": each.records,
            }
            for each in waiting[:LISTED]
        ],
    }


def _bigint(number: int) -> int | None:
    """None if no bigint holds it: a client may commit any offset."""
    return number if number < 1 << 63 else None
