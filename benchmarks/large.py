"""Rounds of one large cluster: its first poll, ten changes, a broker that is gone. Prints JSON:
seconds, CPU seconds, peak memory.

    python -m benchmarks.large [--topics 100000] [--memory 2g]

Each topic has ten partitions on three of thirty brokers, and each poll is a key frame: all topics
are in bronze again.
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.configuration.config import Config
from jobs.histories.poll_plan import OF_POLLS
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import ensure_tables
from schemas.lake import TABLES, Lake

STREAM = "20261101T000000Z-00000000"
B = "CAST((id * 10 + p) % 30 AS INT)"
"""The first replica of a partition."""
ALL = f"array({B}, ({B} + 1) % 30, ({B} + 2) % 30)"
FEWER = f"IF(id < 10 AND p = 0, slice({ALL}, 1, 2), {ALL})"
NONE = "CAST(array() AS array<int>)"
POLLS = {
    "first": {"leader": B, "epoch": "0", "isr": ALL, "offline": NONE},
    "ten changes": {"leader": B, "epoch": "0", "isr": FEWER, "offline": NONE},
    "a broker is gone": {
        "leader": f"IF({B} = 7, 8, {B})",
        "epoch": f"IF({B} = 7, 1, 0)",
        "isr": f"array_remove({FEWER}, 7)",
        "offline": f"filter({ALL}, x -> x = 7)",
    },
}


def write_poll(
    spark: SparkSession, lake: Lake, n: int, topics: int, said: dict[str, str], *, listed: str
) -> None:
    """A key frame of bronze. `listed`: a condition on the brokers' ids."""
    partitions = (
        "transform(sequence(0, 9), p -> named_struct('partition', p, 'error_code', 0, 'leader', "
        f"{said['leader']}, 'leader_epoch', {said['epoch']}, 'replicas', {ALL}, 'isr', "
        f"{said['isr']}, 'offline_replicas', {said['offline']}))"
    )
    at = f"timestamp '2026-11-01T00:{n:02d}:00Z'"
    key = {
        "poll_id": f"'{STREAM}/{n:012d}'",
        "stream": f"'{STREAM}'",
        "n": str(n),
        "cluster": "'large'",
        "chunk": "0",
        "day": "date '2026-11-01'",
        "cluster_id": "'id-large'",
        "received_at": at,
    }
    topic = {
        "record": "'topic'",
        "topic": "format_string('topic-%06d', id)",
        "present": "true",
        "topic_id": "substr(md5(CAST(id AS STRING)), 1, 22)",
        "error_code": "0",
        "is_internal": "false",
        "partition_count": "10",
        "digest_version": "1",
        "digest": "unhex(md5(to_json(_partitions)))",
        "partitions": "_partitions",
    }
    header = {
        "record": "'poll'",
        "interval_ms": "10000",
        "scheduled_at": at,
        "sent_at": at,
        "outcome": "'ok'",
        "api_version": "12",
        "metadata_version_level": "25",
        "elr_version_level": "0",
        "is_key_frame": "true",
        "digest": f"unhex(md5('{n}'))",
        "partition_count": str(topics * 10),
        "topic_count": str(topics),
        "brokers": (
            f"transform(filter(sequence(0, 29), x -> {listed}), x -> named_struct('broker_id', x, "
            "'host', 'h', 'port', 9092, 'rack', 'a'))"
        ),
    }
    frames = [
        spark.range(topics)
        .withColumn("_partitions", F.expr(partitions))
        .selectExpr(*_columns(key | topic)),
        spark.range(1).selectExpr(*_columns(key | header)),
    ]
    rows = frames[0].coalesce(2).unionByName(frames[1])
    rows.write.format("delta").mode("append").save(lake.path(METADATA_POLLS))


def _columns(given: dict[str, str]) -> list[str]:
    return [
        f"CAST({given.get(c.name, 'NULL')} AS {c.type}) AS `{c.name}`"
        for c in METADATA_POLLS.columns
    ]


def usage(pid: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a process and all below it that are alive; those that have
    ended count by their parents.
    """
    cpu, resident = 0.0, 0
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            resident += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * page
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue
        cpu += sum(map(int, fields[11:15])) / tick
    return cpu, resident


@contextmanager
def measured(into: dict[str, Any], name: str) -> Iterator[None]:
    peak, done = [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            peak[0] = max(peak[0], usage(os.getpid())[1])

    watching = threading.Thread(target=watch)
    watching.start()
    before, since = usage(os.getpid())[0], time.monotonic()
    try:
        yield
    finally:
        done.set()
        watching.join()
        into[name] = {
            "s": round(time.monotonic() - since, 1),
            "cpu_s": round(usage(os.getpid())[0] - before, 1),
            "peak_gb": round(peak[0] / 2**30, 2),
        }
        print(name, json.dumps(into[name]), flush=True)


def session(memory: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("large")
    for line in Path("conf/spark-defaults.conf").read_text().splitlines():
        if line.startswith("spark."):
            builder = builder.config(*line.split(None, 1))
    return builder.config("spark.driver.memory", memory).getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--memory", default="2g")
    given = parser.parse_args()
    spark = session(given.memory)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(root=folder)
        ensure_tables(spark, lake, TABLES)
        config = Config(lake, "", {}, {}, None)  # type: ignore[arg-type]
        history = Engine(spark, config, Polls())
        for n, (name, said) in enumerate(POLLS.items()):
            write_poll(spark, lake, n, given.topics, said, listed="x <> 7" if n == 2 else "true")
            rounds = 0
            more = True
            while more:
                with measured(found, f"{name}, round {rounds}"):
                    more = history.round(datetime.now(UTC))
                rounds += 1
        for table in (t for of in OF_POLLS.values() for t in of):
            print(table.full_name, lake.read(spark, table).count(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
