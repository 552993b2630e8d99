"""One driver at a time writes a lake on S3.

Delta's log store for S3 keeps commits apart by a lock of one JVM: two drivers would replace each
other's commits. So a driver takes a number below the lake, by an object that must be new (S3A puts
it with `If-None-Match: *`), and renews an object beside it. Another one waits until that is gone,
or was not renewed for so long that its driver must be dead, and takes the next number.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import time
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from schemas.lake import LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("kafka_metadata_history.lake")

BEAT_S: Final = 15.0
"""How often a driver says that it is there."""
DEAD_AFTER_S: Final = 60.0
"""If it has not said so for so long, another one may take over."""
WAIT_S: Final = 90.0
"""So long a driver that begins waits for the one before it to end."""
LOOK_EVERY_S: Final = 5.0
_CONDITION: Final = "fs.option.create.conditional.overwrite"
_THERE: Final = ("RemoteFileChangedException", "FileAlreadyExistsException")
_BEAT: Final = ".beat"


class _Files:
    """The objects of a lake's drivers, by Spark's own way to files."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        session = cast("Any", spark)
        self._new = session._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001
        self._folder = f"{root.rstrip('/')}/_driver"
        hadoop = session._jsc.hadoopConfiguration()  # noqa: SLF001
        self._files = self._new(self._folder).getFileSystem(hadoop)

    def names(self) -> dict[str, int]:
        """The objects, and when the store says that each was put, in ms."""
        place = self._new(self._folder)
        found = self._files.listStatus(place) if self._files.exists(place) else []
        return {each.getPath().getName(): each.getModificationTime() for each in found}

    def put_new(self, name: str, text: str) -> bool:
        """Put an object that must be new; return whether it was."""
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - Spark Connect has none

        begun = self._files.createFile(self._path(name)).must(_CONDITION, True).build()
        try:
            begun.write(text.encode())
            begun.close()
        except Py4JJavaError as error:
            if any(each in str(error.java_exception.toString()) for each in _THERE):
                return False
            raise
        return True

    def put(self, name: str, text: str) -> None:
        """Put an object, in the place of another one."""
        begun = self._files.create(self._path(name), True)
        begun.write(text.encode())
        begun.close()

    def text(self, name: str) -> str:
        """The text of an object."""
        opened = self._files.open(self._path(name))
        try:
            return bytes(opened.readAllBytes()).decode()
        finally:
            opened.close()

    def delete(self, name: str) -> None:
        self._files.delete(self._path(name), False)

    def _path(self, name: str) -> Any:
        return self._new(f"{self._folder}/{name}")


_HELD: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def hold(spark: SparkSession, root: str) -> None:
    """Make this driver the one that writes a lake on S3, until it ends; once a session. Raises
    LakeError while another one does, or where the store knows no conditional puts. Of a session of
    Spark Connect nothing is known.
    """
    held = _HELD.setdefault(spark, set())
    if root in held or not hasattr(spark, "_jvm"):
        return
    files = _Files(spark, root)
    number = _taken(files, root)
    held.add(root)
    stop = Event()

    def release() -> None:
        stop.set()
        with suppress(Exception):  # The JVM may have ended before: then another driver waits.
            files.delete(f"{number}{_BEAT}")

    atexit.register(release)
    Thread(target=_renew, args=(files, root, number, stop), name="driver", daemon=True).start()


def _taken(files: _Files, root: str) -> str:
    """Take the next number, once no driver of an earlier one is there; return it."""
    me = f"{socket.gethostname()}, process {os.getpid()}"
    until = time.monotonic() + WAIT_S
    seen: tuple[str, int] | None = None
    since = time.monotonic()
    while True:
        names = files.names()
        last = max((name for name in names if not name.endswith(_BEAT)), default="")
        beat = (last, names.get(f"{last}{_BEAT}", 0))
        if beat != seen:
            seen, since = beat, time.monotonic()
        if not beat[1] or time.monotonic() - since >= DEAD_AFTER_S:
            number = f"{int(last or 0) + 1:08d}"
            if files.put_new(number, me):
                break
        elif time.monotonic() >= until:
            raise LakeError(
                f"{root}: another driver writes it ({files.text(last)}): one at a time may, end "
                "that one first (docs/object-stores.md, Several drivers)"
            )
        time.sleep(LOOK_EVERY_S)
    files.put(f"{number}{_BEAT}", me)
    if files.put_new(number, me):
        raise LakeError(
            f"{root}: the store knows no conditional puts, so nobody could tell two drivers apart: "
            "docs/object-stores.md, Several drivers"
        )
    for name in names:
        files.delete(name)
    return number


def _renew(files: _Files, root: str, number: str, stop: Event) -> None:
    """Say again and again that this driver is there; end the process if another one took over."""
    while not stop.wait(BEAT_S):
        try:
            files.put(f"{number}{_BEAT}", number)
            names = files.names()
        except Exception as error:  # noqa: BLE001 - the store is away, and others cannot take over
            log.debug("the driver's place could not be renewed: %s", error)
            continue
        if stop.is_set():
            return
        if any(name.removesuffix(_BEAT) > number for name in names):
            log.critical(
                "another driver has taken over %s, as this one had not renewed its place for "
                "%.0f s: this one ends (docs/object-stores.md, Several drivers)",
                *(root, DEAD_AFTER_S),
            )
            logging.shutdown()
            os._exit(1)  # Before anything more is committed.
