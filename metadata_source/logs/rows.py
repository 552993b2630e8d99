"""Columns that rows of every log have, and their order."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


def same_of(cluster: str, cluster_id: str | None, read_at: datetime) -> dict[str, Any]:
    """Return what all rows of a cluster have in common that are read together."""
    return {
        "cluster": cluster,
        "cluster_id": cluster_id,
        "read_at": read_at,
        "day": read_at.astimezone(UTC).date(),
    }


def columns_of(
    schema: pa.Schema, found: Mapping[str, pa.Array], count: int, same: Mapping[str, Any]
) -> list[pa.Array]:
    """Return the columns of some rows: those that were found, else the same in all, else null."""
    return [
        found[field.name].cast(field.type)
        if field.name in found
        else pa.repeat(pa.scalar(same.get(field.name), field.type), count)
        for field in schema
    ]
