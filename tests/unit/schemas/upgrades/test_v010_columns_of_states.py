"""Memory of version 9 as version 10 reads it."""

from jobs.histories.positions import LogVersion
from jobs.histories.rebalances import Memory
from jobs.rules.memory import loads
from schemas.upgrades.v010_columns_of_states import state


def test_positions_of_the_log_have_their_name() -> None:
    old = '{"places":{"3":[0,17]},"at":"2026-11-01T12:00:00+00:00"}'
    made = loads(Memory, str(state("rebalance_history", "prod", old)))
    assert {of: tuple(position) for of, position in made.positions.items()} == {"3": (0, 17)}
    assert made.at is not None
    log = '{"version":5}'
    assert loads(LogVersion, str(state("rebalance_history", "", log))) == LogVersion(5)


def test_a_cluster_that_is_left_out_says_why_in_a_column() -> None:
    assert state("aside of silver", "prod", '{"says":"KeyError"}') == "{}"
    assert state("silver", "prod", '{"digest":"00"}') == '{"digest":"00"}'
    assert state("silver", "prod", None) is None
