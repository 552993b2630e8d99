"""A lake in a bucket that Spark writes: moto's server, with what fails before it. The jars are
those that docs/object-stores.md names, and are fetched once; so all of it is for `make soak`.
"""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.configuration.config import load
from kafka_metadata_history.opened import without_spark
from tests.support.byte_cluster import ByteCluster
from tests.support.failing_store import FailingStore, failing
from tests.support.object_store import BUCKET, SECRET, client, object_store
from tests.support.recorded_clusters import changed, two_groups
from tests.support.waiting import eventually
from tests.support.written_stores import Command, configured, done

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
ON_A_BUSY_MACHINE = 600.0
LEADERS = "SELECT leader_epoch AS epoch FROM silver.partitions_now WHERE topic = 'orders'"


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store() as found:
        yield found


@pytest.fixture
def store(bucket: str) -> Iterator[FailingStore]:
    """A store with an empty bucket."""
    asked = client(bucket)
    for page in asked.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for each in page.get("Contents", ()):
            asked.delete_object(Bucket=BUCKET, Key=each["Key"])
    asked.close()
    with failing(bucket) as found:
        yield found


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    with two_groups() as found:
        yield found


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_STORE_SECRET", SECRET)


def asked(config: Path, sql: str) -> list[dict[str, Any]]:
    """The answer of the lake, without a JVM."""
    rows: list[dict[str, Any]] = without_spark(load(str(config)).lake)(sql).to_pylist()
    return rows


def check_polls(config: Path, *kinds: str) -> None:
    """Each poll is there once. `kinds`: of those that may have failed; on a busy machine one may
    be due while the one before is still running.
    """
    rows = asked(
        config, "SELECT stream, n, error_kind FROM bronze.metadata_polls WHERE record = 'poll'"
    )
    numbers = Counter((row["stream"], row["n"]) for row in rows)
    assert max(numbers.values()) == 1
    assert {row["error_kind"] for row in rows} <= {None, "overlapped", *kinds}
    if "handed_over" not in kinds:  # One row stands for several.
        assert len(rows) == max(n for _, n in numbers) + 1


@pytest.mark.parametrize("place", ["bucket", "folder"])
def test_each_command_writes_a_bucket_and_no_jvm_reads_it(
    store: FailingStore, brokers: ByteCluster, tmp_path: Path, place: str
) -> None:
    # On a busy machine minutes pass until `validate` looks whether the last poll is new enough.
    more: dict[str, Any] = {"poll": {"pollInterval": "10m", "requestTimeout": "10s"}}
    if place == "folder":
        more["checkpoints"] = str(tmp_path / "checkpoints")
    config = configured(tmp_path, store.address, brokers.servers(), **more)
    shown = set()
    for epoch in (5, 6):
        if epoch > 5:
            changed(brokers, epoch)
        with Command(config, "run", "--once") as command:
            while command.exit_status is None:
                shown.add(command.shown())
                time.sleep(0.2)
            assert command.exit_status == 0, command.log()[-3000:]
            assert SECRET not in command.log()
    assert not [each for each in shown if SECRET in each]
    assert asked(config, LEADERS) == [{"epoch": 6}]
    assert asked(config, "SELECT count(*) AS n FROM gold.leader_changes") == [{"n": 1}]
    for words in [("maintain",), ("validate",)] if place == "bucket" else []:
        status, log = done(config, words)
        assert status == 0, log[-3000:]
    check_polls(config)
    left = client(store.address)
    names = [
        each["Key"]
        for page in left.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        for each in page["Contents"]
    ]
    left.close()
    assert len([name for name in names if "/_driver/" in name]) <= 2
    assert any("/checkpoints/" in name for name in names) == (place == "bucket")


def test_one_driver_at_a_time_writes_and_no_commit_is_lost(
    store: FailingStore, tmp_path: Path
) -> None:
    """A second one is refused; if the first one is killed, a third one takes over."""
    times, module = 3, "tests.support.store_writer"
    configs = [
        configured(tmp_path / name, store.address, "127.0.0.1:1") for name in ("a", "b", "c")
    ]
    with Command(configs[0], "one", f"{times}", module=module) as one:
        one.until(lambda: "done" in one.log(), "rounds", ON_A_BUSY_MACHINE)
        with Command(configs[1], "two", f"{times}", module=module) as two:
            assert two.wait(ON_A_BUSY_MACHINE) == 1
            assert f"process {one.pid}): one at a time may" in two.log(), two.log()[-3000:]
        one.check_running()
        one.end(signal.SIGKILL)
    with Command(configs[2], "three", f"{times}", module=module) as three:
        three.until(lambda: "done" in three.log(), "rounds", ON_A_BUSY_MACHINE)
        made = [int(word) for each in (one, three) for word in each.log().split() if word.isdigit()]
    rows = asked(configs[0], "SELECT round, step, writer FROM internal.rounds ORDER BY round")
    assert [row["round"] for row in rows] == [*range(1, 2 * times + 3)]
    assert made == [row["round"] for row in rows if row["step"] == "planned"]
    assert sorted(Counter(row["writer"] for row in rows).values()) == [times + 1] * 2


def test_a_driver_follows_one_that_ends_and_no_poll_is_lost(
    store: FailingStore, brokers: ByteCluster, tmp_path: Path
) -> None:
    """As with a pod's rollover: each has its own spool, and both have the checkpoints."""
    first, second = (
        configured(tmp_path / name, store.address, brokers.servers()) for name in ("a", "b")
    )
    with Command(first, "run") as old:
        old.until(lambda: _leads(first, 5), "polls", ON_A_BUSY_MACHINE)
        assert old.end(signal.SIGTERM) == 143
    with Command(second, "run") as new:
        changed(brokers, 7)
        new.until(lambda: _leads(second, 7), "the change", ON_A_BUSY_MACHINE)
        assert new.end(signal.SIGTERM) == 143
    check_polls(second, "handed_over")


def test_requests_that_fail_and_an_outage_lose_nothing(
    store: FailingStore, brokers: ByteCluster, tmp_path: Path
) -> None:
    config = configured(tmp_path, store.address, brokers.servers())
    store.share, store.lost = 0.1, 0.01
    with Command(config, "run") as command:
        command.until(lambda: _leads(config, 5), "polls", ON_A_BUSY_MACHINE)
        changed(brokers, 7)
        command.until(lambda: _leads(config, 7), "a change", ON_A_BUSY_MACHINE)
        store.share, store.lost, store.code = 1.0, 0.0, "InternalError"
        store.status = 500
        changed(brokers, 8)
        failed = store.failed
        eventually(lambda: store.failed > failed + 20, "requests that fail", within=120)
        store.end()
        time.sleep(60)
        store.share = 0.0
        store.begin()
        changed(brokers, 9)
        command.until(lambda: _leads(config, 9), "a change after it", ON_A_BUSY_MACHINE)
        assert command.end(signal.SIGTERM) == 143
    rows = asked(
        config, "SELECT leader_epoch AS epoch FROM gold.leader_changes WHERE topic = 'orders'"
    )
    assert sorted(row["epoch"] for row in rows) == [7, 8, 9]
    check_polls(config)


def test_credentials_that_expire_are_one_line(
    store: FailingStore, brokers: ByteCluster, tmp_path: Path
) -> None:
    config = configured(tmp_path, store.address, brokers.servers())
    with Command(config, "run") as command:
        command.until(lambda: _leads(config, 5), "polls", ON_A_BUSY_MACHINE)
        store.share, store.status, store.code = 1.0, 400, "ExpiredToken"
        said = "a session token has expired"
        command.until(lambda: said in command.log(), "the line", ON_A_BUSY_MACHINE)
        store.share = 0.0
        changed(brokers, 7)
        command.until(lambda: _leads(config, 7), "a change", ON_A_BUSY_MACHINE)
        assert command.end(signal.SIGTERM) == 143
    assert "\tat " not in command.log()
    check_polls(config)


def test_what_cannot_be_written_is_one_line(
    store: FailingStore, brokers: ByteCluster, tmp_path: Path
) -> None:
    """A bucket that is not there; checkpoints of a lake in a folder."""
    nowhere = configured(tmp_path, store.address, brokers.servers(), lake="s3a://nowhere/kmh")
    status, log = done(nowhere, ["run", "--once"])
    assert status == 1
    assert log.splitlines()[-1].endswith("the bucket is not there"), log[-3000:]
    checkpoints = {"checkpoints": str(tmp_path / "checkpoints")}
    folder = configured(
        tmp_path, "", brokers.servers(), lake=str(tmp_path / "lake"), storage={}, **checkpoints
    )
    status, log = done(folder, ["run", "--once"])
    assert status == 0, log[-3000:]
    both = configured(tmp_path, store.address, brokers.servers(), **checkpoints)
    status, log = done(both, ["run", "--once"])
    assert status == 1
    assert "is another lake's" in log.splitlines()[-1]


def _leads(config: Path, epoch: int) -> bool:
    """Whether the lake, which may not be whole yet, has that epoch."""
    try:
        return asked(config, LEADERS) == [{"epoch": epoch}]
    except ValueError:
        return False
