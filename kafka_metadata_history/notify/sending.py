"""The sender of a lake: it looks, and every target gets what is due."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

from jobs.configuration.config import ConfigError
from kafka_metadata_history.notify.delivery import DEADLINE_S, Delivery
from kafka_metadata_history.notify.due import Seen
from kafka_metadata_history.notify.heartbeat import Beats
from kafka_metadata_history.notify.http import secret_of
from kafka_metadata_history.notify.looking import Looking
from kafka_metadata_history.notify.receivers import RECEIVERS
from kafka_metadata_history.notify.state import State, StateError, only_sender

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from jobs.configuration.config import Config

PAUSE_S: Final = 1.0
"""Between two looks at the lake."""


class Sender:
    """Looks at a lake and hands over what it sees, to all targets."""

    def __init__(self, config: Config, state: State, say: Callable[[str], None]) -> None:
        """Raise ConfigError without targets, OptionsError for a secret that is not there."""
        of = config.notify
        if not of.targets:
            raise ConfigError("notify.targets is missing: docs/notify.md says who can get messages")
        self._say, self._every = say, of.heartbeat
        self.deliveries = []
        for name, target in of.targets.items():
            for given in filter(None, (target.url, target.routing_key)):
                secret_of(f"notify.targets.{name}.{target.to}", given)
            receiver = RECEIVERS[target.to](name, target)
            self.deliveries.append(
                Delivery(name, target, receiver, of.silences, state=state, say=say)
            )
        self._looking = Looking(config, state, say)
        self._known_at: float | None = None
        self._said: set[str] = set()
        self._beats = Beats(of.heartbeat, self.is_well, say) if of.heartbeat else None

    def is_well(self) -> bool:
        """Whether the lake was read of late, and all messages have arrived."""
        if self._known_at is None or self._every is None:
            return False
        age = time.monotonic() - self._known_at
        return age < self._every.every.total_seconds() + DEADLINE_S and all(
            each.is_well for each in self.deliveries
        )

    def look(self) -> Seen:
        """Look once. If it cannot be kept what was seen, nothing is known."""
        now = datetime.now(UTC)
        try:
            seen = self._looking.look(now)
        except StateError as error:
            self._say_once(str(error))
            seen = Seen(now, [], is_known=False)
        self._known_at = time.monotonic() if seen.is_known else None
        return seen

    def once(self) -> bool:
        """Look and send once; return whether all has arrived."""
        seen = self.look()
        threads = [_started(partial(each.deliver, seen)) for each in self.deliveries]
        until = time.monotonic() + DEADLINE_S
        for each, thread in zip(self.deliveries, threads, strict=True):
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self._say(f"{each.name}: it hangs for {DEADLINE_S:.0f} s")
        is_well = seen.is_known and all(each.is_well for each in self.deliveries)
        if is_well and self._beats is not None:
            self._beats.beat()
        return is_well

    def go_on(self) -> NoReturn:
        """Look and send until the process ends."""
        for each in self.deliveries:
            _started(each.run)
        if self._beats is not None:
            _started(self._beats.run)
        while True:
            seen = self.look()
            for delivery in self.deliveries:
                delivery.offer(seen)
            for delivery in self.deliveries:
                if delivery.hangs_s is not None:
                    self._say_once(f"{delivery.name}: it hangs for more than {DEADLINE_S:.0f} s")
            time.sleep(PAUSE_S)

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._say(line)
            self._said.add(line)


def _started(work: Callable[[], None]) -> Thread:
    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread


@contextmanager
def sender(config: Config, say: Callable[[str], None]) -> Iterator[Sender]:
    """Yield the one sender of a lake. Raises StateError if there is one already."""
    folder = Path(config.notify_folder)
    with only_sender(folder), closing(State(folder)) as state:
        yield Sender(config, state, say)
