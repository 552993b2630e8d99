"""One Spark session for each process, and the marker of each test from the folder it lives in."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.support")  # so that checks of helpers say what differs

import tests.support.examples  # noqa: E402, F401 - registers the profiles

# Far from UTC, where the sessions are: a time that lost its zone on the way shows.
os.environ["TZ"] = "Asia/Tokyo"
time.tzset()
# Secrets of tests have names and places of many kinds: test_references.py holds what may be read
# unless it is said. Workers of Spark have the environment that its JVM was started in.
os.environ |= {"KAFKA_METADATA_SECRET_FILES": "/", "KAFKA_METADATA_SECRET_VARIABLES": "*"}
settings.load_profile("short")

ROOT = Path(__file__).resolve().parent.parent
SHARED = {
    "cluster": "cluster",
    "sasl_ssl_cluster": "cluster",
    "guarded": "cluster",
    "secured_cluster": "secured",
}
"""Clusters of all tests of `tests/kafka/`: the files that ask for one are of one group."""
LONGEST_NAME = 60
"""Of a value in the name of a test."""
WITHOUT_SPARK = " without Spark"
"""How the name of a group ends whose tests need no session of Spark."""
KINDS = ("unit", "java", "spark", "kafka", "notebooks", "browser")
LONGEST = (
    "cluster",
    f"cluster{WITHOUT_SPARK}",
    "kafka/test_truth.py",
    "incident_lake",
    "spark/test_kills.py",
    "spark/test_history.py",
    "spark/test_validate.py",
    *("spark/test_rebalance_history.py", "spark/test_upkeep.py", "spark/test_lake.py"),
)
"""Groups that take long. They are begun first, or one process would be left with one at the end,
when the others have nothing to do.
"""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "soak" not in config.option.markexpr:
        # By the marker: a keyword is also the name of the checkout's folder.
        config.hook.pytest_deselected(
            items=[item for item in items if item.get_closest_marker("soak")]
        )
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    groups = _groups(items)
    for item in items:
        kind = item.path.relative_to(ROOT / "tests").parts[0]
        if kind in KINDS:
            item.add_marker(kind)
        item.add_marker(pytest.mark.xdist_group(groups[item]))
    longest = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: longest.get(groups[item], len(LONGEST)))


def _groups(items: list[pytest.Item]) -> dict[pytest.Item, str]:
    """The group of each test, which a process takes whole: its file, all files that share a
    cluster and need a session of Spark, or need none, or all tests that ask for the one lake that
    takes long to make.
    """

    def asks_for(item: pytest.Item, *fixtures: str) -> bool:
        return bool({*fixtures} & {*getattr(item, "fixturenames", ())})

    files = {item: str(item.path.relative_to(ROOT / "tests")) for item in items}
    sharing = {
        file: group
        for fixture, group in SHARED.items()
        for item, file in files.items()
        if file.startswith("kafka") and asks_for(item, fixture)
    }
    in_spark = {
        file
        for item, file in files.items()
        if file.startswith(("spark/", "notebooks/")) or asks_for(item, "spark")
    }
    groups = {
        item: sharing.get(file, file) + ("" if file in in_spark else WITHOUT_SPARK)
        for item, file in files.items()
    }
    return groups | {item: "incident_lake" for item in items if asks_for(item, "incident_lake")}


def pytest_make_parametrize_id(val: object) -> str | None:
    """The name of a case that was given none: its value, in short."""
    if isinstance(val, (str, bytes)):
        return f"{val[:40]!r} and more" if len(val) > LONGEST_NAME else None
    name = repr(val) if isinstance(val, (tuple, list, dict)) and _is_plain(val) else ""
    return name if 0 < len(name) <= LONGEST_NAME else None


def _is_plain(value: object) -> bool:
    """Whether its text is the same in all processes: that of a set is not."""
    if isinstance(value, dict):
        return all(map(_is_plain, (*value.keys(), *value.values())))
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or type(value) in {bool, int, float, str}


def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "OneWithoutSpark | None":  # noqa: F821
    from tests.support.processes import OneWithoutSpark

    return (
        OneWithoutSpark(config, log, without=WITHOUT_SPARK)
        if config.option.dist == "loadgroup"
        else None
    )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:  # noqa: F821
    """The jobs' settings on one local session, sized for two cores."""
    from pyspark.sql import SparkSession

    from tests.support.shared import share_in
    from tests.support.worker import LONG_LIVED_JVM, worker_python
    from truth.session import default_settings

    share_in(tmp_path_factory)
    os.environ["PYSPARK_PYTHON"] = worker_python()
    os.chdir(ROOT)  # the settings name folders of the repository
    scratch, settings = tmp_path_factory.mktemp("spark"), default_settings()
    settings |= {
        "spark.pyspark.python": worker_python(),
        # Every test makes tables: Delta remembers the logs of each, and with each log the plans
        # that read it.
        "spark.driver.memory": "6g",
        "spark.driver.extraJavaOptions": (
            f"{LONG_LIVED_JVM} -Xms2g -Xmn1200m -Dderby.system.home={scratch} "
            "-Ddelta.log.cacheSize=100"
        ),
        # No file of check sums beside each of a log: for each that it makes or renames, Hadoop
        # starts processes.
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # Tables of tests are smaller than any of a job: fewer tasks are enough.
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }
    session = (
        SparkSession.builder.master("local[4]")
        .appName("kafka-metadata-history tests")
        .config(map=settings)
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def incident_lake(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Lake":  # noqa: F821
    """A lake whose history is known, made once: the questions are asked of it, and the notebooks
    draw it.
    """
    from tests.support.incident import write_lake
    from tests.support.known_rows import write_rows

    lake = write_lake(spark, str(tmp_path_factory.mktemp("incident")))
    write_rows(lake)
    return lake
