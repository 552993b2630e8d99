"""Clusters whose polls begin to fail, or are good again: a line of the log for each.

Headers tell it, which a round of history reads anyway.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from jobs.run.unanswered import Unanswered
from metadata_source.outcomes import TO_DO, reason
from metadata_source.text import printable

Header = Mapping[str, Any]
"""A row of bronze with record 'poll'."""


@dataclass
class _Cluster:
    """How polls of a cluster fare, up to its last one. `failed`: polls since the last good one;
    `since`: when the first of these was due; `is_hopeless`: one of these failed in a way that no
    later poll mends.
    """

    last_poll: str = ""
    failed: int = 0
    since: datetime | None = None
    is_hopeless: bool = False


class Outages:
    """The clusters whose polls fail, as far as their headers were seen. A poll that is seen again
    says nothing.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, _Cluster] = {}
        self.unanswered = Unanswered()

    def __str__(self) -> str:
        failing = len(self.failing)
        return f"{len(self._clusters) - failing} cluster(s) polled, {failing} failing"

    @property
    def failing(self) -> list[str]:
        """The clusters whose last poll failed, sorted."""
        return sorted(cluster for cluster, each in self._clusters.items() if each.failed)

    def see(self, headers: Iterable[Header]) -> Iterator[tuple[int, str]]:
        """Lines with their levels, one a cluster at most. `headers`: new ones, in any order."""
        by_cluster: dict[str, list[Header]] = {}
        for header in sorted(headers, key=lambda header: header["poll_id"]):
            if (
                header["poll_id"]
                > self._clusters.setdefault(header["cluster"], _Cluster()).last_poll
            ):
                by_cluster.setdefault(header["cluster"], []).append(header)
        for cluster, fresh in by_cluster.items():
            yield from _see(f"cluster {printable(cluster)}", self._clusters[cluster], fresh)


def _see(name: str, known: _Cluster, headers: list[Header]) -> Iterator[tuple[int, str]]:
    """The line of one cluster, if its polls fare otherwise than before, which `known` then says."""
    failed = [header for header in headers if header["outcome"] != "ok"]
    at_end = list(takewhile(lambda header: header["outcome"] != "ok", reversed(headers)))
    since = known.since if known.failed else failed[0]["scheduled_at"] if failed else None
    was_good, before = len(at_end) < len(headers), known.failed
    known.last_poll = headers[-1]["poll_id"]
    known.failed = len(at_end) if was_good else known.failed + len(at_end)
    if at_end:
        known.since = at_end[-1]["scheduled_at"] if was_good or not before else known.since
        is_hopeless = at_end[0]["error_kind"] in TO_DO
        was_hopeless = known.is_hopeless and before > 0 and not was_good
        known.is_hopeless = is_hopeless or was_hopeless
        if was_good or not before or (is_hopeless and not was_hopeless):
            level = logging.ERROR if is_hopeless else logging.WARNING
            yield level, f"{name}: polls fail since {_time(known.since)}: {_reason(at_end[0])}"
    elif before or failed:
        last = f", the last one: {_reason(failed[-1])}" if failed else ""
        since_then = f"{before + len(failed)} poll(s) failed since {_time(since)}{last}"
        yield logging.WARNING, f"{name}: polls are good again; {since_then}"


def _reason(header: Header) -> str:
    return reason(header["error_kind"], header["error"])


def _time(at: datetime | None) -> str:
    return "unknown" if at is None else f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
