"""Incidents, explained: rows of the lake become records (`read.py`), records become lines."""
