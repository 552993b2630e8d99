"""A sign of life for a dead man's switch: it stops if messages would not arrive."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka_metadata_history.notify.http import SendError, address_of, ask
from metadata_source.errors import OptionsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.configuration.notify import Heartbeat


class Beats:
    """Gets a URL at each interval at which all is well."""

    def __init__(
        self,
        heartbeat: Heartbeat,
        is_well: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._heartbeat, self._is_well, self._say = heartbeat, is_well, say
        self._problem: str | None = None

    def run(self) -> None:
        """Beat until the process ends."""
        while True:
            time.sleep(self._heartbeat.every.total_seconds())
            self.beat()

    def beat(self) -> bool:
        """Get the URL if all is well; return whether it was got. It raises nothing."""
        if not self._is_well():
            return False
        problem = None
        try:
            ask(address_of("notify.heartbeat.url", self._heartbeat.url))
        except (SendError, OptionsError) as error:
            problem = error.problem if isinstance(error, OptionsError) else str(error)
        if problem is not None and problem != self._problem:
            self._say(f"heartbeat: {problem}")
        self._problem = problem
        return problem is None
