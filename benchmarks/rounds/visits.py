"""Rounds of lag in a warm session: groups of a made-up cluster, all of which commit, or none."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from benchmarks.product import ProductError, append_polls, configured, round_once, session
from benchmarks.results import Results, median
from jobs.histories.lag import GroupLag
from jobs.rules.groups.burrow import WINDOW
from metadata_source.columns.polls import POLLS
from metadata_source.schedule import mint_stream, poll_id
from schemas.consumption import GROUP_LAG
from schemas.in_spark import ensure_lake

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say

GROUPS: Final = 50
PARTITIONS: Final = 6
INTERVAL: Final = timedelta(minutes=1)
TOOK: Final = timedelta(milliseconds=500)
BEGAN: Final = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=6)
STREAM: Final = mint_stream(BEGAN)
WARM_UP: Final = WINDOW + 2
"""Visits, after which the rules remember a whole window of them."""


def lag(folder: Path, say: Say, runs: int) -> Results:
    """Measure lag_quiet_s and lag_news_s.

    Raises ProductError unless gold has the last commit of each group.
    """
    spark = session()
    config = configured(folder, ["local"], poll={"pollInterval": "1m", "enrich": "offsets"})
    ensure_lake(spark, config.lake)
    number, committed, seconds = 0, 0, {}
    for name, records in (("lag_quiet_s", 0), ("lag_news_s", 100)):
        taken = []
        for _ in range(WARM_UP + runs):
            number, committed = number + 1, committed + records
            append_polls(spark, config, _visit(number, committed))
            start = time.perf_counter()
            round_once(spark, config, GroupLag)
            taken.append(time.perf_counter() - start)
        seconds[name] = taken[WARM_UP:]
        say(f"{name}: {seconds[name]}")
    lags = config.lake.read(spark, GROUP_LAG).where("valid_to IS NULL")
    found = lags.where(f"first_poll = '{poll_id(STREAM, number)}'").count()
    if found != GROUPS:
        raise ProductError(
            f"{GROUP_LAG.full_name} shows the last visit of {found} groups, of {GROUPS} there are"
        )
    return {name: median(taken) for name, taken in seconds.items()}


def _visit(number: int, committed: int) -> pa.Table:
    """The rows of a poll that asked each group, all of whose partitions are at one offset."""
    due = BEGAN + number * INTERVAL
    key = {
        "poll_id": poll_id(STREAM, number),
        "stream": STREAM,
        "n": number,
        "cluster": "local",
        "chunk": 0,
    }
    key |= {"day": BEGAN.date()}
    key |= {"cluster_id": "id-local"}
    header = key | {
        "record": "poll",
        "outcome": "ok",
        "scheduled_at": due,
        "sent_at": due,
        "received_at": due + TOOK,
    }
    answer = key | {"record": "answer", "kind": "offsets", "outcome": "ok", "scheduled_at": due}
    answer |= {"asked_at": due + TOOK, "answered_at": due + 2 * TOOK}
    read: dict[str, Any] = {
        "commit_read_before": due + 2 * TOOK,
        "is_simple": False,
        "topic": "topic",
    }
    told = [
        read
        | {
            "group_id": f"group-{group}",
            "partition": n,
            "committed_offset": committed,
            "log_end": committed + n,
        }
        for group in range(GROUPS)
        for n in range(PARTITIONS)
    ]
    return pa.Table.from_pylist(
        [header, answer, key | {"record": "offsets", "offsets": told}], POLLS
    )
