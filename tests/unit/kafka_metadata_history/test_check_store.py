"""The lines of the command check about the object store of a lake."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_metadata_history import check
from kafka_metadata_history.command import exit_status
from schemas.table import LAKE_VERSION
from tests.support.object_store import BUCKET, KEY, SECRET, configured, object_store, put
from tests.support.store_lake import stored, unpacked

LAKE = f"s3a://{BUCKET}/kmh"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    lake = unpacked(stored(LAKE_VERSION), tmp_path_factory.mktemp("whole"))
    with object_store() as found:
        put(found, lake / "internal", "kmh/internal")
        yield found


@pytest.mark.parametrize(
    ("root", "key", "says"),
    [
        (LAKE, KEY, ["can be listed", f"can be read; a lake of version {LAKE_VERSION} is there"]),
        (f"s3://{BUCKET}/a", KEY, ["can be listed", "no lake is there to be read; "]),
        ("s3://not-there/kmh", KEY, ["cannot be listed: the bucket is not there"]),
        (LAKE, "EXPIRED", ["cannot be listed: the credentials have expired"]),
        (LAKE, "SKEWED", ["cannot be listed: this machine's clock is too far from the store's"]),
        (LAKE, "UNKNOWN", ["cannot be listed: the store does not know these credentials"]),
        (LAKE, "MAYNOTLIST", ["cannot be listed: access denied"]),
        (LAKE, "MAYNOTREAD", ["can be listed", "internal.states cannot be read: access denied"]),
    ],
)
def test_check_says_whether_a_store_can_be_read(
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    root: str,
    key: str,
    says: list[str],
) -> None:
    monkeypatch.setenv("KAFKA_STORE_SECRET", SECRET)
    monkeypatch.setattr(check, "checked", lambda *_, **__: [])
    config = configured(tmp_path / "config.yaml", store, root, key)
    is_good = not any("cannot be" in each for each in says)
    assert exit_status(["check", "--config", config]) == (0 if is_good else 3)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(says)
    for line, begins in zip(lines, says, strict=True):
        assert line.startswith(f"lake {root}: {begins}")
