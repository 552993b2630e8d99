"""How rebalances begin and end, and what rows of them and of events say."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.rules.groups.rows import (
    MEMBER_ROWS,
    GroupOutput,
    begun,
    end_columns,
    ended,
    interrupted,
    key_of,
    overtaken,
    skipped,
)
from jobs.rules.groups.state import Member, Moment, Rebalance, Standing, State
from schemas.groups import GROUP_EVENTS, REBALANCE_MEMBERS, REBALANCES
from tests.support.group_records import counts

AT = datetime(2026, 1, 1, tzinfo=UTC)
BY_JOB = {"id", "cluster", "cluster_id", "group_id", "source", "updated_at", "is_live", "part"}


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


BEGAN = Moment(at(10), at(10), 7, 100, 3)
END = Moment(at(13), at(12), 7, 104, 4)
A, B = Member(topics=["t"], has={"t": [0, 1]}), Member(topics=["t"], has={"t": [2]})
TO_HAVE = replace(A, to_have={"t": [2]})


def group(generation: int | None = 1, **members: Member) -> Standing:
    return Standing("classic", generation, members=members)


def told(rebalance: Rebalance, after: Standing, *end: Any) -> dict[str, Any]:
    return dict(GroupOutput().rebalance(rebalance, after, *end))


@pytest.mark.parametrize(
    ("began_after", "end", "columns"),
    [
        # When it ended (after, by): ended_after, ended_before, duration_ms_min, duration_ms_max.
        (at(10), None, (None, None, None, None)),
        (at(10), Moment(at(13), at(13)), (at(13), at(13), 3_000, 3_000)),
        (at(8), Moment(at(13), at(12)), (at(12), at(13), 2_000, 5_000)),
        (at(8), Moment(at(13), at(9)), (at(9), at(13), 0, 5_000)),
        (None, Moment(at(13), at(12)), (at(12), at(13), 2_000, None)),
        (at(8), Moment(at(13)), (None, at(13), 0, 5_000)),
        # A clock may step back: nothing ends before it began.
        (at(8), Moment(at(9), at(9)), (at(10), at(10), 0, 2_000)),
        (at(8), Moment(at(13), at(20)), (at(13), at(13), 3_000, 5_000)),
    ],
)
def test_when_a_rebalance_ended(
    began_after: datetime | None, end: Moment | None, columns: tuple[Any, ...]
) -> None:
    names = ("ended_after", "ended_before", "duration_ms_min", "duration_ms_max")
    row = end_columns(began_after, at(10), "completed", end)
    assert tuple(row[name] for name in names) == columns


@pytest.mark.parametrize(
    ("before", "after", "generations"),
    [(1, 2, 0), (1, 4, 2), (4, 1, -4), (None, 2, None), (1, None, None)],
)
def test_generations_between_two_that_completed(
    before: int | None, after: int | None, generations: int | None
) -> None:
    assert skipped(group(before), group(after)) == generations
    assert skipped(None, group(after)) is None


@pytest.mark.parametrize(("so_far", "more", "sum_"), [(1, 2, 3), (None, 2, None), (1, None, None)])
def test_generations_that_were_overtaken_add_up(
    so_far: int | None, more: int | None, sum_: int | None
) -> None:
    assert overtaken(Rebalance(BEGAN, skipped_generations=so_far), more).skipped_generations == sum_


@pytest.mark.parametrize(
    ("last_end", "before", "since"),
    [
        (at(4), group(), 6_000),
        (at(4), None, None),
        (None, group(), None),
        # A clock may step back.
        (at(12), group(), 0),
        (at(10), group(), 0),
    ],
)
def test_a_rebalance_begins_so_long_after_the_one_before(
    last_end: datetime | None, before: Standing | None, since: int | None
) -> None:
    state = State(last_end=last_end, converted_from="consumer")
    rebalance = begun(state, before, group(3), BEGAN)
    assert (rebalance.since_previous_ms, rebalance.prev_group_type) == (since, "consumer")
    assert rebalance.skipped_generations == (None if before is None else 1)


def test_a_rebalance_ends_once_and_the_next_is_after_it() -> None:
    now, given_up = group(2, a=replace(A, has={"t": [0]})), {"a": {"t": [1]}}
    state = State(now=now, rebalance=Rebalance(BEGAN, group(a=A), given_up=given_up))
    output = GroupOutput()
    after = ended(state, state.rebalance, "completed", END, output)
    assert (after.rebalance, after.last_end) == (None, at(13))
    (row,) = output.rows.values()
    assert (row["end_reason"], row["last_offset"], row["ended_leader_epoch"]) == (
        "completed",
        104,
        4,
    )
    assert row["reasons"] == ["partitions_changed"], "nobody gets what was given up"
    early = ended(state, state.rebalance, "completed", Moment(at(5), at(5)), output)
    assert early.last_end == at(10), "a clock that steps back ends nothing before it began"


@pytest.mark.parametrize("is_open", [True, False])
def test_missing_records_leave_nothing_known(is_open: bool) -> None:
    rebalance = Rebalance(BEGAN, group(), ended=not is_open)
    state = State(7, 104, at(11), known=True, now=group(a=A), rebalance=rebalance, truncated=[1])
    output = GroupOutput()
    after = interrupted(state, at(20), output)
    assert after == State(7, 104, at(11), gap=True, truncated=[1])
    found = [
        (row["end_reason"], row["ended_after"], row["ended_before"]) for row in output.rows.values()
    ]
    assert found == ([("unknown", at(11), at(20))] if is_open else [])


def test_a_row_counts_members_and_partitions() -> None:
    rebalance = Rebalance(BEGAN, group(1, a=A), phases=2, skipped_generations=0)
    row = told(rebalance, group(2, a=replace(A, has={"t": [0]}), b=B), "completed", END)
    members = {each["member_id"]: each for each in row.pop(MEMBER_ROWS)}
    assert set(row) == set(REBALANCES.column_names) - BY_JOB
    assert set(members["a"]) == set(REBALANCE_MEMBERS.column_names) - BY_JOB - {"rebalance_id"}
    expected = {
        "generation": 2,
        "prev_generation": 1,
        "phases": 2,
        "members": 2,
        "prev_members": 1,
        "members_joined": 1,
        "members_left": 0,
        "members_restarted": 0,
        "subscribed": ["t"],
        "assigned": [{"topic": "t", "topic_id": None, "partitions": 2}],
        "first_offset": 100,
        "last_offset": 104,
    }
    assert row | expected == row
    assert counts(row) == (1, 0, 1, 1)
    part = {"topic": "t", "topic_id": None}
    assert [members[each]["change"] for each in "ab"] == ["stayed", "joined"]
    assert (members["a"]["before"], members["a"]["after"]) == (
        [part | {"partitions": [0, 1]}],
        [part | {"partitions": [0]}],
    )
    assert members["b"]["before"] == []


@pytest.mark.parametrize(
    ("after", "end_reason", "moved"),
    [
        # A classic group that is open waits for who gets what; another one for its target.
        (group(2, a=B), None, (None,) * 4),
        (group(2, a=B), "completed", (0, 0, 1, 2)),
        (group(2), "emptied", (0, 0, 0, 2)),
        (group(2, a=B), "unknown", (None,) * 4),
        (Standing("consumer", 2, target_epoch=2, members={"a": TO_HAVE}), None, (0, 0, 1, 2)),
        (Standing("consumer", 2, target_epoch=1, members={"a": B}), None, (None,) * 4),
    ],
)
def test_what_moved_is_told_once_it_is_decided(
    after: Standing, end_reason: str | None, moved: tuple[Any, ...]
) -> None:
    row = told(Rebalance(BEGAN, group(1, a=A)), after, end_reason, end_reason and END)
    assert counts(row) == moved


X1, X2 = (Member(instance_id="x", client_id=each) for each in ("one", "two"))


@pytest.mark.parametrize(
    ("before", "passed", "after", "joined_left"),
    [
        ({"a": A}, {"b": B}, {"a": A}, (1, 1)),
        ({"a": A}, {"a": A}, {}, (0, 1)),
        ({"a": A}, {"b": B}, {"a": A, "b": B}, (1, 0)),
        # A static member that restarted meanwhile passed once.
        ({"a": A}, {"x1": X1, "x2": X2}, {"a": A}, (1, 1)),
        ({"x1": X1}, {"x2": X2}, {}, (0, 1)),
    ],
)
def test_members_that_came_and_went_meanwhile_joined_and_left(
    before: dict[str, Member],
    passed: dict[str, Member],
    after: dict[str, Member],
    joined_left: tuple[int, int],
) -> None:
    row = told(
        Rebalance(BEGAN, group(1, **before), passed=passed), group(2, **after), "completed", END
    )
    assert (row["members_joined"], row["members_left"]) == joined_left
    changes = [each["change"] for each in row[MEMBER_ROWS]]
    assert changes.count("left") == joined_left[1]
    assert len(before) + joined_left[0] - joined_left[1] == len(after)


def test_of_a_group_that_is_not_known_from_before_rows_say_what_there_is() -> None:
    row = told(Rebalance(BEGAN), group(2, a=A), "completed", END)
    unknown = ("prev_members", "members_joined", "members_left", "members_restarted", "reasons")
    assert [row[name] for name in unknown] == [None] * 5
    (member,) = row[MEMBER_ROWS]
    assert (member["change"], member["before"], member["member_id"]) == ("unknown", None, "a")


@pytest.mark.parametrize(
    ("left", "silent_ms_max"),
    [([6_000, 45_000], 45_000), ([None, 6_000], 6_000), ([None], None), ([], None)],
)
def test_who_may_have_died_had_been_silent_for_a_session_at_most(
    left: list[int | None], silent_ms_max: int | None
) -> None:
    """The time-outs of those that left; another has a longer one, and stays."""
    there = {"there": Member(session_timeout_ms=100_000)}
    before = {str(n): Member(session_timeout_ms=each) for n, each in enumerate(left)}
    row = told(Rebalance(BEGAN, group(1, **there, **before)), group(2, **there), "completed", END)
    assert row["silent_ms_max"] == silent_ms_max


def test_what_is_assigned_is_not_known_where_something_of_a_member_is_not() -> None:
    after = group(2, a=A, b=Member(has=None))
    row = told(Rebalance(BEGAN, group()), after, "completed", END)
    assert (row["assigned"], row["members"]) == (None, 2)
    assert {each["member_id"]: each["after"] is None for each in row[MEMBER_ROWS]} == {
        "a": False,
        "b": True,
    }


def test_a_topic_is_named_as_the_source_names_it() -> None:
    by_id = Member(has={"T": [0], "U": [1]}, by_id=True)
    rebalance = Rebalance(BEGAN, group(), topics={"T": "t"})
    row = told(rebalance, group(2, a=by_id), "completed", END)
    assert row["assigned"] == [
        {"topic": "t", "topic_id": "T", "partitions": 1},
        {"topic": None, "topic_id": "U", "partitions": 1},
    ]


def test_a_log_that_was_truncated_has_an_offset_twice() -> None:
    again = replace(BEGAN, by=at(11))
    assert key_of(Rebalance(BEGAN)) != key_of(Rebalance(again))
    assert key_of(Rebalance(BEGAN)) == key_of(Rebalance(replace(BEGAN, after=None)))
    assert key_of(Rebalance(replace(BEGAN, poll="s/1"))) == ("s/1",)


def test_an_event_is_of_a_record_and_an_instance_or_of_a_poll() -> None:
    output = GroupOutput()
    x1, x2, y1, y2 = ({f"{name}{n}": Member(instance_id=name)} for name in "xy" for n in (1, 2))
    output.restarts(BEGAN, x1 | y1, group(2, **x2, **y2))
    assert [
        (row["event"], row["prev_member_id"], row["member_id"], row["instance_id"])
        for row in output.rows.values()
    ] == [("static_restart", "x1", "x2", "x"), ("static_restart", "y1", "y2", "y")]
    assert all(set(row) == set(GROUP_EVENTS.column_names) - BY_JOB for row in output.rows.values())
    output.event("created", BEGAN, group(0))
    output.event("converted", BEGAN, group(0))
    assert len(output.rows) == 3, "one event for each record"
    polled = GroupOutput()
    for event in ("created", "deleted"):
        polled.event(event, replace(BEGAN, poll="s/1"), group(0))
    assert len(polled.rows) == 2
