"""The fold of the cost of a part's rebalances: the log and visits around them -> rows of costs."""

from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Any, cast

import pyarrow as pa

from jobs.rules.arrow import by_value, rows_in
from jobs.rules.groups.commits import CommitLog, commit_log
from jobs.rules.groups.cost import fold as of_group
from jobs.rules.groups.cost_rows import Cost, Visit
from schemas.bronze import GROUP_LOG, METADATA_POLLS
from schemas.consumption import REBALANCE_COST
from schemas.groups import REBALANCES

Row = dict[str, Any]
Times = Mapping[str, datetime]
"""By alias of a cluster."""

_OF_GROUP = ("cluster_id", "cluster", "group_id")
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


def fold(
    _: str,
    said: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    new: Container[str],
    at: datetime,
    until: Times,
) -> Mapping[str, Sequence[Row]]:
    """The rows of one cluster's groups in one part. `new`: ids of rebalances without a row.
    `until`: by alias, when the log was read that counts.
    """
    told = by_value(rows_in(said, REBALANCES), *_OF_GROUP)
    kept = by_value(rows_in(live, REBALANCE_COST), *_OF_GROUP)
    of_groups = by_value(rows_in(said, GROUP_LOG), "group_id")
    visits = by_value(rows_in(said, METADATA_POLLS), "group_id")
    made: list[Row] = []
    for group in sorted({*told, *kept}):
        cluster_id, cluster, group_id = group
        told_until = until.get(cluster, _NEVER)
        logs: dict[int, list[Row]] = {}
        for row in (*of_groups.get(group_id, ()), *of_groups.get(None, ())):
            # An alias may lead to another cluster than before.
            if row["cluster_id"] in (None, cluster_id) and row["read_at"] <= told_until:
                logs.setdefault(row["log_partition"], []).append(row)
        seen: dict[tuple[str, int], list[Visit]] = {}
        for row in sorted(visits.get(group_id, ()), key=itemgetter("commit_read_before")):
            seen.setdefault((row["topic"], row["partition"]), []).append(Visit.of(row))
        before = [_as_folded(row) for row in kept.get(group, ())]
        found = of_group(
            before, told.get(group, ()), new, partial(_log_of, logs), seen, until=told_until
        )
        made += [
            {**dict(zip(_OF_GROUP, group, strict=True)), **row, "updated_at": at} for row in found
        ]
    return {REBALANCE_COST.full_name: made}


def _as_folded(row: Row) -> Cost:
    return cast("Cost", {name: row[name] for name in Cost.__annotations__})


def _log_of(logs: Mapping[int, Sequence[Row]], partition: int) -> CommitLog:
    return commit_log(logs.get(partition, ()))
