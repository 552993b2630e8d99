"""The fold of the controllers' log over random logs: however they are cut into rounds, whatever
topics polls ask for, and what holds of all rows.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.rules.log.fold import fold
from jobs.rules.log.silver import TABLES
from jobs.rules.silver.topic_lives import asked_for
from metadata_source.options import TopicFilter
from schemas import gold
from schemas.in_duckdb import in_duckdb
from schemas.silver import OF_LOG
from tests.support.cluster_logs import Entry, RandomLog, Row, rows_of
from tests.support.examples import examples
from tests.support.log_cases import check_rows, whole
from tests.support.log_rounds import KEYS, LogLake
from tests.support.turns import Batches

BATCHES = 40
chances = st.randoms(use_true_random=False)
logs = chances.map(lambda chance: RandomLog(chance).grow(BATCHES))
PARTITIONS, REGISTRATIONS = "silver.partition_snapshots", "silver.partition_registrations"
TOPIC_CONFIGS = "silver.topic_configs"
BROKERS = "silver.broker_registrations"


def follow(lake: LogLake, rows: Sequence[Row], until: int, repeats: int = 0) -> None:
    """A round over the rows up to one, from where the state says that it needs them, or some
    before.
    """
    since = lake.state.next_offset if lake.state else 0
    places = [place for place, row in enumerate(rows[:until]) if row["offset"] >= since]
    lake.take(rows[max(0, min(places, default=until) - repeats) : until])


@given(
    entries=logs,
    cuts=st.sets(st.integers(1, 100)),
    narrowed=st.booleans(),
    repeats=st.integers(0, 5),
)
@settings(max_examples=examples(6))
def test_rounds_cut_anywhere_make_the_same_rows(
    *, entries: list[Entry], cuts: set[int], narrowed: bool, repeats: int
) -> None:
    rows = rows_of(entries)
    lake = LogLake(narrowed=narrowed)
    for cut in sorted({*(cut * len(rows) // 100 for cut in cuts), len(rows)}):
        follow(lake, rows, cut, repeats)
    expected = whole(rows)
    assert lake.rows == expected.rows
    assert lake.state == expected.state


@given(chances)
@settings(max_examples=examples(3))
def test_a_round_after_each_record_makes_the_same_rows(chance: random.Random) -> None:
    rows = rows_of(RandomLog(chance).grow(15))
    lake = LogLake(narrowed=True)
    for cut in range(1, len(rows) + 1):
        follow(lake, rows, cut)
    assert lake.rows == whole(rows).rows


@given(logs)
@settings(max_examples=examples(3))
def test_records_that_were_taken_say_nothing_again(entries: list[Entry]) -> None:
    rows = rows_of(entries)
    lake = whole(rows)
    live = lake.live
    assert fold(lake.state, live, rows).rows == {}


# --- topics that polls ask for ---

SOME = TopicFilter(topics=("a", "b")).to_json()
OTHER = TopicFilter(pattern="[bc]").to_json()
OF_ALL_TOPICS = {table.full_name for table in OF_LOG}
OF_TOPICS = {table.full_name for table in TABLES if "topic" in table.key} - OF_ALL_TOPICS


def asked(filters: str | None, topics: Iterable[str]) -> set[str]:
    return asked_for(filters, {*topics})


def only(rows: Mapping[str, Sequence[Row]], filters: str | None) -> dict[str, list[Row]]:
    """Rows of what a filter covers."""
    return {
        table: [row for row in told if table not in OF_TOPICS or asked(filters, {row["topic"]})]
        for table, told in rows.items()
    }


def states(rows: Mapping[str, Sequence[Row]]) -> dict[str, dict[tuple[Any, ...], Row]]:
    """What holds by open rows, by key: not since when, nor what was before."""
    kept = {
        table.full_name: [
            each for each in table.column_names if each not in table.key and f"prev_{each}" in names
        ]
        for table in TABLES
        if (names := set(table.column_names))
    }
    return {
        table: {
            tuple(row.get(name) for name in KEYS[table][:-1]): {name: row[name] for name in names}
            for row in told
        }
        for table, names in kept.items()
        for told in [rows[table]]
    }


# A topic that polls do not ask for gets partitions.
@example(chance=random.Random(7728), cuts={0, 13, 14}, narrowed=True)
@given(chance=chances, cuts=st.sets(st.integers(0, BATCHES)), narrowed=st.booleans())
@settings(max_examples=examples(6))
def test_the_log_tells_the_topics_alone_that_polls_ask_for(
    *, chance: random.Random, cuts: set[int], narrowed: bool
) -> None:
    """In the tables that polls tell too. A round ends with a batch, as what a look has read
    does.
    """
    log = Batches(chance)
    rows = rows_of(log.grow(BATCHES))
    lake = LogLake(narrowed=narrowed, topic_filter=SOME)
    for cut in sorted({*(log.ends[cut] for cut in cuts if cut < len(log.ends)), len(rows)}):
        follow(lake, rows, cut)
    assert lake.rows == only(whole(rows).rows, SOME)


@given(
    chance=chances,
    narrowed=st.booleans(),
    before=st.sampled_from((None, SOME)),
    after=st.sampled_from((None, OTHER)),
)
@settings(max_examples=examples(6))
def test_another_filter_holds_from_the_next_record_on(
    *, chance: random.Random, narrowed: bool, before: str | None, after: str | None
) -> None:
    log = Batches(chance)
    rows = rows_of(log.grow(BATCHES))
    lake = LogLake(narrowed=narrowed, topic_filter=before)
    follow(lake, rows, log.ends[BATCHES // 2])
    was_open = {table: lake.live[table] for table in OF_TOPICS}
    lake.topic_filter = after
    follow(lake, rows, log.ends[BATCHES // 2 + 1])
    assert lake.state is not None
    if lake.state.topic_filter == after:
        for table, told in was_open.items():
            ended = {
                tuple(row[name] for name in KEYS[table]): row["end_reason"]
                for row in lake.rows[table]
            }
            for row in told:
                left = (
                    {"gone", "recreated", "not_polled"}
                    if not asked(after, {row["topic"]})
                    else {"gone", "recreated", None}
                )
                assert ended[tuple(row[name] for name in KEYS[table])] in left
    follow(lake, rows, len(rows))
    assert states(lake.live) == states(only(whole(rows).live, after))
    for table in OF_ALL_TOPICS:
        assert lake.rows[table] == whole(rows).rows[table]


def test_random_logs_have_everything() -> None:
    """Else the tests above say less than they seem to."""
    made = [RandomLog(random.Random(seed)).grow(BATCHES) for seed in range(20)]
    lakes = [whole(rows_of(entries)) for entries in made]
    rows = {table: [row for lake in lakes for row in lake.rows[table]] for table in lakes[0].rows}
    # ACLs, quotas and voters have tests of their own.
    none = {table for table, made in rows.items() if not made}
    assert none <= {gold.ACCESS_CHANGES.full_name, gold.VOTER_CHANGES.full_name}
    snapshots = rows[PARTITIONS]
    assert any(row["valid_from"] == row["valid_to"] for row in snapshots)
    only_offline = ("leader", "leader_epoch", "isr", "replicas")
    assert any(
        row["prev_isr"] and all(row[n] == row[f"prev_{n}"] for n in only_offline)
        for row in snapshots
    )
    assert {True, False} == {row["is_recovering"] for row in rows[REGISTRATIONS]}
    assert {None, 1, 2} == {row["min_insync_replicas"] for row in rows[TOPIC_CONFIGS]}
    assert {True, False} == {row["in_controlled_shutdown"] for row in rows[BROKERS]}
    transactions = {entry.transaction for entries in made for entry in entries}
    assert transactions == {None, 23, 24, 25}


# --- what holds of all rows ---


@given(logs)
@settings(max_examples=examples(6))
def test_rows_are_exact(entries: list[Entry]) -> None:
    lake = whole(rows_of(entries))
    check_rows(lake)
    for table in TABLES:
        for row in lake.rows[table.full_name]:
            if row["prev_poll"] is not None:
                assert row["prev_sent_at"] == row["valid_from"]
            if row["valid_to"] is not None:
                assert row["last_seen_at"] == row["last_seen_sent_at"] == row["valid_to"]


def test_rows_satisfy_what_their_tables_demand() -> None:
    rows = whole(rows_of(RandomLog(random.Random(4)).grow(300))).rows
    with duckdb.connect() as database:
        for table in (*TABLES, gold.CONTROLLER_CHANGES):
            columns = [column for column in table.columns if column.generated_as is None]
            ddl = ", ".join(f"`{column.name}` {column.type}" for column in columns)
            database.execute(in_duckdb(f"CREATE TABLE {table.name} ({ddl})"))
            values = [[row.get(column.name) for column in columns] for row in rows[table.full_name]]
            database.executemany(
                f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(columns))})", values
            )
            for check in (
                *table.constraints.values(),
                *(f"{c.name} IS NOT NULL" for c in columns if not c.nullable),
            ):
                broken = database.execute(
                    f"SELECT * FROM {table.name} WHERE NOT ({in_duckdb(check)})"
                ).fetchall()
                assert broken == [], (table.name, check)
