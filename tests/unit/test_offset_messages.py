"""OffsetFetch and ListOffsets: the messages, against kafka-python's, and their reading into columns, against the exact
reader's.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol import consumer

from metadata_source.errors import ProtocolError, TooSlowError
from metadata_source.protocol import wire
from metadata_source.protocol.entries import read_entries, written_entries
from metadata_source.protocol.offset_messages import LIST_OFFSETS, OFFSET_FETCH
from metadata_source.protocol.spec import Api, Array, Field, Message, Primitive, Struct
from metadata_source.protocol.wire import Reader, write_message
from tests.group_messages import structs
from tests.support.mutations import mutated, mutations
from tests.unit.test_described_groups import check_there_and_back, quickly, told

VERSIONS = [
    (api, version)
    for api in (OFFSET_FETCH, LIST_OFFSETS)
    for version in range(api.lowest, api.response.last_version + 1)
]
LAYOUTS = [*((OFFSET_FETCH, version) for version in (2, 5, 6, 8)), *((LIST_OFFSETS, version) for version in (1, 4, 6))]
"""A version of each way in which entries are laid out."""
of_each_layout = pytest.mark.parametrize(("api", "version"), LAYOUTS, ids=str)


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=str)
def test_messages_there_and_back(api: Api, version: int) -> None:
    check_there_and_back(api, version)


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=str)
def test_messages_are_those_of_kafka_python(api: Api, version: int) -> None:
    @quickly
    @given(structs(api.request.body, version), structs(api.response.body, version))
    def check(request: dict[str, Any], response: dict[str, Any]) -> None:
        for message, values in ((api.request, request), (api.response, response)):
            body = write_message(message, version, values)
            assert (
                told(getattr(consumer, message.name).decode(body, version=version).to_dict(json=False), values)
                == values
            )

    check()


def response(api: Api, entries: list[dict[str, Any]], topics: int = 2) -> dict[str, Any]:
    """An answer that has all of these entries in each of its topics."""
    of_topics = [{"name": f"topic-{n}", "partitions": entries} for n in range(topics)]
    group = {"group_id": "g", "topics": of_topics, "error_code": 0}
    return {"throttle_time_ms": 7, "topics": of_topics, "error_code": 0, "groups": [group, group | {"group_id": "h"}]}


numbers = st.integers(-(2**31), 2**31 - 1)
entries = st.lists(
    st.tuples(
        numbers,
        st.integers(-(2**63), 2**63 - 1),
        st.sampled_from([None, "", "m", "m" * 127, "m" * 300]),
        st.integers(1, 80),
    ),
    max_size=4,
)


def repeated(made: list[tuple[int, int, str | None, int]]) -> list[dict[str, Any]]:
    """Runs of entries of one shape, and what is between them."""
    return [
        {
            "partition_index": number + n if number < 0 else number - n,
            "committed_offset": offset,
            "committed_leader_epoch": number,
            "metadata": metadata,
            "error_code": number % 2**15,
            "timestamp": offset,
            "offset": offset,
            "leader_epoch": number,
        }
        for number, offset, metadata, times in made
        for n in range(times)
    ]


def exactly(body: bytes, message: Message, version: int) -> dict[str, Any]:
    """The columns of the exact reader, without strings of entries."""
    columns = Reader(body, message, version).read_message()
    return {key: column for key, column in columns.items() if not key.endswith(".metadata")}


@of_each_layout
def test_columns_are_those_of_the_exact_reader(api: Api, version: int) -> None:
    @quickly
    @given(entries)
    def check(made: list[tuple[int, int, str | None, int]]) -> None:
        body = write_message(api.response, version, response(api, repeated(made)))
        assert read_entries(body, api.response, version, deadline=math.inf) == exactly(body, api.response, version)

    check()


@pytest.mark.parametrize(("api", "version"), [(OFFSET_FETCH, 6), (OFFSET_FETCH, 9), (LIST_OFFSETS, 11)], ids=str)
def test_unknown_tags_are_passed_over(api: Api, version: int) -> None:
    def tagged(kind: Any) -> Any:
        """The same with a field of a later version in each struct."""
        if isinstance(kind, Array):
            return Array(tagged(kind.of))
        if not isinstance(kind, Struct):
            return kind
        fields = (replace(each, type=tagged(each.type)) for each in kind.fields)
        return Struct((*fields, Field("later", Primitive.STRING, tag=5, default="")))

    def with_later(value: Any) -> Any:
        if isinstance(value, list):
            return [with_later(each) for each in value]
        return (
            {name: with_later(each) for name, each in value.items()} | {"later": "x"}
            if isinstance(value, dict)
            else value
        )

    said = response(api, repeated([(0, 1, "m", 70)]))
    later = replace(api.response, body=tagged(api.response.body))
    body = write_message(later, version, with_later(said))
    usual = write_message(api.response, version, said)
    assert len(body) > len(usual) + 70 * 4
    assert read_entries(body, api.response, version, deadline=math.inf) == exactly(usual, api.response, version)


def outcome(read: Callable[[], Any]) -> Any:
    """The columns, or the error in words."""
    try:
        return read()
    except ProtocolError as error:
        return str(error)


@of_each_layout
def test_no_prefix_is_a_response_and_changed_bytes_end_in_one_line(api: Api, version: int) -> None:
    body = write_message(api.response, version, response(api, repeated([(0, 1, "", 40), (0, 1, None, 2)]), topics=1))
    for size in range(0, len(body), 13):
        with pytest.raises(ProtocolError):
            read_entries(body[:size], api.response, version, deadline=math.inf)
    with pytest.raises(ProtocolError, match="1 bytes are left over"):
        read_entries(body + b"\0", api.response, version, deadline=math.inf)

    @quickly
    @given(mutations)
    def check(changes: list[tuple[float, int, bytes]]) -> None:
        changed = mutated(body, changes)
        at_once = outcome(lambda: read_entries(changed, api.response, version, deadline=math.inf))
        one_by_one = outcome(lambda: exactly(changed, api.response, version))
        # Strings of entries are not looked at.
        assert at_once == one_by_one or "UTF-8" in str(one_by_one)

    check()


def test_entries_that_are_made_to_take_time_end_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [(n, 0, "m" * (n % 3), 1) for n in range(2_000)]
    body = write_message(OFFSET_FETCH.response, 9, response(OFFSET_FETCH, repeated(made)))
    monkeypatch.setattr(wire, "time", SimpleNamespace(monotonic=count().__next__))
    with pytest.raises(TooSlowError, match=r"groups\[0\]\.topics\[0\]\.partitions\[\d{3}"):
        read_entries(body, OFFSET_FETCH.response, 9, deadline=5)


@pytest.mark.parametrize("version", range(LIST_OFFSETS.lowest, LIST_OFFSETS.request.last_version + 1))
def test_written_entries_are_those_that_are_written_one_by_one(version: int) -> None:
    partitions = [0, 7, 2**31 - 1]
    one_by_one = [{"partition_index": each, "current_leader_epoch": -1, "timestamp": -2} for each in partitions]
    columns = {"partition_index": np.array(partitions), "current_leader_epoch": -1, "timestamp": -2}
    at_once = written_entries(LIST_OFFSETS.request, version, "topics.partitions", columns)
    bodies = [
        write_message(
            LIST_OFFSETS.request,
            version,
            {"replica_id": -1, "isolation_level": 0, "topics": [{"name": "t", "partitions": each}], "timeout_ms": 1},
        )
        for each in (one_by_one, at_once)
    ]
    assert bodies[0] == bodies[1]
