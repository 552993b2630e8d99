"""A lake into which an import was begun, and has not ended, is said to be so."""

import pytest

from schemas.imports import Import, check_imports, newest
from schemas.lake import Lake, LakeError

LAKE = Lake(root="lake")
BEGUN, ENDED = (Import("x", "/backup", is_whole=each).text for each in (False, True))


def test_an_import_has_ended_once_its_round_says_so() -> None:
    check_imports(LAKE, [])
    check_imports(LAKE, [("prod", 7, ENDED), ("prod", 0, BEGUN)])
    assert newest([("prod", 7, ENDED), ("prod", 0, BEGUN)])["prod"].is_whole


def test_an_import_that_has_not_ended_is_one_line() -> None:
    rows = [("prod", 7, ENDED), ("prod", 0, BEGUN), ("test", 0, BEGUN), ("dev", 0, BEGUN)]
    with pytest.raises(LakeError) as caught:
        check_imports(LAKE, rows)
    assert str(caught.value) == (
        "lake: the import of dev, test has not ended: run `kafka-metadata-history import --from "
        "/backup` again, or `import --undo`"
    )


def test_an_import_that_was_taken_back_is_none() -> None:
    check_imports(LAKE, [("", 9, None)])
