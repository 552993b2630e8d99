"""What answers tell of transactions, and what ends one."""

from typing import Any

import pytest

from jobs.rules.silver.enrichments import take
from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.state import Observation, Poll
from schemas import silver
from tests.support.histories import START
from tests.support.transaction_lives import NOT_TOLD, entry

POLLS = [Poll(f"s/{n}", START, START, 10_000) for n in range(2)]
FIRST, SECOND = Observation(POLLS[0], None), Observation(POLLS[1], POLLS[0])
T0, T1 = ({"topic": "t", "partition": n} for n in range(2))
ONGOING = ("Ongoing", 5, 3, 60_000, START, 1, 1, (T0,), None, None, None)
HANGS = ("Ongoing", 7, 0, None, None, None, 1, (T0,), 9, 4, START)
A, B, OTHERS = ("a", False), ("b", False), ("", False)
HANGING, ELSEWHERE, OTHERS_THAT_HANG = ("7 on t-0", True), ("7 on t-1", True), ("", True)


def answer(told: dict[Any, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [{"transactions": [entry(key, state)]} for key, state in told.items()]


def after(*told: dict[Any, tuple[Any, ...]]) -> Intervals:
    known = Intervals(silver.OPEN_TRANSACTIONS, {"cluster_id": "id-prod", "cluster": "prod"}, ())
    for observation, each in zip((FIRST, SECOND), told, strict=False):
        take("transactions", answer(each), None, observation, known)
    return known


def test_transactions_have_their_id_and_those_that_hang_producer_and_partition():
    known = after({A: ONGOING, HANGING: HANGS})
    row = known.open["a", False]
    assert (row["opened_by"], row["is_hanging"], row["producer_epoch"]) == ("a", False, 3)
    assert (row["started_at"], row["coordinator"], row["partitions"]) == (START, 1, [T0])
    row = known.open["7 on t-0", True]
    assert (row["opened_by"], row["is_hanging"], row["start_offset"]) == ("7 on t-0", True, 9)
    assert (row["started_at"], row["last_written_at"]) == (None, START)


def test_another_state_is_told_as_a_whole():
    prepared = ("PrepareAbort", 5, 4, 60_000, None, 2, 0, (), None, None, None)
    known = after({A: ONGOING}, {A: prepared})
    row = known.open["a", False]
    assert (row["state"], row["started_at"], row["prev_state"]) == ("PrepareAbort", None, "Ongoing")


@pytest.mark.parametrize(
    ("told", "ended"),
    [
        pytest.param({}, {A, HANGING}, id="an answer lists none"),
        pytest.param({A: NOT_TOLD}, {HANGING}, id="it could not be described"),
        pytest.param({B: NOT_TOLD}, {A, HANGING}, id="another one could not be"),
        pytest.param({OTHERS: NOT_TOLD}, {HANGING}, id="some were left out"),
        pytest.param({HANGING: NOT_TOLD}, {A}, id="its partition was not told"),
        pytest.param({ELSEWHERE: NOT_TOLD}, {A, HANGING}, id="another partition was not"),
        pytest.param({OTHERS_THAT_HANG: NOT_TOLD}, {A}, id="nobody knows what hangs"),
        pytest.param({OTHERS: NOT_TOLD, A: ONGOING, HANGING: HANGS}, set(), id="all are told"),
    ],
)
def test_a_transaction_ends_that_an_answer_does_not_list_unless_it_could_not_tell(
    told: dict[Any, tuple[Any, ...]], ended: set[tuple[str, bool]]
):
    known = after({A: ONGOING, HANGING: HANGS}, told)
    assert {key for key, _ in known.changed if known.changed[key, "s/0"]["valid_to"]} == ended
    assert known.open.keys() == {A, HANGING} - ended
    assert {row["end_reason"] for row in known.changed.values()} <= {"gone", None}


def of_others(**fields: Any) -> dict[str, Any]:
    return {"transactions": [{**entry(OTHERS, NOT_TOLD), **fields}]}


@pytest.mark.parametrize(
    ("left_out", "is_open"),
    [
        pytest.param({"producer_id": 5}, True, id="its producer id was left out"),
        pytest.param({"producer_id": 6}, False, id="later producer ids were"),
        pytest.param({}, True, id="nobody knows which were"),
        # 'a'.hashCode() is 97.
        pytest.param(
            {"partition_count": 50, "partitions": [{"topic": "x", "partition": 47}]},
            True,
            id="its coordinator did not answer",
        ),
        pytest.param(
            {"partition_count": 50, "partitions": [{"topic": "x", "partition": 46}]},
            False,
            id="another one did not",
        ),
    ],
)
def test_others_may_be_open_of_a_producer_id_or_partition_that_an_answer_leaves_out(
    left_out: dict[str, Any], is_open: bool
):
    known = after({A: ONGOING, HANGING: HANGS})
    take("transactions", [of_others(**left_out)], None, SECOND, known)
    assert known.open.keys() == ({A} if is_open else set())


def test_nobody_knows_the_coordinator_of_an_id_that_was_cut():
    cut = ("i" * 200 + "…" + "0" * 32, False)
    known = after({cut: ONGOING})
    unled = [{"topic": "x", "partition": 0}]
    take("transactions", [of_others(partition_count=50, partitions=unled)], None, SECOND, known)
    assert known.open.keys() == {cut}


def test_what_could_not_be_told_opens_nothing():
    assert after({A: NOT_TOLD, OTHERS: NOT_TOLD, HANGING: NOT_TOLD}).open == {}
