"""When rows came into a table, by its log."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.rounds.commits import Followed, first_commits


def commit(folder: Path, version: int, at: datetime, rows: list[dict[str, object]]) -> None:
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    name = f"part-{version}.parquet"
    pq.write_table(pa.Table.from_pylist(rows), folder / name)
    actions = [{"commitInfo": {"timestamp": round(at.timestamp() * 1000)}}, {"add": {"path": name}}]
    (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def test_a_row_counts_from_the_commit_that_had_it_first(tmp_path: Path) -> None:
    begin = datetime(2026, 11, 1, tzinfo=UTC)
    later = begin + timedelta(seconds=9)
    followed = Followed(tmp_path, ["id"])
    assert not followed.look()
    commit(tmp_path, 1, begin, [{"id": "a", "x": 1}])
    assert followed.look()
    commit(tmp_path, 2, later, [{"id": "a", "x": 1}, {"id": "b", "x": 2}])
    assert followed.look()
    assert not followed.look()
    assert [row["id"] for _, row in followed.rows] == ["a", "a", "b"]
    assert first_commits(tmp_path, "id", "x") == [
        (begin, {"id": "a", "x": 1}),
        (later, {"id": "b", "x": 2}),
    ]
    assert [row["id"] for _, row in first_commits(tmp_path, "id", "x", where=("x", 2))] == ["b"]
