"""Silver against plain rules, over random histories side by side, however the batches are cut."""

import random
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from jobs import snapshot_history
from jobs.common.progress import window_of
from jobs.rules import validity
from jobs.snapshot_history import apply_polls
from schemas import bronze, silver
from schemas.lake import Lake, read_view
from schemas.table import Table
from tests.lakes import UP_TO_SILVER, new_lake
from tests.spark.histories import Answer, RandomCluster, View, bronze_rows, enrichment_intervals, views

HISTORIES = 60
POLLS = 30

INTERVAL_TABLES = (
    silver.BROKER_SNAPSHOTS,
    silver.TOPIC_SNAPSHOTS,
    silver.PARTITION_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
)
COMPARED = (*INTERVAL_TABLES, *silver.ENRICHMENTS.values(), silver.POLL_GAPS, silver.PROGRESS)


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
        rows[row.cluster].append({name: utc(value) for name, value in row.asDict(recursive=True).items()})
    return rows


def utc(value: Any) -> Any:
    """Times as they are: what collect returns is in the zone of this process."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


@pytest.fixture(scope="module")
def histories() -> dict[str, list[Answer]]:
    clusters = [
        RandomCluster(f"c{seed:03d}", seed, mistaken_for="id-c000" if seed else None) for seed in range(HISTORIES)
    ]
    return {cluster.alias: cluster.answers(POLLS) for cluster in clusters}


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
        seen.update(
            {"mistaken"} if next(a.cluster_id for a in answers if a.ok) == "id-c000" != f"id-{alias}" else set()
        )
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
        seen.update({"chunks"} if any(row["chunk"] for row in bronze_rows(alias, answers)) else set())
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
        "mistaken",
        "chunks",
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
            assert row["first_seen_at"] == first.at
            assert row["prev_poll"] == (before and before.poll_id)
            assert row["prev_sent_at"] == (before and before.sent_at)
            if row["superseded_poll"]:
                end = line[place[row["superseded_poll"]]]
                last = line[place[row["superseded_poll"]] - 1]
                assert (row["superseded_at"], row["last_poll"], row["last_seen_at"], row["last_seen_sent_at"]) == (
                    end.at,
                    last.poll_id,
                    last.at,
                    last.sent_at,
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


@pytest.mark.parametrize("kind", silver.ENRICHMENTS)
def test_enrichments_have_a_line_of_polls_of_their_own(
    spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]], kind: str
) -> None:
    table = silver.ENRICHMENTS[kind]
    state = [c.name for c in table.columns if f"prev_{c.name}" in table.column_names]
    key = [name for name in table.key if name not in {"cluster_id", "first_poll"}]
    polls = ["first_poll", "first_seen_at", "prev_poll", "prev_sent_at", "last_poll", "superseded_poll", "ended_as"]
    stored = by_cluster(spark, whole, table)
    endings = set()
    for alias, answers in histories.items():
        rows = [
            (
                tuple(row[name] for name in key),
                tuple(tuples(row[name]) if isinstance(row[name], list) else row[name] for name in state),
                tuple(
                    tuples(row[f"prev_{name}"]) if isinstance(row[f"prev_{name}"], list) else row[f"prev_{name}"]
                    for name in state
                ),
                *(row[name] for name in polls),
            )
            for row in stored[alias]
        ]
        assert sorted(rows, key=repr) == sorted(enrichment_intervals(answers, f"id-{alias}", kind), key=repr), alias
        endings |= {row[-1] for row in rows}
    wanted = {
        "configs": {None, "absent", "not_polled"},
        "quorum": {None},
        "fenced": {None, "absent"},
        "groups": {None, "absent"},
    }
    assert endings == wanted.get(kind, {None, "absent", "not_polled"})


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
        own = [a.poll_id for a in after if a.ok and a.cluster_id == f"id-{alias}"]
        assert row["stale_polls"] == (len([a for a in after if a.poll_id >= own[0]]) if own else 0)
        after = [a for a in after if not own or a.poll_id < own[0]]
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


class KilledError(Exception):
    """Stands for SIGKILL between two writes."""


def test_batches_cut_differently_repeated_and_cut_off_give_the_same_tables(
    spark: SparkSession,
    whole: Lake,
    histories: dict[str, list[Answer]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two parts, the first one twice; runs over the second die with every other table written, and after the write that says
    how far they came.
    """
    lake = new_lake(spark, tmp_path, UP_TO_SILVER)
    parts: list[list[dict[str, Any]]] = [[], []]
    chance = random.Random(7)
    for alias, answers in histories.items():
        # A poller's batch is one commit: cuts fall between batches.
        batch_of = {a.poll_id: a.batch for a in answers}
        end = chance.choice(sorted(set(batch_of.values())))
        for row in bronze_rows(alias, answers):
            parts[batch_of[row["poll_id"]] > end].append(row)
    first, second = (bronze_frame(spark, part) for part in parts)
    apply_polls(first, lake)
    apply_polls(first, lake)

    write = snapshot_history.upsert
    every_other = [table for table in silver.TABLES if table is not silver.PROGRESS][::2]

    def dying_forgetful(*_: Any) -> None:
        raise KilledError

    for survived in (every_other, list(silver.TABLES)):

        def dying(rows: DataFrame, lake: Lake, table: Table, *, survived: list[Table] = survived, **how: Any) -> None:
            if table not in survived:
                raise KilledError
            write(rows, lake, table, **how)

        monkeypatch.setattr(snapshot_history, "upsert", dying)
        monkeypatch.setattr(snapshot_history, "_forget_applied", dying_forgetful)
        with pytest.raises(KilledError):
            apply_polls(second, lake)
    monkeypatch.undo()

    apply_polls(second, lake)
    for table in (*COMPARED, silver.PENDING):
        assert rows_of(spark, lake, table) == rows_of(spark, whole, table), table.full_name


def test_validation_finds_nothing_wrong(spark: SparkSession, whole: Lake) -> None:
    window = window_of(whole.read(spark, silver.PROGRESS), whole, "validate")
    assert window is not None
    for subject in validity.SUBJECTS:
        rows = subject.rows(window).localCheckpoint()
        for rule in subject.rules:
            assert rule.severity == "warning" or rows.where(rule.broken).isEmpty(), rule.name
    # What silver believes after five polls is worth a warning.
    (epochs_rise,) = (rule for subject in validity.SUBJECTS for rule in subject.rules if rule.name == "epochs_rise")
    assert not validity.new_states(window).where(epochs_rise.broken).isEmpty()


def test_views_for_now(spark: SparkSession, whole: Lake, histories: dict[str, list[Answer]]) -> None:
    for kind, view in zip(("brokers", "topics", "partitions"), silver.VIEWS, strict=True):
        _, key, state = KINDS[kind]
        rows: dict[str, dict[Any, dict[str, Any]]] = defaultdict(dict)
        for row in read_view(spark, whole, view).collect():
            rows[row.cluster][key(row.asDict())] = row.asDict(recursive=True)
        for alias, answers in histories.items():
            line, _, missing = views(answers, f"id-{alias}")
            assert {k: state(row) for k, row in rows[alias].items()} == expected(line[-1], kind)
            for row in rows[alias].values():
                seen = line[-2] if row.get("topic") in missing else line[-1]
                assert utc(row["last_seen_at"]) == seen.at


def same_answer(answer: Answer, stream: str, n: int) -> Answer:
    return replace(answer, stream=stream, n=n, batch=n, poll_id=f"{stream}/{n:012d}")


def test_unchanged_and_late_polls_add_no_row_and_no_file(spark: SparkSession, tmp_path: Path) -> None:
    lake = new_lake(spark, tmp_path, UP_TO_SILVER)
    answer = next(a for a in RandomCluster("still", 1, kinds=[]).answers(6) if a.ok)
    answer = replace(answer, topic_filter=None, api_version=12)
    stream, older = "20261102T000000Z-00000000", "20261101T000000Z-00000000"

    def rows(stream: str, numbers: range) -> DataFrame:
        return bronze_frame(spark, bronze_rows("still", [same_answer(answer, stream, n) for n in numbers]))

    def versions() -> list[int]:
        return [
            spark.sql(f"DESCRIBE HISTORY {lake.identifier(table)} LIMIT 1").collect()[0].version
            for table in INTERVAL_TABLES
        ]

    apply_polls(rows(stream, range(1)), lake)
    before = versions()
    assert before == [1] * len(INTERVAL_TABLES)
    apply_polls(rows(older, range(3)), lake)
    assert versions() == before
    assert lake.read(spark, silver.PROGRESS).collect()[0].late_polls == 3
    apply_polls(rows(older, range(3)).unionByName(rows(stream, range(1, 3))), lake)
    assert versions() == before
    (progress,) = lake.read(spark, silver.PROGRESS).collect()
    assert progress.late_polls == 3
    assert progress.seen == {older: 2, stream: 2}
    assert progress.applied_poll == f"{stream}/{2:012d}"


def test_a_run_reads_no_history(spark: SparkSession, tmp_path: Path) -> None:
    """Files of rows that ended before the last applied poll are taken away for good: a run must not miss them."""
    lake = new_lake(spark, tmp_path, UP_TO_SILVER)
    answers = [a for a in RandomCluster("long", 3, kinds=[]).answers(35) if a.ok and a.cluster_id == "id-long"]
    # The last poll shows nothing new, so that all that ended did so before.
    now = {name: getattr(answers[20], name) for name in ("poll_id", "n", "batch", "sent_at", "received_at")}
    apply_polls(bronze_frame(spark, bronze_rows("long", [*answers[:20], replace(answers[19], **now)])), lake)
    (progress,) = lake.read(spark, silver.PROGRESS).collect()
    taken = 0
    for table in INTERVAL_TABLES:
        for file, newest in (
            lake.read(spark, table)
            .where("NOT is_current")
            .groupBy(F.col("_metadata.file_path"))
            .agg(F.max("superseded_at"))
            .collect()
        ):
            if newest < progress.applied_at:
                Path(unquote(urlparse(file).path)).unlink()
                taken += 1
    assert taken
    apply_polls(bronze_frame(spark, bronze_rows("long", answers[21:])), lake)
    (progress,) = lake.read(spark, silver.PROGRESS).collect()
    assert progress.applied_poll == answers[-1].poll_id
