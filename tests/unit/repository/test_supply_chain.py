"""Nothing comes to a machine whose checksum is not in a file here, and of what runs the licence is
listed.
"""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kafka_metadata_history.jars import delta, fetch
from kafka_metadata_history.jars.errors import JarsError
from tests.support.repository import ROOT
from tools import licences
from truth.versions import VERSIONS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = ("constraints.txt", "constraints-build.txt")


def locked(name: str) -> dict[str, tuple[Requirement, set[str]]]:
    """The packages of a file, with their checksums."""
    found = {}
    for entry in (ROOT / name).read_text().replace("\\\n", " ").splitlines():
        if not entry.startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=", entry.strip())
            parsed = Requirement(requirement)
            found[canonicalize_name(parsed.name)] = (parsed, set(hashes))
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_each_package_is_one_version_with_its_checksums(name):
    for requirement, hashes in locked(name).values():
        assert re.fullmatch(r"==[^*]+", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement


def test_all_that_the_project_asks_for_is_locked():
    """As `pip install --no-deps` of the project does not look."""
    extras = PROJECT["project"]["optional-dependencies"]
    asked = {
        "constraints.txt": [
            *PROJECT["project"]["dependencies"],
            *(each for extra in extras.values() for each in extra),
        ],
        "constraints-build.txt": [
            *PROJECT["build-system"]["requires"],
            *PROJECT["dependency-groups"]["build"],
        ],
    }
    for file, requirements in asked.items():
        versions = locked(file)
        for each in map(Requirement, requirements):
            if each.name != PROJECT["project"]["name"]:
                (version,) = versions[canonicalize_name(each.name)][0].specifier
                assert each.specifier.contains(version.version), f"{each} and {file}: `make lock`"


# --- jars ---


def jars_of(version: str) -> list[str]:
    """The main jars of a version of Kafka that is tried, those of truth/log.py among them."""
    return [f"{name}-{version}.jar" for name in ("kafka_2.13", "kafka-clients", "kafka-tools")]


def test_the_jars_of_every_version_that_is_tried_have_checksums():
    names = {line.split("  ")[1] for line in fetch.CHECKSUMS.read_text().splitlines()}
    wanted = [name for version in VERSIONS for name in jars_of(version.kafka_version)]
    wanted += [f"{module}-{revision}.jar" for _, module, revision in delta.MODULES]
    assert [name for name in wanted if name not in names] == []


@pytest.fixture
def checksums(tmp_path, monkeypatch) -> Path:
    """The file, with one jar of no bytes."""
    file = tmp_path / "sha256.txt"
    file.write_text(
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  known-1.jar\n"
    )
    monkeypatch.setattr(fetch, "CHECKSUMS", file)
    return file


def jar(folder: Path, name: str, content: bytes = b"") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def test_a_jar_of_other_bytes_is_refused(tmp_path, checksums):
    fetch.check([jar(tmp_path, "known-1.jar")], "")
    for record in (False, True):
        with pytest.raises(
            JarsError,
            match=rf"^known-1\.jar: its SHA-256 is \w+, and e3b0c\w+ in {checksums}$",
        ):
            fetch.check([jar(tmp_path, "known-1.jar", b"x")], "", record=record)


def test_a_jar_that_nobody_wrote_down_is_refused_until_somebody_does(tmp_path, checksums):
    jars = [jar(tmp_path, name, name.encode()) for name in ("b-2.jar", "a-1.jar")]
    before = checksums.read_text()
    with pytest.raises(JarsError) as refused:
        fetch.check(jars, "org b 2 folder")
    assert str(refused.value) == (
        f"a-1.jar and 1 more: not in {checksums}. If these jars are to be trusted, write down "
        "what they are: "
        "`python -m kafka_metadata_history.jars org b 2 folder --record`"
    )
    assert checksums.read_text() == before
    fetch.check(jars, "", record=True)
    fetch.check(jars, "")
    assert [line.split("  ")[1] for line in checksums.read_text().splitlines()] == [
        "a-1.jar",
        "b-2.jar",
        "known-1.jar",
    ]


# --- licences ---


@pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info[:2] != (3, 11),
    reason="the list is that of Linux with Python 3.11",
)
def test_the_list_of_licences_is_current():
    listed = licences.listed()
    assert licences.FILE.read_text() == listed, "run `make lock`, or `python -m tools.licences`"
    rows = [
        line.strip("| ").split(" | ")[:2]
        for line in listed.split("\n| jar |")[0].splitlines()[9:]
        if line
    ]
    assert len(rows) > 80
    versions = locked("constraints.txt")
    assert [row for row in rows if not versions[row[0]][0].specifier.contains(row[1])] == []


def test_a_package_without_a_licence_is_named(tmp_path):
    (tmp_path / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: silent\nVersion: 1\nLicense: UNKNOWN\n"
    )
    with pytest.raises(licences.LicenceError, match="silent 1 does not say what its licence is"):
        licences.licence(licences.Distribution.at(tmp_path))
