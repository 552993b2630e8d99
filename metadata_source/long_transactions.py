"""When a transaction is worth a row: bronze keeps those of which history and answers tell."""

from datetime import timedelta
from typing import Final

LONG: Final = timedelta(minutes=5)
"""It was open for longer."""
COMPLETES_WITHIN: Final = timedelta(seconds=30)
"""Markers that are not written for longer cannot be."""
NO_TIMEOUT: Final = 2**31 - 1
"""The time-out of two-phase commits, ms (KIP-939)."""
WITH_EPOCH_BUMP: Final = 2
"""The version of transactions whose ends raise the epoch (KIP-890)."""
