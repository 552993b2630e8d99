"""Files of Delta's log as a power cut leaves them; what Delta makes of them is in
tests/spark/test_checkpoints.py.
"""

import json
import shutil
from pathlib import Path

import pytest

from schemas.bronze import METADATA_POLLS
from schemas.lake import Lake
from schemas.lost_commits import commits_of, mend_lost_commits

FILES = {"part 1.parquet": 10, "day=2026-11-26/part-2.parquet": 20}


def made(lake: Lake, *, commits: int = 3) -> Path:
    """A table as Delta has it in the files that matter here: each commit adds both files once
    more.
    """
    folder = Path(lake.path(METADATA_POLLS))
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for name, size in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"x" * size)
    adds = [
        {"add": {"path": name.replace(" ", "%20"), "size": size}} for name, size in FILES.items()
    ]
    for number in range(commits):
        actions = [{"commitInfo": {"operation": "WRITE"}}, *adds]
        (log / f"{number:020}.json").write_text(
            "".join(f"{json.dumps(action)}\n" for action in actions)
        )
        for beside in (f"{number:020}.crc", f".{number:020}.json.crc", f".{number:020}.crc.crc"):
            (log / beside).write_text("of what the commit was")
    (log / f"{0:020}.{1:020}.compacted.json").write_text("")
    return folder


def operations(folder: Path) -> list[str]:
    commits = sorted((folder / "_delta_log").glob("?" * 20 + ".json"))
    return [
        json.loads(commit.read_text().splitlines()[0])["commitInfo"]["operation"]
        for commit in commits
    ]


def test_nothing_is_said_of_a_lake_that_is_whole(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    assert list(mend_lost_commits(lake)) == []
    folder = made(lake)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert list(mend_lost_commits(lake)) == []
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    "left", [b"", b"\0" * 4096, b'{"commitInfo": {"operation": "WRITE"}}\n{"add": {"pa']
)
def test_a_newest_commit_without_its_bytes_did_nothing_from_then_on(
    tmp_path: Path, left: bytes
) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    folder = made(lake)
    (folder / "_delta_log" / f"{2:020}.json").write_bytes(left)
    (line,) = mend_lost_commits(lake)
    why = "ends in the middle of a line" if left.strip(b"\0") else "has no bytes"
    assert line.startswith(
        f"bronze.metadata_polls in {lake}: commit 2 {why}, as a power cut leaves it: its rows are"
    )
    assert operations(folder) == ["WRITE", "WRITE", "LOST"]
    names = {file.name for file in (folder / "_delta_log").iterdir() if f"{2:020}" in file.name}
    assert names == {f"{2:020}.json"}, "what tells of the commit as it was is gone"
    assert list(mend_lost_commits(lake)) == []


@pytest.mark.parametrize("name", FILES)
def test_a_commit_whose_rows_are_gone_did_nothing_either(tmp_path: Path, name: str) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    folder = made(lake)
    newest = folder / "_delta_log" / f"{3:020}.json"
    newest.write_text(json.dumps({"commitInfo": {"operation": "DELETE"}}) + "\n")
    (folder / name).write_bytes(b"x")
    assert list(mend_lost_commits(lake)) == [], "a newer commit may have dropped the file"
    newest.unlink()
    line, *_ = mend_lost_commits(lake)
    assert (
        f": commit 2 adds {Path(name).name}, which has lost bytes, as a power cut leaves it" in line
    )
    assert operations(folder)[-1] == "LOST"


def test_a_table_whose_only_commit_is_lost_is_made_again(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    folder = made(lake, commits=1)
    (folder / "_delta_log" / f"{0:020}.json").write_bytes(b"")
    (line,) = mend_lost_commits(lake)
    assert line.endswith(
        f"nobody can read the table; move {folder} away, and it is made again, empty"
    )
    for file in folder.iterdir():
        if file.name != "_delta_log":
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    (line,) = mend_lost_commits(lake)
    assert line.endswith("the table was empty, and is made again")
    assert not folder.exists()


def test_all_commits_at_the_end_that_are_lost_are_mended_and_none_before(tmp_path: Path) -> None:
    """Files that a commit added may be gone by right once another one has come after it."""
    lake = Lake(root=str(tmp_path / "lake"))
    folder = made(lake, commits=5)
    for number in (0, 3, 4):
        (folder / "_delta_log" / f"{number:020}.json").write_bytes(b"")
    assert [line.split(" has ")[0].rpartition(" ")[2] for line in mend_lost_commits(lake)] == [
        "4",
        "3",
    ]
    assert (folder / "_delta_log" / f"{0:020}.json").read_bytes() == b""


def test_what_a_checkpoint_of_delta_has_is_not_lost(tmp_path: Path) -> None:
    lake = Lake(root=str(tmp_path / "lake"))
    log = made(lake) / "_delta_log"
    (log / f"{2:020}.json").write_bytes(b"")
    checkpoint = log / f"{2:020}.checkpoint.parquet"
    checkpoint.write_bytes(b"PAR1")
    assert list(mend_lost_commits(lake)) == []
    checkpoint.write_bytes(b"")
    assert len(list(mend_lost_commits(lake))) == 1


@pytest.mark.parametrize(
    "lake", [Lake(catalog="main"), Lake(root="s3a://bucket/lake"), Lake(root="file:/lake")]
)
def test_only_folders_of_this_machine_are_looked_at(lake: Lake) -> None:
    assert list(mend_lost_commits(lake)) == []


@pytest.mark.parametrize(
    "left", [b"", b"\0" * 4096, b'{"commitInfo": {"op'], ids=["empty", "zeros", "cut"]
)
def test_commits_are_told_up_to_one_that_has_lost_bytes(tmp_path: Path, left: bytes) -> None:
    """A checkpoint of Delta has what it did, so nobody mends it."""
    lake = Lake(root=str(tmp_path / "lake"))
    log = made(lake, commits=4) / "_delta_log"
    assert [version for version, _ in commits_of(lake, METADATA_POLLS, 3)] == [3, 2, 1]
    (log / f"{1:020}.json").write_bytes(left)
    found = commits_of(lake, METADATA_POLLS, 40)
    assert found == [(version, {"operation": "WRITE"}) for version in (3, 2)]
