"""What differs between two states: of clusters at two times, or of two clusters."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from kafka_metadata_history.answers.asof.read import FENCED, sql_of
from kafka_metadata_history.answers.questions import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafka_metadata_history.answers.asof.read import AsOf

MANY: Final = 5
"""A table has so many rows of one kind of difference, or folds them."""
BROKER, RACK, TOPIC, GROUP, SETTING = "broker", "rack", "topic", "group", "setting"
LEADS, TOPIC_ID, REPLICAS = "leads", "topic id", "replicas"
CAME: Final = {BROKER: "came", RACK: "came", TOPIC: "made", GROUP: "made"}
GONE: Final = {BROKER: "gone", RACK: "gone", TOPIC: "deleted", GROUP: "deleted"}
HIDING: Final = ("unauthorized", "not_polled")
"""Reasons for which a topic is not shown, though it is there."""
_OWNERS: Final = {"2": TOPIC, "4": BROKER, "16": "client metrics", "32": GROUP}
"""Type of a resource that has settings -> its name."""
_ORDER: Final = (BROKER, RACK, "feature", "quorum", SETTING, TOPIC, "replica", "leads", GROUP)
"""How differences begin, in the order of the answer."""
_NOT_KEPT: Final = "(not kept"
"""How a value begins that may be a password: nobody knows whether two clusters have the same."""
CONFIGS: Final = "configs"
"""The source of settings in effect: where one is lacking, nobody could read it."""
_LATE: Final = timedelta(minutes=1)
_TELLS: Final = {
    CONFIGS: "min.insync.replicas, unclean.leader.election.enable (`enrich: configs`)",
    "log": "other settings, features, incarnations (the controllers' log)",
    "groups": "groups (`enrich: groups`, or the log of groups)",
}
"""Source -> what it tells, and what of the configuration brings it."""


class Row(NamedTuple):
    """A row of things.sql that is not equal on both sides. `source`: of a row of one side, whoever
    tells it, without whom nobody knows whether the other side had it.
    """

    cluster: str
    kind: str
    name: str
    part: str
    what: str
    source: str | None
    before: str | None
    after: str | None
    is_before: bool
    is_after: bool

    @property
    def is_on_both(self) -> bool:
        """Whether both sides have it."""
        return self.is_before and self.is_after

    @property
    def is_thing(self) -> bool:
        """Whether it says that the thing is there; else it is an attribute."""
        return self.what == self.kind

    @property
    def owner(self) -> tuple[str, str, str]:
        """The cluster, kind and name of the thing that it is an attribute or a setting of."""
        kind = _OWNERS.get(self.part.partition(" ")[0], "") if self.kind == SETTING else self.kind
        return self.cluster, kind, self.name


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, or one of `count` that are alike. `before`, `after`: None: there is none."""

    cluster: str
    what: str
    count: int
    name: str
    before: str | None
    after: str | None


def between_times(before: AsOf, after: AsOf) -> tuple[list[Row], list[str]]:
    """Return what differs between two times, of clusters whose history has both, and lines that say
    what is not compared.
    """
    rows = _different(before, after, "{cluster}")
    unknown, lines = set(), []
    sources = {(row["cluster"], row["source"]): row for row in after.rows("sources")}
    both = before.facts.keys() & after.facts.keys()
    for name in sorted(both):
        begin, end = before.at_of(name), after.at_of(name)
        for source, what in _TELLS.items():
            of = sources.get((name, source))
            if of is None or of["since"] > begin:
                unknown.add((name, source))
                since = f": known from {shown(of['since'])} on" if of else ""
                lines.append(f"{name}: not compared: {what}{since}")
            elif of["until"] is not None and of["until"] < end - _LATE:
                until = shown(of["until"])
                lines.append(f"{name}: the controllers' log is known up to {until} only")
        if before.facts[name].by_log != after.facts[name].by_log:
            unknown.add((name, FENCED))
    known = [
        row
        for row in rows
        if row.cluster in both
        and row.source != CONFIGS
        and (row.cluster, row.source) not in unknown
    ]
    return known, lines


def between_clusters(first: AsOf, second: AsOf) -> tuple[list[Row], list[str]]:
    """Return the settings that differ between two clusters, of topics of the same name and of all
    brokers, and lines that say what is not compared. The cluster of a row is empty.
    """
    unknown, lines = set(), []
    for state in (first, second):
        (name,) = state.reach
        since = {row["source"]: row["since"] for row in state.rows("sources")}
        for source in (CONFIGS, "log"):
            if source not in since or since[source] > state.at_of(name):
                unknown.add(source)
                lines.append(f"not compared: {_TELLS[source]}: {name} lacks them")
    found = _different(first, second, "")
    others = {row.owner for row in found if row.what == TOPIC}
    return [
        row
        for row in found
        if row.kind == SETTING
        and row.source not in {*unknown, CONFIGS}
        and not all((each or "").startswith(_NOT_KEPT) for each in (row.before, row.after))
        and row.owner not in others
        and (row.owner[1] == TOPIC or (row.owner[1] == BROKER and not row.name))
    ], lines


def _different(before: AsOf, after: AsOf, cluster: str) -> list[Row]:
    """Return the things that are not equal. `cluster`: empty: of whichever cluster they are."""
    things = sql_of("things")
    for name in ("brokers", "settings"):
        things = things.replace(f"{{{name}}}", sql_of(name))
    # A row that is valid at both times does not differ. Partitions are many: the others are read.
    ended = "valid_to <= CAST(:other AS TIMESTAMP)" if after.at else "NOT is_current"
    changes = [ended, "valid_from > CAST(:other AS TIMESTAMP)"] if cluster else ["false"] * 2
    sides = [
        state.sql(
            things.replace("{changes}", each), topic=None, other=other.at and other.at.isoformat()
        )
        for state, other, each in zip((before, after), (after, before), changes, strict=True)
    ]
    text = sql_of("differences").replace("{on_cluster}", "=" if cluster else "<>")
    found = before.ask(text.replace("{before}", sides[0]).replace("{after}", sides[1]))
    rows = (Row(**row) for row in found.to_pylist())
    return [row if cluster else row._replace(cluster="") for row in rows]


def hidden(state: AsOf) -> set[tuple[str, str]]:
    """Return the cluster and name of topics that are there, as far as anybody knows, and were not
    shown by then.
    """
    rows = state.rows("ended")
    return {(row["cluster"], row["topic"]) for row in rows if row["end_reason"] in HIDING}


def narrowed(rows: Iterable[Row], named: Mapping[str, object]) -> list[Row]:
    """Return the rows of a topic, a broker, a group, by the kind of thing -> its name."""
    kinds = {LEADS: BROKER}
    return [
        row
        for row in rows
        if not named or str(named.get(kinds.get(row.kind, row.owner[1]))) == row.name
    ]


def differences(
    rows: Sequence[Row],
    hidden_before: Collection[tuple[str, str]] = frozenset(),
    hidden_after: Collection[tuple[str, str]] = frozenset(),
) -> list[Difference]:
    """Return the differences that rows show, in order. Of a thing that came or is gone those of its
    attributes and settings are left out.
    """
    came_or_gone = {
        row.owner for row in rows if row.is_thing and row.kind != SETTING and not row.is_on_both
    }
    recreated = {row.owner for row in rows if row.what == TOPIC_ID and row.is_on_both}
    found = []
    for row in rows:
        is_setting = row.kind == SETTING
        # Settings of a broker stay while it is away. Replicas of a new topic did not move.
        is_its_own = is_setting and row.owner[1] == BROKER
        is_of_new = row.what == REPLICAS and row.owner in recreated
        if row.is_thing and not is_setting:
            found.append(_of_thing(row, hidden_after if row.is_before else hidden_before))
        elif is_its_own or (
            row.owner not in came_or_gone and (row.is_on_both or is_setting) and not is_of_new
        ):
            found.append(_of_attribute(row))
    return sorted(found, key=_place)


def _of_thing(row: Row, hidden: Collection[tuple[str, str]]) -> Difference:
    """`hidden`: topics that are not shown on the side that lacks the thing."""
    before, after, what = row.before, row.after, row.kind
    if row.kind == LEADS:
        before, after = before or "0", after or "0"
    elif row.is_on_both and row.kind == BROKER:
        what = f"{row.kind} state"
    elif not row.is_on_both and row.kind in CAME:
        verbs = GONE if row.is_before else CAME
        verb = verbs[row.kind]
        if row.kind == TOPIC and (row.cluster, row.name) in hidden:
            verb = "not shown" if row.is_before else "shown"
        what = f"{row.kind} {verb}"
    return Difference(row.cluster, what, 1, row.name, before or None, after or None)


def _of_attribute(row: Row) -> Difference:
    what, name = f"{row.kind} {row.what}", row.name
    if row.kind == SETTING:
        what, name = f"{SETTING} {row.part.partition(' ')[2]}", _resource(row)
    elif row.what == TOPIC_ID:
        what = "topic recreated"
    elif row.what == REPLICAS:
        what, name = _move(row.before or "", row.after or ""), f"{row.name}-{row.part}"
    return Difference(row.cluster, what, 1, name, row.before, row.after)


def _move(before: str, after: str) -> str:
    """Return the kind of difference of two lists of replicas."""
    one, other = (each.strip("[]").split(", ") for each in (before, after))
    if len(one) != len(other):
        return "replication factor"
    return "replica order" if {*one} == {*other} else "replicas moved"


def _resource(row: Row) -> str:
    """Return the name of what has a setting."""
    _, kind, name = row.owner
    if kind == TOPIC:
        return name
    return f"{kind} {name}" if name else "all brokers"


def _place(of: Difference) -> tuple[object, ...]:
    place = next((place for place, each in enumerate(_ORDER) if of.what.startswith(each)), 99)
    # Numbers in their order, topics that are Kafka's own last.
    number = int(of.name) if of.name.isdecimal() else -1
    return of.cluster, place, of.what, of.name.startswith("__"), number, of.name


def folded(found: Sequence[Difference]) -> list[Difference]:
    """Return like differences as one, the first of them, if they are many: those with the same
    values, or, if values are many too, all of one kind.
    """
    by_kind: dict[tuple[str, str], list[Difference]] = defaultdict(list)
    for each in found:
        by_kind[each.cluster, each.what].append(each)
    rows = []
    for alike in by_kind.values():
        by_value: dict[tuple[str | None, str | None], list[Difference]] = defaultdict(list)
        for each in alike if len(alike) > MANY else ():
            by_value[each.before, each.after].append(each)
        groups = list(by_value.values()) or [[each] for each in alike]
        groups = groups if len(groups) <= MANY else [alike]
        rows += [replace(each[0], count=len(each)) for each in groups]
    return rows


SCHEMA: Final = pa.schema(
    {
        "cluster": pa.string(),
        "what": pa.string(),
        "count": pa.int64(),
        "name": pa.string(),
        "before": pa.string(),
        "after": pa.string(),
    }
)


def as_rows(found: Iterable[Difference]) -> pa.Table:
    """Return differences as rows."""
    return pa.Table.from_pylist([asdict(each) for each in found], schema=SCHEMA)
