"""The source `kafka_cluster_log` against real controllers: their files, DumpLogSegments, and what
is done to them.
"""

import itertools
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import AnalysisException

from jobs import read_cluster_log
from jobs.configuration.config import load
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.run import metadata_stream
from jobs.run.logs import FOLLOWED_CLUSTER_LOG
from kafka_metadata_history.command import exit_status
from local_cluster import LocalCluster
from local_cluster.controllers import active_controller
from metadata_source.columns.cluster_log import SCHEMA
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from metadata_source.protocol.cluster_specs import COUNTED
from schemas import bronze, silver
from tests.support.cluster_spans import NOT_COMPARED, SERVERS, fates, options_of, read, records
from tests.support.documents import blocks
from tests.support.dumped import printed_record
from tests.support.group_messages import without_nulls
from tests.support.lakes import new_lake
from tests.support.stored import rows_of
from tests.support.streams import Stream
from tests.support.waiting import eventually
from truth.dump import dump

OFTEN = {"metadata.log.max.record.bytes.between.snapshots": "6000"}
NO_OP = 20


@pytest.fixture(scope="module")
def quorum() -> Iterator[LocalCluster]:
    """One broker and three controllers that make snapshots often."""
    with LocalCluster(brokers=1, controllers=3, properties=OFTEN) as cluster:
        yield cluster


def make_topic(cluster: LocalCluster, name: str, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


def folder_of(cluster: LocalCluster) -> Path:
    """The log of the active controller."""
    _, active = active_controller(cluster)
    return cluster.files(active).data / "__cluster_metadata-0"


def test_the_log_is_what_kafka_prints_of_it(quorum: LocalCluster) -> None:
    make_topic(quorum, "printed", 5)
    rows = read(**options_of(quorum))
    ((went, start, end),) = fates(rows)
    assert (went, start in {0, 1}) == ("read", True)
    files = sorted(folder_of(quorum).glob("*.log"))
    lines = [
        line for line in dump(quorum.kafka_version, files).splitlines() if line.startswith("|")
    ]
    printed = [row for row in map(printed_record, lines) if start <= row["offset"] < end]
    assert [row["offset"] for row in printed] == list(range(start, end))
    is_counted = [not row["is_control"] and row["type"] in {NO_OP, *COUNTED} for row in printed]
    expected = [row for row, counted in zip(printed, is_counted, strict=True) if not counted]
    own = {"cluster", "cluster_id", "record", "leader_epoch", "timestamp"}
    found = [
        {name: value for name, value in row.items() if name not in own}
        | {"timestamp_ms": round(row["timestamp"].timestamp() * 1000)}
        for row in records(rows)
    ]
    assert found == expected
    assert "printed" in {row.get("topic", {}).get("topic") for row in found}
    (span,) = records(rows, "span")
    assert (
        span["no_ops"] == sum(not row["is_control"] and row["type"] == NO_OP for row in printed) > 0
    )
    times = [row["timestamp_ms"] for row in printed]
    longest = max(later - earlier for earlier, later in itertools.pairwise(times))
    assert round((span["silence_to"] - span["silence_from"]).total_seconds() * 1000) == longest


def test_a_snapshot_and_then_the_log_are_what_the_files_hold(quorum: LocalCluster) -> None:
    make_topic(quorum, "in-a-snapshot", 30)
    folder = folder_of(quorum)

    def latest() -> list[dict[str, Any]]:
        files = sorted(folder.glob("*.checkpoint"))
        return read(path=str(files[-1])) if files else []

    eventually(lambda: "in-a-snapshot" in {row.get("topic", {}).get("topic") for row in latest()})

    def with_more() -> list[dict[str, Any]]:
        """Of a snapshot that was just made there may be no record after it yet."""
        found = read(**options_of(quorum, startingOffsets="snapshot"))
        return found if fates(found) else []

    rows = eventually(with_more)
    snapshot = records(rows, "snapshot")
    ((went, start, end),) = fates(rows)
    assert (went, start) == ("read", snapshot[0]["snapshot_offset"])
    file = folder / f"{start:020}-{snapshot[0]['snapshot_epoch']:010}.checkpoint"
    named = {"cluster": "default", "clusterId": quorum.cluster_id}
    assert [row for row in rows if row.get("snapshot_offset")] == read(path=str(file), **named)
    assert [snapshot[0]["name"], snapshot[-1]["name"]] == [
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
    ]
    assert len([row for row in snapshot if row["name"] == "PartitionRecord"]) >= 30
    of_files = read(path=str(folder / f"{0:020}.log"), **named)
    assert records(rows) == [row for row in records(of_files) if start <= row["offset"] < end]


def kept(stream: Stream) -> list[dict[str, Any]]:
    """The rows of batches that are done, without nulls, in the order of their offsets."""
    tables = [
        pq.read_table(file, partitioning=None).drop_columns([*NOT_COMPARED])
        for file in stream.files()
    ]
    rows = [without_nulls(_in_utc(row)) for table in tables for row in table.to_pylist()]
    return sorted(rows, key=lambda row: (row["offset"], row["record"]))


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    times = {
        name: value.replace(tzinfo=UTC)
        for name, value in row.items()
        if isinstance(value, datetime)
    }
    return row | times


def names(stream: Stream) -> set[str]:
    return {row["topic"]["topic"] for row in kept(stream) if "topic" in row}


def test_a_stream_reads_each_offset_once_though_the_active_controller_is_killed(
    quorum: LocalCluster, spark: Any, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, "kafka_cluster_log")
    make_topic(quorum, "before")
    stream.run_once(**options_of(quorum))  # up to where the log ended
    assert "before" in names(stream)
    make_topic(quorum, "while-it-was-down")
    query = stream.start(**options_of(quorum))
    epoch, active = active_controller(quorum)
    try:
        stream.wait(lambda: "while-it-was-down" in names(stream), query)
        quorum.kill(active)
        make_topic(quorum, "after")
        stream.wait(lambda: "after" in names(stream), query)
    finally:
        query.stop()
    rows = kept(stream)
    spans = fates(rows)
    assert {went for went, _, _ in spans} == {"read"}
    assert len(spans) >= 3
    offsets = [row["offset"] for row in records(rows)]
    assert offsets == sorted(set(offsets))
    of_files = records(
        read(path=str(folder_of(quorum) / f"{0:020}.log"), clusterId=quorum.cluster_id)
    )
    expected = [row for row in of_files if spans[0][1] <= row["offset"] < spans[-1][2]]
    assert records(rows) == expected
    changes = [
        row
        for row in records(rows)
        if row["name"] == "LeaderChangeMessage" and row["leader_epoch"] > epoch
    ]
    assert changes[-1]["leader_change"]["leader"] == active_controller(quorum)[1] != active
    # Run again, a batch has the same rows.
    stream.cut_off()
    stream.run_once(**options_of(quorum))
    assert kept(stream)[: len(rows)] == rows
    fates(kept(stream))
    quorum.start(active)


def test_a_batch_read_in_spark_and_what_is_wrong(quorum: LocalCluster, spark: Any) -> None:
    (example,) = (block for block in blocks("python") if "kafka_cluster_log" in block)
    for given in (SERVERS, "clusterId"):  # of the cluster that there is
        example = re.sub(rf'("{given}",\s*")[^"]+', rf"\g<1>{options_of(quorum)[given]}", example)
    frame = eval(example, {"spark": spark})  # noqa: S307 - not registered: found by the name of its module
    assert frame.where("record = 'span' AND went = 'read'").count() == 1
    for wrong, said in (
        ({"clusterId": "other"}, "wrong_cluster: cluster default: .* is not of cluster other"),
        (
            {SERVERS: quorum.bootstrap_servers},
            "not_controller: cluster default: .* is a broker's listener",
        ),
        (
            {SERVERS: "127.0.0.1:1", "requestTimeout": "1s"},
            "unreachable: cluster default: .* connection refused",
        ),
    ):
        with pytest.raises(AnalysisException, match=f"KAFKA_METADATA_CLUSTER_LOG. {said}"):
            spark.read.format("kafka_cluster_log").options(
                **options_of(quorum, **wrong)
            ).load().collect()


@pytest.mark.soak
def test_the_job_keeps_each_record_once_also_without_its_checkpoint(
    quorum: LocalCluster, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody tells it the id of the cluster: its brokers do. A check says before that the log can
    be read.
    """
    file = tmp_path / "config.yaml"
    clusters = {
        "here": {
            "kafka.bootstrap.servers": quorum.bootstrap_servers,
            SERVERS: quorum.controller_servers,
        }
    }
    file.write_text(
        yaml.safe_dump(
            {"lake": "lake", "clusters": clusters, "clusterLog": {"requestTimeout": "20s"}}
        )
    )
    assert exit_status(["check", "--config", str(file)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^  controllers' log: can be read, up to offset \d+ now$", said, re.MULTILINE)
    assert "controllers ask for no password or certificate" in said
    config = load(str(file))
    for name in ("by-a-job", "by-the-job-again"):
        make_topic(quorum, name)
        read_cluster_log.run(spark, config, once=True)  # finds the log
        read_cluster_log.run(spark, config, once=True)
        shutil.rmtree(config.checkpoint(FOLLOWED_CLUSTER_LOG.query))
    rows = [without_nulls(row) for row in rows_of(config.lake, bronze.CLUSTER_LOG)]
    assert {row["cluster_id"] for row in rows} == {quorum.cluster_id}
    assert {went for went, _, _ in fates(rows)} == {"read"}
    offsets = [row["offset"] for row in records(rows)]
    assert len(offsets) == len(set(offsets))
    assert {"by-a-job", "by-the-job-again"} <= {
        row.get("topic", {}).get("topic") for row in records(rows)
    }


@pytest.mark.soak
def test_polls_and_the_log_take_turns(quorum: LocalCluster, spark: Any, tmp_path: Path) -> None:
    """The log tells to the millisecond; once nobody has read it for long, polls tell; and then the
    log again.
    """
    file = tmp_path / "config.yaml"
    clusters = {
        "here": {
            "kafka.bootstrap.servers": quorum.bootstrap_servers,
            SERVERS: quorum.controller_servers,
        }
    }
    file.write_text(
        yaml.safe_dump({"lake": str(tmp_path / "lake"), "clusters": clusters, "clusterLog": {}})
    )
    config = load(str(file))
    new_lake(spark, tmp_path / "lake")
    history, heirs = Engine(spark, config, Polls()), replace(config, hand_over=timedelta(0))

    def told(history: Engine, name: str, *, by_log: bool) -> dict[str, Any]:
        """The first state of a partition of a new topic."""
        make_topic(quorum, name)
        if by_log:
            read_cluster_log.run(spark, config, once=True)
        metadata_stream.run(spark, config, once=True)
        history.catch_up(whole=True)
        rows = [
            row for row in rows_of(config.lake, silver.PARTITION_SNAPSHOTS) if row["topic"] == name
        ]
        (row,) = (row for row in rows if row["partition"] == 0)
        return row

    def records_of(name: str) -> list[dict[str, Any]]:
        """The records of its partition."""
        rows = rows_of(config.lake, bronze.CLUSTER_LOG)
        (topic_id,) = {
            row["topic"]["topic_id"] for row in rows if (row["topic"] or {}).get("topic") == name
        }
        partitions = [row for row in rows if (row["partition"] or {}).get("topic_id") == topic_id]
        return [row for row in partitions if row["partition"]["partition"] == 0]

    row = told(history, "by-the-log", by_log=True)
    (record,) = records_of("by-the-log")
    assert (row["from_offset"], row["valid_from"]) == (record["offset"], record["timestamp"])
    assert row["prev_sent_at"] == row["valid_from"]
    history = Engine(spark, heirs, Polls())
    row = told(history, "by-polls", by_log=False)
    assert (row["from_offset"], row["interval_ms"] > 0) == (None, True)
    history = Engine(spark, config, Polls())
    assert told(history, "by-polls-still", by_log=False)["from_offset"] is None
    told(history, "seen-late", by_log=True)
    row = told(history, "by-the-log-again", by_log=True)
    (record,) = records_of("by-the-log-again")
    assert (row["from_offset"], row["valid_from"]) == (record["offset"], record["timestamp"])
    sources = sorted(
        rows_of(config.lake, silver.HISTORY_SOURCES), key=lambda row: row["first_poll"]
    )
    assert [each["source"] for each in sources] == ["log", "polls", "log"]
    for table, names in (
        (silver.TOPIC_SNAPSHOTS, ["topic"]),
        (silver.PARTITION_SNAPSHOTS, ["topic", "partition"]),
    ):
        things = [
            tuple(row[name] for name in names)
            for row in rows_of(config.lake, table)
            if row["valid_to"] is None
        ]
        assert len(things) == len(set(things)), table.full_name
    (broker,) = {row["broker_id"] for row in rows_of(config.lake, silver.BROKER_REGISTRATIONS)}
    assert broker == 1


@pytest.mark.soak
@pytest.mark.parametrize("version", ["3.3.2", "3.9.2"])
def test_older_controllers(version: str) -> None:
    with LocalCluster(brokers=1, controllers=3, kafka_version=version, properties=OFTEN) as cluster:
        make_topic(cluster, "before", 30)
        _, active = active_controller(cluster)
        cluster.kill(active)
        make_topic(cluster, "after", 30)
        rows = read(**options_of(cluster))
        ((went, start, end),) = fates(rows)
        assert went == "read"
        of_files = read(path=str(folder_of(cluster) / f"{0:020}.log"), clusterId=cluster.cluster_id)
        assert records(rows) == [row for row in records(of_files) if start <= row["offset"] < end]
        assert {"before", "after"} <= {row.get("topic", {}).get("topic") for row in records(rows)}
        cluster.start(active)
        eventually(lambda: list(folder_of(cluster).glob("*.checkpoint")))
        rows = read(**options_of(cluster, startingOffsets="snapshot"))
        # 3.3.2 names no snapshot as long as the log begins at 0.
        assert bool(records(rows, "snapshot")) == (version == "3.9.2")


@pytest.mark.soak
def test_a_log_that_has_lost_its_beginning() -> None:
    """Controllers look once a minute whether it may go."""
    little = OFTEN | {"metadata.max.retention.bytes": "3000"}
    with LocalCluster(brokers=1, controllers=1, properties=little) as cluster:
        make_topic(cluster, "before", 30)
        stream = KafkaClusterLogSource(options_of(cluster))
        reader = stream.streamReader(stream.schema())
        found = reader.latestOffset(reader.initialOffset(), None)

        def read_on() -> list[dict[str, Any]]:
            rows = read(**options_of(cluster))
            return rows if records(rows, "snapshot") and fates(rows) else []

        rows = eventually(read_on, within=180)
        ((went, start, end),) = fates(rows)
        assert (went, start > 1) == ("read", True)
        folder, named = folder_of(cluster), {"cluster": "default", "clusterId": cluster.cluster_id}
        (of_snapshot,) = [
            file for file in folder.glob("*.checkpoint") if file.name.startswith(f"{start:020}-")
        ]
        assert [row for row in rows if row.get("snapshot_offset")] == read(
            path=str(of_snapshot), **named
        )
        assert "before" in {row.get("topic", {}).get("topic") for row in records(rows, "snapshot")}
        of_files = read(path=str(folder / f"{0:020}.log"), **named)
        assert records(rows) == [row for row in records(of_files) if start <= row["offset"] < end]
        # A stream that was there before says what it has missed.
        planned = reader.partitions(found, reader.latestOffset(found, None))
        reader.stop()
        table = pa.Table.from_batches(
            [batch for task in planned for batch in reader.read(task)], SCHEMA
        )
        missed = [without_nulls(row) for row in table.to_pylist()]
        (lost, *_) = fates(missed)
        assert lost[0] == "lost"
        assert {row["snapshot_offset"] for row in records(missed, "snapshot")} == {lost[2]}
