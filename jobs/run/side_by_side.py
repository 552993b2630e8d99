"""Looks at many small tables, or changes of them, at once."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from metadata_source import threads

_T = TypeVar("_T")
_U = TypeVar("_U")


def side_by_side(look: Callable[[_T], _U], each: Iterable[_T]) -> list[_U]:
    """The results in order, four at once: small tables wait for files more than they work, and each
    holds a part of Spark's memory.
    """
    return threads.side_by_side(each, look, "tables", at_once=4)
