"""A digest changes with everything that is covered and with nothing else; version 1 is pinned."""

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.protocol.digest import (
    DIGEST_VERSION,
    answer_digest,
    rows_digest,
    topic_digests,
)
from metadata_source.protocol.metadata import decode_response
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.examples import examples
from tests.support.metadata_messages import (
    cluster,
    decoded,
    error_codes,
    node_ids,
    node_lists,
    responses,
)

Topic = dict[str, Any]
Edit = Callable[[Topic], object]
LAST = 4


def base() -> dict[str, Any]:
    response = cluster(3, 5, shrunk=0.0)
    response["topics"][1]["partitions"][LAST] |= {
        "isr_nodes": [7, 5],
        "offline_replicas": [1, 2],
        "replica_nodes": [7, 5, 1, 2],
    }
    return response


def digests(response: dict[str, Any], version: int = 12) -> list[bytes]:
    array = topic_digests(
        decode_response(write_message(METADATA_RESPONSE, version, response), version)
    )
    assert array.null_count == 0
    return array.to_pylist()


def edited(edit: Edit) -> dict[str, Any]:
    response = copy.deepcopy(base())
    edit(response["topics"][1])
    return response


def in_partition(**fields: Any) -> Edit:
    return lambda topic: topic["partitions"][LAST].update(fields)


CHANGES: dict[str, Edit] = {
    "topic id": lambda topic: topic.update(
        topic_id=topic["topic_id"][:-1] + bytes([topic["topic_id"][-1] ^ 1])
    ),
    "no topic id": lambda topic: topic.update(topic_id=bytes(16)),
    "topic error": lambda topic: topic.update(error_code=-1),
    "is_internal": lambda topic: topic.update(is_internal=not topic["is_internal"]),
    "fewer partitions": lambda topic: topic["partitions"].pop(),
    "no partitions": lambda topic: topic["partitions"].clear(),
    "a partition twice": lambda topic: topic["partitions"].append(topic["partitions"][0]),
    "partition number": in_partition(partition_index=9),
    "partition error": in_partition(error_code=5),
    "another partition error": in_partition(error_code=-1),
    "leader": in_partition(leader_id=5),
    "no leader": in_partition(leader_id=-1),
    "leader epoch": in_partition(leader_epoch=77),
    "no leader epoch": in_partition(leader_epoch=-1),
    "order of replicas": in_partition(replica_nodes=[5, 7, 1, 2]),
    "replicas": in_partition(replica_nodes=[7, 5, 1, 3]),
    "fewer replicas": in_partition(replica_nodes=[7, 5, 1]),
    "no replicas": in_partition(replica_nodes=[]),
    "ISR": in_partition(isr_nodes=[7, 1]),
    "shrunk ISR": in_partition(isr_nodes=[7]),
    "empty ISR": in_partition(isr_nodes=[]),
    "ISR with a repeated node": in_partition(isr_nodes=[7, 5, 5]),
    "offline replicas": in_partition(offline_replicas=[1]),
    "no offline replicas": in_partition(offline_replicas=[]),
    "a node moves from ISR to offline": in_partition(isr_nodes=[7], offline_replicas=[1, 2, 5]),
    "lists exchanged": in_partition(isr_nodes=[1, 2], offline_replicas=[7, 5]),
    "partitions exchange their numbers": lambda topic: (
        topic["partitions"][0].update(partition_index=LAST),
        topic["partitions"][LAST].update(partition_index=0),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_any_change_of_what_is_covered_changes_the_digest_of_that_topic_only(name: str) -> None:
    before, after = digests(base()), digests(edited(CHANGES[name]))
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]


def test_all_changes_differ_from_each_other() -> None:
    assert len({digests(edited(edit))[1] for edit in CHANGES.values()}) == len(CHANGES)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda topic: topic["partitions"].reverse(), id="order of partitions"),
        pytest.param(in_partition(isr_nodes=[5, 7]), id="order of the ISR"),
        pytest.param(in_partition(offline_replicas=[2, 1]), id="order of offline replicas"),
        pytest.param(
            lambda topic: topic.update(topic_authorized_operations=7), id="authorized operations"
        ),
        pytest.param(lambda topic: topic.update(name="another"), id="name"),
    ],
)
def test_what_means_nothing_does_not_change_the_digest(edit: Edit) -> None:
    assert digests(edited(edit)) == digests(base())


def test_order_of_topics_does_not_matter() -> None:
    response = base()
    response["topics"].reverse()
    assert digests(response) == digests(base())[::-1]


def test_fields_that_a_version_lacks_differ_from_empty_ones() -> None:
    response = base()
    for topic in response["topics"]:
        topic |= {"is_internal": False, "topic_id": bytes(16)}
        for entry in topic["partitions"]:
            entry |= {"offline_replicas": [], "leader_epoch": 0}
    by_version = [digests(response, version)[0] for version in (0, 1, 5, 7)]
    assert len(set(by_version)) == 4
    assert digests(response, 7) == digests(response, 12)


def test_no_topics() -> None:
    assert digests(cluster(0, 0)) == []


def test_every_bit_depends_on_every_field() -> None:
    rng = random.Random(3)
    flips = []
    for _ in range(50):
        node = rng.randrange(2**20)
        changed = (
            digests(edited(in_partition(leader_id=node ^ bit)))[1]
            for bit in (0, 1 << rng.randrange(20))
        )
        one, other = (np.unpackbits(np.frombuffer(each, np.uint8)) for each in changed)
        flips.append(one != other)
    rates = np.mean(flips, axis=0)
    assert rates.shape == (128,)
    assert rates.min() > 0.2
    assert rates.max() < 0.8


def test_version_1_is_pinned() -> None:
    entry = {"error_code": 5, "partition_index": 3, "leader_id": -1, "leader_epoch": 41}
    lists = {"replica_nodes": [3, 1, 2], "isr_nodes": [2, 1], "offline_replicas": [3]}
    topic = {
        "error_code": 0,
        "name": "orders",
        "topic_id": bytes(range(16)),
        "is_internal": False,
        "partitions": [entry | lists],
        "topic_authorized_operations": 0,
    }
    response = cluster(0, 0) | {"topics": [topic]}
    assert DIGEST_VERSION == 1
    assert digests(response, 12)[0].hex() == "2ed1d17f7ab61437a6ace5446a6cefe7"
    assert digests(response, 0)[0].hex() == "3e19d2cccb156e4b96ed87d95a64ad81"


def of_answer(response: dict[str, Any], version: int = 12, **more: Any) -> bytes:
    metadata = decode_response(write_message(METADATA_RESPONSE, version, response), version)
    return answer_digest(metadata, topic_digests(metadata), more)


def told(response: dict[str, Any], version: int) -> dict[str, Any]:
    """What of an answer is covered, each set in an order of its own."""
    said = decoded(decode_response(write_message(METADATA_RESPONSE, version, response), version))
    topics = [
        {name: value for name, value in topic.items() if name != "authorized_operations"}
        | {
            "partitions": sorted(
                canonical(each) for each in said["partitions"] if each["topic"] == topic["topic"]
            )
        }
        for topic in said["topics"]
    ]
    return {
        "cluster_id": said["cluster_id"],
        "brokers": sorted(said["brokers"], key=lambda each: each["broker_id"]),
        "topics": sorted(topics, key=lambda each: each["topic"]),
    }


def canonical(partition: dict[str, Any]) -> str:
    offline = partition["offline_replicas"]
    return str(
        partition
        | {
            "isr": sorted(partition["isr"]),
            "offline_replicas": None if offline is None else sorted(offline),
        }
    )


@st.composite
def answers(draw: st.DrawFn) -> tuple[int, dict[str, Any]]:
    """A version, and an answer in which no broker and no topic is listed twice, and each topic has
    a name.
    """
    version = draw(st.sampled_from([0, 1, 5, 9, 12, 13]))
    response = draw(responses(version))
    for number, broker in enumerate(response["brokers"]):
        broker["node_id"] = number
    for number, topic in enumerate(response["topics"]):
        topic["name"] = f"{topic['name'] or ''}{number}"
    return version, response


@given(answers(), st.randoms())
def test_an_answer_in_another_order_has_the_same_digest(
    given_answer: tuple[int, dict], rng: random.Random
) -> None:
    version, response = given_answer
    other = copy.deepcopy(response)
    rng.shuffle(other["brokers"])
    rng.shuffle(other["topics"])
    for topic in other["topics"]:
        rng.shuffle(topic["partitions"])
        for partition in topic["partitions"]:
            rng.shuffle(partition["isr_nodes"])
            rng.shuffle(partition["offline_replicas"])
    other |= {"controller_id": rng.randrange(9), "throttle_time_ms": rng.randrange(9)}
    assert of_answer(response, version) == of_answer(other, version)


NEW_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "cluster_id": st.none() | st.text("ab", max_size=2),
    "brokers.host": st.text("ab", max_size=2),
    "brokers.port": st.integers(0, 3),
    "brokers.rack": st.none() | st.text("ab", max_size=2),
    "topics.name": st.text("ab", min_size=1, max_size=2),
    "topics.error_code": error_codes,
    "topics.topic_id": st.binary(min_size=16, max_size=16),
    "topics.is_internal": st.booleans(),
    "topics.partitions.error_code": error_codes,
    "topics.partitions.partition_index": st.integers(0, 3),
    "topics.partitions.leader_id": node_ids,
    "topics.partitions.leader_epoch": st.integers(-1, 3),
    "topics.partitions.replica_nodes": node_lists,
    "topics.partitions.isr_nodes": node_lists,
    "topics.partitions.offline_replicas": node_lists,
}


@settings(max_examples=examples(20))
@given(answers(), st.data())
def test_an_answer_has_another_digest_if_and_only_if_it_says_something_else(
    given_answer: tuple[int, dict], data: st.DataObject
) -> None:
    version, response = given_answer
    said, digest = told(response, version), of_answer(response, version)
    for path, values in NEW_VALUES.items():
        other = copy.deepcopy(response)
        *folders, name = path.split(".")
        holder: Any = other
        for folder in folders:
            holder = (
                data.draw(st.sampled_from(holder[folder])) if holder and holder[folder] else None
            )
        if holder is not None:
            holder[name] = data.draw(values)
            same = said == told(other, version)
            assert (digest == of_answer(other, version)) == same, path


def test_the_length_of_a_name_is_covered() -> None:
    one, other = cluster(2, 0), cluster(2, 0)
    for response, names in ((one, ("a", "bc")), (other, ("ab", "c"))):
        for topic, name in zip(response["topics"], names, strict=True):
            topic |= {"name": name, "topic_id": bytes(16), "is_internal": False}
    assert of_answer(one) != of_answer(other)


def test_what_a_poll_adds_is_covered() -> None:
    assert of_answer(base(), api_version=12) == of_answer(base(), api_version=12)
    assert (
        len(
            {
                of_answer(base()),
                of_answer(base(), api_version=12),
                of_answer(base(), api_version=13),
            }
        )
        == 3
    )


def test_version_1_of_whole_answers_is_pinned() -> None:
    assert (
        of_answer(base(), api_version=12, topic_filter=None).hex()
        == "ef2afca30c2234874c995e9a187dddc0"
    )
    assert of_answer(cluster(0, 0)).hex() == "ba5ba6bb2584630f236b966c08a4e24b"
    assert (
        rows_digest([["a"], [{"partition": 0, "adding": [3], "removing": []}]]).hex()
        == "fefaa333ca91ef975abae267db104222"
    )


MASK = 2**64 - 1


def test_the_documented_algorithm_gives_the_same() -> None:
    """Version 1 as `digest` describes it, in plain Python."""

    def mix(z: int) -> int:
        z = z + 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        return z ^ z >> 31

    def chain(h: int, *words: int) -> int:
        for word in words:
            h = mix(h ^ word)
        return h

    def u32(x: int) -> int:
        return x & 0xFFFFFFFF

    def lane(seed: int, row: dict[str, Any], entries: list[dict[str, Any]]) -> int:
        total = 0
        for entry in entries:
            replicas, isr, offline = entry["replicas"], entry["isr"], entry["offline_replicas"]
            epoch = entry["leader_epoch"]
            lengths = (
                len(replicas)
                + (len(isr) << 21)
                + ((0 if offline is None else len(offline) + 1) << 42)
            )
            total += chain(
                seed,
                u32(entry["partition"]) << 32 | u32(entry["leader"]),
                (entry["error_code"] & 0xFFFF) << 33 | (epoch is not None) << 32 | u32(epoch or 0),
                lengths,
                sum(chain(seed, 1, at << 32 | u32(node)) for at, node in enumerate(replicas))
                & MASK,
                sum(chain(seed, 2, u32(node)) for node in isr) & MASK,
                sum(chain(seed, 3, u32(node)) for node in offline or ()) & MASK,
            )
        text = (row["topic_id"] or "").encode().ljust(24, b"\0")
        internal = {False: 0, True: 1, None: 2}[row["is_internal"]]
        return chain(
            seed,
            total & MASK,
            *(int.from_bytes(text[at : at + 8], "little") for at in (0, 8, 16)),
            (row["error_code"] & 0xFFFF) << 34 | internal << 32 | len(entries),
        )

    for version in (0, 12):
        decoded = decode_response(write_message(METADATA_RESPONSE, version, base()), version)
        entries = decoded.partitions.to_pylist()
        again = []
        for row in decoded.topics.to_pylist():
            own = [entry for entry in entries if entry["topic"] == row["topic"]]
            lanes = [lane(seed, row, own) for seed in (0x6B61666B61206D64, 0x6D65746164617461)]
            again.append(b"".join(each.to_bytes(8, "little") for each in lanes))
        assert topic_digests(decoded).to_pylist() == again
