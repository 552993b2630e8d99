"""The folder of data docs, which each validation replaces: an empty folder, or one of its own."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from jobs.configuration.config import ConfigError

MARKER = ".kafka-metadata-history-data-docs"
"""The file in a folder of data docs that says that all of it may be replaced."""


def check_replaceable(docs: Path) -> None:
    """Raise ConfigError where `docs` holds what no validation has made: it would be deleted."""
    is_ours = not docs.exists() or (
        docs.is_dir() and ((docs / MARKER).is_file() or not any(docs.iterdir()))
    )
    if not is_ours:
        raise ConfigError(
            f"validation.docs: {docs} holds something else than data docs, which would be deleted: "
            "name a folder that is empty or not there yet"
        )


def replace_docs(docs: Path, build: Callable[[Path], None]) -> None:
    """Let `build` make a folder beside `docs`, and put that in the place of `docs` when it is
    whole. Raises ConfigError as `check_replaceable`.
    """
    docs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f".{docs.name}-", dir=docs.parent, ignore_cleanup_errors=True
    ) as work:
        new, old = Path(work, "new"), Path(work, "old")
        build(new)
        (new / MARKER).touch()
        check_replaceable(docs)
        if docs.exists():
            docs.rename(old)
        new.rename(docs)
