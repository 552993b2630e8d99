"""Tables are made whole, agree with the data source, and refuse a lake that is foreign or older."""

import json
import shutil
import threading
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from jobs import pipeline
from metadata_source.columns.polls import POLLS
from metadata_source.enrichment import Answer, Rows
from metadata_source.images import Image
from metadata_source.options import TopicFilter
from metadata_source.poller import Poll
from metadata_source.protocol.metadata import decode_response
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from metadata_source.records import BatchRecords, Planned
from schemas import bronze, silver, views
from schemas.in_catalog import COMMENT_LENGTH
from schemas.in_spark import attach, check_tables, ensure_lake, ensure_tables, read_view
from schemas.internal import STATE
from schemas.lake import TABLES, VIEWS, Lake, LakeError
from schemas.table import VERSION_PROPERTY, Column
from tests.support import stored
from tests.support.lakes import new_lake
from tests.support.metadata_messages import cluster


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return new_lake(spark, tmp_path_factory.mktemp("lake"))


def test_the_tables_are_as_defined(lake: Lake) -> None:
    """As their logs have it, which is what Delta goes by."""
    for table in TABLES:
        created, *later = stored.commits(lake, table)
        assert len(later) == (table is STATE), "the row that says how the tables were made"
        made = next(action["metaData"] for action in created if "metaData" in action)
        fields = json.loads(made["schemaString"])["fields"]
        assert [(f["name"], f["nullable"], f["metadata"]["comment"]) for f in fields] == [
            (c.name, c.nullable, c.comment) for c in table.columns
        ]
        assert made["description"] == table.comment
        assert clustered_by(created) == table.cluster_by
        assert tuple(made["partitionColumns"]) == table.partition_by
        properties = made["configuration"]
        assert {
            k.removeprefix("delta.constraints.") for k in properties if "constraints" in k
        } == set(table.constraints)
        kept = {properties[f"delta.{what}RetentionDuration"] for what in ("log", "deletedFile")}
        assert kept == {f"interval {table.log_hours} hours"}


def clustered_by(actions: list[stored.Row]) -> tuple[str, ...]:
    """The columns that a table's files are clustered by."""
    domains = [action["domainMetadata"] for action in actions if "domainMetadata" in action]
    columns = [
        json.loads(of["configuration"])["clusteringColumns"]
        for of in domains
        if of["domain"] == "delta.clustering"
    ]
    return tuple(".".join(path) for of in columns for path in of)


def test_bronze_has_the_columns_of_the_data_source(spark: SparkSession, lake: Lake) -> None:
    source = from_arrow_schema(POLLS)
    table = spark.table(lake.identifier(bronze.METADATA_POLLS)).schema
    assert [(f.name, f.dataType.simpleString()) for f in table] == [
        (f.name, f.dataType.simpleString()) for f in source
    ]
    assert {f.name for f in table if not f.nullable} == {f.name for f in source if not f.nullable}


def test_a_second_start_changes_nothing(spark: SparkSession, lake: Lake) -> None:
    before = {table: stored.version(lake, table) for table in TABLES}
    ensure_lake(spark, lake)
    ensure_tables(spark, lake, TABLES)
    check_tables(spark, lake, TABLES)
    assert {table: stored.version(lake, table) for table in TABLES} == before


def test_constraints_hold(spark: SparkSession, lake: Lake) -> None:
    with pytest.raises(Exception, match="reason_known"):
        spark.sql(
            f"INSERT INTO {lake.identifier(silver.POLL_GAPS)} VALUES ('i', 'c', 'a', now(), 'b', "
            "now(), 1, 0, 0, 0, array(), 'because')"
        )


def test_bronze_takes_every_record_of_the_data_source_and_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(root=str(tmp_path))
    ensure_tables(spark, lake, [bronze.METADATA_POLLS])
    nodes = {"partition": 0, "adding": [3], "removing": [], "elr": [3], "last_known_elr": []}
    quorum = {"leader_id": 1, "leader_epoch": 2, "voters": [1], "observers": []}
    told = {
        "configs": Rows(
            [[("min.insync.replicas", {"value": "2", "source": None})], None], ["a", "b"]
        ),
        "reassignments": Rows([[nodes]], ["a"]),
        "quorum": Rows([quorum]),
        "elr": Rows([[nodes]], ["a"]),
        "fenced": Rows([[{"broker_id": 2, "host": "two", "port": 9092, "rack": None}]]),
    }
    at = datetime(2026, 11, 21, 1, 2, 4, tzinfo=UTC)
    answers = [Answer(kind, "ok", at, at, rows) for kind, rows in told.items()] + [
        Answer("groups", "not_allowed", at)
    ]
    answer = decode_response(write_message(METADATA_RESPONSE, 12, cluster(1, 1)), 12)
    poll = Poll(metadata=answer, image=Image.of(answer), cluster_id=answer.cluster_id)
    batches = BatchRecords(TopicFilter()).rows(
        Planned("20261121T010203Z-0", 0, "c", date(2026, 11, 21)), poll, answers
    )
    rows = spark.createDataFrame(pa.Table.from_batches(batches, POLLS)).localCheckpoint()
    path = lake.path(bronze.METADATA_POLLS)
    rows.write.format("delta").mode("append").save(path)
    written = spark.read.format("delta").load(path)
    assert sorted(row.record for row in written.collect()) == sorted(
        ["poll", "topic", "configs", *told, *(["answer"] * len(answers))]
    )
    for wrong, constraint in (
        (rows.where("record = 'quorum'").withColumn("topic", F.lit("a")), "topic_named"),
        (
            rows.where("record = 'elr'").withColumn("topic", F.lit(None).cast("string")),
            "topic_named",
        ),
        (rows.where("record = 'elr'").withColumn("record", F.lit("isr")), "record_known"),
        (rows.where("record = 'poll'").withColumn("kind", F.lit("groups")), "kind_known"),
        (rows.where("kind = 'groups'").withColumn("outcome", F.lit("ok")), "answer_dated"),
        (
            rows.where("kind = 'quorum'").withColumn("asked_at", F.lit(None).cast("timestamp")),
            "answer_dated",
        ),
    ):
        with pytest.raises(Exception, match=constraint):
            wrong.write.format("delta").mode("append").save(path)


@pytest.fixture(scope="module")
def names(spark: SparkSession, lake: Lake) -> list[str]:
    """Of all that is attached of the lake."""
    return attach(spark, lake)


def test_names_and_views(spark: SparkSession, lake: Lake, names: list[str]) -> None:
    assert names == [*(t.full_name for t in TABLES), *(v.full_name for v in VIEWS)]
    for name in names:
        assert spark.table(name).columns
    for view in views.OF_SILVER:
        assert read_view(spark, lake, view).columns == spark.table(view.full_name).columns


def test_a_query_gets_what_it_may_name(spark: SparkSession, lake: Lake, names: list[str]) -> None:
    """Also what views need that it names, in any case and however the name is quoted; and nothing
    else.
    """
    asked = (
        "SELECT * FROM Gold.`Incident_Timeline` JOIN `silver` . topics_now USING (topic) WHERE "
        "note = 'brokers'"
    )
    attached = attach(spark, lake, asked)
    assert attached == [name for name in names if name in attached]
    assert set(attached) < set(names)
    wanted = {
        "gold.incident_timeline",
        "silver.topics_now",
        "gold.leader_changes",
        "silver.topic_snapshots",
    }
    assert wanted <= set(attached)
    assert attach(spark, lake, "SELECT 1") == []


def test_a_catalog_holds_a_lake_too(spark: SparkSession) -> None:
    # Under other schemas, as the session's catalog has ours already.
    tables = [
        replace(table, schema=f"{table.schema}_managed")
        for table in (silver.TOPIC_SNAPSHOTS, silver.POLL_GAPS)
    ]
    lake = Lake(catalog="spark_catalog")
    ensure_tables(spark, lake, tables)
    ensure_tables(spark, lake, tables)
    assert lake.read(spark, tables[0]).columns == [c.name for c in silver.TOPIC_SNAPSHOTS.columns]


def test_a_table_that_its_catalog_lost_is_entered_again(spark: SparkSession) -> None:
    """The catalog was gone when a run had made the table, and was to enter it."""
    lake, table = Lake(catalog="spark_catalog"), replace(silver.POLL_GAPS, schema="silver_lost")
    ensure_tables(spark, lake, [table])
    (detail,) = spark.sql(f"DESCRIBE DETAIL {lake.identifier(table)}").collect()
    folder = Path(detail.location.removeprefix("file:"))
    kept = folder.rename(folder.with_name("kept"))
    spark.sql(f"DROP TABLE {lake.identifier(table)}")
    kept.rename(folder)
    ensure_tables(spark, lake, [table])
    assert lake.read(spark, table).count() == 0
    spark.sql(f"DROP TABLE {lake.identifier(table)}")
    shutil.rmtree(folder)
    spark.range(3).write.format("delta").save(str(folder))
    with pytest.raises(LakeError, match="is not our silver_lost"):
        ensure_tables(spark, lake, [table])


def test_views_of_a_catalog_are_made_once(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may only read finds them there."""
    asked = "SELECT * FROM gold.incident_timeline JOIN silver.partitions_now USING (cluster)"
    attach(spark, lake, asked)  # The session's catalog has tables now.
    run, statements = SparkSession.sql, list[str]()

    def noted(session: SparkSession, text: str, *more: Any, **named: Any) -> DataFrame:
        statements.append(text)
        return run(session, text, *more, **named)

    monkeypatch.setattr(type(spark), "sql", noted)
    names = attach(spark, Lake(catalog="spark_catalog"), asked)
    made = [each for each in statements if each.startswith("CREATE OR REPLACE VIEW")]
    assert len(made) == len([name for name in names if name in {v.full_name for v in VIEWS}]) > 1
    statements.clear()
    assert attach(spark, Lake(catalog="spark_catalog"), asked) == names
    assert not [each for each in statements if each.startswith("CREATE")]
    fields = spark.table("spark_catalog.gold.incident_timeline").schema
    of_folder = read_view(spark, lake, views.INCIDENT_TIMELINE).schema
    assert [(each.name, each.dataType) for each in fields] == [
        (each.name, each.dataType) for each in of_folder
    ]
    assert max(len(each.metadata.get("comment", "")) for each in fields) <= COMMENT_LENGTH


def test_what_a_lake_lacks_no_other_lake_answers(
    spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    asked = "SELECT * FROM silver.topics_now JOIN silver.poll_gaps USING (cluster)"
    attach(spark, lake, asked)
    smaller = new_lake(spark, tmp_path, [silver.POLL_GAPS])
    assert attach(spark, smaller, asked) == ["silver.poll_gaps"]
    others = (silver.TOPIC_SNAPSHOTS.full_name, "silver.topics_now")
    assert not any(map(spark.catalog.tableExists, others))


def test_attach_takes_nothing_away(spark: SparkSession, lake: Lake) -> None:
    asked = "SELECT * FROM silver.topic_snapshots"
    attach(spark, lake, asked)
    # A table of the same name that somebody keeps in the catalog, ours by its looks or not.
    for made in (
        "CREATE TABLE {} (x INT) USING DELTA",
        silver.TOPIC_SNAPSHOTS.create_statement("{}"),
    ):
        spark.sql("DROP TABLE silver.topic_snapshots")
        spark.sql(made.format("silver.topic_snapshots"))
        with pytest.raises(
            LakeError, match=r"a table silver\.topic_snapshots that attach did not put there"
        ):
            attach(spark, lake, asked)
        assert spark.catalog.tableExists("silver.topic_snapshots")
    spark.sql("DROP TABLE silver.topic_snapshots")
    attach(spark, lake, asked)


def one_line(error: pytest.ExceptionInfo[LakeError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_not_ours_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path))
    spark.range(3).write.format("delta").save(lake.path(silver.TOPIC_SNAPSHOTS))
    with pytest.raises(LakeError) as foreign:
        ensure_tables(spark, lake, [silver.TOPIC_SNAPSHOTS])
    assert "is not our silver.topic_snapshots (made by something else)" in one_line(foreign)
    assert spark.read.format("delta").load(lake.path(silver.TOPIC_SNAPSHOTS)).count() == 3

    spark.range(3).write.parquet(lake.path(silver.BROKER_SNAPSHOTS))
    with pytest.raises(LakeError) as files:
        ensure_tables(spark, lake, [silver.BROKER_SNAPSHOTS])
    assert "silver.broker_snapshots cannot be made" in one_line(files)

    other_type = replace(
        silver.POLL_GAPS, columns=(Column("cluster_id", "int", "x"), *silver.POLL_GAPS.columns[1:])
    )
    ensure_tables(spark, lake, [other_type])
    with pytest.raises(LakeError) as types:
        ensure_tables(spark, lake, [silver.POLL_GAPS])
    assert "silver.poll_gaps.cluster_id" in one_line(types)

    more = replace(other_type, columns=(*other_type.columns, Column("more", "string", "x")))
    with pytest.raises(LakeError) as columns:
        ensure_tables(spark, lake, [more])
    assert "silver.poll_gaps in" in one_line(columns)
    assert "lacks more" in one_line(columns)


def test_a_newer_lake_is_not_shown(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path))
    ensure_tables(spark, lake, [silver.BROKER_SNAPSHOTS])
    spark.sql(
        f"ALTER TABLE {lake.identifier(silver.BROKER_SNAPSHOTS)} SET TBLPROPERTIES "
        f"('{VERSION_PROPERTY}' = '99')"
    )
    with pytest.raises(LakeError) as newer:
        attach(spark, lake)
    assert one_line(newer).startswith(
        f"silver.broker_snapshots in {lake} has version 99, newer than this program's"
    )


def job_says(tmp_path: Path, capsys: pytest.CaptureFixture[str], lake: str, **more: str) -> str:
    """The one line of a pipeline that ends with exit status 1."""
    config = {"lake": lake, "clusters": {"a": {"kafka.bootstrap.servers": "127.0.0.1:1"}}, **more}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    assert pipeline.main(["--config", str(tmp_path / "config.yaml"), "--once"]) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("pipeline: ")
    return line


def test_a_run_that_was_killed_while_it_made_a_table_is_no_hindrance(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = Lake(root=str(tmp_path))
    log = Path(lake.path(silver.BROKER_SNAPSHOTS)) / "_delta_log"
    log.mkdir(parents=True)
    (log / ".00000000000000000000.json.4711.tmp").write_text("{")
    ensure_tables(spark, lake, [silver.BROKER_SNAPSHOTS])
    assert lake.read(spark, silver.BROKER_SNAPSHOTS).isEmpty()


def test_a_table_that_another_job_is_making_is_waited_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, other = (
        Lake(root=str(tmp_path / "lake")),
        new_lake(spark, tmp_path / "other", [silver.BROKER_SNAPSHOTS]),
    )
    log = Path(lake.path(silver.BROKER_SNAPSHOTS)) / "_delta_log"
    log.mkdir(parents=True)
    commit = Path(other.path(silver.BROKER_SNAPSHOTS), "_delta_log", f"{0:020}.json").read_text()
    later = threading.Timer(1, (log / f"{0:020}.json").write_text, [commit])
    later.start()
    ensure_tables(spark, lake, [silver.BROKER_SNAPSHOTS])
    later.join()
    assert (log / f"{0:020}.json").read_text() == commit


def test_a_pipeline_writes_nothing_to_a_lake_with_a_foreign_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "lake"
    spark.range(3).write.format("delta").save(f"{folder}/silver/topic_snapshots")
    assert (
        "is not our silver.topic_snapshots (made by something else); nothing was written"
        in job_says(tmp_path, capsys, str(folder))
    )
    assert [str(path.relative_to(folder)) for path in folder.glob("*/*")] == [
        "silver/topic_snapshots"
    ]


@pytest.mark.soak
def test_what_only_java_can_tell_is_one_line_too(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Spark knows no file system nosuch://" in job_says(
        tmp_path, capsys, "nosuch://bucket/lake"
    )
    new_lake(spark, tmp_path / "lake")
    assert "/proc/checkpoints" in job_says(
        tmp_path, capsys, str(tmp_path / "lake"), checkpoints="/proc/checkpoints"
    )


def test_a_lake_that_cannot_be_written(spark: SparkSession) -> None:
    lake = Lake(root="/proc/no/such/lake")
    with pytest.raises(LakeError) as error:
        ensure_tables(spark, lake, [bronze.METADATA_POLLS])
    assert "bronze.metadata_polls cannot be made in /proc/no/such/lake" in one_line(error)


def test_a_table_that_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"no such table .* `kafka-metadata-history run` makes it"):
        check_tables(spark, Lake(root=str(tmp_path)), [silver.TOPIC_SNAPSHOTS])
