"""How far groups are behind: of what visits told of their offsets."""

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.groups.lag import Visit
from jobs.rules.groups.state import from_micros
from local_cluster.members import Commit, Done
from schemas import consumption
from schemas.table import PART
from tests.support.burrow import WINDOW, status_of
from tests.support.lag_rounds import MINUTE, Key, Rounds, Row, Said, at, one, visit
from truth.model.work import Work

NAMES = ("lag_min", "lag_max", "partitions_without_progress", "partitions_beyond")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        # Of one partition, committed offset and end by visit: NAMES of the last row, its status.
        pytest.param([(90, 100)], (None, 10, 0, 0, None), id="at most: the end less the offset"),
        pytest.param([(90, 100), (95, 110)], (5, 15, 0, 0, None), id="at least: the end before"),
        pytest.param([(5, 9), (9, 9)], (0, 0, 0, 0, "OK"), id="no lag"),
        pytest.param([(50, 60), (70, 75)], (0, 5, 0, 0, None), id="it read beyond the end before"),
        # Without progress: behind by one record at least, and as committed before.
        pytest.param([(4, 20), (4, 30)], (16, 26, 1, 0, None), id="without progress"),
        pytest.param([(4, 5), (4, 30)], (1, 26, 1, 0, None), id="without progress: by one record"),
        pytest.param([(4, 20), (5, 30)], (15, 25, 0, 0, None), id="it gets on"),
        pytest.param([(9, 20), (5, 30)], (15, 25, 0, 0, None), id="another offset, though less"),
        pytest.param([(20, 20), (20, 30)], (0, 10, 0, 0, None), id="there was nothing to read"),
        # A visit that lacks something.
        pytest.param([(5, 9), (5, None)], (None, None, 0, 0, None), id="unknown: its end"),
        pytest.param([(5, 9), (None, 9)], (None, None, 0, 0, None), id="unknown: its offset"),
        pytest.param([(5, 9), (None, 9), (5, 9)], (4, 4, 1, 0, None), id="known again"),
        pytest.param([(5, 9), (5, None), (5, 12)], (4, 7, 1, 0, None), id="the end known last"),
        # An end that falls is of another log; a commit beyond it has a negative lag.
        pytest.param([(2, 60), (2, 12)], (10, 10, 1, 0, None), id="the end falls"),
        pytest.param([(50, 10)], (None, 0, 0, 1, "OK"), id="beyond"),
        pytest.param([(50, 60), (50, 10)], (0, 0, 0, 1, "OK"), id="beyond: the log was made again"),
        pytest.param([(50, 10), (50, 49)], (0, 0, 0, 1, "OK"), id="beyond by one"),
        pytest.param([(50, 10), (50, 50)], (0, 0, 0, 0, "OK"), id="beyond no more"),
    ],
)
def test_the_lag_of_a_partition(
    said: list[tuple[int | None, int | None]], shown: tuple[Any, ...]
) -> None:
    row = Rounds().all(*(one(*each) for each in said)).last
    assert tuple(row[name] for name in (*NAMES, "burrow_status")) == shown
    behind = row["lag_max"] is not None and row["lag_max"] > 0
    assert (row["partitions_behind"], row["partitions_unknown"]) == (behind, row["lag_max"] is None)
    assert row["committed_sum"] == [offset for offset, _ in said if offset is not None][-1]
    assert len(row["not_well"]) == row["partitions_not_well"]
    assert bool(row["not_well"]) == bool(
        row["partitions_without_progress"] or row["partitions_beyond"]
    )


@pytest.mark.parametrize(
    ("said", "lags"),
    [
        # Of one partition each (lag_min, lag_max) by visit.
        ([(50, 10), (50, 10)], [(None, -40), (-40, -40)]),
        ([(50, 10), (50, 49)], [(None, -40), (-40, -1)]),
        ([(50, 60), (50, 20)], [(None, 10), (-30, -30)]),
        ([(50, 10), (50, 50)], [(None, -40), (0, 0)]),
        ([(50, 60), (70, 75)], [(None, 10), (0, 5)]),
    ],
)
def test_the_largest_lag_is_negative_where_every_commit_lies_beyond_the_end(
    said: list[tuple[int, int]], lags: list[tuple[int | None, int]]
) -> None:
    rounds = Rounds().all(*(one(*each) for each in said))
    assert rounds.of("largest_lag_min", "largest_lag_max") == lags
    for (_, most), row in zip(lags, rounds.lag, strict=True):
        assert [each["lag_max"] for each in row["not_well"]] == ([most] if most < 0 else [])


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        # Visits of a group: end_reason and valid_to of each row.
        pytest.param([one(5, 9), None], [("gone", at(1, 3))], id="gone"),
        pytest.param([one(5, 9), "failed: no answer"], [(None, None)], id="it could not be asked"),
        pytest.param([one(5, 9), {}], [(None, at(1)), (None, None)], id="it committed nothing"),
        pytest.param(
            [one(5, 9), "failed: no answer", None], [("gone", at(2, 3))], id="gone after a failure"
        ),
        pytest.param(
            [one(5, 9), None, one(5, 9)], [("gone", at(1, 3)), (None, None)], id="made again"
        ),
    ],
)
def test_a_row_ends_with_another_state_or_the_group(
    said: list[Said], ends: list[tuple[str | None, Any]]
) -> None:
    assert Rounds().all(*said).of("end_reason", "valid_to") == ends


def test_sums_of_a_group_are_of_its_partitions():
    rounds = Rounds().all(
        {("t", 0): (90, 100), ("t", 1): (7, 7)},
        {("t", 0): (95, 110), ("t", 1): (7, 9)},
        {("t", 0): (110, 110), ("t", 1): (9, 9)},
    )
    assert rounds.of(
        "lag_min", "lag_max", "largest_lag_min", "largest_lag_max", "partitions_behind"
    ) == [(None, 10, None, 10, 1), (5, 17, 5, 15, 2), (0, 0, 0, 0, 0)]
    assert rounds.of("committed_sum", "partitions", "valid_from", "valid_to", "last_seen_at") == [
        (97, 2, at(0), at(1), at(0, 1)),
        (102, 2, at(1), at(2), at(1, 1)),
        (119, 2, at(2), None, None),
    ]


def test_rows_have_the_columns_of_their_tables():
    rounds = Rounds().all(one(3, 5), {})
    by_job = {"updated_at", PART}
    assert set(rounds.lag[0]) == set(consumption.GROUP_LAG.column_names) - by_job
    assert set(rounds.removed[0]) == set(consumption.REMOVED_COMMITS.column_names)


def test_a_group_in_which_nothing_changes_has_one_row_and_after_a_window_writes_nothing():
    rounds = Rounds().all(*[one(5, 5)] * 30)
    assert rounds.of("lag_min", "lag_max") == [(None, 0), (0, 0)], "the second has bounds"
    assert rounds.quiet == 30 - WINDOW
    behind = Rounds().all(*[one(5, 9)] * 30)
    assert behind.of("burrow_status", "partitions_without_progress") == [
        (None, 0),
        (None, 1),
        ("ERROR", 1),
    ]
    assert behind.quiet > 30 - 2 * WINDOW


def test_a_row_was_seen_by_the_last_visit_that_showed_its_state():
    seen = Rounds().all(*[one(5, 5)] * 4, one(6, 6)).of("last_seen_at")
    assert seen == [(at(0, 1),), (at(3, 1),), (None,)]


def test_a_group_that_has_members_again_is_in_another_state():
    rounds = Rounds(is_simple=True).all(one(5, 5), one(5, 5))
    rounds.is_simple = False
    assert rounds.all(one(5, 5)).of("is_simple") == [(True,), (True,), (False,)]


def test_a_row_has_the_last_status_that_was_known_and_when_it_was_seen():
    stands = [one(1, 20 + n) for n in range(12)]
    unknown: Said = {("t", 0): (1, None)}
    rounds = Rounds().all(one(0, 0), *stands, unknown, one(1, 60), one(40, 40), None, one(1, 1))
    told = rounds.of("burrow_status", "prev_burrow_status", "prev_seen_at")
    assert told == [
        ("OK", None, None),
        # With a lag, and less than ten polls: nobody can say.
        *[(None, "OK", at(0, 1))] * 8,
        ("OK", "OK", at(0, 1)),
        ("ERROR", "OK", at(9, 1)),
        ("ERROR", "ERROR", at(10, 1)),
        ("ERROR", "ERROR", at(11, 1)),
        (None, "ERROR", at(12, 1)),
        ("ERROR", "ERROR", at(12, 1)),
        ("OK", "ERROR", at(14, 1)),
        # It was gone.
        ("OK", None, None),
    ]


def test_there_is_at_most_one_row_a_minute_by_when_polls_were_due():
    seconds = 1_000_000
    rounds = Rounds().all(*(one(n, 100) for n in range(13)), every=10 * seconds)
    assert [row["first_poll"][-2:] for row in rounds.lag] == ["00", "06", "12"]
    assert rounds.of("committed_sum", "valid_from", "last_seen_at") == [
        (0, at(0), at(0, 1)),
        (6, at(6, every=10 * seconds), at(6, 1, 10 * seconds)),
        (12, at(12, every=10 * seconds), None),
    ]
    still = Rounds().all(*[one(1, 1)] * 4, *[one(2, 2)] * 7, *[one(3, 3)] * 9, every=10 * seconds)
    assert still.of("committed_sum", "last_seen_at") == [
        (1, at(0, 1)),
        (2, at(10, 1, 10 * seconds)),
        (3, None),
    ], "bounds of lag come with the second visit"
    back = Rounds().all(one(1, 9))
    back.take((visit(-5)._replace(poll="s/000000000001"), one(2, 9)))
    assert len(back.lag) == 2, "a clock that was set back stops nothing"
    assert {*back.of("valid_from", "valid_to")} == {(at(0), at(0)), (at(0), None)}


def test_what_cannot_be_told_is_no_lag_of_zero():
    rounds = Rounds().all(
        {("t", 0): (5, 9), ("gone", 0): (3, 4)},
        {("t", 0): (5, 9), ("gone", 0): (3, None)},
        {("t", 0): (None, None), ("gone", 0): (3, None), ("new", 1): (None, None)},
        {("t", 0): (6, 9), ("gone", 0): (3, 4)},
    )
    assert rounds.of(
        "lag_min", "lag_max", "largest_lag_min", "largest_lag_max", "partitions_unknown"
    ) == [
        (None, 5, None, 4, 0),
        (4, None, 4, None, 1),
        (None, None, None, None, 3),
        (4, 4, 3, 3, 0),
    ]
    assert rounds.of("partitions") == [(2,), (2,), (2,), (2,)]
    assert not rounds.removed, "a commit that could not be told is there"
    assert Rounds().all({}).of(
        "partitions", "committed_sum", "lag_max", "oldest_commit_before", "burrow_status"
    ) == [(0, None, None, None, None)]


def test_a_commit_that_is_there_no_more_was_removed_between_two_visits():
    rounds = Rounds().all({("t", 0): (5, 9), ("t", 1): (6, 9)}, "failed: no answer", one(5, 9), {})
    assert [tuple(row.values())[3:] for row in rounds.removed] == [
        ("t", 1, 6, "s/000000000002", at(0, 1), at(2), False),
        ("t", 0, 5, "s/000000000003", at(2, 1), at(3), False),
    ]
    assert rounds.of("partitions") == [(2,), (1,), (0,)]


def test_a_group_that_is_deleted_and_made_again_is_another_one():
    rounds = Rounds().all(one(5, 9), one(5, 9), None, None, one(1, 9), one(1, 9))
    assert rounds.of("first_poll", "valid_to", "last_seen_at", "end_reason", "lag_min") == [
        ("s/000000000000", at(1), at(0, 1), None, None),
        ("s/000000000001", at(2, 3), at(1, 1), "gone", 4),
        ("s/000000000004", at(5), at(4, 1), None, None),
        ("s/000000000005", None, None, None, 8),
    ]
    assert [
        (row["committed_offset"], row["is_group_gone"], row["poll"]) for row in rounds.removed
    ] == [(5, True, "s/000000000002")]
    assert rounds.last["oldest_commit_after"] is None, (
        "nobody knows when it was made before it was seen"
    )


def test_a_visit_that_could_not_tell_says_nothing():
    rounds = Rounds().all(
        "failed: at once", one(5, 9), "failed: no answer", "failed: no answer", one(5, 9), one(7, 9)
    )
    assert rounds.of("first_poll", "valid_to", "last_seen_at", "lag_min", "lag_max") == [
        ("s/000000000001", at(4), at(1, 1), None, 4),
        ("s/000000000004", at(5), at(4, 1), 4, 4),
        ("s/000000000005", None, None, 2, 2),
    ]
    assert not rounds.removed
    lost = Rounds().all(one(5, 9), "failed: no answer", None)
    assert lost.of("last_seen_at", "end_reason") == [(at(0, 1), "gone")]
    assert lost.removed[0]["removed_after"] == at(0, 1)


def test_what_the_filters_cover_no_more_is_neither_removed_nor_gone():
    rounds = Rounds().all({("t", 0): (5, 9), ("u", 0): (6, 9)})
    rounds.take((visit(1, topic_filter='{"pattern":"u.*"}'), {("u", 0): (6, 9)}))
    assert not rounds.removed
    assert rounds.last["partitions"] == 1
    rounds.take((visit(2, topic_filter='{"pattern":"u.*"}'), {}))
    assert [row["topic"] for row in rounds.removed] == ["u"]
    rounds.take((visit(3), one(5, 9)))
    assert rounds.last["oldest_commit_after"] is None, "it may have been there all the time"
    rounds.take((visit(4, groups_pattern="(?i)G"), one(5, 9)))
    rounds.take((visit(5, groups_pattern="g.+"), None))
    assert rounds.last["end_reason"] == "not_polled"
    assert len(rounds.removed) == 1
    rounds.take((visit(6, groups_pattern="g.*"), one(5, 9)), (visit(7, groups_pattern="g.*"), None))
    assert rounds.last["end_reason"] == "gone"
    assert len(rounds.removed) == 2


def test_the_oldest_commit_has_bounds():
    rounds = Rounds().all(
        {("t", 0): (5, 9), ("t", 1): (5, 9)}, {("t", 0): (6, 9), ("t", 1): (5, 9)}
    )
    assert rounds.of("oldest_commit_after", "oldest_commit_before") == [
        (None, at(0)),
        (None, at(0)),
    ]
    rounds.all({("t", 0): (6, 9), ("t", 1): (6, 9)}, {("t", 0): (6, 9), ("t", 1): (7, 9)})
    assert rounds.of("oldest_commit_after", "oldest_commit_before")[2:] == [(at(0, 1), at(1))] * 2
    rounds.all({("t", 0): (6, 9), ("t", 1): (7, 9), ("t", 2): (1, 9)}, {("t", 2): (1, 9)})
    assert rounds.of("oldest_commit_after", "oldest_commit_before")[-1:] == [(at(3, 1), at(4))]


def test_a_negative_lag_hides_no_other():
    rounds = Rounds().all(*[{("t", 0): (50, 10), ("t", 1): (5, 45)}] * 2)
    last = rounds.last
    assert (
        last["lag_min"],
        last["lag_max"],
        last["largest_lag_max"],
        last["partitions_beyond"],
    ) == (40, 40, 40, 1)
    assert [(each["partition"], each["lag_max"]) for each in last["not_well"]] == [
        (1, 40),
        (0, -40),
    ]


def test_a_removal_is_no_earlier_than_what_is_before_it_though_a_clock_was_set_back():
    rounds = Rounds().all(one(5, 9))
    rounds.take((visit(-5)._replace(poll="s/000000000001"), {}))
    assert [(row["removed_after"], row["removed_before"]) for row in rounds.removed] == [
        (at(-5), at(-5))
    ]


def test_removed_commits_are_told_in_the_order_of_partitions():
    rounds = Rounds().all({("u", 0): (1, 9)}, {("u", 0): (1, 9), ("t", 1): (1, 9)}, {})
    assert [(row["topic"], row["partition"]) for row in rounds.removed] == [("t", 1), ("u", 0)]


def test_a_row_names_the_partitions_with_the_largest_lag():
    many = {("t", n): (0, n) for n in range(300)}
    rounds = Rounds().all(many, many)
    assert (
        rounds.last["partitions_not_well"] == rounds.last["partitions_without_progress"] == 300 - 1
    )
    assert [each["partition"] for each in rounds.last["not_well"]] == list(
        range(300 - 1, 200 - 1, -1)
    )


# --- against all that was told, and a plain reading of the rules ---

partitions = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
few = st.integers(0, 4)
told_of = st.tuples(st.none() | few | few | few, st.none() | few | few | few)
answers = st.one_of(
    *[st.dictionaries(partitions, told_of)] * 8,
    st.none(),
    st.just("failed: no answer"),
    st.just("again"),
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Visit, Said]]:
    every = draw(st.sampled_from([MINUTE, MINUTE // 6]))
    found: list[tuple[Visit, Said]] = []
    number = 0
    for said in draw(st.lists(answers, min_size=1, max_size=40)):
        number += draw(st.sampled_from([1, 1, 1, 2, 7]))
        pattern = draw(st.sampled_from([None, None, None, None, '{"topics":["t"]}']))
        again = found[-1][1] if found else None
        now = again if said == "again" else said
        if pattern is not None and isinstance(now, dict):
            now = {key: value for key, value in now.items() if key[0] == "t"}
        found.append((visit(number, every, topic_filter=pattern), now))
    return found


@given(histories(), st.data())
def test_rounds_cut_anywhere_make_the_same_rows(history, data):
    whole, cut = Rounds(), Rounds()
    whole.take(*history)
    places = sorted(data.draw(st.sets(st.integers(0, len(history)))) | {0, len(history)})
    for since, until in pairwise(places):
        cut.take(*history[since:until])
    assert (cut.lag, cut.removed, cut.memory) == (whole.lag, whole.removed, whole.memory)


@given(histories())
def test_rows_are_what_a_plain_reading_of_all_visits_gives(history):
    rounds = Rounds()
    seen: dict[Key, list[tuple[int, int | None, int]]] = {}
    ends: dict[Key, int] = {}
    begun = None
    for number, (each, said) in enumerate(history):
        rounds.take((each, said))
        rows = [row for row in rounds.lag if row["valid_to"] is None]
        if said is None:
            assert not rows
            seen, ends, begun = {}, {}, None
            continue
        if isinstance(said, str):
            continue
        time = each.due + 2_000_000
        expected = {}
        for key in seen.keys() - said.keys():
            del seen[key]
            ends.pop(key, None)
        for key, (offset, end) in said.items():
            before = seen.get(key, [])
            lag = None if offset is None or end is None else end - offset
            if not before and offset is None:
                continue
            least = None if lag is None or key not in ends else min(ends[key], end) - offset
            if least is not None and lag >= 0:
                least = max(0, least)
            seen[key] = [*before, (before[-1][0] if offset is None else offset, lag, time)]
            if end is not None:
                ends[key] = end
            is_still = bool(before) and before[-1][0] == seen[key][-1][0]
            expected[key] = (least, lag, (least or 0) > 0 and is_still, status_of(seen[key]))
        (row,) = rows
        if row["first_poll"] != each.poll and begun is not None and 0 <= each.due - begun < MINUTE:
            continue
        if row["first_poll"] == each.poll:
            begun = each.due
        leasts = [least for least, *_ in expected.values() if least is not None]
        mosts = [most for _, most, *_ in expected.values() if most is not None]
        unknown = len(said) - len(mosts)
        assert row["lag_min"] == (sum(max(0, each) for each in leasts) if leasts else None)
        assert row["lag_max"] == (
            sum(max(0, each) for each in mosts) if mosts and not unknown else None
        )
        assert row["committed_sum"] == (
            sum(seen[key][-1][0] for key in expected) if expected else None
        )
        assert row["partitions_beyond"] == sum(most < 0 for most in mosts)
        assert row["largest_lag_min"] == max(leasts, default=None)
        assert row["largest_lag_max"] == (max(mosts) if mosts and not unknown else None)
        assert (row["partitions"], row["partitions_unknown"]) == (len(expected), unknown)
        assert row["partitions_behind"] == sum(most > 0 for most in mosts)
        assert row["partitions_without_progress"] == sum(
            still for _, _, still, _ in expected.values()
        )
        assert row["lag_min"] is None or row["lag_max"] is None or row["lag_min"] <= row["lag_max"]
        listed = {(bad["topic"], bad["partition"]): bad for bad in row["not_well"]}
        for key, (least, most, still, status) in expected.items():
            is_beyond = most is not None and most < 0
            assert (key in listed) == (still or is_beyond or status not in {"OK", None}), (
                number,
                key,
            )
            if key in listed:
                bad = listed[key]
                assert (bad["lag_min"], bad["lag_max"], bad["is_without_progress"]) == (
                    least,
                    most,
                    still,
                )
                assert bad["burrow_status"] == status
        statuses = {status for *_, status in expected.values()}
        worst = "ERROR" if statuses & {"STOP", "STALL", "REWIND"} else None
        assert row["burrow_status"] == (
            worst or next((s for s in ("WARNING", "OK") if s in statuses), None)
        )


@st.composite
def works(draw: st.DrawFn) -> Work:
    """Records of a partition that come at any second, and commits of those that are there."""
    seconds = st.lists(st.integers(0, 600).map(lambda second: at(0, second)), max_size=30)
    appended, called = sorted(draw(seconds)), sorted(draw(seconds))
    done = [Done(each, "one", 0, n) for n, each in enumerate(appended)]
    committed = [
        Commit(each, each, 0, draw(st.integers(0, bisect_right(appended, each))), True)
        for each in called
    ]
    return Work(done, committed, {0: appended}, at(0, 3_600))


@given(works())
def test_the_true_lag_lies_within_its_bounds(work):
    rounds = Rounds()
    for number in range(12):
        # The end is read after the commit.
        read, end_by = at(number), at(number, 40)
        there = [commit.offset for commit in work.committed if commit.called <= read]
        end = bisect_right(work.appended[0], end_by)
        rounds.take((visit(number), one(there[-1] if there else None, end)))
        lag, row = work.lag(0, read, read, end_by), rounds.last
        assert (row["lag_max"] is None) == (lag is None)
        if lag is not None:
            assert lag.least <= row["lag_max"] <= lag.most_by_end
            assert row["lag_min"] is None or row["lag_min"] <= lag.most


@given(histories())
def test_a_row_was_shown_by_the_poll_that_it_says_saw_it_last(history):
    shown: dict[Any, list[Row]] = {}
    rounds = Rounds()
    for each, said in history:
        # Whoever sees only this visit has no window: what needs none is compared.
        if isinstance(said, dict):
            alone = Rounds()
            alone.take((each, said))
            shown.setdefault(from_micros(each.seen), []).append(alone.last)
        rounds.take((each, said))
    for row in rounds.lag:
        if row["valid_to"] is not None:
            assert row["valid_from"] <= row["valid_to"]
            assert row["last_seen_at"] <= row["valid_to"]
            names = ("lag_max", "partitions_behind")
            assert any(
                all(row[name] == one[name] for name in names) for one in shown[row["last_seen_at"]]
            )
