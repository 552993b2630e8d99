"""A lake on S3 in Spark: what Hadoop's S3A is given, by `storage` of the configuration."""

import logging
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from jobs.run.driver import give_hadoop, has_jvm
from schemas.lake import Lake

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
_ALWAYS: Final = {
    # Hadoop 3.5 would read by another library of Amazon's, for files that are larger than these.
    "fs.s3a.input.stream.type": "classic",
    # By itself it asks a store that is busy again for hours: whoever asks S3A tries again, too.
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.retry.limit": "4",
    "fs.s3a.retry.throttle.limit": "6",
    "fs.s3a.retry.throttle.interval": "250ms",
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.connection.timeout": "30s",
}


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
    return found | _ALWAYS


def passed_over(options: Mapping[str, str]) -> list[str]:
    """Return the options of delta-rs, by name, for which no setting of S3A is known here."""
    known = {*_SETTINGS, *_OF_READERS, _VIRTUAL, _UNSIGNED}
    return sorted(name for name in options if name.removeprefix("aws_") not in known)


def let_reach(spark: SparkSession, lake: Lake) -> None:
    """Let a session reach a lake on S3, by `storage` of the configuration. Settings that the
    session was started with count more. Raises LakeError for a reference that cannot be followed.
    """
    if lake.log_store is None:
        return
    if not has_jvm(spark):
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
    given = {name: value for name, value in (options_of(lake) or {}).items() if value}
    scheme = (lake.root or "").partition(":")[0].lower()
    give_hadoop(spark, hadoop_settings(scheme, given))
