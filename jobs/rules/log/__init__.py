"""The controllers' own log: its records -> state over time, exact. Pure functions, one cluster at a
time.
"""

from jobs.rules.log.fold import Folded, fold
from jobs.rules.log.needed import needed
from jobs.rules.log.state import State

__all__ = ["Folded", "State", "fold", "needed"]
