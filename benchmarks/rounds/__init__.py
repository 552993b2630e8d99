"""How long a round of history takes, how late history is, and what it costs: ``python -m
benchmarks.rounds``.

`aims` says each name in one line.
"""
