"""The Python environment that executors of a Spark cluster need: this package and all that it
needs, in one archive that Spark unpacks (`spark.archives`).

It is made of the files of installed packages, by their own lists of files. So it is the same
whatever else is installed beside them, and needs no network. The jars of Spark are left out:
a cluster has its own.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Final
from zipfile import ZipFile

from packaging.requirements import Requirement

from kafka_metadata_history.names import NAME
from metadata_source.errors import KafkaMetadataHistoryError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXTRAS: Final = ("connect", "msk", "validation")
"""The extras of this package that jobs use."""
SUFFIXES: Final = (".tar.gz", ".tgz")
"""By them Spark knows what to unpack."""
_CHECKOUT: Final = Path(__file__).resolve().parents[1]
_LEFT_OUT: Final = ("..", "pyspark/jars/")
"""Beginnings of the files that are left out: scripts, which name this machine's Python, and
Spark's jars.
"""
_MADE_AT: Final = 315_532_800  # 1980-01-01, so that the same files give the same archive


class PackError(KafkaMetadataHistoryError, RuntimeError):
    """Raised when no archive can be made. One line, with what to do."""


@dataclass(frozen=True)
class Environment:
    """The archive's packages (name -> version), this package's extras among them, and the Python
    that a machine must have at the same place.
    """

    packages: Mapping[str, str]
    extras: tuple[str, ...]
    python: Path


def pack(archive: Path) -> Environment:
    """Write the archive. The same packages give the same bytes.
    Raises PackError, also if the file is there already.
    """
    if not archive.name.endswith(SUFFIXES):
        raise PackError(f"{archive}: executors unpack .tar.gz alone: give such a name")
    with _own() as own:
        packages, extras = closure(own)
        python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
        try:
            with archive.open("xb") as file:
                try:
                    _write(file, _entries(packages, python))
                except BaseException:
                    archive.unlink()
                    raise
        except FileExistsError as error:
            raise PackError(f"{archive}: is there already; nothing was written") from error
        except OSError as error:
            raise PackError(f"{archive}: cannot be written: {error.strerror or error}") from error
        found = {name: each.version for name, each in packages.items()}
        return Environment(found, extras, python)


@contextmanager
def _own() -> Iterator[Distribution]:
    """Yield this package as it is installed; of a checkout the wheel, unpacked: in it the folders
    are elsewhere (hatch_build.py).
    """
    if not (_CHECKOUT / "pyproject.toml").exists():
        yield distribution(NAME)
        return
    with TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
        done = subprocess.run(
            [*build, "--directory", folder],
            cwd=_CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise PackError(f"{_CHECKOUT}: no wheel could be built of it: {last}; run make setup")
        unpacked = Path(folder, "unpacked")
        for wheel in Path(folder).glob("*.whl"):
            ZipFile(wheel).extractall(unpacked)  # noqa: S202 - it was just built
        (own,) = distributions(path=[str(unpacked)], name=NAME)
        yield own


def closure(own: Distribution) -> tuple[dict[str, Distribution], tuple[str, ...]]:
    """Return a package and all that it needs, by name, and which of EXTRAS are installed.
    Raises PackError for a package that is needed and not installed.
    """
    found = {own.metadata["Name"]: own}
    done: set[tuple[str, str]] = set()

    def add(of: Distribution, extra: str) -> None:
        name = of.metadata["Name"]
        if (name, extra) in done:
            return
        done.add((name, extra))
        for needed in _required(of, extra):
            try:
                package = distribution(needed.name)
            except PackageNotFoundError as error:
                raise PackError(
                    f"{name} needs {needed}, which is not installed: install {NAME} again"
                ) from error
            found[package.metadata["Name"]] = package
            for each in ("", *needed.extras):
                add(package, each)

    extras = tuple(each for each in EXTRAS if _required(own, each) and _is_installed(own, each))
    for extra in ("", *extras):
        add(own, extra)
    return found, extras


def _required(of: Distribution, extra: str) -> list[Requirement]:
    """Return the requirements of a package that hold here, those of an extra alone if one is
    given.
    """
    found = [Requirement(line) for line in of.requires or ()]
    if not extra:
        return [each for each in found if each.marker is None or each.marker.evaluate()]
    return [
        each
        for each in found
        if each.marker is not None
        and each.marker.evaluate({"extra": extra})
        and not each.marker.evaluate()
    ]


def _is_installed(own: Distribution, extra: str) -> bool:
    """Whether all that an extra needs at once is installed."""
    return all(
        any(True for _ in distributions(name=needed.name))
        and all(_is_installed(distribution(needed.name), each) for each in needed.extras)
        for needed in _required(own, extra)
    )


def _entries(packages: Mapping[str, Distribution], python: Path) -> dict[str, Path | bytes | str]:
    """Return what is in the archive: place -> a file, or a text's bytes, or where a link leads."""
    version = ".".join(map(str, sys.version_info[:3]))
    short = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    config = f"home = {python.parent}\ninclude-system-site-packages = false\nversion = {version}\n"
    entries: dict[str, Path | bytes | str] = {
        "pyvenv.cfg": config.encode(),
        "bin/python": str(python),
        "bin/python3": "python",
        f"bin/{short}": "python",
    }
    for name, package in packages.items():
        for place, file in files_of(name, package).items():
            entries[f"lib/{short}/site-packages/{place}"] = file
    return entries


def files_of(name: str, package: Distribution) -> dict[str, Path]:
    """Return the files of a package that an executor needs: place in site-packages -> file.
    Raises PackError for one that is installed without a list of files, as a link to its sources,
    or in part.
    """
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if not package.files or origin.get("dir_info", {}).get("editable"):
        why = "as a link to its sources" if package.files else "without a list of its files"
        raise PackError(f"{name} is installed {why}: install it by pip, from a wheel")
    found = {
        each.as_posix(): Path(str(package.locate_file(each)))
        for each in package.files
        if not each.as_posix().startswith(_LEFT_OUT) and each.suffix != ".pyc"
    }
    if missing := next((file for file in found.values() if not file.is_file()), None):
        raise PackError(f"{name} lacks its file {missing}: install it again")
    return found


def _write(file: BinaryIO, entries: Mapping[str, Path | bytes | str]) -> None:
    with (
        gzip.GzipFile("", "wb", 3, file, mtime=_MADE_AT) as zipped,
        tarfile.open(fileobj=zipped, mode="w", dereference=True) as tar,
    ):
        for place, source in sorted(entries.items()):
            info = tarfile.TarInfo(place)
            info.mtime, info.mode = _MADE_AT, 0o644
            match source:
                case str():
                    info.type, info.linkname, info.mode = tarfile.SYMTYPE, source, 0o777
                    tar.addfile(info)
                case bytes():
                    info.size = len(source)
                    tar.addfile(info, BytesIO(source))
                case _:
                    at = source.stat()
                    info.size, info.mode = at.st_size, 0o755 if at.st_mode & 0o100 else 0o644
                    with source.open("rb") as content:
                        tar.addfile(info, content)
