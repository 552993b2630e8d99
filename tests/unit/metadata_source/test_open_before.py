"""What answers about open transactions leave out, and what they say of it."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from metadata_source import transactions
from metadata_source.errors import PollError
from metadata_source.open_before import OpenBefore
from tests.support.asked_transactions import NOBODY_KNOWS, ids, requests, told
from tests.support.coordinators import Cluster, Node, transaction


def gone_after(cluster: Cluster, name: str) -> None:
    """The second broker answers this request, and is gone then."""
    ask = cluster.ask

    def until(address: Any, question: Any, deadline: float) -> Any:
        answer = ask(address, question, deadline)
        asked = [asked for number, asked, _ in cluster.asked if number == 1]
        if address == ("host", 1) and asked[-1] == name:
            refused = PollError("unreachable", "host:1: connection refused")
            cluster.nodes[address].error = refused
        return answer

    cluster.ask = until  # type: ignore[method-assign]


def test_those_that_are_open_longest_stay_of_all_coordinators(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transactions, "MOST", 2)
    began = 1_700_000_000_000
    one = Node({0: 1}, transactions=[transaction(f"a{n}", n, started_ms=began + n) for n in (3, 1)])
    other = Node(
        {1: 1}, transactions=[transaction(f"b{n}", n, started_ms=began + n) for n in (4, 2)]
    )
    cluster = Cluster(one, other)
    outcome, found = told(cluster)
    assert outcome == "ok: 2 more open transactions were left out"
    assert ids(found) == ["a1", "b2"]
    one.transactions.append(transaction("a0", 0, started_ms=began))
    assert ids(told(cluster)[1]) == ["a1", "b2"], "those that were told before stay"


def test_those_that_were_told_before_are_described_first_and_others_by_turns(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(transactions, "MOST", 3)
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    node = Node({0: 1, 1: 1})
    node.transactions = [transaction(f"t{n}", n, started_ms=now_ms) for n in range(6)]
    node.transactions[2]["transaction_start_time_ms"] = 1_700_000_000_000
    cluster = Cluster(node)
    for described in (["t0", "t1", "t2"], ["t2", "t3", "t4"], ["t2", "t5", "t0"], ["t2", "t1"]):
        cluster.asked.clear()
        outcome, found = told(cluster)
        assert ids(found) == ["t2"]
        assert outcome == "ok: 3 more open transactions were left out"
        (asked,) = requests(cluster, "DescribeTransactionsRequest")
        assert asked[1]["transactional_ids"][: len(described)] == described


def test_an_answer_says_of_what_it_leaves_out_whether_it_may_have_been_told_before(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(transactions, "MOST", 2)
    node = Node({0: 1, 1: 1})
    node.transactions = [transaction(f"t{n}", n) for n in (5, 6, 7)]
    cluster = Cluster(node)

    def left_out() -> list[int | None]:
        found = told(cluster)[1]
        return [each.get("producer_id") for each in found if each.get("error", "")[-3:] == "out"]

    assert left_out() == [7], "nobody knows what another recorder told"
    node.transactions.append(transaction("t8", 8))
    assert left_out() == [7], "t8 is new"
    del node.transactions[2]
    assert left_out() == [], "t8 alone is left out"
    other = Node({1: 1}, list_error=14)
    del node.leads[1]
    cluster.nodes["host", 1] = other
    assert left_out() == []
    other.list_error = 0
    assert left_out() == [8], "nobody knows what the coordinator had that did not answer"
    assert left_out() == [8]
    node.transactions[-1] = transaction("t9", 9)
    assert left_out() == []


def test_if_no_time_is_left_those_that_were_told_before_have_the_reason(
    monkeypatch: pytest.MonkeyPatch,
):
    node = Node({0: 1, 1: 1}, transactions=[transaction("a", 5)])
    cluster = Cluster(node)
    assert ids(told(cluster)[1]) == ["a"]
    node.transactions += [transaction("b", 6)]
    answer = cluster.answer

    def late(node_: Node, number: int, name: str, request: dict[str, Any]) -> dict[str, Any]:
        made = answer(node_, number, name, request)
        if name == "ListTransactionsRequest":
            time.sleep(0.3)
        return made

    cluster.answer = late  # type: ignore[method-assign]
    cluster.seconds = 0.5
    outcome, found = told(cluster)
    assert outcome.startswith(
        "ok: 1 of 1 transactions could not be described: it was left out; 1 more open"
    )
    assert [(each.get("transactional_id"), "error" in each) for each in found] == [("a", True)]


def test_many_transactions_are_described_in_parts_and_some_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(transactions, "_IDS_A_REQUEST", 3)
    monkeypatch.setattr(transactions, "MOST", 7)
    node = Node({0: 1, 1: 1}, transactions=[transaction(f"t{n}", 100 - n) for n in range(10)])
    cluster = Cluster(node)
    outcome, found = told(cluster)
    assert outcome == "ok: 3 more open transactions were left out"
    assert ids(found) == [f"t{n}" for n in range(3, 10)], "those of the lowest producer ids stay"
    assert [each["transactional_id"] for each in found[7:-1]] == ["t2", "t1", "t0"]
    assert found[7] == {
        "is_hanging": False,
        "error": "failed: it was left out",
        "transactional_id": "t2",
        "state": "Ongoing",
        "coordinator": 0,
        "producer_id": 98,
    }
    asked = [
        len(v["transactional_ids"]) for _, v in requests(cluster, "DescribeTransactionsRequest")
    ]
    assert asked == [3, 3, 1]
    monkeypatch.setattr(transactions, "_BYTES_A_REQUEST", 4)
    cluster.asked.clear()
    cluster.open_before = OpenBefore[int]()
    assert told(cluster)[1] == found[:-1], "all had two rounds"
    assert len(requests(cluster, "DescribeTransactionsRequest")) == 4, "of two ids of two bytes"


def test_of_very_many_that_are_left_out_those_of_the_lowest_producer_ids_are_named(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(transactions, "MOST", 2)
    node = Node({0: 1, 1: 1}, transactions=[transaction(f"t{n}", n) for n in range(9)])
    outcome, found = told(Cluster(node))
    assert outcome == "ok: 7 more open transactions were left out"
    errors = [each for each in found if "error" in each and not each["is_hanging"]]
    assert [(each.get("transactional_id"), each["producer_id"]) for each in errors] == [
        ("t2", 2),
        ("t3", 3),
        (None, 4),
    ]
    assert errors[2]["error"] == "failed: 5 more were left out"


def test_a_broker_that_is_gone_once_it_has_listed_is_not_told():
    cluster = Cluster(
        Node({0: 5}, transactions=[transaction("a")]),
        Node({1: 5}, transactions=[transaction("b", 8)]),
    )
    gone_after(cluster, "ListTransactionsRequest")
    outcome, found = told(cluster)
    assert outcome.startswith("ok: broker 1 (host:1): connection refused; no broker that answered")
    assert ids(found) == ["a"]
    assert found[1]["partitions"] == [{"topic": "__transaction_state", "partition": 1}]


def test_what_a_broker_that_is_gone_listed_has_the_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transactions, "_IDS_A_REQUEST", 1)
    listed = [transaction("b", 8), transaction("c", 9)]
    cluster = Cluster(
        Node({0: 5}, transactions=[transaction("a")]), Node({1: 5}, transactions=listed)
    )
    gone_after(cluster, "DescribeTransactionsRequest")
    outcome, found = told(cluster)
    assert outcome == (
        "ok: 1 of 3 transactions could not be described: broker 1 (host:1): connection refused"
    )
    assert [(each["transactional_id"], "error" in each) for each in found[:3]] == [
        ("a", False),
        ("b", False),
        ("c", True),
    ]


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            Node({1: 5}, list_error=14),
            (
                "broker 1 (host:1): error 14 (CoordinatorLoadInProgressError); no broker "
                "that answered leads __transaction_state partitions 1"
            ),
        ),
        (
            Node({1: 5}, error=PollError("unreachable", "host:1: connection refused")),
            (
                "broker 1 (host:1): connection refused; no broker that answered leads "
                "__transaction_state partitions 1"
            ),
        ),
    ],
)
def test_if_a_coordinator_does_not_answer_what_it_keeps_may_be_open_and_others_are_told(
    other: Node, problem: str
):
    outcome, found = told(Cluster(Node({0: 5}, transactions=[transaction("a")]), other))
    assert (outcome, ids(found)) == (f"ok: {problem}", ["a"])
    assert found[1:] == [
        {
            "is_hanging": False,
            "error": f"failed: {problem}",
            "partition_count": 2,
            "partitions": [{"topic": "__transaction_state", "partition": 1}],
        },
        NOBODY_KNOWS,
    ]


@pytest.mark.parametrize(
    ("nodes", "partitions", "outcome"),
    [
        pytest.param(
            (Node({1: 5}, error=PollError("unsupported_version", "x")),), 2, "not_supported", id="v"
        ),
        pytest.param(
            (Node({1: 5}, list_error=14),),
            0,
            "failed: broker 1 (host:1): error 14 (CoordinatorLoadInProgressError)",
            id="nobody shows the topic",
        ),
    ],
)
def test_nothing_is_told_if_nobody_knows_what_is_missing(
    nodes: tuple[Node, ...], partitions: int, outcome: str
):
    cluster = Cluster(Node({0: 5}, transactions=[transaction("a")]), *nodes, partitions=partitions)
    assert told(cluster) == (outcome, [])
