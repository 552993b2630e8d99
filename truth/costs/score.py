"""How far history agrees with the workers of one group."""

from dataclasses import dataclass, field
from typing import Final


@dataclass
class Score:
    """Counts of what was held against the workers, and what was wrong.

    `lags`: rows of lag, `at_rest` those of them that have one exact value.
    """

    rows: int = 0
    pauses: int = 0
    longest_ms: int = 0
    reprocessed: int = 0
    recovered: int = 0
    lags: int = 0
    at_rest: int = 0
    faults: list[str] = field(default_factory=list)

    def row(self) -> tuple[int, ...]:
        """Its counts, and how many faults."""
        counts = (
            self.rows,
            self.pauses,
            self.longest_ms,
            self.reprocessed,
            self.recovered,
            self.lags,
            self.at_rest,
        )
        return *counts, len(self.faults)


HEADINGS: Final = (
    "group",
    "rows",
    "pauses",
    "longest, ms",
    "done twice",
    "lag back",
    "rows of lag",
    "at rest",
    "faults",
)
