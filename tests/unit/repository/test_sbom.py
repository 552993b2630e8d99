"""The bill of materials lists what is installed, with its version, and who asks for it."""

import json
import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kafka_metadata_history.jars.delta import MODULES
from tests.support.repository import ROOT
from tools import licences, sbom

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGE = str(PROJECT["name"])
LOCKED = dict(re.findall(r"(?m)^([\w.-]+)==([^\s;]+)", (ROOT / "constraints.txt").read_text()))


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    file = tmp_path_factory.mktemp("sbom") / "new" / "bill.json"
    sbom.main(str(file))
    read: dict[str, object] = json.loads(file.read_text())
    return read


def components(bill: dict) -> dict[str, dict]:
    return {each["bom-ref"]: each for each in bill["components"]}


def test_each_package_that_runs_is_listed_with_its_locked_version(bill: dict) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"]) == (PACKAGE, PROJECT["version"])
    listed = components(bill)
    asked = [canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]]
    assert [name for name in asked if listed[name]["scope"] != "required"] == []
    packages = {name: each for name, each in listed.items() if ":" not in name}
    assert len(packages) > 80
    for name, each in packages.items():
        assert each["version"] == LOCKED[name], name
        assert each["purl"] == f"pkg:pypi/{name}@{LOCKED[name]}"
        assert each["licenses"], name
    rows = re.findall(r"(?m)^\| ([\w.-]+) \| \S+ \| .* \| (.*) \|$", licences.FILE.read_text())
    scopes = {name: "optional" if extra.strip() else "required" for name, extra in rows[1:]}
    assert {name: each["scope"] for name, each in packages.items()}.items() <= scopes.items()


def test_each_jar_is_listed_with_its_checksum(bill: dict) -> None:
    jars = {name: each for name, each in components(bill).items() if ":" in name}
    assert {(each["group"], each["name"], each["version"]) for each in jars.values()} == {*MODULES}
    known = (ROOT / "kafka_metadata_history" / "jars" / "sha256.txt").read_text().splitlines()
    for each in jars.values():
        (sum_,) = each["hashes"]
        assert f"{sum_['content']}  {each['name']}-{each['version']}.jar" in known


def test_it_says_who_asks_for_a_package(bill: dict) -> None:
    asking = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert {"pyspark", "duckdb", "mcp"} <= {*asking[PACKAGE]}
    assert "py4j" in asking["pyspark"]
    asked = {name for names in asking.values() for name in names}
    assert asked == {*components(bill)}, "nothing is listed that nobody asks for"
