"""Notebooks for after an incident, what they ask with, and what runs them (``python -m
notebooks``).
"""
