"""How many examples hypothesis makes of a test: few in `make unit`, many in `make soak`."""

from typing import Final

from hypothesis import HealthCheck, settings

SHORT, SOAK = 25, 500
"""Examples of a test that says nothing else."""
# How fast the machine is decides nothing, and a failure says how to see it again.
_ALL: Final = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("short", max_examples=SHORT, **_ALL)
settings.register_profile("soak", max_examples=SOAK, **_ALL)


def examples(short: int) -> int:
    """How many to make of a test that wants `short` in a short run."""
    return short * settings.default.max_examples // SHORT
