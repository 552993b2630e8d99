"""Random lives of groups of every kind, as coordinators of group_simulator.py lead them."""

from collections.abc import Callable, Iterable

from hypothesis import strategies as st

from tests.support.epoch_group_simulator import ConsumerGroup, ShareGroup
from tests.support.group_simulator import WHAT, Action, ClassicGroup, Group

ACTIONS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 30)), min_size=1, max_size=25)
CUTS = st.lists(st.integers(0, 200), max_size=5)
KINDS: dict[str, Callable[[int], Group]] = {
    "eager": lambda partitions: ClassicGroup(partitions, cooperative=False),
    "cooperative": lambda partitions: ClassicGroup(partitions, cooperative=True),
    "cooperative, old": lambda partitions: ClassicGroup(partitions, cooperative=True, old=True),
    "consumer": ConsumerGroup,
    "consumer, busy": lambda partitions: ConsumerGroup(partitions, busy=True),
    "share": ShareGroup,
}
"""By name: a coordinator of a group whose topic has so many partitions."""


def lived(kind: str, partitions: int, actions: Iterable[Action]) -> Group:
    """A group that lived through these actions and is at rest."""
    group = KINDS[kind](partitions)
    for action in actions:
        group.do(action)
    group.settle()
    return group
