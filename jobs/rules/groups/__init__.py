"""Rebalances of one group, its members and events: `fold` of its coordinator's log, `polls` of how
it was described.
"""
