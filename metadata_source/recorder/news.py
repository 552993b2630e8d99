"""Which entries of the spool are news, so that a batch begins with them. Pure functions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from metadata_source.outcomes import PUT_OFF

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.poll import Poll

_WINDOW_S: Final = 600.0
"""The longest default window of gold."""
_BELIEVED_S: Final = 120.0
_BELIEVED_POLLS: Final = 5
"""Silver believes an answer that waits after so long, and so many polls, if none better comes."""
_OTHERWISE_S: Final = 60.0
"""A cluster that fails now in this way, now in that, is news so often at most."""
_UNSENT: Final = "overlapped"
"""The kind of error of a poll that was not sent: it says nothing of the cluster."""


class News(IntEnum):
    """How soon an entry is to be read: with a quiet fleet's next commit; in seconds; at once."""

    QUIET, FOLLOWS, NEWS = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Seen:
    """The newest known facts of one cluster as of one of its entries, by which two entries are
    compared.

    `at_s`: when the entry's poll was due, on the monotonic clock. `error_kind`: of the last poll
    that was sent, None if it was good. `digest`: of the last good answer. `behind`: the brokers
    (`host:port`) that were found to be behind and not since to be so no more. `beside`: kind ->
    outcome and digest of its last answer. `news_at_s`: when an entry was news last.
    """

    at_s: float
    error_kind: str | None = None
    digest: bytes | None = None
    behind: frozenset[str] = frozenset()
    beside: Mapping[str, tuple[str, bytes | None]] = field(default_factory=dict)
    news_at_s: float | None = None


def seen(
    before: Seen | None,
    at_s: float,
    poll: Poll,
    digest: bytes | None,
    beside: Mapping[str, tuple[str, bytes | None]],
) -> Seen:
    """Return what is known with an entry. `digest`: of the poll; `beside`: of answers with it."""
    before = before or Seen(at_s)
    found = {broker: is_behind for broker, is_behind in _judged(poll) if broker is not None}
    asked = {kind: answer for kind, answer in beside.items() if not answer[0].startswith(PUT_OFF)}
    return replace(
        before,
        at_s=at_s,
        error_kind=before.error_kind if poll.error_kind == _UNSENT else poll.error_kind,
        digest=digest or before.digest,
        behind=(before.behind | {each for each, is_behind in found.items() if is_behind})
        - {each for each, is_behind in found.items() if not is_behind},
        beside={**before.beside, **asked},
    )


def _judged(poll: Poll) -> list[tuple[str | None, bool]]:
    """Return of which brokers a poll says whether they are behind; who answered it is not."""
    answered = [(poll.broker, False)] if poll.error_kind is None else []
    return answered + [
        (each.broker, each.is_behind) for each in poll.witnesses if each.is_behind is not None
    ]


def followed_s(interval_s: float) -> float:
    """Return for how long after news silver or gold may still wait for a poll."""
    return _WINDOW_S + max(_BELIEVED_S, _BELIEVED_POLLS * interval_s)


def news(before: Seen | None, now: Seen, interval_s: float) -> News:
    """Return whether an entry is news. `before`: of the cluster's entry before, if there is one;
    `interval_s`: from one poll to the next.
    """
    since_s = (
        math.inf if before is None or before.news_at_s is None else now.at_s - before.news_at_s
    )
    fails_on = before is not None and None not in (before.error_kind, now.error_kind)
    if fails_on and before is not None and since_s < _OTHERWISE_S:
        before = replace(before, error_kind=now.error_kind)
    if before is None or _differ(before, now):
        return News.NEWS
    return News.FOLLOWS if since_s < followed_s(interval_s) else News.QUIET


def _differ(before: Seen, now: Seen) -> bool:
    if (before.error_kind, before.digest, before.behind) != (
        now.error_kind,
        now.digest,
        now.behind,
    ):
        return True
    known = {kind: _in_short(answer) for kind, answer in before.beside.items()}
    return any(known.get(kind) != _in_short(answer) for kind, answer in now.beside.items())


def _in_short(answer: tuple[str, bytes | None]) -> tuple[str, bytes | None]:
    """Return an answer beside metadata without its line, whose numbers may differ each time."""
    outcome, digest = answer
    return outcome.partition(":")[0], digest
