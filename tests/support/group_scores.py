"""How rebalance history agrees with what happened to groups, as tests ask for it."""

from collections.abc import Mapping

from truth.groups.compare import Score


def check_scores(scores: Mapping[str, Score], groups: int) -> None:
    """So many groups, each without a fault."""
    for group, score in scores.items():
        print(group, score)
    faults = [f"{group}, {fault}" for group, score in scores.items() for fault in score.faults]
    assert not faults, "\n".join(faults)
    # A history of nothing, or nothing that happened, would agree too.
    assert len(scores) == groups
    for score in scores.values():
        assert score.steps > 15
        assert score.rebalances > 15
        assert score.members > 40
        assert score.events >= 2
