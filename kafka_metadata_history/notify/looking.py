"""The state of now, read from the newest version of a lake."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from jobs.configuration.notify import LAKE_UNREADABLE
from jobs.configuration.severities import NOTHING_RECORDED
from kafka_metadata_history.answers.incidents.listing import Listing, not_made, silent
from kafka_metadata_history.answers.incidents.read import (
    read_newest,
    read_recorded,
    read_windows,
)
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.live import LiveLake
from kafka_metadata_history.notify.alert import Alert, of_incident, of_lake, of_silent
from kafka_metadata_history.notify.due import Seen
from kafka_metadata_history.notify.state import State, StateError
from kafka_metadata_history.notify.wanted import Window
from schemas.lake import LakeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from jobs.configuration.config import Config
    from kafka_metadata_history.answers.incidents.records import Recorded

OVERLAP: Final = timedelta(hours=1)
"""A round may be committed so long after its events were known."""
LONGEST: Final = timedelta(days=7)
"""Who was gone for longer gets no summary of the time before."""


class Looking:
    """Looks at a lake again and again. What it read is kept as long as the lake is the same."""

    def __init__(self, config: Config, state: State, say: Callable[[str], None]) -> None:
        """Raise LakeError for a lake that only Spark reads."""
        self._config, self._state, self._say = config, state, say
        self._targets = [*config.notify.targets]
        self._live = LiveLake(config.lake)
        self._version = ""
        self._problem = ""
        self._incidents: Sequence[Alert] = ()
        self._recorded: Sequence[Recorded] = ()
        self._windows: Sequence[Window] = ()

    def look(self, now: datetime) -> Seen:
        """Return what is so now. If the lake cannot be read, that is all that is known, once it
        lasts as long as a cluster's silence may.
        """
        try:
            self._read(now)
        except (LakeError, QueryError, OSError) as error:
            return self._unreadable(str(error), now)
        except StateError:
            raise
        except Exception as error:  # noqa: BLE001 - files of a lake may go while they are read
            return self._unreadable(f"{type(error).__name__}: {error}", now)
        self._state.trouble(LAKE_UNREADABLE, now, lasts=False)
        return Seen(now, [*self._silent(now), *self._incidents], windows=self._windows)

    def _unreadable(self, problem: str, now: datetime) -> Seen:
        self._version = ""
        since = self._state.trouble(LAKE_UNREADABLE, now, lasts=True)
        if problem != self._problem:
            self._say(f"{problem}; waiting for it")
        self._problem = problem
        after = self._silent_after
        is_long = after is not None and now - since > after
        return Seen(now, [of_lake(problem, since)] if is_long else [], is_known=False)

    @property
    def _silent_after(self) -> timedelta | None:
        return self._config.severities[NOTHING_RECORDED].page

    def _read(self, now: datetime) -> None:
        newest = self._live.now()
        if newest.name == self._version:
            return
        recorded = read_recorded(newest.ask, None)
        since = max((self._state.done(self._targets) or now) - OVERLAP, now - LONGEST)
        known = [self._state.sent(each) for each in self._targets]
        open_ones = {key for of in known for key, each in of.items() if each.is_open}
        found = read_newest(newest.ask, since, sorted(open_ones))
        windows = read_windows(newest.ask, since)
        if (lines := [*not_made(recorded)]) != [*not_made(self._recorded)]:
            self._say("; ".join(lines) or "incidents of all clusters are made")
        self._incidents = [of_incident(each, self._config.notify.pages) for each in found]
        self._windows = [Window(**each) for each in windows]
        self._recorded, self._version, self._problem = recorded, newest.name, ""

    def _silent(self, now: datetime) -> list[Alert]:
        """Return the clusters of which nothing is recorded. One that never was may begin late."""
        after = self._silent_after
        expected = [*self._config.clusters]
        found = dict(silent(Listing(self._recorded, [], [], expected, after), now))
        never = {name: name in found and found[name] is None for name in expected}
        began = {
            name: self._state.trouble(f"{NOTHING_RECORDED}-{name}", now, lasts=lasts)
            for name, lasts in never.items()
        }
        return [
            of_silent(name, until, began[name])
            for name, until in found.items()
            if until is not None or (after is not None and now - began[name] > after)
        ]
