"""What is installed on a cluster: the wheel has all that runs, and nothing else, and its jobs are
commands.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jobs.validation import validity
from schemas.lake import VIEWS
from tests.support.repository import ROOT
from tests.support.standalone import packing

PACKAGES = ("metadata_source", "schemas", "jobs", "kafka_metadata_history", "local_cluster")
JOBS = sorted(
    file.stem
    for file in (ROOT / "jobs").glob("*.py")
    if '__name__ == "__main__"' in file.read_text()
)
SHOW = """
import contextlib, io, json, runpy, sys
site, *jobs = sys.argv[1:]
sys.path.insert(0, site)
from jobs.validation import validity
from kafka_metadata_history.answers.questions import names
from schemas.lake import VIEWS
shown = {"from": validity.__file__, "queries": names(), "views": len(VIEWS)}
shown["subjects"] = [*validity.SUBJECTS]
shown["jobs"] = {}
for job in jobs:
    sys.argv = [job, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_path(f"{site}/jobs/{job}.py", run_name="__main__")
        except SystemExit as end:
            shown["jobs"][job] = [end.code, out.getvalue()]
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.parametrize("is_installable", [True, False])
def test_an_environment_is_packed_as_the_document_says(
    tmp_path: Path, *, is_installable: bool
) -> None:
    """Typed as it is printed, but for what would be fetched: builds have the tools of this
    environment, and nothing is installed of what the package needs (tests/kafka/test_installed.py
    fetches it). What fails ends it.
    """
    typed = packing()
    for printed, here in (
        ("uv build ", f"uv build --offline --no-build-isolation --python {sys.executable} "),
        (" --out-dir .", f" --out-dir . {ROOT}"),
        ("uv pip install ", "uv pip install --offline --no-deps "),
    ):
        assert printed in typed
        typed = typed.replace(printed, here)
    for name in (
        ("constraints.txt", "constraints-build.txt")
        if is_installable
        else ("constraints-build.txt",)
    ):
        shutil.copy(ROOT / name, tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", typed],
        cwd=tmp_path,
        env=os.environ | {"PATH": path, "UV_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    archive = tmp_path / "environment.tar.gz"
    assert (done.returncode == 0, archive.exists()) == (is_installable, is_installable), done.stderr
    if is_installable:
        listed = subprocess.run(
            ["tar", "-tzf", str(archive)], capture_output=True, text=True, check=True
        )
        names = listed.stdout.splitlines()
        assert {"./bin/python3", "./bin/kafka-metadata-history"} <= {*names}
        assert [name for name in names if name.endswith("/site-packages/jobs/pipeline.py")]


def test_the_wheel_has_the_packages_whole_and_no_more(wheel: Path) -> None:
    own = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    settings = "kafka_metadata_history/spark-defaults.conf"
    formats = ("metadata", "group_log", "transaction_log", "cluster_log")
    sources = {f"pyspark_kafka_{name}.py" for name in formats}
    assert names == own | sources | {settings}


def test_its_jobs_are_commands_with_all_that_they_read(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    command = [sys.executable, "-I", "-W", "ignore", "-c", SHOW, str(site), *JOBS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["from"] == str(site / "jobs" / "validation" / "validity.py")
    assert shown["queries"] == sorted(
        file.stem for file in (ROOT / "schemas" / "queries").glob("*.sql")
    )
    assert (shown["views"], shown["subjects"]) == (len(VIEWS), list(validity.SUBJECTS))
    assert sorted(shown["jobs"]) == JOBS
    assert len(JOBS) > 8
    for job, (status, said) in shown["jobs"].items():
        assert status == 0, job
        assert said.startswith(f"usage: {job}"), said
        assert "--config FILE" in said
