"""A poll from end to end, socket to columns, side by side: this poller, confluent-kafka's
list_topics, kafka-python's describe_topics.

Each client keeps its connection and asks a process that has one answer of 1,000 x 100 partitions
ready, so that nobody waits for a broker's work. All are warm and run equally often. Ratios are how
many times as long as this poller the other one takes, by medians.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

from benchmarks.fleet.answers import HUGE, VERSION, answering
from benchmarks.results import Measured, Results, median
from metadata_source.options import TopicFilter, parse
from metadata_source.poller import Poller
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.spec import METADATA_REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.results import Say

TIMEOUT_S: Final = 60
RUNS_OF_A_RUN: Final = 3


def polls(_folder: Path, say: Say, runs: int) -> Results:
    """Measure poll_*, and say what the time of ours is made of."""
    with answering(["huge"]) as (servers,):
        return _measured(servers, say, RUNS_OF_A_RUN * runs)


def _measured(servers: str, say: Say, runs: int) -> Results:
    options = parse({"kafka.bootstrap.servers": servers})
    with Poller(options.clusters[0], TopicFilter(), TIMEOUT_S * 1000) as poller:
        ours = timed(lambda: polled(poller), runs)
    confluent = AdminClient({"bootstrap.servers": servers})
    theirs = {"poll_list_topics_x": timed(lambda: listed(confluent), runs)}
    kafka_python = KafkaAdminClient(
        bootstrap_servers=servers,
        receive_message_max_bytes=100_000_000,
        request_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        theirs["poll_describe_topics_x"] = timed(lambda: described(kafka_python), runs)
    finally:
        kafka_python.close()
    host, _, port = servers.split(",", maxsplit=1)[0].partition(":")
    with socket.create_connection((host, int(port))) as sock:
        body = received(sock)
        say(f"bytes through the socket alone: {timed(lambda: received(sock), runs).value:.1f} ms")
    alone = timed(lambda: decode_response(body, VERSION), runs)
    say(f"decode_response alone, of {len(body):,} bytes: {alone.value:.1f} ms")
    return {"poll_ms": ours} | {
        name: Measured(of.value / ours.value, tuple(each / ours.value for each in of.runs))
        for name, of in theirs.items()
    }


def timed(call: Callable[[], object], runs: int) -> Measured:
    """Return the milliseconds of a call, after two that warm it up."""
    milliseconds = []
    for _ in range(2 + runs):
        start = time.perf_counter()
        call()
        milliseconds.append((time.perf_counter() - start) * 1e3)
    return median(milliseconds[2:])


def polled(poller: Poller) -> None:
    """Poll once, as a task does."""
    poll = poller.poll()
    if poll.metadata is None or poll.metadata.partitions.num_rows != HUGE[0] * HUGE[1]:
        raise RuntimeError(poll.error)


def listed(client: AdminClient) -> None:
    """List topics, which comes with brokers and partitions."""
    if len(client.list_topics(timeout=TIMEOUT_S).topics) != HUGE[0]:
        raise RuntimeError("list_topics: some topics are missing")


def described(client: KafkaAdminClient) -> None:
    """Describe every topic."""
    if len(client.describe_topics()) != HUGE[0]:
        raise RuntimeError("describe_topics: some topics are missing")


def received(sock: socket.socket) -> bytes:
    """Ask for the metadata and read the answer's body: what no client can do without."""
    head = struct.pack(">hhih", METADATA_REQUEST.api_key, VERSION, 1, -1)
    request = head + b"\0" + encode_request(VERSION)
    sock.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
    answer = sock.recv(size, socket.MSG_WAITALL)
    return answer[5:]
