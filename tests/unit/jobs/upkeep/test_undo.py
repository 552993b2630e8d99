"""What an upgraded table keeps for an undo goes when it is too late for one."""

from jobs.upkeep.undo import _closed
from schemas.gold import ISR_CHANGES
from schemas.lake import UPGRADE_PROPERTY
from schemas.upgrades.changes import BEFORE_PROPERTY


def test_a_table_is_as_this_program_makes_it_and_what_others_set_stays() -> None:
    upgraded = {
        **ISR_CHANGES.properties,
        "delta.logRetentionDuration": "interval 192 hours",
        "somebody.else": "x",
        UPGRADE_PROPERTY: "{}",
        BEFORE_PROPERTY: "3",
    }
    closed = _closed(ISR_CHANGES, {"id": "i", "configuration": upgraded}, 5)
    assert closed == {
        "id": "i",
        "configuration": {**ISR_CHANGES.properties, "somebody.else": "x"},
    }
