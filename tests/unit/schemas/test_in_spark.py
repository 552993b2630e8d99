"""A lake on S3 is written only where the session says how drivers are kept apart."""

from types import SimpleNamespace
from typing import Any

import pytest

from schemas.in_spark import check_commits, ensure_lake, ensure_tables
from schemas.lake import Lake, LakeError


def session(**settings: str) -> Any:
    """As far as it is looked at: anything but the settings is an AttributeError."""
    return SimpleNamespace(conf=settings)


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_lake_on_s3_is_refused_before_anything_is_read(scheme: str) -> None:
    lake = Lake(root=f"{scheme}://bucket/lake")
    for make in (ensure_lake, lambda *where: ensure_tables(*where, [])):
        with pytest.raises(
            LakeError, match=rf"^{lake}: set spark\.delta\.logStore\.{scheme}\.impl: to io\."
        ) as error:
            make(session(), lake)
        assert "\n" not in str(error.value)


def test_whoever_names_a_log_store_has_decided() -> None:
    lake = Lake(root="s3a://bucket/lake")
    check_commits(
        session(**{"spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore"}), lake
    )
    with pytest.raises(LakeError):
        check_commits(
            session(**{"spark.delta.logStore.s3.impl": "io.delta.storage.S3DynamoDBLogStore"}), lake
        )


@pytest.mark.parametrize(
    "lake", [Lake(root="/data/lake"), Lake(root="abfss://a@b/lake"), Lake(catalog="main")]
)
def test_other_lakes_need_no_setting(lake: Lake) -> None:
    check_commits(session(), lake)
