"""The outcome of one poll of one cluster, and of asking other brokers with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from metadata_source.images import Difference, Image
    from metadata_source.protocol.metadata import ClusterMetadata


@dataclass(frozen=True, slots=True)
class Witness:
    """Another broker that was asked with a poll: an element of bronze's `witnesses`. Unknown is
    None.

    `error_kind`: why it did not answer. `is_behind`: None too where nobody knows which of two is
    older. `behind_ms`: it still showed older state so long after the newer had been seen.
    `partitions_behind`, `epochs_behind`: see images.Difference.
    """

    broker_id: int | None
    broker: str | None
    sent_at: datetime | None = None
    received_at: datetime | None = None
    error_kind: str | None = None
    is_behind: bool | None = None
    behind_ms: int | None = None
    partitions_behind: int | None = None
    epochs_behind: int | None = None

    @classmethod
    def of(
        cls, answer: Poll, found: Difference | None = None, since: datetime | None = None
    ) -> Witness:
        """A broker that answered, and if it was behind, how far behind an answer of `since`."""
        witness = cls(
            answer.broker_id,
            answer.broker,
            answer.sent_at,
            answer.received_at,
            is_behind=found is not None,
        )
        if found is None:
            return witness
        late = (
            None
            if since is None or answer.sent_at is None
            else (answer.sent_at - since) // timedelta(milliseconds=1)
        )
        behind_ms = None if late is None else max(0, late)
        return replace(
            witness,
            behind_ms=behind_ms,
            partitions_behind=found.partitions,
            epochs_behind=found.epochs,
        )


@dataclass(frozen=True, slots=True)
class Poll:
    """The outcome of one poll of one cluster. What is not known is None."""

    error_kind: str | None = None
    error: str | None = None
    attempts: int = 0
    sent_at: datetime | None = None
    received_at: datetime | None = None
    latency_ms: float | None = None
    broker_id: int | None = None
    broker: str | None = None
    api_version: int | None = None
    response_bytes: int | None = None
    throttle_time_ms: int | None = None
    metadata_version_level: int | None = None
    metadata_version_highest: int | None = None
    elr_version_level: int | None = None
    active_controller_id: int | None = None
    """With ZooKeeper, -1 for none; None under KRaft, where any live broker is named."""
    cluster_id: str | None = None
    """As answered; also of a failed poll, when the answer itself was the failure."""
    metadata: ClusterMetadata | None = None
    """The decoded answer of a good poll: the topics that the filter covers."""
    image: Image | None = None
    """The same in short."""
    witnesses: tuple[Witness, ...] = ()


OVERLAPPED: Final = Poll(
    error_kind="overlapped",
    error="not sent: the poll before was still running when this one was due",
)
