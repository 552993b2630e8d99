"""Groups of a cluster that is large and far away, and their offsets: 50 brokers at a round trip of
40 ms, asked within the time that `enrichTimeout` gives them unless told. Each of 200 groups has
committed the offsets of 100 partitions.

The brokers are made up and in a process of their own (`benchmarks.far_cluster`); bytes,
connections, TLS and SCRAM are real. The first asking of a poller makes the connections, later ones
find them kept. Processor time is that of the poller's process.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.far_cluster import far_process
from benchmarks.results import Measured, Results
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.references import FOLDERS

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say

BROKERS: Final = 50
GROUPS_A_BROKER: Final = 4
PARTITIONS: Final = 100
WHOLE: Final = {
    "groups": BROKERS * GROUPS_A_BROKER,
    "offsets": BROKERS * GROUPS_A_BROKER * PARTITIONS,
}
"""Question -> of how many groups, or commits, the whole answer is."""
ROUND_TRIP_S: Final = 0.04
LATER: Final = 4


class Asked(NamedTuple):
    """The time and processor time of one asking, s."""

    seconds: float
    processor: float


def asked(_folder: Path, say: Say, runs: int) -> Results:
    """Measure groups_s and offsets_s: the worst of all ways to ask."""
    os.environ[FOLDERS] = tempfile.gettempdir()  # the brokers' process writes its password there
    seconds: dict[str, list[float]] = {kind: [] for kind in WHOLE}
    for kind, is_secured in product(WHOLE, (False, True)):
        security = f"{kind}, {'SASL_SSL with SCRAM' if is_secured else 'PLAINTEXT'}"
        with far_process(BROKERS, round_trip_s=ROUND_TRIP_S, is_secured=is_secured) as options:
            askings = [_askings(options, kind) for _ in range(2 * runs)]
        first, later = [each[0] for each in askings], [one for each in askings for one in each[1:]]
        for what, times in (("connections to be made", first), ("connections kept", later)):
            took = [each.seconds for each in times]
            processor = statistics.median(each.processor for each in times)
            say(
                f"{security}, {what}: median {statistics.median(took):.2f} s, "
                f"worst {max(took):.2f} s, {processor:.2f} s of processor"
            )
            seconds[kind] += took
    return {f"{kind}_s": Measured(max(took), tuple(took)) for kind, took in seconds.items()}


def _askings(given: dict[str, str], kind: str) -> list[Asked]:
    """Return what the askings of one poller take, the first of which makes the connections.

    Raises RuntimeError unless each answer is whole.
    """
    options = parse(given | {"enrich": kind})
    times = []
    with (
        Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller,
        closing(poller.asking(options.polling["default"].enrich_timeout_ms)) as asking,
    ):
        for _ in range(1 + LATER):
            poll = poller.poll()
            if poll.metadata is None:
                raise RuntimeError(poll.error)
            about = subject((kind,), poll.metadata)
            begin, processor = time.monotonic(), time.process_time()
            (answer,) = asking.answers(about, poller.answerer)
            times.append(Asked(time.monotonic() - begin, time.process_time() - processor))
            listed = sum(map(len, answer.rows.values)) if answer.rows else 0
            if answer.outcome != "ok" or listed != WHOLE[kind]:
                raise RuntimeError(f"{kind}: {answer.outcome}, {listed} of {WHOLE[kind]}")
    return times
