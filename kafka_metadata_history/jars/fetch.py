"""Jars from the package repository, fetched once with pyspark's Ivy, if their bytes are known."""

import fcntl
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from kafka_metadata_history.jars.errors import JarsError
from kafka_metadata_history.jars.java import java_command

_CHECKOUT = Path(__file__).resolve().parents[2]
_IS_CHECKOUT = (_CHECKOUT / "pyproject.toml").exists()
JARS = _CHECKOUT / ".jars" if _IS_CHECKOUT else user_cache_path("kafka-metadata-history") / "jars"
"""Of a checkout in it; of an installed package in the cache of its user."""

CHECKSUMS = Path(__file__).with_name("sha256.txt")
"""As `sha256sum` writes it: of every jar that may be fetched, by its name."""

# Maven's packaging "bundle" (OSGi; snappy-java and others) is a plain jar too. Sources and javadoc
# have types of their own.
JAR_TYPES = ("jar", "bundle")

# `:: org.apache.kafka#kafka_2.13;9.9.9: not found` and `:: ^ see resolution messages`, or `[FAILED
# ] ...` of a download.
_UNRESOLVED = re.compile(r"^\s*:: (?P<what>\S+#\S+;.+?)\s*(::)?$", re.MULTILINE)
_NO_ACCESS = re.compile(r"Server access error at url \S+ \((?P<why>.+)\)")


def fetch_jars(
    organisation: str,
    module: str,
    revision: str,
    folder: Path,
    *,
    transitive: bool = True,
    record: bool = False,
    classifier: str = "",
    trusted: Callable[[list[Path]], None] | None = None,
) -> list[Path]:
    """The jars of a module, and of all it depends on, in `folder`; fetched unless they are there.

    `folder` belongs to this module alone and is there whole or not at all; several processes may
    ask for it at once. `record`: write the checksums of jars that have none into the file, in place
    of refusing them. `classifier`: of the one jar that is wanted, in place of the main one, without
    dependencies. `trusted`: raises JarsError for jars that are not those that are wanted; None:
    those of the file are. Raises JarsError when there is no java, the revision does not resolve
    completely, or a jar is not the one whose checksum is in the file.
    """
    main_jar = folder / _main_jar(module, revision, classifier)
    if not main_jar.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_name(f".{folder.name}.lock")):
            if not main_jar.exists():  # else another process has fetched it while we waited
                asked = f"{organisation} {module} {revision} {folder}"
                asked += "" if transitive else " --no-transitive"
                _fetch(
                    organisation,
                    module,
                    revision,
                    folder,
                    transitive=transitive,
                    classifier=classifier,
                    trusted=trusted or (lambda jars: check(jars, asked, record=record)),
                )
    return sorted(folder.glob("*.jar"))


def ivy_arguments(
    organisation: str, module: str, revision: str, *, cache: Path, target: Path, transitive: bool
) -> list[str]:
    """Ivy's command line (`java -jar ivy.jar -?`) that fetches a module's jars into `target`."""
    return [
        "-m2compatible",
        "-cache",
        str(cache),
        "-types",
        *JAR_TYPES,
        *([] if transitive else ["-notransitive"]),
        "-dependency",
        organisation,
        module,
        revision,
        "-retrieve",
        f"{target}/[artifact]-[revision](-[classifier]).[ext]",
    ]


def failures(log: str) -> list[str]:
    """The failures that Ivy reports, each once, a cause such as an unknown host first."""
    found = [match["why"] for match in _NO_ACCESS.finditer(log)]
    found += [match["what"] for match in _UNRESOLVED.finditer(log)]
    return list(dict.fromkeys(found))


def check(jars: Iterable[Path], asked: str, *, record: bool = False) -> None:
    """Raise JarsError for a jar that is not the one whose checksum is in the file, or that
    has none there.

    `asked`: the arguments of `python -m kafka_metadata_history.jars` that fetch them. `record`: as
    with `fetch_jars`.
    """
    lines = CHECKSUMS.read_text("utf-8").splitlines()
    known = {name: checksum for checksum, name in (line.split() for line in lines)}
    found = {jar.name: sha256_of(jar) for jar in jars}
    for name in sorted(found.keys() & known.keys()):
        if found[name] != known[name]:
            raise JarsError(
                f"{name}: its SHA-256 is {found[name]}, and {known[name]} in {CHECKSUMS}"
            )
    new = sorted(found.keys() - known.keys())
    if new and not record:
        more = f" and {len(new) - 1} more" if len(new) > 1 else ""
        raise JarsError(
            f"{new[0]}{more}: not in {CHECKSUMS}. If these jars are to be trusted, write down "
            "what they are: "
            f"`python -m kafka_metadata_history.jars {asked} --record`"
        )
    if new:
        by_name = sorted((known | found).items())
        CHECKSUMS.write_text(
            "".join(f"{checksum}  {name}\n" for name, checksum in by_name), "utf-8"
        )


def sha256_of(jar: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_OF_CLASSIFIER = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kafka-metadata-history" module="packages"/>
  <dependencies>
    <dependency org="{0}" name="{1}" rev="{2}" transitive="false">
      <artifact name="{1}" type="jar" m:classifier="{3}"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
"""A file for Ivy, whose command line knows no classifiers: organisation, module, revision,
classifier.
"""


def _main_jar(module: str, revision: str, classifier: str) -> str:
    return f"{'-'.join(filter(None, (module, revision, classifier)))}.jar"


def _fetch(
    organisation: str,
    module: str,
    revision: str,
    folder: Path,
    *,
    transitive: bool,
    classifier: str,
    trusted: Callable[[list[Path]], None],
) -> None:
    unfinished = folder.with_name(f".{folder.name}.part")
    # What an interrupted fetch left.
    shutil.rmtree(unfinished, ignore_errors=True)
    # A cache of its own: Ivy's shared one is not safe for two processes at once.
    cache, target = unfinished / "cache", unfinished / "jars"
    arguments = ivy_arguments(
        organisation, module, revision, cache=cache, target=target, transitive=transitive
    )
    if classifier:
        unfinished.mkdir()
        file = unfinished / "ivy.xml"
        file.write_text(_OF_CLASSIFIER.format(organisation, module, revision, classifier), "utf-8")
        begin = arguments.index("-dependency")
        arguments[begin : begin + 4] = ["-ivy", str(file)]
    main_jar = _main_jar(module, revision, classifier)
    print(f"fetching {module} {revision} (once)", file=sys.stderr)
    try:
        ivy = subprocess.run(
            [java_command(), "-jar", str(_ivy_jar()), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ivy.returncode != 0 or not (target / main_jar).exists():
            reasons = (
                failures(ivy.stdout)
                or ivy.stdout.strip().splitlines()[-1:]
                or [f"Ivy ended with {ivy.returncode}"]
            )
            raise JarsError(
                f"cannot fetch {organisation}:{module}:{revision}: {'; '.join(reasons)}. "
                "Check the version, and that the package repository can be reached."
            )
        trusted([*target.glob("*.jar")])
        # A folder of another revision.
        shutil.rmtree(folder, ignore_errors=True)
        target.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    found = (
        sorted(Path(pyspark.origin).parent.glob("jars/ivy-*.jar"))
        if pyspark and pyspark.origin
        else []
    )
    if not found:
        raise JarsError("no Ivy: install pyspark, whose jars/ hold it, into this environment")
    return found[-1]


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # let go when the file is closed, also by SIGKILL
        yield
