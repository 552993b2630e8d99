"""How long a visit of groups takes to fold, all of whose partitions move, and how much it writes:
processor time without Spark, and bytes of Parquet.
"""

from __future__ import annotations

import io
import json
import random
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.results import Results, median
from jobs.rules.groups.burrow import WINDOW
from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Commit, GroupAnswer, Memory, Visit, fold

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say

GROUPS, PARTITIONS = 200, 100
MINUTE = 60_000_000


def visit(number: int) -> Visit:
    due = number * MINUTE
    return Visit(f"20260101T000000Z-0a1b2c/{number:012}", due, due + 1_000_000, due + 3_000_000)


def size(rows: pa.Table) -> int:
    file = io.BytesIO()
    pq.write_table(rows, file)
    return file.tell()


def visits(_folder: Path, _say: Say, _runs: int) -> Results:
    """Measure lag_fold_s, lag_fold_kb and lag_memory_mb."""
    pick = random.Random(1)
    ids = [f"group-{number}" for number in range(GROUPS)]
    offsets = {group_id: [pick.randrange(10**9) for _ in range(PARTITIONS)] for group_id in ids}
    memories: dict[str, str] = {}
    live: dict[str, dict[str, object]] = {}
    for number in range(WINDOW + 2):
        this, before = visit(number), visit(number - 1) if number else None
        told = {}
        for group_id, of_group in offsets.items():
            of_group[:] = [offset + pick.randrange(5_000) for offset in of_group]
            commits = [
                Commit("topic", n, offset, offset + pick.randrange(3_000))
                for n, offset in enumerate(of_group)
            ]
            told[group_id] = {this.poll: GroupAnswer(this.due + 2_000_000, False, commits)}
        rows = []
        began = time.process_time()
        for group_id in ids:
            known = memories.get(group_id)
            memory = None if known is None else Memory.from_json(json.loads(known))
            group = Group("id", "cluster", group_id)
            kept, made = fold(
                group, memory, live.get(group_id), [this], told=told[group_id], before=before
            )
            if kept is not None:
                memories[group_id] = json.dumps(kept.to_json(), separators=(",", ":"))
            rows += made.lag
            live[group_id] = next(row for row in made.lag if row["valid_to"] is None)
        seconds = time.process_time() - began
    return {
        "lag_fold_s": median([seconds]),
        "lag_fold_kb": median([size(pa.Table.from_pylist(rows)) / 1e3]),
        "lag_memory_mb": median([size(pa.table({"memory": list(memories.values())})) / 1e6]),
    }
