"""Transactions of clusters that live a random life, as answers tell them."""

import random
from typing import Any

TRANSACTION_STATE = (
    *("state", "producer_id", "producer_epoch", "timeout_ms", "started_at", "coordinator"),
    *("partition_count", "partitions", "start_offset", "coordinator_epoch", "last_written_at"),
)
NOT_TOLD = (None,) * len(TRANSACTION_STATE)
"""It was listed, and could not be described; or the partition was not told."""
KEYS = [
    *(("a", False), ("b", False), ("", False)),
    *(("7 on t-0", True), ("7 on t-1", True), ("8 on t-1", True), ("", True)),
]
"""The last of both kinds: all others of it."""


def next_transaction(
    chance: random.Random, key: tuple[str, bool], before: tuple | None
) -> tuple | None:
    """The state of a transaction after another one; None: it is not listed."""
    opened_by, is_hanging = key
    if not opened_by:
        return NOT_TOLD if chance.random() < 0.2 else None
    if before not in (None, NOT_TOLD) and chance.random() < 0.7:
        return before
    if chance.random() < 0.4:
        return chance.choice([None, NOT_TOLD])
    if not is_hanging:
        state = chance.choice(["Ongoing", "PrepareAbort"])
        epoch, broker = chance.choices([0, 1], k=2)
        return (state, 5, epoch, 60_000, None, broker, 0, (), None, None, None)
    producer_id, place = int(opened_by[0]), int(opened_by[-1])
    partitions = ({"topic": "t", "partition": place},)
    coordinator_epoch = chance.choice([-1, 4])
    return ("Ongoing", producer_id, 0, *[None] * 3, 1, partitions, 9, coordinator_epoch, None)


def told_before(
    key: tuple[str, bool], now: dict[Any, tuple], before: dict[Any, tuple]
) -> tuple | None:
    """The state that a transaction had, if the answer leaves open whether it has it still."""
    opened_by, is_hanging = key
    if key in now and now[key] != NOT_TOLD:
        return None
    untold = {other for other, state in now.items() if state == NOT_TOLD}
    partitions = {other[-4:] for other, hangs in untold if hangs and other}
    is_open = key in untold or ("", is_hanging) in untold
    is_open |= is_hanging and opened_by[-4:] in partitions
    return before.get(key) if is_open else None


def entry(key: tuple[str, bool], state: tuple) -> dict[str, Any]:
    """As a row of bronze lists it."""
    opened_by, is_hanging = key
    told = dict(zip(TRANSACTION_STATE, state, strict=True))
    told |= {"is_hanging": is_hanging, "error": None}
    told["transactional_id"] = None if is_hanging else opened_by or None
    if told["partitions"] is not None:
        told["partitions"] = list(told["partitions"])
    if state == NOT_TOLD:
        told["error"] = "failed: error 16"
        if is_hanging and opened_by:
            told["partitions"] = [{"topic": "t", "partition": int(opened_by[-1])}]
    return told
