"""Logs that are topics: what `__consumer_offsets` has in common with any other one that brokers
write and lead.
"""
