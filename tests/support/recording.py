"""The recorder's process, with a line of JSON for each entry in the place of its spool:
`kept.jsonl` in its folder.

``python -m tests.support.recording``: as ``python -m metadata_source.recorder``.
"""

import json
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pyarrow as pa

from metadata_source.errors import KafkaMetadataHistoryError
from metadata_source.recorder.folder import began_s
from metadata_source.recorder.news import News
from tests.support.waiting import eventually

KEPT = "kept.jsonl"


@dataclass(frozen=True)
class Owner:
    """The recorder that writes."""

    token: str

    @classmethod
    def here(cls, token: str) -> Self:
        return cls(token)


class SpoolError(KafkaMetadataHistoryError, RuntimeError):
    """A folder that cannot be used."""


class Spool:
    """Writes a line for each entry."""

    def __init__(self, folder: Path, owner: Owner) -> None:
        self._lock = threading.Lock()
        try:
            self._file = (folder / KEPT).open("a")
        except OSError as error:
            raise SpoolError(f"{folder}: {error.strerror}") from None
        self._write({"token": owner.token})

    @classmethod
    def open(cls, folder: Path, owner: Owner) -> Self:
        return cls(folder, owner)

    def append(
        self,
        cluster: str,
        at_ms: int,
        batches: Sequence[pa.RecordBatch],
        news: News,
        *,
        is_key_frame: bool,
        ok: bool,
    ) -> bool:
        kinds = [kind for batch in batches for kind in batch["kind"].to_pylist() if kind]
        errors = [kind for batch in batches for kind in batch["error_kind"].to_pylist() if kind]
        said = {
            "cluster": cluster,
            "at_ms": at_ms,
            "news": news.name,
            "is_key_frame": is_key_frame,
            "ok": ok,
        }
        self._write(said | {"kinds": kinds, "errors": errors})
        return True

    is_removed = False

    def close(self) -> None:
        self._write({"closed": True})
        self._file.close()

    def _write(self, said: dict[str, Any]) -> None:
        with self._lock:
            print(json.dumps(said), file=self._file, flush=True)


@dataclass
class Recording:
    """A recorder that runs."""

    process: subprocess.Popen[str]
    folder: Path

    @property
    def kept(self) -> list[dict[str, Any]]:
        """What it has written."""
        file = self.folder / KEPT
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def entries(self) -> list[dict[str, Any]]:
        return [each for each in self.kept if "cluster" in each]

    def until(self, check: Any, seconds: float = 60.0) -> None:
        def is_so() -> bool:
            assert self.process.poll() is None, self.said()
            return bool(check())

        eventually(is_so, lambda: f"it; it kept {self.kept}", within=seconds)

    def said(self) -> str:
        """All that it wrote to standard error; it has ended."""
        self.process.wait(60)
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def recording(folder: Path, order: object, **more: Any) -> Iterator[Recording]:
    """A recorder that is given an order, as long as this is open. `more`: of Popen."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.recording"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(order if isinstance(order, str) else json.dumps(order))
        process.stdin.close()
        yield Recording(process, folder)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def order(
    folder: Path, options: dict[str, str], driver: int, *, once: bool = False
) -> dict[str, Any]:
    """The order to record for a process."""
    began = began_s(driver)
    return {
        "options": options,
        "spool": str(folder),
        "token": "ours",
        "driver": [driver, began],
        "once": once,
    }


if __name__ == "__main__":
    module = ModuleType("metadata_source.recorder.spool")
    module.Owner, module.Spool, module.SpoolError = Owner, Spool, SpoolError  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    runpy.run_module("metadata_source.recorder", run_name="__main__", alter_sys=True)
