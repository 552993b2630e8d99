"""The state of clusters, of a topic, a broker or a group at a time, as rows, the worst first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypedDict

import pyarrow as pa

from jobs.rules.gold.isr import effective_min_isr
from jobs.rules.gold.news import Levels
from kafka_metadata_history.answers.asof.read import FENCED
from kafka_metadata_history.answers.whatif.rules import NO_LEADER, standing
from metadata_source.kinds import OFFLINE, UNDER_REPLICATED
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.asof.read import AsOf, Facts, PartitionRow

NOT_LISTED: Final = "not_listed"
"""State of a broker that has replicas, and is neither listed nor known to be fenced."""
UNDER_MIN_ISR, IN_SYNC = "under_min_isr", "in_sync"
LEVELS: Final = (OFFLINE, UNDER_MIN_ISR, UNDER_REPLICATED, IN_SYNC)
"""Levels of a partition, the worst first. `in_sync`: all replicas are in the ISR."""
_INTS: Final = pa.list_(pa.int32())
_TEXTS: Final = pa.list_(pa.string())
_TIME: Final = pa.timestamp("us", "UTC")
CLUSTERS: Final = pa.schema(
    {
        "cluster": pa.string(),
        "offline": pa.int64(),
        "under_min_isr_min": pa.int64(),
        "under_min_isr_max": pa.int64(),
        "under_replicated": pa.int64(),
        "brokers": pa.int64(),
        "fenced": pa.int64(),
        "controller_id": pa.int32(),
        "racks": _TEXTS,
        "age_s": pa.float64(),
        "partitions": pa.int64(),
        "at": _TIME,
    }
)
PARTITIONS: Final = pa.schema(
    {
        "cluster": pa.string(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "level": pa.string(),
        "leader": pa.int32(),
        "isr": _INTS,
        "replicas": _INTS,
        "min_isr": pa.int32(),
        "since": _TIME,
        "settings": _TEXTS,
        "leader_epoch": pa.int32(),
        "adding_replicas": _INTS,
        "removing_replicas": _INTS,
        "elr": _INTS,
    }
)
BROKERS: Final = pa.schema(
    {
        "cluster": pa.string(),
        "state": pa.string(),
        "rack": pa.string(),
        "address": pa.string(),
        "since": _TIME,
        "leads": pa.int64(),
        "replicates": pa.int64(),
        "isrs_lacking_it": pa.int64(),
        "lacking_in": _TEXTS,
        "preferred_for": pa.int64(),
        "incarnation_id": pa.string(),
        "broker_epoch": pa.int64(),
    }
)
LOADS: Final = pa.schema(
    {
        "cluster": pa.string(),
        "rack": pa.string(),
        "broker_id": pa.int32(),
        "state": pa.string(),
        "leads": pa.int64(),
        "preferred_for": pa.int64(),
        "replicates": pa.int64(),
        "offline": pa.int64(),
        "under_min_isr": pa.int64(),
        "under_replicated": pa.int64(),
        "address": pa.string(),
        "since": _TIME,
    }
)
GROUPS: Final = pa.schema(
    {
        "cluster": pa.string(),
        "group_type": pa.string(),
        "state": pa.string(),
        "coordinator": pa.int32(),
        "lag_min": pa.int64(),
        "lag_max": pa.int64(),
        "client_id": pa.string(),
        "client_host": pa.string(),
        "assigned": _TEXTS,
        "members": pa.int64(),
        "assignor": pa.string(),
        "generation": pa.int32(),
        "member_id": pa.string(),
        "instance_id": pa.string(),
    }
)
Row = dict[str, Any]


class _Alike(TypedDict):
    """So many partitions whose leader, ISR, replicas and min ISR are alike."""

    cluster: str
    has_leader: bool | None
    isr: int | None
    replicas: int | None
    min_insync_replicas: int | None
    is_any_out: bool | None
    partitions: int


class ClusterRow(TypedDict):
    """A cluster at a time: how many partitions are at each level, how many brokers are listed and
    fenced. None: that means nothing, or is not known. `_min`, `_max`: at least and at most.

    `one_in_sync`: one replica of several is in the ISR, and leads. `not_known`: partitions of which
    nobody knows whether they are under min ISR.
    """

    cluster: str
    partitions: int
    offline: int | None
    under_min_isr_min: int
    under_min_isr_max: int
    at_min_isr_min: int
    at_min_isr_max: int
    one_in_sync_min: int
    one_in_sync_max: int
    under_replicated: int | None
    not_known: int
    brokers: int
    fenced: int | None
    controller_id: int | None
    racks: Sequence[str]
    at: datetime


def clusters(state: AsOf, now: datetime) -> tuple[pa.Table, list[str]]:
    """Return a row for each cluster, and lines that say what is not known. A count of partitions is
    null where it means nothing, or nobody knows one of them.
    """
    rows, lacks = [], []
    for each in cluster_rows(state):
        name, until = each["cluster"], state.reach[each["cluster"]].until
        rows.append({**each, "age_s": None if until is None else (now - until).total_seconds()})
        lacking = [
            *(["min ISR (`enrich: configs`)"] if each["not_known"] else []),
            *(["fenced brokers (`enrich: fenced`)"] if each["fenced"] is None else []),
            *(["the controller (`enrich: quorum`)"] if state.facts[name].voters is None else []),
        ]
        if lacking:
            lacks.append(f"{name}: not known: {'; '.join(lacking)}")
    rows.sort(key=_worst)
    return _table(rows, CLUSTERS), lacks


def cluster_rows(state: AsOf) -> list[ClusterRow]:
    """Return a row for each cluster that has a state then, by name."""
    alike: dict[str, list[_Alike]] = {name: [] for name in state.facts}
    for row in state.rows("levels"):
        alike[row["cluster"]].append(_Alike(**row))  # type: ignore[typeddict-item]
    brokers: dict[str, list[Row]] = {name: [] for name in state.facts}
    for row in state.rows("brokers"):
        brokers[row["cluster"]].append(row)
    rows: list[ClusterRow] = []
    for name, fact in state.facts.items():
        knows_fenced = fact.by_log or "fenced" in state.answered[name]
        of = brokers[name]
        fenced = sum(each["state"] == FENCED for each in of)
        rows.append(
            {
                "cluster": name,
                **_counts(alike[name], fact),  # type: ignore[typeddict-item]
                "brokers": len(of) - fenced,
                "fenced": fenced if knows_fenced else None,
                "controller_id": fact.controller_id,
                "racks": sorted({each["rack"] for each in of if each["rack"] is not None}),
                "at": state.at_of(name),
            }
        )
    return rows


def _counts(alike: Iterable[_Alike], fact: Facts) -> Row:
    found = dict.fromkeys(("partitions", "offline", "under", "at", "one", "replicated"), 0)
    not_known = {"min ISR": 0, "ISR": 0}
    odd = {each.partition(":")[0] for each in fact.not_meaningful or ()}
    for each in alike:
        isr, replicas, many = each["isr"], each["replicas"], each["partitions"]
        min_isr = _min_isr(each["min_insync_replicas"], replicas, fact)
        stands = standing(each["has_leader"], isr, min_isr)
        leads = stands.offline is False
        found["partitions"] += many
        found["offline"] += many * bool(stands.offline)
        found["under"] += many * bool(stands.under_min_isr)
        found["at"] += many * (leads and isr is not None and isr == min_isr)
        found["one"] += many * (leads and isr == 1 and replicas is not None and replicas > 1)
        found["replicated"] += many * bool(each["is_any_out"])
        not_known["min ISR"] += many * (stands.under_min_isr is None)
        is_one_known = stands.offline or (leads and isr is not None and replicas is not None)
        not_known["ISR"] += many * (not is_one_known)
        odd |= {OFFLINE} if stands.offline is None else set()
        odd |= {UNDER_REPLICATED} if each["is_any_out"] is None else set()
    return {
        "partitions": found["partitions"],
        "offline": None if OFFLINE in odd else found["offline"],
        "under_min_isr_min": found["under"],
        "under_min_isr_max": found["under"] + not_known["min ISR"],
        "at_min_isr_min": found["at"],
        "at_min_isr_max": found["at"] + not_known["min ISR"],
        "one_in_sync_min": found["one"],
        "one_in_sync_max": found["one"] + not_known["ISR"],
        "under_replicated": None if UNDER_REPLICATED in odd else found["replicated"],
        "not_known": not_known["min ISR"],
    }


def _min_isr(setting: int | None, replicas: int | None, fact: Facts) -> int | None:
    levels = Levels(fact.metadata_version_level, highest=fact.metadata_version_highest)
    return None if replicas is None else effective_min_isr(setting, replicas, levels)


def _worst(row: Mapping[str, Any]) -> tuple[object, ...]:
    counts = ("offline", "under_min_isr_min", "under_replicated", "fenced")
    return (*(-(row[each] or 0) for each in counts), row["cluster"])


def not_well(state: AsOf) -> pa.Table:
    """Return a row for each partition that is offline, under min ISR or under-replicated, or of
    which nobody knows that, the worst first: PARTITIONS.
    """
    rows = [
        found
        for row in state.partitions(only_not_well=True)
        if row["cluster"] in state.facts
        and (found := _partition(row, (), state.facts[row["cluster"]]))["level"] != IN_SYNC
    ]
    return _table(sorted(rows, key=_worst_partition), PARTITIONS)


def loads(state: AsOf, partitions: pa.Table) -> pa.Table:
    """Return a row for each broker that is there or has replicas, by rack, with how many of its
    partitions are at each level: LOADS. `partitions`: as `not_well` returned them.
    """
    counts: Counter[tuple[str, int, str]] = Counter()
    for row in partitions.to_pylist():
        for broker_id in row["replicas"] or ():
            counts[row["cluster"], broker_id, row["level"]] += 1
    has = {(row["cluster"], row["broker_id"]): row for row in state.rows("loads")}
    there = {(row["cluster"], row["broker_id"]): row for row in state.rows("brokers")}
    none: Row = {"state": NOT_LISTED, **dict.fromkeys(("leads", "preferred_for", "replicates"), 0)}
    rows = [
        {
            **none,
            **has.get(of, {}),
            **there.get(of, {}),
            **{level: counts[(*of, level)] for level in LEVELS},
        }
        for of in {*has, *there}
    ]
    rows.sort(key=lambda row: (row["cluster"], row.get("rack") or "", row["broker_id"]))
    return _table(rows, LOADS)


def topic(state: AsOf, name: str) -> tuple[pa.Table, list[str]]:
    """Return a row for each partition of a topic, and lines that say what is not known."""
    settings: dict[str, list[str]] = {}
    for row in state.rows("settings", topic=name):
        settings.setdefault(row["cluster"], []).append(f"{row['name']}={row['value']}")
    rows = [
        _partition(row, sorted(settings.get(row["cluster"], ())), state.facts[row["cluster"]])
        for row in state.partitions(name)
        if row["cluster"] in state.facts
    ]
    lacks = [
        f"{cluster}: not known: min ISR and settings (`enrich: configs`)"
        for cluster in sorted({row["cluster"] for row in rows} - settings.keys())
    ]
    rows.sort(key=_worst_partition)
    return _table(rows, PARTITIONS), lacks or _not_there(rows, "topic", name, state)


def _worst_partition(row: Mapping[str, Any]) -> tuple[object, ...]:
    place = LEVELS.index(row["level"]) if row["level"] in LEVELS else len(LEVELS)
    return place, row["cluster"], row["topic"], row["partition"]


def _partition(row: PartitionRow, settings: Sequence[str], fact: Facts) -> Row:
    odd = {each.partition(":")[0] for each in fact.not_meaningful or ()}
    replicas, isr, setting = row["replicas"], row["isr"], row["min_insync_replicas"]
    has_leader = None if "leader" in odd else row["leader"] != NO_LEADER
    min_isr = _min_isr(setting, None if replicas is None else len(replicas), fact)
    stands = standing(has_leader, None if isr is None else len(isr), min_isr)
    out = None
    if replicas is not None and isr is not None:
        out = {*replicas} - {*isr, *(row["adding_replicas"] or ())}
    level = None if out is None else UNDER_REPLICATED if out else IN_SYNC
    if stands.offline:
        level = OFFLINE
    elif stands.under_min_isr:
        level = UNDER_MIN_ISR
    return {
        **row,
        "level": level,
        "min_isr": min_isr,
        "settings": settings,
    }


def broker(state: AsOf, broker_id: int) -> tuple[pa.Table, list[str]]:
    """Return a row for each cluster that has the broker, or has replicas on it, and lines that say
    what is not known. `since`: since when it is in that state, at that address, in that rack.
    """
    roles = {row["cluster"]: row for row in state.rows("roles", broker=broker_id)}
    listed = {row["cluster"]: row for row in state.rows("brokers") if row["broker_id"] == broker_id}
    counts = ("leads", "preferred_for", "replicates", "isrs_lacking_it")
    none: Row = {"state": NOT_LISTED, **dict.fromkeys(counts, 0)}
    rows = [
        {"cluster": name, **none, **roles.get(name, {}), **listed.get(name, {})}
        for name in sorted({*roles, *listed})
    ]
    rows.sort(key=lambda row: (-row["isrs_lacking_it"], row["cluster"]))
    lacks = [
        f"{name}: not known: its registration (the controllers' log does not tell)"
        for name in (row["cluster"] for row in rows)
        if name in state.facts and not state.facts[name].by_log
    ]
    return _table(rows, BROKERS), lacks or _not_there(rows, "broker", str(broker_id), state)


def group(state: AsOf, group_id: str) -> tuple[pa.Table, list[str]]:
    """Return a row for each member of a group, one without a member if it has none, and lines that
    say what is not known.
    """
    found = state.rows("members", group=group_id)
    rows = [
        {
            **row,
            "assigned": [*_assigned(row)],
            "members": sum(
                each["member_id"] is not None for each in found if each["cluster"] == row["cluster"]
            ),
        }
        for row in found
    ]
    lacks = []
    for name in sorted({row["cluster"] for row in rows}):
        of = next(row for row in rows if row["cluster"] == name)
        lacking = [
            *(["its state (`enrich: groups`, or the log of groups)"] if not of["state"] else []),
            *(["lag (`enrich: offsets`)"] if of["lag_max"] is None else []),
            *(["the coordinator"] if of["coordinator"] is None else []),
        ]
        if lacking:
            lacks.append(f"{name}: not known: {'; '.join(lacking)}")
    return _table(rows, GROUPS), lacks or _not_there(rows, "group", group_id, state)


def _assigned(row: Row) -> Iterator[str]:
    for each in row["assigned"] or ():
        partitions = ", ".join(map(str, sorted(each["partitions"])))
        yield f"{each['topic'] or each['topic_id']}: {partitions}"
    for each in row["tasks"] or ():
        partitions = ", ".join(map(str, sorted(each["partitions"])))
        yield f"{each['subtopology_id']}: {partitions}"


def _not_there(rows: Sequence[Row], what: str, name: str, state: AsOf) -> list[str]:
    if rows:
        return []
    where = f"in {state.cluster}" if state.cluster else f"in {counted(len(state.reach), 'cluster')}"
    return [f"{what} {name} was not there then {where}: history knows it at another time"]


def _table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )
