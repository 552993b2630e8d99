"""How far history of transactions agrees with what producers did and coordinators wrote."""

from dataclasses import dataclass, field
from typing import Final

from truth import score
from truth.score import headings


@dataclass
class Score(score.Score):
    """Counts of all that was compared, and the faults in it."""

    acts: int = 0
    records: int = 0
    """Of the coordinators' log."""
    transactions: int = 0
    rows: int = 0
    """Of gold.transactions."""
    looked: int = 0
    """Rows of it before the end."""
    aborts: int = 0
    """By a coordinator."""
    guessed: int = 0
    """Aborts for which history infers another reason, as docs/design/transactions.md says."""
    stuck: int = 0
    moved: int = 0
    """Rows of transactions whose coordinator moved."""
    patterns: int = 0
    open: int = 0
    """Rows of silver.open_transactions."""
    held_up: int = 0
    """Rows of gold.held_up with a transaction."""
    faults: list[str] = field(default_factory=list)


HEADINGS: Final = headings(Score)
