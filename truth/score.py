"""Counts of what was compared, of groups and of transactions."""

from dataclasses import dataclass, fields


@dataclass
class Score:
    """What each kind of score has. Its last field is `faults`, a list of lines."""

    def row(self) -> tuple[int, ...]:
        """Its counts, and how many faults; for a table under `headings`."""
        *counts, faults = vars(self).values()
        return (*counts, len(faults))


def headings(of: type[Score]) -> tuple[str, ...]:
    """The headings of the counts of a kind of score."""
    return tuple(each.name.replace("_", " ") for each in fields(of))
