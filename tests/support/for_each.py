"""Tests of everything of a kind: versions, types of records, tables, files."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest


def for_each(
    names: str | Sequence[str], values: Iterable[Any]
) -> Callable[..., Callable[..., None]]:
    """Run a test for each of the values, as its subtests: all are run, and those that fail named.

    Cases that somebody has chosen are parameters instead: each of them is a test.
    """
    names, every = [names] if isinstance(names, str) else list(names), list(values)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        fixtures = [of for of in signature.parameters.values() if of.name not in names]

        @wraps(test)
        def of_each(*, subtests: pytest.Subtests, **given: Any) -> None:
            assert every, "there is nothing to test"
            if "subtests" in signature.parameters:
                given["subtests"] = subtests
            for value in every:
                case = dict(zip(names, [value] if len(names) == 1 else value, strict=True))
                with subtests.test(", ".join(map(_shown, case.values()))):
                    test(**case, **given)

        asked = {of.name: of.replace(kind=of.KEYWORD_ONLY) for of in fixtures}
        asked["subtests"] = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
        of_each.__signature__ = signature.replace(parameters=[*asked.values()])  # type: ignore[attr-defined]
        return of_each

    return decorate


def _shown(value: Any) -> str:
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    return str(name or value)[:80]
