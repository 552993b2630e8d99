"""The environment of executors, packed from packages that are made up here."""

import json
import sys
import tarfile
from collections.abc import Callable
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest

from kafka_metadata_history import environment
from kafka_metadata_history.environment import PackError, closure, files_of, pack

SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"

Install = Callable[..., Distribution]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package with a module of its name, and returns it. Nothing else is installed."""
    site = tmp_path / "site"
    site.mkdir()

    def installed(
        name: str, *needs: str, record: str = "", origin: str | None = None
    ) -> Distribution:
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir()
        requires = "".join(f"Requires-Dist: {each}\n" for each in needs)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}"
        )
        (site / f"{name}.py").write_text(f"'''{name}'''")
        files = [f"{name}.py,,", f"{info.name}/METADATA,,", record]
        (info / "RECORD").write_text("\n".join(files))
        if origin is not None:
            (info / "direct_url.json").write_text(origin)
        (found,) = distributions(path=[str(site)], name=name)
        return found

    monkeypatch.setattr(sys, "path", [str(site)])
    return installed


def test_all_that_is_needed_here_is_packed_and_the_extras_that_are_installed(
    install: Install,
) -> None:
    own = install(
        "own",
        "alpha>=1; python_version >= '3'",
        "winter; sys_platform == 'win32'",
        "grpc; extra == 'connect'",
        "rules[docs]; extra == 'validation'",
        "amazon; extra == 'msk'",
        "other; extra == 'mcp'",
    )
    for each in (("alpha", "beta"), ("beta", "alpha"), ("grpc",), ("other",)):
        install(*each)
    install("rules", "sphinx; extra == 'docs'")
    found, extras = closure(own)
    assert (extras, {*found}) == (("connect",), {"own", "alpha", "beta", "grpc"})
    install("sphinx")
    found, extras = closure(own)
    assert extras == ("connect", "validation")
    assert {*found} == {"own", "alpha", "beta", "grpc", "rules", "sphinx"}


def test_a_package_that_is_missing_is_named(install: Install) -> None:
    own = install("own", "alpha")
    install("alpha", "beta<2")
    with pytest.raises(PackError, match="alpha needs beta<2, which is not installed"):
        closure(own)


def test_scripts_compiled_files_and_the_jars_of_spark_are_left_out(install: Install) -> None:
    left_out = (
        "../../../bin/pyspark",
        "pyspark/jars/core.jar",
        "__pycache__/pyspark.cpython-311.pyc",
    )
    files = files_of("pyspark", install("pyspark", record=",,\n".join(left_out)))
    assert {*files} == {"pyspark.py", "pyspark-1.0.dist-info/METADATA"}


def test_a_link_to_sources_is_refused(install: Install) -> None:
    origin = json.dumps({"url": "file:///src", "dir_info": {"editable": True}})
    with pytest.raises(PackError, match="alpha is installed as a link to its sources: install it"):
        files_of("alpha", install("alpha", origin=origin))
    files_of("beta", install("beta", origin=json.dumps({"url": "file:///src", "dir_info": {}})))


@pytest.fixture
def installed(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This package, with another one that it needs."""
    install("kafka-metadata-history", "alpha")
    install("alpha")
    monkeypatch.setattr(environment, "_CHECKOUT", tmp_path)


@pytest.mark.usefixtures("installed")
def test_the_same_packages_give_the_same_archive(tmp_path: Path) -> None:
    one, two, place = tmp_path / "one.tar.gz", tmp_path / "two.tgz", tmp_path / "unpacked"
    made = pack(one)
    (tmp_path / "site" / "alpha.py").touch()
    assert pack(two) == made
    assert one.read_bytes() == two.read_bytes()
    assert made.packages == {"kafka-metadata-history": "1.0", "alpha": "1.0"}
    assert made.extras == ()
    with tarfile.open(one) as archive:
        archive.extractall(place, filter="fully_trusted")  # noqa: S202
    assert (place / SITE / "alpha.py").read_text() == "'''alpha'''"
    assert (place / "bin" / "python").resolve() == made.python.resolve()
    assert f"home = {made.python.parent}\n" in (place / "pyvenv.cfg").read_text()


@pytest.mark.usefixtures("installed")
def test_nothing_is_overwritten_and_nothing_half_is_left(tmp_path: Path) -> None:
    there = tmp_path / "there.tar.gz"
    there.write_text("kept")
    with pytest.raises(PackError, match=r"there\.tar\.gz: is there already; nothing was written"):
        pack(there)
    assert there.read_text() == "kept"
    with pytest.raises(PackError, match=r"env\.zip: executors unpack \.tar\.gz alone"):
        pack(tmp_path / "env.zip")
    with pytest.raises(PackError, match=r"env\.tar\.gz: cannot be written: No such file"):
        pack(tmp_path / "no" / "env.tar.gz")
    (tmp_path / "site" / "alpha.py").unlink()
    with pytest.raises(PackError, match=r"alpha lacks its file .*/alpha\.py: install it again"):
        pack(tmp_path / "env.tar.gz")
    assert not (tmp_path / "env.tar.gz").exists()
