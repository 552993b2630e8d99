"""A poll from end to end, socket to columns, side by side: this poller, confluent-kafka's
list_topics, kafka-python's describe_topics.

``python -m benchmarks.poll [--quick]``. Each client keeps its connection and asks a process that
replays one answer of 1,000 x 100 partitions (`benchmarks.replay`), so that nobody waits for a
broker's work. All are warm and run equally often. Ratios are how many times as long as this poller
the other one takes, by medians. The last rows say what this poller's time is made of.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import struct
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from benchmarks.aims import aim
from benchmarks.replay import METADATA, VERSION, replayed
from metadata_source.options import TopicFilter, parse
from metadata_source.poller import Poller
from metadata_source.protocol.metadata import decode_response, encode_request

if TYPE_CHECKING:
    from collections.abc import Callable

TOPICS: Final = 1_000
PARTITIONS: Final = 100
TIMEOUT_S: Final = 60


class Times(NamedTuple):
    """Milliseconds of one way to get an answer."""

    what: str
    best: float
    median: float
    runs: int


def main() -> None:
    """Print the table, then the aim and what was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    quick = parser.parse_args().quick
    with replayed(TOPICS, PARTITIONS) as address:
        ours, others, parts = measured(address, runs=3 if quick else 15)
    print(
        f"a poll end to end, {TOPICS:,} x {PARTITIONS} partitions, ms {'best':>24} {'median':>8} "
        f"{'runs':>5} {'times ours':>11}"
    )
    for times in (ours, *others, *parts):
        ratio = f"{times.median / ours.median:10.2f}x"
        print(
            f"{times.what:<56} {times.best:>12.1f} {times.median:>8.1f} {times.runs:>5} {ratio}",
            flush=True,
        )
    print(aim("list_topics, end to end, medians", others[0].median / ours.median, ">=", 10))


def measured(address: tuple[str, int], *, runs: int) -> tuple[Times, list[Times], list[Times]]:
    """Return what our poll, the other clients and the parts of our poll take."""
    host, port = address
    bootstrap = f"{host}:{port}"
    options = parse({"kafka.bootstrap.servers": bootstrap})
    with Poller(options.clusters[0], TopicFilter(), TIMEOUT_S * 1000) as poller:
        ours = timed("ours: Poller.poll, to Arrow tables", lambda: polled(poller), runs)
    confluent = AdminClient({"bootstrap.servers": bootstrap})
    others = [timed("confluent-kafka: list_topics, to objects", lambda: listed(confluent), runs)]
    kafka_python = KafkaAdminClient(
        bootstrap_servers=bootstrap,
        receive_message_max_bytes=100_000_000,
        request_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        others.append(
            timed("kafka-python: describe_topics, to dicts", lambda: described(kafka_python), runs)
        )
    finally:
        kafka_python.close()
    with socket.create_connection(address) as sock:
        body = received(sock)
        parts = [
            timed("of ours: bytes through the socket alone", lambda: received(sock), runs),
            timed("of ours: decode_response alone", lambda: decode_response(body, VERSION), runs),
        ]
    return ours, others, parts


def timed(what: str, call: Callable[[], object], runs: int) -> Times:
    """Time a call after two that warm it up."""
    call()
    call()
    milliseconds = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        milliseconds.append((time.perf_counter() - start) * 1e3)
    return Times(what, min(milliseconds), statistics.median(milliseconds), runs)


def polled(poller: Poller) -> None:
    """Poll once, as a task does."""
    poll = poller.poll()
    if poll.metadata is None or poll.metadata.partitions.num_rows != TOPICS * PARTITIONS:
        raise RuntimeError(poll.error)


def listed(client: AdminClient) -> None:
    """List topics, which comes with brokers and partitions."""
    if len(client.list_topics(timeout=TIMEOUT_S).topics) != TOPICS:
        raise RuntimeError("list_topics: some topics are missing")


def described(client: KafkaAdminClient) -> None:
    """Describe every topic."""
    if len(client.describe_topics()) != TOPICS:
        raise RuntimeError("describe_topics: some topics are missing")


def received(sock: socket.socket) -> bytes:
    """Ask for the metadata and read the answer's body: what no client can do without."""
    request = struct.pack(">hhih", METADATA, VERSION, 1, -1) + b"\0" + encode_request(VERSION)
    sock.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    answer = sock.recv(size, socket.MSG_WAITALL)
    return answer[5:]


if __name__ == "__main__":
    main()
