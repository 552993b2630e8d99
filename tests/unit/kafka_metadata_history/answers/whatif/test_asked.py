"""The state of a cluster, made of its brokers' answers."""

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kafka_metadata_history.answers.whatif.asked import state_of
from kafka_metadata_history.answers.whatif.state import Broker, Partition, Quorum
from metadata_source.enrichment import Answer, Rows
from metadata_source.kinds import CONFLUENT, KAFKA
from metadata_source.now import CaughtUp, Now
from metadata_source.poll import Poll
from metadata_source.protocol.metadata import PARTITIONS
from metadata_source.quorum import VOTER_CAUGHT_UP_MS
from tests.support.byte_cluster import made

TOPIC = {"topic": "orders", "partition": 0, "error_code": 0, "leader": 1, "leader_epoch": 4}
CONFIGS = [
    ("min.insync.replicas", {"value": "2", "source": None}),
    ("unclean.leader.election.enable", {"value": "true", "source": None}),
]
FENCED = [{"broker_id": 7, "host": "b7", "port": 9092, "rack": "c"}]
LISTS: dict[str, Any] = {"replicas": [1, 2, 0], "isr": [1], "offline_replicas": []}


def now(partition: dict[str, Any] | None = None, **changed: Any) -> Now:
    row = TOPIC | LISTS | (partition or {})
    metadata = made([("b", 1)] * 3, orders=[(4, (1,))])
    metadata = replace(metadata, partitions=pa.Table.from_pylist([row], PARTITIONS))
    moves = {"partition": 0, "adding": [0], "removing": [2]}
    rows = {
        "configs": Rows([CONFIGS], ["orders"]),
        "reassignments": Rows([[moves]], ["orders"]),
        "elr": Rows([[{"partition": 0, "elr": [2], "last_known_elr": []}]], ["orders"]),
        "fenced": Rows([FENCED]),
    }
    answers = {kind: Answer(kind, "ok", rows=of) for kind, of in rows.items()}
    poll = Poll(metadata_version_level=21, metadata_version_highest=25, elr_version_level=1)
    quorum = CaughtUp(1, frozenset({1, 2, 3}), {1: 0, 2: VOTER_CAUGHT_UP_MS + 1, 3: math.inf})
    return replace(Now(poll, metadata, answers, "ok", quorum), **changed)


def without(kind: str, outcome: str, **more: Any) -> Now:
    whole = now(**more)
    return replace(whole, answers={**whole.answers, kind: Answer(kind, outcome)})


def test_all_answers_make_a_state() -> None:
    state, lacks = state_of("prod", KAFKA, now())
    assert lacks == []
    assert state.brokers == dict.fromkeys((0, 1, 2), Broker()) | {7: Broker("c", is_live=False)}
    assert state.partitions == [
        Partition("orders", 0, 1, [1, 2, 0], [1], [2], [0], [2], min_isr=2, unclean=True)
    ]
    assert state.quorum == Quorum(1, frozenset({1, 2, 3}), frozenset({2, 3}))
    assert (state.has_elr, state.levels.metadata_version, state.levels.highest) == (True, 21, 25)


def test_what_metadata_does_not_say_is_none() -> None:
    hidden = now({"error_code": 72, "leader": -1, "replicas": [1, 1], "isr": [-1]})
    (found,) = state_of("prod", KAFKA, hidden)[0].partitions
    assert (found.leader, found.replicas, found.isr) == (None, None, None)


NO_ELR, NO_LEVEL = Poll(elr_version_level=0), Poll()
CASES = {
    "configs": (without("configs", "not_allowed"), ["configs: not_allowed"]),
    "reassignments": (without("reassignments", "failed: x"), ["reassignments: failed: x"]),
    "elr": (without("elr", "failed: x"), ["elr: failed: x"]),
    "elr is not in force": (without("elr", "not_supported", poll=NO_ELR), []),
    "Kafka 3.9": (without("fenced", "not_supported"), []),
    "fenced": (without("fenced", "failed: x"), ["fenced: failed: x"]),
    "ELR's level": (now(poll=NO_LEVEL), ["whether eligible leader replicas are in force"]),
    "quorum": (now(quorum=None, outcome="not_allowed"), ["quorum: not_allowed"]),
    "no active controller": (
        now(quorum=CaughtUp(-1, frozenset({1}), None)),
        ["quorum: no controller is active"],
    ),
    "no topic": (
        now(metadata=made([("b", 1)] * 3)),
        ["topics: none was shown to this user"],
    ),
}


@pytest.mark.parametrize(("of", "expected"), CASES.values(), ids=CASES)
def test_what_lacks(of: Now, expected: list[str]) -> None:
    assert state_of("prod", KAFKA, of)[1] == expected


def test_a_topic_with_an_error_lacks() -> None:
    whole = now()
    topics = whole.metadata.topics.set_column(
        whole.metadata.topics.column_names.index("error_code"), "error_code", pa.array([29])
    )
    odd = replace(whole, metadata=replace(whole.metadata, topics=topics))
    assert state_of("prod", KAFKA, odd)[1] == [
        "1 topic answered with an error, such as orders (error 29)"
    ]


def test_a_kind_whose_isr_means_nothing_lacks() -> None:
    assert state_of("prod", CONFLUENT, now())[1] == []
    assert state_of("prod", "warpstream", now())[1]


def test_a_question_without_an_answer_tells_nothing() -> None:
    (found,) = state_of("prod", KAFKA, without("reassignments", "failed: x"))[0].partitions
    assert (found.adding, found.removing) == (None, None)
    (found,) = state_of("prod", KAFKA, without("configs", "failed: x"))[0].partitions
    assert (found.min_isr, found.unclean) == (None, None)
