"""Silver: what polls said -> state over time. Pure functions, one cluster at a time."""

from jobs.rules.silver.cluster import Folded, fold, records_to_read
from jobs.rules.silver.state import Poll, State

__all__ = ["Folded", "Poll", "State", "fold", "records_to_read"]
