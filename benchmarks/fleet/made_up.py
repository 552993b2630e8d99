"""Which clusters there are, how they behave, and the options of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.fleet.answers import MANNERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.fleet.answers import Manner

BEAT_MS: Final = 10_000
USUAL_MS: Final = 30_000
"""The shortest interval, which each fifth cluster has, and that of the others."""
_QUICK: Final = 5
_UNASKED: Final = 7
"""Each so many-th cluster has the short interval; is asked nothing beside metadata."""
SICK: Final[Mapping[Manner, int]] = {
    "slow": 15,
    "closed": 15,
    "silent": 15,
    "garbage": 6,
    "throttling": 6,
    "huge": 2,
    "falling": 1,
}
"""Of 300 clusters."""


class Member(NamedTuple):
    """One cluster of the fleet."""

    alias: str
    manner: Manner
    interval_ms: int
    is_asked: bool
    """Something beside metadata, with every second poll."""
    servers: str

    @property
    def options(self) -> dict[str, str]:
        """Those of the data source for this cluster alone."""
        return {
            "kafka.bootstrap.servers": self.servers,
            "pollInterval": f"{self.interval_ms}ms",
            "enrich": f"reassignments={2 * self.interval_ms}ms" if self.is_asked else "none",
        }


def manners(clusters: int, sick: Mapping[Manner, int] = SICK) -> list[Manner]:
    """Return how each of so many clusters behaves: the sick ones first, the others are good."""
    ill: list[Manner] = [manner for manner in MANNERS for _ in range(sick.get(manner, 0))]
    return [*ill, *(["good"] * (clusters - len(ill)))]


def fleet(
    behaving: Sequence[Manner],
    servers: Sequence[str],
    *,
    beat_ms: int = BEAT_MS,
    usual_ms: int = USUAL_MS,
) -> list[Member]:
    """Return the clusters at these bootstrap servers, every fifth with the short interval."""
    return [
        Member(
            alias=f"cluster-{n:03}",
            manner=manner,
            interval_ms=usual_ms if (n + 1) % _QUICK else beat_ms,
            is_asked=bool((n + 1) % _UNASKED),
            servers=at,
        )
        for n, (manner, at) in enumerate(zip(behaving, servers, strict=True))
    ]
