"""Which messages a target is to get: of what is so now, and of what it was sent. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from itertools import groupby
from typing import TYPE_CHECKING, Final

from jobs.rules.incidents.incident import MERGED, WITHDRAWN
from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.notify.alert import Alert, is_worse, over, worst
from kafka_metadata_history.notify.wanted import Window, is_silenced, passes
from metadata_source.text import counted
from schemas.incidents import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from jobs.configuration.notify import Silence, Target

SUMMARY: Final = "summary"
"""The kind of a summary's alert."""
SUMMED: Final = 20
"""So many have a line of their own in a summary."""


class Action(StrEnum):
    """The news of a message. A summary is of several, all over."""

    OPENED = "opened"
    WORSE = "worse"
    ENDED = "ended"
    SUMMARY = "summary"


@dataclass(frozen=True)
class Seen:
    """The state at a time. `alerts`: those that last, the worst first, and those that ended of
    late. `is_known`: False if the lake could not be read: what `alerts` lacks may last still.
    """

    at: datetime
    alerts: Sequence[Alert]
    is_known: bool = True
    windows: Sequence[Window] = ()


@dataclass(frozen=True)
class Sent:
    """The last message of an alert to a target. `opens`: how often it was opened there; 0: it was
    in a summary. `at`: when it was seen so. `is_sure`: False from before it is opened until that
    has arrived: the target may know of it, or not. `ending`: likewise, from before its end is sent
    until that has arrived, the key of that message; else empty.
    """

    alert: Alert
    opens: int
    is_open: bool
    at: datetime
    is_sure: bool = True
    ending: str = ""


@dataclass(frozen=True)
class Message:
    """`key`: the same if it is sent again, and of no other message to that target. `before`: the
    alert as it was sent last, if it is open there. `becomes`: what is to be remembered once it is
    sent, by the alerts' keys. `over`: of a summary: the alerts in it. `unsure`: those of them that
    the target may have open, as they were sent.
    """

    action: Action
    key: str
    alert: Alert
    becomes: Mapping[str, Sent]
    before: Alert | None = None
    over: Sequence[Alert] = ()
    unsure: Sequence[Alert] = ()

    @property
    def may_become(self) -> dict[str, Sent]:
        """The notes to keep while it is sent: it may arrive, or not."""
        match self.action:
            case Action.OPENED:
                return {key: replace(each, is_sure=False) for key, each in self.becomes.items()}
            case Action.ENDED | Action.SUMMARY:
                return {key: replace(each, ending=self.key) for key, each in self.becomes.items()}
            case Action.WORSE:
                return {}


def due(
    seen: Seen,
    sent: Mapping[str, Sent],
    target: Target,
    silences: Sequence[Silence],
    since: datetime,
) -> list[Message]:
    """Return what a target is to be sent now, the most urgent first. `sent`: by the alerts' keys.
    `since`: alerts that were over before then are nobody's news.

    An alert that is open at the target ends there, whatever its keys and silences say by now.
    """

    def is_wanted(alert: Alert) -> bool:
        return passes(alert, target) and not is_silenced(alert, silences, seen.windows, seen.at)

    # An end that may have arrived comes first: the alert may be open again by now.
    found = [*_ending(seen, sent), *_opened(seen, sent, is_wanted), *_ended(seen, sent)]
    missed = [
        each
        for each in seen.alerts
        if each.key not in sent
        and each.ended is not None
        and each.ended >= since
        and each.end_reason not in {MERGED, WITHDRAWN}
        and is_wanted(each)
    ]
    unsure = [(each, was) for each, was in _over(seen, sent) if not was.is_sure]
    if missed or unsure:
        over = [*((each, 0) for each in missed), *((each, was.opens) for each, was in unsure)]
        found.append(_summary(over, [was.alert for _, was in unsure], seen))
    return found


def _ending(seen: Seen, sent: Mapping[str, Sent]) -> Iterator[Message]:
    """Yield the messages of ends that were sent and may not have arrived, with their keys."""
    unfinished = sorted((each for each in sent.values() if each.ending), key=lambda of: of.ending)
    for key, some in groupby(unfinished, key=lambda of: of.ending):
        ended = [*some]
        if key.startswith(f"{SUMMARY}-"):
            alerts = [each.alert for each in ended if each.opens]
            yield _summary([(each.alert, each.opens) for each in ended], alerts, seen)
        else:
            (one,) = ended
            becomes = {one.alert.key: replace(one, ending="")}
            yield Message(Action.ENDED, key, one.alert, becomes, one.alert)


def _opened(
    seen: Seen, sent: Mapping[str, Sent], is_wanted: Callable[[Alert], bool]
) -> Iterator[Message]:
    for alert in seen.alerts:
        if not alert.is_open or not is_wanted(alert):
            continue
        was = sent.get(alert.key)
        if was is None or not was.is_open or not was.is_sure:
            before = 0 if was is None else was.opens - was.is_open
            becomes = {alert.key: Sent(alert, before + 1, is_open=True, at=seen.at)}
            yield Message(Action.OPENED, f"{alert.key}-opened-{before + 1}", alert, becomes)
        elif is_worse(alert, was.alert):
            now = worst(alert, was.alert)
            brokers = ".".join(map(str, now.brokers))
            key = f"{alert.key}-worse-{was.opens}-{now.severity}-{now.level}-{_digest(brokers)}"
            becomes = {alert.key: Sent(now, was.opens, is_open=True, at=seen.at)}
            yield Message(Action.WORSE, key, now, becomes, was.alert)


def _ended(seen: Seen, sent: Mapping[str, Sent]) -> Iterator[Message]:
    for alert, was in _over(seen, sent):
        if was.is_sure:
            becomes = {alert.key: Sent(alert, was.opens, is_open=False, at=seen.at)}
            key = f"{alert.key}-ended-{was.opens}"
            yield Message(Action.ENDED, key, alert, becomes, was.alert)


def _over(seen: Seen, sent: Mapping[str, Sent]) -> Iterator[tuple[Alert, Sent]]:
    """Yield what is open at the target, or may be, and is over."""
    now = {each.key: each for each in seen.alerts}
    for key, was in sent.items():
        alert = now.get(key)
        if was.is_open and (not alert.is_open if alert is not None else seen.is_known):
            yield alert or over(was.alert, seen.at), was


def _summary(over: Sequence[tuple[Alert, int]], unsure: Sequence[Alert], seen: Seen) -> Message:
    """The message of alerts that are over, each with how often it was opened at the target."""
    opens = {each.key: of for each, of in over}
    missed = sorted((each for each, _ in over), key=lambda each: each.began)
    key = f"{SUMMARY}-{_digest(*(f'{key} {opens[key]}' for key in sorted(opens)))}"
    began = missed[0].began
    lines = [f"{each.title}. {each.text}" for each in missed[:SUMMED]]
    left = len(missed) - SUMMED
    alert = Alert(
        key=key,
        cluster=None,
        kind=SUMMARY,
        severity=SEVERITIES[0],
        began=began,
        state="OVER",
        title=f"{counted(len(missed), 'incident')} opened and ended since {shown(began)}",
        text="\n".join([*lines, *([f"and {left:,} more"] if left > 0 else [])]),
        ended=seen.at,
        end_reason=SUMMARY,
    )
    return Message(
        Action.SUMMARY,
        key,
        alert,
        {each.key: Sent(each, opens[each.key], is_open=False, at=seen.at) for each in missed},
        over=missed,
        unsure=unsure,
    )


def _digest(*of: str) -> str:
    return sha256("\n".join(of).encode()).hexdigest()[:12]
