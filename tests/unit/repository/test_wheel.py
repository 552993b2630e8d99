"""What is installed on a cluster: the wheel has all that runs, and nothing else, and its jobs are
commands.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hatch_build import PlainImportError, renamed
from jobs.validation import validity
from schemas.lake import VIEWS
from tests.support.repository import ROOT
from tests.support.strangers import strangers

PLACES: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"][
    "build"
]["targets"]["wheel"]["sources"]
"""Folders of the repository -> where the wheel has them."""
JOBS = sorted(
    file.stem
    for file in (ROOT / "jobs").glob("*.py")
    if '__name__ == "__main__"' in file.read_text()
)
SHOW = """
import contextlib, io, json, runpy, sys
site, *jobs = sys.argv[1:]
sys.path.insert(0, site)
from kafka_metadata_history.answers.questions import names
from kafka_metadata_history.jobs.validation import validity
from kafka_metadata_history.schemas.lake import VIEWS
shown = {"from": validity.__file__, "queries": names(), "views": len(VIEWS)}
shown["subjects"] = [*validity.SUBJECTS]
shown["jobs"] = {}
for job in jobs:
    sys.argv = [job, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_path(f"{site}/kafka_metadata_history/jobs/{job}.py", run_name="__main__")
        except SystemExit as end:
            shown["jobs"][job] = [end.code, out.getvalue()]
print(json.dumps(shown))
"""
OF_EXTRAS = [
    "kafka_metadata_history.agents.server",
    "kafka_metadata_history.agents.tools",
    "kafka_metadata_history.jobs.validation.expectations",
    "kafka_metadata_history.jobs.validation.run",
    "kafka_metadata_history.local_cluster.certificates",
]
"""Modules that cannot be imported without packages which the wheel alone does not bring."""
IMPORT_ALL = """
import importlib, json, sys
path, lacking, modules, of_extras = json.loads(sys.argv[1])
sys.path[:0] = path
sys.modules |= dict.fromkeys(lacking)
for module in modules:
    importlib.import_module(module)
for name in lacking:
    del sys.modules[name]
for module in of_extras:
    importlib.import_module(module)
print(json.dumps({name: getattr(sys.modules[name], "__file__", None) for name in sys.modules}))
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


def test_the_wheel_has_the_packages_whole_and_no_more(wheel: Path) -> None:
    own = {
        str(Path(place, file.relative_to(ROOT / folder)))
        for folder, place in {**PLACES, "kafka_metadata_history": "kafka_metadata_history"}.items()
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    settings = "kafka_metadata_history/spark-defaults.conf"
    formats = ("metadata", "group_log", "transaction_log", "cluster_log")
    sources = {f"pyspark_kafka_{name}.py" for name in formats}
    assert names == own | sources | {settings}


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_each_module_is_imported_beside_others_packages_of_our_folders_names(
    site: Path, tmp_path: Path
) -> None:
    """And without the packages of the extras, unless it is of one."""
    tops = {each.name.removesuffix(".py") for each in site.iterdir() if each.suffix != ".dist-info"}
    assert {
        each for each in tops if not each.startswith(("kafka_metadata_history", "pyspark_kafka_"))
    } == set()
    modules = sorted(
        ".".join(file.relative_to(site).with_suffix("").parts).removesuffix(".__init__")
        for file in site.rglob("*.py")
    )
    assert len(modules) > 400
    path = [str(strangers(tmp_path, PLACES)), str(site)]
    brought = without_extras("kafka-metadata-history")
    lacking = [
        name
        for name, by in packages_distributions().items()
        if brought.isdisjoint(map(canonicalize_name, by)) and name not in tops
    ]
    assert {"cryptography", "great_expectations", "mcp"} <= set(lacking)
    plain = [each for each in modules if each not in OF_EXTRAS]
    asked = json.dumps([path, lacking, plain, OF_EXTRAS])
    command = [sys.executable, "-I", "-W", "ignore", "-c", IMPORT_ALL, asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    imported = json.loads(done.stdout)
    assert {each: imported[each] for each in PLACES if each in imported} == {}
    assert [each for each in modules if not imported[each].startswith(f"{site}/")] == []


def without_extras(package: str) -> set[str]:
    """The names of all packages that come with a package."""
    found: set[str] = set()
    more = {package}
    while more:
        found |= more
        requirements = {Requirement(line) for each in more for line in requires(each) or ()}
        more = {
            canonicalize_name(each.name)
            for each in requirements
            if each.marker is None or each.marker.evaluate()
        } - found
    return found


def test_no_module_names_another_one_by_its_folder(site: Path) -> None:
    """Where it is imported only when it is needed, or from a text."""
    folder = rf"(?:{'|'.join(PLACES)})"
    found = [
        f"{file.relative_to(site)}: {named}"
        for file in site.rglob("*.py")
        for named in named_modules(ast.parse(file.read_text()))
        if re.match(rf"{folder}(?:\.|$)", named)
    ]
    assert found == []


def named_modules(code: ast.Module) -> Iterator[str]:
    """The names of imported modules, and texts that could be such names: no docstrings, and of
    command lines only the word after -m.
    """
    nodes = list(ast.walk(code))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module
            case ast.Constant(value=str(text)) if id(node) not in docstrings and "." in text:
                yield text
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                texts = [each.value if isinstance(each, ast.Constant) else "" for each in parts]
                yield from (
                    str(texts[at + 1]) for at, each in enumerate(texts[:-1]) if each == "-m"
                )


@pytest.mark.parametrize(
    ("code", "in_the_wheel"),
    [
        ("from jobs.run import cli\n", "from p.jobs.run import cli\n"),
        ("from jobs import (\n    job,\n)\n", "from p.jobs import (\n    job,\n)\n"),
        (
            "def f():\n    from jobs import job  # from jobs\n",
            "def f():\n    from p.jobs import job  # from jobs\n",
        ),
        ('"""\nfrom jobs import job\n"""\n', '"""\nfrom jobs import job\n"""\n'),
        ("from jobs_of import jobs\n", "from jobs_of import jobs\n"),
        ("from . import jobs\nimport own.jobs\n", "from . import jobs\nimport own.jobs\n"),
    ],
)
def test_imports_follow_their_packages(code: str, in_the_wheel: str) -> None:
    assert renamed(code, {"jobs": "p.jobs"}, "a.py") == in_the_wheel


@pytest.mark.parametrize("code", ["import jobs", "import os, jobs.run", "import jobs as it"])
def test_an_import_that_cannot_follow_is_refused(code: str) -> None:
    with pytest.raises(PlainImportError, match=r"^a\.py:2: import jobs.*: write from "):
        renamed(f"\n{code}\n", {"jobs": "p.jobs"}, "a.py")


def test_its_jobs_are_commands_with_all_that_they_read(site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-W", "ignore", "-c", SHOW, str(site), *JOBS]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["from"] == str(
        site / "kafka_metadata_history" / "jobs" / "validation" / "validity.py"
    )
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
