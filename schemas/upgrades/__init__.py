"""The steps of an upgrade: a file for each version of the lake, from the first that has one."""

from typing import Final

from schemas.upgrades import (
    v008_answers_of_their_own,
    v009_no_contradictions,
    v010_columns_of_states,
    v011_incidents,
    v012_transactions_and_storage,
)
from schemas.upgrades.step import Step

STEPS: Final[tuple[Step, ...]] = (
    v008_answers_of_their_own.STEP,
    v009_no_contradictions.STEP,
    v010_columns_of_states.STEP,
    v011_incidents.STEP,
    v012_transactions_and_storage.STEP,
)
"""In order. Each leads from the version before to its own; the last one to LAKE_VERSION."""


def steps_from(version: int) -> tuple[Step, ...]:
    """The steps that a table of a version has before it."""
    return tuple(step for step in STEPS if step.version > version)
