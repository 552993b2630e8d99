"""References to secrets: which may be followed on this machine, and what they stand for.

Options come from whoever may read with the data sources, in SQL too (`USING kafka_metadata OPTIONS
(...)`): a reference together with a host of one's own would send any file or variable of this
machine there. So only those are followed that the machine's operator names in two variables of the
environment, or those of the defaults: what is Kafka's by its name.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from metadata_source.errors import OptionsError

FOLDERS: Final = "KAFKA_METADATA_SECRET_FILES"
"""The variable with the folders, between them `:`."""
PREFIXES: Final = "KAFKA_METADATA_SECRET_VARIABLES"
"""The variable with what names of variables begin with, comma-separated; `*` is any."""
ENDPOINTS: Final = "KAFKA_METADATA_TOKEN_ENDPOINTS"
"""The variable with URLs that tokens may be asked of, comma-separated; unset: all of https."""
DEFAULT_FOLDERS: Final = "/etc/kafka:/etc/kafka-metadata-history"
DEFAULT_PREFIXES: Final = "KAFKA_"
REFERENCE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:/[^\0\n]+")


def resolve_secret(name: str, reference: str) -> str:
    """Return the secret that a reference (`env:NAME`, `file:/path`) of option `name` stands for, on
    this machine.

    Neither a file's last line break nor the byte order mark that some editors begin a file with is
    part of it. Raises OptionsError, never with the secret.
    """
    scheme, _, target = reference.partition(":")
    return _variable(name, target) if scheme == "env" else _file(name, target)


def _variable(name: str, variable: str) -> str:
    prefixes = _listed(PREFIXES, DEFAULT_PREFIXES, ",")
    if not any(prefix == "*" or variable.startswith(prefix) for prefix in prefixes):
        raise OptionsError(
            f"{name}: the environment variable {variable} may not be read, its name does not begin "
            f"with {' or '.join(prefixes)}: rename it, or set {PREFIXES} where the connection is "
            "made to what names may begin with"
        )
    secret = os.environ.get(variable)
    if not secret:
        raise OptionsError(
            f"{name}: the environment variable {variable} is not set where the connection is made"
        )
    return secret


def _file(name: str, path: str) -> str:
    folders = _listed(FOLDERS, DEFAULT_FOLDERS, os.pathsep)
    try:
        # Links and dots are followed before, or they would lead out of the folders.
        file = Path(path).resolve()
        if not any(file.is_relative_to(Path(folder).resolve()) for folder in folders):
            raise OptionsError(
                f"{name}: {path} may not be read, it is not in {' or '.join(folders)}: move it, or "
                f"set {FOLDERS} where the connection is made to the folders of secrets"
            )
        secret = _regular(file).decode("utf-8-sig")
    except (OSError, RuntimeError, UnicodeDecodeError) as error:
        reason = (
            "not UTF-8 text"
            if isinstance(error, UnicodeDecodeError)
            else getattr(error, "strerror", "a loop of links")
        )
        raise OptionsError(f"{name}: {path}: {reason}") from None
    secret = secret.removesuffix("\n").removesuffix("\r")
    if not secret:
        raise OptionsError(f"{name}: {path}: empty")
    return secret


def _regular(file: Path) -> bytes:
    """Return what is in a file. Raises OSError, also for a pipe or a device: they may not end."""
    if not stat.S_ISREG(file.stat().st_mode):
        raise OSError(0, "not a regular file")
    return file.read_bytes()


def check_endpoint(name: str, url: str) -> None:
    """Raise OptionsError unless a client's secret may be sent to a token endpoint, the value of
    option `name`: to one that the operator lists, as Java's
    `org.apache.kafka.sasl.oauthbearer.allowed.urls` does; without a list, to any that has TLS.
    """
    if ENDPOINTS in os.environ:
        if url not in [each.strip() for each in os.environ[ENDPOINTS].split(",")]:
            raise OptionsError(
                f"{name}: {url} is not among the URLs of {ENDPOINTS} where the connection is made"
            )
    elif not url.lower().startswith("https:"):
        raise OptionsError(
            f"{name}: {url} would get the client's secret unencrypted: give an https URL, or set "
            f"{ENDPOINTS} where the connection is made to the URLs that may be asked"
        )


def _listed(variable: str, default: str, separator: str) -> list[str]:
    """Return what the operator names; an empty variable names nothing."""
    return [part for part in os.environ.get(variable, default).split(separator) if part]
