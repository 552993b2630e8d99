"""Random histories of small clusters, as bronze rows, and the plain rules that silver must agree with.

The rules here are written a second time, in the dumbest way: one cluster, one poll at a time, dictionaries. They look at
answers, not at digests or key frames, and rebuild the accepted view after each accepted poll.
"""

import copy
import hashlib
import json
import random
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas import silver

START = datetime(2026, 11, 1, tzinfo=UTC)
CHUNK = 2
"""Partitions a row; 1,000 in earnest, few here so that topics of several rows are common."""
VERSIONS = (12, 12, 12, 12, 8, 4)


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
    brokers: dict[int, tuple[str, int, str | None]] = field(default_factory=dict)
    topics: dict[str, dict[str, Any]] = field(default_factory=dict)
    topic_filter: str | None = None
    enriched: dict[str, str] = field(default_factory=dict)  # kind -> outcome
    enrichments: dict[str, dict[Any, tuple]] = field(default_factory=dict)  # kind -> key -> state, of those that are ok


def good_answer(
    stream: str,
    n: int,
    at: datetime,
    brokers: dict[int, str | None],
    topics: dict[str, list[dict[str, Any]]],
    **more: Any,
) -> Answer:
    """A good answer of cluster id-prod, 100 ms after it was due and sent. `brokers`: their racks. `topics`: their partitions."""
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
        self, alias: str, seed: int, mistaken_for: str | None = None, kinds: Collection[str] = tuple(silver.ENRICHMENTS)
    ) -> None:
        """`mistaken_for`: the cluster that the alias may have been pointed at in the beginning. `kinds`: the enrichments."""
        self.alias = alias
        self.mistaken_for = mistaken_for
        self.random = random.Random(seed)
        self.besides = RandomEnrichments(seed, kinds)
        self.cluster_id = f"id-{alias}"
        self.brokers = {b: (f"host{b}", 9092, self.random.choice(["a", "b", None])) for b in range(3)}
        self.levels: tuple[int | None, int | None] = (25, 0)
        self.topics: dict[str, dict[str, Any]] = {}
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
        for p in (p for topic in self.topics.values() for p in topic["partitions"] if p["leader"] == leader):
            self.stalled.append((p, p["isr"]))
            p["isr"] = [leader]

    def live(self) -> None:
        for p, isr in self.stalled:
            p["isr"] = [b for b in p["replicas"] if b in isr] or p["isr"]
        self.stalled.clear()
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2, 3])):
            self.random.choice(
                [
                    self.elect,
                    self.elect,
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

    def answers(self, polls: int) -> list[Answer]:
        """Some `polls` answers in batches of several: good, failed, stale, of another cluster; clocks that step back."""
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
            if r.random() < 0.3 or not answers:
                batch += 1
                version = r.choice(VERSIONS)
                if r.random() < 0.2:
                    topic_filter = r.choice(
                        [None, None, json.dumps({"pattern": "t[12].*"}), json.dumps({"topics": ["t1", "t2"]})]
                    )
                if r.random() < 0.08:
                    stream, n = f"20261101T{len(answers):06d}Z-00000000", 0
            at += timedelta(milliseconds=interval_ms) * r.choice([1, 1, 1, 1, 1, 1, 4])
            if stuck is not None and r.random() < 0.15:
                stuck = None
            elif stuck is None and len(images) > 4 and r.random() < 0.12:
                stuck = len(images) - r.randint(2, 4)
            brokers, topics, levels = images[-1 if stuck is None else stuck]
            skew = timedelta(seconds=r.choice([0] * 12 + [-25]))
            answer = Answer(
                f"{stream}/{n:012d}", stream, n, batch, at, interval_ms, ok=r.random() > 0.1, topic_filter=topic_filter
            )
            # The cluster that others are mistaken for is the first to show its id.
            answer.ok |= not answers and self.mistaken_for is None
            if answer.ok:
                answer.sent_at = at + skew
                answer.received_at = at + skew + timedelta(milliseconds=r.randint(1, 900))
                answer.api_version = version
                known = any(earlier.cluster_id == self.cluster_id for earlier in answers)
                answer.cluster_id = "id-of-somebody-else" if r.random() < 0.02 and known else self.cluster_id
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

    def asked(self, topics: dict[str, Any], topic_filter: str | None, version: int) -> dict[str, Any]:
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
    """What a cluster answers to the kinds of enrichment, each asked now and then, and not always answered."""

    def __init__(self, seed: int, kinds: Collection[str]) -> None:
        self.random = random.Random(seed + 1_000_000)
        self.states: dict[str, dict[Any, tuple]] = {kind: {} for kind in kinds}

    def ask(self, answer: Answer) -> None:
        partitions = [(name, k) for name, topic in answer.topics.items() for k in range(len(topic["partitions"]))]
        keys = {
            "configs": [(name,) for name, topic in answer.topics.items() if topic["error_code"] == 0],
            "reassignments": partitions,
            "quorum": [()],
            "elr": partitions,
            "fenced": [(b,) for b in range(4)],
            "groups": [("g1",), ("g2",)],
        }
        for kind in self.states:
            if self.random.random() < 0.5:
                continue
            outcome = self.random.choice(["ok"] * 8 + ["not_allowed", "failed: timeout"])
            answer.enriched[kind] = outcome
            if outcome == "ok":
                self.states[kind] = answer.enrichments[kind] = {
                    key: state for key in keys[kind] if (state := self.next_state(kind, self.states[kind].get(key)))
                }

    def next_state(self, kind: str, state: tuple | None) -> tuple | None:
        r = self.random
        some = tuple(sorted(r.sample(range(3), r.randint(0, 2))))
        if state is not None and r.random() < 0.7:
            return state
        if kind == "configs":
            return r.choice([(1, False), (2, False), (2, True), (None, None)])
        if kind == "quorum":
            return (r.randint(0, 1), r.randint(0, 2), some)
        if r.random() < 0.6:
            return None
        if kind == "fenced":
            return ("host", 9092, r.choice(["a", "b"]))
        if kind == "groups":
            members = tuple({**MEMBER, "member_id": f"m{n}", "epoch": n} for n in some)
            return r.choice(
                [
                    ("classic", "consumer", "Stable", None, None, None, "range", members),
                    ("classic", "consumer", "PreparingRebalance", None, None, None, None, members),
                    ("classic", "consumer", "Stable", None, None, None, None, None),  # may not be described
                    ("consumer", None, "Stable", len(some), len(some), None, "uniform", members),
                    UNTOLD,
                ]
            )
        return (some, tuple(sorted(r.sample(range(3), 1))))


def enrichment_rows(answer: Answer) -> list[dict[str, Any]]:
    """Columns of bronze rows, one a topic, or one alone."""
    rows: list[dict[str, Any]] = []
    for kind, states in answer.enrichments.items():
        if kind == "configs":
            rows += [
                {
                    "record": kind,
                    "topic": topic,
                    kind: None
                    if min_isr is None
                    else {"min.insync.replicas": str(min_isr), "unclean.leader.election.enable": str(unclean).lower()},
                }
                for (topic,), (min_isr, unclean) in states.items()
            ]
        elif kind == "quorum":
            leader_id, leader_epoch, voters = states[()]
            quorum = {"leader_id": leader_id, "leader_epoch": leader_epoch, "voters": voters[::-1], "observers": []}
            rows.append({"record": kind, kind: quorum})
        elif kind == "fenced":
            brokers = [{"broker_id": b, "host": h, "port": p, "rack": rack} for (b,), (h, p, rack) in states.items()]
            rows.append({"record": kind, kind: brokers})
        elif kind == "groups":
            for chunk, ((group_id,), state) in enumerate(states.items()):
                group = {"group_id": group_id, **dict(zip(GROUP_STATE, state, strict=True))}
                if state == UNTOLD:
                    group |= {"error": "failed: error 16", "group_type": "share", "state": "Dead"}
                elif group["members"] is None:
                    group["error"] = "not_allowed"
                rows.append({"record": kind, "chunk": chunk, kind: [group]})
        else:
            names = {"reassignments": ("adding", "removing"), "elr": ("elr", "last_known_elr")}[kind]
            for topic in sorted({topic for topic, _ in states}):
                of_topic = [
                    {"partition": k, **{name: list(ids[::-1]) for name, ids in zip(names, state, strict=True)}}
                    for (name_, k), state in states.items()
                    if name_ == topic
                ]
                rows.append({"record": kind, "topic": topic, kind: of_topic})
    return rows


def digest(topic: dict[str, Any]) -> bytes:
    partitions = [
        {**p, "isr": sorted(p["isr"]), "offline_replicas": p["offline_replicas"] and sorted(p["offline_replicas"])}
        for p in topic["partitions"]
    ]
    return hashlib.blake2b(
        json.dumps({**topic, "partitions": partitions}, sort_keys=True).encode(), digest_size=16
    ).digest()


def bronze_rows(alias: str, answers: list[Answer]) -> list[dict[str, Any]]:
    """What a poller would have written: a key frame first in each batch, then what changed."""
    rows: list[dict[str, Any]] = []
    said: dict[str, bytes] = {}
    key_framed: tuple[int, str | None] | None = None
    for a in answers:
        key = {
            "poll_id": a.poll_id,
            "stream": a.stream,
            "n": a.n,
            "cluster": alias,
            "chunk": 0,
            "cluster_id": a.cluster_id,
            "received_at": a.received_at,
        }
        header = {
            **key,
            "record": "poll",
            "interval_ms": a.interval_ms,
            "scheduled_at": a.scheduled_at,
            "sent_at": a.sent_at,
            "outcome": "ok" if a.ok else "failed",
            "error_kind": a.error_kind,
            "error": a.error_kind,
            "api_version": a.api_version,
            "metadata_version_level": a.levels[0],
            "elr_version_level": a.levels[1],
            "topic_filter": a.topic_filter,
        }
        if not a.ok:
            rows.append(header)
            continue
        key_frame = key_framed != (a.batch, a.cluster_id)
        if key_frame:
            said, key_framed = {}, (a.batch, a.cluster_id)
        digests = {name: digest(topic) for name, topic in a.topics.items()}
        rows.append(
            {
                **header,
                "key_frame": key_frame,
                "topic_count": len(a.topics),
                "enriched": a.enriched or None,
                "brokers": [
                    {"broker_id": b, "host": h, "port": p, "rack": rack} for b, (h, p, rack) in a.brokers.items()
                ],
            }
        )
        for name, topic in a.topics.items():
            if said.get(name) != digests[name]:
                partitions = [{"partition": i, **p} for i, p in enumerate(topic["partitions"])]
                rows += [
                    {
                        **key,
                        "record": "topic",
                        "topic": name,
                        "chunk": chunk,
                        "present": True,
                        "topic_id": topic["topic_id"],
                        "error_code": topic["error_code"],
                        "is_internal": topic["is_internal"],
                        "partition_count": len(partitions),
                        "digest": digests[name],
                        "digest_version": 1,
                        "partitions": partitions[chunk * CHUNK : (chunk + 1) * CHUNK],
                    }
                    for chunk in range(max(1, -(-len(partitions) // CHUNK)))
                ]
        rows += [{**key, "record": "topic", "topic": name, "present": False} for name in said if name not in a.topics]
        rows += [{**key, **row} for row in enrichment_rows(a)]
        said = digests
    return rows


# --- the rules, the dumb way ---


@dataclass
class View:
    """The accepted view after one accepted poll. Times are made non-decreasing."""

    poll_id: str
    at: datetime
    sent_at: datetime
    topics: dict[tuple[str, int], tuple]  # (topic, life) -> state
    partitions: dict[tuple[str, int, int], tuple]  # (topic, life, partition) -> state
    brokers: dict[int, tuple]
    levels: tuple
    interval_ms: int = 0


def trusted(answer: Answer) -> dict[str, dict[str, Any]]:
    """Topics that the answer shows, normalized: sorted sets, no epochs below v9; errors 3 and 29 are not shown."""
    shown = {}
    for name, answered in answer.topics.items():
        if answered["error_code"] in {3, 29}:
            continue
        topic = copy.deepcopy(answered)
        for p in topic["partitions"]:
            p["isr"] = sorted(p["isr"])
            if p["offline_replicas"] is not None:
                p["offline_replicas"] = sorted(p["offline_replicas"])
            if answer.api_version < 9:
                p["leader_epoch"] = None
        shown[name] = topic
    return shown


def accepted_answers(answers: list[Answer], cluster_id: str) -> list[tuple[Answer, datetime, datetime]]:
    accepted: list[tuple[Answer, datetime, datetime]] = []
    ids: dict[str, str | None] = {}
    epochs: dict[str, dict[int, int]] = {}  # the last that was told of each partition, while its topic lives
    absences: dict[str, int] = {}
    waiting: list[tuple[Answer, datetime]] = []

    def another(name: str, topic: dict[str, Any]) -> bool:
        return bool(ids.get(name) and topic["topic_id"] and ids[name] != topic["topic_id"])

    def accept(answer: Answer) -> None:
        at, sent = answer.received_at, answer.sent_at
        if accepted:
            at, sent = max(at, accepted[-1][1]), max(sent, accepted[-1][2])
        accepted.append((answer, at, sent))
        shown = trusted(answer)
        for name in list(epochs):
            absences[name] = 0 if name in shown else absences[name] + 1
            if absences[name] == 2:
                del epochs[name], ids[name], absences[name]
        for name, topic in shown.items():
            if name not in epochs or another(name, topic):
                ids[name], epochs[name], absences[name] = None, {}, 0
            ids[name] = topic["topic_id"] or ids[name]
            if topic["error_code"] == 0:
                epochs[name] = {k: e for k, e in epochs[name].items() if k < len(topic["partitions"])}
            for k, p in enumerate(topic["partitions"]):
                if p["leader_epoch"] is not None:
                    epochs[name][k] = p["leader_epoch"]

    for a in sorted(answers, key=lambda answer: answer.poll_id):
        if not a.ok or a.cluster_id != cluster_id:
            continue
        stale = False
        for name, topic in trusted(a).items():
            for k, p in enumerate(topic["partitions"]):
                known = None if another(name, topic) else epochs.get(name, {}).get(k)
                if known is not None and p["leader_epoch"] is not None and p["leader_epoch"] < known:
                    stale = True
        if stale:
            floor = waiting[-1][1] if waiting else accepted[-1][1]
            waiting.append((a, max(a.received_at, floor)))
            if len(waiting) >= 5 and waiting[-1][1] - waiting[0][1] >= timedelta(seconds=60):
                for one, _ in waiting:
                    accept(one)
                waiting.clear()
        else:
            waiting.clear()
            accept(a)
    return accepted


def covers(topic_filter: str | None, topic: str) -> bool:
    if topic_filter is None:
        return True
    if "topics" in topic_filter:
        return topic in {"t1", "t2"}
    return topic[1] in "12"


def views(
    answers: list[Answer], cluster_id: str
) -> tuple[list[View], dict[tuple[str, int], tuple[str, str]], set[str]]:
    """The accepted views in order; how topics' lives ended ((topic, life) -> (poll id, as what)); topics missing at the last."""
    accepted = accepted_answers(answers, cluster_id)
    shown = [trusted(a) for a, _, _ in accepted]
    result: list[View] = []
    ended: dict[tuple[str, int], tuple[str, str]] = {}
    missing: set[str] = set()
    life: dict[str, int] = {}
    current: dict[str, dict[str, Any]] = {}  # topic -> merged state, ISR and all
    brokers: dict[int, tuple] = {}
    levels: tuple = (None, None)
    for i, (a, at, sent) in enumerate(accepted):
        following = shown[i + 1] if i + 1 < len(accepted) else None
        missing = set()
        for name in list(current):
            if name in shown[i]:
                continue
            old_id = current[name]["topic_id"]
            if following is None:
                missing.add(name)
            elif name not in following:
                nxt = accepted[i + 1][0]
                reason = (
                    "unauthorized"
                    if nxt.topics.get(name, {}).get("error_code") == 29
                    else "absent"
                    if covers(nxt.topic_filter, name)
                    else "not_polled"
                )
                ended[name, life[name]] = (a.poll_id, reason)
                del current[name]
            elif old_id and following[name]["topic_id"] and old_id != following[name]["topic_id"]:
                ended[name, life[name]] = (a.poll_id, "recreated")
                del current[name]
        for name, topic in shown[i].items():
            old = current.get(name)
            if old and old["topic_id"] and topic["topic_id"] and old["topic_id"] != topic["topic_id"]:
                ended[name, life[name]] = (a.poll_id, "recreated")
                old = None
            if old is None:
                life[name] = life.get(name, -1) + 1
                old = {"topic_id": None, "error_code": None, "is_internal": None, "count": None, "partitions": {}}
            only_error = topic["error_code"] != 0 and not topic["partitions"]
            merged_id = topic["topic_id"] or old["topic_id"]
            partitions = dict(old["partitions"])
            if not only_error and topic["error_code"] == 0:
                partitions = {k: v for k, v in partitions.items() if k < len(topic["partitions"])}
            for k, p in enumerate(topic["partitions"]):
                before = partitions.get(k, {})
                partitions[k] = {f: (before.get(f) if v is None else v) for f, v in p.items()}
                # An id that became known with an answer that did not show the partition is known from its next answer on.
                partitions[k]["topic_id"] = topic["topic_id"] or before.get("topic_id")
            current[name] = {
                "topic_id": merged_id,
                "error_code": topic["error_code"],
                "is_internal": topic["is_internal"],
                "count": old["count"] if only_error else len(topic["partitions"]),
                "partitions": partitions,
            }
        brokers = {b: tuple(v) for b, v in a.brokers.items()}
        levels = tuple(old if new is None else new for old, new in zip(levels, a.levels, strict=True))
        result.append(
            View(
                a.poll_id,
                at,
                sent,
                {
                    (t, life[t]): (s["topic_id"], s["error_code"], s["is_internal"], s["count"])
                    for t, s in current.items()
                },
                {
                    (t, life[t], k): (
                        p["topic_id"],
                        p["error_code"],
                        p["leader"],
                        p["leader_epoch"],
                        tuple(p["replicas"]),
                        tuple(p["isr"]),
                        None if p["offline_replicas"] is None else tuple(p["offline_replicas"]),
                    )
                    for t, s in current.items()
                    for k, p in s["partitions"].items()
                },
                brokers,
                levels,
                a.interval_ms,
            )
        )
    return result, ended, missing


def enrichment_intervals(answers: list[Answer], cluster_id: str, kind: str) -> list[tuple]:
    """(key, state, state before, first poll, its time, the poll before, when sent, last poll, superseding poll, ended as)."""
    line = [(a, at, sent) for a, at, sent in accepted_answers(answers, cluster_id) if a.enriched.get(kind) == "ok"]
    rows: list[tuple] = []
    going_on: dict[Any, tuple] = {}  # key -> the row so far
    for i, (a, at, _) in enumerate(line):
        before, _, sent_before = line[i - 1] if i else (None, None, None)
        before_id = before.poll_id if before else None
        for key in list(going_on):
            if key not in a.enrichments[kind]:
                by_topic = kind in {"configs", "reassignments", "elr"}
                reason = "absent" if not by_topic or covers(a.topic_filter, key[0]) else "not_polled"
                rows.append((*going_on.pop(key), before_id, a.poll_id, reason))
        for key, said in a.enrichments[kind].items():
            row = going_on.get(key)
            state = said
            if row is not None:
                # What an answer does not tell stays as it was.
                state = tuple(old if new is None else new for new, old in zip(said, row[1], strict=True))
                if kind == "groups":  # all of it or nothing
                    state = row[1] if said == UNTOLD else said
                if state == row[1]:
                    continue
                rows.append((*row, before_id, a.poll_id, None))
            none = tuple(None for _ in state)
            going_on[key] = (key, state, row[1] if row else none, a.poll_id, at, before_id, sent_before)
    return rows + [(*row, None, None, None) for row in going_on.values()]
