"""``python -m benchmarks.year_lake FOLDER``: make a lake of a year, a configuration beside it."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import yaml

from benchmarks.year_lake import told
from benchmarks.year_lake.clusters import DAY, WEEK, clusters
from benchmarks.year_lake.store import Store
from benchmarks.year_lake.tables import ALL, BRONZE_DAYS, LAG_DAYS, SOURCES
from jobs.rounds.live import PARTS
from schemas.consumption import GROUP_LAG
from schemas.lake import TABLES, Lake
from schemas.table import PART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.year_lake.clusters import Cluster
    from benchmarks.year_lake.store import Partition
    from benchmarks.year_lake.tables import Rows

CONFIG: Final = "config.yaml"
"""Written last: where it is, the lake is whole."""
MEMORY: Final = "3GB"
SIZES: Final = {"small": 40, "weeks": 52, "groups": 200, "topics": 500, "large_topics": 10_000}
"""The arguments of `clusters`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the lake that is asked for, and say how large it is."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.year_lake", description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, size in SIZES.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=size, help="(default %(default)s)"
        )
    given = vars(parser.parse_args(argv))
    folder = given.pop("folder")
    if folder.exists():
        parser.error(f"{folder} is there already")
    make(folder, clusters(**given), lambda line: print(line, flush=True))
    return 0


def make(folder: Path, of: list[Cluster], say: Callable[[str], object]) -> None:
    """Make a lake of these clusters in `folder`, and a configuration of them."""
    folder = folder.resolve()  # the configuration names it for commands that run elsewhere
    began, making = time.monotonic(), folder / "making.db"
    folder.mkdir(parents=True)
    with duckdb.connect(str(making)) as database:
        database.execute(f"SET TimeZone = 'UTC'; SET memory_limit = '{MEMORY}'; SET threads = 2")
        told.put(database, of)
        database.execute(SOURCES)
        store = Store(Lake(root=str(folder / "lake")), database)
        for each in ALL:
            for condition, partition in _files(each, of[0].weeks, store):
                source = f"(SELECT * FROM {each.source} WHERE {condition} ORDER BY coalesce(m, n))"
                if each.each == "partitions":
                    source = f"({source} JOIN alike USING (k, alike))"
                store.write(each.table, each.values, source, each.each, partition)
            say(f"{time.monotonic() - began:5.0f} s {store.written[each.table]}")
        for table in TABLES:
            store.commit(table)
    making.unlink()
    content = {
        "lake": str(folder / "lake"),
        "checkpoints": str(folder / "checkpoints"),
        "clusters": {each.name: {"kafka.bootstrap.servers": "127.0.0.1:9"} for each in of},
    }
    (folder / CONFIG).write_text(yaml.safe_dump(content, sort_keys=False))
    found = store.written.values()
    rows, size = sum(each.rows for each in found), sum(each.bytes for each in found)
    say(f"{rows:,} rows, {size / 1e6:,.0f} MB, made in {time.monotonic() - began:.0f} s")


def _files(of: Rows, weeks: int, store: Store) -> Iterator[tuple[str, Partition]]:
    """Yield which rows each file of a table has, as upkeep leaves them, and its partition: live
    ones by part, others in the order of time.
    """
    ends, by = weeks * WEEK, of.table.partition_by
    if by == ("day",):
        for n in range(ends - BRONZE_DAYS * DAY, ends, DAY):
            (day,) = store.column(f"SELECT CAST(CAST(due({n}) AS DATE) AS VARCHAR)")
            yield f"n >= {n} AND n < {n + DAY}", {"day": day}
        return
    if by == ("history",):
        for each in store.column(f"SELECT DISTINCT history FROM {of.source} ORDER BY ALL"):
            yield f"history = '{each}'", {"history": each}
        return
    for part in range(PARTS if by else 0):
        yield f"m IS NULL AND k % {PARTS} = {part}", {by[0]: "true", PART: str(part)}
    over = "m" if by else "n"
    for n in range(ends - LAG_DAYS * DAY if of.table == GROUP_LAG else 0, ends, WEEK):
        partition: Partition = {by[0]: "false", PART: None} if by else {}
        yield f"{over} >= {n} AND {over} < {n + WEEK}", partition


if __name__ == "__main__":
    sys.exit(main())
