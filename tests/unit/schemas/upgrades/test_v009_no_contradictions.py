"""Memory of version 8 as version 9 reads it."""

from schemas.upgrades.v009_no_contradictions import state


def test_nothing_is_suspected() -> None:
    assert state("silver", '{"digest":"00","suspected":["flat epochs"]}') == '{"digest":"00"}'
    assert state("isr_shrink", '{"suspected":[]}') == '{"suspected":[]}'
    assert state("silver", None) is None
