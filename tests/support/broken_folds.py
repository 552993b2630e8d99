"""A fold that fails for one cluster, on executors: what a record that nobody foresaw does to a
rule.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest


class BrokenFold:
    """The fold of a module, which fails for a cluster. Sent to workers, which take the module's
    own.
    """

    def __init__(self, module: str, cluster: str) -> None:
        self._module, self._cluster = module, cluster

    def __call__(self, *args: Any, **more: Any) -> Any:
        key = next(each for each in args if isinstance(each, str))
        if key.partition("/")[0] == self._cluster:
            raise KeyError("leader_epoch")
        return import_module(self._module).fold(*args, **more)


@contextmanager
def broken_for(module: ModuleType, cluster: str) -> Iterator[None]:
    """For a while, let the fold of a module fail for a cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "fold", BrokenFold(module.__name__, cluster))
        yield
