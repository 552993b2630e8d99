"""A stream of a data source that is kept as plain files."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.recorders import end_recorder
from tests.support.waiting import eventually


class Stream:
    """A stream whose batches go, each whole or not at all, into a folder of its own: a batch that
    is redone replaces it.

    Polls come from a spool within the folder, unless another one is given; with none Spark's reader
    makes one.
    """

    def __init__(self, spark, folder: Path, source: str = "kafka_metadata") -> None:
        self.spark, self.folder, self.source = spark, folder, source
        self.spools: set[Path] = set()

    def start(self, *, available_now: bool = False, **options: str | None):
        if self.source == "kafka_metadata":
            options = {"spool": str(self.folder / "spool")} | options
            self.spools |= {Path(options["spool"])} if options["spool"] else set()
        options = {name: value for name, value in options.items() if value is not None}
        reader = self.spark.readStream.format(self.source)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        writer = reader.load().writeStream.option(
            "checkpointLocation", str(self.folder / "checkpoint")
        )
        if available_now:
            writer = writer.trigger(availableNow=True)
        rows = str(self.folder / "rows")
        return writer.foreachBatch(
            lambda batch, number: batch.write.mode("overwrite").parquet(f"{rows}/batch={number}")
        ).start()

    def run_once(self, **options: str) -> None:
        query = self.start(available_now=True, **options)
        assert query.awaitTermination(60)

    def run_until(self, batches: int, **options: str) -> None:
        query = self.start(**options)
        try:
            self.wait_for(batches, query)
        finally:
            query.stop()

    def wait_for(self, batches: int, query, seconds: float = 60) -> None:
        """Until so many are committed."""
        self.wait(lambda: self.committed() >= batches, query, seconds)

    def committed(self) -> int:
        """How many batches Spark has noted as done. The rows of one more may be whole."""
        return len(self._noted())

    def _noted(self) -> list[int]:
        """The numbers of these batches."""
        names = (file.name for file in (self.folder / "checkpoint" / "commits").glob("*"))
        return [int(name) for name in names if name.isdigit()]

    def end_recorders(self) -> None:
        """End those of its spools: they poll on for other queries."""
        for spool in self.spools:
            end_recorder(spool)

    def wait(self, reached: Callable[[], bool], query, seconds: float = 60) -> None:
        """Until something is so, as long as the stream runs."""

        def is_so() -> bool:
            assert query.isActive, query.exception()
            return reached()

        eventually(is_so, "the stream", within=seconds)

    def seen(self, *columns: str) -> list[dict[str, Any]]:
        """These columns of all rows so far, without Spark."""
        return [
            row
            for file in self.files()
            for row in pq.ParquetFile(file).read(columns=list(columns)).to_pylist()
        ]

    def files(self) -> list[Path]:
        """The files of the batches that are done. Those of another one may be replaced while they
        are read.
        """
        batches = (self.folder / "rows" / f"batch={number}" for number in sorted(self._noted()))
        return [file for batch in batches for file in sorted(batch.glob("*.parquet"))]

    def rows(self):
        return self.spark.read.parquet(str(self.folder / "rows"))

    def polls(self) -> list:
        """The headers, in the order of their poll ids and clusters."""
        return self.rows().where("record = 'poll'").orderBy("poll_id", "cluster").collect()

    def run_until_seen(
        self, reached: Callable[[list[dict[str, Any]]], bool], *columns: str, **options: str
    ) -> None:
        """Run until rows of these columns are so."""
        query = self.start(**options)
        try:
            self.wait(lambda: reached(self.seen(*columns)), query)
        finally:
            query.stop()

    def cut_off(self) -> int:
        """Make the last batch one that was planned and did not commit. Returns its number."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(self._noted())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "rows" / f"batch={last}")
        return last
