"""The clusters of a lake of a year, and what happens to them: a restart a week, five incidents a
month.

Times are numbers of polls since the beginning; there is one each INTERVAL_S seconds.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_S: Final = 30
DAY: Final = 86_400 // INTERVAL_S
WEEK: Final = 7 * DAY
RACKS: Final = 3
PARTITIONS: Final = 10
"""Of a topic."""
OFFSETS: Final = 50
"""Partitions of __consumer_offsets."""
RESTART, BACK, PREFERRED, NEXT = 0, 4, 10, 12
"""In polls: a broker stops, is in its ISRs again, leads again; the next one stops."""
DOWN: Final = 40
"""Polls for which a broker that fails is down."""
KINDS: Final = ("broker_down", "offline", "under_min_isr", "stale", "stuck")
"""Of incidents, in turn."""


@dataclass(frozen=True)
class Outage:
    """A broker is out of its ISRs from one poll to another, and leads again by a third."""

    broker: int
    since: int
    until: int
    preferred: int


@dataclass(frozen=True)
class Placed:
    """Where partitions that live alike lie, and their min.insync.replicas."""

    replicas: tuple[int, ...]
    min_isr: int


@dataclass(frozen=True)
class Cluster:
    """One cluster. `number`: its place; `stale`, `stuck`: (broker or group, since, until)."""

    number: int
    topics: int
    brokers: int
    weeks: int
    groups: int
    outages: list[Outage] = field(default_factory=list)
    stale: list[tuple[int, int, int]] = field(default_factory=list)
    stuck: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The alias."""
        return f"cluster-{self.number:02}"

    def placed(self, topic: int, partition: int) -> Placed:
        """Where a partition lies. Of a hundred topics one has a single replica, one lies in a
        single rack, and one needs all of its replicas.
        """
        first, of = topic + partition, topic % 100
        step, count = (RACKS if of == 13 else 1), (1 if of == 7 else 3)
        replicas = tuple((first + step * n) % self.brokers for n in range(count))
        return Placed(replicas, 3 if of == 21 else 2 if count == 3 and topic % 4 == 0 else 1)

    def partitions(self) -> Iterator[tuple[str, int, Placed]]:
        """Yield topic, partition and where that lies."""
        for topic in range(self.topics):
            for partition in range(PARTITIONS):
                yield f"topic-{topic:05}", partition, self.placed(topic, partition)
        for partition in range(OFFSETS):
            yield "__consumer_offsets", partition, self.placed(0, partition)


def clusters(small: int, weeks: int, groups: int, topics: int, large_topics: int) -> list[Cluster]:
    """Make `small` clusters of so many topics, and a large one, with what happens to each."""
    sizes = [(topics, 9)] * small + [(large_topics, 30)]
    found = [Cluster(number, *size, weeks, groups) for number, size in enumerate(sizes)]
    for each in found:
        _restart(each)
        _fail(each, random.Random(each.number))
        each.outages.sort(key=lambda outage: outage.since)
    return found


def _restart(of: Cluster) -> None:
    """Restart all brokers, one after the other, on one day of each week, from 02:00 on."""
    for week in range(of.weeks):
        begin = week * WEEK + of.number % 7 * DAY + DAY // 12
        for broker in range(of.brokers):
            since = begin + broker * NEXT
            of.outages.append(Outage(broker, since + RESTART, since + BACK, since + PREFERRED))


def _fail(of: Cluster, chance: random.Random) -> None:
    """Let something fail each six days, in the second half of a day: no restart is then."""
    for number in range(of.weeks * 7 // 6):
        since = number * 6 * DAY + DAY // 2 + chance.randrange(DAY // 3)
        first, kind = chance.randrange(of.brokers), KINDS[number % len(KINDS)]
        if kind == "stale":
            of.stale.append((first, since, since + DOWN))
        elif kind == "stuck":
            of.stuck.append((chance.randrange(of.groups), since, since + DAY // 12))
        else:
            lost = {"broker_down": (0,), "under_min_isr": (0, 1), "offline": (0, RACKS, 2 * RACKS)}[
                kind
            ]
            for place, step in enumerate(lost):
                out = since + place, since + DOWN + place
                of.outages.append(Outage((first + step) % of.brokers, *out, since + DOWN + 10))
