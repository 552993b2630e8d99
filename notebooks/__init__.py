"""Notebooks for after an incident, their helpers, and what runs them (``python -m notebooks``)."""
