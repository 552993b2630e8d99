"""A lake in a catalog: who records makes its views, once, and whoever asks finds them there."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from schemas.lake import Lake, LakeError
from schemas.table import View, sql_string

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW_PROPERTY: Final = "kafkaMetadataHistory.view"
"""Of a view: a digest of how it was made."""
COMMENT_LENGTH: Final = 255
"""Characters of a column's comment that catalogs take. Hive's metastore has room for 256, and AWS
Glue for 255.
"""
_OF_SESSION: Final = "spark_catalog"
_IN_MEMORY: Final = "in-memory"
_DELTA_S: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def check_catalog(spark: SparkSession, lake: Lake) -> None:
    """Raise LakeError for a lake in a catalog that is in memory, and is gone with the session."""
    if (
        lake.catalog == _OF_SESSION
        and spark.conf.get("spark.sql.catalogImplementation", None) == _IN_MEMORY
        and spark.conf.get(f"spark.sql.catalog.{_OF_SESSION}", None) == _DELTA_S
    ):
        raise LakeError(
            f"{lake}: this session keeps it in memory, and forgets its tables: set "
            "spark.sql.catalogImplementation: hive and where the metastore is "
            "(docs/catalogs.md)"
        )


def make_view(
    spark: SparkSession, name: str, view: View, query: str, *, replaces: bool = True
) -> None:
    """Make a view in a catalog, unless it is there as this makes it: who asks may have no right to.

    `name`, `query`: as SQL in that catalog. `replaces`: also if another version made the one that
    is there. Raises LakeError if the view is to be made and cannot be.
    """
    digest = hashlib.sha256(f"{view.comment}\n{query}".encode()).hexdigest()
    found = _digest_of(spark, name)
    if found == digest or (found is not None and not replaces):
        return
    try:
        spark.sql(
            f"CREATE OR REPLACE VIEW {name} ({_columns(spark, query)})\n"
            f"COMMENT {sql_string(view.comment)}\n"
            f"TBLPROPERTIES ('{VIEW_PROPERTY}' = '{digest}')\nAS {query}"
        )
    except PySparkException as error:
        was = "is not there" if found is None else "is of another version"
        raise LakeError(
            f"view {name} {was}, and cannot be made: {first_line(error)}; a user who may make it "
            "makes it by `kafka-metadata-history run`"
        ) from error


def _digest_of(spark: SparkSession, name: str) -> str | None:
    """The digest of the view that is there; empty where it has none, None where there is none."""
    if not spark.catalog.tableExists(name):
        return None
    found: dict[str, str] = {
        row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect()
    }
    return found.get(VIEW_PROPERTY, "")


def _columns(spark: SparkSession, query: str) -> str:
    """The columns of a query, with comments that a catalog has room for."""
    fields = spark.sql(query).schema.fields
    comments = [_short(field.metadata.get("comment", "")) for field in fields]
    return ", ".join(
        f"`{field.name}`" + (f" COMMENT {sql_string(comment)}" if comment else "")
        for field, comment in zip(fields, comments, strict=True)
    )


def _short(comment: str) -> str:
    """A comment, or its first words."""
    if len(comment) <= COMMENT_LENGTH:
        return comment
    return comment[: COMMENT_LENGTH - 3].rpartition(" ")[0] + "..."


def first_line(error: BaseException) -> str:
    """The first line of an error of Spark, or of Java's error in it."""
    text = str(error)
    java = re.search(r"(?:Exception|Error): (.+)", text)
    return (java[1] if java else text.splitlines()[0]).strip()
