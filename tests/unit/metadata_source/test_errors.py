"""Errors of the product: one base, and kinds that say whom it helps to ask again."""

import ast
import builtins
import pickle
from functools import cache

import pytest

from metadata_source.errors import (
    ClusterLogError,
    ErrorKind,
    GroupLogError,
    PollError,
    Retry,
    TokenError,
)
from tests.support.repository import ROOT

BASE = "KafkaMetadataHistoryError"
PRODUCT = ("metadata_source", "schemas", "jobs", "kafka_metadata_history")
BUILT_IN = {
    name
    for name, each in vars(builtins).items()
    if isinstance(each, type) and issubclass(each, BaseException)
}


@cache
def nodes() -> tuple[ast.AST, ...]:
    files = (path for folder in PRODUCT for path in sorted((ROOT / folder).rglob("*.py")))
    return tuple(each for file in files for each in ast.walk(ast.parse(file.read_text())))


def name_of(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def test_every_error_of_the_product_has_one_base():
    bases = {
        each.name: [name_of(base) for base in each.bases]
        for each in nodes()
        if isinstance(each, ast.ClassDef)
    }

    def all_bases(name: str) -> set[str]:
        found = {name}
        while more := {base for each in found for base in bases.get(each, ())} - found:
            found |= more
        return found

    errors = {name for name in bases if name.endswith("Error") or all_bases(name) & BUILT_IN}
    assert {
        "LakeError",
        "ConfigError",
        "ProtocolError",
        "_VersionsUnreadError",
        "DemoError",
    } <= errors
    assert not {name for name in errors if BASE not in all_bases(name)}


def test_every_kind_that_is_written_down_is_one():
    """If a word were no kind, raising an error with it would raise another one."""
    classes = {
        "PollError",
        "TokenError",
        "LogError",
        "GroupLogError",
        "ClusterLogError",
        "_VersionsUnreadError",
    }
    calls = [each for each in nodes() if isinstance(each, ast.Call)]
    kinds = [each.args[0] for each in calls if name_of(each.func) in classes and each.args]
    of_polls = [each for each in calls if name_of(each.func) in {"Poll", "Witness", "replace"}]
    kinds += [
        keyword.value
        for each in of_polls
        for keyword in each.keywords
        if keyword.arg == "error_kind"
    ]
    words = {
        each.value for each in kinds if isinstance(each, ast.Constant) and each.value is not None
    }
    assert len(words) > 10
    assert words <= set(ErrorKind)


@pytest.mark.parametrize("error", [PollError, TokenError, GroupLogError, ClusterLogError])
def test_an_error_is_the_same_on_the_other_side_of_a_pickle(error):
    there = pickle.loads(pickle.dumps(error("timeout", "host:1: no answer in time")))  # noqa: S301
    assert (type(there), there.kind, there.problem) == (
        error,
        ErrorKind.TIMEOUT,
        "host:1: no answer in time",
    )
    assert str(there) == f"[KAFKA_METADATA_{error.name}] timeout: host:1: no answer in time"
    assert there.retry is Retry.AGAIN
