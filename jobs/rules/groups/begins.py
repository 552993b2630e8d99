"""When polls saw rebalances of classic groups begin: the log tells them only once they are over."""

from collections.abc import Iterable, Mapping
from typing import Any

from jobs.rules.groups.polls import GONE, REBALANCING, type_of
from jobs.rules.groups.state import CLASSIC

Row = dict[str, Any]


def begins(states: Iterable[Mapping[str, Any]], open_: Row | None) -> list[Row]:
    """Stretches in which a group rebalances, and changes from one state at rest to another between two polls; rows of
    gold.rebalance_begins, the last one open where it has not ended.

    `states`: rows of silver.group_snapshots that began or ended, in order, with `is_new`. `open_`: the stretch that was
    open before them.
    """
    told: list[Row] = []
    for row in states:
        if row["is_new"]:
            is_classic, rebalanced = type_of(row) == CLASSIC, row["prev_state"] in REBALANCING
            rebalances = is_classic and row["state"] in REBALANCING
            changed = is_classic and row["prev_state"] is not None and not rebalanced
            if open_ is None and (rebalances or changed):
                after = None if rebalanced else row["prev_sent_at"]
                open_ = {"began_after": after, "began_before": row["valid_from"], "ended_before": None}
            if open_ is not None and not rebalances:
                told.append(open_ | {"ended_before": row["valid_from"]})
                open_ = None
        if row["end_reason"] == GONE and open_ is not None:
            told.append(open_ | {"ended_before": row["valid_to"]})
            open_ = None
    return told if open_ is None else [*told, open_]
