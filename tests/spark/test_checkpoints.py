"""A checkpoint and a lake that do not belong together: lost, of long ago, of another lake, cut
short with the power.
"""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Config, load
from jobs.run import metadata_stream
from jobs.run.logs import (
    cluster_log_read_up_to,
    group_log_read_up_to,
    transaction_log_read_up_to,
)
from schemas import bronze
from schemas.internal import STATE
from schemas.lake import LakeError
from schemas.transactions import TRANSACTION_LOG
from tests.support import stored
from tests.support.lakes import new_lake
from tests.support.power_cuts import cut_power


def configured(spark: SparkSession, folder: Path, lake: str) -> Config:
    """A lake, with checkpoints elsewhere, and a cluster that nobody answers for: a failed poll is a
    row too.
    """
    file = folder / f"{lake}.yaml"
    clusters = "{prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}"
    file.write_text(
        f"lake: {folder}/{lake}\ncheckpoints: {folder}/checkpoints\nclusters: {clusters}\n"
    )
    new_lake(spark, folder / lake)
    return load(str(file))


def headers(config: Config) -> list[tuple[str, int]]:
    return sorted(
        (row["stream"], row["n"]) for row in stored.rows_of(config.lake, bronze.METADATA_POLLS)
    )


@pytest.mark.soak
def test_a_checkpoint_of_long_ago_or_of_another_lake_is_refused_and_a_lost_one_begins_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = configured(spark, tmp_path, "lake")
    checkpoint, copy = Path(config.checkpoint(metadata_stream.QUERY)), tmp_path / "copy"

    def poll(config: Config) -> None:
        metadata_stream.run(spark, config, True)

    def check_refused(config: Config, told: str) -> None:
        before = headers(config)
        told = (
            rf"^the checkpoint {checkpoint} is {told}: polling begins a new stream then, and what "
            r"the lake has stays$"
        )
        with pytest.raises(LakeError, match=told):
            poll(config)
        assert headers(config) == before

    poll(config)
    shutil.copytree(checkpoint, copy)
    poll(config)
    ((stream, _), _) = polls = headers(config)
    assert polls == [(stream, 0), (stream, 1)]

    shutil.rmtree(checkpoint)
    shutil.copytree(copy, checkpoint)
    removed = rf"remove {checkpoint}"
    check_refused(
        config,
        r"an old copy: it ends at batch 0, and bronze.metadata_polls in \S+ has batch 1; "
        rf"{removed}",
    )
    shutil.rmtree(checkpoint)
    poll(config)
    *before, (begun, n) = headers(config)
    assert (before, n) == (polls, 0)
    assert begun > stream

    other = configured(spark, tmp_path, "other")
    whose = "another lake's, or a power cut took all from the table"
    check_refused(
        other, rf"{whose}: bronze.metadata_polls in \S+ has nothing of its 1 batches; {removed}"
    )


@pytest.mark.soak
def test_what_a_power_cut_took_of_a_batch_is_made_once_more(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(spark, tmp_path, "lake")
    checkpoint = Path(config.checkpoint(metadata_stream.QUERY))

    def poll() -> list[int]:
        caplog.clear()
        metadata_stream.run(spark, config, True)
        return [n for _, n in headers(config)]

    def check_said(*expected: str) -> None:
        said = [
            record.getMessage()
            for record in caplog.records
            if record.levelname in {"WARNING", "ERROR"}
        ]
        assert len(said) == len(expected)
        for line, part in zip(said, expected, strict=True):
            assert part in line

    poll()
    assert poll() == [0, 1]
    cut_power(config.lake, bronze.METADATA_POLLS)
    assert headers(config)[-1][1] == 0
    assert poll() == [0, 1, 2], "the batch that the table lost, and the one of this run"
    check_said(
        "commit 2 has no bytes, as a power cut leaves it", "ends with batch 0, and the checkpoint"
    )

    (checkpoint / "offsets" / "3").write_bytes(b"")
    assert poll() == [0, 1, 2, 3]
    check_said("as after a power cut: offsets/3 removed")
    (checkpoint / "commits" / "3").write_bytes(b"")
    assert poll() == [0, 1, 2, 3, 4], "Delta passes the batch over that it has"
    check_said("as after a power cut: commits/3 removed")

    begins_again = (
        rf"; remove {checkpoint}: polling begins a new stream then, and what the lake has stays$"
    )
    for name, told in (
        (
            "offsets/4",
            r"^bronze.metadata_polls in \S+ has batch 4, and the checkpoint \S+ cannot tell any ",
        ),
        ("metadata", r"^the file metadata of the checkpoint \S+ has lost bytes, as in a power cut"),
    ):
        (checkpoint / name).write_bytes(b"")
        with pytest.raises(LakeError, match=rf"{told}.*{begins_again}"):
            poll()
        assert (checkpoint / name).read_bytes() == b""


def test_a_log_whose_checkpoint_is_lost_is_read_from_where_history_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path, [STATE])

    def state(
        history: str, cluster: str, number: int, places: dict[str, list[int]] | None
    ) -> dict[str, object]:
        return {
            "history": history,
            "cluster": cluster,
            "round": number,
            "positions": places,
            "memory": "{}",
        }

    stored.append(
        lake,
        STATE,
        [
            state("rebalance_history", "a", 1, {"0": [0, 3]}),
            state("rebalance_history", "a", 2, {"0": [0, 7], "49": [1_780_000_000_000_000, 2]}),
            state("rebalance_history", "b", 1, {}),
            state("rebalance_history", "c", 1, {"0": [0, 3]}),
            state("silver", "a", 9, None),
        ],
    )
    assert group_log_read_up_to(spark, lake, ["a", "b", "nobody"]) == {"a": {"0": 7, "49": 2}}


def test_a_controllers_log_whose_checkpoint_is_lost_is_read_from_where_bronze_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A log that was cut off, of which nothing was read since, is read as one that was just
    found.
    """
    lake, at = new_lake(spark, tmp_path, [bronze.CLUSTER_LOG]), datetime(2026, 11, 25, tzinfo=UTC)

    def span(
        cluster: str, second: int, went: str, next_offset: int, snapshot: int | None = None
    ) -> dict[str, object]:
        told = {
            "cluster": cluster,
            "record": "span",
            "offset": 0,
            "went": went,
            "next_offset": next_offset,
        }
        return told | {
            "read_at": at + timedelta(seconds=second),
            "day": at.date(),
            "snapshot_offset": snapshot,
        }

    stored.append(
        lake,
        bronze.CLUSTER_LOG,
        [
            span("a", 1, "read", 9),
            span("a", 2, "truncated", 4),
            span("a", 3, "read", 7, 5),
            span("a", 3, "read", 6),
            *(span("b", 1, "read", 9), span("b", 2, "truncated", 4)),
            *(span("c", 1, "read", 3), span("c", 1, "lost", 8), span("d", 1, "read", 3)),
        ],
    )
    assert cluster_log_read_up_to(spark, lake, ["a", "b", "c", "nobody"]) == {"a": 6, "c": 8}


def test_a_log_of_transactions_whose_checkpoint_is_lost_is_read_from_where_bronze_has_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A log that was cut off is read from there on."""
    lake, at = new_lake(spark, tmp_path, [TRANSACTION_LOG]), datetime(2026, 11, 25, tzinfo=UTC)

    def row(
        cluster: str, partition: int, second: int, record: str, next_offset: int
    ) -> dict[str, object]:
        return {
            "cluster": cluster,
            "log_partition": partition,
            "offset": 0,
            "record": record,
            "read_at": at + timedelta(seconds=second),
            "day": at.date(),
            "next_offset": next_offset,
            "chunk": 0 if record == "transactions" else None,
        }

    stored.append(
        lake,
        TRANSACTION_LOG,
        [
            row("a", 0, 1, "read", 9),
            row("a", 0, 2, "truncated", 4),
            row("a", 1, 1, "read", 9),
            row("a", 1, 1, "lost", 12),
            row("a", 1, 2, "transactions", 90),
            row("b", 0, 1, "read", 3),
            row("other", 0, 1, "read", 3),
        ],
    )
    assert transaction_log_read_up_to(spark, lake, ["a", "b", "nobody"]) == {
        "a": {"0": 4, "1": 12},
        "b": {"0": 3},
    }
