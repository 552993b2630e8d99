"""References to secrets: which may be followed on this machine, and what they stand for.

Options come from whoever may read with the data sources, in SQL too (`USING kafka_metadata OPTIONS (...)`): a reference
together with a host of one's own would send any file or variable of this machine there. So only those are followed that
the machine's operator names in two variables of the environment, or those of the defaults: what is Kafka's by its name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from metadata_source.errors import OptionsError

FOLDERS: Final = "KAFKA_METADATA_SECRET_FILES"
"""The variable with the folders, between them `:`."""
PREFIXES: Final = "KAFKA_METADATA_SECRET_VARIABLES"
"""The variable with what names of variables begin with, comma-separated; `*` is any."""
DEFAULT_FOLDERS: Final = "/etc/kafka:/etc/kafka-metadata-history"
DEFAULT_PREFIXES: Final = "KAFKA_"


def resolve_secret(name: str, reference: str) -> str:
    """Return the secret that a reference (`env:NAME`, `file:/path`) of option `name` stands for, on this machine.

    A file's last line break is not part of it. Raises OptionsError, never with the secret.
    """
    scheme, _, target = reference.partition(":")
    return _variable(name, target) if scheme == "env" else _file(name, target)


def _variable(name: str, variable: str) -> str:
    prefixes = _listed(PREFIXES, DEFAULT_PREFIXES, ",")
    if not any(prefix == "*" or variable.startswith(prefix) for prefix in prefixes):
        raise OptionsError(
            f"{name}: the environment variable {variable} may not be read, its name does not begin with "
            f"{' or '.join(prefixes)}: rename it, or set {PREFIXES} where the connection is made to what names may "
            "begin with"
        )
    secret = os.environ.get(variable)
    if not secret:
        raise OptionsError(f"{name}: the environment variable {variable} is not set where the connection is made")
    return secret


def _file(name: str, path: str) -> str:
    folders = _listed(FOLDERS, DEFAULT_FOLDERS, os.pathsep)
    try:
        # Links and dots are followed before, or they would lead out of the folders.
        file = Path(path).resolve()
        if not any(file.is_relative_to(Path(folder).resolve()) for folder in folders):
            raise OptionsError(
                f"{name}: {path} may not be read, it is not in {' or '.join(folders)}: move it, or set {FOLDERS} where "
                "the connection is made to the folders of secrets"
            )
        secret = file.read_text("utf-8")
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        reason = (
            "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", "a loop of links")
        )
        raise OptionsError(f"{name}: {path}: {reason}") from None
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise OptionsError(f"{name}: {path}: empty")
    return secret


def _listed(variable: str, default: str, separator: str) -> list[str]:
    """Return what the operator names; an empty variable names nothing."""
    return [part for part in os.environ.get(variable, default).split(separator) if part]
