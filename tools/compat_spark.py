"""Tests of Spark and Delta on pairs of their versions, each in an environment of its own.

python -m tools.compat_spark [SPARK/DELTA ...]: all pairs, or these.

A pair has a clone of this repository's last commit, where Delta's jars are those of the pair, and
an environment with its PySpark before all that is installed here. What was tried, and what came of
it, is in docs/versions.md.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
HASHES = {
    "pyspark==4.2.0": ["5ad689d53570ee1674193fd4f9bda065f0db3be9363a27d2a3406cc457b70b61"],
    "pyspark==4.2.1": ["d79b7c8ee41e66a9202fe6f600ca90b931ca571ae9dbdf31c58d2672e5102da0"],
    "pyspark==4.3.0": ["e8c517948eff7088a7aa07449aa8eafa4a15a8d50319de2525a6fd26622476c6"],
    "delta-spark==4.4.0": [
        "7d1988ca6c3ef0ab1b886634ecdff56e930c5c2e3e479cce1125c82d7898ac3a",
        "f15cedc2c59855b1660a692f9aca1deac0c4dfcec46531b203025281b102e9c8",
    ],
    "delta-spark==4.4.1": [
        "224814c76071236dd98c23e8d01da9f43bec21af4129cae92822ca25e5becec7",
        "5f1abe0529a879c68e21fde16d2c40efabeb7c97ac423d6ae1222d4b73b95872",
    ],
}
"""Name of an installed package -> the SHA-256 of its files (`uv pip compile --generate-hashes`)."""
TESTS = (
    "tests/spark/test_session.py",
    "tests/spark/test_lake.py",
    "tests/spark/test_history.py",
    "tests/spark/test_checkpoints.py",
    "tests/spark/test_upkeep.py",
    "tests/spark/test_views.py",
    # A pipeline that is killed, terminated and run once, by spark-submit.
    "tests/kafka/test_runs.py",
)


@dataclass(frozen=True)
class Pair:
    """Versions of Spark and of Delta."""

    spark: str
    delta: str

    def __str__(self) -> str:
        return f"{self.spark}/{self.delta}"

    @property
    def requirements(self) -> str:
        """Lines for pip, with checksums."""
        return "\n".join(
            " ".join([each, *(f"--hash=sha256:{of}" for of in HASHES[each])])
            for each in (f"pyspark=={self.spark}", f"delta-spark=={self.delta}")
        )

    @property
    def module(self) -> str:
        """The name of Delta's jar for this Spark."""
        return f"delta-spark_{self.spark.rpartition('.')[0]}_2.13"


PAIRS = (Pair("4.2.0", "4.4.0"), Pair("4.2.1", "4.4.0"), Pair("4.3.0", "4.4.1"))
"""The first is that of constraints.txt."""


class UntriedError(RuntimeError):
    """Raised when a pair cannot be had. One line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Return 1 if a test failed; a pair that cannot be had is a line."""
    parser = argparse.ArgumentParser(prog="python -m tools.compat_spark", description=__doc__)
    names = {str(pair): pair for pair in PAIRS}
    parser.add_argument("pairs", nargs="*", metavar="SPARK/DELTA", help=", ".join(names))
    asked = parser.parse_args(argv).pairs or [*names]
    if unknown := next((each for each in asked if each not in names), None):
        parser.error(f"{unknown}: there are {', '.join(names)}")
    said = {each: _said(names[each]) for each in asked}
    for name, found in said.items():
        print(f"Spark {names[name].spark}, Delta {names[name].delta}: {found}")
    return 1 if "failed" in said.values() else 0


def _said(pair: Pair) -> str:
    with TemporaryDirectory(prefix="compat-spark-") as folder:
        clone, environment = Path(folder, "repository"), Path(folder, "venv")
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
        try:
            _jars(pair, clone)
            make_environment(pair, environment)
        except UntriedError as error:
            return f"untried: {error}"
        path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        tests = [environment / "bin" / "python", "-m", "pytest", "-q", "-n", "0", *TESTS]
        own = os.environ | {"PATH": path, "PYTHONPATH": str(clone)}
        done = subprocess.run(tests, cwd=clone, env=own, check=False)
        return "passed" if done.returncode == 0 else "failed"


def _jars(pair: Pair, clone: Path) -> None:
    """Fetch Delta's jars of a pair, and have a clone take them. Raises UntriedError."""
    file = clone / "kafka_metadata_history" / "jars" / "delta.py"
    code, first = file.read_text("utf-8"), PAIRS[0]
    code = code.replace(f'DELTA = "{first.delta}"', f'DELTA = "{pair.delta}"')
    file.write_text(code.replace(first.module, pair.module), "utf-8")
    (clone / ".jars").mkdir()
    for there in (ROOT / ".jars").glob("kafka-*"):
        (clone / ".jars" / there.name).symlink_to(there)
    done = subprocess.run(
        [sys.executable, "-c", "from kafka_metadata_history.jars import delta; delta.main()"],
        cwd=clone,
        env=os.environ | {"PYTHONPATH": str(clone)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UntriedError(done.stderr.strip().splitlines()[-1].rpartition("Error: ")[2])


def make_environment(pair: Pair, environment: Path) -> None:
    """Make an environment with a pair, before all that is installed here. Raises UntriedError."""
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python3.*/site-packages")
    (packages / "here.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    requirements = environment / "requirements.txt"
    requirements.write_text(pair.requirements, "utf-8")
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install"]
    how = ["--quiet", "--require-hashes", "--no-deps", "--no-build-isolation", "--no-compile"]
    what = ["--ignore-installed", "--requirement", requirements]
    done = subprocess.run([*pip, *how, *what], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        raise UntriedError(lines[-1].removeprefix("ERROR: ") if lines else done.stderr)


if __name__ == "__main__":
    sys.exit(main())
