"""A file with the options of one cluster's client: YAML, or what clients of Kafka are given, Java's
`.properties` or librdkafka's `name=value`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata_source.errors import OptionsError
from metadata_source.jaas import parse_jaas
from metadata_source.options.given import client_option
from metadata_source.properties_file import parse_properties
from metadata_source.references import REFERENCE
from metadata_source.yaml_file import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_SERVERS: Final = "kafka.bootstrap.servers"
_JAAS: Final = "kafka.sasl.jaas.config"
_SUFFIX: Final = ".properties"
_FIRST_PAIR: Final = re.compile(r"(?:[ \t]*(?:[#!].*|\[.*\])?\r?\n)*[ \t]*[A-Za-z][\w.-]*[ \t]*=")
"""A file of pairs by another name: its first line beside comments and names of sections."""
_NAME: Final = re.compile(r"[a-z][a-z0-9._-]{0,59}")
"""A name that can be shown: in a broken file parts of a key may be where names are."""
_SHOWN: Final = 6


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The options that a file gives, by their names here, and the names in it that need no option
    here.

    `servers`: its `bootstrap.servers` without `kafka.`, as a client's own file has them: another
    address may be asked.
    """

    file: Path
    options: Mapping[str, str]
    passed_over: tuple[str, ...]
    servers: str | None = None

    @property
    def warning(self) -> str | None:
        """One line with what is passed over; None where nothing is."""
        shown = [name for name in self.passed_over if _NAME.fullmatch(name)][:_SHOWN]
        more = len(self.passed_over) - len(shown)
        listed = ", ".join([*shown, *([f"{more} more"] if more else [])])
        return (
            f"{self.file}: warning: passed over, nothing here needs it: {listed}"
            if listed
            else None
        )

    def at(self, bootstrap: str) -> dict[str, str]:
        """Return the options with this address. Raises OptionsError if they have their own."""
        if _SERVERS in self.options:
            raise OptionsError(
                f"{self.file}: {_SERVERS}: contradicts --bootstrap, which says where to ask"
            )
        return {_SERVERS: bootstrap, **self.options}


def read_client_file(file: Path) -> ClientFile:
    """Read a file. Raises OptionsError, one line with the file and without a value: for what is
    wrong, for what is to be said in another way here, and for a secret, with the line that replaces
    it.
    """
    try:
        pairs, joint = _pairs(file, file.read_bytes())
    except OSError as error:
        raise OptionsError(f"{file}: {error.strerror}") from None
    except ValueError as error:
        raise OptionsError(f"{file}: {error}") from None
    problems: list[str] = []
    options: dict[str, str] = {}
    passed_over: list[str] = []
    servers = None
    for name, value in pairs.items():
        try:
            option = _option(name, value, joint)
        except OptionsError as error:
            problems.append(error.problem)
            continue
        if option is None:
            passed_over.append(name)
        elif option == _SERVERS and name.lower() != _SERVERS:
            servers = value
        elif options.setdefault(option, value) != value:
            problems.append(f"{option}: given twice, in two spellings")
    if problems:
        raise OptionsError(f"{file}: {'; '.join(problems)}")
    return ClientFile(file, options, tuple(passed_over), servers)


def _option(name: str, value: str, joint: str) -> str | None:
    """Return the name of the option; None where none is needed. OptionsError without the file."""
    option = client_option(name)
    if option is None or (option.name == _JAAS and _is_needless(value)):
        return None
    if option.secret and not REFERENCE.fullmatch(value.strip()):
        plain = option.name.removeprefix("kafka.")
        variable = f"KAFKA_{plain.replace('.', '_').upper()}"
        raise OptionsError(
            f"{name} holds a secret, which may not be in this file: move its value into a file of "
            f"its own, and write {name}{joint}file:/etc/kafka/{plain} (or "
            f"{name}{joint}env:{variable}, and set that variable)"
        )
    return option.name


def _is_needless(jaas: str) -> bool:
    """Whether a JAAS line is the one by which all clients of MSK begin, which holds no secret."""
    try:
        return parse_jaas(jaas) == ("IAMLoginModule", {})
    except OptionsError:
        return False


def _pairs(file: Path, content: bytes) -> tuple[Mapping[str, str], str]:
    """Return names and values, and what is between them in this form. Raises ValueError."""
    is_javas = file.suffix.lower() == _SUFFIX
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        if not is_javas:
            raise ValueError("not UTF-8 text") from None
        text = content.decode("latin-1")  # as Java reads such files, whatever they are in
    if not is_javas and not _FIRST_PAIR.match(text):
        return _of_yaml(text), ": "
    if not is_javas and (line := _with_backslash(text.splitlines())):
        raise ValueError(
            f"line {line}: a backslash, which librdkafka keeps and Java does not: give the file a "
            f"name with {_SUFFIX} if it is Java's, or write it as YAML"
        )
    return {name: value for name, value in parse_properties(text).items() if name}, "="


def _of_yaml(text: str) -> dict[str, str]:
    given = parse_yaml(text) or {}
    if not isinstance(given, dict):
        raise ValueError("not a mapping of kafka.* options to values")  # noqa: TRY004 - of a file
    for name, value in given.items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            raise ValueError(f"{name}: neither text nor a whole number")  # noqa: TRY004
    return {name: value or "" for name, value in given.items()}


def _with_backslash(lines: Iterable[str]) -> int | None:
    """Return the number of the first line with a backslash that does not join it with the next."""
    found = (
        number
        for number, line in enumerate(lines, 1)
        if line.strip()[:1] != "#" and "\\" in line[:-1]
    )
    return next(found, None)
