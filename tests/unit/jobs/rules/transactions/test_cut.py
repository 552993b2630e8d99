"""However records are cut into spans and rounds, the rows are the same, and as it truly was."""

import itertools
from datetime import datetime, timedelta

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.transaction_log import Coordinator, Row, Truth, compacted, rows_of
from tests.support.transaction_rounds import Rounds, ms

quickly = settings(
    max_examples=examples(60), database=None, deadline=None, suppress_health_check=[*HealthCheck]
)
IDS = ("app-0_1", "app-0_2", "other-1")
WAITS_MS = (1, 1, 40, 900, 4_000, 31_000, 70_000, 310_000, 3_600_000)
ACTIONS = ("init", "add", "add", "commit", "commit", "abort", "time_out", "expire", "move")
steps = st.lists(
    st.tuples(
        st.sampled_from(IDS),
        st.sampled_from(ACTIONS + ("complete",) * 3),
        st.sampled_from(WAITS_MS),
        st.integers(0, 2),
    ),
    max_size=40,
)
coordinators = st.sampled_from([(0, False), (1, False), (2, False), (2, True)])
cuts = st.lists(st.integers(0, 10_000), max_size=5)
OVERDUE_AFTER = timedelta(seconds=70)
"""The time-out of the coordinator in memory, and the ten seconds in which it looks."""


def played(
    version: int, raises_twice: bool, script: list[tuple[str, str, int, int]]
) -> Coordinator:
    made = Coordinator(version, raises_twice=raises_twice)
    for of in IDS:
        made.init(of)
    for of, action, after_ms, number in script:
        made.now += after_ms
        # An abort of the client after the time-out looks like one of the coordinator.
        is_late = of in made.open and made.now - made.open[of].started_ms > 60_000
        if action == "abort" and version == 2 and is_late:
            continue
        match action:
            case "init":
                made.init(of)
            case "add":
                made.add(of, number, client=number)
            case "commit" | "abort":
                made.end(of, is_commit=action == "commit")
            case "time_out":
                made.time_out(of)
            case "complete":
                made.complete(of)
            case "expire":
                made.expire(of)
            case "move":
                made.leader_epoch += 1
    return made


def batches_of(made: Coordinator, ends: list[int]) -> list[list[Row]]:
    bounds = sorted({0, made.offset, *(end % (made.offset + 1) for end in ends)})
    return [
        [row | {"read_at": ms(made.now)} for row in rows_of(made.log, since, until)]
        for since, until in itertools.pairwise(bounds)
    ]


def seen(made: Coordinator) -> datetime:
    return ms(made.now) + timedelta(hours=2)


def folded(made: Coordinator, ends: list[int], rounds: list[int]) -> Rounds:
    """The rows after rounds of some batches each, and a last observation."""
    batches, found = batches_of(made, ends), Rounds()
    bounds = sorted({0, len(batches), *(each % (len(batches) + 1) for each in rounds)})
    for since, until in itertools.pairwise(bounds):
        found.take([row for batch in batches[since:until] for row in batch])
    found.take([], seen(made))
    return found


SCRIPT = [
    ("app-0_1", "add", 1, 2), ("app-0_1", "abort", 1, 0), ("app-0_1", "complete", 1, 0),
    ("app-0_1", "init", 900, 0), ("app-0_2", "add", 1, 1), ("app-0_2", "time_out", 1, 1),
    ("other-1", "add", 1, 2), ("other-1", "commit", 1, 2),
]  # fmt: skip


@quickly
@given(coordinators, steps, cuts, cuts)
@example((2, False), SCRIPT, [4, 5, 6, 7, 8], [1, 2, 3])
def test_however_records_are_cut_the_rows_are_the_same(
    of: tuple[int, bool],
    script: list[tuple[str, str, int, int]],
    ends: list[int],
    rounds: list[int],
) -> None:
    made = played(*of, script)
    whole, cut = folded(made, [], []), folded(made, ends, rounds)
    assert cut.transactions == whole.transactions
    assert cut.counts == whole.counts


@quickly
@given(coordinators, steps, cuts, cuts)
@example((2, False), SCRIPT, [4, 5, 6, 7, 8], [1, 2, 3])
def test_rows_are_as_it_truly_was(
    of: tuple[int, bool],
    script: list[tuple[str, str, int, int]],
    ends: list[int],
    rounds: list[int],
) -> None:
    made = played(*of, script)
    now = seen(made)
    found = {
        (row["transactional_id"], row["started_at"], row["first_offset"]): row
        for row in folded(made, ends, rounds).transactions
    }
    for truth in made.truths:
        row = found.pop((truth.transactional_id, ms(truth.started_ms), truth.begun_offset), None)
        if row is None:
            assert not is_worth(truth, now, of), truth
            continue
        # With version 2 it is at times a guess, and of an older client's sure.
        assert is_worth(truth, now, of) or row["aborted_by"] == "coordinator", truth
        check(row, truth, now)
    assert not found, "rows of what never was"


END_COMPACTED_AWAY = [
    ("app-0_1", "add", 1, 0), ("app-0_1", "commit", 1, 0), ("app-0_1", "complete", 1, 0),
    ("other-1", "init", 1, 0), ("app-0_1", "add", 4_000, 0), ("app-0_1", "commit", 1, 0),
    ("app-0_1", "complete", 1, 0),
]  # fmt: skip


@quickly
@given(coordinators, steps, st.tuples(*[st.integers(0, 10_000)] * 3))
@example((1, False), END_COMPACTED_AWAY, (4, 8, 10))
def test_what_was_compacted_away_is_unknown_and_never_open_for_ever(
    of: tuple[int, bool], script: list[tuple[str, str, int, int]], ends: tuple[int, int, int]
) -> None:
    made = played(*of, script)
    read_to, cleaned_to, cut = sorted(end % (made.offset + 1) for end in ends)
    if cut % 2:
        cleaned_to, cut = cut, cleaned_to
    log, found = compacted(made.log, read_to, cleaned_to), Rounds()
    spans = [(0, read_to), (read_to, cut), (cut, made.offset)]
    for number, (since, until) in enumerate(spans):
        follows_end = number < 2
        rows = rows_of(log, since, until, follows_end=follows_end) if since < until else []
        found.take([row | {"read_at": ms(made.now)} for row in rows])
    now = seen(made)
    found.take([], now)
    truths = {
        (each.transactional_id, ms(each.started_ms), time(each.completed_ms)): each
        for each in made.truths
    }
    for row in found.transactions:
        (truth,) = (
            each
            for (id_, started, _), each in truths.items()
            if (id_, started) == (row["transactional_id"], row["started_at"])
            and row["first_offset"] >= each.begun_offset
            and (each.completed_offset is None or row["last_offset"] <= each.completed_offset)
        )
        prepared, completed = time(truth.prepared_ms), time(truth.completed_ms)
        if completed is not None:
            assert row["close_reason"] is not None
            assert row["ended_after"] <= completed <= (row["ended_before"] or completed)
        if prepared is not None and row["close_reason"] is not None:
            assert row["prepared_after"] <= prepared <= (row["prepared_before"] or prepared)
            assert row["outcome"] in {None, "committed" if truth.is_committed else "aborted"}
    is_live = {row["transactional_id"] for row in found.transactions if row["stuck"] is not None}
    assert is_live == {each.transactional_id for each in made.open.values()}


def time(number: int | None) -> datetime | None:
    return None if number is None else ms(number)


def is_worth(truth: Truth, now: datetime, of: tuple[int, bool]) -> bool:
    """The rule once more, as its sentence has it."""
    end = time(truth.completed_ms) or now
    prepared = time(truth.prepared_ms)
    is_long = end - ms(truth.started_ms) > timedelta(seconds=60)
    is_completing = prepared is not None and end - prepared > timedelta(seconds=30)
    # With version 2 an abort of the coordinator is not always sure to be one.
    is_sure = truth.by == "coordinator" and of in {(0, False), (1, False), (2, True)}
    return is_long or is_completing or is_sure


def check(row: Row, truth: Truth, now: datetime) -> None:
    prepared, completed = time(truth.prepared_ms), time(truth.completed_ms)
    started = ms(truth.started_ms)
    assert (row["prepared_after"], row["prepared_before"]) == (prepared, prepared)
    assert row["ended_before"] == completed
    assert (row["close_reason"] is None) == (completed is None) or row["reason"] is None
    assert row["is_begin_read"]
    assert row["partition_count"] in {len(truth.partitions), None}
    if prepared is not None:
        assert row["outcome"] == ("committed" if truth.is_committed else "aborted")
    if row["reason_sureness"] == "exact":
        assert row["aborted_by"] == truth.by
    if truth.is_committed or prepared is None:
        assert row["aborted_by"] is None
    is_overdue = (prepared or now) - started > OVERDUE_AFTER
    assert row["overdue_since"] == (started + OVERDUE_AFTER if is_overdue else None)
    slow = None if prepared is None else prepared + timedelta(seconds=30)
    is_slow = slow is not None and (completed or now) > slow
    assert row["stuck_completing_since"] == (slow if is_slow else None)
    if completed is None:
        assert row["stuck"] == ("overdue" if prepared is None else "stuck_completing")
    else:
        assert row["stuck"] is None
    if row["reason"] is not None:
        is_late = prepared is not None and prepared - started > timedelta(seconds=60)
        assert row["reason"] == ("timed_out" if is_late else "fenced")
