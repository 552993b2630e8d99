"""A history declares which clusters of a round are large; jobs/rounds/large.py does the rest."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jobs.rounds.plan import State
from jobs.rules.silver.state import State as SilverState
from jobs.rules.takes import Take


@dataclass(frozen=True)
class LargeClusters:
    """The clusters of a round, where some are so large that no one task may hold their partitions.

    `silver`: rows of internal.states of all clusters, by alias; `states`: what silver remembers of
    those of the round. `without_gold`: large ones of which gold has had nothing. `is_read`: whether
    the fold needs live rows of partitions.
    """

    takes: Sequence[Take]
    silver: Mapping[str, State]
    states: Mapping[str, SilverState]
    without_gold: Collection[str]
    is_read: bool = False

    def parts_before(self, cluster: str) -> int:
        """Into how many parts the topics of a cluster are cut where its live rows lie."""
        return self.silver.get(cluster, {}).get("parts") or 1

    def is_cut_again(self, take: Take) -> bool:
        """Whether the topics of a cluster were cut into fewer parts before."""
        return take.cluster in self.silver and self.parts_before(take.cluster) != take.parts
