"""Answers -> the rows that a poller would have written to bronze."""

import hashlib
import json
from typing import Any

from schemas.bronze import METADATA_POLLS
from tests.support import transaction_lives
from tests.support.histories import GROUP_STATE, UNTOLD, Answer

CHUNK = 2
"""Partitions a row; 1,000 in earnest, few here so that topics of several rows are common."""
COLUMNS = {*METADATA_POLLS.column_names, "is_key_frame", "digest"}


def quorum(leader: int, epoch: int, *voters: int) -> tuple[Any, ...]:
    """The state of the quorum: leader, epoch, voters, observers, who of each is behind."""
    return leader, epoch, voters, (), None, None


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
                    else {
                        "min.insync.replicas": {
                            "value": str(min_isr),
                            "source": (*source, "DYNAMIC_TOPIC_CONFIG")[0],
                        },
                        "unclean.leader.election.enable": {
                            "value": str(unclean).lower(),
                            "source": "DEFAULT_CONFIG",
                        },
                    },
                }
                for (topic,), (min_isr, unclean, *source) in states.items()
            ]
        elif kind == "quorum":
            leader_id, leader_epoch, voters, observers, *behind = states[()]
            told = {
                "leader_id": leader_id,
                "leader_epoch": leader_epoch,
                "voters": voters[::-1],
                "observers": observers[::-1],
            }
            replicas = [
                {"replica_id": each, "is_voter": of is voters, "is_behind": each in of_behind}
                | {"log_end_offset": 100 - each, "last_caught_up_at": None}
                for of, of_behind in zip((voters, observers), behind, strict=True)
                if of_behind is not None
                for each in of
            ]
            rows.append({"record": kind, kind: told, "quorum_replicas": replicas or None})
        elif kind == "fenced":
            brokers = [
                {"broker_id": b, "host": h, "port": p, "rack": rack}
                for (b,), (h, p, rack) in states.items()
            ]
            rows.append({"record": kind, kind: brokers})
        elif kind == "log_dirs":
            rows += _of_log_dirs(answer, states)
        elif kind == "groups":
            for chunk, ((group_id,), state) in enumerate(states.items()):
                group = {"group_id": group_id, **dict(zip(GROUP_STATE, state, strict=True))}
                if state == UNTOLD:
                    group |= {"error": "failed: error 16", "group_type": "share", "state": "Dead"}
                elif group["members"] is None:
                    group["error"] = "not_allowed"
                rows.append({"record": kind, "chunk": chunk, kind: [group]})
        elif kind == "transactions":
            told = [transaction_lives.entry(key, state) for key, state in states.items()]
            rows += [
                {"record": kind, "chunk": chunk, kind: [each]} for chunk, each in enumerate(told)
            ]
        else:
            names = {"reassignments": ("adding", "removing"), "elr": ("elr", "last_known_elr")}[
                kind
            ]
            for topic in sorted({topic for topic, _ in states}):
                of_topic = [
                    {
                        "partition": k,
                        **{name: list(ids[::-1]) for name, ids in zip(names, state, strict=True)},
                    }
                    for (name_, k), state in states.items()
                    if name_ == topic
                ]
                rows.append({"record": kind, "topic": topic, kind: of_topic})
    return rows


def _of_log_dirs(answer: Answer, states: dict[Any, tuple]) -> list[dict[str, Any]]:
    names = ("error_code", "total_bytes")
    dirs: dict[int, list[dict[str, Any]] | None] = dict.fromkeys(answer.silent_brokers)
    for (broker_id, log_dir), state in states.items():
        told = dict(zip(names, state, strict=False))
        dirs[broker_id] = [*(dirs.get(broker_id) or ()), {"log_dir": log_dir, **told}]
    return [
        {"record": "log_dirs", "chunk": chunk, "broker_id": broker_id, "log_dirs": of}
        for chunk, (broker_id, of) in enumerate(dirs.items())
    ]


def _digest(kind: str, states: dict[Any, tuple], answer: Answer) -> bytes:
    if kind == "log_dirs" and answer.lasting:
        return digest(sorted((states | answer.lasting).items()))
    silent = sorted(answer.silent_brokers) if kind == "log_dirs" else []
    return digest([*sorted(states.items()), *silent])


def answer_headers(answer: Answer) -> list[dict[str, Any]]:
    """Columns of the headers of the answers beside a poll: one after the other, each asked for once
    the one before was answered.
    """
    rows: list[dict[str, Any]] = []
    for kind, outcome in answer.enriched.items():
        asked_at, answered_at = answer.asked(kind)
        states = answer.enrichments.get(kind)
        rows.append(
            {
                "record": "answer",
                "kind": kind,
                "received_at": None,
                "asked_at": asked_at,
                "answered_at": answered_at if outcome.startswith("ok") else None,
                "outcome": outcome,
                "digest": None if states is None else _digest(kind, states, answer),
                "interval_ms": answer.interval_ms,
                "scheduled_at": answer.scheduled_at,
                "topic_filter": answer.topic_filter,
            }
        )
    return rows


def digest(*said: Any) -> bytes:
    """Of what can be written as JSON."""
    return hashlib.blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).digest()


def topic_digest(topic: dict[str, Any]) -> bytes:
    """Whatever the order in which sets are listed."""
    partitions = [
        {
            **p,
            "isr": sorted(p["isr"]),
            "offline_replicas": p["offline_replicas"] and sorted(p["offline_replicas"]),
        }
        for p in topic["partitions"]
    ]
    return digest({**topic, "partitions": partitions})


def answer_digest(a: Answer, topics: dict[str, bytes]) -> bytes:
    """Of all that the answer says."""
    return digest({name: of_topic.hex() for name, of_topic in topics.items()}, a.brokers, a.levels)


def bronze_rows(alias: str, answers: list[Answer]) -> list[dict[str, Any]]:
    """What a poller would have written: a key frame first in each batch, then what changed."""
    rows: list[dict[str, Any]] = []
    said: dict[str, bytes] = {}
    key_framed: tuple[int, str | None] | None = None
    days: dict[int, Any] = {}
    for a in answers:
        key = {
            "poll_id": a.poll_id,
            "stream": a.stream,
            "n": a.n,
            "cluster": alias,
            "chunk": 0,
            "day": days.setdefault(a.batch, a.scheduled_at.date()),
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
            "broker_id": a.broker_id,
            "broker": None if a.broker_id is None else f"host{a.broker_id}:9092",
            "api_version": a.api_version,
            "metadata_version_level": a.levels[0],
            "metadata_version_highest": a.highest,
            "elr_version_level": a.levels[1],
            "active_controller_id": a.controller if a.ok else None,
            "topic_filter": a.topic_filter,
            "witnesses": a.witnesses,
        }
        if not a.ok:
            rows.append(header)
            continue
        is_key_frame = key_framed != (a.batch, a.cluster_id)
        if is_key_frame:
            said, key_framed = {}, (a.batch, a.cluster_id)
        digests = {name: topic_digest(topic) for name, topic in a.topics.items()}
        rows.append(
            {
                **header,
                "is_key_frame": is_key_frame,
                "topic_count": len(a.topics),
                "partition_count": sum(len(topic["partitions"]) for topic in a.topics.values()),
                "digest": answer_digest(a, digests),
                "brokers": [
                    {"broker_id": b, "host": h, "port": p, "rack": rack}
                    for b, (h, p, rack) in a.brokers.items()
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
        rows += [
            {**key, "record": "topic", "topic": name, "present": False}
            for name in said
            if name not in a.topics
        ]
        rows += [{**key, **row} for row in (*answer_headers(a), *enrichment_rows(a))]
        said = digests
    return [dict.fromkeys(COLUMNS) | row for row in rows]
