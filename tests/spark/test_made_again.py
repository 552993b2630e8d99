"""A cluster's history is made again of what is kept, and what retention drops stays dropped."""

from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.histories.believe import believe
from jobs.histories.poll_plan import OF_POLLS
from jobs.rounds import engine
from jobs.rounds.commit import delete_rows
from jobs.upkeep import expiry
from jobs.upkeep.expiry import expire_history
from schemas import gold, silver, views
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import read_view
from schemas.internal import STATE
from schemas.lake import Lake, LakeError
from schemas.table import Table
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import START, Answer, good_answer
from tests.support.kills import KilledError
from tests.support.poll_lakes import (
    LATER,
    TABLES,
    Tables,
    assert_same,
    compared,
    copied,
    history_of,
    made,
    states,
    versions,
    with_polls,
)
from tests.support.retained import keys, was_over
from tests.support.stored import Row, as_text, newest_states, rows_of

# --- computed again ---


@pytest.mark.soak
@pytest.mark.parametrize(
    "histories", [("isr_shrink", "leader_churn"), tuple(OF_POLLS)], ids=["gold", "all"]
)
def test_a_cluster_is_computed_anew_from_what_is_kept(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path, histories: tuple[str, ...]
) -> None:
    """Also after a kill in the middle, while there are polls that are not history yet; of others
    nothing changes.
    """
    lake = copied(half, tmp_path)
    alias, *_ = sorted({row["cluster"] for row in newest_states(lake)})
    of_histories = {table for history in histories for table in OF_POLLS[history]}
    for table in of_histories & {silver.PARTITION_SNAPSHOTS, gold.LEADER_CHANGES}:
        spark.sql(f"UPDATE {lake.identifier(table)} SET leader = 77 WHERE cluster = '{alias}'")
    with pytest.MonkeyPatch.context() as patch:
        left = iter(range(3))

        def dying(*args: Any) -> None:
            if next(left, None) is None:
                raise KilledError
            delete_rows(*args)

        patch.setattr(engine, "delete_rows", dying)
        with pytest.raises(KilledError):
            history_of(spark, lake, *histories).again(alias)
    made(spark, lake)
    assert_same(lake, whole)
    with pytest.raises(LakeError, match="has no history of a cluster 'nobody'"):
        history_of(spark, lake).again("nobody")


@pytest.mark.soak
def test_a_person_can_say_that_what_waits_is_right(spark: SparkSession, tmp_path: Path) -> None:
    """The cluster came back from an older snapshot, and one broker alone can be reached."""

    def answers(*epochs: int) -> list[Answer]:
        state = {"error_code": 0, "leader": 1, "replicas": [1], "isr": [1], "offline_replicas": []}
        at, brokers = (
            [START + timedelta(seconds=30 * n) for n in range(len(epochs))],
            {0: None, 1: None},
        )
        topics = [{"t": [state | {"leader_epoch": epoch}]} for epoch in epochs]
        return [
            good_answer("s", n, at[n], brokers, topics[n], batch=n, broker_id=int(n == 0))
            for n in range(len(at))
        ]

    lake = with_polls(spark, tmp_path, bronze_rows("prod", answers(5, 4, 4)))
    history = history_of(spark, lake)
    believe(history, history.history, "prod")
    assert sorted(row["leader_epoch"] for row in rows_of(lake, silver.PARTITION_SNAPSHOTS)) == [
        4,
        5,
    ]
    assert history._states["silver", "prod"]["stale_polls"] == 0
    with pytest.raises(
        LakeError, match=r"^no poll of a cluster 'prod' waits in .*: there is nothing to believe; "
    ):
        believe(history, history.history, "prod")


@pytest.mark.soak
def test_what_bronze_has_lost_is_not_given_away(
    spark: SparkSession, half: Lake, tmp_path: Path
) -> None:
    lake = copied(half, tmp_path)
    alias = forget_first_polls(spark, lake)
    before = versions(lake)
    with pytest.raises(
        LakeError,
        match=f"silver knows {alias} since .* UTC, and bronze has not kept the polls of then",
    ):
        history_of(spark, lake).again(alias)
    assert versions(lake) == before


@pytest.mark.soak
def test_gold_is_computed_anew_where_bronze_has_lost_polls(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path
) -> None:
    lake = copied(half, tmp_path)
    made(spark, lake)
    alias = forget_first_polls(spark, lake)
    of_gold = [history for history in OF_POLLS if history != "silver"]
    history_of(spark, lake, *of_gold).again(alias)
    made(spark, lake, *of_gold)
    assert_same(lake, whole)


def forget_first_polls(spark: SparkSession, lake: Lake) -> str:
    """Let bronze lose the first polls of a cluster; its alias."""
    alias, *_ = sorted({row["cluster"] for row in newest_states(lake)})
    spark.sql(f"DELETE FROM {lake.identifier(METADATA_POLLS)} WHERE cluster = '{alias}' AND n < 3")
    return alias


# --- retention ---

KEPT = {"silver": timedelta(0), "gold": timedelta(0)}
MADE = tuple(table for table in TABLES if table is not STATE)


@pytest.mark.soak
def test_what_was_over_goes_and_later_rounds_do_not_notice(
    spark: SparkSession,
    half: Lake,
    whole_rows: dict[Table, list[Row]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = copied(half, tmp_path)
    before = {table: rows_of(lake, table) for table in MADE}
    cutoff = min(row["done_at"] for history in OF_POLLS for row in states(lake, history).values())
    monkeypatch.setattr(expiry, "cutoff_of", lambda *_: cutoff)
    running = history_of(spark, lake, polls_per_round=1)  # remembers live rows from round to round
    expire_history(spark, lake, KEPT, LATER)
    gone = {
        table: keys(table, (row for row in rows if was_over(table, row, cutoff)))
        for table, rows in before.items()
    }
    assert sum(map(bool, gone.values())) >= 4
    for table, rows in before.items():
        assert keys(table, rows_of(lake, table)) == keys(table, rows) - gone[table], table.full_name
    noted = versions(lake)
    expire_history(spark, lake, KEPT, LATER)
    assert versions(lake) == noted, "it is done once for a cutoff"

    while running.round(LATER):
        pass
    for table in MADE:
        left = [row for row in whole_rows[table] if not keys(table, [row]) <= gone[table]]
        assert as_text(rows_of(lake, table)) == as_text(left), table.full_name

    reach = {row.cluster: row for row in read_view(spark, lake, views.REACH).collect()}
    assert {row.silver_from.astimezone(UTC) for row in reach.values()} == {cutoff}
    assert {row.gold_from.astimezone(UTC) for row in reach.values()} == {cutoff}
    with pytest.raises(LakeError, match="retention has dropped what was over before 2026-11-01"):
        history_of(spark, lake, "isr_shrink").again("c0")


@pytest.mark.soak
def test_rows_of_silver_stay_until_all_of_gold_has_had_them(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "cutoff_of", lambda *_: LATER)
    lake = copied(half, tmp_path)
    had = states(lake, "leader_churn")
    made(spark, lake, "silver")
    made(spark, lake, "isr_shrink")
    before = rows_of(lake, silver.PARTITION_SNAPSHOTS)
    expire_history(spark, lake, KEPT | {"gold": None}, LATER)
    left = [row for row in rows_of(lake, silver.PARTITION_SNAPSHOTS) if row["valid_to"] is not None]
    assert left
    assert len(left) < sum(row["valid_to"] is not None for row in before)
    assert all(row["valid_to"] >= had[row["cluster"]]["done_at"] for row in left)
    made(spark, lake, "leader_churn")
    for table in (*gold.ISR_TABLES, *gold.LEADER_TABLES):
        assert compared(table, rows_of(lake, table)) == whole[table], table.full_name
