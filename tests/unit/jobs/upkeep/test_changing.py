"""What notes an upgrade, and what is said where one is broken off."""

import json

import pytest

from jobs.upkeep.changing import Note, explained
from schemas.lake import UPGRADE_PROPERTY, Lake, LakeError, check_whole

LAKE = Lake(root="LAKE")
BEGAN = "2026-11-01T12:00:00+00:00"


@pytest.mark.parametrize(
    "note",
    [
        Note(7, BEGAN, 5),
        Note(7, BEGAN, 5, done=BEGAN),
        Note(7, BEGAN, 5, undo=True),
        Note(7, BEGAN, 5, done=BEGAN, undo=True),
    ],
)
def test_a_note_is_read_as_it_was_written(note: Note) -> None:
    assert Note.of({"configuration": {UPGRADE_PROPERTY: note.text}}) == note


def test_a_lake_without_a_note_is_not_being_upgraded() -> None:
    assert Note.of({"configuration": {}}) is None
    check_whole({}, LAKE)
    check_whole({UPGRADE_PROPERTY: Note(7, BEGAN, 5, done=BEGAN).text}, LAKE)


@pytest.mark.parametrize(
    ("note", "says"),
    [
        (
            Note(7, BEGAN, 5),
            (
                f"LAKE is half upgraded from version 7, since {BEGAN}: run "
                "`kafka-metadata-history upgrade` to its end"
            ),
        ),
        (
            Note(7, BEGAN, 5, done=BEGAN, undo=True),
            (
                "LAKE is half taken back to version 7: run `kafka-metadata-history upgrade --undo` "
                "to its end"
            ),
        ),
    ],
)
def test_half_a_lake_is_refused(note: Note, says: str) -> None:
    with pytest.raises(LakeError) as error:
        check_whole({UPGRADE_PROPERTY: note.text}, LAKE)
    assert str(error.value) == says
    assert json.loads(note.text)["rounds"] == 5


def test_a_full_disk_is_one_line() -> None:
    error = explained(LAKE, OSError(28, "No space left on device"))
    assert str(error) == (
        "LAKE: the upgrade was broken off: [Errno 28] No space left on device: make room, and run "
        "it again: it comes to its end where it was broken off"
    )
    assert str(explained(LAKE, ValueError("odd"))).endswith(
        "odd: run it again: it comes to its end where it was broken off"
    )
    own = LakeError("own")
    assert explained(LAKE, own) is own
