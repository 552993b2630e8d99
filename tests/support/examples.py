"""How many examples hypothesis makes of a test: few in `make unit`, many in `make soak`."""

from hypothesis import settings

SHORT, SOAK = 25, 500
"""Examples of a test that says nothing else."""

for name, most in {"short": SHORT, "soak": SOAK}.items():
    settings.register_profile(
        name, max_examples=most, deadline=None, database=None, print_blob=True
    )


def examples(short: int) -> int:
    """How many to make of a test that wants `short` in a short run."""
    return short * settings.default.max_examples // SHORT
