"""Write THIRD-PARTY.md: the licence of each package that comes with this one, as the package itself
says.

python -m tools.licences
"""

from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kafka_metadata_history.jars.delta import LICENCE, MODULES

PACKAGE = "kafka-metadata-history"
EXTRAS = ("apprise", "connect", "mcp", "msk", "notebooks", "validation")
FILE = Path(__file__).resolve().parent.parent / "THIRD-PARTY.md"
HEAD = """\
# Licences of what runs

`make lock` writes this list from what the packages say of themselves, on Linux with Python 3.11.
The versions are those of [constraints.txt](constraints.txt). Each package brings the text of its
licence. PySpark brings Spark's jars, with their licences in its folder `licenses`. Packages that
only the tests, the benchmarks and the local cluster need are left out.
"""
FOOT = """
What shows and sends the record needs these beside. The size is that of the package, installed.

| Python package | size | saves us |
| --- | --- | --- |
| starlette | 0.3 MB | routes, forms of answers, static files, compression, a client for tests |
| uvicorn, h11, anyio | 1.0 MB | HTTP/1.1 with TLS, deadlines and an orderly end |
| jinja2 | 0.5 MB (Bokeh brings it, too) | templates that escape each value |
| prometheus-client | 0.2 MB | Prometheus' text format, and its reader in tests |
| mcp (extra `mcp`) | 28 MB with all it needs | the Model Context Protocol, its client in tests |
| apprise (extra `apprise`) | 11 MB with all it needs | mail, and services of chat and messages |

`metadata_source/messages/*.json` are files of Apache Kafka, unchanged: Apache License 2.0, with its
NOTICE beside them.
"""


class LicenceError(RuntimeError):
    """Raised for a package that does not say what its licence is. One line."""


def main() -> None:
    """Write the file. Raises LicenceError."""
    FILE.write_text(listed(), "utf-8")


def listed() -> str:
    """Return the file as it has to be, from what is installed. Raises LicenceError."""
    base = needed(frozenset()).keys() - {PACKAGE}
    extras = {extra: needed(frozenset({extra})).keys() - base - {PACKAGE} for extra in EXTRAS}
    lines = [
        HEAD,
        *_table(
            "Python package",
            ((name, *_of(name, extras)) for name in sorted(base.union(*extras.values()))),
        ),
    ]
    jars = (
        (f"{organisation}:{module}", revision, LICENCE, "")
        for organisation, module, revision in MODULES
    )
    return "\n".join([*lines, "", *_table("jar", jars), FOOT])


def needed(extras: frozenset[str]) -> dict[str, set[str]]:
    """Return all packages that are installed with this one and these of its extras: name -> names
    of those that it asks for itself.
    """
    asking: dict[str, set[str]] = {}
    left, seen = [(PACKAGE, extras)], {(PACKAGE, extras)}
    while left:
        name, asked = left.pop()
        of_name = asking.setdefault(name, set())
        for text in distribution(name).requires or ():
            wanted = Requirement(text)
            each = (canonicalize_name(wanted.name), frozenset(wanted.extras))
            if any(
                not wanted.marker or wanted.marker.evaluate({"extra": it}) for it in asked | {""}
            ):
                of_name.add(each[0])
                if each not in seen:
                    seen.add(each)
                    left.append(each)
    return {name: names - {name} for name, names in asking.items()}


def licence(package: Distribution) -> str:
    """Return a package's licence: its expression (PEP 639), or its classifiers, or the first line
    that it says.

    Raises LicenceError.
    """
    said = package.metadata
    classifiers = [
        each.split(" :: ")[-1]
        for each in said.get_all("Classifier", [])
        if each.startswith("License :: ")
    ]
    found = (
        said["License-Expression"]
        or " / ".join(classifiers)
        or (said["License"] or "").strip().split("\n")[0]
    )
    if not found or found == "UNKNOWN":
        raise LicenceError(f"{said['Name']} {said['Version']} does not say what its licence is")
    return found


def _of(name: str, extras: dict[str, set[str]]) -> tuple[str, str, str]:
    package = distribution(name)
    by = [extra for extra, names in extras.items() if name in names]
    return package.version, licence(package), ", ".join(f"`{extra}`" for extra in by)


def _table(what: str, rows: Iterator[tuple[str, ...]]) -> list[str]:
    return [
        "| " + " | ".join(row) + " |"
        for row in ((what, "version", "licence", "only with the extra"), ("---",) * 4, *rows)
    ]


if __name__ == "__main__":
    main()
