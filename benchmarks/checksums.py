"""How much of Delta's log are checksums (.crc), and what commits and reads cost without them or a
part of them.

``python -m benchmarks.checksums [--commits N]``. N polls, a commit each, into bronze.metadata_polls
with the settings of the jobs, each followed by a read of the newest version; bytes of the log, and
medians.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.rounds import product
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import ensure_tables
from schemas.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA: Final = "spark.databricks.delta"
VARIANTS: Final = {
    "as Delta has it": {f"{_DELTA}.allFilesInCrc.enabled": "true"},
    "without the list of files": {f"{_DELTA}.allFilesInCrc.enabled": "false"},
    "without checksums": {f"{_DELTA}.writeChecksumFile.enabled": "false"},
}
"""Name -> settings."""
_WARM: Final = 5


def measured(spark: SparkSession, folder: str, commits: int) -> str:
    """Return one line about so many commits to a new table in `folder`."""
    lake, took, read = Lake(root=folder), [], []
    ensure_tables(spark, lake, [METADATA_POLLS])
    for n in range(commits):
        row = spark.sql(
            f"SELECT 's/{n:012}' poll_id, 's' stream, {n}L n, 'c' cluster, 'poll' record, 0 chunk, "
            "current_date() day, 'ok' outcome"
        )
        start = time.perf_counter()
        row.write.format("delta").mode("append").save(lake.path(METADATA_POLLS))
        took.append(time.perf_counter() - start)
        spark.sql(f"SELECT max(n) FROM {lake.identifier(METADATA_POLLS)}").collect()
        read.append(time.perf_counter() - start - took[-1])
    log = Path(lake.path(METADATA_POLLS)) / "_delta_log"
    size = {
        ending: sum(file.stat().st_size for file in log.glob(f"0*.{ending}"))
        for ending in ("json", "crc")
    }
    seconds = ", ".join(
        f"{name} {statistics.median(each[_WARM:]):.2f} s"
        for name, each in (("commit", took), ("read", read))
    )
    return f"json {size['json']:,} B, crc {size['crc']:,} B; {seconds}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--commits", type=int, default=30)
    commits = max(parser.parse_args().commits, _WARM + 1)
    spark = product.session()
    for name, settings in VARIANTS.items():
        with tempfile.TemporaryDirectory() as folder:
            for key, value in settings.items():
                spark.conf.set(key, value)
            print(f"{name}: {measured(spark, folder, commits)}", flush=True)


if __name__ == "__main__":
    main()
