"""Version 11: incidents, events and marks have tables; polls keep more of what they ask."""

from schemas.upgrades.step import Step

STEP = Step(version=11)
