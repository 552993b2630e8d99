"""A configuration file as texts, each as it is written: whoever reads a key makes a number of it
where the key asks for one. YAML by itself makes 225 of 0341, 1234 of 12_34 and a date of
2026-11-01, which may be names.

Errors do not show what the file holds: it may hold a secret that was meant to be a reference.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from pathlib import Path

_KINDS: Final = {dict: "a mapping", list: "a list", type(None): "nothing"}
_QUOTED: Final = re.compile(r"(['\"])[\w!].+\1")
"""A text that PyYAML quotes of the file, such as an alias's name; not the single characters that it
misses or finds.
"""


def read_text(file: Path) -> str:
    """Read a file, without its byte order mark. Raises ValueError, one line, and OSError."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("not YAML: not UTF-8 text") from None


def parse_yaml(text: str) -> Any:
    """Return the one document of a text: mappings, lists, texts, and None where there is nothing
    (`~`, `null`). Raises ValueError, one line without a value of the text.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {_problem(error)}") from None
    except RecursionError:
        raise ValueError("not YAML that can be read: it is nested too deeply") from None


def kind_of(value: object) -> str:
    """Return what a value is in words, to be said in place of the value."""
    return _KINDS.get(type(value), "text")


def truth(value: object) -> bool | None:
    """Return what YAML's words for true or false mean (`true`, `no`, `On`); None for others."""
    return yaml.SafeLoader.bool_values.get(value.lower()) if isinstance(value, str) else None


_STANDARD: Final = "tag:yaml.org,2002:"
_PLAIN: Final = {f"{_STANDARD}{name}" for name in ("null", "str", "map", "seq")}


class _Loader(yaml.SafeLoader):
    """Gives every scalar as it is written. Refuses a key that is given twice, of which YAML
    libraries keep the last without a word.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012 - as PyYAML has it

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of `node`."""
        if node.tag.startswith(_STANDARD) and node.tag not in _PLAIN:
            problem = (
                "a value has a tag such as !!int, which is not meant here: leave it out, or quote "
                "the text"
            )
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return super().construct_object(node, deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of `node`."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key} is given twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    f"{_STANDARD}null", re.compile("(?:~|null|Null|NULL)?$"), ["", "~", "n", "N"]
)
_Loader.add_implicit_resolver(f"{_STANDARD}merge", re.compile("<<$"), ["<"])


def _problem(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return "it holds a character that YAML does not allow"
    problem = _QUOTED.sub("...", " ".join(error.problem.split()))
    mark = error.problem_mark or error.context_mark
    return (
        problem if mark is None else f"{problem} (line {mark.line + 1}, column {mark.column + 1})"
    )
