"""Runs a script as where PySpark has only its client for Spark Connect (the package
pyspark-client): without py4j, and without the part of PySpark that needs a JVM. PySpark and Delta
find out by themselves that these cannot be imported.

python only_connect.py SCRIPT ARGUMENT...
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MISSING = ("py4j", "pyspark.core")


class Missing(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in MISSING or name.startswith(tuple(f"{each}." for each in MISSING)):
            raise ModuleNotFoundError(f"{name} is not installed here", name=name)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, Missing())
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
