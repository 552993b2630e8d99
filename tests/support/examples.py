"""How many examples hypothesis makes of a test: few in `make unit`, many in `make soak`."""

from hypothesis import settings

SHORT, SOAK = 25, 500
"""Examples of a test that says nothing else."""

settings.register_profile("short", max_examples=SHORT, deadline=None, database=None)
settings.register_profile("soak", max_examples=SOAK, deadline=None, database=None)


def examples(short: int) -> int:
    """How many to make of a test that wants `short` in a short run."""
    return short * settings.default.max_examples // SHORT
