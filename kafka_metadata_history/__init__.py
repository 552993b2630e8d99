"""The command `kafka-metadata-history`, and `open`: everything that a person does with a lake of
Kafka's history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_metadata_history.names import FAILED, INTERRUPTED, NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from kafka_metadata_history.reader import LakeReader

__all__ = ["FAILED", "INTERRUPTED", "NAME", "open"]


def open(lake: str | PathLike[str] | Mapping[str, str]) -> LakeReader:  # noqa: A001 - as kmh.open
    """Open a lake to ask it: the file of a configuration (`*.yaml`, `*.yml`), a folder or URI, or
    {"catalog": NAME}.

    Raises ConfigError for the file, LakeError if no lake is there.
    """
    from kafka_metadata_history.reader import opened_reader  # noqa: PLC0415 - an import costs nothing

    return opened_reader(lake)
