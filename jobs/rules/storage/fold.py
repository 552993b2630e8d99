"""The fold of a cluster's log directories: the sizes in answers -> rows of gold.storage, one for
each thing and day.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.arrow import rows_of
from schemas.bronze import METADATA_POLLS
from schemas.storage import STORAGE

Row = dict[str, Any]

THING: Final = (
    *("cluster_id", "cluster", "day", "broker_id"),
    *("log_dir", "level", "topic", "partition"),
)
"""Whose sizes a row of gold.storage has."""
LAST: Final = (
    *("size_bytes", "replicas", "futures", "offset_lag"),
    *("changes_left_out", "total_bytes", "usable_bytes"),
)
"""The columns of which the last answer counts, nulls too."""
INPUT: Final = ("cluster_id", "cluster", "at", *THING[3:], *LAST, "is_whole")
"""The columns of answers that the fold reads, a row for each size."""
_ENDS: Final = {"min_bytes": "min", "max_bytes": "max"} | {
    "first_at": "min",
    "last_at": "max",
    "whole_at": "max",
}
"""The columns of a day that are not those of its last answer."""


def fold(
    cluster: str,  # noqa: ARG001 - each row has it
    inputs: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    at: datetime,
) -> Mapping[str, Sequence[Row]]:
    """The rows of an alias's directories that change: those of its newest day, which stay live, and
    those of the days before, which are over. `at`: of the round.
    """
    answers = inputs.get(METADATA_POLLS.full_name)
    if answers is None or not answers.num_rows:
        return {STORAGE.full_name: []}
    found = _by_day(answers)
    if (before := live.get(STORAGE.full_name)) is not None:
        found = pa.concat_tables([before.select(found.column_names).cast(found.schema), found])
    days = found.sort_by([("last_at", "ascending")]).group_by(THING, use_threads=False)
    rows = days.aggregate(
        [
            *((name, "last", pc.ScalarAggregateOptions(skip_nulls=False)) for name in LAST),
            *_ENDS.items(),
        ]
    )
    newest = {
        each["cluster_id"]: each["day_max"]
        for each in rows.group_by("cluster_id").aggregate([("day", "max")]).to_pylist()
    }
    plain = {
        f"{name}_{how}": name
        for name, how in (*dict.fromkeys(LAST, "last").items(), *_ENDS.items())
    }
    rows = rows.rename_columns([plain.get(name, name) for name in rows.column_names])
    return {
        STORAGE.full_name: [
            {**row, "updated_at": at, "is_live": row["day"] == newest[row["cluster_id"]]}
            for row in rows_of(rows)
        ]
    }


def _by_day(answers: pa.Table) -> pa.Table:
    """The sizes in answers, as rows of the day of their answer."""
    columns = {name: answers[name] for name in (*THING[:2], *THING[3:], *LAST)}
    columns["day"] = answers["at"].cast(pa.date32())
    columns |= dict.fromkeys(("min_bytes", "max_bytes"), answers["size_bytes"])
    columns |= dict.fromkeys(("first_at", "last_at"), answers["at"])
    columns["whole_at"] = pc.if_else(answers["is_whole"], answers["at"], None)
    return pa.table(columns)
