"""Version 12: transactions, log directories and changes of controllers have tables."""

from schemas.upgrades.step import Step

STEP = Step(version=12)
