"""What silver must say of a history: the rules a second time, in the dumbest way.

One cluster, one poll at a time, dictionaries. The oracle looks at answers, not at digests or key
frames, and rebuilds the accepted view after each accepted poll; rows are then read off the views.
It shares no code with jobs/rules.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from metadata_source import kinds
from tests.support.histories import UNTOLD, Answer
from tests.support.oracles.silver_tables import KEYS, KINDS, STATES
from tests.support.transaction_lives import KEYS as TRANSACTIONS
from tests.support.transaction_lives import NOT_TOLD, told_before


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
    """Topics that the answer shows, normalized: sorted sets, no epochs below v9; errors 3 and 29
    are not shown.
    """
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


def made_again(topic_id: str | None, epochs: dict[int, int | None], topic: dict[str, Any]) -> bool:
    """Whether a topic is another one than the known one: by the ids, or by a fall of all epochs
    where none has one.
    """
    if topic_id or topic["topic_id"]:
        return bool(topic_id and topic["topic_id"] and topic_id != topic["topic_id"])
    now = {k: p["leader_epoch"] for k, p in enumerate(topic["partitions"])}
    pairs = [(epochs[k], e) for k, e in now.items() if e is not None and epochs.get(k) is not None]
    return any(e < old for old, e in pairs) and all(e in range(max(old, 1)) for old, e in pairs)


def confirmed_at(answer: Answer) -> datetime:
    """By when an answer was true: with the first other broker that showed the same, if one did."""
    others = [told["received_at"] for told in answer.witnesses or () if told["is_behind"] is False]
    return max(answer.received_at, min(filter(None, others), default=answer.received_at))


def accepted_answers(
    answers: list[Answer], cluster_id: str, kind: str = "kafka"
) -> list[tuple[Answer, datetime, datetime]]:
    accepted: list[tuple[Answer, datetime, datetime]] = []
    ids: dict[str, str | None] = {}
    epochs: dict[
        str, dict[int, int]
    ] = {}  # the last that was told of each partition, while its topic lives
    absences: dict[str, int] = {}
    ended: dict[str, list[str]] = {}  # ids of topics that others of the same name replaced
    waiting: list[tuple[Answer, datetime]] = []

    def another(name: str, topic: dict[str, Any]) -> bool:
        return bool(ids.get(name) and topic["topic_id"] and ids[name] != topic["topic_id"])

    def accept(answer: Answer) -> None:
        at, sent = confirmed_at(answer), answer.sent_at
        if accepted:
            before, at_before, sent_before = accepted[-1]
            # Nothing comes before the answers beside the poll before.
            at = max(at, at_before, *(before.asked(kind)[1] for kind in before.enrichments))
            sent = max(sent, sent_before)
        accepted.append((answer, at, sent))
        shown = trusted(answer)
        for name in list(epochs):
            absences[name] = 0 if name in shown else absences[name] + 1
            if absences[name] == 2:
                del epochs[name], ids[name], absences[name]
                ended.pop(name, None)
        for name, topic in shown.items():
            if name in epochs and made_again(ids[name], epochs[name], topic):
                replaced = [*ended.get(name, ()), ids[name]]
                ended[name] = [each for each in replaced if each and each != topic["topic_id"]]
            if name not in epochs or made_again(ids[name], epochs[name], topic):
                ids[name], epochs[name], absences[name] = None, {}, 0
            ids[name] = topic["topic_id"] or ids[name]
            if topic["error_code"] == 0:
                epochs[name] = {
                    k: e for k, e in epochs[name].items() if k < len(topic["partitions"])
                }
            for k, p in enumerate(topic["partitions"]):
                if (
                    p["leader_epoch"] is not None
                    and "leader_epoch" not in kinds.KINDS[kind].columns
                ):
                    epochs[name][k] = p["leader_epoch"]

    for a in sorted(answers, key=lambda answer: answer.poll_id):
        if not a.ok or a.cluster_id != cluster_id:
            continue
        stale = False
        for name, topic in trusted(a).items():
            stale |= topic["topic_id"] in ended.get(name, ())
            for k, p in enumerate(topic["partitions"]):
                known = None if another(name, topic) else epochs.get(name, {}).get(k)
                if (
                    known is not None
                    and p["leader_epoch"] is not None
                    and p["leader_epoch"] < known
                ):
                    stale = True
        if stale:
            floor = waiting[-1][1] if waiting else accepted[-1][1]
            waiting.append((a, max(a.received_at, floor)))
            by_clock = len(waiting) >= 5 and waiting[-1][1] - waiting[0][1] >= timedelta(seconds=60)
            polled_for_ms = sum(one.interval_ms for one, _ in waiting[1:])
            if by_clock or (len(waiting) >= 10 and polled_for_ms >= 120_000):
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


def epochs_of(topic: dict[str, Any]) -> dict[int, int | None]:
    return {k: p["leader_epoch"] for k, p in topic["partitions"].items()}


def views(
    answers: list[Answer], cluster_id: str, kind: str = "kafka"
) -> tuple[list[View], dict[tuple[str, int], tuple[str, str]], set[str]]:
    """The accepted views in order; how topics' lives ended ((topic, life) -> (poll id, as what));
    topics missing at the last.
    """
    accepted = accepted_answers(answers, cluster_id, kind)
    shown = [trusted(a) for a, _, _ in accepted]
    result: list[View] = []
    ended: dict[tuple[str, int], tuple[str, str]] = {}
    missing: set[str] = set()
    life: dict[str, int] = {}
    current: dict[str, dict[str, Any]] = {}  # topic -> merged state, ISR and all
    brokers: dict[int, tuple] = {}
    levels: tuple = (None, None)
    nothing = kinds.KINDS[kind].columns
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
                    else "gone"
                    if covers(nxt.topic_filter, name)
                    else "not_polled"
                )
                ended[name, life[name]] = (a.poll_id, reason)
                del current[name]
            elif made_again(old_id, epochs_of(current[name]), following[name]):
                ended[name, life[name]] = (a.poll_id, "recreated")
                del current[name]
        for name, topic in shown[i].items():
            old = current.get(name)
            if old and made_again(old["topic_id"], epochs_of(old), topic):
                ended[name, life[name]] = (a.poll_id, "recreated")
                old = None
            if old is None:
                life[name] = life.get(name, -1) + 1
                old = {
                    "topic_id": None,
                    "error_code": None,
                    "is_internal": None,
                    "count": None,
                    "partitions": {},
                }
            only_error = topic["error_code"] != 0 and not topic["partitions"]
            merged_id = topic["topic_id"] or old["topic_id"]
            partitions = dict(old["partitions"])
            if not only_error and topic["error_code"] == 0:
                partitions = {k: v for k, v in partitions.items() if k < len(topic["partitions"])}
            for k, p in enumerate(topic["partitions"]):
                before = partitions.get(k, {})
                told = {f: v for f, v in p.items() if f not in nothing and v is not None}
                partitions[k] = {f: None if f in nothing else told.get(f, before.get(f)) for f in p}
                # An id that became known with an answer that did not show the partition is known
                # from its next answer on.
                partitions[k]["topic_id"] = topic["topic_id"] or before.get("topic_id")
            current[name] = {
                "topic_id": merged_id,
                "error_code": topic["error_code"],
                "is_internal": topic["is_internal"],
                "count": old["count"] if only_error else len(topic["partitions"]),
                "partitions": partitions,
            }
        brokers = {b: tuple(v) for b, v in a.brokers.items()}
        levels = tuple(
            old if new is None else new for old, new in zip(levels, a.levels, strict=True)
        )
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
                        *(
                            None if p[f] is None else tuple(p[f])
                            for f in ("replicas", "isr", "offline_replicas")
                        ),
                    )
                    for t, s in current.items()
                    for k, p in s["partitions"].items()
                },
                brokers,
                # No random cluster tells the software of its brokers.
                (*levels, None, kind, tuple(kinds.KINDS[kind].reasons)),
                a.interval_ms,
            )
        )
    return result, ended, missing


@dataclass
class Seen:
    """What one poll of a line showed: things (a key, and the life that it is in) and their
    states.
    """

    poll_id: str
    at: datetime
    sent_at: datetime
    interval_ms: int
    states: dict[tuple[tuple, int], tuple]
    silent: frozenset[int] = frozenset()
    """Brokers that told nothing: of what a key begins with one of, the poll shows nothing."""


def expected_rows(
    answers: list[Answer], alias: str, kind: str = "kafka"
) -> dict[str, list[dict[str, Any]]]:
    """Every row of silver's interval tables and of poll_gaps, by table."""
    cluster_id = f"id-{alias}"
    line, ended, _ = views(answers, cluster_id, kind)

    def seen(states: Callable[[View], dict]) -> list[Seen]:
        return [
            Seen(view.poll_id, view.at, view.sent_at, view.interval_ms, states(view))
            for view in line
        ]

    def end_of_topic(key: tuple, life: int, at: Seen) -> str:
        poll_id, reason = ended.get((key[0], life), (None, None))
        return reason if poll_id == at.poll_id else "gone"

    def gone(key: tuple, life: int, at: Seen) -> str:
        return "gone"

    rows = {
        "topic_snapshots": (
            seen(lambda v: {((t,), n): s for (t, n), s in v.topics.items()}),
            end_of_topic,
        ),
        "partition_snapshots": (
            seen(lambda v: {((t, k), n): s for (t, n, k), s in v.partitions.items()}),
            end_of_topic,
        ),
        "broker_snapshots": (seen(lambda v: {((b,), 0): s for b, s in v.brokers.items()}), gone),
        "cluster_snapshots": (seen(lambda v: {((), 0): v.levels}), gone),
        "history_sources": (seen(lambda _: {((), 0): ("polls",)}), gone),
    }
    accepted = accepted_answers(answers, cluster_id, kind)
    after = [(a, at, accepted[n - 1][1] if n else None) for n, (a, at, _) in enumerate(accepted)]
    for asked, table in KINDS.items():
        rows[table] = enrichment_line(asked, [one for one in after if asked in one[0].enrichments])
    of_cluster = {"cluster_id": cluster_id, "cluster": alias}
    tables = {
        f"silver.{table}": [of_cluster | row for row in rows_of(table, *line_and_ends)]
        for table, line_and_ends in rows.items()
    }
    far = {a.poll_id: how_far(a) for a in answers if () in a.enrichments.get("quorum", ())}
    for row in tables["silver.quorum"]:
        row["behind"] = far.get(row["first_poll"])
    tables["silver.poll_gaps"] = [of_cluster | row for row in gap_rows(answers, line, cluster_id)]
    return tables


def how_far(answer: Answer) -> list[dict[str, Any]] | None:
    """Replica n has the controllers' log up to 100 - n (tests/support/bronze_rows.py)."""
    leader, _, voters, observers, *behind = answer.enrichments["quorum"][()]
    told = [of for of, whom in zip((voters, observers), behind, strict=True) if whom is not None]
    is_there = any(leader in of for of in told)
    rows = [
        {"replica_id": n, "is_voter": of is voters, "caught_up_at": None}
        | {"offsets": max(0, n - leader) if is_there else None}
        for of, whom in zip((voters, observers), behind, strict=True)
        for n in whom or ()
    ]
    return rows if any(told) else None


def enrichment_line(
    kind: str, line: list[tuple[Answer, datetime, datetime | None]]
) -> tuple[list[Seen], Callable[[tuple, int, Seen], str]]:
    known: dict[Any, tuple] = {}
    seen = []
    filters = {a.poll_id: a.topic_filter for a, _, _ in line}
    asked_before = None
    answered_before = None
    for a, polled_at, polled_before in line:
        asked_at, answered_at = a.asked(kind)
        # One that came before its poll's own answer comes after that of the poll before.
        least = polled_before if polled_before is not None and kind in a.early else polled_at
        at, sent_at = (
            max(least, answered_at, answered_before or least),
            max(asked_at, asked_before or asked_at),
        )
        asked_before, answered_before = sent_at, at
        states = {}
        for key, said in a.enrichments[kind].items():
            # What an answer does not tell stays as it was; of a group all of it or nothing.
            old = known.get(key, (None,) * len(said))
            merged = tuple(was if now is None else now for now, was in zip(said, old, strict=True))
            whole = said if kind == "log_dirs" else merged
            states[key] = whole if kind != "groups" else old if said == UNTOLD else said
        if kind == "transactions":
            now = a.enrichments[kind]
            told = {key: now[key] for key in TRANSACTIONS if now.get(key, NOT_TOLD) != NOT_TOLD}
            open_still = {key: told_before(key, now, known) for key in TRANSACTIONS}
            states = told | {key: state for key, state in open_still.items() if state}
        if kind == "log_dirs":
            # A broker that did not answer has what it had.
            silent = a.silent_brokers
            states |= {key: old for key, old in known.items() if key[0] in silent}
        known = states
        seen.append(
            Seen(
                a.poll_id,
                at,
                sent_at,
                a.interval_ms,
                {(key, 0): s for key, s in known.items()},
                a.silent_brokers if kind == "log_dirs" else frozenset(),
            )
        )

    def reason(key: tuple, life: int, at: Seen) -> str:
        by_topic = kind in {"configs", "reassignments", "elr"}
        return "gone" if not by_topic or covers(filters[at.poll_id], key[0]) else "not_polled"

    return seen, reason


def rows_of(
    table: str, line: Sequence[Seen], reason: Callable[[tuple, int, Seen], str]
) -> list[dict[str, Any]]:
    """The rows of one table: one for each stretch of a thing in one state."""
    names = STATES[table]
    rows: list[dict[str, Any]] = []
    for thing in {thing: None for seen in line for thing in seen.states}:
        key, life = thing
        row: dict[str, Any] | None = None
        told: Seen | None = None  # the last one before that shows it, or that it is not there
        for before, seen in pairwise([None, *line]):
            assert seen is not None
            if before is not None and not (key and key[0] in before.silent):
                told = before
            state = seen.states.get(thing)
            if row is not None and before is not None and before.states[thing] != state:
                assert told is not None
                rows.append(
                    row
                    | {
                        "last_poll": told.poll_id,
                        "last_seen_at": told.at,
                        "last_seen_sent_at": told.sent_at,
                        "superseded_poll": seen.poll_id,
                        "valid_to": seen.at,
                        "end_reason": None if state is not None else reason(key, life, seen),
                    }
                )
                row = None
            if state is not None and row is None:
                old = before.states.get(thing) if before else None
                row = {
                    **dict(zip(KEYS[table], key, strict=True)),
                    **dict(zip(names, state, strict=True)),
                    **{f"prev_{n}": old and old[i] for i, n in enumerate(names) if n != "topic_id"},
                    "first_poll": seen.poll_id,
                    "valid_from": seen.at,
                    "prev_poll": told and told.poll_id,
                    "prev_sent_at": told and told.sent_at,
                    "interval_ms": seen.interval_ms,
                    **dict.fromkeys(("last_poll", "last_seen_at", "last_seen_sent_at")),
                    **dict.fromkeys(
                        ("superseded_poll", "valid_to", "end_reason", "from_offset", "to_offset")
                    ),
                }
        if row is not None:
            rows.append(row)
    return rows


def gap_rows(answers: list[Answer], line: list[View], cluster_id: str) -> list[dict[str, Any]]:
    rows = []
    for before, view in pairwise(line):
        if (view.at - before.at).total_seconds() <= 2 * view.interval_ms / 1000:
            continue
        between = [a for a in answers if before.poll_id < a.poll_id < view.poll_id]
        failed = [a for a in between if not a.ok]
        refused = [a for a in between if a.ok and a.cluster_id != cluster_id]
        stale = len(between) - len(failed) - len(refused)
        rows.append(
            {
                "after_poll": before.poll_id,
                "gap_start": before.at,
                "until_poll": view.poll_id,
                "gap_end": view.at,
                "interval_ms": view.interval_ms,
                "failed_polls": len(failed),
                "refused_polls": len(refused),
                "stale_polls": stale,
                "error_kinds": sorted({a.error_kind for a in failed}),
                "reason": "failed"
                if failed
                else "refused"
                if refused
                else "stale"
                if stale
                else "not_polled",
            }
        )
    return rows
