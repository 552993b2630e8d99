"""All of one group: what the coordinators' log and polls have new of it, to rows of gold and what to remember.

The log and polls are told apart, each by its own fold. From a group's first record on, polls tell of it only when its
rebalances began: the log is exact, but has them only once they are over.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.groups import polls, state
from jobs.rules.groups.begins import begins
from jobs.rules.groups.fold import fold as fold_log
from jobs.rules.groups.fold import same_batch
from jobs.rules.groups.lives import Life, lived, there_again
from jobs.rules.groups.micros import from_micros, to_micros
from jobs.rules.groups.rows import UNKNOWN, End, Told, end_columns
from jobs.rules.groups.state import Moment
from jobs.rules.groups.storms import CRASH_LOOP, STORM, Chain, Chains, Who, stormed
from jobs.rules.ids import row_id
from jobs.rules.memory import from_json, to_json
from schemas import groups
from schemas.groups import TABLES
from schemas.table import PART, Table

Row = dict[str, Any]
Live = Mapping[str, Sequence[Row]]
LOG, POLLS = "log", "polls"
REBALANCES, MEMBERS = groups.REBALANCES_TOLD.full_name, groups.REBALANCE_MEMBERS_TOLD.full_name
EVENTS, STORMS = groups.GROUP_EVENTS_TOLD.full_name, groups.REBALANCE_STORMS_TOLD.full_name
LIVES, BEGINS = groups.GROUP_LIVES.full_name, groups.REBALANCE_BEGINS.full_name
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Group:
    """Which group, as the columns of every table say it."""

    cluster_id: str
    cluster: str
    group_id: str


@dataclass(frozen=True)
class News:
    """The news of a group.

    `records`: rows of bronze.group_log in the order of their places: the group's own, and what was lost or truncated of
    its partition. `read_to`: partition of the log -> the offset up to which it has been read. `states`: rows of
    silver.group_snapshots in order, as of the last poll that is taken; those that began have `is_new`. `log_partition`:
    that keeps the group, by its id, where that is known.
    """

    records: Sequence[Row] = ()
    read_to: Mapping[int, int] = field(default_factory=dict)
    states: Sequence[Row] = ()
    log_partition: int | None = None


@dataclass(frozen=True)
class Folded:
    """The memory of the group, fit for JSON, and rows by table, without updated_at."""

    memory: Row
    rows: Mapping[str, list[Row]]


def fold(group: Group, memory: Mapping[str, Any] | None, live: Live, news: News, limits: Any) -> Folded:
    """The rows that the news of one group make.

    `memory`: as the last fold of the group returned it, None before the first. `live`: its live rows by table.
    `limits`: thresholds of storms and crash loops. A row that is told takes the place of the live one with its key.
    """
    kept = memory or {}
    of_log, of_polls = (_Source(group, each, kept.get(each), live, limits) for each in (LOG, POLLS))
    logged_from = kept.get("logged_from")
    records = list(news.records) if LOG in kept else _from_first_record(news.records)
    if records:
        if logged_from is None:
            logged_from = to_micros(of_polls.give_way(_begin_of(records[0])))
        of_log.take_records(records, news.read_to, from_micros(logged_from))
    if news.states and logged_from is None:
        of_polls.take_states(news.states, news.log_partition)
    rows = {table.full_name: of_log.rows[table.full_name] + of_polls.rows[table.full_name] for table in TABLES}
    if news.states:
        rows[BEGINS] = begins(news.states, next(iter(live.get(BEGINS, ())), None))
    remembered = {each.source: each.memory for each in (of_log, of_polls) if each.memory}
    if logged_from is not None:
        remembered["logged_from"] = logged_from
    whole = {name: [vars(group) | row for row in of_table] for name, of_table in rows.items()}
    return Folded(remembered, {table.full_name: _changed(table, whole, live) for table in TABLES})


def _changed(table: Table, told: Live, live: Live) -> list[Row]:
    """The rows that are told of a table, without those that say what live ones say already."""
    by = table.replaced_by or table.key
    names = [name for name in table.column_names if name not in ("updated_at", PART)]
    before, after = (_grouped(side.get(table.full_name, ()), by, names) for side in (live, told))
    return [
        row
        for key, rows in after.items()
        if rows != before.get(key)
        for row in rows.values()
        if table.none_without is None or row[table.none_without] is not None or key in before
    ]


def _grouped(rows: Iterable[Row], by: Sequence[str], names: Sequence[str]) -> dict[Any, dict[str, Row]]:
    """Rows by some columns, and by all that they say."""
    grouped: dict[Any, dict[str, Row]] = {}
    for row in rows:
        whole = {name: row.get(name) for name in names}
        grouped.setdefault(tuple(row[name] for name in by), {})[repr(whole)] = whole
    return grouped


def _from_first_record(rows: Sequence[Row]) -> list[Row]:
    """What came before a group was heard of says nothing of it."""
    first = next((number for number, row in enumerate(rows) if row["record"] == "record"), len(rows))
    return list(rows[first:])


def _begin_of(record: Row) -> datetime:
    """Since when the log tells of a group: its first record, or the begin of the rebalance that this is the end of."""
    at: datetime = record["timestamp"]
    return min(at, (record["classic"] or {}).get("state_timestamp") or at)


class _Source:
    """The rows that one source tells of a group: settled ones, and live ones that the next news may replace."""

    def __init__(self, group: Group, source: str, memory: Mapping[str, Any] | None, live: Live, limits: Any) -> None:
        self.source, self.memory = source, dict(memory or {})
        self.rows: defaultdict[str, list[Row]] = defaultdict(list)
        self._group, self._live = group, _live_of(source, live)
        self._limits = {
            STORM: (limits.storm, limits.storm_window // _MICROSECOND),
            CRASH_LOOP: (limits.crash_loop, limits.crash_loop_window // _MICROSECOND),
        }

    def take_records(self, records: Sequence[Row], read_to: Mapping[int, int], logged_from: datetime) -> None:
        """Fold rows of the log. What the last batch tells is settled once the log was read beyond it: a read may cut it
        in two.
        """
        before, first, last = state.from_json(self.memory.get("state")), records[0], records[-1]
        life = from_json(Life, self.memory.get("life")) if self.memory else Life(logged_from)
        begin = _last_batch(records)
        is_whole = begin == len(records) or read_to.get(last["log_partition"], 0) > last["offset"] + 1
        between, earlier = fold_log(before, records[:begin])
        now, of_batch = fold_log(between, records[begin:])
        told, pending = self._with_ids(earlier | of_batch), self._with_ids(of_batch)
        if begin == 0 and same_batch(before.at, before.last_offset, first):
            pending = self._live | pending
        settled, unsettled = _split(self._live | told, Told() if is_whole else pending)
        deleted = [row["offset"] for row in told.events.values() if row["event"] == "deleted"]
        ended, life = lived(life, settled.events.values())
        over, there = lived(life, unsettled.events.values())
        there = there_again(there, now.now.group_type, records, max(deleted, default=None))
        self.memory |= {"state": state.to_json(now), "life": to_json(there if is_whole else life)}
        self._tell(settled, unsettled)
        self._tell_lives(ended, [*over, there], last["log_partition"], now.known_since)

    def take_states(self, states: Sequence[Row], log_partition: int | None) -> None:
        """Fold states that polls showed."""
        open_, told = polls.polled(states, from_json(polls.Open, self.memory.get("open")))
        told = self._with_ids(told, log_partition=log_partition)
        first = Life(states[0]["valid_from"], group_type=polls.type_of(states[0]))
        ended, life = lived(from_json(Life, self.memory["life"]) if self.memory else first, told.events.values())
        self.memory |= {"open": to_json(open_), "life": to_json(life), "log_partition": log_partition}
        self._tell(*_split(self._live | told, Told()))
        self._tell_lives(ended, [life], log_partition)

    def give_way(self, at: datetime) -> datetime:
        """Tell no more: the log has the group since `at`. Returns since when it has the group and what was open."""
        is_open = {id_: row for id_, row in self._live.rebalances.items() if row["ended_before"] is None}
        at = min([at, *(row["began_before"] for row in is_open.values())])
        if not self.memory:
            return at
        for id_, row in is_open.items():
            end = End(UNKNOWN, Moment(row["began_before"]))
            self._live.rebalances[id_] = row | end_columns(row["began_after"], row["began_before"], end)
        life: Life | None = from_json(Life, self.memory["life"])
        ended = [replace(life, ended=max(life.began, at))] if life else []
        self._tell(self._live, Told())
        self._tell_lives(ended, [], self.memory["log_partition"])
        self.memory = {}
        return at

    def _with_ids(self, told: Told, **columns: Any) -> Told:
        """By ids in place of keys."""

        def id_of(key: Iterable[Any]) -> str:
            return row_id(self._group.cluster_id, self._group.group_id, *key)

        return Told(
            {id_of(key): row | columns | {"id": id_of(key)} for key, row in told.rebalances.items()},
            {id_of(key): rows for key, rows in told.members.items()},
            {id_of(key): row | columns | {"id": id_of(key)} for key, row in told.events.items()},
        )

    def _put(self, table: str, rows: Iterable[Row], *, is_live: bool) -> None:
        self.rows[table] += (row | {"source": self.source, "is_live": is_live} for row in rows)

    def _tell(self, settled: Told, unsettled: Told) -> None:
        """Put rows of both kinds into the tables."""
        for told, is_live in ((settled, False), (unsettled, True)):
            members = [each | {"rebalance_id": id_} for id_, of_one in told.members.items() for each in of_one or [{}]]
            self._put(REBALANCES, told.rebalances.values(), is_live=is_live)
            self._put(MEMBERS, members, is_live=is_live)
            self._put(EVENTS, told.events.values(), is_live=is_live)
        kept = {tuple(who): from_json(Chains, made) for who, made in self.memory.get("storms", ())}
        kept, over, may_change = stormed(kept, settled, unsettled, self._limits)
        self.memory["storms"] = [[who, to_json(chains)] for who, chains in kept.items()]
        self._put(STORMS, (self._storm(*each) for each in over), is_live=False)
        self._put(STORMS, (self._storm(*each) for each in may_change), is_live=True)
        if not over and not may_change:
            self._put(STORMS, [{}], is_live=True)

    def _storm(self, who: Who, chain: Chain) -> Row:
        kind, client_id, client_host = who
        micros = chain.last - chain.began
        return {
            "id": row_id(self._group.cluster_id, self._group.group_id, *who, chain.first),
            "kind": kind,
            "client_id": client_id,
            "client_host": client_host,
            "began_before": from_micros(chain.began),
            "last_before": from_micros(chain.last),
            "rebalances": chain.count,
            "per_hour": chain.count * 3600 / (micros / 1_000_000) if micros > 0 else None,
        }

    def _tell_lives(
        self,
        ended: Iterable[Life],
        live: Iterable[Life | None],
        partition: int | None,
        known_since: datetime | None = None,
    ) -> None:
        for lives, is_live in ((ended, False), (live, True)):
            rows = [
                {
                    "valid_from": life.began,
                    "valid_to": life.ended,
                    "log_partition": partition,
                    "group_type": life.group_type,
                    "known_since": known_since if self.source == LOG else life.began,
                }
                for life in lives
                if life is not None
            ]
            self._put(LIVES, rows, is_live=is_live)


def _live_of(source: str, live: Live) -> Told:
    """The live rows that a source told, by ids."""
    rebalances, events = (
        {row["id"]: row for row in live.get(table, ()) if row["source"] == source} for table in (REBALANCES, EVENTS)
    )
    members: dict[str, list[Row]] = {id_: [] for id_ in rebalances}
    for row in live.get(MEMBERS, ()):
        if row["rebalance_id"] in members:
            members[row["rebalance_id"]].append(row)
    return Told(rebalances, members, events)


def _split(told: Told, pending: Told) -> tuple[Told, Told]:
    """What is settled, and what may change: what is `pending`, by ids, and rebalances that are open."""
    settled, unsettled = Told(), Told()
    for id_, row in told.rebalances.items():
        side = unsettled if id_ in pending.rebalances or row["ended_before"] is None else settled
        side.rebalances[id_], side.members[id_] = row, told.members[id_]
    for id_, row in told.events.items():
        side = unsettled if id_ in pending.events else settled
        side.events[id_] = row
    return settled, unsettled


def _last_batch(records: Sequence[Row]) -> int:
    """Where the batch begins that the last record is of; after all where the last row is no record."""
    begin = len(records)
    while begin and records[begin - 1]["record"] == "record":
        begin -= 1
        if not begin or not _follows(records[begin], records[begin - 1]):
            break
    return begin


def _follows(row: Row, before: Row) -> bool:
    return before["record"] == "record" and same_batch(before["timestamp"], before["offset"], row)
