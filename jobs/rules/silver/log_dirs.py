"""Brokers that do not answer for their log directories: a change that a later answer shows may have
happened since the last answer of that broker, whatever others answered meanwhile.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from jobs.rules.silver.state import Poll

Silent = Mapping[int, Poll | None]
"""Brokers that did not answer, each with its last answer before; None: it has given none."""


def silent_after(rows: Iterable[Mapping[str, Any]], silent: Silent, before: Poll | None) -> Silent:
    """The brokers that are silent after an answer. `rows`: of bronze, all of it; `silent`: as of
    the answer before, which was `before`.
    """
    last = before and Poll(before.id, before.at, before.sent_at, before.interval_ms)
    return {
        row["broker_id"]: silent.get(row["broker_id"], last)
        for row in rows
        if row["log_dirs"] is None
    }
