"""Silver against plain rules, over 200 random histories side by side, however the batches are cut."""

import random
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobs.snapshot_history import apply_polls
from schemas import bronze, silver
from schemas.lake import Lake, ensure_tables, read_view
from schemas.table import Table
from tests.spark.histories import Answer, RandomCluster, View, bronze_rows, views

HISTORIES = int(__import__("os").environ.get("H", 200))
POLLS = 30

INTERVAL_TABLES = (
    silver.BROKER_SNAPSHOTS,
    silver.TOPIC_SNAPSHOTS,
    silver.PARTITION_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
)
COMPARED = (*INTERVAL_TABLES, silver.POLL_GAPS, silver.PROGRESS)


def new_lake(spark: SparkSession, folder: Path) -> Lake:
    lake = Lake(root=str(folder))
    ensure_tables(spark, lake, (*bronze.TABLES, *silver.TABLES))
    return lake


def bronze_frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    schema = StructType.fromDDL(", ".join(f"`{c.name}` {c.type}" for c in bronze.METADATA_POLLS.columns))
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in rows], schema).coalesce(2)


def rows_of(spark: SparkSession, lake: Lake, table: Table) -> list[str]:
    """Every row as text that can be compared, maps in the order of their keys."""
    rows = lake.read(spark, table).select(*table.column_names).collect()
    return sorted(
        repr(
            {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in row.asDict().items()}
        )
        for row in rows
    )


def by_cluster(spark: SparkSession, lake: Lake, table: Table) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in lake.read(spark, table).collect():
        rows[row.cluster].append(row.asDict(recursive=True))
    return rows


@pytest.fixture(scope="module")
def histories() -> dict[str, list[Answer]]:
    return {f"c{seed:03d}": RandomCluster(f"c{seed:03d}", seed).answers(POLLS) for seed in range(HISTORIES)}


@pytest.fixture(scope="module")
def whole(spark: SparkSession, histories: dict[str, list[Answer]], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake that took all histories in one batch."""
    lake = new_lake(spark, tmp_path_factory.mktemp("whole"))
    apply_polls(
        bronze_frame(spark, [row for alias, answers in histories.items() for row in bronze_rows(alias, answers)]), lake
    )
    return lake


def tuples(values: Any) -> Any:
    return None if values is None else tuple(values)


def topic_state(row: dict[str, Any]) -> tuple:
    return row["topic_id"], row["error_code"], row["is_internal"], row["partition_count"]


def partition_state(row: dict[str, Any]) -> tuple:
    return (
        row["topic_id"],
        row["error_code"],
        row["leader"],
        row["leader_epoch"],
        tuples(row["replicas"]),
        tuples(row["isr"]),
        tuples(row["offline_replicas"]),
    )


def broker_state(row: dict[str, Any]) -> tuple:
    return row["host"], row["port"], row["rack"]


def level_state(row: dict[str, Any]) -> tuple:
    return row["metadata_version_level"], row["elr_version_level"]


KINDS = {
    "topics": (silver.TOPIC_SNAPSHOTS, lambda row: row["topic"], topic_state),
    "partitions": (silver.PARTITION_SNAPSHOTS, lambda row: (row["topic"], row["partition"]), partition_state),
    "brokers": (silver.BROKER_SNAPSHOTS, lambda row: row["broker_id"], broker_state),
    "levels": (silver.CLUSTER_SNAPSHOTS, lambda _: "levels", level_state),
}


def expected(view: View, kind: str) -> dict[Any, tuple]:
    if kind == "topics":
        return {topic: state for (topic, _), state in view.topics.items()}
    if kind == "partitions":
        return {(topic, partition): state for (topic, _, partition), state in view.partitions.items()}
    return view.brokers if kind == "brokers" else {"levels": view.levels}


def test_histories_have_everything_that_the_rules_are_about(histories: dict[str, list[Answer]]) -> None:
    """A generator that never made a stale answer, say, would prove nothing about them."""
    seen: set[str] = set()
    for alias, answers in histories.items():
        history, ended, missing = views(answers, f"id-{alias}")
        seen.update(reason for _, reason in ended.values())
        good = [a for a in answers if a.ok and a.cluster_id == f"id-{alias}"]
        seen.update({"stale"} if len(good) > len(history) else set())
        seen.update({"refused"} if any(a.ok and a.cluster_id != f"id-{alias}" for a in answers) else set())
        seen.update({"missing"} if missing else set())
        seen.update(
            {"believed"}
            if any(
                earlier[k][3] > later[k][3]
                for a, b in pairwise(history)
                for earlier, later in [(a.partitions, b.partitions)]
                for k in earlier.keys() & later.keys()
                if None not in (earlier[k][3], later[k][3]) and earlier[k][0] == later[k][0]
            )
            else set()
        )
        seen.update(
            {"clock"}
            if any(v.at != a.received_at for v in history for a in answers if a.poll_id == v.poll_id)
            else set()
        )
    assert seen >= {
        "recreated",
        "unauthorized",
        "absent",
        "not_polled",
        "stale",
        "refused",
        "missing",
        "believed",
        "clock",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_accepted_view_can_be_rebuilt(
    spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]], kind: str
) -> None:
    table, key, state = KINDS[kind]
    stored = by_cluster(spark, whole, table)
    for alias, answers in histories.items():
        for view in views(answers, f"id-{alias}")[0]:
            rebuilt = [
                row
                for row in stored[alias]
                if row["first_poll"] <= view.poll_id
                and (row["superseded_poll"] is None or row["superseded_poll"] > view.poll_id)
            ]
            assert len({key(row) for row in rebuilt}) == len(rebuilt), f"{alias} {view.poll_id}: intervals overlap"
            assert {key(row): state(row) for row in rebuilt} == expected(view, kind), f"{alias} {view.poll_id}"


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_are_as_long_as_they_can_be_and_know_their_neighbours(
    spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]], kind: str
) -> None:
    table, key, state = KINDS[kind]
    state_columns = [
        c.name.removeprefix("prev_")
        for c in table.columns
        if c.name.startswith("prev_") and c.name not in {"prev_poll", "prev_sent_at"}
    ]
    stored = by_cluster(spark, whole, table)
    for alias, answers in histories.items():
        line = views(answers, f"id-{alias}")[0]
        place = {view.poll_id: i for i, view in enumerate(line)}
        rows = sorted(stored[alias], key=lambda row: (repr(key(row)), row["first_poll"]))
        for row in rows:
            first = line[place[row["first_poll"]]]
            before = line[place[row["first_poll"]] - 1] if place[row["first_poll"]] else None
            assert row["first_seen_at"] == first.at.replace(tzinfo=None)
            assert row["prev_poll"] == (before and before.poll_id)
            assert row["prev_sent_at"] == (before and before.sent_at.replace(tzinfo=None))
            if row["superseded_poll"]:
                end = line[place[row["superseded_poll"]]]
                last = line[place[row["superseded_poll"]] - 1]
                assert (row["superseded_at"], row["last_poll"], row["last_seen_at"], row["last_seen_sent_at"]) == (
                    end.at.replace(tzinfo=None),
                    last.poll_id,
                    last.at.replace(tzinfo=None),
                    last.sent_at.replace(tzinfo=None),
                )
        for one, other in pairwise(rows):
            if key(one) == key(other):
                assert one["superseded_poll"] is not None
                assert one["superseded_poll"] <= other["first_poll"]
                if one["superseded_poll"] == other["first_poll"] and one["ended_as"] is None:
                    assert state(one) != state(other)
                    assert [other[f"prev_{c}"] for c in state_columns] == [one[c] for c in state_columns]
                else:
                    assert one["ended_as"] is not None, "a hole without a reason"


def test_ends_of_topics_have_their_reasons(
    spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]]
) -> None:
    stored = by_cluster(spark, whole, silver.TOPIC_SNAPSHOTS)
    for alias, answers in histories.items():
        _, ended, _ = views(answers, f"id-{alias}")
        assert sorted(
            (row["topic"], row["superseded_poll"], row["ended_as"]) for row in stored[alias] if row["ended_as"]
        ) == sorted((topic, poll, reason) for (topic, _), (poll, reason) in ended.items()), alias


def test_progress_and_gaps(spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]]) -> None:
    progress = by_cluster(spark, whole, silver.PROGRESS)
    gaps = by_cluster(spark, whole, silver.POLL_GAPS)
    for alias, answers in histories.items():
        line, _, missing = views(answers, f"id-{alias}")
        (row,) = progress[alias]
        assert row["applied_poll"] == line[-1].poll_id
        assert row["absent"] == sorted(missing)
        assert row["settled_poll"] == (
            line[-2].poll_id if missing and len(line) > 1 else None if missing else line[-1].poll_id
        )
        after = [a for a in answers if a.poll_id > line[-1].poll_id]
        assert row["failed_polls"] == sum(not a.ok for a in after)
        assert row["refused_polls"] == sum(a.ok and a.cluster_id != f"id-{alias}" for a in after)
        long = [
            (a.poll_id, b.poll_id)
            for a, b in pairwise(line)
            if (b.at - a.at).total_seconds() > 2 * b.interval_ms / 1000
        ]
        assert [
            (gap["after_poll"], gap["until_poll"]) for gap in sorted(gaps[alias], key=lambda gap: gap["until_poll"])
        ] == long
        for gap in gaps[alias]:
            between = [a for a in answers if gap["after_poll"] < a.poll_id < gap["until_poll"]]
            assert gap["failed_polls"] == sum(not a.ok for a in between)
            assert gap["refused_polls"] == sum(a.ok and a.cluster_id != f"id-{alias}" for a in between)
            assert gap["stale_polls"] == len(between) - gap["failed_polls"] - gap["refused_polls"]


def test_batches_cut_differently_and_repeated_give_the_same_tables(
    spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]], tmp_path: Path
) -> None:
    lake = new_lake(spark, tmp_path)
    cuts = 5
    portions: list[list[dict[str, Any]]] = [[] for _ in range(cuts)]
    chance = random.Random(7)
    for alias, answers in histories.items():
        # A poller's batch is one commit: cuts fall between batches.
        batches = sorted({a.batch for a in answers})
        ends = sorted(chance.choices(batches, k=cuts - 1))
        batch_of = {a.poll_id: a.batch for a in answers}
        for row in bronze_rows(alias, answers):
            portions[sum(batch_of[row["poll_id"]] > end for end in ends)].append(row)
    for i, portion in enumerate(portions):
        frame = bronze_frame(spark, portion)
        apply_polls(frame, lake)
        if i in {1, 3}:
            apply_polls(frame, lake)
    for table in COMPARED:
        assert rows_of(spark, lake, table) == rows_of(spark, whole, table), table.full_name


def test_a_run_cut_off_between_any_two_writes_is_made_good(
    spark: SparkSession, histories: dict[str, list[Answer]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first half is applied; the rest dies before each write in turn, and is then run with other cuts."""
    import jobs.snapshot_history as job

    some = dict(list(histories.items())[:40])
    rows = {alias: bronze_rows(alias, answers) for alias, answers in some.items()}
    third = {
        alias: sorted({a.batch for a in answers})[len({a.batch for a in answers}) // 3]
        for alias, answers in some.items()
    }
    batch_of = {alias: {a.poll_id: a.batch for a in answers} for alias, answers in some.items()}

    def part(first: int, last: int) -> DataFrame:
        return bronze_frame(
            spark,
            [
                r
                for alias in some
                for r in rows[alias]
                if first * third[alias] < batch_of[alias][r["poll_id"]] <= (last * third[alias] if last < 3 else 999)
            ],
        )

    plain = new_lake(spark, tmp_path / "plain")
    apply_polls(part(0, 3), plain)

    lake = new_lake(spark, tmp_path / "killed")
    apply_polls(part(0, 1), lake)
    upsert = job.upsert

    class KilledError(Exception):
        pass

    for survived in range(1, 8):
        writes = 0

        def dying(*args: Any, survived: int = survived, **kwargs: Any) -> None:
            nonlocal writes
            if writes == survived:
                raise KilledError
            writes += 1
            upsert(*args, **kwargs)

        monkeypatch.setattr(job, "upsert", dying)
        with pytest.raises(KilledError):
            apply_polls(part(1, 3), lake)
    monkeypatch.setattr(job, "upsert", upsert)
    apply_polls(part(1, 2), lake)
    apply_polls(part(2, 3), lake)
    for table in COMPARED:
        assert rows_of(spark, lake, table) == rows_of(spark, plain, table), table.full_name


def test_late_polls_of_an_older_stream_are_ignored_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(spark, tmp_path)
    answers = [a for a in RandomCluster("late", 3).answers(12) if a.ok][:6]
    for i, a in enumerate(answers):
        a.cluster_id, a.topic_filter = "id-late", None
        a.stream, a.n, a.batch = ("20261102T000000Z-00000000", i, i) if i < 3 else ("20261101T000000Z-00000000", i, i)
        a.poll_id = f"{a.stream}/{a.n:012d}"
    newer, late = bronze_rows("late", answers[:3]), bronze_rows("late", answers[3:])
    apply_polls(bronze_frame(spark, newer), lake)
    before = {table: rows_of(spark, lake, table) for table in INTERVAL_TABLES}
    apply_polls(bronze_frame(spark, late), lake)
    apply_polls(bronze_frame(spark, late), lake)
    assert {table: rows_of(spark, lake, table) for table in INTERVAL_TABLES} == before
    (progress,) = lake.read(spark, silver.PROGRESS).collect()
    assert progress.late_polls == 3
    assert progress.seen == {"20261101T000000Z-00000000": 5, "20261102T000000Z-00000000": 2}


def test_views_for_now(spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]]) -> None:
    rows: dict[str, dict[Any, Any]] = defaultdict(dict)
    for row in read_view(spark, whole, silver.VIEWS[2]).collect():
        rows[row.cluster][row.topic, row.partition] = row
    for alias, answers in histories.items():
        line, _, missing = views(answers, f"id-{alias}")
        assert {k: partition_state(r.asDict()) for k, r in rows[alias].items()} == expected(line[-1], "partitions")
        for (topic, _), row in rows[alias].items():
            seen = line[-2] if topic in missing else line[-1]
            assert row.last_seen_at == seen.at.replace(tzinfo=None)


def test_a_poll_of_an_unchanged_cluster_adds_no_row_and_no_file(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(spark, tmp_path)
    cluster = RandomCluster("still", 1)
    answers = cluster.answers(6)
    first = next(a for a in answers if a.ok)
    first.topic_filter, first.api_version = None, 12
    again = []
    for n in range(3):
        a = Answer(
            **{
                **first.__dict__,
                "n": n,
                "batch": n,
                "stream": "20261101T000000Z-00000000",
                "poll_id": f"20261101T000000Z-00000000/{n:012d}",
            }
        )
        again.append(a)
    apply_polls(bronze_frame(spark, bronze_rows("still", again[:1])), lake)

    def versions() -> list[int]:
        return [
            spark.sql(f"DESCRIBE HISTORY {lake.identifier(table)} LIMIT 1").collect()[0].version
            for table in INTERVAL_TABLES
        ]

    before = versions()
    apply_polls(bronze_frame(spark, bronze_rows("still", again[1:])), lake)
    assert versions() == before
    assert lake.read(spark, silver.PROGRESS).collect()[0].applied_poll == again[2].poll_id
