"""The costs of the rebalances of a part: each group has its own log and visits."""

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from jobs.rules.groups.fold_cost import fold
from schemas.bronze import GROUP_LOG, METADATA_POLLS
from schemas.consumption import REBALANCE_COST
from schemas.groups import REBALANCES
from tests.support.group_costs import AT, Row, Written, commit, every, ms, read, rebalance, told

UPDATED = AT + timedelta(days=1)
OF = {"cluster_id": "id-prod", "cluster": "prod"}


def of_log(group_id: str | None, rows: list[Row], **more: Any) -> list[Row]:
    return [
        {"group_id": group_id, "log_partition": 0, "cluster_id": "id-prod"} | row | more
        for row in rows
    ]


def written(group_id: str, *log: Written, read_at: int = 60_000, **more: Any) -> list[Row]:
    return of_log(group_id, read([*every(1000, 10_000), *log], 0, 10 + len(log), read_at), **more)


def rebalances(group_id: str, *log: Written, **more: Any) -> list[Row]:
    rows = told([*every(1000, 10_000), *log])
    return [
        {**OF, "group_id": group_id} | row | {"id": f"{group_id}-{row['id']}"} | more
        for row in rows
    ]


def visited(group_id: str, at: int, committed: int, end: int) -> Row:
    times = dict.fromkeys(
        ("commit_read_after", "commit_read_before", "ends_read_after", "ends_read_before"), ms(at)
    )
    place = {"group_id": group_id, "topic": "t", "partition": 0, "log_start": 0}
    return place | times | {"committed_offset": committed, "log_end": end}


def folded(
    log: list[Row],
    of_groups: list[Row],
    visits: list[Row] | None = None,
    live: list[Row] | None = None,
    *,
    new: set[str] | None = None,
    until: datetime = UPDATED,
) -> list[Row]:
    said = {GROUP_LOG: log, REBALANCES: of_groups, METADATA_POLLS: visits or []}
    kept = {REBALANCE_COST.full_name: table(live)} if live else {}
    made = fold(
        "prod/3",
        {each.full_name: table(rows) for each, rows in said.items() if rows},
        kept,
        new={row["id"] for row in of_groups} if new is None else new,
        at=UPDATED,
        until={"prod": until},
    )
    return list(made[REBALANCE_COST.full_name])


def table(rows: list[Row]) -> pa.Table:
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows])


R, S = (rebalance(10_000), commit(12_000, 100)), (rebalance(10_000), commit(15_000, 100))


def test_each_group_has_its_own_log_and_visits() -> None:
    log = [*written("g", *R), *written("h", *S)]
    visits = [visited("h", 9_500, 90, 97), visited("g", 9_500, 90, 95), visited("h", 9_000, 90, 91)]
    made = folded(log, [*rebalances("g", *R), *rebalances("h", *S)], visits)
    names = ("group_id", "rebalance_id", "commit_gap_ms", "lag_before", "cluster", "updated_at")
    assert [tuple(row[name] for name in names) for row in made] == [
        ("g", "g-r", 3_000, 5, "prod", UPDATED),
        ("h", "h-r", 6_000, 7, "prod", UPDATED),
    ]
    assert {*made[0]} | {"part"} == {*REBALANCE_COST.column_names}


def test_a_live_row_goes_on_with_what_is_new() -> None:
    first = folded(written("g", R[0]), rebalances("g", R[0]))
    assert [row["close_reason"] for row in first] == [None]
    of_r = rebalances("g", *R)
    (row,) = folded(written("g", *R), of_r, live=first, new=set())
    assert (row["commit_gap_ms"], row["close_reason"]) == (3_000, "recovered")
    # The rebalance is told no more.
    (row,) = folded(written("g", *R), [], live=first, new=set())
    assert row["close_reason"] == "next_rebalance"


def test_missing_records_of_a_partition_are_of_all_its_groups() -> None:
    first = folded(written("g", R[0]), rebalances("g", R[0]))
    lost = {"record": "lost", "offset": 11, "next_offset": 20, "read_at": ms(60_000)}
    lost |= {"producer_id": None, "chunk": None, "offset_commits": None, "is_committed": None}
    for partition, close_reason in ((0, ["records_lost"]), (1, [])):
        rows = of_log(None, [lost], log_partition=partition)
        made = folded(rows, rebalances("g", R[0]), live=first, new=set())
        assert [row["close_reason"] for row in made] == close_reason


def test_a_partition_of_the_log_has_its_own_commits() -> None:
    """Where a group is kept in another partition from then on."""
    there = written("g", *R, log_partition=1)
    assert folded(there, rebalances("g", *R)) == []
    (row,) = folded(there, rebalances("g", *R, log_partition=1))
    assert row["commit_gap_ms"] == 3_000


def test_an_alias_may_have_led_to_another_cluster_before() -> None:
    there = written("g", *R, cluster_id="id-old")
    assert folded(there, rebalances("g", *R)) == []
    unknown = written("g", *R, cluster_id=None)
    assert len(folded(unknown, rebalances("g", *R))) == 1


def test_what_was_read_later_than_rebalances_are_told_is_left_to_a_later_fold() -> None:
    log = [*written("g", R[0], read_at=11_000), *written("g", *R, read_at=13_000)[-1:]]
    for until, gap in ((13_000, 3_000), (12_999, None)):
        (row,) = folded(log, rebalances("g", *R), until=ms(until))
        assert row["commit_gap_ms"] == gap
    visits = [visited("g", 9_500, 90, 95), visited("g", 13_000, 90, 990)]
    for until, lag_peak in ((13_001, 900), (13_000, None)):
        (row,) = folded(log, rebalances("g", *R), visits, until=ms(until))
        assert row["lag_peak"] == lag_peak
    made = fold("prod/3", {REBALANCES.full_name: table(rebalances("g", *R)),
                           GROUP_LOG.full_name: table(log)}, {},
                new={"g-r"}, at=UPDATED, until={})  # fmt: skip
    assert made[REBALANCE_COST.full_name] == [], "nothing is told of another alias"
