"""A lake on S3 in Spark: what Hadoop's S3A is given, and whether several drivers may write.

Delta asks S3A for a new object for each commit. With its performance flag `create`, S3A puts such
an object on the condition that there is none (`If-None-Match: *`). So of two drivers that commit
the same version of a table one wins, and Delta lets the other one look again. Without it S3A looks
first and puts then, and one driver's commit replaces the other's.
"""

from __future__ import annotations

import logging
import re
import secrets
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from schemas.lake import Lake, LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

log = logging.getLogger("kafka_metadata_history.lake")

_S3A: Final = "org.apache.hadoop.fs.s3a."
_SDK: Final = "software.amazon.awssdk.auth.credentials."
_SETTINGS: Final = {
    "region": "endpoint.region",
    "default_region": "endpoint.region",
    "endpoint": "endpoint",
    "endpoint_url": "endpoint",
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
    "token": "session.token",
}
"""An option of delta-rs, without `aws_` -> the setting of S3A, after `fs.s3a.`."""
_VIRTUAL: Final = "virtual_hosted_style_request"
_UNSIGNED: Final = "skip_signature"
_OF_READERS: Final = {"allow_http", "timeout", "connect_timeout", "max_retries"}
"""Options that say nothing to S3A: the endpoint has its scheme, and S3A its own patience."""
_CHECKPOINTS: Final = "spark.sql.streaming.checkpointFileManagerClass"
_MANAGER: Final = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
_LOST_RACE: Final = re.compile(r"RemoteFileChangedException|FileAlreadyExistsException")
"""Errors of S3A where an object that was to be new is there."""
_S3: Final = re.compile(r"s3[an]?:", re.IGNORECASE)


def hadoop_settings(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Hadoop by which Spark reaches a lake on S3.
    `scheme`: of its URI, `s3a` or another of Hadoop's names. `options`: of delta-rs, secrets
    resolved.
    """
    given = {name.removeprefix("aws_"): value for name, value in options.items()}
    found = {
        f"fs.s3a.{_SETTINGS[name]}": value for name, value in given.items() if name in _SETTINGS
    }
    if "fs.s3a.endpoint" in found:
        found.setdefault("fs.s3a.endpoint.region", "us-east-1")  # as delta-rs has it
        is_virtual = given.get(_VIRTUAL, "").lower() in {"true", "1"}
        found["fs.s3a.path.style.access"] = str(not is_virtual).lower()
    if given.get(_UNSIGNED, "").lower() in {"true", "1"}:
        found["fs.s3a.aws.credentials.provider"] = f"{_S3A}AnonymousAWSCredentialsProvider"
    elif "fs.s3a.session.token" in found:
        found["fs.s3a.aws.credentials.provider"] = f"{_S3A}TemporaryAWSCredentialsProvider"
    elif "fs.s3a.access.key" in found:
        found["fs.s3a.aws.credentials.provider"] = f"{_S3A}SimpleAWSCredentialsProvider"
    else:
        found["fs.s3a.aws.credentials.provider"] = f"{_SDK}DefaultCredentialsProvider"
    if scheme != "s3a":
        found[f"fs.{scheme}.impl"] = f"{_S3A}S3AFileSystem"
        found[f"fs.AbstractFileSystem.{scheme}.impl"] = f"{_S3A}S3A"
    return found | {"fs.s3a.performance.flags": "create"}


def passed_over(options: Mapping[str, str]) -> list[str]:
    """Return the options of delta-rs, by name, for which no setting of S3A is known here."""
    known = {*_SETTINGS, *_OF_READERS, _VIRTUAL, _UNSIGNED}
    return sorted(name for name in options if name.removeprefix("aws_") not in known)


def is_on_s3(place: str) -> bool:
    """Whether a URI is of S3, by any of Hadoop's names."""
    return _S3.match(place) is not None


def let_reach(spark: SparkSession, lake: Lake) -> None:
    """Let a session reach a lake on S3, by `storage` of the configuration. Settings that the
    session was started with count more. Raises LakeError for a reference that cannot be followed.

    Secrets are set in Hadoop's configuration: neither a command line nor Spark's settings show
    them.
    """
    if not is_on_s3(lake.root or ""):
        return
    if not hasattr(spark, "_jvm"):
        if lake.storage:
            log.info("storage is not given to a server of Spark Connect: its own settings count")
        return
    # Only lakes on S3 need delta-rs here.
    from schemas.object_stores import options_of  # noqa: PLC0415 - takes a tenth of a second

    if unknown := passed_over(dict(lake.storage)):
        log.warning(
            "storage: Spark is not given %s: set what it needs under spark.settings "
            "(spark.hadoop.fs.s3a.*)",
            ", ".join(unknown),
        )
    hadoop = cast("Any", spark)._jsc.hadoopConfiguration()  # noqa: SLF001
    given = {name: value for name, value in (options_of(lake) or {}).items() if value}
    scheme = (lake.root or "").partition(":")[0].lower()
    for name, value in hadoop_settings(scheme, given).items():
        if spark.conf.get(f"spark.hadoop.{name}", None) is None:
            hadoop.set(name, value)


_CHECKED: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def check_first_wins(spark: SparkSession, place: str) -> None:
    """Raise LakeError unless a store keeps the first of two objects that are both to be new, by
    two puts of an object below `place`, once a session. Nothing is asked in a session of Spark
    Connect.
    """
    checked = _CHECKED.setdefault(spark, set())
    if place in checked or not hasattr(spark, "_jvm"):
        return
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - a session of Connect has none

    session = cast("Any", spark)
    new = session._jvm.org.apache.hadoop.fs.Path(  # noqa: SLF001
        f"{place.rstrip('/')}/_first_wins_{secrets.token_hex(8)}"
    )
    files = new.getFileSystem(session._jsc.hadoopConfiguration())  # noqa: SLF001
    first, second = (files.create(new, False) for _ in range(2))
    try:
        first.close()
        second.close()
    except Py4JJavaError as error:
        if not _LOST_RACE.search(str(error.java_exception.toString())):
            raise
        checked.add(place)
        return
    finally:
        files.delete(new, False)
    raise LakeError(
        f"{place}: a second driver would replace what a first one has committed: the store, or the "
        "Hadoop of this Spark, knows no conditional puts: docs/object-stores.md, Writing"
    )


def keep_checkpoints(spark: SparkSession, checkpoints: str) -> None:
    """Let Spark plan each batch once though several drivers have the same checkpoints on S3.
    Raises LakeError where it cannot.
    """
    if not is_on_s3(checkpoints):
        return
    if hasattr(spark, "_jvm") and spark.conf.get(_CHECKPOINTS, None) is None:
        if not cast("Any", spark)._jvm.org.apache.spark.util.Utils.classIsLoadable(_MANAGER):  # noqa: SLF001
            raise LakeError(
                f"checkpoints {checkpoints}: two drivers could plan the same batch: add "
                "org.apache.spark:spark-hadoop-cloud_2.13, of Spark's version, to spark.packages "
                "(docs/object-stores.md, Writing), or keep checkpoints on a local volume"
            )
        spark.conf.set(_CHECKPOINTS, _MANAGER)
    check_first_wins(spark, checkpoints)
