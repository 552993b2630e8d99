"""Store a lake of this version for versions of the program to come: half of the known incident, in
its middle.

python -m tests.support.store_lake

Done once for each LAKE_VERSION. tests/spark/test_stored_lakes.py takes the lake on with what the
program is by then.
"""

import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from jobs.histories.incidents import Incidents
from jobs.rounds.commit import append_rows
from schemas import bronze
from schemas.in_spark import ensure_tables
from schemas.lake import TABLES, Lake
from schemas.table import LAKE_VERSION
from tests.support.bronze_rows import bronze_rows
from tests.support.incident import answers
from tests.support.lakes import make_history
from tests.support.repository import ROOT
from truth.session import local_session

FOLDER = ROOT / "tests" / "spark" / "data"
POLLS = 4
"""Two brokers are missing after so many: episodes and incidents are open, and causes are not
decided.
"""


def stored(version: int) -> Path:
    """The file with a lake of that version."""
    return FOLDER / f"lake-{version}.tar.xz"


def unpacked(file: Path, folder: Path) -> Path:
    """Unpack a stored lake below a folder, and return where it is."""
    with tarfile.open(file) as archive:
        # Before Python 3.11.4 there is no filter; `extractall` takes none there.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)  # noqa: S202 - a file of this repository
    return folder / "lake"


def main() -> None:
    """Make the lake, and write the file."""
    file = stored(LAKE_VERSION)
    FOLDER.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        lake = Lake(root=folder)
        with local_session(2) as (spark, _):
            ensure_tables(spark, lake, TABLES)
            rows = [row for row in bronze_rows("prod", answers()) if row["n"] < POLLS]
            append_rows(spark, lake, bronze.METADATA_POLLS, rows)
            make_history(spark, lake, Incidents())
        with tarfile.open(file, "x:xz") as archive:
            archive.add(folder, "lake", filter=_filter)


def _filter(each: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without what Hadoop writes beside each file, and who made it."""
    each.uid = each.gid = each.mtime = 0
    each.uname = each.gname = ""
    return None if each.name.endswith(".crc") and "/." in each.name else each


if __name__ == "__main__":
    main()
