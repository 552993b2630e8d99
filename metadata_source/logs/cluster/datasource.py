"""The Spark data source `kafka_cluster_log`: `__cluster_metadata` of many clusters, or a
controller's files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metadata_source.logs.source import LogSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType


class KafkaClusterLogSource(LogSource):
    """The records that controllers wrote to their log. Options: `metadata_source.options`."""

    format = "kafka_cluster_log"
    log = f"{__package__}.log:ClusterLog"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of each log, from where it is to begin to its end now, or of files."""
        from metadata_source.logs.cluster.files import FilesReader  # noqa: PLC0415

        files = self.log_of("batch", schema).options.files
        return super().reader(schema) if files is None else FilesReader(files)
