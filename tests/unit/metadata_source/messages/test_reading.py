"""Answers to cold requests whose bytes are wrong, or made to cost: one clear error each, in bounded
memory and time.
"""

import math
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest, OffsetFetchRequest

from metadata_source.errors import PollError, ProtocolError, TooSlowError
from metadata_source.messages import (
    ConsumerGroupDescribeRequest,
    FetchSnapshotRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
    reading,
)
from metadata_source.messages.reading import read_response, response_of
from metadata_source.questions import Question, commits
from metadata_source.transport import Answer
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.messages import some_values, written
from tests.support.mutations import mutated, mutations

ASKED = (
    (ListGroupsRequest, 2, 5),
    (DescribeGroupsRequest, 4, 6),
    (OffsetFetchRequest, 5, 7, 9),
    (ListOffsetsRequest, 5, 11),
    (FetchRequest, 11, 17),
    (ConsumerGroupDescribeRequest, 1),
    (ShareGroupDescribeRequest, 1),
    (StreamsGroupDescribeRequest, 1),
    (FetchSnapshotRequest, 1),
)
MESSAGES = [(request, version) for request, *versions in ASKED for version in versions]
of_each = for_each(("request_", "version"), MESSAGES)
BILLION = 10**9


def body_of(request: Any, version: int) -> bytes:
    response = response_of(request)
    return written(response, version, some_values(response.fields, version))


def read(request: Any, version: int, body: bytes) -> Any:
    return read_response(request, version, body, deadline=math.inf)


@pytest.fixture
def costs_little() -> Iterator[None]:
    tracemalloc.start()
    begin = time.monotonic()
    yield
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.monotonic() - begin < 5
    assert most < 4 << 20


def test_a_billion_entries_in_twelve_bytes_are_one_error(costs_little: None) -> None:
    body = bytes(6) + BILLION.to_bytes(4) + bytes(2)
    with pytest.raises(ProtocolError) as raised:
        read(ListGroupsRequest, 2, body)
    assert str(raised.value) == (
        "ListGroupsResponse v2: the body at byte 10: an array of 1000000000 entries, but 2 bytes "
        "are left"
    )
    broker: Any = SimpleNamespace(
        address=("one", 9092),
        api_versions={16: (0, 2)},
        request=lambda *_, **__: Answer(body, datetime.now(UTC), 1.0),
    )
    with pytest.raises(PollError) as refused:
        Question(ListGroupsRequest, {}).ask(broker, math.inf)
    assert (refused.value.kind, refused.value.problem) == ("protocol", f"one:9092: {raised.value}")


@pytest.mark.parametrize("count", [BILLION, 2**31 - 1, 3])
def test_a_count_is_held_against_the_bytes_that_are_left(costs_little: None, count: int) -> None:
    """In flexible versions, and of entries within entries."""
    varint = b""
    left = count + 1
    while left > 0x7F:
        varint, left = varint + bytes([left & 0x7F | 0x80]), left >> 7
    varint += bytes([left])
    one_group = bytes(4) + b"\2" + b"\2g"
    for body in (bytes(4) + varint + bytes(1), one_group + varint + bytes(1)):
        with pytest.raises(
            ProtocolError, match=f"an array of {count} entries, but 1 bytes are left"
        ):
            read(OffsetFetchRequest, 9, body)


def test_a_negative_count_is_none(costs_little: None) -> None:
    with pytest.raises(ProtocolError, match="an array of -5 entries"):
        read(ListGroupsRequest, 2, bytes(6) + (-5).to_bytes(4, signed=True))


def test_a_varint_that_does_not_end_costs_no_time(costs_little: None) -> None:
    with pytest.raises(ProtocolError, match="the body at byte 9: a varint of more than 5 bytes"):
        read(OffsetFetchRequest, 9, bytes(4) + b"\xff" * (1 << 20))


def test_what_takes_long_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": 1,
        "metadata": "",
    }
    topic = {"name": "t", "partitions": [partition | {"error_code": 0}] * 2_000}
    group = {"group_id": "g", "error_code": 0, "topics": [topic]}
    body = written(response_of(OffsetFetchRequest), 9, {"throttle_time_ms": 0, "groups": [group]})
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=count().__next__))
    with pytest.raises(
        TooSlowError, match=r"OffsetFetchResponse v9: .* entry 192 of 2000 when its time is over"
    ):
        read_response(OffsetFetchRequest, 9, body, deadline=4)
    broker: Any = SimpleNamespace(
        address=("one", 9092),
        api_versions={9: (0, 9)},
        request=lambda *_, **__: Answer(body, datetime.now(UTC), 1.0),
    )
    monkeypatch.setattr("metadata_source.questions.read_by", lambda _: 4)
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=count().__next__))
    with pytest.raises(PollError) as raised:
        commits(["g"]).ask(broker, 0.0)
    assert raised.value.kind == "timeout"


def test_tagged_fields_end_too(costs_little: None) -> None:
    """Their number, the entries of an array among them, and the time that they take."""
    topics = bytes(4) + bytes(2) + b"\1"
    endless, endpoints = (
        topics + b"\xff\xff\xff\xff\x0f",
        topics + b"\1\0\1" + b"\xff\xff\xff\xff\x0f" + bytes(9),
    )
    for body in (endless, endpoints):
        with pytest.raises(
            ProtocolError, match="FetchSnapshotResponse v1: the body at byte 7: more bytes wanted"
        ):
            read(FetchSnapshotRequest, 1, body)


def test_a_tagged_field_of_a_later_version_is_passed_over() -> None:
    topics = bytes(4) + b"\0\7" + b"\1"
    assert read(FetchSnapshotRequest, 1, topics + b"\1\x09\2ab").error_code == 7
    with pytest.raises(ProtocolError, match="more bytes wanted"):
        read(FetchSnapshotRequest, 1, topics + b"\1\x09\3ab")


def test_tagged_fields_in_a_struct_that_is_one_itself_are_refused() -> None:
    """The library reads none there, and Kafka has none."""
    topic = b"\2\2t" + b"\2" + bytes(4) + bytes(2) + bytes(12) + b"\0" + bytes(16) + b"\1"
    leader = b"\1\0\x09" + bytes(8) + b"\1"
    with pytest.raises(ProtocolError, match="it is no such message"):
        read(FetchSnapshotRequest, 1, bytes(6) + topic + leader + b"\0\0")


def test_many_tagged_fields_end_at_the_deadline() -> None:
    many = bytes(6) + b"\1" + b"\xff\xff\x3f" + b"\5\0" * (2**20 - 1)
    with pytest.raises(TooSlowError, match="a tagged field when its time is over"):
        read_response(FetchSnapshotRequest, 1, many, deadline=time.monotonic() + 0.05)


@of_each
def test_no_prefix_is_an_answer_and_changed_bytes_raise_no_other_error(
    request_: Any, version: int
) -> None:
    body = body_of(request_, version)
    for size in range(0, len(body), 5):
        with pytest.raises(ProtocolError):
            read(request_, version, body[:size])
    with pytest.raises(ProtocolError, match="it should end here"):
        read(request_, version, body + b"\0")

    @settings(max_examples=examples(20), deadline=None)
    @given(mutations)
    def check(changes: list[tuple[float, int, bytes]]) -> None:
        with suppress(ProtocolError):
            read(request_, version, mutated(body, changes))

    check()
