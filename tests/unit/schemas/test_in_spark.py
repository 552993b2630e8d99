"""A lake on S3 is written only where the first of two commits stays."""

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from schemas.in_spark import SINGLE_DRIVER, check_commits, ensure_lake, ensure_tables
from schemas.lake import Lake, LakeError
from tests.support.s3a import NO_ANSWER, REPLACES, Session

LAKE = Lake(root="s3a://bucket/lake")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_lake_whose_store_replaces_commits_is_refused_before_anything_is_read(
    scheme: str,
) -> None:
    lake = Lake(root=f"{scheme}://bucket/lake")
    for make in (ensure_lake, lambda *where: ensure_tables(*where, [])):
        with pytest.raises(
            LakeError, match=rf"^{lake.root}: a second driver would replace what a first one"
        ) as error:
            make(Session(REPLACES), lake)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "says",
    [
        "org.apache.hadoop.fs.s3a.RemoteFileChangedException: PUT 0-byte object: 412",
        "org.apache.hadoop.fs.FileAlreadyExistsException: s3a://bucket/lake/x",
    ],
)
def test_a_store_is_asked_once_and_leaves_nothing(says: str) -> None:
    session = Session(says)
    for _ in range(2):
        check_commits(session, LAKE)
    assert session.closed == 2
    (name,) = session.deleted
    assert name.startswith("s3a://bucket/lake/_first_wins_")
    check_commits(session, Lake(root="s3a://bucket/other"))
    assert session.closed == 4


def test_what_else_the_store_says_is_an_error() -> None:
    with pytest.raises(Py4JJavaError):
        check_commits(Session(NO_ANSWER), LAKE)


def test_whoever_names_another_log_store_has_decided() -> None:
    setting = "spark.delta.logStore.s3a.impl"
    check_commits(Session(REPLACES, {setting: "com.example.LogStore"}), LAKE)
    for settings in (
        {setting: SINGLE_DRIVER},
        {"spark.delta.logStore.s3.impl": "com.example.LogStore"},
    ):
        with pytest.raises(LakeError):
            check_commits(Session(REPLACES, settings), LAKE)


@pytest.mark.parametrize(
    "lake", [Lake(root="/data/lake"), Lake(root="abfss://a@b/lake"), Lake(catalog="main")]
)
def test_other_lakes_are_not_asked(lake: Lake) -> None:
    session: Any = SimpleNamespace()  # Whatever is looked at is an AttributeError.
    check_commits(session, lake)
