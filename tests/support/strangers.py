"""Packages that somebody else may bring, of names that folders of this repository have too."""

from collections.abc import Iterable
from pathlib import Path


def strangers(folder: Path, names: Iterable[str]) -> Path:
    """Make them in a folder, for Python's path; whoever imports one fails."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(
            f"raise RuntimeError('{name} of somebody else was imported')\n"
        )
    return folder
