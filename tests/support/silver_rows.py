"""Rows of silver of a cluster that lives a random life, made without any of the rules that make
them in earnest.

A world of a few partitions is changed at random and looked at poll by poll; `Line` keeps what was
seen as intervals.
"""

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas import silver
from schemas.table import Table

Row = dict[str, Any]
START = datetime(2026, 11, 1, tzinfo=UTC)
CLUSTER = {"cluster_id": "id-prod", "cluster": "prod"}
BROKERS = range(4)
NO_LEADER, LISTENER_NOT_FOUND, LEADER_NOT_AVAILABLE = -1, 72, 5

PARTITIONS = "silver.partition_snapshots"
CLUSTERS = "silver.cluster_snapshots"
OF_KAFKA: Row = {"kind": "kafka", "not_meaningful": [], "metadata_version_highest": None}
"""The columns of a cluster that is one of Kafka's."""
LISTED_BROKERS = "silver.broker_snapshots"
CONFIGS = "silver.topic_configs"
REASSIGNMENTS = "silver.reassignments"
ELR = "silver.partition_elr"
TABLES = {table.full_name: table for table in silver.TABLES}


@dataclass(frozen=True)
class Poll:
    """An accepted poll: its id, when it was answered and when it was sent (both non-decreasing),
    the planned interval.
    """

    poll_id: str
    at: datetime
    sent_at: datetime
    interval_ms: int


@dataclass(frozen=True)
class History:
    """Rows of silver by the table's full name, whole, and the polls that they come from."""

    rows: dict[str, list[Row]]
    polls: list[Poll]


class Line:
    """One table's rows: each distinct state of each thing, from the first poll that showed it to
    the first that did not.
    """

    def __init__(self, table: Table) -> None:
        names = [column.name for column in table.columns]
        self.state = [name for name in names if f"prev_{name}" in names]
        self.key = [name for name in table.key if name not in {"cluster_id", "first_poll"}]
        self.rows: list[Row] = []
        self.current: dict[Any, Row] = {}
        self.before: Poll | None = None

    def look(
        self,
        poll: Poll,
        things: Mapping[tuple[Any, ...], Row],
        why: Callable[[Any], str] = lambda _: "gone",
        nothing: Collection[str] = (),
    ) -> None:
        """See `things`, states by key. A state may have a topic_id too: another id, where both are
        known, is another thing. `nothing`: the columns that mean nothing.
        """
        for key in [key for key in self.current if key not in things]:
            self.end(key, poll, why(key))
        for key, seen in things.items():
            row = self.current.get(key)
            if (
                row
                and row.get("topic_id")
                and seen.get("topic_id")
                and row["topic_id"] != seen["topic_id"]
            ):
                self.end(key, poll, "recreated")
                row = None
            # An answer that cannot tell leaves what was known.
            now = {
                name: row[name] if row and value is None and name not in nothing else value
                for name, value in seen.items()
            }
            if row and all(row[name] == value for name, value in now.items()):
                continue
            if row:
                self.end(key, poll, None)
            self.begin(key, poll, now, row)
        self.before = poll

    def begin(self, key: tuple[Any, ...], poll: Poll, now: Row, before: Row | None) -> None:
        self.current[key] = {
            **CLUSTER,
            **dict(zip(self.key, key, strict=True)),
            **now,
            **{f"prev_{name}": before and before[name] for name in self.state},
            "first_poll": poll.poll_id,
            "valid_from": poll.at,
            "prev_poll": self.before and self.before.poll_id,
            "prev_sent_at": self.before and self.before.sent_at,
            "interval_ms": poll.interval_ms,
            **dict.fromkeys(
                ("last_poll", "last_seen_at", "last_seen_sent_at", "superseded_poll", "valid_to")
            ),
            "end_reason": None,
        }
        self.rows.append(self.current[key])

    def end(self, key: tuple[Any, ...], poll: Poll, reason: str | None) -> None:
        assert self.before is not None
        self.current.pop(key).update(
            last_poll=self.before.poll_id,
            last_seen_at=self.before.at,
            last_seen_sent_at=self.before.sent_at,
            superseded_poll=poll.poll_id,
            valid_to=poll.at,
            end_reason=reason,
        )


@dataclass
class Topic:
    topic_id: str
    partitions: list[Row]
    ids_are_known: bool = True
    is_polled: bool = True
    config: tuple[int | None, bool | None] = (2, False)
    reassignments: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)


class World:
    """A cluster, changed at random. `random` decides everything."""

    def __init__(self, rng: random.Random) -> None:
        self.random = rng
        self.ids = 0
        self.levels: tuple[int | None, int | None] = rng.choice(
            [(None, None), (11, 0), (25, 0), (25, 1)]
        )
        self.racks = dict.fromkeys(BROKERS, "a") | {1: "b", 3: None}
        self.listed = set(BROKERS)
        self.highest: int | None = None
        self.topics: dict[str, Topic] = {}
        self.elr: dict[tuple[str, int], tuple[list[int], list[int]]] = {}
        self.back: list[tuple[Row, list[int]]] = []
        self.tells_epochs = self.tells_offline = True
        for name in ("a", "b")[: rng.randint(1, 2)]:
            self.create(name)

    # --- what happens ---

    def live(self) -> None:
        for partition, isr in self.back:
            partition["isr"] = [
                b for b in partition["replicas"] if b in isr or b in partition["isr"]
            ]
        self.back.clear()
        for _ in range(self.random.choice([0, 0, 1, 1, 2, 4])):
            self.random.choice(self.HAPPENINGS)(self)

    def create(self, name: str | None = None) -> None:
        self.ids += 1
        partitions = [self.new_partition() for _ in range(self.random.randint(1, 3))]
        known = self.random.random() < 0.8
        self.topics[name or self.random.choice("abc")] = Topic(
            f"id{self.ids}", partitions, ids_are_known=known
        )

    def new_partition(self) -> Row:
        replicas = self.random.sample(BROKERS, self.random.choice([1, 2, 3, 3]))
        isr = self.random.sample(replicas, self.random.randint(1, len(replicas)))
        return {
            "leader": isr[0],
            "leader_epoch": 0,
            "replicas": replicas,
            "isr": isr,
            "hidden": False,
        }

    def some(self) -> Row | None:
        partitions = [p for topic in self.topics.values() for p in topic.partitions]
        return self.random.choice(partitions) if partitions else None

    def led_by(self, broker: int) -> list[Row]:
        return [
            p for topic in self.topics.values() for p in topic.partitions if p["leader"] == broker
        ]

    def lead(self, p: Row, leader: int, steps: int = 1) -> None:
        p["leader"], p["leader_epoch"] = leader, p["leader_epoch"] + steps

    def elect(self) -> None:
        if p := self.some():
            self.lead(
                p,
                self.random.choice([*p["replicas"], NO_LEADER]),
                self.random.choice([1, 1, 1, 2, 3]),
            )

    def prefer(self) -> None:
        for p in (p for topic in self.topics.values() for p in topic.partitions):
            if (
                p["leader"] != p["replicas"][0]
                and p["replicas"][0] in p["isr"]
                and self.random.random() < 0.7
            ):
                self.lead(p, p["replicas"][0])

    def fail(self) -> None:
        """A broker fails: others lead what it led. It may be back, and lead again, before the next
        poll.
        """
        broker, comes_back = self.random.choice(BROKERS), self.random.random() < 0.5
        for p in (
            p for topic in self.topics.values() for p in topic.partitions if broker in p["isr"]
        ):
            others = [b for b in p["replicas"] if b in p["isr"] and b != broker]
            if comes_back:
                self.back.append((p, p["isr"]))
            p["isr"] = others or ([] if self.levels[1] else p["isr"])
            if p["leader"] == broker:
                self.lead(p, others[0] if others else NO_LEADER)
        if not comes_back:
            self.listed.discard(broker)
        elif self.random.random() < 0.5:
            self.prefer()

    def lose_directory(self) -> None:
        """A log directory of a broker that stays: its replica is offline until the broker starts
        again.
        """
        if p := self.some():
            broker = self.random.choice(p["replicas"])
            others = [b for b in p["isr"] if b != broker]
            p["lost"] = broker
            p["isr"] = others or p["isr"]
            if p["leader"] == broker:
                self.lead(p, others[0] if others else NO_LEADER)

    def stall(self) -> None:
        """A leader that hangs drops its followers; they are back in no time."""
        leader = self.random.choice(BROKERS)
        for p in self.led_by(leader):
            if self.random.random() < 0.5:
                self.back.append((p, p["isr"]))
            if (self.levels[0] or 0) < 12:
                p["leader_epoch"] += len(p["isr"]) - 1
            p["isr"] = [leader]

    def recover(self) -> None:
        for p in self.led_by(NO_LEADER):
            if self.random.random() < 0.7:
                self.lead(p, self.random.choice(p["replicas"]), self.random.choice([1, 1, 2]))
                p["isr"] = [p["leader"]]

    def shrink(self) -> None:
        if p := self.some():
            p["isr"] = self.random.sample(p["replicas"], self.random.randint(1, len(p["replicas"])))

    def expand(self) -> None:
        if p := self.some():
            p["isr"] = list(p["replicas"])

    def reassign(self) -> None:
        """Add a replica, take the first away (it may lead, or be the only one in sync), or leave
        another order.
        """
        if not (p := self.some()):
            return
        others = [b for b in BROKERS if b not in p["replicas"]]
        what = self.random.random()
        if what < 0.3 and others:
            p["replicas"] = self.random.choice(
                [[*p["replicas"], others[0]], [others[0], *p["replicas"]]]
            )
            return
        if what < 0.5:
            p["replicas"] = p["replicas"][::-1]
            p["leader_epoch"] += 1
            return
        gone, *kept = p["replicas"]
        p["replicas"] = kept or others[:1]
        p["isr"] = [b for b in p["isr"] if b != gone] or p["replicas"][:1]
        if p["leader"] == gone:
            p["leader"] = self.random.choice([NO_LEADER, *p["isr"]])
        p["leader_epoch"] += 1

    def announce(self) -> None:
        """A reassignment is asked for, or over."""
        if not self.topics:
            return
        topic = self.random.choice(list(self.topics.values()))
        number = self.random.randrange(len(topic.partitions))
        if topic.reassignments.pop(number, None) is None:
            replicas = topic.partitions[number]["replicas"]
            adding = [b for b in BROKERS if b not in replicas][: self.random.randint(0, 2)]
            topic.reassignments[number] = (adding, sorted(replicas[: self.random.randint(0, 1)]))

    def hide(self) -> None:
        """A broker without the listener shows no leader, in the same epoch."""
        if p := self.some():
            p["hidden"] = not p["hidden"]

    def fall_back(self) -> None:
        """What was lost for good, epochs too, after a disaster."""
        if p := self.some():
            p["leader_epoch"] = max(0, p["leader_epoch"] - 2)

    def topics_change(self) -> None:
        name = self.random.choice("abc")
        topic = self.topics.get(name)
        if topic is None:
            self.create(name)
            return
        what = self.random.random()
        if what < 0.2:
            del self.topics[name]
        elif what < 0.5:
            self.create(name)
        elif what < 0.6:
            topic.partitions.append(self.new_partition())
        elif what < 0.75:
            topic.is_polled = not topic.is_polled
        elif what < 0.9:
            topic.config = self.random.choice([(1, False), (2, True), (3, False), (None, None)])
        else:
            topic.ids_are_known = True

    def brokers_change(self) -> None:
        broker = self.random.choice(BROKERS)
        if broker in self.listed and len(self.listed) > 1:
            self.listed.discard(broker)
            for p in (
                p
                for topic in self.topics.values()
                for p in topic.partitions
                if p.get("lost") == broker
            ):
                del p["lost"]
        else:
            self.listed.add(broker)
            self.racks[broker] = self.random.choice(["a", "b", None])

    def upgrade(self) -> None:
        self.levels = self.random.choice([(11, 0), (12, 0), (25, 0), (25, 0), (30, 1)])
        self.highest = self.random.choice([None, 14, 15, 30])

    def ask_otherwise(self) -> None:
        """Another version of the API tells less."""
        self.tells_epochs, self.tells_offline = self.random.choice(
            [(True, True)] * 3 + [(False, True), (False, False)]
        )

    def keep_elr(self) -> None:
        self.elr = {
            (name, number): tuple(
                sorted(self.random.sample(BROKERS, self.random.randint(0, 2))) for _ in range(2)
            )
            for name, topic in self.topics.items()
            for number in range(len(topic.partitions))
            if self.random.random() < 0.6
        }

    HAPPENINGS = (
        *[elect, elect, fail, fail, prefer, recover, recover, shrink, expand, stall],
        *[reassign, announce, hide, topics_change, topics_change, brokers_change, upgrade],
        *[ask_otherwise, keep_elr, fall_back, lose_directory],
    )

    # --- what is seen ---

    def polled(self) -> dict[str, Topic]:
        return {name: topic for name, topic in self.topics.items() if topic.is_polled}

    def partitions(self) -> dict[tuple[Any, ...], Row]:
        return {
            (name, number): self.shown(p)
            | {"topic_id": topic.topic_id if topic.ids_are_known else None}
            for name, topic in self.polled().items()
            for number, p in enumerate(topic.partitions)
        }

    def shown(self, p: Row) -> Row:
        error = (
            LISTENER_NOT_FOUND
            if p["hidden"]
            else LEADER_NOT_AVAILABLE
            if p["leader"] == NO_LEADER
            else 0
        )
        offline = (set(p["replicas"]) - self.listed) | ({p.get("lost")} & set(p["replicas"]))
        return {
            "error_code": error,
            "leader": NO_LEADER if p["hidden"] else p["leader"],
            "leader_epoch": p["leader_epoch"] if self.tells_epochs else None,
            "replicas": list(p["replicas"]),
            "isr": sorted(p["isr"]),
            "offline_replicas": sorted(offline) if self.tells_offline else None,
        }

    def why(self, key: tuple[Any, ...]) -> str:
        return (
            "not_polled" if key[0] in self.topics and not self.topics[key[0]].is_polled else "gone"
        )

    def enrichments(self) -> dict[str, dict[tuple[Any, ...], Row]]:
        asked = self.polled()
        return {
            CONFIGS: {
                (name,): {
                    "min_insync_replicas": topic.config[0],
                    "unclean_leader_election_enable": topic.config[1],
                }
                for name, topic in asked.items()
            },
            REASSIGNMENTS: {
                (name, number): {"adding_replicas": adding, "removing_replicas": removing}
                for name, topic in asked.items()
                for number, (adding, removing) in topic.reassignments.items()
            },
            ELR: {
                key: {"elr": elr, "last_known_elr": last_known}
                for key, (elr, last_known) in self.elr.items()
                if key[0] in asked
            },
        }


def random_history(rng: random.Random, polls: int = 12) -> History:
    """What `polls` accepted polls of a random cluster make of silver."""
    world = World(rng)
    lines = {
        name: Line(TABLES[name])
        for name in (CLUSTERS, LISTED_BROKERS, CONFIGS, REASSIGNMENTS, PARTITIONS, ELR)
    }
    seen: list[Poll] = []
    at, interval_ms = START, rng.choice([2_000, 5_000, 10_000])
    settled_at = at
    for n in range(polls):
        world.live()
        sent_at = at + timedelta(microseconds=rng.randrange(1_000))
        poll = Poll(
            f"20261101T000000Z-00000000/{n:012d}",
            sent_at + timedelta(milliseconds=90),
            sent_at,
            interval_ms,
        )
        if rng.random() < 0.05 and seen:
            # A clock that stepped back: times are made non-decreasing.
            poll = Poll(poll.poll_id, settled_at, seen[-1].sent_at, interval_ms)
        seen.append(poll)
        levels = {
            "metadata_version_level": world.levels[0],
            "elr_version_level": world.levels[1],
            **OF_KAFKA,
        }
        levels["metadata_version_highest"] = world.highest
        lines[CLUSTERS].look(poll, {(): levels})
        brokers = {
            (b,): {"host": f"host{b}", "port": 9092, "rack": world.racks[b]}
            for b in sorted(world.listed)
        }
        lines[LISTED_BROKERS].look(poll, brokers)
        lines[PARTITIONS].look(poll, world.partitions(), world.why)
        asked_at = poll.at
        for name, things in world.enrichments().items():
            if rng.random() < 0.6:
                # One after the other, once the poll was answered.
                answered_at = asked_at + timedelta(milliseconds=rng.randrange(200))
                lines[name].look(replace(poll, at=answered_at, sent_at=asked_at), things, world.why)
                asked_at = answered_at
        settled_at = asked_at
        at += timedelta(milliseconds=interval_ms) * rng.choice([1, 1, 1, 1, 5, 30])
    return History({name: line.rows for name, line in lines.items()}, seen)
