"""What set-up does on machines that lack something, tried with stand-ins for `java` and
`python3`.
"""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from kafka_metadata_history.jars import delta
from kafka_metadata_history.jars.errors import JarsError
from tests.support.repository import ROOT
from tools import check_machine


def program(file: Path, script: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def java(home: Path, version: str) -> Path:
    return program(home / "bin" / "java", f"""echo 'openjdk version "{version}" 2025-04-15' >&2""")


@pytest.fixture
def path(tmp_path, monkeypatch) -> Path:
    """A folder that alone is the PATH, with a Java 17 in it."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    java(tmp_path / "path", "17.0.15")
    return tmp_path / "path"


def test_java_of_java_home_comes_before_the_one_on_the_path(path, tmp_path, monkeypatch):
    assert check_machine.java_problem() is None
    home = tmp_path / "home"
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert check_machine.java_problem().startswith(
        f"Java 17 or newer is needed and JAVA_HOME is {home}, which has no bin/java: "
    )
    java(home, "11.0.2")
    assert (
        f'`{home}/bin/java -version` says \'openjdk version "11.0.2"'
        in check_machine.java_problem()
    )
    java(home, "21.0.1")
    java(path, "1.8.0_452")
    assert check_machine.java_problem() is None
    monkeypatch.delenv("JAVA_HOME")
    assert '`java -version` says \'openjdk version "1.8.0_452"' in check_machine.java_problem()
    (path / "bin" / "java").unlink()
    assert "`java` is not on the PATH: install a JDK" in check_machine.java_problem()


def test_a_python_that_cannot_make_environments_is_named_with_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert (
        "without ensurepip, which venv needs: `apt-get install python3."
        in check_machine.python_problem()
    )
    program(Path(check_machine.PIP), "")
    assert check_machine.python_problem() is None


def test_make_begins_an_environment_without_pip_anew(tmp_path):
    """As `python -m venv` leaves it where ensurepip is missing: with a python, and no pip."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "constraints-build.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "check_machine.py").touch()
    program(tmp_path / ".venv/bin/python", "exit 1  # No module named pip")
    python = program(
        tmp_path / "python3",
        'echo "$@" >> calls; [ "$1" = -m ] || exit 0\n'
        "touch .venv/bin/pip && chmod +x .venv/bin/pip && printf '#!/bin/sh\\n' > .venv/bin/python",
    )
    for _ in range(2):
        subprocess.run(
            ["make", f"PYTHON={python}", ".venv/.ready"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
        (tmp_path / ".venv/.ready").unlink()  # another installation, not another environment
    assert (tmp_path / "calls").read_text().splitlines() == [
        "tools/check_machine.py",
        "-m venv --clear .venv",
        "tools/check_machine.py",
    ]


def test_jars_of_another_version_are_replaced_whole(tmp_path, monkeypatch):
    asked, refused = [], ["delta-storage"]

    def fetch_jars(
        organisation: str, module: str, revision: str, folder: Path, *, transitive: bool
    ) -> list[Path]:
        if module in refused:
            raise JarsError(f"{module}: of other bytes")
        asked.append(module)
        folder.mkdir()
        jar = folder / f"{module}-{revision}.jar"
        jar.touch()
        return [jar]

    monkeypatch.setattr(delta, "JARS", tmp_path / ".jars")
    monkeypatch.setattr(delta, "fetch_jars", fetch_jars)
    folder = tmp_path / ".jars" / "delta"
    folder.mkdir(parents=True)
    (folder / "delta-storage-3.0.0.jar").touch()
    with pytest.raises(JarsError, match="of other bytes"):
        delta.main()
    assert [jar.name for jar in folder.iterdir()] == ["delta-storage-3.0.0.jar"]
    asked.clear()
    refused.clear()
    for _ in range(2):
        delta.main()
        assert sorted(jar.name for jar in folder.iterdir()) == sorted(
            f"{module}-{revision}.jar" for _, module, revision in delta.MODULES
        )
        assert len(asked) == len(delta.MODULES)
