"""Notebooks for after an incident, and what they ask and run with (``python -m notebooks``)."""
