"""Files as a power cut leaves them: with a name, and without bytes."""

from pathlib import Path

from schemas.lake import Lake
from schemas.table import Table


def cut_power(lake: Lake, table: Table, commits: int = 1) -> None:
    """Leave the newest commits of a table without bytes."""
    log = Path(lake.path(table)) / "_delta_log"
    for newest in sorted(log.glob("?" * 20 + ".json"))[-commits:]:
        for file in (newest, newest.with_suffix(".crc")):
            file.write_bytes(b"")
