"""The histories: what each takes of what is new, and how far it has come. The engine (jobs/rounds/)
makes them all.
"""

from typing import Any

from jobs.histories.cost import RebalanceCost
from jobs.histories.lag import GroupLag
from jobs.histories.polls import Polls
from jobs.histories.rebalances import RebalanceHistory
from jobs.rounds.history import History

HISTORIES: tuple[type[History[Any]], ...] = (Polls, RebalanceHistory, RebalanceCost, GroupLag)
"""All of them, in the order in which a run with --once makes them."""
