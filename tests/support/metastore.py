"""Hive's metastore on this machine: a process of its own, with Derby inside, of the classes that
PySpark ships. It may be ended and run again, as a catalog that is gone for a while.
"""

import socket
from collections.abc import Mapping
from pathlib import Path

import pyspark

from kafka_metadata_history.jars.java import java_command
from local_cluster.ports import HOST, ReservedPorts
from schemas.lake import TABLES, Lake
from tests.support.programs import Program

_OPENED = ("java.lang", "java.net", "java.nio", "java.util", "java.util.concurrent")
"""Packages of Java that Hive 2.3 looks into."""
BY_STORAGE = {
    "hive.metastore.pre.event.listeners": (
        "org.apache.hadoop.hive.ql.security.authorization.AuthorizationPreEventListener"
    ),
    "hive.security.metastore.authorization.manager": (
        "org.apache.hadoop.hive.ql.security.authorization.StorageBasedAuthorizationProvider"
    ),
    "hive.security.metastore.authenticator.manager": (
        "org.apache.hadoop.hive.ql.security.HadoopDefaultMetastoreAuthenticator"
    ),
}
"""Settings with which whoever may write a folder may change its schema and tables."""


class Metastore(Program):
    """A metastore with its database and its warehouse in `folder`. `settings`: more of Hive's."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        with ReservedPorts(1) as ports:
            (self.port,) = ports.numbers
        self.warehouse = folder / "warehouse"
        self.warehouse.mkdir(parents=True, exist_ok=True)
        given = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder / 'derby'};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.async.log.enabled": "false",
            "hive.metastore.warehouse.dir": str(self.warehouse),
            "derby.stream.error.file": str(folder / "derby.log"),
            "java.io.tmpdir": str(folder),
        } | dict(settings or {})
        super().__init__(
            [
                java_command(),
                *("-Xmx512m", "-XX:TieredStopAtLevel=1"),
                *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
                *(f"-D{name}={value}" for name, value in given.items()),
                *("-cp", str(Path(pyspark.__file__).parent / "jars" / "*")),
                "org.apache.hadoop.hive.metastore.HiveMetaStore",
                *("-p", str(self.port)),
            ],
            folder / "metastore.log",
        )

    @property
    def spark_settings(self) -> dict[str, str]:
        """What Spark needs to know of it."""
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": f"thrift://{HOST}:{self.port}",
            "spark.sql.warehouse.dir": str(self.warehouse),
        }

    def as_folders(self, folder: Path) -> Lake:
        """The tables of the lake in this metastore, as a lake of folders whose files are these."""
        folder.mkdir()
        for schema in {table.schema for table in TABLES}:
            (folder / schema).symlink_to(self.warehouse / f"{schema}.db")
        return Lake(root=str(folder))

    def start(self) -> None:
        """Return once it listens."""
        super().start()
        self.until(self._listens, "the metastore", within=120)

    def _listens(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1).close()
        except OSError:
            return False
        return True
