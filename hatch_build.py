"""How the wheel is built: `jobs`, `schemas` and others of this repository's packages lie within
`kafka_metadata_history` there, since somebody else may have packages of these names.

`[tool.hatch.build.targets.wheel.sources]` in pyproject.toml says where each folder goes, and this
hook lets imports follow: `from jobs.run.cli import run_job` is `from
kafka_metadata_history.jobs.run.cli import run_job` in the wheel, on the same line. Nothing else is
changed, so code that names a module in a text says `__package__` or `__name__`.
"""

import ast
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlainImportError(ValueError):
    """Raised for `import jobs.run`, which binds a name that the wheel has not. One line."""


class PackagesInOne(BuildHookInterface[BuilderConfig]):
    """Puts each module into the wheel with the names that modules have there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write each module with the imports of the wheel. For an editable install, do nothing.
        Raises PlainImportError.
        """
        if version != "standard":
            return
        packages = {
            source.rstrip(os.sep): target.rstrip(os.sep).replace(os.sep, ".")
            for source, target in self.build_config.sources.items()
        }
        self._folder = TemporaryDirectory()
        for each in self.build_config.builder.recurse_selected_project_files():
            if each.path.endswith(".py"):
                made = Path(self._folder.name, each.relative_path)
                made.parent.mkdir(parents=True, exist_ok=True)
                code = Path(each.path).read_text("utf-8")
                made.write_text(renamed(code, packages, each.relative_path), "utf-8")
                build_data["force_include"][str(made)] = each.relative_path

    def finalize(self, version: str, *_: object) -> None:
        """Remove the modules that `initialize` wrote."""
        if version == "standard":
            self._folder.cleanup()


def renamed(code: str, packages: Mapping[str, str], file: str) -> str:
    """Return a module whose imports name the packages of the wheel, line by line.

    `packages`: the name of a package in this repository -> in the wheel. Raises PlainImportError.
    """
    lines = code.splitlines(keepends=True)
    for number, package in _imported(code, packages, file):
        line = lines[number - 1]
        lines[number - 1] = line.replace(f"from {package}", f"from {packages[package]}", 1)
    return "".join(lines)


def _imported(code: str, packages: Mapping[str, str], file: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that import from these packages, and of which one."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.ImportFrom(level=0, module=str(module)):
                package = module.partition(".")[0]
                if package in packages:
                    yield node.lineno, package
            case ast.Import(names=names):
                for each in names:
                    if each.name.partition(".")[0] in packages:
                        raise PlainImportError(
                            f"{file}:{node.lineno}: import {each.name}: write from ... import, "
                            "which the wheel can have from another package"
                        )
