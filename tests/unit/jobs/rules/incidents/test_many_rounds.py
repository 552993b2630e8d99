"""However observations are cut into rounds, what is told in the end is the same."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.incidents.finding import Finding
from tests.support.incident_rounds import Rounds, finding, left, level, missing

SECONDS = st.integers(0, 1_200)
BROKERS = st.sampled_from((1, 2, 3))
CUT = {
    "id",
    "incident_id",
    "from_id",
    "overlaps",
    "updated_at",
    "reopened",
    "severity",
    "merged_into",
}
"""Ids are of the round in which an incident opened, and severities of what was reached by then."""


@st.composite
def stops(draw: st.DrawFn) -> list[Finding]:
    """A broker that is gone for a while, and what follows from it."""
    broker, began = draw(BROKERS), draw(SECONDS)
    ended = began + draw(st.integers(5, 120))
    rack = draw(st.sampled_from(("a", "b", None)))
    found = [missing(broker, began, ended, rack=rack), left(broker, began, ended + 5)]
    if draw(st.booleans()):
        found.append(level("under_min_isr", (broker,), began, ended))
    if draw(st.booleans()):
        found.append(finding("leader_changed", began, began, broker_id=broker))
    return found


@given(st.lists(stops(), min_size=1, max_size=4), st.lists(SECONDS, max_size=5))
def test_rounds_may_be_cut_anywhere(lives: list[list[Finding]], cuts: list[int]) -> None:
    found = [each for life in lives for each in life]
    end = 2_000
    at_once = Rounds().begun().rounds(found, end)
    cut = Rounds().begun().rounds(found, *sorted(cuts), end)
    assert _told(cut) == _told(at_once)


@given(st.lists(stops(), min_size=1, max_size=4), SECONDS)
def test_a_round_made_twice_changes_nothing(lives: list[list[Finding]], until: int) -> None:
    found = [each for life in lives for each in life]
    rounds = Rounds().begun().rounds(found, until)
    made = rounds.round(found, until)
    assert (made.incidents, made.links, made.events) == ([], [], [])


@given(st.lists(stops(), min_size=1, max_size=4), st.lists(SECONDS, min_size=1, max_size=5))
def test_each_incident_opens_before_it_ends(lives: list[list[Finding]], cuts: list[int]) -> None:
    rounds = (
        Rounds().begun().rounds([each for life in lives for each in life], *sorted(cuts), 2_000)
    )
    for row in rounds.incidents:
        told = [each["event"] for each in rounds.events if each["incident_id"] == row["id"]]
        assert told[0] == "opened"
        assert told[-1] in {"ended", "merged", "withdrawn"}
        assert told.count("ended") <= 1 + told.count("reopened")


def _told(rounds: Rounds) -> list[str]:
    rows = (*rounds.links, *(row for row in rounds.incidents if row["end_reason"] == "recovered"))
    return sorted(str({name: row[name] for name in row if name not in CUT}) for row in rows)
