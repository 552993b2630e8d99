"""A configuration file as plain values. What is wrong with it is said without showing what it holds: it may hold a
secret that was meant to be a reference.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from pathlib import Path

_KINDS: Final = {
    dict: "a mapping",
    list: "a list",
    bool: "true or false",
    int: "a whole number",
    float: "a number with a fraction",
    datetime: "a time",
    date: "a date",
    bytes: "binary data",
    type(None): "nothing",
}
_QUOTED: Final = re.compile(r"(['\"])[\w!].+\1")
"""A text that PyYAML quotes of the file, such as an alias's name; not the single characters that it misses or finds."""


def read_yaml(file: Path) -> Any:
    """Read the one document of a file. Raises ValueError, one line without a value of the file, and OSError."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {_problem(error)}") from None
    except UnicodeDecodeError:
        raise ValueError("not YAML: not UTF-8 text") from None
    except RecursionError:
        raise ValueError("not YAML that can be read: it is nested too deeply") from None
    except ValueError:  # of a number or date that cannot be one; its text may hold the value
        raise ValueError("not YAML that can be read: a value is not what its form or tag says: quote it") from None


def kind_of(value: object) -> str:
    """Return what a value is in words, to be said in place of the value."""
    return _KINDS.get(type(value), "text")


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML libraries keep the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of `node`."""
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _problem(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem is None:
        return "it holds a character that YAML does not allow"
    problem = _QUOTED.sub("...", " ".join(error.problem.split()))
    mark = error.problem_mark or error.context_mark
    return problem if mark is None else f"{problem} (line {mark.line + 1}, column {mark.column + 1})"
