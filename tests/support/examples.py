"""How many examples hypothesis makes of a test: few in `make unit`, many in `make soak`."""

from hypothesis import HealthCheck, settings

SHORT, SOAK = 25, 500
"""Examples of a test that says nothing else."""

# How fast the machine is decides nothing.
_UNHURRIED = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("short", max_examples=SHORT, **_UNHURRIED)
settings.register_profile("soak", max_examples=SOAK, **_UNHURRIED)


def examples(short: int) -> int:
    """How many to make of a test that wants `short` in a short run."""
    return short * settings.default.max_examples // SHORT
