"""Rebalances of a group, its members and events: `fold` of its log, `polls` of descriptions."""
