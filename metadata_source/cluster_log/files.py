"""The log from files of a controller's folder: segments and snapshots, without a cluster."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from metadata_source.cluster_log.places import SnapshotId
from metadata_source.errors import ClusterLogError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import pyarrow as pa

_NAME: Final = re.compile(r"(?P<offset>\d{20})(?:\.log|-(?P<epoch>\d{10})\.checkpoint)")
_PIECE_BYTES: Final = 1 << 22


def found(path: str) -> list[str]:
    """Return the segments and snapshots at a path, a folder or one file, in the order of their offsets. Raises
    ClusterLogError.
    """
    place = Path(path)
    try:
        place.stat()
        files = sorted(place.iterdir()) if place.is_dir() else [place]
    except OSError as error:
        raise ClusterLogError("options", f"path: {path}: {(error.strerror or str(error)).lower()}") from None
    there = [str(file) for file in files if _NAME.fullmatch(file.name)]
    if not there:
        problem = "no segment (*.log) and no snapshot (*.checkpoint): give the folder __cluster_metadata-0"
        raise ClusterLogError("options", f"path: {path}: {problem} of a controller's log.dirs")
    return there


def read_file(file: str, *, cluster: str, cluster_id: str | None, read_at: datetime) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a segment or a snapshot: its whole batches, what was read, and whether it ends within a batch.
    Raises ClusterLogError.

    The end of a segment may hold records that were never committed: no file says what was.
    """
    from metadata_source.cluster_log import rows  # noqa: PLC0415
    from metadata_source.cluster_log.batches import WholeBatches  # noqa: PLC0415

    name = _NAME.fullmatch(Path(file).name)
    assert name is not None  # noqa: S101 - `found` has only such
    snapshot = SnapshotId(int(name["offset"]), int(name["epoch"])) if name["epoch"] else None
    source = rows.Source(cluster, cluster_id, read_at, snapshot)
    read = rows.Read(0 if snapshot else int(name["offset"]))
    try:
        with Path(file).open("rb") as opened:
            batches = WholeBatches(iter(partial(opened.read, _PIECE_BYTES), b""))
            for records in batches:
                yield rows.record_rows(source, read.take(records))
    except OSError as error:
        raise ClusterLogError("options", f"path: {file}: {(error.strerror or str(error)).lower()}") from None
    except ProtocolError as error:
        raise ClusterLogError("protocol", f"{file}: from offset {read.next} on: {error}") from None
    yield from rows.read_rows(source, read)
    if batches.left:
        yield rows.unread_row(source, "cut_off", read.next, None)
