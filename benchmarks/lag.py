"""How long a visit of groups takes to fold, all of whose partitions move, and how much it writes.

``python -m benchmarks.lag``: processor time without Spark, and bytes of Parquet.
"""

import io
import json
import random
import time

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.rules.groups.burrow import WINDOW
from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Commit, GroupAnswer, Memory, Visit, fold

GROUPS, PARTITIONS = 200, 100
MINUTE = 60_000_000


def visit(number: int) -> Visit:
    due = number * MINUTE
    return Visit(f"20260101T000000Z-0a1b2c/{number:012}", due, due + 1_000_000, due + 3_000_000)


def size(rows: pa.Table) -> int:
    file = io.BytesIO()
    pq.write_table(rows, file)
    return file.tell()


def main() -> None:
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
            memory = (
                Memory.from_json(json.loads(memories[group_id])) if group_id in memories else None
            )
            group = Group("id", "cluster", group_id)
            kept, made = fold(
                group, memory, live.get(group_id), [this], told=told[group_id], before=before
            )
            if kept is not None:
                memories[group_id] = json.dumps(kept.to_json(), separators=(",", ":"))
            rows += made.lag
            live[group_id] = next(row for row in made.lag if row["valid_to"] is None)
        seconds = time.process_time() - began
    print(
        f"{GROUPS} groups of {PARTITIONS} partitions, all of which move, a visit with a full window"
    )
    print(
        f"fold {seconds:.2f} s, {len(rows)} rows {size(pa.Table.from_pylist(rows)) / 1e3:.0f} kB",
        end=", ",
    )
    print(f"memory {size(pa.table({'memory': list(memories.values())})) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
