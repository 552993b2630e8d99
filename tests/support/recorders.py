"""Recorders of tests, which end with them, and what they have put into their spools."""

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow as pa

from metadata_source.recorder.folder import began_s, last_owner, owner_of
from metadata_source.recorder.spool import Entry, Spooled
from metadata_source.recorder.start import start

GAPS = {"lost", "spool_full", "handed_over", "clock"}
"""The kinds of rows that stand for polls which nobody has."""
_ENDS_WITHIN_S = 15.0
_NUMBERED = {"lost", "handed_over", "clock"}
"""Those of polls that have numbers: as many as they say."""


@contextmanager
def recording(
    folder: Path,
    options: Mapping[str, str],
    token: str = "test",  # noqa: S107 - no password
    *,
    driver: psutil.Process | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A recorder of this process, or of another driver, for a while."""
    driver = driver or psutil.Process()
    process = start(options, folder, token, (driver.pid, began_s(driver.pid)))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def recorder_of(folder: Path) -> psutil.Process | None:
    """The process that records into a folder; None where none does."""
    owner = owner_of(folder) if (folder / "lock").exists() else None
    return None if owner is None else psutil.Process(owner.pid)


def end_recorder(folder: Path) -> None:
    """End whatever recorder has a folder."""
    owner = last_owner(folder)
    if owner is None or not owner.is_alive():
        return
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(owner.pid)
        process.terminate()
        with suppress(psutil.TimeoutExpired):
            process.wait(_ENDS_WITHIN_S)
        process.kill()


class Recorded(NamedTuple):
    """An entry of a spool, and its rows."""

    entry: Entry
    rows: list[dict[str, Any]]

    @property
    def header(self) -> dict[str, Any]:
        """That of the poll."""
        (found,) = [row for row in self.rows if row["record"] == "poll"]
        return found

    @property
    def outcomes(self) -> dict[str, str]:
        """Of the answers that were written with the poll, by kind."""
        return {row["kind"]: row["outcome"] for row in self.rows if row["record"] == "answer"}


def recorded(folder: Path) -> list[Recorded]:
    """All entries of a spool, in their order."""
    spooled = Spooled(folder)
    return [
        Recorded(entry, pa.ipc.open_stream(data).read_all().to_pylist())
        for entry in spooled.after(0)
        for data in spooled.bytes_of([entry])
    ]


def check_numbers(headers: Iterable[Mapping[str, Any]]) -> None:
    """Each poll once: in each cluster numbers follow one another, but for those that a row says
    nobody has, and no two polls were due at one time.
    """
    of_cluster: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for header in headers:
        of_cluster.setdefault((header["stream"], header["cluster"]), []).append(header)
    for own in of_cluster.values():
        own.sort(key=lambda header: header["n"])
        before = -1
        for header in own:
            missing = (
                re.match(r"\d+", header["error"] or "")
                if header["error_kind"] in _NUMBERED
                else None
            )
            assert header["n"] == before + (int(missing[0]) if missing else 1), (before, header)
            before = header["n"]
        due = [header["scheduled_at"] for header in own if header["error_kind"] not in GAPS]
        assert len(set(due)) == len(due)
        assert due == sorted(due)
