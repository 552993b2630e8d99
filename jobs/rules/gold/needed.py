"""The old place of isr_shrink.needed, for who imports it from here."""

from jobs.rules.gold.isr_shrink import needed

__all__ = ["needed"]
