"""Which rows of silver and gold may go."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest

from jobs.configuration.config import Thresholds
from jobs.rounds.live import replaced
from jobs.rules.groups.fold_rebalances import GroupTake, forgets_before
from jobs.rules.groups.fold_rebalances import fold as fold_part
from jobs.rules.groups.group import Group
from jobs.upkeep import expiry
from jobs.upkeep.expiry import (
    TABLES,
    correct_noted,
    cutoff_of,
    expire_history,
    held,
    note,
    over_before,
)
from schemas import consumption, gold, groups, incidents, silver, storage, transactions, views
from schemas.internal import GROUP_STATES, STATE, STATE_NOW, retention_of
from schemas.table import Table
from schemas.views import REACH
from tests.support import group_records, group_states
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.for_each import for_each
from tests.support.group_records import Log, classic, classic_member
from tests.support.group_rounds import Rounds
from tests.support.group_views import Rows, by_hand
from tests.support.memory_lake import MemoryLake, without_spark
from tests.support.random_group_views import by_chance
from tests.support.retained import was_over

CUTOFF = datetime(2026, 11, 14, tzinfo=UTC)
NOW = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)
EVERY = [table for tables in TABLES.values() for table in tables]


def at(hours: float) -> datetime:
    return CUTOFF + timedelta(hours=hours)


def test_rows_go_a_day_at_a_time() -> None:
    assert cutoff_of(timedelta(days=7), NOW) == CUTOFF
    assert cutoff_of(timedelta(days=7), NOW.astimezone()) == CUTOFF
    assert cutoff_of(timedelta(days=7), NOW + timedelta(minutes=1)) == CUTOFF + timedelta(days=1)
    assert cutoff_of(timedelta(0), NOW) == datetime(2026, 11, 21, tzinfo=UTC)
    assert cutoff_of(timedelta.max, NOW) is None


def test_every_table_of_silver_and_gold_says_when_its_rows_were_over() -> None:
    assert {table.full_name for table in EVERY} == {
        table.full_name
        for table in (
            *silver.TABLES,
            *gold.TABLES,
            *groups.TABLES,
            *consumption.TABLES,
            *consumption.LAG_TABLES,
            storage.STORAGE,
            transactions.TRANSACTIONS,
            transactions.TRANSACTION_COUNTS,
            *incidents.TABLES,
        )
    }
    assert TABLES.keys() == {"silver", "gold", "group_lag"}, "the keys of the configuration"
    for table in EVERY:
        times = {column.name for column in table.columns if column.type == "timestamp"}
        assert table.over
        assert set(table.over) <= times
        assert set(table.over) <= set(table.statistics_columns), "files are skipped by them"


@for_each("table", EVERY)
def test_a_row_goes_that_changes_no_more_and_was_over_before(table) -> None:
    nullable = {column.name: column.nullable for column in table.columns}
    # What changes no more has a time by which it was over.
    is_told = table.live in table.column_names
    choices = [[*((None,) if nullable[name] else ()), at(-1), at(0), at(1)] for name in table.over]
    rows = [
        dict(zip(table.over, values, strict=True)) | ({table.live: is_live} if is_told else {})
        for values in itertools.product(*choices)
        for is_live in ((True, False) if is_told else (None,))
        if is_live or any(values) or (table.live and not is_told)
    ]
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    told = lake.execute(f"SELECT {_condition(table)} FROM ({_values(table, rows)})").fetchall()
    assert [bool(value) for (value,) in told] == [was_over(table, row, CUTOFF) for row in rows]
    assert {True, False} == {bool(value) for (value,) in told}


def _condition(table) -> str:
    return over_before(table, CUTOFF, {}).replace("TIMESTAMP'", "TIMESTAMPTZ'")


def _values(table, rows) -> str:
    def text(value) -> str:
        if value is None:
            return "CAST(NULL AS TIMESTAMPTZ)"
        return str(value).upper() if isinstance(value, bool) else f"TIMESTAMPTZ'{value}'"

    selects = []
    for row in rows:
        columns = {name: text(value) for name, value in row.items()}
        if table.live and table.live not in columns:
            columns[table.live] = f"{columns[table.over[-1]]} IS NULL"
        selects.append(
            "SELECT " + ", ".join(f"{value} AS {name}" for name, value in columns.items())
        )
    return " UNION ALL ".join(selects)


def had(**until: datetime | None) -> dict:
    """How far histories of one cluster are, none of which has had all before CUTOFF unless told."""
    return {
        (history, "prod"): {"done_at": done_at}
        for history, done_at in {"silver": at(9), **until}.items()
    }


def test_silver_is_held_by_the_slowest_history_that_is_made_of_it() -> None:
    every = {"isr_shrink": at(2), "leader_churn": at(1)}
    rows, of_groups = silver.PARTITION_SNAPSHOTS, silver.GROUP_SNAPSHOTS
    assert held(had(**every), rows, CUTOFF) == {}
    assert held(had(**every | {"leader_churn": at(0)}), rows, CUTOFF) == {}, (
        "it has had all up to there"
    )
    assert held(had(**every | {"leader_churn": at(-1)}), rows, CUTOFF) == {"prod": at(-1)}
    assert held(had(isr_shrink=at(2)), rows, CUTOFF) == {"prod": None}
    assert held(had(**every | {"leader_churn": None}), rows, CUTOFF) == {"prod": None}
    assert held(had(**every), of_groups, CUTOFF) == {"prod": None}
    assert held(had(**every, rebalance_history=at(-2)), of_groups, CUTOFF) == {"prod": at(-2)}
    assert held(had(**every, rebalance_history=at(-2)), rows, CUTOFF) == {}
    assert held(had(), gold.ISR_CHANGES, CUTOFF) == {}, "nothing is made of gold"


def test_rows_that_are_held_are_kept_of_their_cluster_alone() -> None:
    condition = over_before(silver.POLL_GAPS, CUTOFF, {"it's": None, "prod": at(-2)})
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    rows = [(name, hours) for name in ("it's", "prod", "other") for hours in (-3, -2, -1, 1)]
    values = ", ".join(f"($${name}$$, TIMESTAMPTZ'{at(hours)}')" for name, hours in rows)
    sql = condition.replace("TIMESTAMP'", "TIMESTAMPTZ'").replace("\\'", "''")
    told = lake.execute(f"SELECT {sql} FROM (VALUES {values}) AS t (cluster, gap_end)").fetchall()
    gone = {row for row, (is_gone,) in zip(rows, told, strict=True) if is_gone}
    assert gone == {("prod", -3), ("other", -3), ("other", -2), ("other", -1)}


def test_how_far_history_reaches() -> None:
    of = {"cluster_id": "id-prod", "cluster": "prod", "first_poll": "s/0"}
    rows = {
        silver.CLUSTER_SNAPSHOTS: [of | {"valid_from": at(-5)}, of | {"valid_from": at(3)}],
        STATE: [
            {"history": "silver", "cluster": "prod", "round": 3, "memory": "{}", "done_at": at(9)},
            {
                "history": retention_of("silver"),
                "cluster": "",
                "round": 0,
                "memory": "{}",
                "done_at": CUTOFF,
            },
        ],
    }
    with duckdb_lake(rows, [STATE_NOW, REACH]) as lake:
        (reach,) = ask(lake, "SELECT cluster, silver_from, gold_from, until FROM silver.reach")
    assert reach == {"cluster": "prod", "silver_from": CUTOFF, "gold_from": at(-5), "until": at(9)}


# --- rows are dropped once a day ---


@pytest.fixture
def lake() -> Iterator[MemoryLake]:
    with without_spark():
        yield MemoryLake()


def gap(hours: float, cluster: str = "prod") -> dict:
    return {"cluster": cluster, "gap_start": at(hours - 1), "gap_end": at(hours)}


def gaps(lake: MemoryLake) -> list[datetime]:
    return sorted(lake.rows(silver.POLL_GAPS)["gap_end"].to_pylist())


def noted(lake: MemoryLake) -> dict[str, datetime]:
    rows = lake.rows(STATE).to_pylist(maps_as_pydicts="strict")
    return {row["history"]: row["done_at"] for row in rows}


KEPT = {"silver": timedelta(days=7), "gold": None, "group_lag": timedelta.max}
SILVER, GOLD = retention_of("silver"), retention_of("gold")


def test_what_was_over_for_long_enough_goes_once_a_day(lake: MemoryLake) -> None:
    lake.append(silver.POLL_GAPS, [gap(-1), gap(0)])
    expire_history(None, lake, KEPT, NOW)
    assert (gaps(lake), noted(lake)) == ([at(0)], {SILVER: CUTOFF})
    lake.append(silver.POLL_GAPS, [gap(-2)])
    expire_history(None, lake, KEPT, NOW)
    assert gaps(lake) == [at(-2), at(0)], "the day is done"
    expire_history(None, lake, KEPT, NOW + timedelta(days=1))
    assert (gaps(lake), noted(lake)) == ([], {SILVER: CUTOFF + timedelta(days=1)})


def test_what_is_dropped_is_noted_before(lake: MemoryLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, "no space left")

    lake.append(silver.POLL_GAPS, [gap(-1)])
    monkeypatch.setattr(expiry, "delete_rows", fails)
    with pytest.raises(OSError, match="28"):
        expire_history(None, lake, KEPT, NOW)
    assert noted(lake) == {SILVER: CUTOFF}


def test_a_table_that_has_nothing_old_is_left_alone(lake: MemoryLake) -> None:
    lake.append(silver.POLL_GAPS, [gap(0)])
    before = len(lake.commits[silver.POLL_GAPS])
    expire_history(None, lake, KEPT, NOW)
    assert len(lake.commits[silver.POLL_GAPS]) == before


def test_silver_waits_for_gold(lake: MemoryLake) -> None:
    lake.append(silver.POLL_GAPS, [gap(-3), gap(-1), gap(-3, "other")])
    done = {"isr_shrink": at(-2), "leader_churn": at(9)}
    lake.append(
        STATE,
        [
            {"history": name, "cluster": "prod", "round": 1, "memory": "{}", "done_at": done_at}
            for name, done_at in done.items()
        ],
    )
    expire_history(None, lake, KEPT, NOW)
    assert gaps(lake) == [at(-1)]


def test_members_stay_as_long_as_their_rebalance(lake: MemoryLake) -> None:
    of = {"cluster": "prod", "is_live": False}
    kept = of | {"id": "kept", "began_before": at(-1), "ended_before": at(1)}
    lake.append(groups.REBALANCES, [kept, kept | {"id": "gone", "ended_before": at(-1)}])
    member = of | {"began_before": at(-1)}
    ids = ("kept", "gone")
    lake.append(groups.REBALANCE_MEMBERS, [member | {"rebalance_id": each} for each in ids])
    expire_history(None, lake, {"gold": timedelta(days=7)}, NOW)
    assert lake.rows(groups.REBALANCES)["id"].to_pylist() == ["kept"]
    assert lake.rows(groups.REBALANCE_MEMBERS)["rebalance_id"].to_pylist() == ["kept"]


@pytest.mark.parametrize(("hours", "corrected"), [(-1, False), (0, False), (1, True)])
def test_what_a_clock_that_was_ahead_has_noted_is_corrected(
    lake: MemoryLake, hours: float, corrected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    note(None, lake, SILVER, at(hours))
    note(None, lake, GOLD, at(-9))
    correct_noted(None, lake, ["silver", "gold", "group_lag"], CUTOFF)
    assert noted(lake) == {SILVER: at(0) if corrected else at(hours), GOLD: at(-9)}
    assert len(caplog.records) == corrected


# --- what is asked of the rows that are left ---


def left(rows: Rows, silver_cutoff: datetime | None, gold_cutoff: datetime | None) -> Rows:
    """The rows that retention leaves of these."""
    cutoffs = {"silver": silver_cutoff, "gold": gold_cutoff, "group_lag": gold_cutoff}
    kept: Rows = {}
    for table, of_table in rows.items():
        cutoff = next((cutoffs[key] for key, tables in TABLES.items() if table in tables), None)
        if cutoff is None:
            kept[table] = list(of_table)
        elif table is silver.COORDINATORS:
            nexts: dict[tuple, datetime] = {}
            for row in reversed(of_table):  # written in the order of polls
                place = row["cluster"], row["log_partition"]
                if nexts.get(place, cutoff) >= cutoff:
                    kept.setdefault(table, []).insert(0, row)
                nexts[place] = row["began_before"]
        else:
            kept[table] = [
                row for row in of_table if not was_over(table, filled(table, row), cutoff)
            ]
    ids = {row["id"] for row in kept[groups.REBALANCES]}
    members = rows.get(groups.REBALANCE_MEMBERS, ())
    kept |= {groups.REBALANCE_MEMBERS: [row for row in members if row["rebalance_id"] in ids]}
    noted = {"cluster": "", "round": 0, "memory": "{}"}
    for schema, cutoff in (("silver", silver_cutoff), ("gold", gold_cutoff)):
        kept[STATE].append(noted | {"history": retention_of(schema), "done_at": cutoff})
    return kept


def filled(table: Table, row: dict) -> dict:
    """The row with nulls; what lasts is live."""
    row = dict.fromkeys(table.column_names) | row
    return row | ({table.live: row[table.over[-1]] is None} if table.live else {})


def answers(rows: Rows, view: str, *key: str) -> dict[tuple, dict]:
    with duckdb_lake(rows, views.OF_GROUPS) as lake:
        return {
            tuple(row[name] for name in key): row for row in ask(lake, f"SELECT * FROM gold.{view}")
        }


KEY = ("cluster", "group_id", "id")
BOUNDS = {"duration_ms_min", "duration_ms_max", "since_previous_ms"}
"""Of a rebalance that polls saw begin before the cutoff, these are wider."""


@pytest.mark.parametrize(
    "rows", [by_hand(), by_chance(1, groups_each=4)], ids=["by hand", "by chance"]
)
@pytest.mark.parametrize(("seconds", "kept_gold"), [(95, True), (240, False), (333, True)])
def test_views_of_what_is_left_say_the_same_or_less(rows, kept_gold, seconds) -> None:
    cutoff = group_states.at(seconds)
    before = answers(rows, "rebalances", *KEY)
    # What polls tell once the log has a group ends as the log begins, and so is gone first; these
    # come by chance.
    rows = rows | {
        groups.REBALANCES: [
            row for row in rows[groups.REBALANCES] if tuple(row[name] for name in KEY) in before
        ]
    }
    after = answers(left(rows, cutoff, None if kept_gold else cutoff), "rebalances", *KEY)
    assert after.keys() <= before.keys()
    assert len(after) < len(before) or kept_gold
    for key, row in after.items():
        wider = BOUNDS if row["began_before"] < cutoff else set()
        for name in row.keys() - wider:
            assert row[name] is None or row[name] == before[key][name], (key, name)


# --- groups that are gone ---


OF_GROUPS = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster_id", "cluster", "group_id", "memory")),
        ("part", pa.int32()),
    ]
)


def test_a_round_forgets_groups_of_its_part_that_were_gone_before_what_is_kept() -> None:
    """Their rows that were not settled are: the log may end with a group's tombstone."""
    stored = {}
    for group_id, ends in {"gone": True, "there": False}.items():
        rounds = Rounds(group=Group("id-prod", "prod", group_id))
        log = Log(group_id).batch(10, classic(1, [classic_member("m1", has={"t": [0]})]))
        rounds.take(log.rows)
        if ends:
            rounds.take(log.batch(30, (2, None, None)).rows[-1:])
        stored[group_id] = rounds
    memories = [vars(of.group) | {"memory": of.memory, "part": 3} for of in stored.values()]
    lives = [
        row | {"part": 3}
        for of in stored.values()
        for row in of.of(groups.GROUP_LIVES)
        if row["is_live"]
    ]
    live = {
        GROUP_STATES.full_name: pa.Table.from_pylist(memories, OF_GROUPS),
        groups.GROUP_LIVES.full_name: pa.Table.from_pylist(lives),
    }

    def folded(since: datetime) -> dict[str, list]:
        clusters, at = {"prod": GroupTake("id-prod")}, group_records.at(99)
        made = fold_part(
            "prod/3",
            {},
            live,
            clusters=clusters,
            ends={},
            limits=Thresholds(),
            at=at,
            forgets=lambda _: since,
        )
        return {name: rows for name, rows in made.items() if rows}

    assert folded(group_records.at(30)) == {}
    made = folded(group_records.at(31))
    assert made.keys() == live.keys()
    (forgotten,) = made[GROUP_STATES.full_name]
    assert (forgotten["group_id"], forgotten["memory"]) == ("gone", None)
    ((group_id, valid_to, is_live),) = (
        (row["group_id"], row["valid_to"], row["is_live"])
        for row in made[groups.GROUP_LIVES.full_name]
    )
    assert (group_id, valid_to, is_live) == ("gone", group_records.at(30), False)
    changed = pa.Table.from_pylist([forgotten], OF_GROUPS)
    kept = replaced(GROUP_STATES, live[GROUP_STATES.full_name], changed, "group_id")
    assert kept["group_id"].to_pylist() == ["there"]


def test_a_group_is_remembered_as_long_as_bronze_and_gold_know_of_it() -> None:
    newest, week = group_records.at(99), timedelta(days=7)
    news = [newest, newest - week / 2]
    assert forgets_before(news, week, None) == newest - week
    assert forgets_before(news, week, newest - 2 * week) == newest - week
    assert forgets_before(news, week, newest - week / 7) == newest - week / 7
    assert forgets_before([], week, newest) == newest
    assert forgets_before([], week, None) == datetime.min.replace(tzinfo=UTC)
