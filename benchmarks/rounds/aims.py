"""The names that are measured, and the aim of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True)
class Aim:
    """One name: what it says, in which unit, and from where to where it is good."""

    name: str
    unit: str
    relation: Literal["<=", ">="]
    wanted: float
    says: str

    def is_met(self, value: float) -> bool:
        """Return whether a measured value is as good as wanted, or better."""
        return value <= self.wanted if self.relation == "<=" else value >= self.wanted


AIMS: Final = (
    Aim("quiet_s", "s", "<=", 1,
        "a round in which nothing changed: a cluster of 300 partitions, five polls, warm session"),
    Aim("news_s", "s", "<=", 6,
        "a round with a hundred changes in that cluster: a broker goes, or comes back"),
    Aim("news_busy_s", "s", "<=", 12,
        "such a round beside poller and brokers, with groups, their log and enrichments"),
    Aim("once_cold_s", "s", "<=", 40,
        "`pipeline.py --once` from a cold JVM, a broker having stopped or started before"),
    Aim("freshness_quiet_s", "s", "<=", 6,
        "from the answer that showed the only leader change of a while to its commit in gold: "
        "median"),
    Aim("freshness_p50_s", "s", "<=", 8, "the same under faults: median"),
    Aim("freshness_p90_s", "s", "<=", 14, "the same under faults: nine of ten"),
    Aim("polls_on_time", "", ">=", 0.99,
        "share of polls sent within 0.5 s of their due time, history being made, under faults"),
    Aim("polls_on_time_busy", "", ">=", 0.95,
        "the same beside a process that takes all of one processor"),
    Aim("polls_on_time_offsets", "", ">=", 0.95,
        "the same while the offsets of 100,000 partitions are asked: of polls due meanwhile"),
    Aim("first_poll_s", "s", "<=", 5,
        "from the start of `kafka-metadata-history run` to its first poll"),
    Aim("many_quiet_s", "s", "<=", 3,
        "a round in which nothing changed in 100 clusters x 1,000 partitions"),
    Aim("many_news_s", "s", "<=", 15, "a round with ten changes in each of these clusters"),
    Aim("large_s", "s", "<=", 60,
        "a round with 100,000 changes in one cluster of 1,000,000 partitions: a broker goes, or "
        "comes back"),
    Aim("large_few_s", "s", "<=", 9, "a round with ten changes in that cluster"),
    Aim("large_mb", "MB", "<=", 4_096,
        "memory of driver and workers together, at most, in those rounds"),
    Aim("lag_quiet_s", "s", "<=", 1.5,
        "a round of lag in which none of 50 groups of six partitions has committed"),
    Aim("lag_news_s", "s", "<=", 4, "such a round in which all have"),
    Aim("growth", "x", "<=", 1.2,
        "a round with a hundred changes after 1,000,000 stored changes to one after 10,000"),
    Aim("idle_cores", "cores", "<=", 0.08,
        "processor time by wall clock while nothing happens, polls each 30 s, groups and offsets "
        "asked, three minutes"),
    Aim("rest_mb", "MB", "<=", 1_500, "memory of all processes then"),
    Aim("demo_s", "s", "<=", 150, "`make demo`, its set-up done before"),
    Aim("test_s", "s", "<=", 720, "`make test`"),
)  # fmt: skip
BY_NAME: Final = {aim.name: aim for aim in AIMS}
ONLY_IF_ALL: Final = ("demo_s", "test_s")
"""Measured when they are asked for."""
