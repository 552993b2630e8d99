"""The old place of compare.first_rows, for who imports it from here."""

from jobs.rules.silver.compare import first_rows

__all__ = ["first_rows"]
