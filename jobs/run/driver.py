"""The jobs' questions to Spark beyond SQL and frames. A classic session has its driver's JVM beside
this process, which can do it; a session of Spark Connect has a connection alone. Nothing else
reaches for the JVM.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Self, cast
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from metadata_source.text import printable

try:
    from py4j.protocol import Py4JError, Py4JJavaError

    JAVA_ERRORS: tuple[type[Exception], ...] = (Py4JJavaError,)
    """Errors that PySpark has no exception for, as they come out of the JVM."""
    JVM_IS_GONE: tuple[type[Exception], ...] = (Py4JError, ConnectionError)
    """Errors of a call to a JVM that has ended, those of Java's among them."""
except ImportError:  # pyspark-client, which serverless runtimes have, is without it
    JAVA_ERRORS = JVM_IS_GONE = ()

LOST = (
    "a session of Spark Connect: a cluster whose log cannot be read holds up those of the others, "
    "the server's own settings say how jobs share its slots, and how plans are compiled; Delta "
    "cleans the tables' logs in whole days"
)
"""The abilities that a job lacks if its session has no JVM. One line."""

_BESIDE: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def has_jvm(spark: SparkSession) -> bool:
    """Whether the session is a classic one."""
    return hasattr(spark, "_jvm")


def plans(spark: SparkSession, frame: DataFrame) -> list[str]:
    """Return what Spark understands a query to be, as it is written and with all names resolved,
    whole; none in a session of Spark Connect.
    """
    if not has_jvm(spark):
        return []
    execution = cast("Any", frame)._jdf.queryExecution()  # noqa: SLF001 - `explain` cuts long lists
    return [
        each.treeString(True, True, 2**31 - 1, False, False)
        for each in (execution.logical(), execution.analyzed())
    ]


def java_text(error: BaseException) -> str:
    """The message of an error, Java's own for one of Java's."""
    return str(
        cast("Any", error).java_exception.toString() if isinstance(error, JAVA_ERRORS) else error
    )


def java_cause(error: BaseException) -> str:
    """Java's error at the bottom of one, such as of a full disk. Empty where there is none."""
    return (java_causes(error) or [""])[-1]


def java_causes(error: BaseException) -> list[str]:
    """The errors of Java's that led to one, the first one last."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    causes: list[str] = []
    with suppress(*JVM_IS_GONE):
        while java is not None:
            causes.append(str(java.toString()))
            java = java.getCause()
    return causes


_NO_METASTORE = (
    "Could not connect to meta store",
    "SessionHiveMetaStoreClient",
    "TTransportException",
)


def is_of_metastore(error: BaseException) -> bool:
    """Whether an error says that Hive's metastore does not answer: nothing is wrong with what was
    asked.
    """
    return any(each in str(error) for each in _NO_METASTORE)


def without_metastore(error: BaseException) -> str:
    """Say why Hive's metastore does not answer, and what to do. One line."""
    return (
        f"Hive's metastore does not answer ({printable(java_cause(error).partition(chr(10))[0])}): "
        "start it, or correct spark.hadoop.hive.metastore.uris"
    )


def jars(spark: SparkSession) -> set[str]:
    """Return the file names of the jars on the driver's class path; over Spark Connect none, since
    a server does not show it.
    """
    if not has_jvm(spark):
        return set()
    places = cast("Any", spark)._jvm.java.lang.System.getProperty("java.class.path")  # noqa: SLF001
    return {os.path.basename(place) for place in places.split(os.pathsep)}  # noqa: PTH119


def started_with(spark: SparkSession, name: str) -> str | None:
    """Return a setting with which Spark was started; None where it was not set, and over Spark
    Connect.
    """
    return spark.sparkContext.getConf().get(name) if has_jvm(spark) else None


def know_conflicts(spark: SparkSession) -> None:
    """Raise errors of Delta from a Spark Connect server as a classic session does."""
    if not has_jvm(spark):
        import delta.connect  # noqa: F401, PLC0415 - registers them; asks for gRPC, which no classic session needs


def end_with_process(spark: SparkSession) -> None:
    """Let signals end the session with all that runs in it.

    SIGTERM ends a classic one with its JVM; a server of Spark Connect continues a query until it
    gives up its client. At SIGINT PySpark would ask the JVM to cancel its jobs, in the middle of
    the call that is interrupted.
    """
    if has_jvm(spark):
        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        signal.signal(signal.SIGTERM, exit_on)


def exit_on(number: int, _: FrameType | None) -> None:
    """Exit by a signal, with the status that shells give it: 143 for SIGTERM."""
    sys.exit(128 + number)


RELEASED_ON_EXIT = "SPARK_CONNECT_RELEASE_SESSION_ON_EXIT"
"""The variable by which PySpark ends its session of Spark Connect when the process ends."""


def take_pool(spark: SparkSession, pool: str) -> None:
    """Let jobs of this thread share the slots with those of other pools."""
    if has_jvm(spark):
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def make_active(spark: SparkSession) -> None:
    """Let what this thread writes into a catalog be looked up with the settings of this session.

    Spark takes those of the session that is active in the thread of the JVM, and in most of
    Python's threads none is: without ours the catalog is not Delta's.
    """
    if has_jvm(spark):
        java = cast("Any", spark)._jsparkSession  # noqa: SLF001
        java.setActiveSession(java)


def last_batch(query: StreamingQuery) -> int | None:
    """The number of the batch that a query has done last; None before any.

    A pipeline looks several times a second. All that Spark knows of a batch comes as JSON, which
    takes eight times the processor time.
    """
    java = getattr(query, "_jsq", None)
    if java is None:
        progress = query.lastProgress
        return None if progress is None else progress.batchId
    newest = java.lastProgress()
    return None if newest is None else int(newest.batchId())


def give_hadoop(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Set what Hadoop's file systems read, but for what the session was started with. Neither a
    command line nor Spark's settings show it.
    """
    hadoop = cast("Any", spark)._jsc.hadoopConfiguration()  # noqa: SLF001
    for name, value in settings.items():
        if spark.conf.get(f"spark.hadoop.{name}", None) is None:
            hadoop.set(name, value)


def session_beside(spark: SparkSession, settings: dict[str, str]) -> SparkSession:
    """A session with the settings of `spark`, but for these, whose frames go with those of `spark`;
    kept as long as `spark` is. Frames of two sessions of Spark Connect do not go together: there it
    is `spark` itself.
    """
    if not has_jvm(spark):
        return spark
    if spark not in _BESIDE:
        beside = spark.newSession()
        for name, value in (spark.conf.getAll | settings).items():
            if beside.conf.isModifiable(name):
                beside.conf.set(name, value)
        _BESIDE[spark] = beside
    return _BESIDE[spark]


def clean_log(spark: SparkSession, table: str) -> None:
    """Let Delta remove what is older, to the minute, than a table keeps its log
    (`delta.logRetentionDuration`).

    By itself Delta removes whole days. It leaves a checkpoint, so that each version that stays can
    be read. Runtimes with another Delta than the open one may lack these methods: there, and over
    Spark Connect, whole days it is.
    """
    if not has_jvm(spark):
        return
    delta = cast("Any", spark)._jvm.org.apache.spark.sql.delta  # noqa: SLF001
    try:
        log = _delta_log(spark, table)
        now = log.unsafeVolatileSnapshot()
        if log.enableExpiredLogCleanup(now.metadata()):
            catalog_table, kept = (
                getattr(log, f"cleanUpExpiredLogs$default${number}")() for number in (2, 3)
            )
            log.cleanUpExpiredLogs(now, catalog_table, kept, delta.TruncationGranularity.MINUTE())
    except JVM_IS_GONE as error:  # or has no such method
        if isinstance(error, JAVA_ERRORS):
            raise


@dataclass(frozen=True)
class TableCommit:
    """A commit to a Delta table: its version, and when it was made."""

    version: int
    at: datetime


def newest_commit(spark: SparkSession, table: str) -> TableCommit:
    """The newest commit to a Delta table.

    Histories look for it each time that something wakes them. Delta's own classes say it for a
    twentieth of the processor time that SQL takes.
    """
    if has_jvm(spark):
        snapshot = _newest_snapshot(_delta_log(spark, table))
        return TableCommit(snapshot.version(), _from_millis(snapshot.timestamp()))
    (row,) = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()
    return TableCommit(row.version, row.timestamp.astimezone(UTC))


def committed_at(spark: SparkSession, table: str, version: int) -> datetime | None:
    """When a version of a Delta table was committed; None where its log has that commit no more."""
    if has_jvm(spark):
        log = Folder(spark, _delta_log(spark, table).logPath().toString())
        return log.changed_at(f"{version:020d}.json")
    number = newest_commit(spark, table).version - version + 1
    while True:
        commits = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {number}").collect()
        if commits[-1].version <= version or len(commits) < number:
            break
        number = commits[0].version - version + 1  # others were added meanwhile
    found = (each.timestamp.astimezone(UTC) for each in commits if each.version == version)
    return next(found, None)


@dataclass(frozen=True)
class DeltaVersion:
    """A version of a Delta table: its number, the action `metaData`, the bytes of its files, and
    when it was committed.
    """

    number: int
    metadata: dict[str, Any]
    bytes: int
    at: datetime


def delta_version(spark: SparkSession, table: str, number: int | None = None) -> DeltaVersion:
    """A version of a Delta table, by Delta's own classes; None: the newest one."""
    log = _delta_log(spark, table)
    found = _newest_snapshot(log)
    if number is not None:
        rest = (getattr(log, f"getSnapshotAt$default${each}")() for each in (2, 3, 4))
        found = log.getSnapshotAt(number, *rest)
    at = _from_millis(found.timestamp())
    return DeltaVersion(found.version(), _metadata_of(found), found.sizeInBytes(), at)


def change_delta(
    spark: SparkSession,
    table: str,
    metadata: Callable[[dict[str, Any], int], dict[str, Any]],
    rows: Callable[[int], DataFrame] | None = None,
) -> int:
    """Change the action `metaData` of a Delta table, and with `rows` its rows, in one transaction,
    which SQL cannot: columns, constraints, properties and rows together. Returns the new version.

    `metadata`, `rows`: what there is to be, of what there was and the version that it had. The rows
    lie in a frame of all columns. Raises Delta's errors of conflicts if the table changed
    meanwhile, also by rows that were appended.
    """
    session = cast("Any", spark)
    jvm = session._jvm  # noqa: SLF001
    delta = jvm.org.apache.spark.sql.delta
    transaction = _delta_log(spark, table).startTransaction()
    before = int(transaction.readVersion())
    made = json.dumps({"metaData": metadata(_metadata_of(transaction), before)})
    transaction.updateMetadata(delta.actions.Action.fromJson(made), False)
    actions = jvm.java.util.ArrayList()
    if rows is not None:
        files = transaction.filterFiles()
        written = transaction.writeFiles(cast("Any", rows(before))._jdf)  # noqa: SLF001
        for index in range(written.size()):
            actions.add(written.apply(index))
        for index in range(files.size()):
            actions.add(files.apply(index).remove())
    as_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq()
    operation = getattr(getattr(delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
    return int(transaction.commit(as_scala, operation))


def _delta_log(spark: SparkSession, table: str) -> Any:
    session = cast("Any", spark)
    return session._jvm.io.delta.tables.DeltaTable.forName(  # noqa: SLF001
        session._jsparkSession,  # noqa: SLF001
        table,
    ).deltaLog()


def _newest_snapshot(log: Any) -> Any:
    return log.update(False, *(getattr(log, f"update$default${each}")() for each in (2, 3)))


def _from_millis(since_1970: int) -> datetime:
    return datetime.fromtimestamp(since_1970 / 1000, UTC)


def _metadata_of(snapshot: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(snapshot.metadata().json())["metaData"]
    return found


def rename_folder(spark: SparkSession, folder: str, to: str) -> bool:
    """Rename a folder, wherever Spark reaches; return whether it was there, and nothing at `to`."""
    files = Folder.of(spark, folder)
    return files is not None and files.rename(to)


def delete_folder(spark: SparkSession, folder: str) -> None:
    """Delete a folder with all that is in it, wherever Spark reaches."""
    if (files := Folder.of(spark, folder)) is not None:
        files.delete_all()


def folder_bytes(spark: SparkSession, folder: str) -> int | None:
    """The bytes of the files in a folder, by Spark's own way to files; None in a session of Spark
    Connect, and where files cannot be listed that way, as where a catalog hands out credentials for
    each table.
    """
    if not has_jvm(spark):
        return None
    with suppress(*JAVA_ERRORS):
        place = cast("Any", spark)._jvm.org.apache.hadoop.fs.Path(folder)  # noqa: SLF001
        files = place.getFileSystem(cast("Any", spark)._jsc.hadoopConfiguration())  # noqa: SLF001
        return int(files.getContentSummary(place).getLength())
    return None


_LOST_BYTES = ("EOFException", "ChecksumException", "Not a checksum file")
"""Hadoop's errors where a file, or that with its checksums, has lost bytes."""


_MUST_BE_NEW = "fs.option.create.conditional.overwrite"
_NOT_NEW = ("RemoteFileChangedException", "FileAlreadyExistsException")


class Folder:
    """The files of a folder, by Spark's own way to files: it may be wherever that reaches."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Of a classic session."""
        self._jvm, self._folder = cast("Any", spark)._jvm, folder  # noqa: SLF001
        self._files = self._path("").getFileSystem(cast("Any", spark)._jsc.hadoopConfiguration())  # noqa: SLF001

    @classmethod
    def of(cls, spark: SparkSession, folder: str) -> Self | None:
        """The files of a folder; None in Spark Connect, which cannot reach them."""
        return cls(spark, folder) if has_jvm(spark) else None

    def names(self, folder: str = "") -> list[str]:
        """The names of the files and folders in it, or in a folder below; none if it is not
        there.
        """
        place = self._path(folder)
        found = self._files.listStatus(place) if self._files.exists(place) else []
        return [each.getPath().getName() for each in found]

    def has(self, name: str) -> bool:
        """Whether there is a file."""
        return bool(self._files.exists(self._path(name)))

    def changed_at(self, name: str) -> datetime | None:
        """When a file was written; None if there is no such file."""
        place = self._path(name)
        if not self._files.exists(place):
            return None
        return _from_millis(self._files.getFileStatus(place).getModificationTime())

    def text(self, name: str) -> str | None:
        """A file; None where what the disk has of it is not what was written."""
        try:
            opened = self._files.open(self._path(name))
            try:
                found: str = self._jvm.org.apache.commons.io.IOUtils.toString(opened, "UTF-8")
            finally:
                opened.close()
        except JAVA_ERRORS as error:
            if not any(kind in java_text(error) for kind in _LOST_BYTES):
                raise
            return None
        return found

    def write(self, name: str, text: str, *, replacing: bool = False) -> None:
        """Write a new file. `replacing`: or in the place of one."""
        opened = self._files.create(self._path(name), replacing)
        try:
            opened.write(text.encode())
        finally:
            opened.close()

    def put_new(self, name: str, text: str) -> bool:
        """Put an object into a store, on the condition that it is new (S3A: `If-None-Match: *`);
        return whether it was.
        """
        begun = self._files.createFile(self._path(name)).must(_MUST_BE_NEW, True).build()
        try:
            begun.write(text.encode())
            begun.close()
        except JAVA_ERRORS as error:
            if any(kind in java_text(error) for kind in _NOT_NEW):
                return False
            raise
        return True

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._files.delete(self._path(name), False)

    def rename(self, to: str) -> bool:
        """Rename the folder; return whether it was there, and nothing at `to`."""
        place, there = self._path(""), self._jvm.org.apache.hadoop.fs.Path(to)
        return bool(
            self._files.exists(place)
            and not self._files.exists(there)
            and self._files.rename(place, there)
        )

    def delete_all(self) -> None:
        """Delete the folder with all that is in it."""
        self._files.delete(self._path(""), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}".rstrip("/"))


class Checkpoint(Folder):
    """The files of a query's checkpoint. Spark keeps the plan of batch n in `offsets/n`, and writes
    `commits/n` when the batch is done.
    """

    def batches(self, folder: str) -> set[int]:
        """The numbers of the batches in `offsets` or `commits`."""
        return {int(name) for name in self.names(folder) if name.isdigit()}


def forget_planned(spark: SparkSession, checkpoint: str) -> bool:
    """Let the next query of a checkpoint plan the batch again that the one before planned last and
    did not commit; return whether it will.

    Only after that batch has failed while its source was read: then the sink has nothing of it.
    """
    if (files := Checkpoint.of(spark, checkpoint)) is None:
        return False
    for batch in files.batches("offsets"):
        if batch > max(files.batches("commits"), default=-1):
            files.delete(f"offsets/{batch}")
    return True
