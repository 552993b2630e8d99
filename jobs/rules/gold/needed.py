"""Which live rows of gold a fold has to see, of the many that there are while a broker is out."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.gold.isr_shrink import ISR_CHANGES, ISR_EPISODES


def needed(live: Mapping[str, pa.Table], topics: pa.Array) -> dict[str, pa.Table]:
    """Live rows by table, without those that `isr_shrink.fold` passes over. `topics`: all with news or context."""
    found = dict(live)
    if ISR_EPISODES in live:
        found[ISR_EPISODES] = live[ISR_EPISODES].filter(pc.is_in(live[ISR_EPISODES]["topic"], topics))
    if ISR_CHANGES in live:
        rows = live[ISR_CHANGES]
        is_open = pc.or_(pc.is_null(rows["cause"]), pc.is_valid(rows["ended_poll"]))
        found[ISR_CHANGES] = rows.filter(pc.or_(is_open, pc.is_in(rows["topic"], topics)))
    return found
