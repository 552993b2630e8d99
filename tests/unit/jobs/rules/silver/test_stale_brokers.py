"""Brokers that answer from an old image: since when, until when, how far behind."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.silver.stale_brokers import behind_after, is_told
from jobs.rules.silver.state import Behind
from tests.support.examples import examples
from tests.support.histories import Answer
from tests.support.silver_cases import Row, at, heard, led, taken, unreachable
from tests.support.silver_cases import poll as polled
from tests.support.silver_rounds import STALE

WHOLE, SHRUNK, MOVED = led(5, 0, 1, 2), led(5, 0, 1), led(6, 1)
HEARD = timedelta(milliseconds=50)
"""So long after it was asked a witness answers."""


def poll(n: int, broker: int | None, state: Row, *witnesses: Row, **more: Any) -> Answer:
    return polled(n, broker, {"orders": [state]}, *witnesses, **more)


# --- who is behind ---

KNOWN = Behind(at(0), 2, 2)
TOLD: dict[str, tuple[Row, bool, Behind | None]] = {
    "behind: for a second": (heard(2, is_behind=True, behind_ms=1_000), False, Behind(at(1), 1, 1)),
    "no: for less": (heard(2, is_behind=True, behind_ms=999), False, None),
    "no: since when is not known": (heard(2, is_behind=True, behind_ms=None), False, None),
    "behind: for less, and it was before": (
        heard(2, is_behind=True, behind_ms=0, epochs_behind=3),
        True,
        Behind(at(1), 2, 3),
    ),
    "no: it is not": (heard(2), True, None),
    "no: it cannot be reached": (unreachable(2), True, None),
    "behind: nobody can tell": (heard(2, is_behind=None), True, KNOWN),
    "behind: another was asked": (heard(1), True, KNOWN),
    "no: nobody can tell, as before": (heard(2, is_behind=None), False, None),
}
"""An answer of a witness, whether broker 2 was behind before, and how far it is."""


def header(*witnesses: Row, broker: int = 0) -> Row:
    asked = {"sent_at": at(1), "received_at": at(1)}
    told = [asked | each for each in witnesses]
    return {**asked, "broker_id": broker, "broker": f"host{broker}:9092", "witnesses": told}


@pytest.mark.parametrize("case", TOLD)
def test_how_far_a_broker_is_behind(case: str) -> None:
    witness, was_behind, expected = TOLD[case]
    before = {2: KNOWN} if was_behind else {}
    found = behind_after(header(witness), before)
    assert found == ({} if expected is None else {2: expected})
    sizes = [(each.partitions, each.epochs) for each in (*before.values(), *found.values())]
    assert is_told(header(witness), before) == (len(sizes) == 1 or len(set(sizes)) > 1)


def test_who_answers_the_poll_is_not_behind_and_the_last_word_of_a_broker_counts() -> None:
    assert behind_after(header(broker=2), {2: KNOWN}) == {}
    behind, not_behind = heard(2, is_behind=True), heard(2)
    assert behind_after(header(behind, not_behind), {}) == {}
    assert behind_after(header(not_behind, behind), {}).keys() == {2}
    unknown = header(heard(2, is_behind=True) | {"broker_id": None})
    assert behind_after(unknown, {}) == {}


# --- stretches ---


def test_a_stretch_lasts_from_the_first_answer_that_is_behind_to_the_first_that_is_not() -> None:
    lake = taken(
        poll(0, 2, WHOLE),
        poll(1, 0, WHOLE),
        poll(2, 1, MOVED, heard(2, is_behind=True, epochs_behind=3)),
        poll(3, 0, MOVED, heard(2, is_behind=True, partitions_behind=4)),
        poll(4, 1, MOVED),
        poll(5, 2, MOVED),
        poll(6, 0, MOVED),
    )
    (row,) = lake.tables[STALE].values()
    assert (row["broker_id"], row["broker"], row["end_reason"], row["is_live"]) == (
        2,
        "host2:9092",
        "caught_up",
        False,
    )
    assert (row["began_after"], row["began_before"]) == (at(0), at(2) + HEARD)
    assert (row["ended_after"], row["ended_before"]) == (at(3), at(5) + 2 * HEARD)
    assert (row["partitions_behind"], row["epochs_behind"]) == (4, 3)
    assert row["duration_ms_min"] == 9_950
    assert row["duration_ms_max"] == 50_100


def test_a_broker_that_said_nothing_had_changed_was_not_behind_if_another_said_so_later() -> None:
    """The last to say so may have been behind already."""
    cut_off = poll(4, 1, MOVED, heard(2, is_behind=True))
    polls = [poll(0, 2, WHOLE), poll(1, 2, WHOLE), poll(2, 0, WHOLE), poll(3, 2, WHOLE), cut_off]
    assert stale_from(polls) == at(1)
    assert stale_from([*polls[:3], cut_off]) == at(1)
    assert stale_from([*polls[:2], cut_off]) == at(0), "its news were news"
    # It was asked, and knew the news.
    knew = poll(3, 1, SHRUNK, heard(2))
    assert stale_from([*polls[:3], knew, cut_off]) == at(3)


def stale_from(polls: Sequence[Answer]) -> datetime | None:
    (row,) = taken(*polls).tables[STALE].values()
    after: datetime | None = row["began_after"]
    return after


def test_what_cannot_be_reached_has_ended_and_may_be_stale_still() -> None:
    behind = poll(1, 1, MOVED, heard(2, is_behind=True))
    lake = taken(poll(0, 0, WHOLE), behind, poll(2, 0, MOVED, unreachable(2)))
    (row,) = lake.tables[STALE].values()
    assert (row["end_reason"], row["ended_after"]) == ("unreachable", at(1) + HEARD)
    assert row["began_after"] is None, "it never answered anything else"
    assert taken(poll(0, 0, WHOLE), behind).tables[STALE].popitem()[1]["is_live"]


def test_a_stretch_begins_no_later_than_the_answer_that_showed_it() -> None:
    """A clock was set back between the answer that was not behind and the one that was."""
    set_back = at(0) + timedelta(seconds=1)
    behind = heard(2, is_behind=True, sent_at=at(0), received_at=set_back)
    assert (
        stale_from([poll(0, 0, WHOLE), poll(1, 2, SHRUNK), poll(2, 1, MOVED, behind)]) == set_back
    )


def test_a_stretch_that_ends_by_an_answer_of_before_it_lasted_no_time() -> None:
    """A clock was set back: times do not fall."""
    moved = poll(1, 1, MOVED, heard(2, is_behind=True))
    back = poll(2, 0, MOVED, heard(2, sent_at=at(0), received_at=at(0)))
    (row,) = taken(poll(0, 0, WHOLE), moved, back).tables[STALE].values()
    assert row["ended_after"] == row["ended_before"] == row["began_before"] == at(1) + HEARD


def test_news_of_a_broker_and_an_answer_to_another_poll_show_that_it_is_not_behind() -> None:
    """An answer that says that nothing had changed shows it only once another one says so."""
    behind = poll(3, 1, MOVED, heard(2, is_behind=True))
    assert stale_from([poll(0, 0, WHOLE), poll(1, 2, SHRUNK), poll(2, 2, SHRUNK), behind]) == at(1)
    between = [poll(0, 0, WHOLE), poll(1, 2, WHOLE), poll(2, 0, WHOLE), behind]
    assert stale_from(between) == at(1)


def test_a_stretch_that_is_told_again_keeps_its_begin_and_the_most_it_was_behind() -> None:
    first = poll(1, 1, MOVED, heard(2, is_behind=True, partitions_behind=3))
    more = poll(2, 1, MOVED, heard(2, is_behind=True, partitions_behind=1, epochs_behind=7))
    for cuts in ([], [1], [2], [1, 2]):
        (row,) = taken(poll(0, 2, WHOLE), first, more, cuts=cuts).tables[STALE].values()
        assert (row["poll"], row["began_after"]) == (first.poll_id, at(0))
        assert (row["partitions_behind"], row["epochs_behind"]) == (3, 7)
        assert (row["is_live"], row["ended_before"]) == (True, None)


# --- random lives ---

SAID = st.tuples(
    st.sampled_from([0, 1, 2]), st.sampled_from([True, False, None]), st.sampled_from([200, 3_000])
)
ANSWERS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, None]),
        st.sampled_from([WHOLE, SHRUNK, MOVED]),
        st.lists(SAID, max_size=2),
        st.sampled_from([(0, 1, 2), (0, 1)]),
    ),
    min_size=1,
    max_size=12,
)


def witness(broker: int, is_behind: bool | None, behind_ms: int) -> Row:
    if is_behind is None:
        return unreachable(broker)
    return heard(broker, is_behind=is_behind, behind_ms=behind_ms)


@settings(max_examples=examples(100))
@given(ANSWERS, st.data())
def test_rows_are_the_same_however_polls_are_cut_into_rounds(
    answers: list[Any], data: st.DataObject
) -> None:
    polls = [
        poll(n, broker, state, *(witness(*each) for each in others), listed=listed)
        for n, (broker, state, others, listed) in enumerate(answers)
    ]
    cuts = sorted(
        data.draw(st.sets(st.integers(1, max(1, len(polls) - 1)), max_size=4))
        & set(range(1, len(polls)))
    )
    whole, cut = taken(*polls), taken(*polls, cuts=cuts)
    assert cut.rows == whole.rows
    assert cut.state == whole.state
    for row in whole.tables[STALE].values():
        after, before = row["began_after"], row["began_before"]
        assert after is None or after <= before
        assert row["is_live"] == (row["ended_before"] is None)
        assert row["is_live"] or before <= row["ended_after"] <= row["ended_before"]
