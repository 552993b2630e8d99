"""Logs that are topics: all that `__consumer_offsets` shares with others that brokers lead."""
