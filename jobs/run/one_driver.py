"""One driver at a time writes a lake on S3.

Delta's log store for S3 keeps commits apart by a lock of one JVM: two drivers would replace each
other's commits. So a driver takes a number below the lake, by an object that must be new (S3A puts
it with `If-None-Match: *`), and renews an object beside it. Another one waits until that is gone,
or was not renewed for so long that its driver must be dead, and takes the next number.
"""

import atexit
import logging
import os
import socket
import time
from contextlib import suppress
from threading import Event, Thread
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from jobs.run.driver import Folder
from schemas.lake import Lake, LakeError

log = logging.getLogger("kafka_metadata_history.lake")

BEAT_S: Final = 15.0
"""How often a driver says that it is there."""
DEAD_AFTER_S: Final = 60.0
"""If it has not said so for so long, another one may take over."""
WAIT_S: Final = 90.0
"""So long a driver that begins waits for the one before it to end."""
LOOK_EVERY_S: Final = 5.0
SINGLE_DRIVER: Final = "io.delta.storage.S3SingleDriverLogStore"
"""Delta's log store for S3 unless another one is named. Its lock is of one driver."""
_BEAT: Final = ".beat"


_HELD: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def hold(spark: SparkSession, lake: Lake) -> None:
    """Make this driver the one that writes a lake on S3, until it ends; once a session.

    Raises LakeError while another one does, or where the store knows no conditional puts. Whoever
    names a log store of Delta of another kind has decided. Of a session of Spark Connect nothing
    is known.
    """
    if lake.root is None or lake.log_store is None:
        return
    root = lake.root.rstrip("/")
    held = _HELD.setdefault(spark, set())
    if root in held or spark.conf.get(lake.log_store, SINGLE_DRIVER) != SINGLE_DRIVER:
        return
    if (files := Folder.of(spark, f"{root}/_driver")) is None:
        return
    number = _taken(files, root)
    held.add(root)
    stop = Event()

    def release() -> None:
        stop.set()
        with suppress(Exception):  # The JVM may have ended before: then another driver waits.
            files.delete(f"{number}{_BEAT}")

    atexit.register(release)
    Thread(target=_renew, args=(files, root, number, stop), name="driver", daemon=True).start()


def _taken(files: Folder, root: str) -> str:
    """Take the next number, once no driver of an earlier one is there; return it."""
    me = f"{socket.gethostname()}, process {os.getpid()}"
    until = time.monotonic() + WAIT_S
    seen: tuple[object, ...] = ()
    since = time.monotonic()
    while True:
        names = files.names()
        last = max((name for name in names if not name.endswith(_BEAT)), default="")
        beat = (last, files.changed_at(f"{last}{_BEAT}") if last else None)
        if beat != seen:
            seen, since = beat, time.monotonic()
        if beat[1] is None or time.monotonic() - since >= DEAD_AFTER_S:
            number = f"{int(last or 0) + 1:08d}"
            if files.put_new(number, me):
                break
        elif time.monotonic() >= until:
            raise LakeError(
                f"{root}: another driver writes it ({files.text(last)}): one at a time may, end "
                "that one first (docs/object-stores.md, Several drivers)"
            )
        time.sleep(LOOK_EVERY_S)
    files.write(f"{number}{_BEAT}", me, replacing=True)
    if files.put_new(number, me):
        raise LakeError(
            f"{root}: the store knows no conditional puts, so nobody could tell two drivers apart: "
            "docs/object-stores.md, Several drivers"
        )
    for name in names:
        files.delete(name)
    return number


def _renew(files: Folder, root: str, number: str, stop: Event) -> None:
    """Say again and again that this driver is there; end the process if another one took over."""
    while not stop.wait(BEAT_S):
        try:
            files.write(f"{number}{_BEAT}", number, replacing=True)
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
