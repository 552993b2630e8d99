"""Who is lost, and whether the quorum holds: a table of cases."""

from dataclasses import replace

from kafka_metadata_history.answers.whatif.losses import (
    QuorumEffect,
    controllers_of_no_rack,
    loss_of_nodes,
    loss_of_rack,
    quorum_effect,
    with_racks,
)
from kafka_metadata_history.answers.whatif.rules import what_if
from kafka_metadata_history.answers.whatif.state import Broker, Cluster, Loss, Quorum
from tests.support.for_each import for_each

ALL_CAUGHT_UP = Quorum(1, frozenset({1, 2, 3}), frozenset())
QUORUMS: dict[str, tuple[Quorum, str, tuple[bool | None, bool | None, bool]]] = {
    "one of three": (ALL_CAUGHT_UP, "2", (False, False, False)),
    "the active one": (ALL_CAUGHT_UP, "1", (False, False, True)),
    "two of three": (ALL_CAUGHT_UP, "23", (True, False, False)),
    "one, while another is behind": (
        replace(ALL_CAUGHT_UP, behind=frozenset({3})),
        "2",
        (True, False, False),
    ),
    "the one that is behind": (
        replace(ALL_CAUGHT_UP, behind=frozenset({3})),
        "3",
        (False, False, False),
    ),
    "two are behind": (
        replace(ALL_CAUGHT_UP, behind=frozenset({2, 3})),
        "3",
        (True, True, False),
    ),
    "nobody knows who is caught up": (
        replace(ALL_CAUGHT_UP, behind=None),
        "2",
        (None, None, False),
    ),
    "... and too few are left": (replace(ALL_CAUGHT_UP, behind=None), "23", (True, None, False)),
    "the only one": (Quorum(1, frozenset({1}), frozenset()), "1", (True, False, True)),
    "two of four": (Quorum(1, frozenset({1, 2, 3, 4}), frozenset()), "34", (True, False, False)),
}
"""A quorum, who is lost, whether it is lost then, was lost before, and elects."""


@for_each("case", QUORUMS)
def test_the_quorum(case: str) -> None:
    of, lost, expected = QUORUMS[case]
    found: QuorumEffect = quorum_effect(of, frozenset(map(int, lost)))
    assert (found.is_lost, found.was_lost, found.elects) == expected


NODES = Cluster(
    "prod",
    {1: Broker("a"), 2: Broker("b"), 3: Broker("b")},
    (),
    Quorum(3, frozenset({3, 8, 9})),
    controller_racks={8: "b", 9: "a"},
)


def test_a_combined_node_is_lost_as_both() -> None:
    assert loss_of_nodes(NODES, [2, 3]) == Loss(frozenset({2, 3}), frozenset({3}))
    assert loss_of_nodes(NODES, [3, 9], controllers=True) == Loss(frozenset({3}), frozenset({3, 9}))
    without = replace(NODES, quorum=None)
    assert loss_of_nodes(without, [3]) == Loss(frozenset({3}))
    assert what_if(without, Loss(frozenset({3}))).quorum is None


def test_a_rack_has_brokers_and_the_controllers_whose_rack_is_told() -> None:
    assert loss_of_rack(NODES, "b") == Loss(frozenset({2, 3}), frozenset({3, 8}), frozenset({"b"}))
    assert controllers_of_no_rack(NODES) == []
    unknown = replace(NODES, controller_racks={})
    assert loss_of_rack(unknown, "b").controllers == {3}
    assert controllers_of_no_rack(unknown) == [8, 9]


def test_racks_that_are_configured() -> None:
    racks = {"prod": {3: "c", 8: "c", 9: "c", 7: "c"}, "other": {9: "d"}}
    # 7 did not vote then; what somebody has told counts more.
    assert with_racks(NODES, racks).controller_racks == {3: "c", 8: "b", 9: "a"}
    assert with_racks(replace(NODES, name="test"), racks) == replace(NODES, name="test")
    unknown = replace(NODES, quorum=None, controller_racks={})
    assert with_racks(unknown, racks).controller_racks == racks["prod"]
