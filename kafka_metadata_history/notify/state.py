"""Notes of what was sent to whom, in a folder of this machine, and the lock of the one sender."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Final

from kafka_metadata_history.notify.alert import Alert
from kafka_metadata_history.notify.due import Sent
from metadata_source.errors import KafkaMetadataHistoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_KEPT: Final = timedelta(days=1)
"""An alert that is over is remembered for so long: events of it may be read again."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS target (name TEXT PRIMARY KEY, since TEXT NOT NULL, done TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sent (
  target TEXT, key TEXT, alert TEXT NOT NULL, opens INTEGER NOT NULL, is_open INTEGER NOT NULL,
  is_sure INTEGER NOT NULL, at TEXT NOT NULL, ending TEXT NOT NULL, PRIMARY KEY (target, key));
CREATE TABLE IF NOT EXISTS trouble (name TEXT PRIMARY KEY, since TEXT NOT NULL);
"""


class StateError(KafkaMetadataHistoryError, RuntimeError):
    """Notes that cannot be kept. One line: the folder, what is wrong and what to do."""


@contextmanager
def only_sender(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there. Raises StateError with who holds
    it, if somebody does.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = (folder / "lock").open("a+", encoding="utf-8")
    except OSError as error:
        raise StateError(
            f"{folder}: {error.strerror}: `notify` keeps there what it has sent; let this user "
            "write it"
        ) from error
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go when the process ends
        except BlockingIOError:
            raise StateError(
                f"{folder}: {_holder(held)} sends messages already; there is one sender of a lake"
            ) from None
        held.truncate(0)
        held.write(f"process {os.getpid()} on {os.uname().nodename}")
        held.flush()
        yield


def _holder(held: IO[str]) -> str:
    held.seek(0)
    return held.read() or "another process"


class State:
    """Notes of what was sent, by target, in a file. Called by several threads."""

    def __init__(self, folder: Path) -> None:
        """Raise StateError for a file that cannot be used; so do all others."""
        self._file = folder / "sent.sqlite"
        self._one_by_one = Lock()
        with self._saying():
            self._database = sqlite3.connect(self._file, check_same_thread=False)
            try:
                self._file.chmod(0o600)
                self._database.executescript(_TABLES)
            except sqlite3.Error:
                self._database.close()
                raise

    def close(self) -> None:
        """Close the file."""
        with self._one_by_one:
            self._database.close()

    def since(self, target: str, now: datetime) -> datetime:
        """Return when a target was first to get messages: now, if it is new."""
        self._write(
            "INSERT OR IGNORE INTO target VALUES (?, ?, ?)",
            (target, now.isoformat(), now.isoformat()),
        )
        ((since,),) = self._read("SELECT since FROM target WHERE name = ?", target)
        return datetime.fromisoformat(since)

    def done(self, targets: Sequence[str]) -> datetime | None:
        """Return up to when all of these targets have all that they are to get; None without."""
        known = dict(self._read("SELECT name, done FROM target"))
        return min(
            (datetime.fromisoformat(known[each]) for each in targets if each in known), default=None
        )

    def advance(self, target: str, done: datetime) -> None:
        """Note that a target has all up to then, and forget what was over long before."""
        self._write("UPDATE target SET done = ? WHERE name = ?", (done.isoformat(), target))
        self._write(
            "DELETE FROM sent WHERE target = ? AND NOT is_open AND at < ?",
            (target, (done - _KEPT).isoformat()),
        )

    def sent(self, target: str) -> dict[str, Sent]:
        """Return what a target was sent last of each alert, by their keys."""
        rows = self._read(
            "SELECT key, alert, opens, is_open, is_sure, at, ending FROM sent WHERE target = ?",
            target,
        )
        return {
            key: Sent(
                *(_alert(text), opens, bool(is_open), datetime.fromisoformat(at), bool(is_sure)),
                ending,
            )
            for key, text, opens, is_open, is_sure, at, ending in rows
        }

    def record(self, target: str, sent: Mapping[str, Sent]) -> None:
        """Note what a target was sent."""
        rows = (
            (
                *(target, key, _text(of.alert), of.opens, of.is_open, of.is_sure),
                *(of.at.isoformat(), of.ending),
            )
            for key, of in sent.items()
        )
        self._write("INSERT OR REPLACE INTO sent VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *rows)

    def trouble(self, name: str, now: datetime, *, lasts: bool) -> datetime:
        """Return since when some trouble lasts, from call to call, or now if it does not."""
        if not lasts:
            if self._read("SELECT since FROM trouble WHERE name = ?", name):
                self._write("DELETE FROM trouble WHERE name = ?", (name,))
            return now
        found = self._read("SELECT since FROM trouble WHERE name = ?", name)
        if found:
            return datetime.fromisoformat(found[0][0])
        self._write("INSERT INTO trouble VALUES (?, ?)", (name, now.isoformat()))
        return now

    def _read(self, sql: str, *values: str) -> list[Any]:
        with self._saying(), closing(self._database.execute(sql, values)) as found:
            return found.fetchall()

    def _write(self, sql: str, *rows: tuple[object, ...]) -> None:
        with self._saying(), self._database as database:
            database.executemany(sql, rows)

    @contextmanager
    def _saying(self) -> Iterator[None]:
        with self._one_by_one:
            try:
                yield
            except (sqlite3.Error, OSError) as error:
                raise StateError(
                    f"{self._file}: {error}: make room, or remove the file; then all that lasts is "
                    "sent again"
                ) from error


def _text(of: Alert) -> str:
    return json.dumps(asdict(of), default=datetime.isoformat)


def _alert(text: str) -> Alert:
    of = json.loads(text)
    ended = of["ended"]
    return Alert(
        **{
            **of,
            "began": datetime.fromisoformat(of["began"]),
            "ended": None if ended is None else datetime.fromisoformat(ended),
            "brokers": tuple(of["brokers"]),
        }
    )
