"""Commits of Delta tables that a power cut has left without their bytes.

Neither Spark nor Delta waits until the disk has a file. So after a power cut the newest files of a
lake in folders of this machine may have a name and no bytes. Delta takes an empty commit for one
that did nothing; if a file of rows is empty, each query of that table fails. Object stores have a
file whole or not at all.
"""

import json
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from schemas.lake import TABLES, Lake
from schemas.table import Table

LOST = "LOST"
"""The operation that DESCRIBE HISTORY shows of a commit whose rows are lost."""

_BLANK = b"\0 \r\n"
_COMMIT = re.compile(r"[0-9]{20}\.json")


def commits_of(lake: Lake, table: Table, most: int) -> list[tuple[int, dict[str, Any]]]:
    """The newest commits of a table, newest first: version, and what Delta notes of each
    (`commitInfo`). They end before one that has lost bytes, which Delta does not read either where
    a checkpoint has what it did.
    """
    found: list[tuple[int, dict[str, Any]]] = []
    for commit in _commits_in(Path(lake.path(table)))[:most]:
        with suppress(ValueError):
            actions = [json.loads(line) for line in commit.read_bytes().strip(_BLANK).splitlines()]
            if actions:
                infos = (each["commitInfo"] for each in actions if "commitInfo" in each)
                found.append((int(commit.stem), next(infos, {})))
                continue
        break
    return found


def _commits_in(folder: Path) -> list[Path]:
    """The commits of a table, newest first."""
    log = folder / "_delta_log"
    found = (
        file for file in (log.iterdir() if log.is_dir() else ()) if _COMMIT.fullmatch(file.name)
    )
    return sorted(found, reverse=True)


def mend_lost_commits(lake: Lake) -> Iterator[str]:
    """Make the newest commits that have lost bytes, their own or those of a file that they add,
    commits that did nothing; yield a line about each.

    Their numbers stay taken, so nobody who writes meanwhile is disturbed. Only lakes in folders of
    this machine are looked at.
    """
    for table in TABLES if lake.is_folder else ():
        folder = Path(lake.path(table))
        for commit, why in _lost(folder):
            of = (
                f"{table.full_name} in {lake}: commit {int(commit.stem)} {why}, as a power cut "
                "leaves it"
            )
            if int(commit.stem):
                _empty(commit)
                yield (
                    f"{of}: its rows are lost, and DESCRIBE HISTORY shows it as {LOST}. If the "
                    "plan of a batch, or of a round of history, is there, it is made again now, "
                    "and a line says so. Polls of which no plan is left are missing"
                )
            elif {each.name for each in folder.iterdir()} == {"_delta_log"}:
                shutil.rmtree(folder)
                yield f"{of}: the table was empty, and is made again"
            else:
                yield (
                    f"{of}: nobody can read the table; move {folder} away, and it is made again, "
                    "empty"
                )


def _lost(folder: Path) -> Iterator[tuple[Path, str]]:
    """The newest commits of a table that are lost, newest first, and why."""
    checkpoints = (
        each for each in (folder / "_delta_log").glob("[0-9]*.checkpoint.*") if each.stat().st_size
    )
    # A checkpoint has what commits up to it did.
    kept = max((int(each.name.partition(".")[0]) for each in checkpoints), default=-1)
    for commit in _commits_in(folder):
        if int(commit.stem) <= kept or (why := _why_lost(folder, commit)) is None:
            return
        yield commit, why


def _why_lost(folder: Path, commit: Path) -> str | None:
    """In which way a table's newest commit is lost; None where it is whole."""
    if not (content := commit.read_bytes().strip(_BLANK)):
        return "has no bytes"
    for line in content.splitlines():
        try:
            added = json.loads(line).get("add")
        except ValueError:
            return "ends in the middle of a line"
        file = folder / unquote(added["path"]) if added else None
        if file is not None and file.is_file() and file.stat().st_size < added["size"]:
            return f"adds {file.name}, which has lost bytes"
    return None


def _empty(commit: Path) -> None:
    """Let a commit say that it did nothing."""
    # Delta may believe the checksum file, Hadoop the one of its own, of what the commit was.
    for beside in (commit.with_suffix(".crc"), *commit.parent.glob(f".{commit.stem}.*")):
        beside.unlink(missing_ok=True)
    new = commit.with_name(f".{commit.stem}.lost")
    info = {"timestamp": time.time_ns() // 1_000_000, "operation": LOST, "operationParameters": {}}
    new.write_text(json.dumps({"commitInfo": info}) + "\n")
    new.replace(commit)
