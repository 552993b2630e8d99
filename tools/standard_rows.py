"""Make rows of the inputs of tools/standard.py, by the code that PYTHONPATH names:
`standard_rows.py INPUTS ROWS PART`.

Each code is driven as its own tests drive it, so that names that move are looked for in
tests/support alone.
"""

import json
import os
import pickle
import random
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from pyspark.sql import SparkSession
from tests.unit.rules import test_cost, test_group, test_lag

from jobs.rules import takes
from jobs.rules.groups.lag import Visit
from kafka_metadata_history.opened import without_spark
from pyspark_kafka_cluster_log import DefaultSource as ClusterLog
from pyspark_kafka_group_log import DefaultSource as GroupLog
from pyspark_kafka_metadata import DefaultSource as Polls
from schemas.bronze import GROUP_LOG, METADATA_POLLS
from schemas.lake import TABLES, VIEWS, Lake
from tests.spark import test_group_lag, test_rebalance_cost, test_rebalance_history, test_turns
from tests.support import group_rounds, incident, incident_groups, shared, stored, turns
from tests.support.bronze_rows import COLUMNS
from tests.support.histories import Answer
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import make_history, new_lake
from tests.support.large_rounds import Rounds
from tests.support.log_rounds import LogLake
from tests.support.worker import SMALL_JVM, worker_python
from truth.session import ROOT, default_settings

try:
    from jobs.configuration.config import Config, Thresholds
    from jobs.histories import polls as of_polls
    from jobs.histories import rebalances
    from jobs.rounds.engine import Engine
    from jobs.run import session
    from kafka_metadata_history.answers import questions

    def history_of(spark: SparkSession, config: Config) -> Any:
        """What makes history of polls."""
        return Engine(spark, config, of_polls.Polls())

    def groups_of(spark: SparkSession, config: Config) -> Any:
        """What makes history of groups."""
        return Engine(spark, config, rebalances.RebalanceHistory())
except ImportError:
    from jobs.common import questions, session  # type: ignore[import-not-found, no-redef]
    from jobs.common.config import Config, Thresholds  # type: ignore[import-not-found, no-redef]
    from jobs.history import History as history_of  # type: ignore[import-not-found, no-redef]  # noqa: N813 - as of above
    from jobs.rebalance_history import RebalanceHistory as groups_of  # type: ignore[attr-defined, no-redef]  # noqa: N813 - as of above

Row = dict[str, Any]
Log = dict[int, list[tuple[int, bytes]]]
Made = Iterator[tuple[object, str, Iterable[Row]]]
"""The case, the table and its rows."""
LATER = datetime(2026, 11, 2, tzinfo=UTC)
OFFSETS_TOPIC = "__consumer_offsets"


# --- without Spark ---


def lakes(inputs: Sequence[Row]) -> Made:
    """The tables of polls' history."""
    for each in inputs:
        rounds = Rounds(each["alias"], f"id-{each['alias']}", each["kind"])
        size = each["partitions_a_part"] or takes.PARTITIONS_A_PART
        with patch.object(takes, "PARTITIONS_A_PART", size):
            rounds.catch_up(
                [dict.fromkeys(COLUMNS) | row for row in each["rows"]], each["most_polls"]
            )
        yield from ((each["alias"], table, rows.values()) for table, rows in rounds.tables.items())
        yield each["alias"], "internal.state", rounds.states.values()


def lives(inputs: Sequence[Row]) -> Made:
    """The tables of a cluster that its log and polls tell of in turns."""
    for number, each in enumerate(inputs):
        lake = turns.Lake(turns.Life(each["log"], [Answer(**fields) for fields in each["answers"]]))
        for at in each["times"]:
            lake.round(at)
        yield from ((number, table, rows.values()) for table, rows in lake.tables.items())
        yield number, "internal.state", lake.states.values()


def groups(inputs: Sequence[Row]) -> Made:
    """The tables of groups, by their log."""
    for number, each in enumerate(inputs):
        rounds = group_rounds.Rounds(test_group.LIMITS)
        for since, until in pairwise(sorted({0, *each["cuts"], len(each["rows"])})):
            rounds.take(each["rows"][since:until])
        yield from ((number, table, rows) for table, rows in rounds.tables.items())
        yield number, "memory", [{"memory": rounds.memory}]


def lag(inputs: Sequence[list[tuple[Row, Any]]]) -> Made:
    """The tables of lag, in two rounds."""
    for number, each in enumerate(inputs):
        visits, rounds = [(Visit(**visit), said) for visit, said in each], test_lag.Rounds()
        for part in (visits[: len(visits) // 2], visits[len(visits) // 2 :]):
            rounds.take(*part)
        yield number, "gold.group_lag", rounds.lag
        yield number, "internal.removed_commits", rounds.removed
        yield number, "memory", [{"memory": rounds.memory}]


def cost(inputs: Sequence[tuple[Any, Any, set[int]]]) -> Made:
    """The rows of costs."""
    for number, (made, visits, cuts) in enumerate(inputs):
        seen = [test_cost.visit(at, 10, 10 + behind) for at, behind in sorted(visits)]
        yield (
            number,
            "gold.rebalance_cost",
            test_cost.costs(test_cost.placed(made), seen, tuple(cuts)),
        )


def cluster_logs(inputs: Sequence[bytes]) -> Made:
    """The rows of segments of the controllers' log, and the history of those of one life."""
    for number, data in enumerate(inputs):
        folder = Path(f"segment-{number}")
        folder.mkdir()
        (folder / f"{0:020}.log").write_bytes(data)
        rows = list(
            read(ClusterLog({"path": str(folder), "cluster": "prod", "clusterId": "id-prod"}))
        )
        yield number, "bronze.cluster_log", rows
        if number % 2 and not any("raised" in row for row in rows):
            lake = LogLake()
            lake.take([row | {"read_at": LATER, "day": LATER.date()} for row in rows])
            yield from ((number, table, found) for table, found in lake.rows.items())


def group_logs(inputs: Sequence[Log]) -> Made:
    """The rows of the coordinators' log, from a broker."""
    os.environ |= {"STANDARD_HASH_KEY": "key", "KAFKA_METADATA_SECRET_VARIABLES": "*"}
    for number, log in enumerate(inputs):
        more = {"clientHashKey": "env:STANDARD_HASH_KEY"} if number % 4 == 1 else {}
        more |= {"groupsPattern": "g[01].*"} if number % 4 == 2 else {}
        with broker(log, {}) as servers:
            yield number, "bronze.group_log", read(GroupLog(servers | more))


def polls(inputs: Sequence[dict[int, tuple[int, bool, bytes]]]) -> Made:
    """The rows of a poll, with what a broker answers about groups and offsets."""
    log = {partition: [(9, b"")] for partition in range(4)}
    for number, recorded in enumerate(inputs):
        with broker(log, recorded) as servers:
            rows = list(read(Polls(servers | {"enrich": "groups,offsets"})))
        # That of the whole answer is of the broker's port, too.
        of_port = {"digest": None}
        yield (
            number,
            "bronze.metadata_polls",
            [row | of_port if row.get("record") == "poll" else row for row in rows],
        )


@contextmanager
def broker(log: Log, recorded: Mapping[int, tuple[int, bool, bytes]]) -> Iterator[dict[str, str]]:
    """Runs a broker; yields the options that reach it."""
    with Broker(("127.0.0.1", 0), Session) as server:
        server.log, server.recorded = log, recorded
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {"kafka.bootstrap.servers": f"127.0.0.1:{server.server_address[1]}"}
        server.shutdown()


def read(source: Any) -> Iterator[Row]:
    """The rows of a batch read; the last one says what it raised."""
    try:
        reader = source.reader(source.schema())
        for task in reader.partitions():
            for batch in reader.read(task):
                yield from batch.to_pylist()
    except Exception as error:  # noqa: BLE001 - the other code raises the same
        yield {"raised": str(error)}


class Broker(socketserver.ThreadingTCPServer):
    """Leads all partitions of __consumer_offsets and of `t`.

    `log`: of each, batches with their last offsets. `recorded`: other answers, by API key.
    """

    daemon_threads = True
    log: Log
    recorded: Mapping[int, tuple[int, bool, bytes]]


class Session(socketserver.StreamRequestHandler):
    """A connection to it."""

    server: Broker
    last: Mapping[Any, tuple[int, Any]] = {
        ApiVersionsRequest: (2, ApiVersionsResponse),
        MetadataRequest: (8, MetadataResponse),
        ListOffsetsRequest: (5, ListOffsetsResponse),
        FetchRequest: (11, FetchResponse),
    }
    """The newest version of each request, none of them flexible, and its response."""

    def handle(self) -> None:
        """Answer until the client hangs up."""
        while size := self.rfile.read(4):
            frame = self.rfile.read(int.from_bytes(size))
            key, version, correlation, client = struct.unpack_from(">hhih", frame)
            if key in self.server.recorded:
                _, is_flexible, body = self.server.recorded[key]
                self.send(correlation, b"\0" * is_flexible + body)
                continue
            request = next(each for each in self.last if key == each.API_KEY)
            last, response = self.last[request]
            fields = {"error_code": 35, "api_keys": self.versions(), "throttle_time_ms": 0}
            if version <= last:
                asked = request.decode(frame[10 + max(client, 0) :], version=version)
                fields = {"throttle_time_ms": 0} | getattr(self, request.__name__)(asked)
            version = version if version <= last else 0
            self.send(
                correlation, bytes(response(version=version, **fields).encode(version=version))
            )

    def send(self, correlation: int, out: bytes) -> None:
        self.wfile.write(struct.pack(">ii", 4 + len(out), correlation) + out)

    def versions(self) -> list[Any]:
        """The versions of requests."""
        key = ApiVersionsResponse.ApiVersion
        ranges = [(each.API_KEY, 0, last) for each, (last, _) in self.last.items()]
        ranges += [(each, version, version) for each, (version, *_) in self.server.recorded.items()]
        return [
            key(api_key=each, min_version=first, max_version=last) for each, first, last in ranges
        ]

    def ApiVersionsRequest(self, _: Any) -> Row:
        return {"error_code": 0, "api_keys": self.versions()}

    def MetadataRequest(self, _: Any) -> Row:
        topic = MetadataResponse.MetadataResponseTopic
        of_all = {
            "error_code": 0,
            "leader_id": 1,
            "leader_epoch": 3,
            "replica_nodes": [1],
            "isr_nodes": [1],
        }
        partition = topic.MetadataResponsePartition
        partitions = [
            partition(partition_index=n, offline_replicas=[], **of_all) for n in self.server.log
        ]
        host, port = self.server.server_address
        broker = MetadataResponse.MetadataResponseBroker(node_id=1, host=host, port=port, rack=None)
        told = {"error_code": 0, "is_internal": False, "partitions": partitions}
        topics = [topic(name=name, **told) for name in (OFFSETS_TOPIC, "t")]
        return {"brokers": [broker], "cluster_id": "id-prod", "controller_id": 1, "topics": topics}

    def ListOffsetsRequest(self, asked: Any) -> Row:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        partitions = []
        for each in asked.topics[0].partitions:
            offset = 0 if each.timestamp == -2 else self.server.log[each.partition_index][-1][0] + 1
            told = {"error_code": 0, "timestamp": -1, "offset": offset, "leader_epoch": 3}
            partitions.append(
                topic.ListOffsetsPartitionResponse(partition_index=each.partition_index, **told)
            )
        return {"topics": [topic(name=asked.topics[0].name, partitions=partitions)]}

    def FetchRequest(self, asked: Any) -> Row:
        topic, partitions = FetchResponse.FetchableTopicResponse, []
        for each in asked.topics[0].partitions:
            log = self.server.log[each.partition]
            there = [data for last, data in log if last >= each.fetch_offset][:7]
            told = {
                "error_code": 0,
                "high_watermark": log[-1][0] + 1,
                "last_stable_offset": 0,
                "log_start_offset": 0,
            }
            told |= {
                "aborted_transactions": None,
                "preferred_read_replica": -1,
                "records": b"".join(there),
            }
            partitions.append(topic.PartitionData(partition_index=each.partition, **told))
        return {
            "error_code": 0,
            "session_id": 0,
            "responses": [topic(topic=OFFSETS_TOPIC, partitions=partitions)],
        }


# --- in Spark ---


def rounds(inputs: Mapping[str, Any]) -> Made:
    """The tables, views and answers of lakes whose rounds were recorded."""
    folder = Path.cwd()
    spark = local_session(folder)
    shared._RUN[:] = [folder]
    for make in (killed, handed_over, large, of_groups, of_lag, of_costs, of_an_incident):
        lake = new_lake(spark, folder / make.__name__)
        since = time.monotonic()
        with patch.object(session, "COMPILED_FROM", 10**9):  # plans are compiled in long runs
            make(spark, lake, inputs)
        print(f"{make.__name__}: {time.monotonic() - since:.0f} s", file=sys.stderr, flush=True)
        for table in (table for table in TABLES if table.schema != "bronze"):
            yield make.__name__, table.full_name, stored.rows_of(lake, table)
        opened = without_spark(lake)
        for view in VIEWS:
            yield (
                make.__name__,
                view.full_name,
                opened(f"SELECT * FROM {view.full_name}").to_pylist(),  # noqa: S608
            )
        for name in questions.names():
            asked = questions.question(name, "2026-01-01", "2026-12-01", {}, LATER)
            yield make.__name__, f"query {name}", opened(asked.sql).to_pylist()
    spark.stop()


def local_session(folder: Path) -> SparkSession:
    """As that of the tests: smaller than a job's."""
    os.environ["PYSPARK_PYTHON"] = worker_python()
    os.chdir(ROOT)  # the settings name folders of the repository
    settings = default_settings() | {
        "spark.pyspark.python": worker_python(),
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": f"{SMALL_JVM} -Dderby.system.home={folder}",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.log.level": "OFF",
    }
    return SparkSession.builder.master("local[4]").config(map=settings).getOrCreate()


def keep(lake: Lake, inputs: Mapping[str, Any], aliases: str, since: int, until: int) -> None:
    """Take polls of some clusters into bronze."""
    rows = (row for alias in aliases for row in inputs["recorded"][alias])
    stored.append(lake, METADATA_POLLS, [row for row in rows if since <= row["n"] < until])


def make_all(spark: SparkSession, config: Config) -> Any:
    """Make all that is new."""
    history = history_of(spark, config)
    while history.round(LATER):
        pass
    return history


def killed(spark: SparkSession, lake: Lake, inputs: Mapping[str, Any]) -> None:
    """Killed between plan and commit, and between two commits; then a cluster is made again."""
    config = Config(lake, "", {}, {}, timedelta(days=7))
    keep(lake, inputs, "ab", 0, 12)
    with suppress(KilledError), killed_at("plan", before=False):
        history_of(spark, config).round(LATER)
    history = make_all(spark, config)
    keep(lake, inputs, "ab", 12, 99)
    with suppress(KilledError), killed_after(3):
        history.round(LATER)
    make_all(spark, config).again("a")
    make_all(spark, config)


def handed_over(spark: SparkSession, lake: Lake, inputs: Mapping[str, Any]) -> None:
    """The log tells, then polls, then the log again."""
    life = turns.lived(random.Random(test_turns.SEED), test_turns.BATCHES, test_turns.SILENCES)
    rows, history = test_turns.Bronze(life, lake), test_turns.history_of(spark, lake)
    times = sorted({at for at, _ in life.log} | {answer.scheduled_at for answer in life.answers})
    for at in (times[len(times) // 3], times[len(times) // 2], times[-1]):
        rows.keep(at)
        history.round(LATER)


def large(spark: SparkSession, lake: Lake, inputs: Mapping[str, Any]) -> None:
    """Clusters that are in parts, and then in more."""
    config = Config(lake, "", {}, {}, None, kinds={"e": "redpanda"})  # type: ignore[arg-type]
    for size, since, until in ((3, 0, 10), (1, 10, 99)):
        keep(lake, inputs, "cde", since, until)
        with patch.object(takes, "PARTITIONS_A_PART", size):
            with suppress(KilledError), killed_at("done", before=True):
                history_of(spark, config).round(LATER)
            make_all(spark, config)


def of_groups(spark: SparkSession, lake: Lake, inputs: Mapping[str, Any]) -> None:
    """Groups, by their log and by polls."""
    test_rebalance_history.write_silver(lake)
    test_rebalance_history.settle(spark, lake, 400)
    rows = test_rebalance_history.alpha()
    config = Config(lake, "", {}, {}, thresholds=Thresholds(storm=3))
    for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        stored.append(lake, GROUP_LOG, part)
        groups_of(spark, config).catch_up(whole=True)


def of_lag(spark: SparkSession, lake: Lake, inputs: Mapping[str, Any]) -> None:
    """Lag, by polls."""
    for part in (test_group_lag.history()[:8], test_group_lag.history()[8:]):
        stored.append(lake, METADATA_POLLS, [row for batch in part for row in batch])
        test_group_lag.run(spark, lake)


def of_costs(spark: SparkSession, lake: Lake, inputs: Mapping[str, Any]) -> None:
    """The cost of rebalances."""
    for step, seconds in ((0, 66), (1, 100)):
        test_rebalance_cost.news(lake, step)
        test_rebalance_cost.catch_up(spark, lake, seconds)


def of_an_incident(spark: SparkSession, lake: Lake, inputs: Mapping[str, Any]) -> None:
    """All that questions are asked of."""
    stored.append(lake, METADATA_POLLS, incident.bronze_rows("prod", incident.answers()))
    make_history(spark, lake)
    incident_groups.write_rows(lake)


PARTS = {
    "lakes": (lakes, "lakes"),
    "turns": (lives, "turns"),
    "groups": (groups, "groups"),
    "lag": (lag, "lag"),
    "cost": (cost, "cost"),
    "group_logs": (group_logs, "group_logs"),
    "polls": (polls, "polls"),
    "cluster_logs": (cluster_logs, "cluster_logs"),
    "rounds": (rounds, None),
}


def main() -> None:
    """Write a line for each row."""
    inputs = pickle.loads(Path(sys.argv[1]).read_bytes())
    make, name = PARTS[sys.argv[3]]
    with Path(sys.argv[2]).open("w") as file:
        for case, table, rows in make(inputs if name is None else inputs[name]):
            # What a lake says of its own tables is no history's.
            kept = (row for row in rows if row.get("history") != "lake")
            lines = (
                json.dumps([str(case), table, row], sort_keys=True, default=str) for row in kept
            )
            file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    main()
