"""Transactions that hang: what leaders and coordinators say of them, and what nobody tells."""

import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source import hanging
from metadata_source.errors import PollError
from metadata_source.hanging import hanging as found_to_hang
from metadata_source.many_brokers import Broker
from metadata_source.stable_offsets import Part
from tests.support.coordinators import Cluster, Node, producer, transaction

LEADERS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("leader", pa.int32())])
NO_PARTITIONS = LEADERS.empty_table()
T0, T1 = ("t", 0), ("t", 1)
WRITTEN = datetime.fromtimestamp(1_700_000_000, UTC)
HANGS = {
    "is_hanging": True,
    "state": "Ongoing",
    "producer_id": 7,
    "producer_epoch": 0,
    "partition_count": 1,
    "partitions": [{"topic": "t", "partition": 0}],
    "start_offset": 5,
    "coordinator_epoch": 4,
    "last_written_at": WRITTEN,
}


def cluster_of(*active: dict[str, Any], **node: Any) -> Cluster:
    """Of two brokers, of which the first leads t-0 and the other coordinates."""
    return Cluster(Node({0: 1}, producers={T0: list(active)}), Node({1: 1}, **node))


def asked(
    cluster: Cluster,
    standing: dict[tuple[str, int], int] | None = None,
    leaders: dict[tuple[str, int], int] | None = None,
) -> tuple[str | None, list[Any]]:
    """What could not be told, and the transactions. `standing`: t-0 at 5 unless given, of logs that
    end at 9.
    """
    standing = {T0: 5} if standing is None else standing
    leaders = {T0: 0} if leaders is None else leaders
    for partition, leader in leaders.items():
        if ("host", leader) in cluster.nodes:
            cluster.nodes["host", leader].logs.setdefault(partition, (0, 9))
            cluster.nodes["host", leader].stable.setdefault(partition, standing.get(partition, 9))
    for _ in range(2):
        cluster.stable.add_next(Part(NO_PARTITIONS, None), {}, {})
        cluster.stable.add(standing)
    return hang(cluster, leaders)


def hang(cluster: Cluster, leaders: dict[tuple[str, int], int]) -> tuple[str | None, list[Any]]:
    rows = [
        {"topic": topic, "partition": number, "leader": leader}
        for (topic, number), leader in leaders.items()
    ]
    brokers = [Broker(number, address) for number, address in enumerate(cluster.nodes)]
    found = found_to_hang(
        cluster.visits(), brokers, cluster.stable, pa.Table.from_pylist(rows, LEADERS)
    )
    return found.missing, found.transactions


def names(cluster: Cluster) -> list[str]:
    others = {"MetadataRequest", "ListOffsetsRequest"}
    return [name for _, name, _ in cluster.asked if name not in others]


def test_a_transaction_hangs_that_no_coordinator_knows():
    cluster = cluster_of(producer(7, start=5), producer(8), producer(9, start=6))
    assert asked(cluster) == (None, [HANGS])
    assert names(cluster) == [
        "DescribeProducersRequest",
        "ListTransactionsRequest",
        "ListTransactionsRequest",
        "DescribeTransactionsRequest",  # whether all ids may be described
        "DescribeProducersRequest",
    ]
    listed = [v["producer_id_filters"] for _, name, v in cluster.asked if "ListTrans" in name]
    assert listed == [[7], [7]]


@pytest.mark.parametrize(
    ("known", "hangs"),
    [
        pytest.param([transaction("a", 7, 0)], False, id="it is ongoing"),
        pytest.param([transaction("a", 7, 0, "PrepareAbort")], False, id="markers are written"),
        pytest.param([transaction("a", 7, 1, "PrepareAbort")], False, id="and the epoch is raised"),
        pytest.param([transaction("a", 7, 1)], True, id="another epoch has the next one"),
        pytest.param([transaction("a", 7, 0, "CompleteAbort")], True, id="it is over there"),
        pytest.param([transaction("a", 7, 0, "Empty")], True, id="there is none"),
        pytest.param([transaction("a", 8, 0)], True, id="of another producer"),
        pytest.param(
            [transaction("a", 7, 1), transaction("b", 7, 0)], False, id="two ids have the producer"
        ),
    ],
)
def test_a_transaction_of_the_same_producer_id_and_epoch_explains_it(
    known: list[dict[str, Any]], hangs: bool
):
    cluster = cluster_of(producer(7, start=5), transactions=known)
    assert asked(cluster) == (None, [HANGS] if hangs else [])
    assert cluster.stable.standing == {T0: 5}, "it is asked about as long as it stands still"


def test_one_that_ends_while_coordinators_are_asked_does_not_hang():
    cluster = cluster_of(producer(7, start=5))
    node = cluster.nodes["host", 0]
    answer = cluster.answer

    def ends(node_: Node, number: int, name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name == "ListTransactionsRequest":
            node.producers = {T0: [producer(7)]}
        return answer(node_, number, name, request)

    cluster.answer = ends  # type: ignore[method-assign]
    assert asked(cluster) == (None, [])


def test_a_partition_without_an_open_transaction_is_forgotten():
    cluster = cluster_of(producer(7))
    assert asked(cluster) == (None, [])
    assert cluster.stable.standing == {}
    assert names(cluster) == ["DescribeProducersRequest"]


def test_a_topic_that_is_gone_is_forgotten():
    cluster = Cluster(Node({0: 1, 1: 1}, producers={T0: 3}))
    assert asked(cluster) == (None, [])
    assert cluster.stable.standing == {}


def test_all_partitions_are_asked_for_their_last_stable_offset_by_rounds(
    monkeypatch: pytest.MonkeyPatch,
):
    """Whether a group is behind there or not; and nobody knows what hangs before two rounds."""
    monkeypatch.setattr(hanging, "NEXT", 2)
    node = Node({0: 1, 1: 1}, producers={T1: [producer(7, start=5)]})
    node.logs = {("t", n): (0, 9) for n in range(3)}
    node.stable = {T1: 5}
    cluster = Cluster(node)
    hung = {**HANGS, "partitions": [{"topic": "t", "partition": 1}]}
    reason = "failed: not all partitions were asked twice yet for their last stable offset"
    unknown = {"is_hanging": True, "error": reason}
    leaders = dict.fromkeys(node.logs, 0)
    for answered in ([unknown], [unknown], [hung, unknown], [hung], [hung]):
        assert hang(cluster, leaders) == (None, answered)
    asked_for = [
        [each["partition_index"] for topic in values["topics"] for each in topic["partitions"]]
        for _, name, values in cluster.asked
        if name == "ListOffsetsRequest" and values["isolation_level"]
    ]
    assert asked_for == [[0, 1], [2], [0, 1], [2], [0, 1]]


def test_a_partition_that_does_not_tell_its_last_stable_offset_is_not_told():
    """Nor are others, if there are too many to name."""
    node = Node({0: 1, 1: 1}, logs={T0: 6, T1: (0, 9)})
    cluster = Cluster(node)
    leaders = {T0: 0, T1: 0}
    for _ in range(2):
        missing, found = hang(cluster, leaders)
    reason = "error 6 (NotLeaderForPartitionError)"
    asked_for = "partitions could not be asked for their last stable offset"
    assert missing == f"1 of 2 {asked_for}: {reason}"
    assert found == [untold(f"failed: {reason}")]
    assert hang(cluster, {T1: 0}) == (None, []), "the topic is gone"
    node.logs = {("u", n): 6 for n in range(101)}
    missing, found = hang(cluster, dict.fromkeys(node.logs, 0))
    assert missing == f"101 of 101 {asked_for}: {reason}"
    assert [each["error"] for each in found] == [
        "failed: 101 partitions told no last stable offset"
    ]
    node.logs = {T0: (0, 9)}
    assert hang(cluster, {T0: 0}) == (None, [])


def untold(reason: str, partition: tuple[str, int] = T0) -> dict[str, Any]:
    topic, number = partition
    place = {"partition_count": 1, "partitions": [{"topic": topic, "partition": number}]}
    return {"is_hanging": True, "error": reason, **place}


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (29, "not_allowed"),
        (6, "failed: error 6 (NotLeaderForPartitionError)"),
    ],
)
def test_a_partition_that_its_leader_does_not_tell_has_the_reason(code: int, reason: str):
    cluster = Cluster(Node({0: 1, 1: 1}, producers={T0: code, T1: [producer(7, start=2)]}))
    missing, found = asked(cluster, {T0: 5, T1: 2}, {T0: 0, T1: 0})
    shown = reason.removeprefix("failed: ")
    assert (
        missing
        == f"1 of 2 partitions whose last stable offset does not move were not told: {shown}"
    )
    assert [each.get("error") for each in found] == [None, reason]
    assert found[0]["partitions"] == [{"topic": "t", "partition": 1}]
    assert found[1] == untold(reason)
    assert cluster.stable.standing == {T0: 5, T1: 2}


def test_a_partition_that_no_poll_lists_is_forgotten():
    cluster = cluster_of(producer(7, start=5))
    assert asked(cluster, leaders={}) == (None, [])
    assert (cluster.stable.standing, names(cluster)) == ({}, [])


@pytest.mark.parametrize("leaders", [{T0: -1}, {T0: 9}])
def test_a_partition_without_a_leader_is_not_told(leaders: dict[tuple[str, int], int]):
    _, found = asked(cluster_of(), leaders=leaders)
    assert found == [untold("failed: it has no leader that answers")]


def test_a_leader_that_is_gone_is_not_told():
    cluster = cluster_of(producer(7, start=5))
    cluster.nodes["host", 0].error = PollError("unreachable", "host:0: connection refused")
    _, found = asked(cluster)
    assert found == [untold("failed: broker 0 (host:0): connection refused")]


def test_a_leader_that_is_gone_once_coordinators_were_asked_is_not_told():
    cluster = cluster_of(producer(7, start=5))
    answer = cluster.answer

    def gone(node: Node, number: int, name: str, request: dict[str, Any]) -> dict[str, Any]:
        if name == "DescribeTransactionsRequest":
            refused = PollError("unreachable", "host:0: connection refused")
            cluster.nodes["host", 0].error = refused
        return answer(node, number, name, request)

    cluster.answer = gone  # type: ignore[method-assign]
    _, found = asked(cluster)
    assert found == [untold("failed: broker 0 (host:0): connection refused")]


def test_a_broker_that_hangs_and_coordinates_nothing_is_not_in_the_way():
    cluster = cluster_of(producer(7, start=5))
    cluster.nodes["host", 2] = Node()
    cluster.seconds = 1.0
    ask = cluster.ask

    def hangs(address: Any, question: Any, deadline: float) -> Any:
        if address == ("host", 2):
            time.sleep(max(0.0, deadline - time.monotonic()))
            raise PollError("timeout", "host:2: no answer in time")
        return ask(address, question, deadline)

    cluster.ask = hangs  # type: ignore[method-assign]
    assert asked(cluster) == (None, [HANGS])


def test_a_transaction_that_its_coordinator_does_not_describe_is_not_told():
    refused = transaction("a", 7, error=16)
    refused["transaction_state"] = "Ongoing"
    _, found = asked(cluster_of(producer(7, start=5), transactions=[refused]))
    assert found == [untold("failed: error 16 (NotCoordinatorError)")]


def test_nothing_hangs_for_a_user_who_may_not_describe_every_id():
    """Brokers leave out ids that the user may not describe."""
    cluster = cluster_of(producer(7, start=5))
    cluster.nodes["host", 0].refuses_ids = True
    missing, found = asked(cluster)
    assert missing == "no hanging transaction could be told: not_allowed"
    assert found == [{"is_hanging": True, "error": "not_allowed"}]


def test_nothing_hangs_as_far_as_known_if_a_coordinator_does_not_answer():
    missing, found = asked(cluster_of(producer(7, start=5), list_error=14))
    assert missing is not None
    (entry,) = found
    assert entry.keys() == {"is_hanging", "error"}
    assert "error 14" in entry["error"]


def test_many_partitions_are_asked_in_parts_and_some_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hanging, "MOST", 5)
    monkeypatch.setattr(hanging, "_PARTITIONS_A_REQUEST", 2)
    standing = {("t", n): 5 for n in range(7)}
    active = [producer(7, start=5)]
    cluster = Cluster(Node({0: 1, 1: 1}, producers=dict.fromkeys(standing, active)))
    missing, found = asked(cluster, standing, dict.fromkeys(standing, 0))
    assert missing == "2 more partitions whose last stable offset does not move were left out"
    assert [each["partitions"][0]["partition"] for each in found[:5]] == [0, 1, 2, 3, 4]
    assert found[5:] == [{"is_hanging": True, "error": "failed: 2 more partitions were left out"}]
    sizes = [
        len(topic["partition_indexes"])
        for _, name, values in cluster.asked
        if name == "DescribeProducersRequest"
        for topic in values["topics"]
    ]
    assert sizes == [2, 2, 1] * 2
    assert cluster.stable.standing == standing


def test_partitions_on_which_one_hung_are_asked_about_first_and_all_others_by_turns(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(hanging, "MOST", 3)
    standing = {("t", n): 5 for n in range(6)}
    running = {(topic, n): [producer(7 if n == 1 else 8, start=5)] for topic, n in standing}
    cluster = Cluster(Node({0: 1, 1: 1}, producers=running, transactions=[transaction("a", 8)]))
    turns = ([0, 1, 2], [1, 3, 4], [1, 5, 0], [1, 2, 3])
    reasons = []
    for turn in turns:
        cluster.asked.clear()
        missing, found = asked(cluster, standing, dict.fromkeys(standing, 0))
        assert missing == "3 more partitions whose last stable offset does not move were left out"
        first = next(v for _, name, v in cluster.asked if name == "DescribeProducersRequest")
        assert sorted(first["topics"][0]["partition_indexes"]) == sorted(turn)
        assert found[0] == {**HANGS, "partitions": [{"topic": "t", "partition": 1}]}
        reasons.append([each["error"] for each in found[1:]])
    # Once each has had its turn nothing is unknown that another recorder may have told.
    unknown = ["failed: 3 more partitions were left out"]
    assert reasons == [unknown, unknown, [], []]


def test_an_answer_that_is_too_large_is_asked_for_in_halves():
    standing = {("t", n): 5 for n in range(5)}
    cluster = Cluster(Node({0: 1, 1: 1}, producers={T0: [producer(7, start=5)]}))
    ask = cluster.ask

    def too_large(address: Any, question: Any, deadline: float) -> Any:
        topics = question.fields.get("topics") or ()
        if sum(len(getattr(each, "partition_indexes", ())) for each in topics) > 2:
            raise PollError("too_large", "host:0: too large")
        return ask(address, question, deadline)

    cluster.ask = too_large  # type: ignore[method-assign]
    assert asked(cluster, standing, dict.fromkeys(standing, 0)) == (None, [HANGS])


def test_partitions_that_the_leader_was_not_asked_for_or_lists_twice_count_once():
    cluster = cluster_of(producer(7, start=5))
    answer = cluster.answer

    def odd(node: Node, number: int, name: str, request: dict[str, Any]) -> dict[str, Any]:
        made = answer(node, number, name, request)
        if name == "DescribeProducersRequest":
            (topic,) = made["topics"]
            (told,) = topic["partitions"]
            more = {**told, "partition_index": 9}
            topic["partitions"] += [{**told, "active_producers": [producer(1, start=1)]}, more]
        return made

    cluster.answer = odd  # type: ignore[method-assign]
    assert asked(cluster) == (None, [HANGS])


epochs = st.integers(0, 2)
states = st.sampled_from(["Ongoing", "PrepareCommit", "PrepareAbort", "CompleteAbort", "Empty"])
known = st.lists(st.tuples(st.integers(1, 3), epochs, states), max_size=4)
there = st.lists(st.tuples(st.integers(1, 3), epochs, st.integers(-1, 7)), max_size=4)


@given(known, known, there)
def test_what_hangs_is_open_on_the_partition_and_at_no_coordinator(
    one: list[Any], other: list[Any], active: list[Any]
):
    """Whatever two coordinators know, and whoever wrote to the partition."""
    nodes = [
        Node(
            {number: 1},
            transactions=[
                transaction(f"{number}-{place}", producer_id, epoch, state)
                for place, (producer_id, epoch, state) in enumerate(told)
            ],
            producers={T0: [producer(*each) for each in active]},
        )
        for number, told in enumerate((one, other))
    ]
    missing, found = asked(Cluster(*nodes))
    assert missing is None
    open_ = [(who, epoch, state) for who, epoch, state in one + other if state[-3:] != "pty"]
    open_ = [each for each in open_ if not each[2].startswith("Complete")]

    def is_known(producer_id: int, epoch: int) -> bool:
        for who, its_epoch, state in open_:
            if who == producer_id and its_epoch == epoch:
                return True
            if who == producer_id and its_epoch > epoch and state.startswith("Prepare"):
                return True
        return False

    assert {
        (each["producer_id"], each["producer_epoch"], each["start_offset"]) for each in found
    } == {each for each in active if 0 <= each[2] <= 5 and not is_known(*each[:2])}
