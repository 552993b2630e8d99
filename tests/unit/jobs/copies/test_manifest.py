"""Manifests that lie, or are none, are one line."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jobs.copies.manifest import (
    Contents,
    ExportedTable,
    File,
    Manifest,
    check,
    check_files,
    parsed,
)
from schemas.lake import LakeError
from schemas.table import LAKE_VERSION, Column

TABLE = ExportedTable(
    2,
    {"part-0.parquet": File(10, "abc")},
    "What it is.",
    {"cluster": Column("cluster", "string", "Its alias.", nullable=False)},
    ("cluster",),
    {"delta.x": "1"},
)
MANIFEST = Manifest("20261101T000000Z-0", LAKE_VERSION, {"prod": ("id-prod",)}, {"a.b": TABLE})
FOUND = {"a.b": TABLE.contents}


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert parsed(MANIFEST.text, "place") == MANIFEST
    assert MANIFEST.text.count("\n") > 10  # people read it


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[:-20], "manifest.json is not that of an export"),
        (lambda _: "{}", "manifest.json is not that of an export"),
        (lambda _: "[]", "manifest.json is not that of an export"),
        (lambda _: '{"lake_version": "new"}', "manifest.json is not that of an export"),
        (lambda text: text.replace('"rows"', '"lines"'), "manifest.json is not that of an export"),
        (lambda text: without(text, "clusters"), "manifest.json is not that of an export"),
        (
            lambda text: of_version(text, LAKE_VERSION + 1),
            (
                f"the lake had version {LAKE_VERSION + 1}, newer than this program's "
                f"{LAKE_VERSION}: upgrade the program"
            ),
        ),
        (
            lambda text: of_version(text, 6),
            "the lake had version 6, and there is a way from 7 on alone",
        ),
    ],
)
def test_what_is_no_manifest_of_a_known_version(change: Callable[[str], str], says: str) -> None:
    with pytest.raises(LakeError) as caught:
        parsed(change(MANIFEST.text), "there")
    assert says in str(caught.value)
    assert str(caught.value).startswith("--from there: ")
    assert str(caught.value).endswith("; nothing was written")


def of_version(text: str, version: int) -> str:
    return json.dumps(json.loads(text) | {"lake_version": version})


def without(text: str, name: str) -> str:
    found: dict[str, Any] = json.loads(text)
    del found[name]
    return json.dumps(found)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "a.b/part-0.parquet is not there"),
        (TABLE.files | {"x.parquet": File(1, "")}, "a.b/x.parquet is not in the manifest"),
        ({"part-0.parquet": File(9, "abc")}, "a.b/part-0.parquet has 9 bytes, not 10"),
        (
            {"part-0.parquet": File(10, "abd")},
            "a.b/part-0.parquet has another checksum than the manifest says",
        ),
    ],
)
def test_files_that_are_not_those_of_the_manifest(files: dict[str, File], says: str) -> None:
    check_files(MANIFEST, {"a.b": TABLE.files}, "there")
    with pytest.raises(LakeError, match=re.escape(f"--from there: {says}; nothing was written")):
        check_files(MANIFEST, {"a.b": files}, "there")


@pytest.mark.parametrize(
    ("found", "clusters", "says"),
    [
        (replace(TABLE.contents, rows=1), {"prod": ("id-prod",)}, "a.b has 1 row, not 2"),
        (
            replace(TABLE.contents, types={"cluster": "int"}),
            {"prod": ("id-prod",)},
            "a.b has other columns than the manifest says: cluster",
        ),
        (
            TABLE.contents,
            {"prod": ("id-prod",), "test": ("id-test",)},
            "there are rows of prod, test, and the manifest says prod",
        ),
        (TABLE.contents, {}, "there are rows of no cluster, and the manifest says prod"),
    ],
)
def test_rows_that_are_not_those_of_the_manifest(
    found: Contents, clusters: dict[str, tuple[str, ...]], says: str
) -> None:
    check(MANIFEST, FOUND, {"prod": ("id-prod",)}, "there")
    with pytest.raises(LakeError, match=re.escape(f"--from there: {says}; nothing was written")):
        check(MANIFEST, {"a.b": found}, clusters, "there")


def test_a_table_that_has_rows_by_the_manifest_and_no_files_is_a_lie() -> None:
    lie = replace(MANIFEST, tables={"a.b": replace(TABLE, files={})})
    with pytest.raises(LakeError, match=r"a\.b has 0 rows, not 2"):
        check(lie, {}, {"prod": ("id-prod",)}, "there")
