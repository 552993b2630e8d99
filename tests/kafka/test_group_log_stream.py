"""The source `kafka_group_log` in Spark, and the job that keeps the log."""

import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import AnalysisException

from jobs import read_group_log
from jobs.configuration.config import load
from jobs.rounds.commit import replace_rows
from jobs.run import reading
from jobs.run.logs import FOLLOWED_GROUP_LOG
from jobs.run.reading import Reading
from jobs.upkeep.upkeep import expire_bronze
from metadata_source.kafka_constants import OFFSETS_TOPIC as TOPIC
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from schemas import bronze, internal
from schemas.in_spark import read_view
from schemas.lake import Lake
from tests.support.group_log_reads import COMMIT, GROUP, RAW, produce
from tests.support.lakes import new_lake
from tests.support.streams import Stream
from tests.support.waiting import eventually


class RawSource(KafkaGroupLogSource):
    topic = RAW

    @classmethod
    def name(cls) -> str:
        return "raw_group_log"


class LogStream(Stream):
    """A stream of the log with the same options each time."""

    def __init__(self, spark, folder: Path, **options: str) -> None:
        spark.dataSource.register(RawSource)
        super().__init__(spark, folder, RawSource.name())
        self.options = options

    def run(self) -> None:
        self.run_once(**self.options)

    def kept(self) -> list:
        columns = [
            "batch",
            "cluster",
            "log_partition",
            "offset",
            "record",
            "next_offset",
            "records",
            "commits",
            "type",
        ]
        return (
            self.rows()
            .select(*columns)
            .orderBy("batch", "cluster", "log_partition", "offset", "record")
            .collect()
        )


def test_bounded_batches_exactly_once_and_again(spark, raw, cluster, tmp_path):
    servers = cluster.bootstrap_servers
    produce(servers, [COMMIT, GROUP] * 50)
    produce(servers, [GROUP] * 10, partition=1)
    dead = {"kafka.bootstrap.servers": "localhost:1"}
    clusters = json.dumps({"here": {"kafka.bootstrap.servers": servers}, "dead": dead})
    stream = LogStream(
        spark, tmp_path, clusters=clusters, maxRecordsPerBatch="60", requestTimeout="2s"
    )
    stream.run()  # the cluster that nobody answers for does not end it
    rows = stream.kept()
    records = [(row.log_partition, row.offset) for row in rows if row.record == "record"]
    assert sorted(records) == [(0, at) for at in range(1, 100, 2)] + [(1, at) for at in range(10)]
    read = [row for row in rows if row.record == "read"]
    assert {row.cluster for row in rows} == {"here"}
    sizes = Counter()
    for row in read:
        sizes[row.batch] += row.next_offset - row.offset
    assert sum(sizes.values()) == 110
    assert max(sizes.values()) <= 62
    assert len(sizes) >= 2
    stream.cut_off()
    produce(servers, [GROUP])
    stream.run()
    again = stream.kept()
    assert again[: len(rows)] == rows
    assert [(row.record, row.offset) for row in again[len(rows) :]] == [
        ("read", 100),
        ("record", 100),
    ]


def test_a_stream_goes_on_by_itself(spark, raw, cluster, tmp_path):
    servers = cluster.bootstrap_servers
    produce(servers, [GROUP] * 3)
    stream = LogStream(
        spark, tmp_path, **{"kafka.bootstrap.servers": servers, "startingOffsets": "latest"}
    )
    query = stream.start(**stream.options)
    try:
        # The log is found in the first batch or, if the cluster is slow to answer, in a later one.
        planned = tmp_path / "checkpoint" / "offsets"
        stream.wait(
            lambda: any('"next"' in file.read_text() for file in planned.glob("[0-9]*")), query, 40
        )
        produce(servers, [GROUP])
        stream.wait(
            lambda: any(progress.numInputRows for progress in query.recentProgress), query, 40
        )
    finally:
        query.stop()
    assert [(row.record, row.offset) for row in stream.kept()] == [("read", 3), ("record", 3)]


def test_a_batch_read(spark, groups):
    read = spark.read.format("kafka_group_log")  # not registered: found by the name of its module
    frame = read.option("kafka.bootstrap.servers", groups).load()
    found = {
        row.group_id
        for row in frame.where("record = 'record'").select("group_id").distinct().collect()
    }
    assert {"group-log-test-classic", "group-log-test-consumer"} <= found
    with pytest.raises(
        AnalysisException,
        match=r"KAFKA_METADATA_GROUP_LOG. (unreachable|timeout): cluster default: ",
    ):
        read.options(
            **{"kafka.bootstrap.servers": "localhost:1", "requestTimeout": "1s"}
        ).load().collect()
    with pytest.raises(
        AnalysisException, match=r"wrong_cluster: cluster default: .* clusterId is other"
    ):
        read.options(**{"kafka.bootstrap.servers": groups, "clusterId": "other"}).load().collect()


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory) -> Lake:
    """One for all jobs of this file."""
    return new_lake(spark, tmp_path_factory.mktemp("group_log"))


@pytest.mark.soak
def test_the_job_and_its_retention(spark, groups, lake, tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text(f"""
lake: {lake}
clusters:
  here:
    kafka.bootstrap.servers: {groups}
poll:
  clientHashKey: env:ALICE_PASSWORD
groupLog:
""")
    loaded = load(str(config))
    for _ in range(2):
        read_group_log.run(spark, loaded, once=True)

    def log():
        return loaded.lake.read(spark, bronze.GROUP_LOG)

    rows = log().where("group_id LIKE 'group-log-test-%'").collect()
    assert len({(row.log_partition, row.offset) for row in rows}) == len(rows) > 0
    assert "group-log-test-client" not in str(rows)
    clients = {member.client_id for row in rows if row.classic for member in row.classic.members}
    (client,) = clients | {row.member.client_id for row in rows if row.member}
    assert client.startswith("h:")
    commits = (
        read_view(spark, loaded.lake, bronze.OFFSET_COMMITS)
        .where("group_id LIKE 'group-log-test-%'")
        .collect()
    )
    assert {(row.topic, row.group_id) for row in commits} == {
        ("group-log-test", row.group_id) for row in rows
    }
    assert {row.first_committed for row in commits if row.commits} <= {1, 2}
    # Taken into history: half of one partition, then all.
    (partition,) = {row.log_partition for row in rows if row.group_id.endswith("classic")}
    middle = sorted(row.offset for row in rows if row.log_partition == partition)[1]
    before = log().count()
    ends = dict(
        log()
        .where("next_offset IS NOT NULL")
        .groupBy("log_partition")
        .agg({"next_offset": "max"})
        .collect()
    )
    for taken, days_later, kept in (
        ({partition: middle}, 9, before),
        (ends, 0, before),
        (ends, 9, 0),
    ):
        row = {
            "history": "rebalance_history",
            "cluster": "here",
            "cluster_id": "id",
            "round": 1,
            "positions": {str(key): [0, offset] for key, offset in taken.items()},
            "memory": "{}",
        }
        replace_rows(spark, loaded.lake, internal.STATE, [row], "history = 'rebalance_history'")
        now = datetime.now(UTC) + timedelta(days=days_later)
        expire_bronze(spark, loaded.lake, timedelta(days=7), now)
        assert log().count() == kept


class Job:
    """The job, driven as it drives itself, until something is so."""

    def __init__(self, spark, config) -> None:
        self.spark, self.config = spark, config
        self.reading = Reading(spark, config, FOLLOWED_GROUP_LOG)

    def until(self, is_so) -> None:
        def has_come() -> bool:
            assert self.reading.keep()
            return bool(is_so())

        eventually(has_come, "the job")

    def planned(self) -> str:
        """The offset at which the batch under way is planned to end, as its checkpoint has it."""
        folder = Path(self.config.checkpoint(FOLLOWED_GROUP_LOG.query))
        batches = [int(file.name) for file in folder.glob("offsets/*") if file.name.isdigit()]
        is_read = not batches or (folder / "commits" / str(max(batches))).exists()
        return "" if is_read else (folder / "offsets" / str(max(batches))).read_text()

    def rows(self, where: str) -> list:
        return (
            self.config.lake.read(self.spark, bronze.GROUP_LOG)
            .where(where)
            .orderBy("offset")
            .collect()
        )


@pytest.mark.soak
def test_a_cluster_that_dies_while_it_is_read(spark, groups, guarded, lake, monkeypatch):
    """Nobody else waits for it, and of its own log nothing is lost and nothing there twice."""
    monkeypatch.setattr(reading, "LEFT_OUT_S", 2.0)
    as_broker = {"client.id": "__admin_client"}  # whom brokers let write to internal topics
    count = 300_000
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    produce(
        guarded.bootstrap_servers,
        [COMMIT, *[COMMIT] * 998, GROUP] * (count // 1000),
        TOPIC,
        **as_broker,
    )
    config = Path(f"{lake}.yaml")
    config.write_text(f"""
lake: {lake}
checkpoints: {lake}-dies
clusters:
  lives:
    kafka.bootstrap.servers: {groups}
  dies:
    kafka.bootstrap.servers: {guarded.bootstrap_servers}
poll:
  pollInterval: 1s
groupLog:
  requestTimeout: 2s
""")
    job = Job(spark, load(str(config)))
    tombstones = "cluster = 'lives' AND type = 3 AND is_tombstone AND group_id = 'g'"
    try:
        job.until(lambda: str(count) in job.planned())
        time.sleep(0.3)
        guarded.kill(1)
        assert job.planned(), "it was read before it died"
        try:
            produce(groups, [(GROUP[0], None)] * 5, TOPIC, **as_broker)
            job.until(lambda: len(job.rows(tombstones)) == 5)
            assert job.reading.failed is not None
            assert job.rows("cluster = 'dies'") == []
        finally:
            guarded.start(1)
        job.until(lambda: job.rows("cluster = 'dies'"))
    finally:
        job.reading.query.stop()
    rows = job.rows("cluster = 'dies'")
    read = [row for row in rows if row.record == "read"]
    assert [row.offset for row in rows if row.record == "record"] == list(range(999, count, 1000))
    assert [row.offset for row in read] == [0, *(row.next_offset for row in read)][:-1]
    assert read[-1].next_offset == count
    assert {row.record for row in rows} == {"record", "read", "commits"}
    assert len(job.rows(tombstones)) == 5
