"""Lakes as people have them: damaged, half made, closed to this user, of an older version. Each is
one line and exit 1, or is read.
"""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs.configuration.limits import CROSSED
from kafka_metadata_history.answers.questions import names, question
from kafka_metadata_history.command import FAILED, exit_status
from kafka_metadata_history.opened import without_spark
from schemas.lake import Lake, LakeError
from schemas.table import LAKE_VERSION, VERSION_PROPERTY
from tests.support.store_lake import FOLDER, stored, unpacked

COUNT = "SELECT count(leader) AS n FROM silver.partition_snapshots"
TABLE = Path("silver/partition_snapshots")
NOBODY = 65534
OLDER = sorted(
    int(path.name[5:-7]) for path in FOLDER.glob("lake-*.tar.xz") if path != stored(LAKE_VERSION)
)

Damage = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(stored(LAKE_VERSION), tmp_path_factory.mktemp("whole"))


@pytest.fixture
def lake(whole: Path) -> Iterator[Path]:
    """A copy that others may read: a folder of pytest's own is closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copytree(whole, Path(folder) / "lake"))


def asked(
    lake: Path, *arguments: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, list[str]]:
    config = lake.parent / "config.yaml"
    config.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    found = exit_status([*arguments, "--config", str(config)])
    printed = capsys.readouterr()
    return found, printed.out, printed.err.splitlines()


@contextmanager
def as_nobody() -> Iterator[None]:
    """As a user who may not read everything, if this one is root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def without_files(lake: Path) -> None:
    for file in (lake / TABLE).rglob("part-*.parquet"):
        file.unlink()


def cut(lake: Path, pattern: str) -> None:
    for file in (lake / TABLE).glob(pattern):
        file.write_bytes(file.read_bytes()[:40])


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            without_files,
            "a file that its log names is gone; restore it from a backup, or take another lake",
        ),
        (
            lambda lake: cut(lake, "**/part-*.parquet"),
            "restore it from a backup, or take another lake",
        ),
        (
            lambda lake: cut(lake, "_delta_log/*.json"),
            "restore it from a backup, or take another lake",
        ),
    ],
    ids=["no Parquet", "cut Parquet", "cut log"],
)
def test_a_damaged_table_is_named_in_one_line(
    lake: Path, damage: Damage, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(lake)
    found, answer, (line,) = asked(lake, "query", COUNT, capsys=capsys)
    assert (found, answer) == (FAILED, "")
    assert line.startswith(
        f"kafka-metadata-history: {lake}: silver.partition_snapshots cannot be read: "
    )
    assert line.endswith(says)


@pytest.mark.parametrize("closed", [TABLE / "_delta_log", Path()], ids=["a log", "the lake"])
def test_a_lake_that_this_user_may_not_read_is_one_line(
    lake: Path, closed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = lake / closed
    config = lake.parent / "config.yaml"
    config.touch()
    config.chmod(0o666)
    folder.chmod(0)
    try:
        with as_nobody():
            found, answer, (line,) = asked(lake, "query", COUNT, capsys=capsys)
    finally:
        folder.chmod(0o755)
    assert (found, answer) == (FAILED, "")
    assert re.search(r"[Pp]ermission denied: let this user read all files below it$", line)


@pytest.mark.parametrize(
    "arguments", [("query", "overview"), ("query", "health"), ("status",), ("report",)]
)
def test_a_lake_half_made_is_said_to_be_one(
    lake: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(lake / "internal")
    found, _, (line,) = asked(lake, *arguments, capsys=capsys)
    assert found == FAILED
    assert re.search(
        r": not complete: .* is not there; `kafka-metadata-history run` makes what is missing$",
        line,
    )


def test_a_name_that_other_readers_would_take_for_another_is_refused() -> None:
    with pytest.raises(LakeError, match="% cannot be in the name of a lake"):
        Lake(root="/data/x%20y")
    assert Lake(root="s3a://lakes/x%20y").is_uri


@pytest.mark.parametrize("version", OLDER)
def test_an_older_lake_is_asked_what_it_has(
    version: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = unpacked(stored(version), tmp_path)
    found, answer, (_, beside, *_) = asked(old, "query", COUNT, "--format", "json", capsys=capsys)
    assert (found, json.loads(answer)) == (0, {"n": 13})
    assert beside == (
        f"the lake is of version {version}, older than this program's {LAKE_VERSION}: columns may "
        "mean other things"
    )
    found, _, beside = asked(old, "status", capsys=capsys)
    # Version 10 has columns for what `status` asks of internal.states.
    assert found == (CROSSED if version >= 10 else FAILED)
    if version >= 10:
        return
    assert any(f"version {version} may lack what this asks for" in line for line in beside)


def test_a_lake_of_the_version_before_answers_what_it_has(tmp_path: Path) -> None:
    """Columns that came since are null; of tables that came since it says that it has none."""
    ask = without_spark(Lake(root=str(unpacked(stored(OLDER[-1]), tmp_path))))
    since, until = "2026-11-01T11:00:00Z", "2026-11-01T13:00:00Z"
    asked = {name: question(name, since, until, {}, datetime.now(UTC)).sql for name in names()}
    of_new = {"growth", "storage", "held_up", "open_transactions"}
    of_new |= {"transactions", "stuck_transactions"}
    assert ask(asked["timeline"]).num_rows > 0
    for name in asked.keys() - of_new:
        ask(asked[name])
    for name in of_new:
        with pytest.raises(LakeError, match=rf"version {OLDER[-1]} had no "):
            ask(asked[name])


def test_an_older_lake_says_what_it_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = unpacked(stored(OLDER[0]), tmp_path)
    found, _, (line,) = asked(old, "query", "SELECT cluster FROM gold.group_lag", capsys=capsys)
    assert (found, line) == (
        FAILED,
        (
            f"kafka-metadata-history: {old}: version {OLDER[0]} had no gold.group_lag, or no such "
            "columns for it; `kafka-metadata-history upgrade` makes the lake one of version "
            f"{LAKE_VERSION}"
        ),
    )


def test_a_lake_of_a_newer_version_is_refused(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for log in (lake / TABLE / "_delta_log").glob("*.json"):
        log.write_text(
            log.read_text().replace(
                f'"{VERSION_PROPERTY}":"{LAKE_VERSION}"',
                f'"{VERSION_PROPERTY}":"{LAKE_VERSION + 1}"',
            )
        )
    for kept_beside in (lake / TABLE / "_delta_log").glob("*.crc"):
        kept_beside.unlink()
    found, _, (line,) = asked(lake, "query", COUNT, capsys=capsys)
    assert (found, line.rpartition(": ")[2]) == (FAILED, "upgrade the program")
