"""The fold of the log partitions of a part: new rows of bronze.transaction_log -> rows of
transactions, and counts by pattern and hour.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final

import pyarrow as pa

from jobs.rules.arrow import by_value, rows_in
from jobs.rules.memory import dumps, loads
from jobs.rules.silver.rows import OfCluster
from jobs.rules.transactions import partition as rules
from jobs.rules.transactions.partition import Gap, OpenTransactions, Read, ReadTo
from jobs.rules.transactions.rows import Counts, HourCounts, rows_of
from jobs.rules.transactions.transaction import (
    TIMED_OUT,
    Entry,
    Transaction,
    abort_of,
    of_entry,
)
from schemas.transactions import (
    LOG_MEMORIES,
    TRANSACTION_COUNTS,
    TRANSACTION_LOG,
    TRANSACTIONS,
)

Row = dict[str, Any]
Until = Mapping[tuple[str, int | None], datetime]
"""Up to when the log is known to say nothing else, by alias and log partition; None: of all."""
_Place = tuple[str, datetime]
"""A pattern and an hour."""

OTHERS: Final = ""
"""In place of the pattern null: columns of a key are never null."""
COUNTED_FOR: Final = timedelta(hours=1)
"""So long after its end an hour may still get counts; what comes later is a row of its own."""
_HOUR: Final = timedelta(hours=1)
_GAPS: Final = ("lost", "truncated")
_TABLES: Final = (TRANSACTIONS, TRANSACTION_COUNTS, LOG_MEMORIES)


def fold(
    key: str,
    news: Mapping[str, pa.Table],
    live: Mapping[str, pa.Table],
    *,
    ids: Mapping[str, str],
    until: Until,
    at: datetime,
) -> Mapping[str, Sequence[Row]]:
    """The rows of an alias's log partitions in one part. `ids`: alias -> cluster id. `at`: of the
    round.
    """
    alias = key.rpartition("/")[0]
    cluster: OfCluster = {"cluster_id": ids[alias], "cluster": alias}
    made: dict[str, list[Row]] = {table.full_name: [] for table in _TABLES}
    rows = by_value(rows_in(news, TRANSACTION_LOG), "log_partition")
    memories = by_value(_of(cluster, live, LOG_MEMORIES), "log_partition")
    before = by_value(_of(cluster, live, TRANSACTIONS), "log_partition")
    counts = by_value(_of(cluster, live, TRANSACTION_COUNTS), "log_partition")
    for log_partition in sorted({*rows, *memories}):
        (kept,) = memories.get(log_partition, [None])
        silent_to = up_to(until, alias, log_partition)
        is_due = kept is not None and _is_due(kept["due_at"], silent_to)
        if log_partition not in rows and not is_due:
            continue
        text = None if kept is None else kept["memory"]
        memory = OpenTransactions() if text is None else loads(OpenTransactions, text)
        new = rows.get(log_partition, [])
        memory, closed = rules.fold(memory, _read(new), silent_to, at)
        found = rows_of(cluster, log_partition, memory, closed)
        was = {row["id"]: row for row in before.get(log_partition, ())}
        made[TRANSACTIONS.full_name] += [
            {**row, "updated_at": at}
            for id_, row in found.items()
            if id_ not in was or _differs(was[id_], row)
        ]
        gone = (row for id_, row in was.items() if id_ not in found)
        made[TRANSACTIONS.full_name] += [_none(row) for row in gone]
        known = [*memory.open.values(), *(each.transaction for each in closed)]
        of_partition, counted = (
            {**cluster, "log_partition": log_partition},
            counts.get(log_partition),
        )
        made[TRANSACTION_COUNTS.full_name] += _counts(
            of_partition, new, counted or (), _timed_out(new, known), at
        )
        if (now := dumps(memory)) != text:
            made[LOG_MEMORIES.full_name].append(
                {**cluster, "log_partition": log_partition, "memory": now}
                | {"due_at": rules.due_at(memory), "not_followed": memory.not_followed}
            )
    return made


def up_to(until: Until, alias: str, log_partition: int) -> datetime | None:
    """Up to when a log partition is known to say nothing else; None: not known."""
    times = (until.get((alias, each)) for each in (None, log_partition))
    return max((at for at in times if at is not None), default=None)


def _is_due(due_at: datetime | None, until: datetime | None) -> bool:
    return due_at is not None and until is not None and due_at < until


def _of(cluster: OfCluster, live: Mapping[str, pa.Table], table: Any) -> list[Row]:
    return [row for row in rows_in(live, table) if row["cluster_id"] == cluster["cluster_id"]]


def _read(rows: Iterable[Row]) -> list[Read]:
    """Rows of a partition, in the order of its records."""
    found: list[tuple[tuple[int, int, int], Read]] = []
    for row in rows:
        era = row["era"]
        if row["record"] in _GAPS:
            found.append(((era, row["place"], 0), Gap()))
            continue
        found += [((era, each["offset"], 1), Entry.of(each)) for each in row["states"] or ()]
        if row["to_timestamp"] is not None:
            found.append(((era, row["next_offset"] - 1, 2), ReadTo(row["to_timestamp"])))
    return [each for _, each in sorted(found, key=itemgetter(0))]


def _differs(was: Row, row: Mapping[str, Any]) -> bool:
    """Whether a live row says something else. That it was seen again alone is not worth a write."""
    return any(was[name] != value for name, value in row.items() if name != "seen_at")


def _none(row: Row) -> Row:
    """Takes the place of the row of a transaction that became an ordinary one."""
    return dict.fromkeys(row) | {name: row[name] for name in ("id", "log_partition")}


def _counts(
    of_partition: Row,
    news: Sequence[Row],
    live: Sequence[Row],
    timed_out: Mapping[_Place, int],
    at: datetime,
) -> list[Row]:
    """The counts of a partition that changed, or are final. `timed_out`: what rows of bronze do
    not know of.
    """
    now = {(row["pattern"], row["hour"]): HourCounts.of(row) for row in live}
    changed: dict[_Place, HourCounts] = {}
    rows = [row for row in news if row["record"] == "transactions" and row["chunk"] == 0]
    for row in sorted(rows, key=lambda row: (row["read_at"], row["offset"])):
        place, read_at = _place(row), row["read_at"]
        known = changed.get(place) or now.get(place) or HourCounts(Counts(), read_at, read_at)
        changed[place] = HourCounts(known.counts.plus(row), known.counted_since, read_at)
    for place, more in timed_out.items():
        each, had = changed[place], changed[place].counts.timed_out
        changed[place] = replace(each, counts=replace(each.counts, timed_out=had + more))
    newest = max((row["read_at"] for row in news), default=None)
    if newest is None:
        return []
    found: list[Row] = []
    for place, each in (now | changed).items():
        is_live = place[1] + _HOUR + COUNTED_FOR > newest
        if place in changed or not is_live:
            found.append(
                {
                    **of_partition,
                    "pattern": place[0],
                    "hour": place[1],
                    **asdict(each.counts),
                    "counted_since": each.counted_since,
                    "read_at": each.read_at,
                    "is_live": is_live,
                    "updated_at": at,
                }
            )
    return found


def _place(row: Row) -> _Place:
    hour = (row["from_timestamp"] or row["read_at"]).replace(minute=0, second=0, microsecond=0)
    return row["pattern"] or OTHERS, hour


def _timed_out(news: Sequence[Row], known: Iterable[Transaction]) -> Counter[_Place]:
    """How many more of the aborts that end here were decided after their time-out than rows of
    bronze say, by what was read of them before. A late decision is news at once: so its completion
    is in the next batch more often than not.
    """
    late = {(of.transactional_id, of.offset): _is_timed_out(of) for of in known if of.is_over}
    found: Counter[_Place] = Counter()
    for row in news:
        for each in row["states"] or ():
            alone = of_entry(Entry.of(each))
            if alone is not None and alone.is_over:
                is_late = late.get((alone.transactional_id, alone.offset), False)
                found[_place(row)] += is_late - _is_timed_out(alone)
    return found


def _is_timed_out(of: Transaction) -> bool:
    return abort_of(of).reason == TIMED_OUT
