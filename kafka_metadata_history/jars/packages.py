"""The jars of the configuration's key `spark.packages`, each fetched once and held against its
SHA-256.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.jars.errors import JarsError
from kafka_metadata_history.jars.fetch import JARS, fetch_jars, sha256_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_OF_SCHEMES: Final = {
    "s3": "hadoop-aws",
    "s3a": "hadoop-aws",
    "s3n": "hadoop-aws",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
    "gs": "gcs-connector",
}
"""The scheme of a lake's URI -> the artifact whose classes Spark reaches it with."""


def fetched(checksums: Mapping[str, str]) -> list[Path]:
    """Return the jars, in the order of the configuration; fetch those that are not in the cache.
    `checksums`: Maven coordinate, with a classifier or without -> SHA-256.
    Raises JarsError for one that cannot be had, has other bytes, or whose SHA-256 nobody gave.
    """
    return [_fetched(coordinate, given) for coordinate, given in checksums.items()]


def _fetched(coordinate: str, checksum: str) -> Path:
    organisation, *rest = coordinate.split(":")
    module, revision, *classifier = rest
    # A folder's name has the checksum: what is in it was held against that when it was fetched.
    folder = JARS / "packages" / f"{'-'.join(rest)}-{checksum or 'unknown'}"

    def trusted(jars: list[Path]) -> None:
        found = sha256_of(jars[0])
        if not checksum:
            raise JarsError(
                f"spark.packages: {coordinate} has no SHA-256: if this jar is to be trusted, write "
                f"{found}"
            )
        if found != checksum:
            raise JarsError(
                f"spark.packages: {coordinate}: its SHA-256 is {found}, and {checksum} in the "
                "configuration"
            )

    (jar,) = fetch_jars(
        organisation,
        module,
        revision,
        folder,
        transitive=False,
        classifier="".join(classifier),
        trusted=trusted,
    )
    return jar


def lacking(root: str, coordinates: Collection[str]) -> str | None:
    """Return the artifact that Spark needs for a lake, by the scheme of its URI, and that neither
    these coordinates nor pyspark have; None where nothing is known to be missing. Starts no JVM.
    """
    artifact = _OF_SCHEMES.get(root.partition(":")[0].lower())
    if artifact is None or any(each.split(":")[1] == artifact for each in coordinates):
        return None
    found = importlib.util.find_spec("pyspark")
    jars = Path(found.origin).parent / "jars" if found and found.origin else None
    return None if jars is not None and [*jars.glob(f"{artifact}-*.jar")] else artifact
