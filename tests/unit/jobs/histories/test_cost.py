"""How far the cost of rebalances is once a lake has clusters of another one."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.histories.cost import JOB, Memory, RebalanceCost
from jobs.rounds.plan import States, state_of
from jobs.rounds.stage import arrow_schema
from jobs.rules.memory import loads
from schemas.groups import REBALANCES
from tests.support.memory_lake import Frame

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def states(memory: Memory | None, *clusters: str) -> States:
    rows = [] if memory is None else [state_of(JOB, "", memory)]
    rows += [state_of("silver", cluster, {}) for cluster in clusters]
    return {(row["history"], row["cluster"]): row for row in rows}


def joined(own: Memory | None, other: Memory | None, *told: int) -> Memory | None:
    """After the import of cluster `b`, whose rebalances were told in these minutes."""
    rows = arrow_schema(REBALANCES).empty_table().to_pylist() + [
        dict.fromkeys(REBALANCES.column_names) | {"updated_at": at(minutes)} for minutes in told
    ]
    frame = Frame(
        arrow_schema(REBALANCES).empty_table().from_pylist(rows, arrow_schema(REBALANCES))
    )
    found = [*RebalanceCost.joined(states(own, "a"), states(other, "b"), {REBALANCES: frame})]
    assert len(found) <= 1
    memory: Memory | None = loads(Memory, found[0]["memory"]) if found else None
    return memory


THEIRS = Memory(at(10), {"b": at(9), "elsewhere": at(8)})


@pytest.mark.parametrize(
    ("own", "other", "told", "after"),
    [
        # An empty lake takes what the other knew of the imported clusters.
        (None, THEIRS, (5, 10), Memory(at(10), {"b": at(9)})),
        # All of theirs have a cost: what the lake has had is not looked at again.
        (Memory(at(30), {"a": at(29)}), THEIRS, (5, 10), Memory(at(30), {"a": at(29), "b": at(9)})),
        # One has none yet.
        (Memory(at(30), {"a": at(29)}), THEIRS, (11,), Memory(at(10), {"a": at(29), "b": at(9)})),
        (Memory(at(3), {"a": at(2)}), THEIRS, (11,), Memory(at(3), {"a": at(2), "b": at(9)})),
        # A cluster was left out there from a minute on.
        (
            Memory(at(30), {"a": at(29)}, at(20)),
            Memory(at(10), {"b": at(9)}, at(4)),
            (5,),
            Memory(at(4), {"a": at(29), "b": at(9)}, at(20)),
        ),
        # Nobody has made a cost there.
        (Memory(at(30)), None, (5,), None),
    ],
)
def test_no_rebalance_goes_without_a_cost(
    own: Memory | None, other: Memory | None, told: tuple[int, ...], after: Memory | None
) -> None:
    assert joined(own, other, *told) == after
