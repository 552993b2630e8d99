"""Burrow's statuses: by cases, and against Burrow's own functions written again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.burrow import group_status, partition_status
from tests.support.burrow import WINDOW, Observation, status_of, window_of
from tests.support.examples import examples
from tests.support.lag_rounds import MINUTE, Rounds, one


def judged(said: list[tuple[int, int | None]], minutes: list[int] | None = None) -> str | None:
    """The status after visits, a minute apart, that showed these offsets and ends of the log."""
    times = minutes or list(range(len(said)))
    return by_rule(
        [
            (offset, None if end is None else end - offset, at)
            for (offset, end), at in zip(said, times, strict=True)
        ]
    )


def by_rule(seen: list[Observation]) -> str | None:
    window, times = window_of(seen)
    offsets, lags = [each[0] for each in window], [each[1] for each in window]
    return partition_status(offsets, lags, oldest=times[0], newest=times[-1], at=seen[-1][2])


GETS_ON = [(n, 2 * n + 5) for n in range(9)]
UNREAD = (8, None)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        pytest.param([(n, n) for n in range(12)], "OK", id="OK: no lag"),
        pytest.param([(n, 20 - n // 5) for n in range(12)], "OK", id="OK: the lag shrinks"),
        pytest.param([(n, 2 * n) for n in range(10)], "OK", id="OK: no lag in the window"),
        pytest.param([(n, 2 * n) for n in range(11)], "WARNING", id="WARNING: no more in it"),
        pytest.param([(n, 2 * n + 5) for n in range(12)], "WARNING", id="WARNING: it grows"),
        pytest.param([(n, n + 5) for n in range(12)], "WARNING", id="WARNING: it is as it was"),
        pytest.param([(n, n + 9 - (n == 9)) for n in range(10)], "OK", id="OK: it shrank at last"),
        pytest.param([(5, 9)] * 9, None, id="not told: the window is not whole"),
        pytest.param([(5, 5)], "OK", id="OK: no lag, though the window is not whole"),
        pytest.param([*GETS_ON, UNREAD], None, id="not told: the lag is not known"),
        pytest.param([*GETS_ON[:-1], UNREAD, (9, 40)], "WARNING", id="WARNING: of those known"),
        pytest.param([(9, 9), *GETS_ON], "REWIND", id="REWIND: though no lag was"),
        # It commits nothing else.
        pytest.param([(5, 9 + n) for n in range(10)], "STALL", id="STALL: the lag grows"),
        pytest.param([(5, 30 - n) for n in range(10)], "STALL", id="STALL: the log was cut off"),
        pytest.param([(5, 5), *[(5, 9)] * 9], "OK", id="OK: there was no lag in the window"),
        pytest.param([(5, 5), *[(5, 9)] * 10], "STALL", id="STALL: there was none in it"),
        # Back where it was, in between or at last.
        pytest.param([(5, 30), (6, 31), *[(5, 40)] * 8], "STOP", id="STOP: back where it was"),
        pytest.param(
            [(6, 30), *[(5, 30)] * 8, (6, 40)], "WARNING", id="WARNING: back where it was"
        ),
        # It commits nothing any more.
        *[
            pytest.param(
                [(min(n, 8), 2 * n + 5) for n in range(visits)], status, id=f"{status}: {visits}"
            )
            for visits, status in ((13, "WARNING"), (14, "STOP"), (17, "STOP"), (18, "STALL"))
        ],
        pytest.param(
            [(0, 5), (0, 5), (5, 9), *[(5, 9 + n) for n in range(7)]],
            "OK",
            id="OK: it had reached what was the end not long ago",
        ),
        pytest.param([(0, 6), (0, 6), (5, 9), *[(5, 9 + n) for n in range(7)]], "STOP", id="STOP"),
        pytest.param(
            [(8, 8), (8, 9), (7, 9), *[(7, 9)] * 7], "STOP", id="STOP: though no lag was before"
        ),
        # The committed offset fell.
        pytest.param([*GETS_ON, (3, 30)], "REWIND", id="REWIND: at last"),
        pytest.param([(9, 20), *((n, 2 * n + 15) for n in range(9))], "REWIND", id="REWIND: first"),
        pytest.param(
            [(9, 20), *((n, 2 * n + 15) for n in range(10))], "WARNING", id="WARNING: long ago"
        ),
        pytest.param([*GETS_ON, (3, 3)], "OK", id="OK: and so did the end"),
        # Offsets are reset to the begin of the log: though it had no lag, and as long as the fall
        # is in the window.
        pytest.param([*[(500, 500)] * 12, (0, 500), (1, 500)], "REWIND", id="REWIND: a reset"),
        pytest.param(
            [*[(500, 500)] * 12, *((n, 500) for n in range(9))], "REWIND", id="REWIND: in it"
        ),
        pytest.param(
            [*[(500, 500)] * 12, *((n, 500 + 2 * n) for n in range(10))],
            "WARNING",
            id="WARNING: a reset that is out of the window",
        ),
        # A member that loses its partition commits an old offset late, and the next one is past it.
        pytest.param([*GETS_ON, (3, 30), (10, 31)], "OK", id="OK: beyond where it fell"),
        pytest.param([*GETS_ON, (3, 30), (8, 31)], "OK", id="OK: back where it fell"),
        pytest.param([*GETS_ON, (3, 30), (7, 31)], "REWIND", id="REWIND: not back"),
        pytest.param(
            [(n, 99) for n in (50, 51, 40, 52, 60, 53, 54, 55, 56, 57)],
            "OK",
            id="OK: the first fall alone counts",
        ),
        # A commit beyond the end has no lag to Burrow.
        pytest.param([*GETS_ON, (40, 30)], "OK", id="OK: a commit beyond the end"),
        pytest.param(
            [(40, 30), *((n, 2 * n + 45) for n in range(40, 49))], "OK", id="OK: it was beyond"
        ),
    ],
)
def test_burrow_judges_the_last_ten_visits(
    said: list[tuple[int, int | None]], status: str | None
) -> None:
    assert judged(said) == status


@pytest.mark.parametrize(("last", "status"), [(10, "WARNING"), (11, "STOP")])
def test_a_group_has_stopped_once_it_was_silent_for_longer_than_it_committed(
    last: int, status: str
) -> None:
    offsets = [*range(6), 5, 5, 5, 5]
    said = [(offset, 50 + n) for n, offset in enumerate(offsets)]
    assert judged(said, [*range(9), last]) == status


@pytest.mark.parametrize(
    ("of_partitions", "status"),
    [
        (["WARNING", "OK", "STOP"], "ERROR"),
        (["OK", "STALL"], "ERROR"),
        ([None, "REWIND"], "ERROR"),
        (["OK", "WARNING", None], "WARNING"),
        (["OK", None], "OK"),
        ([None], None),
        ([], None),
    ],
)
def test_a_group_is_as_bad_as_its_worst_partition(
    of_partitions: list[str | None], status: str | None
) -> None:
    assert group_status(of_partitions) == status


@st.composite
def seen(draw: st.DrawFn) -> list[Observation]:
    """Visits of one partition that mostly gets on, until it may get on no more."""
    offset, end, found = draw(st.integers(0, 50)), draw(st.integers(0, 60)), []
    steps = st.just(1), st.integers(0, 1), st.integers(-1, 3), st.sampled_from([0, 0, 0, 5, -9])
    step = draw(st.sampled_from(steps))
    grows = draw(st.sampled_from([st.just(0), st.just(1), st.integers(0, 3), st.integers(-2, 5)]))
    until = draw(st.integers(0, 30))
    for minute in range(draw(st.integers(1, 30))):
        offset = max(0, offset + draw(step)) if minute < until else offset
        end = max(0, end + draw(grows))
        lag = None if draw(st.integers(0, 20)) == 20 else end - offset
        found.append((offset, lag, minute))
    return found


@settings(max_examples=examples(100))
@given(seen())
def test_burrow_s_own_functions_judge_alike(seen: list[Observation]) -> None:
    assert by_rule(seen) == status_of(seen)


@st.composite
def windows(draw: st.DrawFn) -> list[tuple[int | None, int | None]]:
    """Visits of one partition that mostly gets on: committed offset and end of its log."""
    offset, end, found = draw(st.integers(0, 50)), draw(st.integers(0, 60)), []
    step = draw(
        st.sampled_from(
            [st.just(1), st.integers(0, 1), st.integers(-1, 3), st.sampled_from([0, 0, 0, 5, -9])]
        )
    )
    grows = draw(st.sampled_from([st.just(0), st.just(1), st.integers(0, 3), st.integers(-2, 5)]))
    until = draw(st.integers(0, 30))
    for number in range(draw(st.integers(WINDOW, 30))):
        offset = max(0, offset + draw(step)) if number < until else offset
        end = max(0, end + draw(grows))
        lacks = draw(st.sampled_from([0] * 20 + [1, 2]))
        found.append((None if lacks == 1 else offset, None if lacks == 2 else end))
    return found


def statuses(said: list[tuple[int | None, int | None]]) -> list[str | None]:
    """The status of a partition by each of its visits; those before its first commit left out."""
    rounds, found = Rounds(), []
    for each in said:
        rounds.all(one(*each))
        if rounds.last["partitions"]:
            listed = [each["burrow_status"] for each in rounds.last["not_well"]]
            found.append(listed[0] if listed else rounds.last["burrow_status"])
    return found


@settings(max_examples=examples(50))
@given(windows())
def test_rounds_keep_what_burrow_judges(said):
    seen: list[tuple[int, int | None, int]] = []
    expected = []
    for number, (offset, end) in enumerate(said):
        if offset is None and not seen:
            continue
        lag = None if offset is None or end is None else end - offset
        seen.append((seen[-1][0] if offset is None else offset, lag, number * MINUTE))
        expected.append(status_of(seen))
    assert statuses(said) == expected
