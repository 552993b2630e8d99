"""History of polls in the lake: however its rounds are cut, killed, overtaken or shared out, its
tables are the same.
"""

import json
import shutil
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.configuration.config import Config, Thresholds
from jobs.histories import poll_inputs
from jobs.histories.believe import believe
from jobs.histories.poll_plan import OF_POLLS
from jobs.histories.polls import Polls
from jobs.rounds import commit, engine
from jobs.rounds import plan as rounds
from jobs.rounds.commit import delete_rows, version_of
from jobs.rounds.engine import Engine
from jobs.rounds.lost_rounds import lost_rounds
from jobs.rounds.plan import OvertakenError, Rounds
from jobs.run.cli import one_line
from jobs.upkeep import expiry
from jobs.upkeep.expiry import expire_history
from schemas import gold, silver, views
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import read_view
from schemas.internal import ROUNDS, STATE
from schemas.lake import Lake, LakeError
from schemas.lost_commits import mend_lost_commits
from schemas.table import PART, Table
from tests.support.broken_folds import broken_for
from tests.support.bronze_rows import bronze_rows
from tests.support.disks import full_after, small_disk
from tests.support.histories import START, Answer, RandomCluster, good_answer
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import new_lake
from tests.support.large_rounds import tables_of
from tests.support.oracles import gold as oracle
from tests.support.oracles.silver import expected_rows
from tests.support.power_cuts import cut_power
from tests.support.retained import keys, was_over
from tests.support.stored import Row, append, as_text, newest_states, rounds_of, rows_of, version

POLLS = 12
LATER = START + timedelta(days=1)
"""When all rounds are made: long after the polls, and at one time, since rows of gold say when they
were updated.
"""
TABLES = (*(table for tables in OF_POLLS.values() for table in tables), STATE)
OTHER = Thresholds(flaps=1, flap_window=timedelta(hours=1))


# --- lakes ---


@pytest.fixture(scope="module")
def polls() -> list[Row]:
    """Of two rounds of six polls, each of which changes many tables."""
    clusters = RandomCluster("c0", 2, kinds=["configs"]), RandomCluster("c1", 9, kinds=["configs"])
    return [
        row for cluster in clusters for row in bronze_rows(cluster.alias, cluster.answers(POLLS))
    ]


@pytest.fixture(scope="module")
def polled(spark: SparkSession, polls: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with these polls, which are not history yet."""
    return with_polls(spark, tmp_path_factory.mktemp("polled"), polls)


Tables = dict[Table, list[str]]


@pytest.fixture(scope="module")
def whole_rows(polls: list[Row]) -> dict[Table, list[Row]]:
    """The rows of all tables when all of it is made, by the rules in one process."""
    made = tables_of(polls, at=LATER)
    return {
        table: [dict.fromkeys(table.column_names) | row for row in made[table]] for table in TABLES
    }


@pytest.fixture(scope="module")
def whole(whole_rows: dict[Table, list[Row]]) -> Tables:
    """The same, fit to be compared."""
    return {table: compared(table, rows) for table, rows in whole_rows.items()}


@pytest.fixture(scope="module")
def half(spark: SparkSession, polled: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake in which the first half of it was made, in one round."""
    lake = copied(polled, tmp_path_factory.mktemp("half"))
    assert history_of(spark, lake, polls_per_round=6).round(LATER)
    return lake


def with_polls(spark: SparkSession, folder: Path, polls: list[Row]) -> Lake:
    lake = new_lake(spark, folder)
    append(lake, METADATA_POLLS, polls)
    return lake


def copied(lake: Lake, folder: Path) -> Lake:
    shutil.copytree(str(lake), folder, dirs_exist_ok=True)
    return Lake(root=str(folder))


def history_of(spark: SparkSession, lake: Lake, *histories: str, **settings: Any) -> Engine:
    config = Config(lake, "", {}, {}, timedelta(days=7), **settings)
    return Engine(spark, config, Polls(histories or OF_POLLS))


def made(spark: SparkSession, lake: Lake, *histories: str, **settings: Any) -> Engine:
    """Make all that is new."""
    history = history_of(spark, lake, *histories, **settings)
    while history.round(LATER):
        pass
    return history


def compared(table: Table, rows: list[Row]) -> list[str]:
    assert len(rows) == len({tuple(row[name] for name in table.key) for row in rows}), (
        f"{table.full_name}: keys"
    )
    if table is STATE:
        rows = [row | {"round": None, "memory": json.loads(row["memory"])} for row in rows]
    return as_text(rows)


def assert_same(lake: Lake, whole: Tables) -> None:
    for table, rows in whole.items():
        found = newest_states(lake) if table is STATE else rows_of(lake, table)
        assert compared(table, found) == rows, table.full_name


def versions(lake: Lake) -> dict[str, int]:
    return {table.full_name: version(lake, table) for table in TABLES}


def states(lake: Lake, history: str = "silver") -> dict[str, Row]:
    return {row["cluster"]: row for row in newest_states(lake) if row["history"] == history}


# --- against the plain rules ---


@pytest.fixture(scope="module")
def histories() -> dict[str, list[Answer]]:
    """Of clusters with all that the rules are about. Rules themselves have random histories without
    Spark (tests/unit/jobs/rules), and rounds in Spark are held against the rules below.
    """
    clusters = [
        RandomCluster("c0", 1),
        RandomCluster("c1", 2, mistaken_for="id-c0"),
        RandomCluster("c2", 3, kinds=["configs", "reassignments", "elr"]),
        RandomCluster("c3", 4, kinds=["configs"]),
    ]
    return {cluster.alias: cluster.answers(26) for cluster in clusters}


@pytest.fixture(scope="module")
def varied(
    spark: SparkSession,
    histories: dict[str, list[Answer]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Lake:
    """A lake in which their history was made."""
    polls = [row for alias, answers in histories.items() for row in bronze_rows(alias, answers)]
    lake = with_polls(spark, tmp_path_factory.mktemp("varied"), polls)
    made(spark, lake)
    return lake


@pytest.mark.soak
def test_silver_is_as_the_plain_rules_say(varied: Lake, histories: dict[str, list[Answer]]) -> None:
    expected: dict[str, list[Row]] = defaultdict(list)
    for alias, answers in histories.items():
        for table, rows in expected_rows(answers, alias).items():
            expected[table] += rows
    for table in (*silver.SNAPSHOTS, silver.POLL_GAPS):
        rows = [dict.fromkeys(table.column_names) | row for row in expected[table.full_name]]
        assert rows, f"{table.full_name}: nothing is proven"
        # Where a row lies is no rule of history.
        assert as_text([row | {PART: None} for row in rows_of(varied, table)]) == as_text(
            [row | {PART: None} for row in rows]
        ), table.full_name


@pytest.mark.soak
def test_gold_is_as_the_plain_rules_say(varied: Lake) -> None:
    stored = {table: rows_of(varied, table) for table in (*gold.ISR_TABLES, *gold.LEADER_TABLES)}
    seen = set()
    for alias, state in states(varied).items():
        rows = settled_rows(varied, state)
        wanted = oracle.expected_rows(rows, state["done_at"])
        for table, rows_stored in stored.items():
            expected = wanted[table.full_name]
            names = list(expected[0]) if expected else []
            found = [
                {name: row[name] for name in names}
                for row in rows_stored
                if row["cluster"] == alias
            ]
            assert as_text(found) == as_text(expected), (alias, table.full_name)
            seen |= {table} if expected else set()
    assert seen == set(stored)


def settled_rows(lake: Lake, state: Row) -> dict[str, list[Row]]:
    """Rows of silver of a cluster as gold may know them."""
    rows: dict[str, list[Row]] = defaultdict(list)
    ends = (
        "last_poll",
        "last_seen_at",
        "last_seen_sent_at",
        "superseded_poll",
        "valid_to",
        "end_reason",
    )
    for table in silver.SNAPSHOTS:
        for row in rows_of(lake, table):
            if row["cluster"] == state["cluster"] and row["first_poll"] <= state["done_poll"]:
                is_over = (row["superseded_poll"] or "~") <= state["done_poll"]
                rows[table.full_name].append(row if is_over else row | dict.fromkeys(ends))
    return rows


# --- kills ---


@pytest.mark.soak
def test_killed_anywhere_a_round_is_finished_by_the_next_run(
    spark: SparkSession, polled: Lake, whole: Tables, tmp_path: Path
) -> None:
    """A lake's first round, and one that replaces rows, killed after each of its commits, and by
    the run that finishes it when all are made, which has other thresholds, while what was written
    is compacted. Rounds of few polls make what one round makes of all.
    """
    lake = copied(polled, tmp_path)
    history = history_of(spark, lake, polls_per_round=6)
    for before in (True, False):
        with killed_at("plan", before=before), pytest.raises(KilledError):
            history.round(LATER)
    with killed_after(4), pytest.raises(KilledError):
        finish(spark, lake)
    with killed_at("done", before=True), pytest.raises(KilledError):
        finish(spark, lake)
    history = finish(spark, lake)
    check_finished(lake, 1)

    history, before = history_of(spark, lake, polls_per_round=6), versions(lake)
    with killed_after(1), pytest.raises(KilledError):
        history.round(LATER)
    for commits in (2, 3, 5, 6, 7, 8):
        with killed_after(commits), pytest.raises(KilledError):
            finish(spark, lake)
        if commits == 3:
            optimize(spark, lake, *written_since(before, lake))
    with killed_at("done", before=False), pytest.raises(KilledError):
        finish(spark, lake)
    check_finished(lake, 2)
    overtaken(history, lake)
    check_made_once(spark, lake, whole)


def finish(spark: SparkSession, lake: Lake) -> Engine:
    return history_of(spark, lake, polls_per_round=6, thresholds=OTHER)


def check_finished(lake: Lake, rounds: int) -> None:
    done = {
        f"round {row['round']}" for row in rows_of(lake, STATE) if row["round"]
    }  # The lake's own row has none.
    assert len(done) == rounds
    for table in TABLES:
        assert set(rounds_of(lake, table)) <= done, table.full_name


def check_made_once(spark: SparkSession, lake: Lake, whole: Tables) -> None:
    assert not finish(spark, lake).round(LATER), (
        "the round of the one that was overtaken is nobody's"
    )
    for table in TABLES:
        of_table = rounds_of(lake, table)
        assert len(of_table) == len(set(of_table)), (
            f"{table.full_name}: a round was committed twice"
        )
    assert_same(lake, whole)


@pytest.mark.soak
def test_a_disk_that_is_full_in_the_middle_of_a_round_costs_nothing_but_time(
    spark: SparkSession, polled: Lake, whole: Lake, tmp_path: Path
) -> None:
    """Nothing is to be deleted but what fills the disk: files that were half written belong to no
    table.
    """
    with small_disk(tmp_path / "disk", 64) as disk:
        lake = copied(polled, disk / "lake")
        history, before = history_of(spark, lake), versions(lake)
        with full_after(disk, 3), pytest.raises((Py4JJavaError, PySparkException)) as raised:
            history.round(LATER)
        assert "No space left on device" in one_line(raised.value)
        assert len(written_since(before, lake)) == 3
        made(spark, lake)
        assert_same(lake, whole)


# --- power cuts ---


@pytest.mark.soak
def test_rounds_that_a_power_cut_took_from_a_table_are_folded_again(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of one table both rounds are gone, of another the second; all are noted as done."""
    lake = copied(half, tmp_path)
    assert history_of(spark, lake, polls_per_round=6).round(LATER)
    assert lost_rounds(lake) == []
    first = int(rounds_of(lake, silver.TOPIC_SNAPSHOTS)[0].removeprefix("round "))
    written = [
        version_of(spark, lake, silver.TOPIC_SNAPSHOTS, first - n, or_later=n > 0) for n in (0, 1)
    ]
    assert written[0] == written[1] is not None
    assert version_of(spark, lake, silver.TOPIC_SNAPSHOTS, first - 1) is None
    for table, commits in ((silver.PARTITION_SNAPSHOTS, 2), (gold.ISR_EPISODES, 1)):
        cut_power(lake, table, commits)
    assert [line.partition(" in ")[0] for line in mend_lost_commits(lake)] == [
        "silver.partition_snapshots",
        "silver.partition_snapshots",
        "gold.isr_episodes",
    ]
    assert [(each.tables, each.is_last) for each in lost_rounds(lake)] == [
        (("silver.partition_snapshots",), True),
        (("gold.isr_episodes", "silver.partition_snapshots"), True),
    ]
    assert not history_of(spark, lake, polls_per_round=6).round(LATER)
    said = [record.getMessage().partition(" lost round ") for record in caplog.records]
    assert [tables for tables, is_lost, _ in said if is_lost] == [
        "silver.partition_snapshots",
        "gold.isr_episodes, silver.partition_snapshots",
    ]
    assert_same(lake, whole)
    assert lost_rounds(lake) == []


# --- a cluster whose fold fails ---


@pytest.mark.soak
def test_a_cluster_whose_fold_fails_is_left_out_and_comes_back(
    spark: SparkSession,
    polled: Lake,
    whole: Tables,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    lake, now = copied(polled, tmp_path), [0.0]
    history = history_of(spark, lake)
    history.left_out.clock = lambda: now[0]

    def catch_up(maker: Engine) -> None:
        if maker.left_out.take_back():
            maker._go_back()
        while maker._timed_round(LATER):
            pass

    with broken_for(poll_inputs, "c1"):
        catch_up(history)
        assert states(lake).keys() == {"c0"}
        for table in (silver.PARTITION_SNAPSHOTS, gold.ISR_EPISODES):
            expected = [row for row in whole[table] if json.loads(row)["cluster"] == "c0"]
            assert expected
            assert compared(table, rows_of(lake, table)) == expected
        (row,) = states(lake, "left out of silver").values()
        assert row["cluster"] == "c1"
        assert row["why"].startswith("KeyError: 'leader_epoch' (__call__, line ")
        now[0] = 59.0
        planned = version(lake, ROUNDS)
        catch_up(history)
        assert version(lake, ROUNDS) == planned, "left out, it costs nothing"
        now[0] = 61.0
        catch_up(history)
        # Another run finds a round that was planned and cannot be folded.
        history = history_of(spark, lake)
        catch_up(history)
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.partition(", since")[0].rpartition(" for ")[2] for line in said] == [
        "60 s",
        "120 s",
        "120 s",
    ]
    history.left_out.clock = lambda: time.monotonic() + 3_600
    catch_up(history)
    assert_same(lake, whole)
    assert list(history.left_out) == []


def written_since(before: dict[str, int], lake: Lake) -> list[Table]:
    return [table for table in TABLES if version(lake, table) > before[table.full_name]]


def optimize(spark: SparkSession, lake: Lake, *tables: Table) -> None:
    assert tables, "nothing is compacted"
    for table in tables:
        spark.sql(f"OPTIMIZE {lake.identifier(table)}")


def overtaken(history: Engine, lake: Lake) -> None:
    """Let a run make a round of histories that another one has taken over: it ends, and writes none
    of their tables.
    """
    before = versions(lake)
    with pytest.raises(
        OvertakenError, match=r"^another run \(.*\) makes .*silver.* now; nothing is lost.*$"
    ) as raised:
        history.round(LATER)
    assert "\n" not in str(raised.value)
    assert versions(lake) == before


# --- computed anew ---


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


# --- several at once ---


def test_two_runs_that_plan_at_once_never_plan_the_same_round(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path, [ROUNDS, STATE])
    planned: list[int] = []

    def plan(of: str) -> None:
        rounds = Rounds(spark, lake, [of])
        planned.extend(rounds.plan({"of": of}, LATER).round for _ in range(2))

    threads = [
        InheritableThread(plan, args=(of,), session=spark) for of in ("silver", "isr_shrink")
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(planned) == len(set(planned)) == 4
    assert sorted(row["round"] for row in rows_of(lake, ROUNDS)) == list(range(1, 7))


@pytest.mark.soak
def test_histories_apart_are_those_made_together(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path
) -> None:
    """Silver is made by one, and gold of it by others."""
    lake = copied(half, tmp_path)
    made(spark, lake, "silver")
    made(spark, lake, "leader_churn")
    made(spark, lake, "isr_shrink")
    assert_same(lake, whole)


@pytest.mark.soak
def test_histories_apart_finish_what_was_begun_together(
    spark: SparkSession,
    polled: Lake,
    whole: Tables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who makes a part finishes a round of all; and silver is made further while a round of gold is
    not done yet. Old states are replaced by every other round.
    """
    monkeypatch.setattr(rounds, "ALL_STATES_EVERY", 2)
    lake = copied(polled, tmp_path)
    with killed_after(5), pytest.raises(KilledError):
        history_of(spark, lake, polls_per_round=4).round(LATER)
    apart = history_of(spark, lake, "silver", polls_per_round=4)
    assert apart.round(LATER)
    isrs = history_of(spark, lake, "isr_shrink")
    with killed_after(1), pytest.raises(KilledError):
        isrs.round(LATER)
    assert apart.round(LATER)
    assert not apart.round(LATER)
    made(spark, lake, "leader_churn")
    made(spark, lake, "isr_shrink")
    assert_same(lake, whole)
    assert len(rows_of(lake, STATE)) < 3 * len(newest_states(lake))


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


# --- where the session does not let us overwrite ---


@pytest.mark.soak
def test_a_merge_writes_the_same(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "can_replace", lambda _: False)
    lake = copied(half, tmp_path)
    history, before = history_of(spark, lake), versions(lake)
    with killed_after(4), pytest.raises(KilledError):
        history.round(LATER)
    optimize(spark, lake, *written_since(before, lake))
    made(spark, lake)
    assert_same(lake, whole)


# --- quiet ---


class Polled:
    """Two clusters that are polled by one stream; their times are now."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.begin = datetime.now(UTC) - timedelta(seconds=30)
        self.answers: dict[str, list[Answer]] = {"busy": [], "calm": []}
        self.written: set[tuple[str, str]] = set()

    def poll(
        self, n: int, epoch: int, *, calm: bool = True, stream: str = "20261101T000000Z-00000000"
    ) -> None:
        """Append the poll of both clusters in which the leader of `busy` has this epoch; `calm`: of
        that too.
        """
        for alias in ("busy", "calm") if calm else ("busy",):
            shown = epoch if alias == "busy" else 0
            leader = {"error_code": 0, "leader": shown % 2, "leader_epoch": shown}
            partition = {**leader, "replicas": [0, 1], "isr": [0, 1], "offline_replicas": []}
            at = self.begin + timedelta(seconds=n)
            answer = good_answer(
                stream, n, at, {0: None, 1: None}, {"orders": [partition]}, batch=n
            )
            self.answers[alias].append(replace(answer, cluster_id=f"id-{alias}"))
        rows = [
            row for alias, answers in self.answers.items() for row in bronze_rows(alias, answers)
        ]
        append(
            self.lake,
            METADATA_POLLS,
            [r for r in rows if (r["cluster"], r["poll_id"]) not in self.written],
        )
        self.written |= {(row["cluster"], row["poll_id"]) for row in rows}


def test_a_round_is_made_of_what_says_something_new(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(spark, tmp_path)
    polled = Polled(lake)

    def now(after: int = 5) -> datetime:
        return polled.begin + timedelta(seconds=after)

    polled.poll(0, 1)
    history = history_of(spark, lake)
    assert history.round(now())
    assert {row["round"] for row in rows_of(lake, STATE) if row["cluster"]} == {2}
    assert not history.round(now())

    polled.poll(1, 1)
    before = versions(lake), version(lake, ROUNDS)
    assert not history.round(now())
    assert (versions(lake), version(lake, ROUNDS)) == before, "a quiet round commits nothing"

    polled.poll(2, 2)
    assert history.round(now())
    assert {alias: row["round"] for alias, row in states(lake).items()} == {"busy": 3, "calm": 2}
    assert {alias: row["round"] for alias, row in states(lake, "isr_shrink").items()} == {
        "busy": 3,
        "calm": 2,
    }
    assert states(lake)["busy"]["last_poll"].endswith("2")
    assert states(lake)["calm"]["last_poll"].endswith("0")

    before = versions(lake), version(lake, ROUNDS)
    assert not history.round(now())
    assert (versions(lake), version(lake, ROUNDS)) == before
    assert history.round(now(after=70)), "polls are noted after a minute"
    assert states(lake)["calm"]["last_poll"].endswith("2")
    polled.poll(3, 2)
    assert not history.round(now())
    assert states(lake)["calm"]["last_poll"].endswith("2")
    assert history.round(now(after=70))
    assert {row["last_poll"][-1] for row in states(lake).values()} == {"3"}
    same = before[0] | {STATE.full_name: before[0][STATE.full_name] + 2}
    assert versions(lake) == same, "notes are kept in one table"

    polled.poll(4, 1, calm=False)
    assert history.round(now()), "an answer of a lagging broker waits"
    assert states(lake)["busy"]["stale_polls"] == 1
    before = versions(lake), version(lake, ROUNDS)
    assert not history.round(now()), "polls that wait are no news"
    assert not history.round(now(after=1_000))
    polled.poll(5, 1, stream="20261031T000000Z-00000000")
    for each in (history, history_of(spark, lake)):
        assert not each.round(now(after=1_000)), "a poll of an older stream comes too late"
    assert (versions(lake), version(lake, ROUNDS) - 1) == before


def test_numbers_of_one_cluster_say_nothing_of_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow cluster, or one that came later, has small ones when another one's are large; and the
    rows of a poll are read from the commits that have them.
    """
    lake, stream = new_lake(spark, tmp_path), "20261101T000000Z-00000000"

    def polled(alias: str, n: int, epoch: int, *, batch: int = 0) -> list[Row]:
        partition = {
            "leader": 1,
            "leader_epoch": epoch,
            "replicas": [1],
            "isr": [1],
            "offline_replicas": [],
        }
        topics = {"t": [{"error_code": 0} | partition]}
        answer = good_answer(
            stream, n, START + timedelta(seconds=n), {1: None}, topics, batch=batch
        )
        answer.cluster_id = f"id-{alias}"
        return bronze_rows(alias, [answer])

    append(lake, METADATA_POLLS, polled("fast", 1_000, 1))
    history = made(spark, lake)
    append(lake, METADATA_POLLS, [*polled("slow", 0, 1), *polled("fast", 1_001, 1)])
    append(lake, METADATA_POLLS, [*polled("slow", 1, 2), *polled("fast", 1_002, 2)])
    looked = versions_read(monkeypatch)
    assert history.round(LATER)
    assert {alias: row["last_poll"][-4:] for alias, row in states(lake).items()} == {
        "slow": "0001",
        "fast": "1002",
    }
    of_partitions = rows_of(lake, silver.PARTITION_SNAPSHOTS)
    assert sorted(
        (row["cluster"], row["leader_epoch"], row["first_poll"][-4:]) for row in of_partitions
    ) == [
        *(("fast", 1, "1000"), ("fast", 2, "1002")),
        *(("slow", 1, "0000"), ("slow", 2, "0001")),
    ]
    newest = version(lake, METADATA_POLLS)
    assert looked == [(newest - 1, newest), (newest - 1, newest)], (
        "the headers, then the rows of those polls"
    )
    looked.clear()
    assert not history.round(LATER)
    assert looked == [], "without a commit nothing is read"
    for epoch in (3, 4, 5):  # Batches that come while a round is made.
        append(lake, METADATA_POLLS, polled("fast", 1_000 + epoch, epoch))
    assert history.round(LATER)
    assert looked == [(newest + 1, newest + 3)] * 2
    assert states(lake)["fast"]["last_poll"].endswith("1005"), "one round takes them all"


def versions_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The versions of bronze whose rows are read from now on: first and last."""
    found: list[tuple[int, int]] = []
    read_appended = Lake.read_appended

    def read(lake: Lake, spark: SparkSession, table: Table, first: int, last: int) -> Any:
        found.append((first, last))
        return read_appended(lake, spark, table, first, last)

    monkeypatch.setattr(Lake, "read_appended", read)
    return found
