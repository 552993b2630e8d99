"""The offset of a stream of polls: how far a batch goes into the spool, and which numbers its polls
have.

A batch is a pure function of the offset before it, its own, and the spool.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from metadata_source.recorder.folder import SpoolError

if TYPE_CHECKING:
    from collections.abc import Mapping

OFFSET_VERSION: Final = 3


class Span(NamedTuple):
    """The polls of one cluster in a batch: their first and last number in the stream, and the
    number that the last one has in the spool. None where the first comes after the last.
    """

    first: int
    last: int
    number: int


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of a batch. Before the first batch there is no stream yet."""

    stream: str | None = None
    session: str | None = None
    """The id of the spool."""
    seq: int = 0
    """The last entry of the batch."""
    from_ms: int | None = None
    to_ms: int | None = None
    """When the first and the last poll of the batch were due; None where it has none."""
    clusters: Mapping[str, Span] = field(default_factory=dict)
    """Of each cluster that the stream ever had."""
    after: int | None = None
    """The batch begins, for each cluster, with the first key frame after this entry: what was
    recorded before is another session's, an older stream's, or gone. None: with what comes after
    the batch before.
    """
    waits: Mapping[str, str] = field(default_factory=dict)
    """The clusters of which the batch ends without a key frame after polls that nobody has, and the
    kind of these.
    """
    doubted: tuple[float, float] | None = None
    """From when until when no good poll of the batch is believed, s since the epoch."""

    def to_json(self) -> dict[str, Any]:
        """Return what Spark keeps in the checkpoint."""
        return {
            "version": OFFSET_VERSION,
            "stream": self.stream,
            "session": self.session,
            "seq": self.seq,
            "from": self.from_ms,
            "to": self.to_ms,
            "clusters": {alias: list(span) for alias, span in self.clusters.items()},
            "after": self.after,
            "waits": dict(self.waits),
            "doubted": None if self.doubted is None else list(self.doubted),
        }

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Self:
        """Read what `to_json` writes. Raises SpoolError for any other."""
        version = offset.get("version")
        if version != OFFSET_VERSION or offset.keys() != cls().to_json().keys():
            raise SpoolError(
                f"the checkpoint holds an offset of version {version!r}, and this is version "
                f"{OFFSET_VERSION}: remove the checkpoint of this query (of the jobs: "
                "CHECKPOINTS/poll_metadata), and a new stream begins"
            )
        doubted = offset["doubted"]
        return cls(
            stream=offset["stream"],
            session=offset["session"],
            seq=offset["seq"],
            from_ms=offset["from"],
            to_ms=offset["to"],
            clusters={alias: Span(*span) for alias, span in offset["clusters"].items()},
            after=offset["after"],
            waits=offset["waits"],
            doubted=None if doubted is None else (doubted[0], doubted[1]),
        )
