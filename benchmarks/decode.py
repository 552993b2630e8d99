"""Decoding Metadata responses, side by side: this decoder to Arrow, kafka-python, aiokafka, and
Kafka's own Java classes.

``python -m benchmarks.decode [--quick]``. Each figure is the best of as many runs as its row says,
as many for each decoder; only of 1,000,000 partitions the pure Python ones are run once. All on one
machine in one process, Java's measured inside its JVM, after runs that warm it up. Ratios are how
many times as long as this decoder the other one takes.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import tempfile
import time
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from aiokafka.protocol.metadata import MetadataResponse_v5
from kafka.protocol.metadata import MetadataResponse
from py4j.java_gateway import JavaGateway

from benchmarks.aims import aim
from benchmarks.bodies import metadata_response
from local_cluster.jars import kafka_jars
from metadata_source.protocol.metadata import decode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION = 12
AIOKAFKA_VERSION = 5
SHARES = (0.0, 0.01, 0.5)
SHAPES = ((1_000, 100), (10_000, 10), (100_000, 1))
MILLION = (1_000, 1_000)
RUNS = 10
QUICK_RUNS = 3
JAVA_WARM_UP = 100
KAFKA = "4.3.1"

SPARK_JARS = Path(pyspark.__file__).parent / "jars"

#: Compiled in the JVM by Janino, which Spark brings: a call from Python would time py4j as well.
JAVA_TIMER = """
public class Timer {
    public long[] time(String file, short version, int times) throws java.io.IOException {
        byte[] body = java.nio.file.Files.readAllBytes(
            java.nio.file.Paths.get(file, new String[0]));
        long[] nanos = new long[times];
        for (int i = 0; i < times; i++) {
            org.apache.kafka.common.protocol.ByteBufferAccessor readable =
                new org.apache.kafka.common.protocol.ByteBufferAccessor(
                    java.nio.ByteBuffer.wrap(body));
            long start = System.nanoTime();
            new org.apache.kafka.common.message.MetadataResponseData(readable, version);
            nanos[i] = System.nanoTime() - start;
        }
        return nanos;
    }
}
"""


@dataclass(frozen=True)
class Figures:
    """Milliseconds of each decoder for a response, the best of `runs`, or `slow_runs` (Python)."""

    topics: int
    partitions: int
    shrunk: float
    body_bytes: int
    runs: int
    slow_runs: int
    ours: float
    ours_v5: float
    kafka_python: float
    aiokafka_v5: float
    java_warm: float


def main() -> None:
    """Print the table, then the aims and what was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 x 100 only, and fewer runs")
    quick = parser.parse_args().quick
    shapes, runs = (SHAPES[:1], QUICK_RUNS) if quick else (SHAPES, RUNS)
    with java_timer() as java, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "response.bin"
        file.write_bytes(metadata_response(VERSION, *SHAPES[0]))
        java_first = java(file, 1)[0]
        print(HEADER)
        all_figures = []
        for topics, partitions in shapes:
            for shrunk in SHARES:
                all_figures.append(
                    measured(java, file, topics, partitions, shrunk, runs=runs, slow_runs=runs)
                )
                print(line(all_figures[-1]), flush=True)
        if not quick:
            all_figures.append(measured(java, file, *MILLION, 0.0, runs=runs, slow_runs=1))
            print(line(all_figures[-1]))
            memory = peak_memory(file) / all_figures[-1].body_bytes
    print(f"Java's first call, 1,000 x 100 in sync: {java_first:.0f} ms")
    for each in aims(all_figures):
        print(each)
    if not quick:
        print(aim("1,000,000 partitions", all_figures[-1].ours / 1e3, "<=", 0.5, " s"))
        print(aim("the body's size in memory, 1,000,000 partitions", memory, "<=", 4))


HEADER = (
    "ms, best of the runs (how many times ours); runs: of each, or: of ours and Java / of "
    f"kafka-python and aiokafka\n{'topics x partitions':>20} {'shrunk':>6} {'body':>8} {'runs':>6} "
    f"{'ours':>7} {'kafka-python':>16} {'Java, warm':>15} {'ours v5':>8} {'aiokafka v5':>16}"
)


def line(figures: Figures) -> str:
    """Return a row of the table."""
    runs = (
        f"{figures.runs}"
        if figures.runs == figures.slow_runs
        else f"{figures.runs} / {figures.slow_runs}"
    )
    return (
        f"{f'{figures.topics:,} x {figures.partitions:,}':>20} {figures.shrunk:>6.0%} "
        f"{figures.body_bytes / 1e6:>5.1f} MB"
        f" {runs:>6} {figures.ours:>7.1f} {_versus(figures.kafka_python, figures.ours):>16}"
        f" {_versus(figures.java_warm, figures.ours):>15} {figures.ours_v5:>8.1f}"
        f" {_versus(figures.aiokafka_v5, figures.ours_v5):>16}"
    )


def _versus(other: float, ours: float) -> str:
    return f"{other:,.1f} ({other / ours:.1f}x)"


def measured(
    java: Callable[[Path, int], list[float]],
    file: Path,
    topics: int,
    partitions: int,
    shrunk: float,
    *,
    runs: int,
    slow_runs: int,
) -> Figures:
    """Return what each decoder takes.

    `slow_runs`: of the pure Python ones, which take seconds for very large responses.
    """
    body = metadata_response(VERSION, topics, partitions, shrunk=shrunk)
    body_v5 = metadata_response(AIOKAFKA_VERSION, topics, partitions, shrunk=shrunk)
    file.write_bytes(body)
    return Figures(
        topics=topics,
        partitions=partitions,
        shrunk=shrunk,
        body_bytes=len(body),
        runs=runs,
        slow_runs=slow_runs,
        ours=best(lambda: decode_response(body, VERSION), runs),
        ours_v5=best(lambda: decode_response(body_v5, AIOKAFKA_VERSION), runs),
        kafka_python=best(lambda: MetadataResponse.decode(body, version=VERSION), slow_runs),
        aiokafka_v5=best(lambda: MetadataResponse_v5.decode(io.BytesIO(body_v5)), slow_runs),
        java_warm=min(java(file, JAVA_WARM_UP + runs)[JAVA_WARM_UP:]),
    )


def best(call: Callable[[], object], runs: int) -> float:
    """Return the milliseconds of the shortest of some calls."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


@contextmanager
def java_timer() -> Iterator[Callable[[Path, int], list[float]]]:
    """Give a function (file, times) -> milliseconds of each decode of that file by Kafka's classes,
    in a JVM of its own.
    """
    gateway: Any = JavaGateway.launch_gateway(
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))),
        classpath=os.pathsep.join([*map(str, kafka_jars(KAFKA)), str(SPARK_JARS / "*")]),
        javaopts=["-Xmx3g"],
        die_on_exit=True,
    )
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(JAVA_TIMER)
        timer = compiler.getClassLoader().loadClass("Timer").newInstance()
        yield lambda file, times: [nanos / 1e6 for nanos in timer.time(str(file), VERSION, times)]
    finally:
        gateway.shutdown()
        gateway.java_process.stdin.close()
        gateway.java_process.wait(30)


def peak_memory(file: Path) -> int:
    """Return the most bytes that decoding this file takes, beside the file, in its own process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak_memory_here, (file,))


def _peak_memory_here(file: Path) -> int:
    """Return NumPy's and Python's peak and Arrow's: together at least the most at any time."""
    body = file.read_bytes()
    # pyarrow imports pandas when it meets its first array.
    decode_response(metadata_response(VERSION, 10, 100), VERSION)
    tracemalloc.start()
    decode_response(body, VERSION)
    return tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory()


def aims(all_figures: list[Figures]) -> Iterator[str]:
    """Return a line for each aim that is a ratio of times."""
    in_sync = min(each.kafka_python / each.ours for each in all_figures if not each.shrunk)
    half = min(each.kafka_python / each.ours for each in all_figures if each.shrunk == max(SHARES))
    java = all_figures[0].ours / all_figures[0].java_warm
    yield aim("kafka-python's time, all in sync, least of all shapes", in_sync, ">=", 15)
    yield aim(
        "kafka-python's time, half of the partitions shrunk, least of all shapes", half, ">=", 3
    )
    yield aim("of warm Java's time, 1,000 x 100 in sync", java, "<=", 5)


if __name__ == "__main__":
    main()
