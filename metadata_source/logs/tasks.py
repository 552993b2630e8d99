"""What lies between positions in logs, and which spans of it one task reads: a task for each of
some 15,000 partitions would cost more than reading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Span(Protocol):
    """Offsets of a log from `start` up to `end`; the log was cut off if `end` is before `start`."""

    @property
    def cluster(self) -> str:
        """The cluster's alias."""

    @property
    def start(self) -> int:
        """The first offset."""

    @property
    def end(self) -> int:
        """The offset after the last."""

    @property
    def truncated(self) -> bool:
        """Whether what was read before is no longer the log's."""


_Span = TypeVar("_Span", bound=Span)

CLUSTERS_A_TASK: Final = 16
"""Each is read by a client of its own, all at once."""
OFFSETS_A_TASK: Final = 100_000
"""A task of so many offsets takes no more: as many tasks read a large log as there are slots."""


def grouped(between: Iterable[_Span]) -> Iterator[dict[str, list[_Span]]]:
    """Yield spans by cluster, as tasks read them: the spans of a cluster side by side."""
    together: dict[str, list[_Span]] = {}
    offsets = 0
    for span in between:
        if offsets >= OFFSETS_A_TASK or (
            len(together) == CLUSTERS_A_TASK and span.cluster not in together
        ):
            yield together
            together, offsets = {}, 0
        together.setdefault(span.cluster, []).append(span)
        offsets += max(0, span.end - span.start)
    if together:
        yield together


def spans(start: Mapping[str, Any], end: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what lies between two positions of each cluster. Of a log that was found with the end
    nothing is read yet.
    """
    for cluster, until in end.items():
        if cluster in start:
            yield from until.since(start[cluster], cluster)
