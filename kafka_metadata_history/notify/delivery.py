"""One target gets its messages: again until they arrive, the newest state of each alert alone."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Condition
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.notify.due import Action, Seen, Sent, due
from kafka_metadata_history.notify.http import SendError
from kafka_metadata_history.notify.state import StateError
from metadata_source.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobs.configuration.notify import Silence, Target
    from kafka_metadata_history.notify.receivers import Receiver
    from kafka_metadata_history.notify.state import State

DEADLINE_S: Final = 60.0
"""A target that has one message for so long hangs."""
LONGEST_PAUSE_S: Final = 60.0
_ADVANCE: Final = timedelta(minutes=1)


class Delivery:
    """Sends what is due to one target, in a thread of its own. That a message may arrive is noted
    before it is sent, that it has arrived after that: in between it is sent again, with its key.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        receiver: Receiver,
        silences: Sequence[Silence],
        *,
        state: State,
        say: Callable[[str], None],
    ) -> None:
        """Raise StateError if it is not known what was sent."""
        self.name = name
        self._target, self._receiver, self._silences = target, receiver, silences
        self._state, self._say = state, say
        self._since = state.since(name, datetime.now(UTC))
        self._sent = state.sent(name)
        self._unrecorded: dict[str, Sent] = {}
        self._offered: Seen | None = None
        self._is_offered = Condition()
        self._not_before = 0.0
        self._failures = 0
        self._busy_since: float | None = None
        self._kept_at: datetime | None = None
        self._advanced_at = self._since
        self._problem: str | None = None
        self._has_sent = False

    @property
    def hangs_s(self) -> float | None:
        """For how long one message takes, in seconds, if that is too long; else None."""
        busy = self._busy_since
        lasts = 0.0 if busy is None else time.monotonic() - busy
        return lasts if lasts > DEADLINE_S else None

    @property
    def is_well(self) -> bool:
        """Whether all that was due has arrived, at least once since the start."""
        return self._has_sent and self._problem is None and self.hangs_s is None

    def offer(self, seen: Seen) -> None:
        """Give it what is so now. What it had no time for is replaced."""
        with self._is_offered:
            self._offered = seen
            self._is_offered.notify()

    def run(self) -> None:
        """Deliver what is offered, until the process ends."""
        while True:
            with self._is_offered:
                while self._offered is None:
                    self._is_offered.wait()
                seen, self._offered = self._offered, None
            if time.monotonic() >= self._not_before:
                self.deliver(seen)

    def deliver(self, seen: Seen) -> None:
        """Send what is due, and remember what fails. It raises nothing."""
        try:
            self._deliver(seen)
        except (SendError, OptionsError, StateError) as error:
            self._has_failed(error)
        except Exception as error:  # noqa: BLE001 - a thread that ended would be silence
            self._has_failed(SendError(f"this program stumbled over it ({type(error).__name__})"))
        else:
            if self._problem is not None:
                self._say(f"{self.name}: messages arrive again")
            self._failures, self._problem, self._has_sent = 0, None, True
        finally:
            self._busy_since = None

    def _deliver(self, seen: Seen) -> None:
        self._record({})
        refused: SendError | None = None
        for message in due(seen, self._sent, self._target, self._silences, self._since):
            # What ends is sent also if that cannot be kept: nobody is woken by it.
            with suppress(*([] if message.action is Action.OPENED else [StateError])):
                self._record(message.may_become)
            self._busy_since = time.monotonic()
            try:
                self._receiver.send(message, datetime.now(UTC))
            except SendError as error:
                if not error.is_refused:
                    raise
                refused = refused or error
            else:
                self._record(message.becomes)
        self._keep()
        if refused is not None:
            raise refused
        if seen.is_known and seen.at - self._advanced_at >= _ADVANCE:
            self._state.advance(self.name, seen.at)
            self._advanced_at, self._sent = seen.at, self._state.sent(self.name)

    def _record(self, sent: Mapping[str, Sent]) -> None:
        """Remember what was sent, also if the disk is full: it is written once that is over."""
        self._sent.update(sent)
        self._unrecorded.update(sent)
        if self._unrecorded:
            self._state.record(self.name, self._unrecorded)
            self._unrecorded = {}

    def _keep(self) -> None:
        """Send again what is open, where the receiver needs that."""
        now, again = datetime.now(UTC), self._receiver.again
        if again is None or (self._kept_at is not None and now - self._kept_at < again):
            return
        if lasting := [each.alert for each in self._sent.values() if each.is_open and each.is_sure]:
            self._busy_since = time.monotonic()
            self._receiver.keep(lasting, now)
        self._kept_at = now

    def _has_failed(self, error: SendError | OptionsError | StateError) -> None:
        problem = error.problem if isinstance(error, OptionsError) else str(error)
        if problem != self._problem:
            self._say(f"{self.name}: {problem}; trying again")
        self._problem = problem
        self._failures += 1
        asked = error.wait_s if isinstance(error, SendError) else None
        pause = min(LONGEST_PAUSE_S, 2.0 ** min(self._failures, 10)) if asked is None else asked
        self._not_before = time.monotonic() + pause
