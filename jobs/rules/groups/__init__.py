"""Rebalances of one group, its members and events, from what its coordinator wrote. Pure Python, a record at a time.

`fold` is all that others need. A run may end between any two records: what is not over stays in the state, and what was told of it
is told again, under the same key, when more is known.
"""

from jobs.rules.groups.fold import Folded, fold

__all__ = ["Folded", "fold"]
