"""The recorder's process: it begins with its order, and ends in time whatever happens; real
processes.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest

from metadata_source.recorder import process as process_module
from metadata_source.recorder.start import REFUSED
from tests.support.byte_cluster import METADATA, ByteCluster
from tests.support.recorded_clusters import hang, two_groups
from tests.support.recording import order, recording
from tests.support.spools import opened

SERVERS = {"kafka.bootstrap.servers": "one:9092"}


@pytest.fixture
def brokers() -> Iterator[ByteCluster]:
    with two_groups() as found:
        yield found


def options(brokers: ByteCluster, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": brokers.servers(), "pollInterval": "1s"} | more


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[bytes]]:
    """A process to record for. Nobody waits for it until the test is over: once it is killed it is
    a zombie.
    """
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_it_polls_at_once_and_ends_when_it_is_asked_to(brokers, tmp_path):
    with recording(tmp_path, order(tmp_path, options(brokers), os.getpid())) as found:
        found.until(lambda: len(found.entries) >= 2)
        children = psutil.Process(found.process.pid).children(recursive=True)
        assert children == [], "nothing can stay behind"
        found.process.terminate()
        assert found.process.wait(60) == 0
        assert "ends: it was asked to" in found.said()
    assert found.kept[0] == {"token": "ours"}
    assert found.kept[-1] == {"closed": True}
    assert {kind for each in found.entries for kind in each["errors"]} <= {"overlapped"}
    assert found.entries[0]["ok"]
    assert [each["is_key_frame"] for each in found.entries][:2] == [True, False]
    assert [each["news"] for each in found.entries][:2] == ["NEWS", "FOLLOWS"]


def test_it_ends_in_time_though_a_broker_hangs(brokers, tmp_path):
    hang(brokers, METADATA)
    given = options(brokers, pollInterval="10m", requestTimeout="10m")
    with recording(tmp_path, order(tmp_path, given, os.getpid())) as found:
        found.until(lambda: brokers.polled)
        found.process.terminate()
        found.process.wait(60)
        assert "1 cluster: what still ran was given up" in found.said()
    assert found.kept[-1] == {"closed": True}


def test_it_ends_with_a_driver_that_was_killed(brokers, tmp_path, driver):
    with recording(tmp_path, order(tmp_path, options(brokers), driver.pid)) as found:
        found.until(lambda: found.entries)
        driver.kill()
        found.process.wait(60)
        assert "ends: the driver is gone" in found.said()
    assert found.kept[-1] == {"closed": True}


def test_another_process_with_the_drivers_id_is_not_the_driver(brokers, tmp_path, driver):
    given = order(tmp_path, options(brokers), driver.pid)
    given["driver"][1] -= 60
    with recording(tmp_path, given) as found:
        found.process.wait(60)
        assert "ends: the driver is gone" in found.said()


def test_it_ends_when_its_spool_was_removed(tmp_path):
    written = opened(tmp_path / "spool")
    given = process_module.Order.read(json.dumps(order(written.folder, SERVERS, os.getpid())))
    facts = process_module._File(written.folder / "facts.json")
    looks = iter([False, False, True])

    def asked(_):
        found = next(looks)
        if not found and written.folder.exists():
            assert not written.is_removed
            shutil.rmtree(written.folder)
            opened(written.folder).close()
        return found

    assert process_module._watch(None, given, facts, written, asked) == (
        "somebody has removed the spool, or made it again"
    )
    written.close()


def test_it_ends_when_nobody_has_read_its_spool_for_long(tmp_path, monkeypatch):
    """A reader touches `attended` as long as it lives."""
    written, now_s = opened(tmp_path / "spool"), [0.0]
    monkeypatch.setattr(process_module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    given = process_module.Order.read(json.dumps(order(written.folder, SERVERS, os.getpid())))
    facts = process_module._File(written.folder / "facts.json")
    attended = written.folder / "attended"
    attended.touch()

    def asked(wait_s: float) -> bool:
        now_s[0] += wait_s
        if now_s[0] <= 100:
            os.utime(attended, ns=(0, int(now_s[0] * 1e9)))
        return False

    assert process_module._watch(None, given, facts, written, asked) == (
        "no query has read the spool for 10 minutes"
    )
    assert 700 < now_s[0] < 703
    written.close()


def test_facts_are_read_when_they_are_written(brokers, tmp_path):
    facts = tmp_path / "facts.json"
    facts.write_text("not JSON")
    with recording(tmp_path, order(tmp_path, options(brokers), os.getpid())) as found:
        found.until(lambda: found.entries)
        assert found.entries[0]["ok"], "facts that cannot be read are none"
        facts.write_text(json.dumps({"cluster_ids": {"default": "another"}, "doubted_clock": None}))
        found.until(lambda: found.entries[-1]["errors"] == ["wrong_cluster"])
        facts.write_text(json.dumps({"cluster_ids": {}, "doubted_clock": [0, time.time() + 60]}))
        found.until(lambda: found.entries[-1]["errors"] == ["clock"])
        found.process.terminate()
        assert "facts.json: Expecting value" in found.said()


def test_once_polls_and_asks_and_ends(brokers, tmp_path):
    given = options(brokers, enrich="groups,offsets,configs,reassignments")
    with recording(tmp_path, order(tmp_path, given, os.getpid(), once=True)) as found:
        assert found.process.wait(30) == 0
        assert "ends: each cluster was polled once" in found.said()
    (entry,) = found.entries
    assert sorted({*entry["kinds"]}) == ["configs", "groups", "offsets", "reassignments"]
    assert found.kept[-1] == {"closed": True}


def test_once_that_is_asked_to_end_before_says_so_by_its_status(brokers, tmp_path):
    """Else its reader takes a run without polls for one that made them."""
    hang(brokers, METADATA)
    given = options(brokers, pollInterval="10m", requestTimeout="10m")
    with recording(tmp_path, order(tmp_path, given, os.getpid(), once=True)) as found:
        found.until(lambda: brokers.polled)
        found.process.terminate()
        assert found.process.wait(60) == 75


def test_a_terminal_interrupts_its_driver_alone(brokers, tmp_path):
    with recording(tmp_path, order(tmp_path, options(brokers), os.getpid())) as found:
        found.until(lambda: found.entries)
        found.process.send_signal(signal.SIGINT)
        seen = len(found.entries)
        found.until(lambda: len(found.entries) > seen + 1)


def test_it_may_open_as_many_files_as_it_is_allowed_to(brokers, tmp_path):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))

    with recording(
        tmp_path, order(tmp_path, options(brokers), os.getpid()), preexec_fn=lower
    ) as found:
        found.until(lambda: found.entries)
        assert psutil.Process(found.process.pid).rlimit(psutil.RLIMIT_NOFILE) == (hard, hard)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "",
            (
                "recorder: [KAFKA_METADATA_OPTIONS] the recorder was started with something else "
                "than its order: "
            ),
        ),
        (
            '{"options": {}}',
            "recorder: [KAFKA_METADATA_OPTIONS] the recorder was started with something else than",
        ),
        ({"options": {"topics": "!"}}, "recorder: [KAFKA_METADATA_OPTIONS] "),
        ({"spool": "/proc/nowhere"}, "recorder: /proc/nowhere: "),
    ],
)
def test_what_it_cannot_begin_with_is_one_line(brokers, tmp_path, given, said):
    if isinstance(given, dict):
        given = order(tmp_path, options(brokers), os.getpid()) | given
    with recording(tmp_path, given) as found:
        assert found.process.wait(20) == (REFUSED if "OPTIONS" in said else 1)
        lines = found.said().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith(said)


def test_its_process_has_no_spark(tmp_path):
    code = (
        "import sys, tests.support.recording as fake\nfrom types import ModuleType\n"
        "module = ModuleType('metadata_source.recorder.spool')\n"
        "module.Owner, module.Spool = fake.Owner, fake.Spool\nsys.modules[module.__name__] = "
        "module\n"
        "import metadata_source.recorder.process\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'pyspark', 'py4j', "
        "'pandas', 'delta'}))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
