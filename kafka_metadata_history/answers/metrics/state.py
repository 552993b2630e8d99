"""The state of a lake's clusters as it is kept between scrapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from kafka_metadata_history.answers.metrics.declared import Sample


class GroupLag(NamedTuple):
    """How many records a group is behind, at most."""

    group: str
    records: int


@dataclass(frozen=True)
class Known:
    """Up to when something is known (None: it never was), and for how long it counts after that."""

    until: datetime | None
    counts_for: timedelta

    def counts(self, now: datetime) -> bool:
        """Whether it is new enough."""
        return self.until is not None and now - self.until <= self.counts_for


@dataclass(frozen=True)
class ClusterMetrics:
    """The samples of a cluster. `lags`: the largest first. `lag_known`: None: nobody asks."""

    cluster: str
    known: Known
    samples: Sequence[Sample] = ()
    lags: Sequence[GroupLag] = ()
    lag_known: Known | None = None


@dataclass(frozen=True)
class Availability:
    """Metadata availability by cluster, as of the newest observation of the lake then."""

    as_of: datetime
    samples: Mapping[str, Sequence[Sample]]


@dataclass(frozen=True)
class LakeMetrics:
    """All configured clusters, in the order of the configuration. `availability`: None if the lake
    has no history. `lacks`: lines that say what a lake of an older version does not have.
    """

    clusters: Sequence[ClusterMetrics]
    availability: Availability | None = None
    lacks: Sequence[str] = ()
