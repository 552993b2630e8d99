"""The checkpoint of a stream and the table that it fills: after a power cut, or with an old copy of
one of them, they do not agree.

Spark plans a batch (`offsets/N`), Delta commits its rows, then Spark notes the batch as done
(`commits/N`). Of each query Delta passes over batches up to the number that the table has.
"""

import logging
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from json import loads

from pyspark.sql import Row, SparkSession

from jobs.run.driver import Checkpoint
from schemas import bronze, transactions
from schemas.lake import Lake, LakeError
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.streams")

_LOOKED_AT = 20
"""So many of a table's newest commits have one of its stream: upkeep commits three at a time."""

_BEGINS_AGAIN = {
    bronze.METADATA_POLLS: "polling begins a new stream then, and what the lake has stays",
    bronze.GROUP_LOG: (
        "reading begins then where history of the log ends, or else at startingOffsets, and what "
        "the lake has stays"
    ),
    **dict.fromkeys(
        (transactions.TRANSACTION_LOG, bronze.CLUSTER_LOG),
        "reading continues then after what the lake has",
    ),
}
"""The effect, and the cost, of removing the checkpoint of the stream that fills a table."""


def check_checkpoint(spark: SparkSession, lake: Lake, table: Table, checkpoint: str) -> None:
    """Let a stream make each batch that its table lacks, once, by removing files of its checkpoint
    that say otherwise or cannot be read; they are logged.

    Raises LakeError where the stream cannot continue: from an old copy of a checkpoint all batches
    up to the number that the table has would be read and not kept, without a word. In a session of
    Spark Connect nothing is checked.
    """
    files = Checkpoint.of(spark, checkpoint)
    if files is None or not files.has("metadata"):
        return
    todo = f"remove {checkpoint}: {_BEGINS_AGAIN[table]}"
    if (query := _query(files.text("metadata"))) is None:
        raise LakeError(
            f"the file metadata of the checkpoint {checkpoint} has lost bytes, as in a power cut; "
            f"{todo}"
        )
    planned, done = files.batches("offsets"), files.batches("commits")
    commits = _newest_commits(spark, lake, table)
    found = max((int(each.batch) for each in commits if each.query == query), default=-1)
    has_all = commits[-1].version == 0
    if found > max(planned, default=-1):
        if found in files.batches("offsets"):
            # Another run has planned and committed it meanwhile: what is there is that one's.
            return
        raise LakeError(
            f"the checkpoint {checkpoint} is an old copy: it ends at batch "
            f"{max(planned, default=-1)}, and {table.full_name} in {lake} has batch {found}; {todo}"
        )
    if done and found < 0 and has_all:
        raise LakeError(
            f"the checkpoint {checkpoint} is another lake's, or a power cut took all from the "
            f"table: {table.full_name} in {lake} has nothing of its {max(done) + 1} batches; {todo}"
        )
    # Of a table whose newest commits name no batch of the query, the checkpoint knows best.
    last = found if found >= 0 or has_all else max(done, default=max(planned, default=0) - 1)
    gone = files_to_remove(last, planned, done, lambda name: is_whole(files.text(name)))
    if gone is None:
        is_behind = max(done, default=-1) > last
        has = (
            f"lost the batches after {last}, up to {max(done)}"
            if is_behind
            else f"has batch {last}"
        )
        raise LakeError(
            f"{table.full_name} in {lake} {has}, and the checkpoint {checkpoint} cannot tell any "
            f"more where batch {last} ended, as after a power cut; {todo}"
        )
    for name in gone:
        files.delete(name)
    if gone:
        log.warning(
            "%s in %s ends with batch %d, and the checkpoint %s does not agree, as after a power "
            "cut: %s removed, and what came after that batch is made again",
            *(table.full_name, lake, last, checkpoint, ", ".join(gone)),
        )


def files_to_remove(
    last: int, planned: Collection[int], done: Collection[int], is_whole: Callable[[str], bool]
) -> list[str] | None:
    """The files that a checkpoint must not have, so that Spark continues after `last`, the last
    batch that the table has (-1: none); None if it cannot.

    `planned`, `done`: the batches in `offsets` and `commits`. `is_whole`: whether a file can be
    read.
    """
    following = last + 1
    # A plan without rows in the table may be dropped, and is made again: nothing of it was kept.
    gone = [f"offsets/{batch}" for batch in sorted(planned) if batch > following]
    if following in planned and not is_whole(f"offsets/{following}"):
        gone.append(f"offsets/{following}")
    # Of what is not noted as done Spark makes the last batch again, and Delta passes it over.
    for batch in sorted(done, reverse=True):
        if batch <= last and is_whole(f"commits/{batch}"):
            break
        gone.append(f"commits/{batch}")
    can_continue = last < 0 or (last in planned and is_whole(f"offsets/{last}"))
    return gone if can_continue else None


def is_whole(text: str | None) -> bool:
    """Whether a file of `offsets` or `commits` is as Spark writes it: a version, then a line of
    JSON, or `-`, each.
    """
    version, *lines = (text or "").splitlines() or [""]
    return bool(re.fullmatch(r"v[0-9]+", version) and lines and all(map(_is_json, lines)))


def _is_json(line: str) -> bool:
    with suppress(ValueError):
        return line == "-" or loads(line) is not None
    return False


def _query(metadata: str | None) -> str | None:
    """The id of the query, by the file `metadata`; None where it cannot be read."""
    with suppress(ValueError, KeyError, TypeError):
        return str(loads(metadata or "")["id"])
    return None


def _newest_commits(spark: SparkSession, lake: Lake, table: Table) -> list[Row]:
    """The newest commits of a table, newest first: `version`, and of those of a stream its `query`
    and `batch`.
    """
    commits = spark.sql(f"DESCRIBE HISTORY {lake.identifier(table)} LIMIT {_LOOKED_AT}")
    of = "operationParameters"
    return commits.selectExpr(
        "version", f"{of}['queryId'] AS query", f"{of}['epochId'] AS batch"
    ).collect()
