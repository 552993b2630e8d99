"""The cost of rebalances in gold, from tables of bronze and gold: killed anywhere, and run again,
the same rows.
"""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories import cost
from jobs.histories.cost import LOOK_EVERY, RebalanceCost
from jobs.rounds.engine import Engine
from metadata_source.schedule import poll_id
from schemas import bronze, groups
from schemas.consumption import REBALANCE_COST
from schemas.internal import STATE
from schemas.lake import Lake
from tests.support import stored
from tests.support.broken_folds import broken_for
from tests.support.group_records import at
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import new_lake

Row = dict[str, Any]
STREAM = "20260101T000000Z-0a1b2c"
OF = {"cluster_id": "id-alpha", "cluster": "alpha"}
PARTITION = 7


def rebalance(group_id: str, offset: int, seconds: float, **columns: Any) -> Row:
    return {
        **OF,
        "id": f"{group_id}-{offset}",
        "group_id": group_id,
        "group_type": "classic",
        "source": "log",
        "log_partition": PARTITION,
        "first_offset": offset,
        "last_offset": offset,
        "began_before": at(seconds),
        "ended_after": at(seconds),
        "ended_before": at(seconds),
        "end_reason": "completed",
        "members": 1,
        "prev_members": 1,
        "since_previous_ms": 0,
        "updated_at": at(seconds + 1),
        "is_live": False,
        **columns,
    }


def commits(
    group_id: str, offset: int, count: int, committed: int, seconds: float, **columns: Any
) -> Row:
    """Commits a second apart, up to `seconds`, and up to an offset of the topic."""
    began = at(seconds - count + 1)
    entry = {
        "topic": "t",
        "partition": 0,
        "commits": count,
        "from_offset": offset,
        "from_timestamp": began,
        "first_committed": committed - count + 1,
        "to_offset": offset + count - 1,
        "to_timestamp": at(seconds),
        "last_committed": committed,
        "gap_from": began if count > 1 else None,
        "gap_to": at(seconds - count + 2) if count > 1 else None,
        "falls": 0,
        "fallen": 0,
    }
    row = {
        "record": "commits",
        "log_partition": PARTITION,
        "offset": offset,
        "next_offset": offset + count,
    }
    return (
        OF
        | row
        | read(seconds + 1)
        | {"group_id": group_id, "chunk": 0, "offset_commits": [entry], **columns}
    )


def read(seconds: float) -> Row:
    return {"read_at": at(seconds), "day": at(seconds).date()}


def visit(seconds: float, group_id: str, committed: int, log_end: int) -> list[Row]:
    """A poll that asked for offsets."""
    key = {
        "poll_id": poll_id(STREAM, int(seconds)), "stream": STREAM, "n": int(seconds),
        "cluster": "alpha", "chunk": 0, "cluster_id": "id-alpha", "day": at(seconds).date(),
    }  # fmt: skip
    times = dict.fromkeys(
        ("commit_read_after", "commit_read_before", "ends_read_after", "ends_read_before"),
        at(seconds),
    )
    told = times | {"group_id": group_id, "topic": "t", "partition": 0, "log_start": 0}
    key |= {"scheduled_at": at(seconds)}
    answer = {"record": "answer", "kind": "offsets", "outcome": "ok"}
    return [
        key | {"record": "poll", "outcome": "ok"},
        key | answer | dict.fromkeys(("asked_at", "answered_at"), at(seconds)),
        key
        | {
            "record": "offsets",
            "offsets": [told | {"committed_offset": committed, "log_end": log_end}],
        },
    ]


def news(lake: Lake, step: int) -> None:
    """Two steps: a rebalance of each group, then what follows it. Of `shares` there is no cost."""
    if step == 0:
        told = [
            rebalance("orders", 60, 60),
            rebalance("idle", 261, 61),
            rebalance("shares", 362, 62, group_type="share"),
        ]
        told += [rebalance("polled", 63, 63, source="polls", poll="p")]
        stored.append(lake, groups.REBALANCES, told)
        before = [
            commits(each, offset, 50, 500, 58)
            for each, offset in (("orders", 5), ("idle", 200), ("shares", 300))
        ]
        open_ = commits("orders", 59, 1, 501, 59, producer_id=4)
        stored.append(lake, bronze.GROUP_LOG, [*before, open_])
        stored.append(
            lake,
            bronze.METADATA_POLLS,
            [*visit(50, "orders", 490, 520), *visit(65, "orders", 500, 600)],
        )
        note(lake, 1, 66, 67)
    else:
        marker = {
            "record": "marker",
            "log_partition": PARTITION,
            "offset": 70,
            "next_offset": 71,
            "producer_id": 4,
        }
        marker |= {"is_committed": False, "timestamp": at(70)}
        stored.append(
            lake,
            bronze.GROUP_LOG,
            [
                OF | marker | read(72),
                commits("orders", 75, 5, 480, 79),
                commits("nobody", 90, 5, 1, 79),
            ],
        )
        stored.append(lake, bronze.METADATA_POLLS, visit(85, "orders", 690, 700))
        note(lake, 2, 90, 91)


def note(lake: Lake, number: int, read_at: float, made_at: float) -> None:
    """Note as the history of rebalances does what it had of the log by a round: what was read up to
    `read_at`.
    """
    row = {
        "history": "rebalance_history",
        "cluster": "alpha",
        "cluster_id": "id-alpha",
        "round": -100 + number,
    }
    row |= {
        "last_seen_at": at(read_at),
        "memory": json.dumps({"positions": {}, "at": at(made_at).isoformat()}),
    }
    stored.append(lake, STATE, [row])


def catch_up(spark: SparkSession, lake: Lake, seconds: float = 100) -> None:
    config = Config(lake, checkpoints="", clusters={}, poll={}, bronze_retention=timedelta(days=7))
    Engine(spark, config, RebalanceCost()).round(at(seconds))


EXPECTED = {
    "orders": {
        "commit_gap_ms": 17_000, "pause_ms_min": 15_000, "pause_ms_max": 17_000,
        "cadence_ms": 1_000, "last_committed": 500, "first_committed": 476, "reprocessed_min": 24,
        "reprocessed_max": 100, "lag_before": 30, "lag_peak": 100, "lag_back_after": at(65),
        "lag_back_before": at(85), "close_reason": "recovered",
    },
    "idle": {
        "commit_gap_ms": None, "pause_ms_min": None, "pause_unknown": "no_commit_after",
        "close_reason": None,
        "awaits_after": {"committed": 500, "at": at(58), "there_before": None, "set_to": None},
    },
}  # fmt: skip


def check(lake: Lake) -> None:
    rows = {row["group_id"]: row for row in stored.rows_of(lake, REBALANCE_COST)}
    for group_id, expected in EXPECTED.items():
        assert {name: rows[group_id][name] for name in expected} == expected
    assert len(stored.rows_of(lake, REBALANCE_COST)) == len(rows) == len(EXPECTED)


def test_a_rebalance_has_its_cost_once_the_group_commits_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path)
    news(lake, 0)
    catch_up(spark, lake, 66)
    (row,) = (row for row in stored.rows_of(lake, REBALANCE_COST) if row["group_id"] == "orders")
    assert (row["pause_unknown"], row["lag_peak"], row["close_reason"]) == (
        "no_commit_after",
        100,
        None,
    )
    news(lake, 1)
    catch_up(spark, lake)
    check(lake)


@pytest.mark.soak
@pytest.mark.parametrize(
    "killed",
    [
        pytest.param(lambda: killed_at("plan", before=False), id="planned"),
        pytest.param(lambda: killed_after(0), id="before its commit"),
        pytest.param(lambda: killed_at("done", before=True), id="not noted"),
    ],
)
def test_killed_anywhere_a_round_is_finished_by_the_next_run(
    spark: SparkSession, tmp_path: Path, killed: Any
) -> None:
    lake = new_lake(spark, tmp_path)
    news(lake, 0)
    news(lake, 1)
    with killed(), pytest.raises(KilledError):
        catch_up(spark, lake)
    catch_up(spark, lake)
    check(lake)


@pytest.mark.soak
def test_a_cluster_whose_fold_fails_is_left_out_and_comes_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Meanwhile a rebalance of the other cluster has its cost. Then all rebalances up to it count
    as looked at.
    """
    lake = new_lake(spark, tmp_path)
    config = Config(lake, checkpoints="", clusters={}, poll={}, bronze_retention=timedelta(days=7))
    news(lake, 0)
    news(lake, 1)
    beta = {"cluster": "beta", "cluster_id": "id-beta"}
    stored.append(
        lake, groups.REBALANCES, [rebalance("others", 60, 60) | beta | {"updated_at": at(80)}]
    )
    stored.append(lake, bronze.GROUP_LOG, [commits("others", 5, 50, 500, 58, **beta)])
    noted = next(row for row in stored.newest_states(lake) if row["history"] == "rebalance_history")
    stored.append(lake, STATE, [noted | beta])
    maker = Engine(spark, config, RebalanceCost())
    with broken_for(cost, "alpha"):
        assert maker._timed_round(at(100))
        while maker._timed_round(at(100)):
            pass
        assert [row["group_id"] for row in stored.rows_of(lake, REBALANCE_COST)] == ["others"]
    # Another run comes after it.
    maker = Engine(spark, config, RebalanceCost())
    while maker._timed_round(at(100)):
        pass
    rows = {row["group_id"]: row for row in stored.rows_of(lake, REBALANCE_COST)}
    for group_id, expected in EXPECTED.items():
        assert {name: rows[group_id][name] for name in expected} == expected
    assert len(stored.rows_of(lake, REBALANCE_COST)) == len(rows) == len(EXPECTED) + 1
    memory = next(
        json.loads(row["memory"])
        for row in stored.newest_states(lake)
        if row["history"] == "rebalance_cost"
    )
    assert "held" not in memory


def test_where_nobody_rebalances_nothing_is_planned_nor_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path)
    news(lake, 0)
    news(lake, 1)
    config = Config(lake, checkpoints="", clusters={}, poll={}, bronze_retention=timedelta(days=7))
    maker = Engine(spark, config, RebalanceCost())
    now = at(100)
    assert maker.round(now)
    assert not maker.round(now)
    rows, states = stored.version(lake, REBALANCE_COST), stored.newest_states(lake)
    stored.append(
        lake,
        bronze.GROUP_LOG,
        [commits("orders", 400, 5, 800, 200), commits("others", 410, 5, 800, 200)],
    )
    assert not maker.round(now + LOOK_EVERY), "the row of `idle` was looked after"
    assert (stored.version(lake, REBALANCE_COST), stored.newest_states(lake)) == (rows, states)


@pytest.mark.soak
def test_what_the_history_of_rebalances_has_not_had_is_left_to_a_later_round(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A visit, and a commit, that lie after a rebalance which is in bronze, and not yet told."""
    lake = new_lake(spark, tmp_path)
    news(lake, 0)
    config = Config(lake, checkpoints="", clusters={}, poll={}, bronze_retention=timedelta(days=7))
    maker = Engine(spark, config, RebalanceCost())
    stored.append(lake, bronze.GROUP_LOG, [commits("orders", 75, 5, 480, 79)])
    stored.append(lake, bronze.METADATA_POLLS, visit(85, "orders", 690, 4_690))
    assert maker.round(at(100))
    stored.append(lake, groups.REBALANCES, [rebalance("orders", 72, 72)])
    assert not maker.round(at(101)), "the round that told it is not noted as done"
    note(lake, 2, 90, 91)
    assert maker.round(at(102))
    rows = {row["rebalance_id"]: row for row in stored.rows_of(lake, REBALANCE_COST)}
    assert (rows["orders-60"]["lag_peak"], rows["orders-60"]["commit_gap_ms"]) == (100, None)
    assert rows["orders-60"]["close_reason"] == "next_rebalance"
    assert (rows["orders-72"]["lag_peak"], rows["orders-72"]["commit_gap_ms"]) == (4_000, 17_000)
