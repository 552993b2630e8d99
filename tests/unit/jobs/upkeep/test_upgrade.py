"""An upgrade begins only where there is room for it, and where there is a lake to upgrade."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from jobs.upkeep import upgrade
from schemas.bronze import METADATA_POLLS
from schemas.lake import Lake, LakeError
from schemas.upgrades.changes import Change, Found


def change(size: int) -> Change:
    metadata = {"configuration": {}, "schemaString": "{}", "partitionColumns": []}
    found = Found(METADATA_POLLS, metadata, 1, size, datetime(2026, 11, 1, tzinfo=UTC))
    return Change(found, METADATA_POLLS, (), is_rewritten=True)


def test_a_disk_without_room_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, usage = Lake(root=str(tmp_path)), shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3_000_000))
    upgrade._check_space(lake, [change(3_000_000)])
    with pytest.raises(LakeError) as error:
        upgrade._check_space(lake, [change(3_000_000), change(1_000_000)])
    assert str(error.value) == (
        f"{tmp_path}: the upgrade needs 4.0 MB, and its disk has 3.0 MB: make room first; nothing "
        "was written"
    )
    upgrade._check_space(lake, [replace(change(9_000_000), is_rewritten=False)])
    upgrade._check_space(Lake(root="s3a://lake"), [change(9_000_000)])


def test_a_folder_without_a_lake_is_not_upgraded(tmp_path: Path) -> None:
    class Session:
        _jvm = None

    assert not upgrade.is_older(cast("Any", Session()), Lake(root=str(tmp_path)))
    assert not upgrade.is_older(cast("Any", None), Lake(root=str(tmp_path)))


def test_what_takes_long_comes_first() -> None:
    short, long = change(0), change(1)
    assert upgrade._by_length([short, long]) == [[long], [short]]
    assert upgrade._by_length([]) == []
