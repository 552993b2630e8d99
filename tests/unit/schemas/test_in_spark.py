"""A lake on S3 is written by one driver at a time."""

from types import SimpleNamespace
from typing import Any

import pytest

from schemas import in_spark
from schemas.in_spark import SINGLE_DRIVER, check_commits, ensure_lake, ensure_tables
from schemas.lake import Lake, LakeError
from tests.support.s3a import Session

LAKE = Lake(root="s3a://bucket/lake")
SETTING = "spark.delta.logStore.s3a.impl"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def hold(_: object, root: str) -> None:
        raise LakeError(f"{root}: another driver writes it")

    monkeypatch.setattr(in_spark, "hold", hold)


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_lake_that_another_driver_writes_is_refused_before_anything_is_read(scheme: str) -> None:
    lake = Lake(root=f"{scheme}://bucket/lake")
    for make in (ensure_lake, lambda *where: ensure_tables(*where, [])):
        with pytest.raises(LakeError, match=rf"^{lake.root}: another driver"):
            make(Session(), lake)


@pytest.mark.usefixtures("refused")
def test_whoever_names_another_log_store_has_decided() -> None:
    check_commits(Session({SETTING: "com.example.LogStore"}), LAKE)
    for settings in (
        {SETTING: SINGLE_DRIVER},
        {"spark.delta.logStore.s3.impl": "com.example.LogStore"},
    ):
        with pytest.raises(LakeError):
            check_commits(Session(settings), LAKE)


@pytest.mark.parametrize(
    "lake", [Lake(root="/data/lake"), Lake(root="abfss://a@b/lake"), Lake(catalog="main")]
)
def test_other_lakes_are_not_asked(lake: Lake) -> None:
    session: Any = SimpleNamespace()  # Whatever is looked at is an AttributeError.
    check_commits(session, lake)
