"""Another place of isr_shrink.needed."""

from jobs.rules.gold.isr_shrink import needed

__all__ = ["needed"]
