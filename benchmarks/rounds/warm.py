"""Rounds in a warm session, in lakes of made-up clusters: one of hundreds of partitions, many, a
large one, and one with a past.
"""

from __future__ import annotations

import statistics
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.processes import Watch
from benchmarks.product import session
from benchmarks.results import Measured, Results, median
from benchmarks.rounds.lakes import (
    WARM_UP,
    MadeUpLake,
    broker_goes_or_comes,
    made_up,
    nothing,
    some_change,
)
from benchmarks.rounds.made_up import MadeUpPoller

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say

SHORT, LONG = timedelta(seconds=2), timedelta(seconds=30)
"""Intervals of polls, of five a batch and of one."""
POLLS_A_BATCH: Final = 5
BROKER: Final = 4
STORED: Final = 10_000
PAST: Final = 100
"""How many times as many changes the lake with a past has."""
CHANGES: Final = 100


def small(folder: Path, say: Say, runs: int) -> Results:
    """Measure quiet_s and news_s: 300 partitions on nine brokers, of which each has a hundred."""
    poller = MadeUpPoller(
        made_up(["small"], topics=10, partitions=30, brokers=9), SHORT, POLLS_A_BATCH
    )
    lake = MadeUpLake(session(), folder, poller)
    say(f"history of the first batch, in which all is new, took {lake.fill():.1f} s")
    quiet = lake.rounds(nothing, runs)
    say(f"quiet: {quiet}")
    news = lake.rounds(broker_goes_or_comes(BROKER, place=2), runs)
    lake.check()
    return {"quiet_s": median(quiet), "news_s": median(news)}


def many(folder: Path, say: Say, runs: int) -> Results:
    """Measure many_quiet_s and many_news_s: a hundred clusters of 1,000 partitions."""
    aliases = [f"cluster-{number:03d}" for number in range(100)]
    lake = MadeUpLake(
        session(),
        folder,
        MadeUpPoller(made_up(aliases, topics=20, partitions=50, brokers=6), LONG, 1),
    )
    say(f"history of the first batch, in which all is new, took {lake.fill():.1f} s")
    quiet = lake.rounds(nothing, runs)
    say(f"quiet: {quiet}")
    news = lake.rounds(some_change(10), runs)
    lake.check()
    return {"many_quiet_s": median(quiet), "many_news_s": median(news)}


def large(folder: Path, say: Say, runs: int) -> Results:
    """Measure large_s, large_few_s and large_mb: a million partitions on thirty brokers."""
    lake = MadeUpLake(
        session(),
        folder,
        MadeUpPoller(made_up(["large"], topics=10_000, partitions=100, brokers=30), LONG, 1),
    )
    this = psutil.Process()
    with Watch(lambda: [this, *this.children(recursive=True)]) as watch:
        say(f"history of the first batch, in which all is new, took {lake.fill():.1f} s")
        few = lake.rounds(some_change(10), runs)
        say(f"ten changes: {few}")
        of_broker = lake.rounds(broker_goes_or_comes(BROKER, place=0), runs)
    lake.check()
    return {
        "large_s": median(of_broker),
        "large_few_s": median(few),
        "large_mb": median([watch.memory["all"].all]),
    }


def growth(folder: Path, say: Say, runs: int) -> Results:
    """Measure growth: the same changes in lakes with 10,000 and 1,000,000 stored changes."""
    # The first poll shows no change: nothing is known before it.
    poller = MadeUpPoller(
        made_up(["long"], topics=10, partitions=30, brokers=9), LONG, 1 + STORED // CHANGES
    )
    of_short = MadeUpLake(session(), folder / "short", poller)
    took = of_short.fill(
        lambda cluster, place: (cluster.stop if place % 2 else cluster.start)(BROKER)
    )
    say(f"history of {STORED:,} changes took {took:.1f} s")
    of_long = of_short.with_a_past(folder / "long", PAST - 1, span=LONG * STORED)
    say(f"{STORED * PAST:,} changes are stored")
    poller.polls = 1
    seconds: dict[MadeUpLake, list[float]] = {of_short: [], of_long: []}
    for run in range(WARM_UP + runs):
        rows = poller.batch(broker_goes_or_comes(BROKER, place=0)(run))
        for lake in sorted(seconds, key=lambda each: each is of_long, reverse=bool(run % 2)):
            seconds[lake].append(lake.round_of(rows))
    of_short.check()
    after_short, after_long = (taken[WARM_UP:] for taken in seconds.values())
    say(f"after {STORED:,}: {after_short}; after {STORED * PAST:,}: {after_long}")
    ratios = tuple(long / short for short, long in zip(after_short, after_long, strict=True))
    return {
        "growth": Measured(statistics.median(after_long) / statistics.median(after_short), ratios)
    }
