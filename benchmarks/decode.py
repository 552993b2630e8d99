"""Decoding Metadata responses, side by side: this decoder to Arrow, kafka-python, aiokafka, and
Kafka's own Java classes.

Each figure is the best of as many runs for each decoder; only of 1,000,000 partitions the pure
Python ones are run once. All on one machine in one process, Java's measured inside its JVM, after
runs that warm it up. Ratios are how many times as long as this decoder the other one takes.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import time
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark
from aiokafka.protocol.metadata import MetadataResponse_v5
from kafka.protocol.metadata import MetadataResponse

from benchmarks.bodies import metadata_response
from benchmarks.results import Results, median
from kafka_metadata_history.jars.java import java_command
from local_cluster.cluster import KAFKA_VERSION
from local_cluster.jars import kafka_jars
from local_cluster.member import java_machine
from metadata_source.protocol.metadata import decode_response

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.results import Say

    JavaTimer = Callable[[int], list[float]]

VERSION = 12
AIOKAFKA_VERSION = 5
SHARES = (0.0, 0.01, 0.5)
SHAPES = ((1_000, 100), (10_000, 10), (100_000, 1))
MILLION = (1_000, 1_000)
JAVA_WARM_UP = 100

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
    """Milliseconds of each decoder for a response."""

    topics: int
    partitions: int
    shrunk: float
    body_bytes: int
    ours: float
    ours_v5: float
    kafka_python: float
    aiokafka_v5: float
    java_warm: float

    def __str__(self) -> str:
        return (
            f"{self.topics:,} x {self.partitions:,}, {self.shrunk:.0%} shrunk, "
            f"{self.body_bytes / 1e6:.1f} MB: ours {self.ours:.1f} ms, kafka-python "
            f"{self.kafka_python:,.1f}, Java {self.java_warm:.1f}; v5: ours {self.ours_v5:.1f}, "
            f"aiokafka {self.aiokafka_v5:,.1f}"
        )


def decoders(folder: Path, say: Say, runs: int) -> Results:
    """Measure decode_*."""
    file, found = folder / "response.bin", []
    with java_timer(file) as java:
        file.write_bytes(metadata_response(VERSION, *SHAPES[0]))
        say(f"Java's first call, 1,000 x 100 in sync: {java(1)[0]:.0f} ms")
        for shape, shrunk in [(shape, shrunk) for shape in SHAPES for shrunk in SHARES]:
            found.append(measured(java, file, *shape, shrunk, runs=runs, slow_runs=runs))
            say(str(found[-1]))
        found.append(measured(java, file, *MILLION, 0.0, runs=runs, slow_runs=1))
        say(str(found[-1]))
    first, million = found[0], found[-1]
    half = [each for each in found if each.shrunk == max(SHARES)]
    values = {
        "decode_ms": first.ours,
        "decode_half_ms": half[0].ours,
        "decode_x": min(each.kafka_python / each.ours for each in found if not each.shrunk),
        "decode_half_x": min(each.kafka_python / each.ours for each in half),
        "decode_aiokafka_x": first.aiokafka_v5 / first.ours_v5,
        "decode_java_x": first.ours / first.java_warm,
        "decode_million_s": million.ours / 1e3,
        "decode_million_x": peak_memory(file) / million.body_bytes,
    }
    return {name: median([value]) for name, value in values.items()}


def measured(
    java: JavaTimer,
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
        *(topics, partitions, shrunk, len(body)),
        ours=best(lambda: decode_response(body, VERSION), runs),
        ours_v5=best(lambda: decode_response(body_v5, AIOKAFKA_VERSION), runs),
        kafka_python=best(lambda: MetadataResponse.decode(body, version=VERSION), slow_runs),
        aiokafka_v5=best(lambda: MetadataResponse_v5.decode(io.BytesIO(body_v5)), slow_runs),
        java_warm=min(java(JAVA_WARM_UP + runs)[JAVA_WARM_UP:]),
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
def java_timer(file: Path) -> Iterator[JavaTimer]:
    """Give a function: times -> milliseconds of each decode of the file by Kafka's classes."""
    jars = os.pathsep.join([*map(str, kafka_jars(KAFKA_VERSION)), str(SPARK_JARS / "*")])
    with java_machine(jars, java_command(), ["-Xmx3g"]) as jvm:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(JAVA_TIMER)
        timer = compiler.getClassLoader().loadClass("Timer").newInstance()
        yield lambda times: [nanos / 1e6 for nanos in timer.time(str(file), VERSION, times)]


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
