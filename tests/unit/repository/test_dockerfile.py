"""The steps of deploy/docker/Dockerfile, without Docker: files, stages, packages and programs that
they name exist. The step that installs is run, in a folder, as it is in the file.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.repository import ROOT

DOCKERFILE: Final = ROOT / "deploy" / "docker" / "Dockerfile"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WHEEL: Final = f"{PROJECT['name'].replace('-', '_')}-{PROJECT['version']}-py3-none-any.whl"
CONTEXT: Final = (WHEEL, "requirements.txt", "constraints-build.txt")
"""The folder from which images are built."""
OPT: Final = "/opt/kafka-metadata-history"


class Stage(NamedTuple):
    image: str
    name: str
    steps: list[tuple[str, str]]


def stages(text: str) -> list[Stage]:
    """Each stage with its instructions: name and arguments, on one line."""
    found: list[Stage] = []
    whole = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    for line in filter(None, whole.splitlines()):
        instruction, arguments = line.split(None, 1)
        if instruction == "FROM":
            image, _, name = arguments.split()
            found.append(Stage(image, name, []))
        else:
            found[-1].steps.append((instruction, arguments))
    return found


STAGES: Final = stages(DOCKERFILE.read_text())


def steps(instruction: str) -> list[tuple[str, str]]:
    """Arguments of all such instructions, each with the name of its stage."""
    return [
        (stage.name, arguments)
        for stage in STAGES
        for found, arguments in stage.steps
        if found == instruction
    ]


def commands(stage: str) -> list[list[str]]:
    """The commands that a stage runs, as words."""
    return [
        shlex.split(command)
        for name, arguments in steps("RUN")
        if name == stage
        for command in arguments.split("&&")
    ]


def test_stages_stand_on_images_and_on_each_other() -> None:
    names = [stage.name for stage in STAGES]
    assert names == ["build", "command", "spark"]
    python = PROJECT["requires-python"].removeprefix(">=")
    for place, stage in enumerate(STAGES):
        assert stage.image in names[:place] or stage.image.startswith(f"python:{python}-slim-")
    (home,) = (value for name, value in steps("ENV") if name == "spark")
    assert home == f"SPARK_HOME={OPT}/lib/python{python}/site-packages/pyspark"
    for stage, arguments in steps("COPY"):
        if source := re.match(r"--from=(\S+) ", arguments):
            spark = re.search(r"(?m)^pyspark==(\S+)", (ROOT / "constraints.txt").read_text())
            assert spark is not None
            known = [*names[: names.index(stage)], f"apache/spark:{spark[1]}"]
            assert source[1] in known


def test_files_that_are_copied_are_those_of_the_folder() -> None:
    lines = DOCKERFILE.read_text()
    copied = [word for name, of in steps("COPY") if name == "build" for word in of.split()[:-1]]
    assert {each for pattern in copied for each in CONTEXT if fnmatch.fnmatch(each, pattern)} == {
        *CONTEXT
    }
    assert all(any(fnmatch.fnmatch(each, pattern) for each in CONTEXT) for pattern in copied)
    for name in ("constraints-build.txt", "constraints.txt", "pyproject.toml"):
        assert (ROOT / name).exists()
        assert name in lines
    assert re.findall(r"--extra (\w+)", lines) == ["validation"]
    assert "validation" in PROJECT["optional-dependencies"]


def test_each_step_names_files_that_are_there_by_then() -> None:
    there = {*CONTEXT}
    for command in commands("build"):
        for option, value in pairwise(command):
            if option == "--requirement":
                assert value in there
            if option == "--wheel-dir":
                there.add(f"{value}/")
        for word in command:
            if word.endswith(".whl"):
                folder, _, pattern = word.rpartition("/")
                assert f"{folder}/" in there or fnmatch.filter(there, pattern), word
        if command[0].startswith("/"):
            assert command[0].removeprefix(OPT) == "/bin/pip"
        if command[1:3] == ["-m", "venv"]:
            there.add(command[3])
    assert OPT in there
    assert ("command", f"--from=build {OPT} {OPT}") in steps("COPY")


def test_the_user_the_command_and_its_folders() -> None:
    (user,) = (command for command in commands("command") if command[0] == "useradd")
    uid, home = (user[user.index(option) + 1] for option in ("--uid", "--home-dir"))
    assert [of for name, of in steps("USER")] == [f"{uid}:{uid}", "0:0", f"{uid}:{uid}"]
    assert ("command", home) in steps("WORKDIR")
    (made,) = (command for command in commands("command") if command[0] == "install")
    assert made[made.index("--owner") + 1] == user[-1]
    assert ("command", made[-1]) in steps("VOLUME")
    assert [json.loads(of) for name, of in steps("ENTRYPOINT") if name == "command"] == [
        [*PROJECT["scripts"]]
    ]


def packages() -> list[str]:
    """The packages of the system that are installed."""
    return [
        word
        for stage in ("command", "spark")
        for command in commands(stage)
        if command[:2] == ["apt-get", "install"]
        for word in command[2:]
        if not word.startswith("-")
    ]


def test_packages_of_the_system_exist() -> None:
    """By the lists of this machine, if it is what the image is: Debian's bookworm."""
    release = Path("/etc/os-release")
    if not release.exists() or "VERSION_CODENAME=bookworm" not in release.read_text():
        pytest.skip("only Debian's bookworm knows the packages of the image")
    lists = list(Path("/var/lib/apt/lists").glob("*_Packages*"))
    if shutil.which("apt-cache") is None or not lists:
        pytest.skip("needs the lists of packages: apt-get update")
    assert packages()
    for name in packages():
        done = subprocess.run(
            ["apt-cache", "show", name], capture_output=True, text=True, check=False
        )
        assert f"Package: {name}\n" in done.stdout, name


# --- as it is ---


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_step_that_installs_makes_the_command(tmp_path: Path) -> None:
    """Without Docker: in a folder, and with pip's cache, which spares the network."""
    folder, opt = tmp_path / "context", tmp_path / "opt"
    folder.mkdir()
    build = ("-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    run(sys.executable, *build, cwd=ROOT)
    assert (folder / WHEEL).exists()
    shutil.copy(ROOT / "constraints-build.txt", folder)
    (compiled,) = re.findall(r"(uv pip compile .*(?:\n# +--.*)*)", DOCKERFILE.read_text())
    words = shlex.split(compiled.replace("\n#", " "))[1:]
    place = words.index("--output-file") + 1
    words[place] = str(folder / words[place])
    uv = Path(sys.executable).parent / "uv"
    run(uv, *words, cwd=ROOT, VIRTUAL_ENV="")
    run(sys.executable, "-m", "venv", tmp_path / "image", cwd=tmp_path)
    (step,) = (of for name, of in steps("RUN") if name == "build")
    line = step.replace(OPT, str(opt)).replace("--no-cache-dir ", "")
    path = f"{tmp_path / 'image' / 'bin'}:{os.environ['PATH']}"
    run("/bin/sh", "-ec", line, cwd=folder, PATH=path, PYTHONPATH="")
    help_ = run(opt / "bin" / PROJECT["name"], "--help", cwd=tmp_path, PYTHONPATH="")
    assert "serve" in help_
    site = next((opt / "lib").glob("python3.*")) / "site-packages"
    assert (site / "kafka_metadata_history" / "jobs" / "pipeline.py").exists()
    assert (site / "pyspark").is_dir()
