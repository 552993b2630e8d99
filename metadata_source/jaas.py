"""The line of a Java client's `sasl.jaas.config`, read as Kafka's JaasConfig reads it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from metadata_source.errors import OptionsError
from metadata_source.references import resolve_secret

if TYPE_CHECKING:
    from metadata_source.options import Cluster

# Quoted texts end with their line; words are what StreamTokenizer takes for one, with Kafka's
# additions.
_TOKEN: Final = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)*
    (?: "(?P<double>(?:[^"\\\n]|\\[^\n])*)" | '(?P<single>(?:[^'\\\n]|\\[^\n])*)'
      | (?P<word>[A-Za-z0-9._$\u00a0-\u00ff-]+) | (?P<sign>[=;]) | (?P<end>\Z) )""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)")
_CONTROLS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def jaas_options(
    cluster: Cluster, module: str, needed: tuple[str, ...] = (), more: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the options of a cluster's JAAS line, which is to be one of `module`; none where it
    has no line.

    `more` are the names, or patterns of names, of options that may be left out. Raises
    OptionsError, never with any of the line.
    """
    if cluster.sasl_jaas_config is None:
        return {}
    given, options = parse_jaas(resolve_secret("kafka.sasl.jaas.config", cluster.sasl_jaas_config))
    if given != module:
        raise OptionsError(
            f"kafka.sasl.jaas.config: not a line of {module}, which kafka.sasl.mechanism "
            f"{cluster.sasl_mechanism} needs"
        )
    known = (*needed, *more)
    if not all(any(fnmatchcase(option, name) for name in known) for option in options):
        # Passed over, it could be what a Java client gets in by. Not named: it could be part of a
        # secret.
        raise OptionsError(
            f"kafka.sasl.jaas.config: of {module} only {', '.join(known)} are understood"
        )
    if not all(options.get(name) for name in needed):
        raise OptionsError(
            f"kafka.sasl.jaas.config: a line of {module} needs {' and '.join(needed)}"
        )
    return options


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Return the login module's name, without its package, and the options that follow its flag.

    The semicolon at the end may be missing. Raises OptionsError, never with any of the line.
    """
    tokens = _tokens(text)
    if tokens and tokens[-1] == (";", True):
        tokens.pop()
    signs = [is_sign for _, is_sign in tokens]
    values = [value for value, _ in tokens]
    options = len(tokens[2:]) // 3
    if signs != [False, False, *[False, True, False] * options] or set(values[3::3]) - {"="}:
        raise OptionsError(
            "kafka.sasl.jaas.config: not a line such as: "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." '
            'password="...";'
        )
    return values[0].rpartition(".")[2], dict(zip(values[2::3], values[4::3], strict=True))


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Return words and texts, with True the signs `=` and `;`; nothing if there is more."""
    tokens: list[tuple[str, bool]] = []
    at = 0
    while (match := _TOKEN.match(text, at)) is not None:
        if match["end"] is not None:
            return tokens
        quoted = match["double"] if match["double"] is not None else match["single"]
        value = (
            _ESCAPE.sub(_unescaped, quoted)
            if quoted is not None
            else match["word"] or match["sign"]
        )
        tokens.append((value, match["sign"] is not None))
        at = match.end()
    return []


def _unescaped(match: re.Match[str]) -> str:
    code: str = match[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _CONTROLS.get(code, code)
