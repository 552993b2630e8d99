"""Transactions as coordinators tell them, and what is made of what they do not tell."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metadata_source import coordinators, transactions
from metadata_source.errors import PollError
from tests.support.asked_transactions import NOBODY_KNOWS, NOT_TWICE, about, ids, requests, told
from tests.support.beside import answered
from tests.support.coordinators import Cluster, Node, transaction

BEGAN = datetime.fromtimestamp(1_700_000_000, UTC)
LIST_KEY = 66
WIRE = 32_767
"""Bytes of a string, at most, where messages have no compact ones."""


def test_open_transactions_come_from_their_coordinators():
    one, other = Node({0: 5}), Node({1: 5})
    one.transactions = [
        transaction("b", 9, 3, topics={"t": [1, 0], "s": [2]}),
        transaction("ended", 10, state="CompleteCommit"),
    ]
    other.transactions = [transaction("a", 8, state="PrepareAbort", timeout_ms=2**31 - 1)]
    cluster = Cluster(one, other)
    outcome, found = told(cluster)
    assert outcome == "ok"
    assert found == [
        {
            "is_hanging": False,
            "transactional_id": "a",
            "state": "PrepareAbort",
            "coordinator": 1,
            "producer_id": 8,
            "producer_epoch": 0,
            "timeout_ms": 2**31 - 1,
            "started_at": BEGAN,
            "partition_count": 0,
            "partitions": [],
        },
        {
            "is_hanging": False,
            "transactional_id": "b",
            "state": "Ongoing",
            "coordinator": 0,
            "producer_id": 9,
            "producer_epoch": 3,
            "timeout_ms": 60_000,
            "started_at": BEGAN,
            "partition_count": 3,
            "partitions": [
                {"topic": "s", "partition": 2},
                {"topic": "t", "partition": 0},
                {"topic": "t", "partition": 1},
            ],
        },
        NOBODY_KNOWS,
    ]
    asked = {
        tuple(values["state_filters"]) for _, values in requests(cluster, "ListTransactionsRequest")
    }
    assert asked == {("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")}
    assert {
        values["duration_filter"] for _, values in requests(cluster, "ListTransactionsRequest")
    } == {10_000}


@pytest.mark.parametrize(
    ("state", "timeout_ms", "age_s", "is_long"),
    [
        ("Ongoing", 60_000, 59, False),
        ("Ongoing", 60_000, 61, True),
        ("Ongoing", 3_600_000, 299, False),
        ("Ongoing", 3_600_000, 301, True),
        ("PrepareCommit", 3_600_000, 29, False),
        ("PrepareCommit", 3_600_000, 31, True),
        ("PrepareAbort", 1_000, 29, False),
        ("CompleteAbort", 1_000, 9_999, False),
        ("Empty", 1_000, 9_999, False),
    ],
)
def test_a_transaction_is_long_beyond_its_time_out_or_five_minutes_or_half_a_one_once_prepared(
    state: str, timeout_ms: int, age_s: int, is_long: bool
):
    now = datetime.now(UTC)
    made: transactions.Transaction = {
        "state": state,
        "timeout_ms": timeout_ms,
        "started_at": now - timedelta(seconds=age_s),
    }
    assert transactions.is_long(made, now) is is_long
    assert not transactions.is_long({**made, "started_at": None}, now)


def test_a_transaction_of_now_is_not_told():
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    node = Node({0: 1, 1: 1}, transactions=[transaction("new", started_ms=now_ms)])
    assert told(Cluster(node)) == ("ok", [NOBODY_KNOWS])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_brokers_of_each_version_are_asked(version: int):
    cluster = Cluster(Node({0: 1, 1: 1}, transactions=[transaction("a")]))
    cluster.versions[LIST_KEY] = version
    outcome, found = told(cluster)
    assert (outcome, ids(found)) == ("ok", ["a"])


def test_what_the_user_may_not_describe_has_the_reason():
    node = Node({0: 1, 1: 1})
    node.transactions = [
        transaction("a", 1),
        transaction("b", 2, error=53),
        transaction("c", 3, error=16),
    ]
    for each in node.transactions:
        each["transaction_state"] = "Ongoing"
    outcome, found = told(Cluster(node))
    assert outcome == (
        "ok: 2 of 3 transactions could not be described: not_allowed: 1; error 16 "
        "(NotCoordinatorError): 1"
    )
    assert found[1] == {
        "is_hanging": False,
        "transactional_id": "b",
        "state": "Ongoing",
        "error": "not_allowed",
        "coordinator": 0,
        "producer_id": 2,
    }
    assert [each.get("error") for each in found] == [
        None,
        "not_allowed",
        "failed: error 16 (NotCoordinatorError)",
        NOT_TWICE,
    ]


def test_an_id_that_is_gone_once_it_is_described_is_left_out():
    node = Node({0: 1, 1: 1}, transactions=[transaction("a"), transaction("b", error=105)])
    node.transactions[1]["transaction_state"] = "Ongoing"
    outcome, found = told(Cluster(node))
    assert (outcome, ids(found)) == ("ok", ["a"])


def test_a_user_who_may_describe_no_id_gets_no_answer_and_one_who_may_describe_some_does():
    node = Node({0: 1, 1: 1}, refuses_ids=True)
    assert told(Cluster(node)) == ("not_allowed", [])
    node.transactions = [transaction("mine", state="Empty")]
    assert told(Cluster(node)) == ("ok", [NOBODY_KNOWS])
    node.transactions = [transaction("mine")]
    cluster = Cluster(node)
    assert told(cluster)[0] == "ok"
    (described,) = requests(cluster, "DescribeTransactionsRequest")
    assert described[1]["transactional_ids"] == ["mine"], "who lists something may describe it"


def test_all_is_told_though_a_broker_is_gone_that_coordinates_nothing():
    gone = Node(error=PollError("unreachable", "host:1: connection refused"))
    outcome, found = told(Cluster(Node({0: 5, 1: 5}, transactions=[transaction("a")]), gone))
    assert (outcome, ids(found)) == ("ok", ["a"])


@pytest.mark.parametrize("turned", [False, True])
def test_an_id_that_moves_is_told_by_whoever_describes_it(turned: bool):
    had_it = Node({1: 1}, transactions=[transaction("a", error=16)])
    had_it.transactions[0]["transaction_state"] = "Ongoing"
    has_it = Node({0: 1}, transactions=[transaction("a", 7, 4)])
    nodes = (has_it, had_it) if turned else (had_it, has_it)
    outcome, (found, _) = told(Cluster(*nodes))
    assert (outcome, found.get("producer_epoch"), "error" in found) == ("ok", 4, False)


def test_coordinators_that_are_new_are_asked_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coordinators, "_LOADING_BEGINS_S", 0.01)
    node = Node({0: 1, 1: 1})
    cluster = Cluster(node)

    def loaded() -> None:
        node.transactions = [transaction("a")]

    cluster.when_led_anew = loaded
    assert ids(told(cluster)[1]) == ["a"]


def test_long_ids_are_asked_for_whole_and_kept_short():
    long, longer = "i" * WIRE, "i" * (WIRE - 1) + "j"
    node = Node({0: 1, 1: 1}, transactions=[transaction(long, 1), transaction(longer, 2)])
    cluster = Cluster(node)
    outcome, found = told(cluster)
    shown = ids(found)
    assert outcome == "ok"
    assert [len(each) for each in shown] == [233, 233]
    assert all(each.startswith("i" * 200 + "…") for each in shown)
    assert len(set(shown)) == 2
    (described,) = requests(cluster, "DescribeTransactionsRequest")
    assert described[1]["transactional_ids"] == [long, longer]


def test_an_id_of_a_megabyte_is_asked_for_by_itself_and_kept_short():
    """Kafka has none, but an answer may."""
    huge = "i" * 1_000_000
    node = Node({0: 1, 1: 1})
    node.transactions = [transaction(huge, 1), transaction("a", 2), transaction(huge + "j", 3)]
    cluster = Cluster(node)
    outcome, found = told(cluster)
    assert outcome == "ok"
    assert sorted(map(len, ids(found))) == [1, 233, 233]
    asked = [v["transactional_ids"] for _, v in requests(cluster, "DescribeTransactionsRequest")]
    assert asked == [[huge], ["a"], [huge + "j"]]


def test_an_id_that_another_producer_takes_over_is_the_one_that_is_described():
    """A coordinator lists the first one, and describes the other."""
    node = Node({0: 1, 1: 1}, transactions=[transaction("a", 9, 1)])
    cluster = Cluster(node)
    answer = cluster.answer

    def before(node_: Node, number: int, name: str, request: dict[str, Any]) -> dict[str, Any]:
        made = answer(node_, number, name, request)
        for each in made["transaction_states"] if name == "ListTransactionsRequest" else ():
            each |= {"producer_id": 7, "transaction_state": "PrepareEpochFence"}
        return made

    cluster.answer = before  # type: ignore[method-assign]
    (found, _) = told(cluster)[1]
    assert (found["producer_id"], found["producer_epoch"], found["state"]) == (9, 1, "Ongoing")
    assert cluster.open_before.open == {9}


def test_an_id_that_is_listed_twice_is_told_once():
    twice = [transaction("a", 7), transaction("a", 9)]
    cluster = Cluster(Node({0: 1, 1: 1}, transactions=twice))
    outcome, found = told(cluster)
    assert (outcome, ids(found), found[0]["producer_id"]) == ("ok", ["a"], 9)


def test_an_answer_that_is_too_large_is_asked_for_in_halves():
    node = Node({0: 1, 1: 1}, transactions=[transaction(f"t{n}", n) for n in range(5)])
    cluster = Cluster(node)
    ask = cluster.ask

    def too_large(address: Any, question: Any, deadline: float) -> Any:
        if len(question.fields.get("transactional_ids", ())) > 2:
            raise PollError("too_large", "host:0: too large")
        return ask(address, question, deadline)

    cluster.ask = too_large  # type: ignore[method-assign]
    outcome, found = told(cluster)
    assert (outcome, ids(found)) == ("ok", [f"t{n}" for n in range(5)])


def test_partitions_of_a_transaction_are_cut_and_counted():
    topics = {"t": list(range(150)), "s": [*range(100), 0]}
    node = Node({0: 1, 1: 1}, transactions=[transaction("a", topics=topics)])
    (found, _) = told(Cluster(node))[1]
    assert (found["partition_count"], len(found["partitions"])) == (250, 200)
    assert found["partitions"][99:101] == [
        {"topic": "s", "partition": 99},
        {"topic": "t", "partition": 0},
    ]


@pytest.mark.parametrize("started_ms", [-1, 2**62])
def test_a_time_that_no_column_has_is_no_begin(started_ms: int):
    node = Node({0: 1, 1: 1}, transactions=[transaction("a", started_ms=started_ms)])
    assert told(Cluster(node)) == ("ok", [NOBODY_KNOWS])


def test_rows_have_a_hundred_transactions_and_equal_answers_are_equal_rows():
    node = Node({0: 1, 1: 1}, transactions=[transaction(f"{n:03}", n) for n in range(150)])
    cluster = Cluster(node)
    told(cluster)
    _, rows = answered("transactions", about(cluster), cluster)
    node.transactions.reverse()
    _, again = answered("transactions", about(cluster), cluster)
    assert [len(row) for row in rows.values] == [100, 50]
    assert rows == again


def test_no_time_is_left():
    cluster = Cluster(Node({0: 1, 1: 1}, transactions=[transaction("a")]), seconds=0.0)
    outcome, found = told(cluster)
    assert outcome.startswith("failed: broker 0 (host:0): not asked, no time was left")
    assert found == []


def test_the_brokers_of_a_poll_may_be_none():
    cluster = Cluster(Node())
    assert told(cluster, replace(about(cluster), brokers=())) == ("ok", [NOBODY_KNOWS])
