"""The log from files of a controller's folder: segments and snapshots, without a cluster."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from metadata_source.errors import ClusterLogError, ProtocolError
from metadata_source.logs.cluster import rows
from metadata_source.logs.cluster.batches import WholeBatches
from metadata_source.logs.cluster.positions import SnapshotId
from metadata_source.logs.rows import same_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from metadata_source.options import ClusterLogFiles

_NAME: Final = re.compile(r"(?P<offset>\d{20})(?:\.log|-(?P<epoch>\d{10})\.checkpoint)")
_PIECE_BYTES: Final = 1 << 22


def found(path: str) -> list[str]:
    """Return the segments and snapshots at a path, a folder or one file, in the order of their
    offsets. Raises ClusterLogError.
    """
    named = Path(path)
    try:
        named.stat()
        files = sorted(named.iterdir()) if named.is_dir() else [named]
    except OSError as error:
        raise ClusterLogError(
            "options", f"path: {path}: {(error.strerror or str(error)).lower()}"
        ) from None
    there = [str(file) for file in files if _NAME.fullmatch(file.name)]
    if not there:
        problem = (
            "no segment (*.log) and no snapshot (*.checkpoint): give the folder "
            "__cluster_metadata-0"
        )
        raise ClusterLogError("options", f"path: {path}: {problem} of a controller's log.dirs")
    return there


class FilesReader(DataSourceReader):
    """Each segment and snapshot whole; a partition is one file, and when it was asked for."""

    def __init__(self, files: ClusterLogFiles) -> None:
        self._files = files

    def partitions(self) -> list[InputPartition]:
        """Return the files, to be read at one time."""
        now = datetime.now(UTC)
        return [InputPartition((name, now)) for name in found(self._files.path)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        file, read_at = partition.value
        return _rows(file, same_of(self._files.alias, self._files.cluster_id, read_at))


def _rows(file: str, same: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a segment or a snapshot: its whole batches, what was read, and whether it
    ends within a batch. Raises ClusterLogError.

    The end of a segment may hold records that were never committed: no file says what was.
    """
    name = _NAME.fullmatch(Path(file).name)
    assert name is not None  # noqa: S101 - `found` has only such
    snapshot = SnapshotId(int(name["offset"]), int(name["epoch"])) if name["epoch"] else None
    same = {**same, **(rows.same_in(snapshot) if snapshot else {})}
    start = 0 if snapshot else int(name["offset"])
    read = rows.Read(start, of_snapshot=snapshot is not None)
    try:
        with Path(file).open("rb") as opened:
            batches = WholeBatches(iter(partial(opened.read, _PIECE_BYTES), b""))
            for records in batches:
                yield rows.record_rows(same, read.take(records))
    except OSError as error:
        raise ClusterLogError(
            "options", f"path: {file}: {(error.strerror or str(error)).lower()}"
        ) from None
    except ProtocolError as error:
        raise ClusterLogError("protocol", f"{file}: from offset {read.next} on: {error}") from None
    yield from rows.read_rows(same, read)
    if batches.left:
        yield rows.unread_row(same, "cut_off", read.next, None)
