"""Notebooks for after an incident, what they draw with, and what runs them (``python -m notebooks``)."""
