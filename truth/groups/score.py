"""How far history agrees with what happened to one group."""

from dataclasses import dataclass, field
from typing import Final

from truth import score
from truth.score import headings


@dataclass
class Score(score.Score):
    """Counts of all that was compared, and the faults in it. The rest is of members that work."""

    steps: int = 0
    rebalances: int = 0
    members: int = 0
    events: int = 0
    costs: int = 0
    """Rows of gold.rebalance_cost."""
    pauses: int = 0
    longest_ms: int = 0
    reprocessed: int = 0
    recovered: int = 0
    lags: int = 0
    """Rows of gold.group_lag."""
    at_rest: int = 0
    """Those of them that have one exact value."""
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, {self.rebalances} rebalances with {self.members} members, "
            f"{self.events} events, {len(self.faults)} faults"
        )


HEADINGS: Final = ("group", *headings(Score))
