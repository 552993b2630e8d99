"""The fold of the groups of a part: new rows of the log and of silver -> rows of rebalances."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import itemgetter
from typing import Any

import pyarrow as pa

from jobs.configuration.config import Thresholds
from jobs.rules.arrow import by_value, rows_in
from jobs.rules.gold.news import as_of
from jobs.rules.groups import group as rules
from jobs.rules.groups.group import Group
from jobs.rules.groups.partition import log_partition
from jobs.rules.groups.state import written_by
from schemas import groups
from schemas.bronze import GROUP_LOG
from schemas.internal import GROUP_STATES
from schemas.silver import GROUP_SNAPSHOTS

POSITION = ("era", "place", "is_record")
"""The order of a partition's rows: a gap comes before the record with which the log continues."""

Positions = dict[int, tuple[int, int]]
"""Partition of the log -> era and offset up to which its rows were taken."""

IN_ORDER = itemgetter(*POSITION)
_NEVER = datetime.min.replace(tzinfo=UTC)
Row = dict[str, Any]


@dataclass(frozen=True)
class GroupTake:
    """The part of a cluster that a round takes: new rows of its log, and polls of groups after
    `since` (None: all) up to `until`.

    `until` is None where nothing is taken of polls. `log_partitions`: how many the log has, as far
    as polls know.
    """

    cluster_id: str
    since: str | None = None
    until: str | None = None
    until_at: datetime | None = None
    log_partitions: int | None = None


def forgets_before(
    news: Iterable[datetime], remembered: timedelta, kept_since: datetime | None
) -> datetime:
    """Before when a group has to be gone to be forgotten, by the times of what is new in its part.

    `remembered`: as long as bronze is kept, which then knows nothing of the group either. Groups
    that come and go by the thousand, as console consumers do, would make each round slower.
    `kept_since`: from when on retention has left gold whole; None where it has dropped nothing.
    """
    newest = max(news, default=None)
    return max(newest - remembered if newest is not None else _NEVER, kept_since or _NEVER)


def fold(
    key: str,
    said: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    clusters: Mapping[str, GroupTake],
    ends: Mapping[str, Positions],
    limits: Thresholds,
    at: datetime,
    forgets: Callable[[Iterable[datetime]], datetime],
) -> Mapping[str, Sequence[Row]]:
    """The rows of one cluster's groups in one part.

    `clusters`: by alias. `ends`: by alias, up to where the log was read. `forgets`: says of the
    times of what is new before when a group has to be gone to be forgotten.
    """
    cluster = key.rpartition("/")[0]
    of_cluster = clusters[cluster]
    records = by_value(sorted(rows_in(said, GROUP_LOG), key=IN_ORDER), "group_id")
    gaps = by_value(records.pop(None, ()), "log_partition")
    seen = sorted(rows_in(said, GROUP_SNAPSHOTS), key=itemgetter("first_poll"))
    since = of_cluster.since or ""
    states = by_value(
        (as_of(row, str(of_cluster.until)) | {"is_new": row["first_poll"] > since} for row in seen),
        "group_id",
    )
    kept = {row["group_id"]: json.loads(row["memory"]) for row in rows_in(live, GROUP_STATES)}
    of_groups = {
        table.full_name: by_value(rows_in(live, table), "group_id") for table in groups.TABLES
    }
    partitions = {group_id: rules.partitions_of(memory) for group_id, memory in kept.items()}
    for group_id, of_group in records.items():
        partitions.setdefault(group_id, set()).update(row["log_partition"] for row in of_group)
    read_to = {p: offset for p, (_, offset) in ends.get(cluster, {}).items()}
    missed = {group_id for group_id, of_group in partitions.items() if of_group & gaps.keys()}
    made: dict[str, list[Row]] = {table.full_name: [] for table in (*groups.TABLES, GROUP_STATES)}
    for group_id in sorted({*records, *states, *missed}):
        group = Group(of_cluster.cluster_id, cluster, group_id)
        missing = [
            row for partition in partitions.get(group_id, ()) for row in gaps.get(partition, ())
        ]
        memory, rows = rules.fold(
            group,
            kept.get(group_id),
            {name: of_table.get(group_id, ()) for name, of_table in of_groups.items()},
            limits,
            records=sorted((*records.get(group_id, ()), *missing), key=IN_ORDER),
            read_to=read_to,
            states=states.get(group_id, ()),
            log_partition=of_cluster.log_partitions
            and log_partition(group_id, of_cluster.log_partitions),
        )
        for table, of_table in rows.items():
            made[table] += [row | {"updated_at": at} for row in of_table]
        text = json.dumps(memory, separators=(",", ":"))
        made[GROUP_STATES.full_name].append(vars(group) | {"memory": text})
    quiet = kept.keys() - {*records, *states, *missed}
    before = forgets(
        [*map(written_by, chain(*records.values())), *(row["valid_from"] for row in seen)]
    )
    for group_id in sorted(each for each in quiet if rules.is_over(kept[each], before)):
        last = rules.settled(
            {name: of_table.get(group_id, ()) for name, of_table in of_groups.items()}
        )
        for name, rows_of_table in last.items():
            made[name] += [row | {"updated_at": at} for row in rows_of_table]
        gone = Group(of_cluster.cluster_id, cluster, group_id)
        made[GROUP_STATES.full_name].append(vars(gone) | {"memory": None})
    return made
