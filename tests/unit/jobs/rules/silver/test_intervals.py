"""From polls to intervals: a row is a state of a thing."""

from typing import Any

import pytest

from jobs.rules.silver.intervals import Intervals
from jobs.rules.silver.state import Observation, Poll
from schemas.silver import BROKER_SNAPSHOTS, PARTITION_SNAPSHOTS
from tests.support.histories import START

CLUSTER = {"cluster_id": "id-prod", "cluster": "prod"}
BROKER = {"host": "h", "port": 9092, "rack": "a"}
POLLS = [Poll(f"s/{n}", START, START, 10_000) for n in range(3)]
FIRST, SECOND, THIRD = (
    Observation(each, before) for each, before in zip(POLLS, [None, *POLLS], strict=False)
)


def shown(said: dict[str, Any], **how: Any) -> list[dict[str, Any]]:
    """The rows of broker 1, which `BROKER` was told of first, and then `said`."""
    known = Intervals(BROKER_SNAPSHOTS, CLUSTER, ())
    known.show((1,), BROKER, FIRST)
    known.show((1,), said, SECOND, **how)
    return list(known.changed.values())


def test_a_row_has_its_cluster_its_key_its_state_the_state_before_and_when_it_began() -> None:
    _, row = shown(BROKER | {"rack": "b"})
    assert row == {
        **CLUSTER,
        "broker_id": 1,
        **BROKER,
        "rack": "b",
        **{f"prev_{name}": value for name, value in BROKER.items()},
        **SECOND.began,
    }


@pytest.mark.parametrize(
    ("said", "how", "after"),
    [
        (BROKER, {}, None),
        (BROKER | {"rack": "b"}, {}, "b"),
        (BROKER | {"rack": None}, {}, None),
        (BROKER | {"rack": None}, {"whole": True}, ""),
        (BROKER | {"rack": None}, {"nothing": {"rack"}}, ""),
        (BROKER | {"rack": None}, {"nothing": {"host"}}, None),
        (BROKER | {"rack": None, "port": 9093}, {}, "a"),
    ],
    ids=[
        "the same",
        "another value",
        "no value: as before",
        "no value, told whole",
        "no value, of a column that means nothing",
        "no value, while another column means nothing",
        "no value, and another changed",
    ],
)
def test_a_state_begins_where_an_answer_tells_another_one(
    said: dict[str, Any], how: dict[str, Any], after: str | None
) -> None:
    """`after`: the rack of the second state; None where there is none."""
    first, *second = shown(said, **how)
    assert [row["rack"] or "" for row in second] == ([] if after is None else [after])
    assert first["superseded_poll"] == ("s/1" if second else None)
    assert first["end_reason"] is None


def test_what_ends_keeps_its_state_and_says_why() -> None:
    live = {**CLUSTER, "broker_id": 1, **BROKER, **FIRST.began, "is_current": True}
    known = Intervals(BROKER_SNAPSHOTS, CLUSTER, [live])
    known.end((1,), "gone", SECOND)
    (row,) = known.changed.values()
    del live["is_current"]
    assert row == {**live, **SECOND.ended, "end_reason": "gone"}
    assert known.open == {}
    known.show((1,), BROKER, THIRD)
    assert known.open[1,]["prev_rack"] is None, "it is another one"


def test_what_is_amended_is_so_from_its_begin_on() -> None:
    live = {**CLUSTER, "broker_id": 1, **BROKER, **FIRST.began, "is_current": True}
    known = Intervals(BROKER_SNAPSHOTS, CLUSTER, [live])
    known.amend((1,), {"rack": "b"})
    (row,) = known.changed.values()
    del live["is_current"]
    assert row == known.open[1,] == live | {"rack": "b"}


def test_a_key_may_have_several_columns_and_rows_are_replaced_in_the_poll_that_began_them() -> None:
    known = Intervals(PARTITION_SNAPSHOTS, CLUSTER, ())
    state = {"topic_id": "A", "error_code": 0, "leader": 1, "leader_epoch": 0}
    state |= {"replicas": [1], "isr": [1], "offline_replicas": []}
    known.show(("t", 0), state, FIRST)
    known.show(("t", 1), state, FIRST)
    known.end(("t", 1), "gone", SECOND)
    assert known.open.keys() == {("t", 0)}
    assert {key: row["end_reason"] for key, row in known.changed.items()} == {
        (("t", 0), "s/0"): None,
        (("t", 1), "s/0"): "gone",
    }
