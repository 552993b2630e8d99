"""How history agrees with the controllers' log, as tests ask for it."""

from schemas import gold
from truth.report import Verdict


def check_verdict(verdict: Verdict, *, claims: int, transitions: int, decided: int) -> None:
    """No fault, and more than so much to be compared."""
    print(verdict)
    assert not verdict.faults, "\n".join(verdict.faults)
    # Polls that found nothing, or a log in which nothing happened, would agree too.
    assert verdict.states.claims > claims
    assert verdict.epochs.transitions > transitions
    assert verdict.events["ISR, by silver"].expected > transitions
    assert verdict.events[gold.LEADER_CHANGES.full_name].decided > decided
    assert verdict.events[gold.ISR_CHANGES.full_name].decided > decided
