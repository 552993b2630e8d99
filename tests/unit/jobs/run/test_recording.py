"""The recorder that a job starts before Spark, and ends."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jobs.configuration.config import Config
from jobs.run import cli, metadata_stream, recording
from jobs.upkeep.lake_clock import LastPolls
from metadata_source.errors import KafkaMetadataHistoryError, OptionsError
from metadata_source.recorder import folder, start
from metadata_source.recorder.folder import SpoolError, began_s
from schemas.lake import Lake

LAST = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
    "time.sleep(60)"
)


class Starter(ModuleType):
    """In place of metadata_source.recorder.start: starts a process that only lasts."""

    def __init__(self) -> None:
        super().__init__("metadata_source.recorder.start")
        self.end = start.end
        self.given: list[dict[str, Any]] = []
        self.program = "import time; time.sleep(60)"
        self.started: subprocess.Popen[bytes] | None = None

    def start(
        self,
        options: Mapping[str, str],
        spool: Path,
        token: str,
        driver: tuple[int, float],
        *,
        once: bool = False,
    ) -> subprocess.Popen[bytes]:
        self.given.append(
            {"options": options, "spool": spool, "token": token, "driver": driver, "once": once}
        )
        self.started = subprocess.Popen(
            [sys.executable, "-c", self.program], stdout=subprocess.PIPE
        )
        return self.started


@pytest.fixture
def starter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Starter]:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    found = Starter()
    monkeypatch.setitem(sys.modules, found.__name__, found)
    yield found
    if found.started is not None and found.started.stdout is not None:
        found.started.stdout.close()


@pytest.fixture
def config() -> Config:
    clusters = {"orders": {"kafka.bootstrap.servers": "b:9092"}}
    return Config(Lake(root="/lake"), "/lake/checkpoints", clusters, {"pollInterval": "5s"})


def test_a_recorder_lasts_as_long_as_the_job(starter: Starter, config: Config) -> None:
    with recording.recording(config):
        assert starter.started is not None
        assert starter.started.poll() is None
    assert starter.started.poll() is not None
    assert starter.given == [
        {
            "options": config.source_options({}),
            "spool": Path("/lake/checkpoints/spool"),
            "token": recording.TOKEN,
            "driver": (os.getpid(), began_s(os.getpid())),
            "once": False,
        }
    ]


def test_a_recorder_is_attended_to_while_no_query_reads(
    starter: Starter, config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(folder, "ATTENDED_EVERY_S", 0.02)
    attended = tmp_path / "spool" / "attended"
    attended.parent.mkdir()
    with recording.recording(replace(config, spool=str(attended.parent))):
        for _ in range(2):
            attended.unlink(missing_ok=True)
            end = time.monotonic() + 5
            while not attended.exists():
                assert time.monotonic() < end
                time.sleep(0.01)
    assert starter.started is not None


def test_a_recorder_ends_with_a_job_that_fails(
    starter: Starter, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that does not heed what it is asked."""
    starter.program = LAST
    monkeypatch.setattr(start, "_ENDS_WITHIN_S", 0.1)

    def job() -> None:
        with recording.recording(config):
            assert starter.started is not None
            assert starter.started.stdout is not None
            starter.started.stdout.readline()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job()
    assert starter.started is not None
    assert starter.started.poll() is not None


def test_nothing_is_started_beside_a_server_of_spark_connect(
    starter: Starter, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader runs on the server's machine, and its spool lies there."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://elsewhere")
    with recording.recording(config):
        assert starter.given == []


def test_a_spool_that_two_pipelines_name_is_refused_to_the_second(
    starter: Starter, config: Config, tmp_path: Path
) -> None:
    """The polls of one would be history of the other's lake."""
    shared = replace(config, spool=str(tmp_path / "spool"))
    with recording.recording(shared):
        recording.claim_spool(shared)
    other = replace(shared, checkpoints="/other/checkpoints")
    problem = (
        f"{shared.spool}: another pipeline's polls are in this spool (its checkpoints: "
        "/lake/checkpoints): name"
    )
    with pytest.raises(SpoolError, match=re.escape(problem)), recording.recording(other):
        pass
    with pytest.raises(SpoolError, match=re.escape(problem)):
        metadata_stream.start(None, other, once=True)  # type: ignore[arg-type]
    assert len(starter.given) == 1
    (tmp_path / "spool" / "pipeline.json").unlink()
    recording.claim_spool(other)


def test_a_key_that_this_machine_does_not_have_is_one_line_at_once(
    starter: Starter, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each recorder that is started ends of it, and the job runs on without polls."""
    monkeypatch.delenv("HASH_KEY", raising=False)
    keyed = replace(config, poll=config.poll | {"clientHashKey": "env:HASH_KEY"})
    with pytest.raises(OptionsError, match="clientHashKey"), recording.recording(keyed):
        pass
    assert starter.given == []


@pytest.mark.parametrize("once", [True, False])
def test_polling_begins_before_spark(
    starter: Starter, config: Config, monkeypatch: pytest.MonkeyPatch, *, once: bool
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(cli, "load", lambda _: config)
    monkeypatch.setattr(cli, "writing_session", lambda *_, **__: seen.append(len(starter.given)))
    monkeypatch.setattr(cli, "end_with_process", lambda _: None)
    arguments = ["--config", "x", *(["--once"] if once else [])]
    assert cli.run_job("job", "", lambda *_: None, arguments, beside=recording.recording) == 0
    assert seen == [0 if once else 1], "with --once the query's reader starts it"


def test_a_spool_that_cannot_be_written_is_one_line(
    starter: Starter,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class SpoolError(KafkaMetadataHistoryError, RuntimeError):
        pass

    def start(*_: object, **__: object) -> None:
        raise SpoolError("the spool /lake/checkpoints/spool cannot be written: Permission denied")

    monkeypatch.setattr(starter, "start", start, raising=False)
    monkeypatch.setattr(cli, "load", lambda _: config)
    monkeypatch.setattr(
        cli,
        "writing_session",
        lambda *_, **__: pytest.fail("Spark takes ten seconds to say the same"),
    )
    assert (
        cli.run_job("job", "", lambda *_: None, ["--config", "x"], beside=recording.recording) == 1
    )
    assert (
        capsys.readouterr().err
        == "job: the spool /lake/checkpoints/spool cannot be written: Permission denied\n"
    )


def test_the_reader_gets_the_options_of_the_recorder_and_beside_them_what_only_the_lake_tells(
    starter: Starter, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that is configured counts more than the one that the lake knows."""
    clusters = {"orders": {"clusterid": "own"}, "billing": {}, "new": {}}
    config = replace(
        config, clusters={alias: config.clusters["orders"] | own for alias, own in clusters.items()}
    )
    given: dict[str, str] = {}

    def append_stream(
        *_: object, options: Callable[[Mapping[str, str]], Mapping[str, str]], **__: object
    ) -> None:
        given.update(options({"orders": "known", "billing": "B", "gone": "G"}))

    monkeypatch.setattr(metadata_stream, "append_stream", append_stream)
    monkeypatch.setattr(metadata_stream, "newest_stream", lambda *_: "20261101T000000Z-00000000")
    monkeypatch.setattr(metadata_stream, "last_polls", lambda *_: LastPolls())
    metadata_stream.start(None, config, once=False)  # type: ignore[arg-type]
    with recording.recording(config):
        assert starter.given[0]["options"].items() < given.items()
    beside = {
        name: value for name, value in given.items() if name not in starter.given[0]["options"]
    }
    assert beside == {
        "spool": "/lake/checkpoints/spool",
        "recorder": recording.TOKEN,
        "knownIds": '{"billing": "B"}',
        "newestStream": "20261101T000000Z-00000000",
    }
