"""The histories, which the engine (jobs/rounds/) makes."""

from typing import Any

from jobs.histories.cost import RebalanceCost
from jobs.histories.incidents import Incidents
from jobs.histories.lag import GroupLag
from jobs.histories.polls import Polls
from jobs.histories.rebalances import RebalanceHistory
from jobs.histories.storage import Storage
from jobs.histories.transactions import TransactionHistory
from jobs.rounds.history import History

HISTORIES: tuple[type[History[Any]], ...] = (
    Polls,
    RebalanceHistory,
    RebalanceCost,
    GroupLag,
    TransactionHistory,
    Storage,
    Incidents,
)
"""All of them, in the order in which a run with --once makes them."""
