"""History by the rule book alone, without Spark."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from jobs.rules.groups import fold
from truth.groups.history import History, Row, history_of


def fold_log(rows: Sequence[Row], topics: Mapping[str, str]) -> History:
    """History of each group of the log."""
    rebalances: list[Row] = []
    members: list[Row] = []
    events: list[Row] = []
    of_groups = sorted((row for row in rows if row["group_id"]), key=lambda row: (row["group_id"], row["offset"]))
    for group, records in groupby(of_groups, key=lambda row: row["group_id"]):
        folded = fold(None, list(records))
        for found, given in ((rebalances, folded.rebalances), (members, folded.members), (events, folded.events)):
            found += [
                {**row, "group_id": group, "rebalance_id": (group, row.get("first_offset"), row.get("began_by"))}
                for row in given
            ]
    return history_of(rebalances, members, events, topics)
