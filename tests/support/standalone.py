"""A Spark cluster of processes on this machine, and what users give it: the wheel in a packed
environment.
"""

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pyspark

from local_cluster.ports import HOST, ReservedPorts
from tests.support.documents import commands, document
from tests.support.programs import Program
from tests.support.repository import ROOT
from tests.support.waiting import eventually
from truth.session import settings_of

SPARK = Path(pyspark.__file__).parent
"""The cluster's own Spark."""
SECRET = token_hex()
UNPACKED = "/opt/kafka-metadata-history/environment"
"""Where docs/spark-clusters.md unpacks the environment for a server of Spark Connect."""

# Java that shares two cores with others.
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class Packed:
    """A folder as docs/spark-clusters.md makes one: the environment packed and unpacked, and
    Spark's settings.
    """

    folder: Path

    @property
    def environment(self) -> Path:
        return self.folder / "environment"

    @property
    def settings(self) -> Path:
        return self.folder / "conf" / "spark-cluster.conf"

    def command(self, told: str, master: str) -> list[str]:
        """A command of that document, on this cluster, as the shell runs it."""
        assert "spark://HOST:7077" in told
        return ["bash", "-c", told.replace("spark://HOST:7077", master)]

    def job(self, name: str) -> str:
        """Where the environment has the script of a job, for the shell."""
        return f"environment/lib/python3.*/site-packages/kafka_metadata_history/jobs/{name}.py"

    def submit(self, master: str, script: str, *arguments: str) -> list[str]:
        """The documented command that runs the pipeline, of another script."""
        documented = told("spark-submit --master")
        of_pipeline = f"{self.job('pipeline')} --config kafka-metadata-history.yaml"
        assert of_pipeline in documented
        return self.command(
            documented.replace(of_pipeline, f"{script} {shlex.join(arguments)}"), master
        )

    def program(self, command: Sequence[str], output: Path, **variables: str) -> Program:
        """A process beside the test that knows nothing of the checkout."""
        own = self.variables() | variables
        return Program(command, output, folder=self.folder, variables=own)

    def variables(self) -> dict[str, str]:
        """Of the processes: nothing that leads to the checkout."""
        own = ("PYTHON", "PYSPARK_", "SPARK_", "JDK_JAVA_", "VIRTUAL_ENV")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        # Spark's own commands are those of the environment of the tests: the cluster's Spark.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return plain | {"PATH": path, "SPARK_LOCAL_IP": HOST}


def told(begin: str) -> str:
    """The one command of docs/spark-clusters.md that begins so."""
    (command,) = commands(f"{re.escape(begin)}.*", document("spark-clusters.md"))
    return command


def blocks() -> list[list[str]]:
    """The lines that docs/spark-clusters.md has for a shell, block by block."""
    found = re.findall(r"```console\n((?:.*\n)+?)```", document("spark-clusters.md"))
    return [commands(".*", block) for block in found]


def typed(line: str, folder: Path, variables: dict[str, str]) -> None:
    """Do what a line of the document says, in a folder."""
    subprocess.run(["bash", "-c", line], cwd=folder, env=variables, check=True)


def packed(folder: Path) -> Packed:
    """Pack this checkout and unpack it, by the lines of the document."""
    found = Packed(folder)
    (pack,), (unpack, _), _ = blocks()
    # Where tests run in another checkout than that of the environment.
    typed(pack, folder, found.variables() | {"PYTHONPATH": str(ROOT)})
    typed(unpack, folder, found.variables())
    settings = settings_of("spark-cluster.conf")
    # As the file says to do where nothing may be fetched.
    del settings["spark.jars.packages"]
    settings["spark.jars"] = ",".join(
        map(str, sorted((ROOT / ".jars" / "delta").resolve().glob("*.jar")))
    )
    write(found.settings, settings)
    return found


def write(file: Path, settings: dict[str, str]) -> None:
    """Write settings of Spark, with those that fit the machine of the tests."""
    for of in ("driver", "executor"):
        settings[f"spark.{of}.extraJavaOptions"] += f" {_SMALL_JVM}"
    # Two executors, one to a worker, and both are there before anything runs.
    settings |= {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "640m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.cores.max": "4",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        # As docs/security.md says to do.
        "spark.authenticate.secret": SECRET,
        # C1 alone encrypts slowly, and the environment that executors fetch is large.
        "spark.network.timeout": "600s",
    }
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))


@contextmanager
def standalone(packed: Packed, folder: Path) -> Iterator[str]:
    """A master and two workers, each a process of its own, with working folders of their own;
    yields its URL.
    """
    with ReservedPorts(1) as ports:
        (port,) = ports.numbers
    master = f"spark://{HOST}:{port}"
    spark_class = [str(SPARK / "bin" / "spark-class")]
    variables = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _SMALL_JVM}
    everyone = ["--host", HOST, "--webui-port", "0", "--properties-file", str(packed.settings)]
    of_master = ["org.apache.spark.deploy.master.Master", "--port", str(port), *everyone]
    with packed.program(spark_class + of_master, folder / "master.log", **variables):
        wait_for_port(port, folder / "master.log")
        of_workers = []
        for number in range(2):
            own = folder / f"worker-{number}"
            own.mkdir()
            room = ["--cores", "2", "--memory", "1g", "--work-dir", str(own), *everyone]
            of_workers.append(["org.apache.spark.deploy.worker.Worker", *room, master])
        with (
            packed.program(spark_class + of_workers[0], folder / "worker-0.log", **variables),
            packed.program(spark_class + of_workers[1], folder / "worker-1.log", **variables),
        ):
            yield master


@contextmanager
def connect_server(packed: Packed, master: str, log: Path) -> Iterator[str]:
    """A server of Spark Connect on a cluster, with all of its slots; yields its address, as
    SPARK_REMOTE has it.
    """
    with ReservedPorts(1) as ports:
        (port,) = ports.numbers
    more = (
        f"--conf spark.connect.grpc.binding.address={HOST} --conf "
        f"spark.connect.grpc.binding.port={port} --class"
    )
    command = (
        told(f"PYSPARK_DRIVER_PYTHON=python3 PYSPARK_PYTHON={UNPACKED}/")
        .replace("--class", more)
        .replace(UNPACKED, str(packed.environment))
    )
    with packed.program(packed.command(command, master), log):
        wait_for_port(port, log)
        yield f"sc://{HOST}:{port}"


def wait_for_port(port: int, log: Path) -> None:
    def is_open() -> bool:
        with suppress(OSError), socket.create_connection((HOST, port), 1):
            return True
        return False

    eventually(is_open, lambda: f"a port; the log ends on {log.read_text()[-3000:]}", within=180)
