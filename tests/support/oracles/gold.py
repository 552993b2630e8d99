"""The rules of gold a second time, in the dumbest way.

Rows of silver come in as dictionaries by full table names, and rows of gold go out so, without ids,
durations and `updated_at`.
"""

from datetime import datetime

from tests.support.oracles.held import Row
from tests.support.oracles.isrs import broker_incidents, isr_changes, isr_episodes
from tests.support.oracles.leaders import leader_balance, leader_changes


def expected_rows(silver: dict[str, list[Row]], now: datetime) -> dict[str, list[Row]]:
    """The rows of one cluster, by table. `now`: when its last poll was answered."""
    changes = isr_changes(silver, now)
    episodes = isr_episodes(silver, changes)
    return {
        "gold.isr_changes": changes,
        "gold.isr_episodes": episodes,
        "gold.broker_incidents": broker_incidents(changes, episodes),
        "gold.leader_changes": leader_changes(silver),
        "gold.leader_balance": leader_balance(silver),
    }
