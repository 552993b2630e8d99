"""Groups of a cluster that is large and far away, and their offsets: 50 brokers at a round trip of
40 ms, asked within the time that `enrichTimeout` gives them unless told. Each of 200 groups has
committed the offsets of 100 partitions.

``python -m benchmarks.groups [--quick]``. The brokers are made up and in a process of their own
(`benchmarks.far_cluster`); bytes, connections, TLS and SCRAM are real. The first asking of a poller
makes the connections, later ones find them kept. Processor time is that of the poller's process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from contextlib import closing
from itertools import product
from typing import Final, NamedTuple

from benchmarks.aims import aim
from benchmarks.far_cluster import far_process
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.references import FOLDERS

BROKERS: Final = 50
GROUPS_A_BROKER: Final = 4
PARTITIONS: Final = 100
WHOLE: Final = {
    "groups": BROKERS * GROUPS_A_BROKER,
    "offsets": BROKERS * GROUPS_A_BROKER * PARTITIONS,
}
"""Question -> of how many groups, or commits, the whole answer is."""
ROUND_TRIP_S: Final = 0.04
BUDGET_S: Final = {"groups": 2.5, "offsets": 5.0}
"""Half of what `enrichTimeout` gives groups, and all that it gives offsets."""
LATER: Final = 4


class Asked(NamedTuple):
    """The time and processor time of one asking, s, and whether all groups were described."""

    seconds: float
    processor: float
    is_whole: bool


def main() -> None:
    """Print the table, then the aims and what was reached."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    runs = 2 if parser.parse_args().quick else 10
    os.environ[FOLDERS] = tempfile.gettempdir()  # the brokers' process writes its password there
    print(
        f"{BROKERS} brokers, {ROUND_TRIP_S * 1000:.0f} ms round trip, s {'best':>32} {'median':>8} "
        f"{'worst':>8} {'processor':>10} {'whole':>8}"
    )
    aims = []
    for kind, is_secured in product(WHOLE, (False, True)):
        security = f"{kind}, {'SASL_SSL, SCRAM' if is_secured else 'PLAINTEXT'}"
        with far_process(BROKERS, round_trip_s=ROUND_TRIP_S, is_secured=is_secured) as options:
            askings = [asked(options, kind) for _ in range(runs)]
        first, later = [each[0] for each in askings], [one for each in askings for one in each[1:]]
        for what, times in (("connections to be made", first), ("connections kept", later)):
            seconds = [each.seconds for each in times]
            median, processor = (
                statistics.median(seconds),
                statistics.median(each.processor for each in times),
            )
            print(
                f"{f'{security}, {what}':<57} {min(seconds):>8.2f} {median:>8.2f} "
                f"{max(seconds):>8.2f} {processor:>10.2f} "
                f"{sum(each.is_whole for each in times):>5}/{len(times)}",
                flush=True,
            )
            aims.append(
                aim(f"{security}, {what}, the worst", max(seconds), "<=", BUDGET_S[kind], " s")
            )
            if not all(each.is_whole for each in times):
                aims.append(f"aim MISSED: every answer is whole ({security}, {what})")
    print("\n".join(aims))


def asked(given: dict[str, str], kind: str) -> list[Asked]:
    """Return what the askings of one poller take, the first of which makes the connections."""
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
            took, processed = time.monotonic() - begin, time.process_time() - processor
            listed = sum(map(len, answer.rows.values)) if answer.rows else 0
            is_whole = answer.outcome == "ok" and listed == WHOLE[kind]
            times.append(Asked(took, processed, is_whole))
    return times


if __name__ == "__main__":
    main()
