"""Producers of transactions. Each is a process, which reads what to do and writes what it did."""

import itertools
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from kafka_metadata_history.jars.java import java_command
from local_cluster.cluster import KAFKA_VERSION
from local_cluster.jars import kafka_jars
from local_cluster.process import NodeProcess
from truth.dump import TruthError
from truth.transactions.producer import SECONDS
from truth.transactions.written import Act, Place

JAVA: Final = "java"
LIBRDKAFKA: Final = "librdkafka"
CLIENTS: Final = (LIBRDKAFKA, JAVA)

_ANSWERED_SECONDS: Final = 2 * SECONDS + 60
_LOOK_SECONDS: Final = 0.02


class Producer:
    """One process, one producer. It begins (InitProducerId) as it starts."""

    def __init__(self, transactional_id: str, process: NodeProcess, files: Path) -> None:
        self.transactional_id = transactional_id
        self._process = process
        self._files = files
        self._asked: list[tuple[Place, ...]] = [()]

    @property
    def acts(self) -> list[Act]:
        """All that it wrote down so far, in order."""
        lines = [
            json.loads(line) for line in _events(self._files).read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]  # fmt: skip
        pairs = itertools.zip_longest(lines[::2], lines[1::2], fillvalue={})
        return [
            Act(
                self.transactional_id,
                before["action"],
                datetime.fromisoformat(before["asked_at"]),
                datetime.fromisoformat(after["answered_at"]) if after else None,
                after.get("error"),
                places,
            )
            for (before, after), places in zip(pairs, self._asked, strict=False)
        ]

    def ask(self, action: str, places: Sequence[Place] = ()) -> None:
        """Ask it to begin, commit or abort, once it has done all before."""
        self._asked.append(tuple(places))
        with (self._files / "commands").open("a") as commands:
            commands.write(json.dumps({"action": action, "places": places}) + "\n")

    def answer(self) -> Act:
        """The last act that it was asked for, once it is answered. Raises TruthError if it is not,
        or the process ended.
        """
        deadline = time.monotonic() + _ANSWERED_SECONDS
        while True:
            acts = self.acts
            if len(acts) == len(self._asked) and acts[-1].answered_at is not None:
                return acts[-1]
            if time.monotonic() > deadline or not self._process.is_running:
                log = (self._files / "log").read_text(errors="replace")[-1000:]
                raise TruthError(f"a producer of {self.transactional_id} does not answer: {log}")
            time.sleep(_LOOK_SECONDS)

    def crash(self) -> None:
        """End it, and the JVM that it may have, with SIGKILL."""
        started = self._process.java.children() if self._process.is_running else []
        for each in [*started, self._process.java]:
            NodeProcess(each).send(signal.SIGKILL)
        self._process.wait(SECONDS)


class Producers:
    """Starts producers; a context manager, after which none of them runs."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._folder = Path()
        self._numbers = itertools.count(1)
        self._started: list[Producer] = []

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="producers-"))
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._started:
            each.crash()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def acts(self) -> list[Act]:
        """All that producers wrote down, in order."""
        every = [act for producer in self._started for act in producer.acts]
        return sorted(every, key=lambda act: act.asked_at)

    def start(self, transactional_id: str, client: str, timeout_ms: int) -> Producer:
        """Start a producer of this id by a client."""
        files = self._folder / str(next(self._numbers))
        files.mkdir()
        for file in (_events(files), files / "commands"):
            file.touch()
        settings: dict[str, Any] = {
            "servers": self._servers,
            "transactional_id": transactional_id,
            "timeout_ms": timeout_ms,
        }
        if client == JAVA:
            jars = ":".join(map(str, kafka_jars(KAFKA_VERSION)))
            settings |= {"class_path": jars, "java": java_command()}
        command = [
            *(sys.executable, "-m", "truth.transactions.producer"),
            *(json.dumps(settings), str(_events(files)), str(files / "commands")),
        ]
        process = NodeProcess.supervised(command, files / "log", remove=self._folder)
        producer = Producer(transactional_id, process, files)
        self._started.append(producer)
        return producer


def _events(files: Path) -> Path:
    return files / "events"
