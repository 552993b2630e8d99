"""The fold of the lag of a part's groups: what visits told of them -> rows of lag."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.arrow import rows_in
from jobs.rules.groups import lag
from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Commit, GroupAnswer, Memory, Visit
from schemas.bronze import METADATA_POLLS
from schemas.consumption import GROUP_LAG, LAG_TABLES, REMOVED_COMMITS
from schemas.internal import LAG_STATES
from schemas.table import Table

OFFSET_COLUMNS = (
    "poll_id", "group_id", "is_simple", "topic", "partition", "committed_offset", "log_end",
    "error", "commit_read_before", "last_stable",
)  # fmt: skip
"""The columns of answers about offsets that the fold reads, beside cluster_id."""

Row = dict[str, Any]
ClusterKey = tuple[str, str]
"""Alias and id of a cluster: an alias that leads to another cluster has lag of its own there."""


def fold(
    key: str,
    said: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    visits: Mapping[ClusterKey, Sequence[Visit]],
    before: Mapping[ClusterKey, Visit | None],
    at: datetime,
) -> Mapping[str, Sequence[Row]]:
    """The rows of an alias's groups in one part. `visits`: new ones; `before`: the last before."""
    made: dict[str, list[Row]] = {table.full_name: [] for table in (*LAG_TABLES, LAG_STATES)}
    answers = said.get(METADATA_POLLS.full_name)
    for cluster, of_cluster in visits.items():
        alias, cluster_id = cluster
        if alias != key.rpartition("/")[0]:
            continue
        told = told_of(answers and answers.filter(pc.equal(answers["cluster_id"], cluster_id)))
        kept, rows = (_of_groups(live, table, cluster_id) for table in (LAG_STATES, GROUP_LAG))
        for group_id in sorted({*told, *kept, *rows}):
            group = Group(cluster_id, alias, group_id)
            memory = kept[group_id]["memory"] if group_id in kept else None
            remembered, of_group = lag.fold(
                group,
                None if memory is None else Memory.from_json(json.loads(memory)),
                rows.get(group_id),
                of_cluster,
                told=told.get(group_id, {}),
                before=before[cluster],
            )
            made[GROUP_LAG.full_name] += [{**row, "updated_at": at} for row in of_group.lag]
            made[REMOVED_COMMITS.full_name] += [{**row} for row in of_group.removed]
            text = None
            if remembered is not None:
                text = json.dumps(remembered.to_json(), separators=(",", ":"))
            if text != memory:
                made[LAG_STATES.full_name].append(vars(group) | {"memory": text})
    return made


def _of_groups(live: Mapping[str, pa.Table], table: Table, cluster_id: str) -> dict[str, Any]:
    """The live row of each group of a cluster."""
    rows = (row for row in rows_in(live, table) if row["cluster_id"] == cluster_id)
    return {row["group_id"]: row for row in rows}


def told_of(said: pa.Table | None) -> dict[str, dict[str, GroupAnswer]]:
    """The answers of visits, by group and poll."""
    found: dict[str, dict[str, GroupAnswer]] = defaultdict(dict)
    if said is None:
        return found
    read = said.schema.get_field_index("commit_read_before")
    said = said.set_column(read, "commit_read_before", said["commit_read_before"].cast(pa.int64()))
    commits: dict[tuple[str, str], list[Commit]] = {}
    columns = (said[name].to_pylist() for name in OFFSET_COLUMNS)
    for poll, group_id, is_simple, topic, partition, offset, end, error, read_at, stable in zip(
        *columns, strict=True
    ):
        if topic is None:
            # A group without a commit, or one that could not be asked.
            found[group_id][poll] = GroupAnswer(
                read_at or 0, is_simple, [] if error is None else None
            )
            continue
        of_group = commits.get((group_id, poll))
        if of_group is None:
            of_group = commits[group_id, poll] = []
            found[group_id][poll] = GroupAnswer(read_at, is_simple, of_group)
        of_group.append(Commit(topic, partition, offset, end, stable))
    return found
