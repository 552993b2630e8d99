"""All of one group: what the coordinators' log and polls have new of it, to rows of gold and what
to remember.

Log and polls have a fold each. From a group's first record on, polls only tell when its rebalances
began: the log is exact, but has them only once they are over. Where __consumer_offsets gets more
partitions a group is kept in another one from then on, by a coordinator that never knew it, and the
one before lets it time out: each partition that has records of it is a log of its own.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, cast

from jobs.rules.groups import polls, state
from jobs.rules.groups.fold import fold as fold_log
from jobs.rules.groups.rows import MEMBER_ROWS, UNKNOWN, GroupOutput, Row, end_columns, key_of
from jobs.rules.groups.state import Moment, from_micros, to_micros, written_by
from jobs.rules.groups.storms import Chain, Who, stormed
from jobs.rules.ids import row_id
from jobs.rules.memory import from_json, to_json
from schemas import groups
from schemas.table import PART, Table

Live = Mapping[str, Sequence[Row]]
LOG, POLLS = "log", "polls"
REBALANCES, MEMBERS = groups.REBALANCES.full_name, groups.REBALANCE_MEMBERS.full_name
EVENTS, STORMS = groups.GROUP_EVENTS.full_name, groups.REBALANCE_STORMS.full_name
LIVES, BEGINS = groups.GROUP_LIVES.full_name, groups.REBALANCE_BEGINS.full_name


@dataclass(frozen=True)
class Group:
    """Which group, as the columns of every table say it."""

    cluster_id: str
    cluster: str
    group_id: str


@dataclass(frozen=True)
class Life:
    """One time that the group was there; `ended` is None while it is."""

    began: datetime
    ended: datetime | None = None
    group_type: str | None = None

    @property
    def row(self) -> Row:
        """Its columns of gold.group_lives, as polls know them."""
        times = {"valid_from": self.began, "valid_to": self.ended, "known_since": self.began}
        return times | {"group_type": self.group_type}


def fold(
    group: Group,
    memory: Mapping[str, Any] | None,
    live: Live,
    limits: Any,
    *,
    records: Iterable[Row],
    read_to: Mapping[int, int],
    states: Sequence[Row],
    log_partition: int | None,
) -> tuple[Row, dict[str, list[Row]]]:
    """The memory of a group after its news, fit for JSON, and the rows that they make, by table,
    without updated_at.

    A row takes the place of the live one with its key. `memory`: as the last fold of the group
    returned it, None before the first. `records`: rows of bronze.group_log in the order of their
    places: the group's own, and what was lost or truncated of its partitions. `read_to`: partition
    of the log -> the offset up to which it has been read. `states`: rows of silver.group_snapshots
    in order, as of the last poll that is taken; those that began have `is_new`. `log_partition`:
    that keeps the group, by its id, where that is known.
    """
    kept, records = memory or {}, list(records)
    states = polls.described(states)
    news = (*map(written_by, records), *(row["valid_to"] or row["valid_from"] for row in states))
    told_at = max(map(to_micros, news), default=0)
    source = partial(_Source, group, live=live, limits=limits)
    of_logs = {
        each: source(LOG, kept[LOG][str(each)], log_partition=each) for each in partitions_of(kept)
    }
    of_polls, logged_from = source(POLLS, kept.get(POLLS)), kept.get("logged_from")
    read, since = _by_partition(records, of_logs), None
    if read and logged_from is None:
        since = of_polls.give_way(next(iter(read.values()))[0])
        logged_from = to_micros(since)
    for partition, of_partition in read.items():
        of_log = of_logs.setdefault(partition, source(LOG, None, log_partition=partition))
        of_log.take_records(of_partition, read_to, since)
        since = None
    if read:
        # Storms of one source are replaced together.
        for partition in of_logs.keys() - read.keys():
            of_logs[partition].tell_again()
    if states and logged_from is None:
        of_polls.take_states(states, log_partition)
    sources = [*of_logs.values(), of_polls]
    rows = {
        table.full_name: [row for each in sources for row in each.rows.get(table.full_name, ())]
        for table in groups.TABLES
    }
    for name in {each.name for each in sources if each.rows} - {
        row["source"] for row in rows[STORMS]
    }:
        # A row without a kind takes the place of storms that were live.
        rows[STORMS].append({"source": name, "is_live": True})
    if states:
        open_ = cast("Any", next(iter(live.get(BEGINS, ())), None))
        rows[BEGINS] = [dict(row) for row in polls.begins(states, open_)]
    remembered: Row = {"told_at": max(told_at, kept.get("told_at", 0))}
    remembered |= {POLLS: of_polls.memory} if of_polls.memory else {}
    if of_logs:
        remembered |= {LOG: {str(partition): each.memory for partition, each in of_logs.items()}}
        remembered["logged_from"] = logged_from
    made = {name: [vars(group) | row for row in of_table] for name, of_table in rows.items()}
    return remembered, {table.full_name: _changed(table, made, live) for table in groups.TABLES}


def is_over(memory: Mapping[str, Any], before: datetime) -> bool:
    """Whether a group is gone, by its memory, and nothing was told of it since `before`."""
    if memory.get("told_at", math.inf) >= to_micros(before) or memory.get(POLLS, {}).get("life"):
        return False
    of_logs = (state.from_json(of_log["state"]) for of_log in memory.get(LOG, {}).values())
    return all(of_log.now.group_type is None for of_log in of_logs)


def settled(live: Live) -> dict[str, list[Row]]:
    """Live rows of a group that is over, settled: its log may end with its own end."""
    return {
        table.full_name: [row | {"is_live": False} for row in live.get(table.full_name, ())]
        for table in groups.TABLES
        if table is not groups.REBALANCE_BEGINS  # open, or not live
    }


def partitions_of(memory: Mapping[str, Any]) -> set[int]:
    """The partitions of the log that have records of a group, by its memory."""
    return {int(partition) for partition in memory.get(LOG, {})}


def _by_partition(records: Iterable[Row], known: Collection[int]) -> dict[int, list[Row]]:
    """Rows by partition, where the group came first first; rows before its first record there say
    nothing of it.
    """
    found: dict[int, list[Row]] = {}
    for row in records:
        partition = row["log_partition"]
        if partition in found or partition in known or row["record"] == "record":
            found.setdefault(partition, []).append(row)
    return dict(sorted(found.items(), key=lambda each: written_by(each[1][0])))


def _changed(table: Table, made: Live, live: Live) -> list[Row]:
    """The rows of a table that say other things than the live ones do."""
    names = [name for name in table.column_names if name not in ("updated_at", PART)]
    before, after = defaultdict[Any, dict[str, Row]](dict), defaultdict[Any, dict[str, Row]](dict)
    for side, found in ((live, before), (made, after)):
        for row in side.get(table.full_name, ()):
            whole = {name: row.get(name) for name in names}
            found[tuple(row[name] for name in table.replaced_by or table.key)][repr(whole)] = whole
    return [
        row
        for key, rows in after.items()
        if rows != before.get(key)
        for row in rows.values()
        if table.none_without is None or row[table.none_without] is not None or key in before
    ]


class _Source:
    """One source of a group: what it remembers, and rows that it tells, live ones until no news may
    change them.

    `log_partition`: of the log, which has its own source for each.
    """

    def __init__(
        self,
        group: Group,
        name: str,
        memory: Any,
        *,
        live: Live,
        limits: Any,
        log_partition: int | None = None,
    ) -> None:
        self.name, self.memory, self.rows = (
            name,
            dict(memory or {}),
            defaultdict[str, list[Row]](list),
        )
        self._group, self._limits = group, limits
        members = defaultdict[str, list[Row]](list)
        for row in live.get(MEMBERS, ()):
            members[row["rebalance_id"]].append(row)
        rows = [
            row
            for table in (REBALANCES, EVENTS)
            for row in live.get(table, ())
            if row["source"] == name
        ]
        of_partition = [row for row in rows if log_partition in (None, row["log_partition"])]
        self._live = {row["id"]: row | {MEMBER_ROWS: members[row["id"]]} for row in of_partition}

    def take_records(
        self, records: Sequence[Row], read_to: Mapping[int, int], since: datetime | None
    ) -> None:
        """Fold rows of the log. A read may cut a batch in two: its rows are settled once the log
        was read beyond it.

        `since`: when the group was first known to be there, where that was before the first record.
        """
        before, last = state.from_json(self.memory.get("state")), records[-1]
        now, output = fold_log(before, records)
        is_whole = (
            last["record"] != "record" or read_to.get(last["log_partition"], 0) > last["offset"] + 1
        )
        recent = set() if is_whole else {self._id(*key) for key in output.recent}
        # Whether these rows all belong to the batch that the ones before ended with.
        places = (
            (row["record"], row.get("timestamp"), row["offset"] - n)
            for n, row in enumerate(records, 1)
        )
        if not is_whole and all(
            place == ("record", before.at, before.last_offset) for place in places
        ):
            recent |= {*self.memory["recent"]}
        of_batch = sorted(recent)
        if now.rebalance is not None and not now.known:
            # A member that was not read of yet may prolong it.
            recent.add(self._id(*key_of(now.rebalance)))
        settled, unsettled = self._split(output, recent)
        first = (
            Life(since or written_by(records[0]))
            if not self.memory
            else from_json(Life, self.memory["life"])
        )
        ended, life = _lived(first, settled)
        over, there = _lived(life, unsettled)
        group_type = now.now.group_type
        if there is not None:
            there = replace(there, group_type=group_type or there.group_type)
        elif group_type is not None:
            # No record said that the group was made, so its first one did.
            gone = max(
                (row["offset"] for row in output.rows.values() if row.get("event") == "deleted"),
                default=-1,
            )
            own = [row for row in records if row["record"] == "record"]
            made = next((row for row in own if row["offset"] > gone), own[0])
            there = Life(written_by(made), group_type=group_type)
        self.memory |= {
            "state": state.to_json(now),
            "life": to_json(there if is_whole else life),
            "recent": of_batch,
        }
        of_lives = {"log_partition": last["log_partition"], "known_since": now.known_since}
        self._tell(settled, unsettled, ended, [*over, there], **of_lives)

    def take_states(self, states: Sequence[Row], log_partition: int | None) -> None:
        """Fold states that polls showed."""
        open_, output = polls.polled(states, from_json(polls.Open, self.memory.get("open")))
        for row in output.rows.values():
            row["log_partition"] = log_partition
        settled, unsettled = self._split(output)
        first = Life(states[0]["valid_from"], group_type=polls.type_of(states[0]))
        ended, life = _lived(
            from_json(Life, self.memory["life"]) if self.memory else first, settled
        )
        self.memory |= {
            "open": to_json(open_),
            "life": to_json(life),
            "log_partition": log_partition,
        }
        self._tell(settled, unsettled, ended, [life], log_partition=log_partition)

    def tell_again(self) -> None:
        """Tell what may change as it was: there is no news."""
        self._tell([], self._live.values(), [], [])

    def give_way(self, record: Row) -> datetime:
        """Tell no more: the log has the group from this record on. Returns since when it has it and
        what was open.
        """
        # The record may be the end of a rebalance.
        by = written_by(record)
        began = (record["classic"] or {}).get("state_timestamp") or by
        is_open = [row for row in self._live.values() if _is_open(row)]
        at: datetime = min([by, began, *(row["began_before"] for row in is_open)])
        if self.memory:
            for row in is_open:
                by = row["began_before"]
                row.update(end_columns(row["began_after"], by, UNKNOWN, Moment(by)))
            life: Life | None = from_json(Life, self.memory["life"])
            ended = [replace(life, ended=max(life.began, at))] if life else []
            self._tell(
                self._live.values(), [], ended, [], log_partition=self.memory["log_partition"]
            )
            # Those that might have grown, too.
            self.rows[STORMS] = [{**row, "is_live": False} for row in self.rows[STORMS]]
            self.memory = {}
        return at

    def _split(
        self, output: GroupOutput, recent: Collection[str] = ()
    ) -> tuple[list[Row], list[Row]]:
        """Settled rows, and those that may change: open rebalances, and rows with `recent` ids."""
        new = [row | {"id": self._id(*key)} for key, row in output.rows.items()]
        rows = (self._live | {row["id"]: row for row in new}).values()
        live = {row["id"] for row in rows if row["id"] in recent or _is_open(row)}
        return [row for row in rows if row["id"] not in live], [
            row for row in rows if row["id"] in live
        ]

    def _tell(
        self,
        settled: Collection[Row],
        unsettled: Collection[Row],
        ended: Iterable[Life],
        there: Iterable[Life | None],
        **of_lives: Any,
    ) -> None:
        """Put rows into the tables: settled ones first, then those that may change, of which
        nothing is remembered.
        """
        self.memory["storms"], over, _ = stormed(
            self.memory.get("storms", ()), settled, self._limits
        )
        _, more, longer = stormed(self.memory["storms"], unsettled, self._limits)
        sides = (False, settled, ended, over), (True, unsettled, there, more + longer)
        for is_live, rows, lives, chains in sides:
            rebalances = [row for row in rows if "event" not in row]
            made = {
                REBALANCES: rebalances,
                MEMBERS: [
                    each | {"rebalance_id": row["id"]}
                    for row in rebalances
                    for each in row[MEMBER_ROWS] or [{}]
                ],
                EVENTS: [row for row in rows if "event" in row],
                STORMS: [self._storm(*each) for each in chains],
                LIVES: [life.row | of_lives for life in lives if life is not None],
            }
            for table, of_table in made.items():
                self.rows[table] += [
                    row | {"source": self.name, "is_live": is_live} for row in of_table
                ]

    def _storm(self, who: Who, chain: Chain) -> Row:
        micros = chain.last - chain.began
        return {
            **dict(zip(("kind", "client_id", "client_host"), who, strict=True)),
            "id": self._id(*who, chain.first),
            "began_before": from_micros(chain.began),
            "last_before": from_micros(chain.last),
            "rebalances": chain.count,
            "per_hour": chain.count * 3600 / (micros / 1_000_000) if micros > 0 else None,
        }

    def _id(self, *key: Any) -> str:
        return row_id(self._group.cluster_id, self._group.group_id, *key)


def _is_open(row: Row) -> bool:
    return "event" not in row and row["ended_before"] is None


def _lived(life: Life | None, rows: Iterable[Row]) -> tuple[list[Life], Life | None]:
    """The lives that events among these rows ended, and the one that they did not."""
    ended: list[Life] = []
    events = (row for row in rows if "event" in row)
    for row in sorted(events, key=lambda row: (row["began_before"], row["offset"] or 0)):
        if row["event"] == "created" and life is None:
            life = Life(row["began_before"])
        if life is not None and row["event"] in ("created", "converted", "deleted"):
            life = replace(life, group_type=row["group_type"] or life.group_type)
            if row["event"] == "deleted":
                ended.append(replace(life, ended=row["began_before"]))
                life = None
    return ended, life
