"""Rebalances of one group, its members and events: `fold` of what its coordinator wrote, `polls` of how it was
described.

Pure Python, a record or a state at a time. A run may end between any two records: what is not over stays in the state,
and what was told of it is told again, under the same key, when more is known.
"""

from jobs.rules.groups.fold import fold

__all__ = ["fold"]
