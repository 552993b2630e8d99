"""How rebalance history agrees with what happened to groups, as tests ask for it."""

from collections.abc import Mapping

from truth.groups.score import Score


def check_scores(scores: Mapping[str, Score], *, groups: int, steps: int) -> None:
    """So many groups, each without a fault; so many steps were done to each."""
    for group, score in scores.items():
        print(group, score)
    faults = [f"{group}, {fault}" for group, score in scores.items() for fault in score.faults]
    assert not faults, "\n".join(faults)
    # A history of nothing, or nothing that happened, would agree too.
    assert len(scores) == groups
    for score in scores.values():
        assert score.steps >= steps
        assert score.rebalances >= 0.75 * steps
        assert score.members >= 1.5 * steps
        assert score.events >= 1
