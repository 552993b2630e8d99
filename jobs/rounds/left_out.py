"""Clusters that a history leaves out since their fold has failed: what breaks one cluster's history
holds up nobody else's.

Nothing of such a cluster is taken, so bronze keeps it. It is tried again after a while, each time
after twice as long, and by each run that begins.
"""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from metadata_source.backoff import backoff_s

AGAIN_AFTER_S = 60.0
"""How long a cluster is left out first."""
AT_MOST_S = 3_600.0
"""How long a cluster is left out at most."""

LEFT_OUT_OF = "left out of "
"""The history of a row that names a cluster which is left out begins so; the row says why."""


@dataclass
class LeftOut:
    """`tried`: by alias, how often its fold has failed in a row. `clock`: seconds."""

    tried: dict[str, int] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    _until: dict[str, float] = field(default_factory=dict)

    def __contains__(self, cluster: object) -> bool:
        """Whether a cluster is left out now."""
        return cluster in self._until

    def __len__(self) -> int:
        return len(self._until)

    def __iter__(self) -> Iterator[str]:
        """The clusters that are left out now, sorted."""
        return iter(sorted(self._until))

    def put(self, cluster: str) -> float:
        """Leave a cluster out from now on; for how many seconds."""
        self.tried[cluster] = self.tried.get(cluster, 0) + 1
        seconds = backoff_s(AGAIN_AFTER_S, self.tried[cluster], AT_MOST_S)
        self._until[cluster] = self.clock() + seconds
        return seconds

    def take_back(self) -> list[str]:
        """The clusters that were left out for long enough: from now on they are tried again."""
        due = [cluster for cluster, until in self._until.items() if until <= self.clock()]
        for cluster in due:
            del self._until[cluster]
        return due

    def succeed(self, folded: Collection[str]) -> list[str]:
        """The clusters whose fold failed before, and has not failed in the round just made.

        `folded`: the clusters of that round.
        """
        well = sorted((self.tried.keys() - self._until.keys()).intersection(folded))
        for cluster in well:
            del self.tried[cluster]
        return well
