"""Another place of compare.first_rows."""

from jobs.rules.silver.compare import first_rows

__all__ = ["first_rows"]
