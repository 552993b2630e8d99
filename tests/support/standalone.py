"""A Spark cluster of processes on this machine, and what users give it: the wheel in a packed
environment.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from secrets import token_hex

from packaging.requirements import Requirement

from local_cluster.ports import HOST, ReservedPorts
from tests.support.documents import commands, document
from tests.support.programs import Program
from tests.support.repository import ROOT
from tests.support.waiting import eventually
from truth.session import settings_of

NAME = "kafka-metadata-history"
UNPACKED = "/opt/kafka-metadata-history/environment"
"""Where docs/spark-clusters.md unpacks the environment for a server of Spark Connect."""

# Java that shares two cores with others.
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass(frozen=True)
class Packed:
    """A folder as docs/spark-clusters.md makes one: the environment unpacked and packed, and
    Spark's settings.
    """

    folder: Path
    environment: Path
    settings: Path

    @property
    def packages(self) -> Path:
        (found,) = self.environment.glob("lib/python3.*/site-packages")
        return found

    def command(self, told: str, master: str) -> list[str]:
        """A command of that document, on this cluster with these settings, as the shell runs it."""
        for documented, here in (
            ("spark://HOST:7077", master),
            ("conf/spark-cluster.conf", self.settings.name),
        ):
            assert documented in told
            told = told.replace(documented, here)
        return ["bash", "-c", told]

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
        path = f"{self.environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return plain | {"PATH": path, "SPARK_LOCAL_IP": HOST}


def told(begin: str) -> str:
    """The one command of docs/spark-clusters.md that begins so."""
    (command,) = commands(f"{re.escape(begin)}.*", document("spark-clusters.md"))
    return command


def packing() -> str:
    """The commands of docs/spark-clusters.md that install the package in an environment and pack
    it, as one.
    """
    (found,) = re.findall(
        r"^\$ (uv build (?:.*\n)+?)```", document("spark-clusters.md"), re.MULTILINE
    )
    return found


def packed(folder: Path) -> Packed:
    """Build the wheel, install it in an environment, and pack that. Nothing is fetched: what the
    wheel requires is taken from the environment of the tests, file by file.
    """
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(environment / "bin" / "python"),
        "install",
        "--quiet",
    ]
    subprocess.run([*install, "--no-index", "--no-deps", str(wheel)], check=True)
    (packages,) = environment.glob("lib/python3.*/site-packages")
    for name in required(of_wheel(packages), {"validation", "connect"}) - {NAME}:
        _copy(name, environment)
    subprocess.run(["bash", "-c", packing().rpartition("&&")[2]], cwd=folder, check=True)
    settings = settings_of("spark-cluster.conf")
    # As the file says to do where nothing may be fetched.
    del settings["spark.jars.packages"]
    settings["spark.jars"] = ",".join(
        map(str, sorted((ROOT / ".jars" / "delta").resolve().glob("*.jar")))
    )
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
        "spark.authenticate.secret": token_hex(),
        # C1 alone encrypts slowly, and the environment that executors fetch is large.
        "spark.network.timeout": "600s",
    }
    file = folder / "spark-cluster.conf"
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    return Packed(folder, environment, file)


def of_wheel(packages: Path) -> Distribution:
    """What was installed of the wheel: its requirements are those of this checkout."""
    (found,) = distributions(path=[str(packages)], name=NAME)
    return found


def required(by: Distribution, extras: set[str]) -> set[str]:
    """The names of the distributions that one needs, itself among them, as they are installed
    here.
    """
    found: set[tuple[str, str]] = set()

    def add(of: Distribution, extras: set[str]) -> None:
        name = of.metadata["Name"]
        for extra in extras | {""}:
            if (name, extra) in found:
                continue
            found.add((name, extra))
            for line in of.requires or ():
                each = Requirement(line)
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    # Some need what is part of Python by now.
                    with suppress(PackageNotFoundError):
                        add(distribution(each.name), each.extras)

    add(by, extras)
    return {name for name, _ in found}


def _copy(name: str, environment: Path) -> None:
    """Put the files of a distribution where they belong in another environment, without a second
    copy on the disk.
    """
    (packages,) = environment.glob("lib/python3.*/site-packages")
    for file in distribution(name).files or ():
        source, place = Path(str(file.locate())), Path(os.path.normpath(packages / file))
        if source.is_file() and source.suffix != ".pyc" and not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source, place)
            except OSError:
                shutil.copy2(source, place)


@contextmanager
def standalone(packed: Packed, folder: Path) -> Iterator[str]:
    """A master and two workers, each a process of its own, with working folders of their own;
    yields its URL.
    """
    with ReservedPorts(1) as ports:
        (port,) = ports.numbers
    master = f"spark://{HOST}:{port}"
    spark_class = [str(packed.packages / "pyspark" / "bin" / "spark-class")]
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
        told(f"PYSPARK_PYTHON={UNPACKED}/")
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
