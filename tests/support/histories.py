"""Clusters that live a random life, and what polls of them are answered."""

import copy
import json
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas import silver
from tests.support import transaction_lives

START = datetime(2026, 11, 1, tzinfo=UTC)
VERSIONS = (12, 12, 12, 12, 8, 4)
VERSIONS_WITHOUT_IDS = (9, 9, 9, 9, 4)


@dataclass
class Answer:
    """One poll of one cluster: what came back, whole (not yet reduced to what changed)."""

    poll_id: str
    stream: str
    n: int
    batch: int
    scheduled_at: datetime
    interval_ms: int
    ok: bool
    error_kind: str | None = None
    sent_at: datetime | None = None
    received_at: datetime | None = None
    api_version: int | None = None
    cluster_id: str | None = None
    levels: tuple[int | None, int | None] = (None, None)
    highest: int | None = None
    brokers: dict[int, tuple[str, int, str | None]] = field(default_factory=dict)
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    topic_filter: str | None = None
    broker_id: int | None = None
    witnesses: list[dict[str, Any]] | None = None
    controller: int | None = None  # with ZooKeeper
    enriched: dict[str, str] = field(default_factory=dict)  # kind -> outcome
    enrichments: dict[str, dict[Any, tuple]] = field(
        default_factory=dict
    )  # kind -> key -> state, of those that are ok
    asked_ms: int = 70  # how long each question beside the poll takes
    silent_brokers: frozenset[int] = frozenset()
    """Brokers that did not tell their log directories."""
    lasting: dict[Any, tuple] = field(default_factory=dict)
    """The last states of things of silent brokers, which the digest is over, too."""
    early: frozenset[str] = (
        frozenset()
    )  # the kinds that were answered before the poll: they follow the poll before

    def asked(self, kind: str) -> tuple[datetime, datetime]:
        """When a kind was asked and answered: one after the other, after the poll's own answer; or
        a second before.
        """
        asked_at = self.received_at + timedelta(milliseconds=self.asked_ms) * list(
            self.enriched
        ).index(kind)
        asked_at -= timedelta(seconds=kind in self.early)
        return asked_at, asked_at + timedelta(milliseconds=self.asked_ms)


def good_answer(
    stream: str,
    n: int,
    at: datetime,
    brokers: dict[int, str | None],
    topics: dict[str, list[dict[str, Any]]],
    **more: Any,
) -> Answer:
    """A good answer of cluster id-prod, 100 ms after it was due and sent. `brokers`: their racks.
    `topics`: their partitions.
    """
    return Answer(
        poll_id=f"{stream}/{n:012d}",
        stream=stream,
        n=n,
        scheduled_at=at,
        interval_ms=10_000,
        ok=True,
        sent_at=at,
        received_at=at + timedelta(milliseconds=100),
        api_version=12,
        cluster_id="id-prod",
        levels=(25, 0),
        brokers={broker: (f"host{broker}", 9092, rack) for broker, rack in brokers.items()},
        topics={
            name: {
                "topic_id": f"id-{name}",
                "error_code": 0,
                "is_internal": False,
                "partitions": copy.deepcopy(partitions),
            }
            for name, partitions in topics.items()
        },
        **more,
    )


class RandomCluster:
    """A cluster that lives a random life, and is polled meanwhile."""

    def __init__(
        self,
        alias: str,
        chance: int | random.Random,
        mistaken_for: str | None = None,
        kinds: Collection[str] = tuple(silver.ENRICHMENTS),
        versions: tuple[int, ...] = VERSIONS,
    ) -> None:
        """`chance`: a seed, or what makes the choices. `mistaken_for`: the cluster that the alias
        may have been pointed at in the beginning. `kinds`: the enrichments. `versions`: of
        Metadata, that polls are answered in.
        """
        self.alias = alias
        self.mistaken_for = mistaken_for
        self.random = random.Random(chance) if isinstance(chance, int) else chance
        self.versions = versions
        self.besides = RandomEnrichments(self.random, kinds)
        self.cluster_id = f"id-{alias}"
        self.brokers = {
            b: (f"host{b}", 9092, self.random.choice(["a", "b", None])) for b in range(3)
        }
        self.levels: tuple[int | None, int | None] = (25, 0)
        self.topics: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.ids = 0
        self.stalled: list[tuple[dict[str, Any], list[int]]] = []
        for _ in range(self.random.randint(1, 3)):
            self.create_topic()

    def create_topic(self, name: str | None = None) -> None:
        self.ids += 1
        self.topics[name or f"t{self.ids}"] = {
            "topic_id": f"{self.alias}-{self.ids:04d}",
            "error_code": 0,
            "is_internal": self.random.random() < 0.2,
            "partitions": [self.new_partition() for _ in range(self.random.randint(1, 3))],
        }

    def new_partition(self) -> dict[str, Any]:
        replicas = self.random.sample(range(3), 2)
        return {
            "error_code": 0,
            "leader": replicas[0],
            "leader_epoch": 0,
            "replicas": replicas,
            "isr": list(replicas),
            "offline_replicas": [],
        }

    def stall(self) -> None:
        """A leader that hangs drops its followers; they are back in no time."""
        leader = self.random.randrange(3)
        for p in (
            p
            for topic in self.topics.values()
            for p in topic["partitions"]
            if p["leader"] == leader
        ):
            self.stalled.append((p, p["isr"]))
            p["isr"] = [leader]

    def live(self) -> None:
        for p, isr in self.stalled:
            p["isr"] = [b for b in p["replicas"] if b in isr] or p["isr"]
        self.stalled.clear()
        if self.deleted and self.random.random() < 0.3:
            self.create_topic(self.deleted.pop())
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2, 3])):
            self.random.choice(
                [
                    *[self.elect] * 4,
                    self.shrink,
                    self.shrink,
                    self.reassign,
                    self.hide,
                    self.stall,
                    self.topics_change,
                    self.brokers_change,
                    self.upgrade,
                ]
            )()

    def some_partition(self) -> dict[str, Any] | None:
        partitions = [p for topic in self.topics.values() for p in topic["partitions"]]
        return self.random.choice(partitions) if partitions else None

    def elect(self) -> None:
        if p := self.some_partition():
            p["leader"] = self.random.choice([*p["replicas"], -1])
            p["error_code"] = 5 if p["leader"] == -1 else 0
            p["leader_epoch"] += 1

    def shrink(self) -> None:
        if p := self.some_partition():
            p["isr"] = self.random.sample(p["replicas"], self.random.randint(1, len(p["replicas"])))
            p["offline_replicas"] = [b for b in p["replicas"] if b not in self.brokers]

    def reassign(self) -> None:
        """Add a replica, or take the first away: it may lead, or be the only one in sync."""
        if p := self.some_partition():
            others = [b for b in range(4) if b not in p["replicas"]]
            if others and self.random.random() < 0.5:
                p["replicas"].append(others[0])
                return
            gone = p["replicas"].pop(0)
            p["replicas"] = p["replicas"] or others[:1]
            p["isr"] = [b for b in p["isr"] if b != gone] or p["replicas"][:1]
            p["offline_replicas"] = [b for b in p["offline_replicas"] if b != gone]
            if p["leader"] == gone:
                p["leader"] = self.random.choice([-1, *p["isr"]])
            p["error_code"] = 5 if p["leader"] == -1 else 0
            p["leader_epoch"] += 1

    def hide(self) -> None:
        """A broker without the listener shows no leader, in the same epoch."""
        if p := self.some_partition():
            p["error_code"], p["leader"] = (72, -1)

    def topics_change(self) -> None:
        if not self.topics or self.random.random() < 0.4:
            self.create_topic()
            return
        name = self.random.choice(list(self.topics))
        what = self.random.random()
        if what < 0.35:
            del self.topics[name]
            self.deleted.append(name)
        elif what < 0.6:
            self.create_topic(name)
        elif what < 0.8:
            self.topics[name]["partitions"].append(self.new_partition())
        else:
            self.topics[name]["error_code"] = self.random.choice([0, 29, 5])

    def brokers_change(self) -> None:
        broker = self.random.randrange(4)
        if broker in self.brokers and len(self.brokers) > 1:
            del self.brokers[broker]
        else:
            self.brokers[broker] = (
                f"host{broker}",
                self.random.choice([9092, 9093]),
                self.random.choice(["a", "b", None]),
            )

    def upgrade(self) -> None:
        self.levels = self.random.choice([(25, 0), (30, 0), (30, 1), (None, None)])

    def answers(self, polls: int, *, runs: float = 0.3) -> list[Answer]:
        """Some `polls` answers: good, failed, stale, of another cluster; clocks that step back.
        `runs`: the chance that a recorder begins with one, so that the next good one is a key
        frame.
        """
        r = self.random
        stream, n, batch, at = "20261101T000000Z-00000000", 0, 0, START
        images: list[tuple[dict, dict, Any]] = []
        answers = []
        stuck = None  # the image that a lagging broker answers from
        topic_filter, version = None, 12
        interval_ms = 15_000
        while len(answers) < polls:
            self.live()
            images.append((copy.deepcopy(self.brokers), copy.deepcopy(self.topics), self.levels))
            if r.random() < runs or not answers:
                batch += 1
                version = r.choice(self.versions)
                if r.random() < 0.2:
                    topic_filter = r.choice(
                        [
                            None,
                            None,
                            json.dumps({"pattern": "t[12].*"}),
                            json.dumps({"topics": ["t1", "t2"]}),
                        ]
                    )
                if r.random() < 0.08:
                    stream, n = f"20261101T{len(answers):06d}Z-00000000", 0
            at += timedelta(milliseconds=interval_ms) * r.choice([1, 1, 1, 1, 1, 1, 4])
            if stuck is not None and r.random() < 0.3:
                stuck = None
            elif stuck is None and len(images) > 4 and r.random() < 0.25:
                stuck = len(images) - r.randint(2, 5)
            brokers, topics, levels = images[-1 if stuck is None else stuck]
            skew = timedelta(seconds=r.choice([0] * 12 + [-25]))
            answer = Answer(
                f"{stream}/{n:012d}",
                stream,
                n,
                batch,
                at,
                interval_ms,
                ok=r.random() > 0.1,
                topic_filter=topic_filter,
            )
            # The cluster that others are mistaken for is the first to show its id.
            answer.ok |= not answers and self.mistaken_for is None
            if answer.ok:
                answer.sent_at = at + skew
                answer.received_at = at + skew + timedelta(milliseconds=r.randint(1, 900))
                answer.api_version = version
                known = any(earlier.cluster_id == self.cluster_id for earlier in answers)
                answer.cluster_id = (
                    "id-of-somebody-else" if r.random() < 0.02 and known else self.cluster_id
                )
                if self.mistaken_for and len(answers) < 3 and r.random() < 0.1:
                    answer.cluster_id = self.mistaken_for
                answer.levels = levels
                answer.brokers = brokers
                answer.topics = self.asked(topics, topic_filter, version)
                self.besides.ask(answer)
            else:
                answer.error_kind = r.choice(["timeout", "unreachable"])
            answers.append(answer)
            n += 1
        return answers

    def asked(
        self, topics: dict[str, Any], topic_filter: str | None, version: int
    ) -> dict[str, Any]:
        """The answer's topics as this version shows them under this filter."""
        topics = copy.deepcopy(topics)
        if topic_filter and "topics" in topic_filter:
            nothing = {"topic_id": None, "error_code": 3, "is_internal": False, "partitions": []}
            topics = {name: topics.get(name, dict(nothing)) for name in ("t1", "t2")}
        elif topic_filter:
            topics = {name: topic for name, topic in topics.items() if name[1] in "12"}
        for topic in topics.values():
            if topic["error_code"] in {29, 5}:
                topic["partitions"] = []
            if topic["error_code"] == 29:
                topic["topic_id"] = None
            if version < 10:
                topic["topic_id"] = None
            for p in topic["partitions"]:
                self.random.shuffle(p["isr"])
                if version < 7:
                    p["leader_epoch"] = None
                if version < 5:
                    p["offline_replicas"] = None
        return topics


GROUP_STATE = [
    "group_type",
    "protocol_type",
    "state",
    "group_epoch",
    "target_epoch",
    "topology_epoch",
    "assignor",
    "members",
]
MEMBER = dict.fromkeys(
    [
        "member_id",
        "instance_id",
        "rack",
        "client_id",
        "client_host",
        "epoch",
        "topics",
        "regex",
        "assigned",
        "target",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "target_active_tasks",
        "target_standby_tasks",
        "target_warmup_tasks",
    ]
) | {"assigned": [{"topic_id": None, "topic": "t1", "partitions": [0, 1]}]}
UNTOLD = (None,) * 8
"""A group that was listed and could not be described this time."""


class RandomEnrichments:
    """What a cluster answers to the kinds of enrichment, each asked now and then, and not always
    answered.
    """

    def __init__(self, chance: random.Random, kinds: Collection[str]) -> None:
        self.random = chance
        self.states: dict[str, dict[Any, tuple]] = {kind: {} for kind in kinds}

    def ask(self, answer: Answer) -> None:
        partitions = [
            (name, k)
            for name, topic in answer.topics.items()
            for k in range(len(topic["partitions"]))
        ]
        keys = {
            "configs": [
                (name,) for name, topic in answer.topics.items() if topic["error_code"] == 0
            ],
            "reassignments": partitions,
            "quorum": [()],
            "elr": partitions,
            "fenced": [(b,) for b in range(4)],
            "groups": [("g1",), ("g2",)],
            "transactions": transaction_lives.KEYS,
            "log_dirs": [(b, log_dir) for b in range(2) for log_dir in ("/d1", "/d2")],
        }
        for kind in self.states:
            if self.random.random() < 0.5:
                continue
            outcome = self.random.choice(["ok"] * 8 + ["not_allowed", "failed: timeout"])
            answer.enriched[kind] = outcome
            if outcome == "ok":
                self.states[kind] = answer.enrichments[kind] = {
                    key: state
                    for key in keys[kind]
                    if (state := self.next_state(kind, self.states[kind].get(key), key))
                }
                if kind == "log_dirs" and self.random.random() < 0.3:
                    answer.silent_brokers = frozenset({self.random.randrange(2)})
                    answer.enriched[kind] = "ok: 1 of 2 brokers did not tell their directories: x"
                    told = answer.enrichments[kind]
                    answer.enrichments[kind] = {
                        key: state
                        for key, state in told.items()
                        if key[0] not in answer.silent_brokers
                    }
                answer.early |= {kind} if self.random.random() < 0.2 else set()
                untold = (
                    sum(state == UNTOLD for state in self.states["groups"].values())
                    if kind == "groups"
                    else 0
                )
                if untold:
                    answer.enriched[kind] = (
                        f"ok: {untold} of {len(self.states[kind])} groups could not be described: x"
                    )

    def next_state(self, kind: str, state: tuple | None, key: Any) -> tuple | None:
        r = self.random
        if kind == "transactions":
            return transaction_lives.next_transaction(r, key, state)
        some = tuple(sorted(r.sample(range(3), r.randint(0, 2))))
        if state is not None and r.random() < 0.7:
            return state
        if kind == "configs":
            return r.choice([(1, False), (2, False), (2, True), (None, None)])
        if kind == "quorum":
            behind = [tuple(n for n in some if r.random() < 0.3), ()]
            told = behind if some and r.random() < 0.7 else [None, None]
            return (r.randint(0, 1), r.randint(0, 2), some, (8, 9), *told)
        if r.random() < 0.6:
            return None
        if kind == "log_dirs":
            is_online = r.random() < 0.7
            return (0 if is_online else 56, r.choice((100, 90)) if is_online else None, is_online)
        if kind == "fenced":
            return ("host", 9092, r.choice(["a", "b"]))
        if kind == "groups":
            members = tuple({**MEMBER, "member_id": f"m{n}", "epoch": n} for n in some)
            return r.choice(
                [
                    ("classic", "consumer", "Stable", None, None, None, "range", members),
                    ("classic", "consumer", "PreparingRebalance", None, None, None, None, members),
                    (
                        "classic",
                        "consumer",
                        "Stable",
                        None,
                        None,
                        None,
                        None,
                        None,
                    ),  # may not be described
                    ("consumer", None, "Stable", len(some), len(some), None, "uniform", members),
                    UNTOLD,
                ]
            )
        return (some, tuple(sorted(r.sample(range(3), 1))))
