"""What is odd in an answer is found, and said in words that an operator can follow."""

import copy
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.errors import ProtocolError
from metadata_source.protocol.metadata import decode_response
from metadata_source.protocol.oddities import are_odd, have_negatives, have_repeats, oddity
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.for_each import for_each
from tests.support.metadata_messages import cluster, responses

USUAL = cluster(3, 4, shrunk=0.5)


def said(response: dict[str, Any], version: int = 12) -> str | None:
    return oddity(decode_response(write_message(METADATA_RESPONSE, version, response), version))


def partition(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda response: response["topics"][2]["partitions"][3].update(fields)


ODD: dict[str, Callable[[dict[str, Any]], Any]] = {
    "it lists broker 4 twice": lambda response: response["brokers"].append(response["brokers"][4]),
    "it lists a broker with the id -1": lambda response: response["brokers"][3].update(node_id=-1),
    "topic 2 of 3 has no name": lambda response: response["topics"][1].update(name=None),
    "it lists topic topic-1 twice": lambda response: response["topics"].append(
        response["topics"][1]
    ),
    "topic topic-2 has a partition -7": partition(partition_index=-7),
    "topic topic-1 has a partition -3": lambda response: response["topics"][1]["partitions"][
        0
    ].update(partition_index=-3),
    "topic 2 of 3 has an empty name": lambda response: response["topics"][1].update(name=""),
    "broker 3 has no host": lambda response: response["brokers"][3].update(host=""),
    "broker 3 has the port 0": lambda response: response["brokers"][3].update(port=0),
    "broker 3 has the port 65536": lambda response: response["brokers"][3].update(port=65_536),
    "broker 3 has the port 700000": lambda response: response["brokers"][3].update(port=700_000),
    "it lists topic topic-2, partition 1 twice": partition(partition_index=1),
}


@pytest.mark.parametrize("words", ODD)
def test_what_is_odd_is_said_in_one_line(words: str) -> None:
    response = copy.deepcopy(USUAL)
    ODD[words](response)
    assert said(response) == words


@for_each("version", [0, 1, 5, 9, 12, 13])
def test_a_usual_answer_is_not_odd(version: int) -> None:
    assert said(USUAL, version) is None
    assert said(cluster(0, 0), version) is None
    # The same partition number, the same broker: of another topic, of another partition.
    assert said(cluster(20, 1, replication=(1,)), version) is None


def test_a_negative_count_is_no_answer_at_all() -> None:
    body = bytearray(write_message(METADATA_RESPONSE, 5, USUAL))
    name = (
        len(b"\0\0\0\1") + body.index(b"\0\7topic-1") + 5 + 1
    )  # behind the name: is_internal, then how many partitions
    body[name : name + 4] = b"\xff\xff\xff\xff"
    with pytest.raises(ProtocolError):
        decode_response(bytes(body), 5)


def has_twice(keys: Iterable[Any]) -> bool:
    return any(count > 1 for count in Counter(keys).values())


@given(responses(12))
def test_whatever_is_odd_is_found(response: dict[str, Any]) -> None:
    brokers = [broker["node_id"] for broker in response["brokers"]]
    names = [topic["name"] for topic in response["topics"]]
    entries = [entry for topic in response["topics"] for entry in topic["partitions"]]
    is_odd = (
        has_twice(brokers)
        or min(brokers, default=0) < 0
        or any(
            not broker["host"] or not 0 < broker["port"] < 65_536 for broker in response["brokers"]
        )
        or not all(names)
        or has_twice(names)
        or any(entry["partition_index"] < 0 for entry in entries)
        or any(
            has_twice(entry["partition_index"] for entry in topic["partitions"])
            for topic in response["topics"]
        )
    )
    assert (said(response) is not None) == is_odd


@for_each("name", ["replica_nodes", "isr_nodes", "offline_replicas"])
@for_each("nodes", [[5, 6, 5], [8, 8], [*range(12), 1], [1, -5]])
def test_a_broker_that_a_partition_lists_twice_is_no_fault_of_the_answer(
    name: str, nodes: list[int]
) -> None:
    response = copy.deepcopy(USUAL)
    partition(**{name: nodes})(response)
    assert said(response) is None


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ([[1, 2], [2, 1], [], None], [False] * 4),
        ([[1, 2, 1], [3]], [True, False]),
        ([[3], [-1, 2]], [False, True]),
        # Long ones are sorted.
        ([[*range(9)], [*range(9)], [8]], [False] * 3),
        ([[*range(9)], [*range(9), 0]], [False, True]),
    ],
)
def test_lists_of_brokers_that_cannot_be_meant(values: list[Any], odd: list[bool]) -> None:
    assert are_odd(pa.array(values, pa.list_(pa.int32()))).tolist() == odd


lists = st.lists(st.none() | st.lists(st.integers(-1, 4), max_size=4))


@given(lists, lists | st.just([[*range(20), 19]]))
def test_the_lists_are_found_that_have_a_number_twice(one: list[Any], other: list[Any]) -> None:
    # Longer ones are sorted, short ones compared.
    values = [*one, *other]
    found = have_repeats(pa.array(values, pa.list_(pa.int32())))
    assert found.tolist() == [has_twice(each or ()) for each in values]
    negative = [min(each or (), default=0) < 0 for each in values]
    lists_ = pa.array(values, pa.list_(pa.int32()))
    assert have_negatives(lists_).tolist() == have_negatives(lists_.slice(0)).tolist() == negative
    assert are_odd(lists_).tolist() == [
        twice or below for twice, below in zip(found, negative, strict=True)
    ]
