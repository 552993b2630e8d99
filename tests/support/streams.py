"""A stream of a data source that is kept as plain files."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path


class Stream:
    """A stream whose batches go, each whole or not at all, into a folder of its own: a batch that is redone replaces
    it.
    """

    def __init__(self, spark, folder: Path, source: str = "kafka_metadata") -> None:
        self.spark, self.folder, self.source = spark, folder, source

    def start(self, *, available_now: bool = False, **options: str):
        reader = self.spark.readStream.format(self.source)
        for name, value in options.items():
            reader = reader.option(name.replace("__", "."), value)
        writer = reader.load().writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
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

    def wait_for(self, batches: int, query) -> None:
        self.wait(lambda: len(list(self.folder.glob("rows/*/_SUCCESS"))) >= batches, query)

    def wait_for_plan(self, query) -> None:
        """Until the first batch is planned, whose polls begin then."""
        self.wait((self.folder / "checkpoint" / "offsets" / "0").exists, query)

    def wait(self, reached: Callable[[], bool], query, seconds: float = 60) -> None:
        """Until something is so, as long as the stream runs."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def rows(self):
        return self.spark.read.parquet(str(self.folder / "rows"))

    def polls(self) -> list:
        """The headers, in the order of their poll ids and clusters."""
        return self.rows().where("record = 'poll'").orderBy("poll_id", "cluster").collect()

    def cut_off(self) -> int:
        """Make the last batch one that was planned and did not commit. Returns its number."""
        commits = self.folder / "checkpoint" / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "rows" / f"batch={last}")
        return last
