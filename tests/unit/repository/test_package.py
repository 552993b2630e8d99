import pickle
import subprocess
import sys

import pytest

from metadata_source.datasource import KafkaMetadataSource
from metadata_source.errors import OptionsError, PollError, ProtocolError

OPTIONS = {"kafka.bootstrap.servers": "one:9092", "topicsPattern": "a.*"}


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("name", ["kafka_metadata", "kafka_group_log", "kafka_cluster_log"])
def test_spark_looks_the_source_up_without_loading_clients_or_arrow(name):
    heavy = ("kafka", "confluent_kafka", "numpy", "pyarrow", "pandas", "great_expectations")
    script = f"""
import sys
import pyspark.sql.datasource
before = set(sys.modules)
import metadata_source, pyspark_{name}
assert pyspark_{name}.DefaultSource.name() == {name!r}
print(*sorted(name for name in {heavy!r} if name in sys.modules and name not in before))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == ""


def test_tables_are_known_without_what_reads_kafka():
    script = (
        "import sys, schemas.lake; print(*sorted(name for name in sys.modules if "
        "name.startswith(('kafka', 'meta'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    columns = [
        f"metadata_source.columns{part}"
        for part in ("", ".cluster_log", ".group_log", ".polls", ".transaction_log")
    ]
    assert done.stdout.split() == [
        "metadata_source",
        *columns,
        "metadata_source.errors",
        "metadata_source.kafka_constants",
        "metadata_source.text",
    ]


@pytest.mark.parametrize(
    "error",
    [
        OptionsError("topics: empty"),
        PollError("timeout", "one:9092: no answer in time"),
        ProtocolError("too short", message="MetadataResponse", version=9, path="topics", offset=3),
    ],
)
def test_errors_cross_processes_whole(error):
    copied = pickled(error)
    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


def test_readers_and_their_tasks_pickle():
    source = KafkaMetadataSource(OPTIONS)
    batch = source.reader(source.schema())
    for each in (batch, *batch.partitions()):
        assert vars(pickled(each)) == vars(each)


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (64, [64]), (65, [33, 32]), (130, [44, 43, 43])]
)
def test_clusters_spread_evenly_over_tasks(count, sizes):
    clusters = ", ".join(f'"c{index}": {{}}' for index in range(count))
    source = KafkaMetadataSource(
        {"kafka.bootstrap.servers": "one:9092", "clusters": f"{{{clusters}}}"}
    )
    tasks = source.reader(source.schema()).partitions()
    assert [len(task.due) for task in tasks] == sizes
    assert len({due.cluster.alias for task in tasks for due in task.due}) == count
    assert len({task.stream for task in tasks}) == 1


def test_another_schema_is_refused():
    source = KafkaMetadataSource(OPTIONS)
    other = KafkaMetadataSource(OPTIONS | {"entity": "topics"}).schema()
    for make in (source.reader, source.streamReader):
        with pytest.raises(OptionsError, match="schema: kafka_metadata brings its own columns"):
            make(other)


def test_a_stream_does_not_wait_on_after_its_driver(tmp_path):
    """The child waits for polls, its parent (the driver) ends meanwhile, and the pipe closes with
    the child.
    """
    options = OPTIONS | {"recorder": "token", "spool": str(tmp_path / "spool")}
    script = f"""
import os
from metadata_source.datasource import KafkaMetadataSource
from tests.support.spools import opened
source = KafkaMetadataSource({options!r})
reader = source.streamReader(source.schema())
waits, begins = os.pipe()
if os.fork():
    os.read(waits, 1)
else:
    spool = opened({str(tmp_path / "spool")!r})
    os.write(begins, b"x")
    reader.latestOffset(reader.initialOffset(), None)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert "RuntimeError: the Spark driver is gone" in done.stderr
