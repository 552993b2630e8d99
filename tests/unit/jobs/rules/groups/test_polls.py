"""What polls tell of one group, by cases worked out by hand; and that runs cut anywhere tell what
one run does.
"""

import copy
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.groups import polls
from jobs.rules.groups.rows import MEMBER_ROWS
from schemas.groups import (
    GROUP_EVENTS,
    REBALANCE_BEGINS,
    REBALANCE_MEMBERS,
    REBALANCES,
)
from tests.support.group_rounds import Rounds
from tests.support.group_states import (
    GONE,
    NAMES,
    ORDERS,
    at,
    classic,
    consumer,
    member,
    poll,
    states,
)

Row = dict[str, Any]


@dataclass(frozen=True)
class Polled:
    """What polls tell; members with the poll of their rebalance."""

    rebalances: list[Row]
    members: list[Row]
    events: list[Row]


def polled(rows: list[Row]) -> Polled:
    _, told = polls.polled(rows)
    events = [row for row in told.rows.values() if "event" in row]
    rebalances = [row for row in told.rows.values() if "event" not in row]
    members = [
        member | {"poll": row["poll"]} for row in rebalances for member in row.pop(MEMBER_ROWS)
    ]
    return Polled(rebalances, members, events)


def only(rows: list[Row]) -> Row:
    (row,) = rows
    return row


def shows(row: Row, **expected: Any) -> None:
    assert {name: row[name] for name in expected} == expected


def changes(told: Polled) -> dict[str, tuple[str, list[Row] | None, list[Row] | None]]:
    return {row["member_id"]: (row["change"], row["before"], row["after"]) for row in told.members}


def parts(topic_id: str, *numbers: int) -> list[Row]:
    return [{"topic": NAMES[topic_id], "topic_id": topic_id, "partitions": list(numbers)}]


A, B = (
    member(id_, {ORDERS: own}, epoch=5, target={ORDERS: own}, topics=["orders"])
    for id_, own in (("a", [0, 1]), ("b", [2, 3]))
)


def test_epochs_between_two_polls_are_counted() -> None:
    c = member("c", {ORDERS: [2, 3]}, epoch=9, target={ORDERS: [2, 3]})
    told = polled(
        states(
            (0, consumer("Stable", 5, 5, A, B)), (4, consumer("Stable", 9, 9, {**A, "epoch": 9}, c))
        )
    )
    shows(
        only(told.rebalances),
        group_type="consumer",
        prev_group_type=None,
        prev_generation=5,
        generation=9,
        skipped_generations=3,
        poll=poll(4),
        began_after=at(30),
        began_before=at(41),
        ended_after=at(30),
        ended_before=at(41),
        end_reason="completed",
        duration_ms_min=0,
        duration_ms_max=11_000,
        mode="cooperative",
        members=2,
        prev_members=2,
        members_joined=1,
        members_left=1,
        members_restarted=0,
        assignor="uniform",
        partitions_kept=2,
        partitions_moved=2,
        partitions_added=0,
        partitions_lost=0,
        stickiness=0.5,
        reasons=["member_joined", "member_left"],
        phases=None,
        first_offset=None,
        group_leader=None,
    )
    assert changes(told) == {
        "a": ("stayed", parts(ORDERS, 0, 1), parts(ORDERS, 0, 1)),
        "b": ("left", parts(ORDERS, 2, 3), []),
        "c": ("joined", [], parts(ORDERS, 2, 3)),
    }
    assert {row["poll"] for row in told.members} == {poll(4)}
    assert told.events == []


def test_it_goes_on_until_every_member_has_reached_the_epoch() -> None:
    assigning = consumer("Assigning", 6, 5, A, B, member("c", {}, epoch=0, target={}))
    part_way = [
        member("a", {ORDERS: [0]}, epoch=6, target={ORDERS: [0]}),
        member("b", {ORDERS: [2]}, epoch=5, target={ORDERS: [2]}),
        member("c", {ORDERS: [1]}, epoch=6, target={ORDERS: [1, 3]}),
    ]
    reached = [
        member(id_, {ORDERS: own}, epoch=7, target={ORDERS: own})
        for id_, own in (("a", [0]), ("b", [2]), ("c", [1, 3]))
    ]
    rows = states(
        (0, consumer("Stable", 5, 5, A, B)),
        (2, assigning),
        (3, consumer("Reconciling", 7, 7, *part_way)),
        (5, consumer("Stable", 7, 7, *reached)),
    )
    going_on = polled(rows[:2])
    shows(
        only(going_on.rebalances),
        generation=6,
        skipped_generations=0,
        ended_before=None,
        end_reason=None,
        members=3,
        partitions_kept=None,
    )
    going_on = polled(rows[:3])
    shows(
        only(going_on.rebalances),
        generation=7,
        skipped_generations=1,
        ended_before=None,
        partitions_kept=2,
        partitions_moved=2,
        partitions_lost=0,
        poll=poll(2),
    )
    told = polled(rows)
    shows(
        only(told.rebalances),
        prev_generation=5,
        generation=7,
        skipped_generations=1,
        poll=poll(2),
        began_after=at(10),
        began_before=at(21),
        ended_after=at(40),
        ended_before=at(51),
        duration_ms_min=19_000,
        duration_ms_max=41_000,
        partitions_kept=2,
        partitions_moved=2,
        reasons=["member_joined"],
    )


def test_a_share_group_is_stable_before_its_members_are() -> None:
    a = member("a", {ORDERS: [0, 1]}, epoch=1)
    behind = consumer("Stable", 2, 1, a, member("b", {}, epoch=0), type_="share")
    both = [member(id_, {ORDERS: [0, 1]}, epoch=2) for id_ in "ab"]
    rows = states(
        (0, consumer("Stable", 1, 1, a, type_="share")),
        (1, behind),
        (2, consumer("Stable", 2, 2, *both, type_="share")),
    )
    shows(only(polled(rows[:2]).rebalances), end_reason=None, mode=None, generation=2)
    shows(
        only(polled(rows).rebalances),
        end_reason="completed",
        ended_before=at(21),
        partitions_kept=2,
        partitions_moved=0,
        partitions_added=0,
        mode=None,
    )


def test_a_topic_that_grows() -> None:
    grown = [
        member("a", {ORDERS: [0, 1, 4]}, epoch=6, target={ORDERS: [0, 1, 4]}, topics=["orders"]),
        member("b", {ORDERS: [2, 3]}, epoch=6, target={ORDERS: [2, 3]}, topics=["orders"]),
    ]
    told = polled(
        states((0, consumer("Stable", 5, 5, A, B)), (4, consumer("Stable", 6, 6, *grown)))
    )
    shows(
        only(told.rebalances),
        partitions_added=1,
        partitions_kept=4,
        reasons=["partitions_changed"],
        skipped_generations=0,
    )


def test_a_group_that_empties_and_is_deleted() -> None:
    rows = states((0, consumer("Stable", 5, 5, A, B)), (2, consumer("Empty", 7, 5)), (6, GONE))
    told = polled(rows)
    shows(
        only(told.rebalances),
        end_reason="emptied",
        generation=7,
        skipped_generations=1,
        members=0,
        prev_members=2,
        members_left=2,
        partitions_lost=4,
        stickiness=0.0,
        reasons=["member_left", "group_emptied"],
        ended_before=at(21),
    )
    assert {name: value for name, value in only(told.events).items() if value is not None} == {
        "event": "deleted",
        "group_type": "consumer",
        "began_after": at(50),
        "began_before": at(61),
        "poll": poll(6),
    }


def test_members_of_a_group_that_is_gone_had_left() -> None:
    rows = states((0, classic("Stable", member("a", {"orders": [0]}))), (3, GONE))
    rows[0]["is_new"] = False
    told = polled(rows)
    shows(
        only(told.rebalances),
        end_reason="deleted",
        poll=poll(3),
        began_after=at(20),
        ended_before=at(31),
        members_left=1,
        members=0,
    )
    assert [row["event"] for row in told.events] == ["deleted"]


def test_a_group_that_is_made() -> None:
    told = polled(states((3, consumer("Stable", 5, 5, A, B)), (4, GONE), (9, classic("Empty"))))
    made = told.rebalances[0]
    shows(
        made,
        prev_members=0,
        members_joined=2,
        prev_generation=None,
        skipped_generations=None,
        began_after=at(20),
        partitions_added=4,
    )
    assert [(row["event"], row["poll"], row["group_type"]) for row in told.events] == [
        ("created", poll(3), "consumer"),
        ("deleted", poll(4), "consumer"),
        ("created", poll(9), "classic"),
    ]
    # One that the first poll of all shows may have been there for long.
    told = polled(states((0, consumer("Stable", 5, 5, A, B))))
    assert (told.rebalances, told.members, told.events) == ([], [], [])


def test_a_rebalance_that_the_first_poll_of_all_shows() -> None:
    told = polled(states((0, consumer("Reconciling", 6, 6, A, B))))
    shows(
        only(told.rebalances),
        began_after=None,
        began_before=at(1),
        prev_members=None,
        members_joined=None,
        reasons=None,
        members=2,
    )
    assert {row["change"] for row in told.members} == {"unknown"}


def test_classic_groups_are_told_by_states_and_by_what_differs() -> None:
    a, b = (
        member("a", {"orders": [0, 1]}, topics=["orders"]),
        member("b", {"orders": [1]}, topics=["orders"]),
    )
    rows = states(
        (0, classic("Stable", a)),
        # The poll saw it go on, without what members have.
        (2, classic("PreparingRebalance", member("a"), member("b"))),
        (3, classic("CompletingRebalance", member("a"), member("b"))),
        (4, classic("Stable", member("a", {"orders": [0]}, topics=["orders"]), b)),
        # Nothing but another assignment, and later nothing at all.
        (
            6,
            classic(
                "Stable",
                member("a", {"orders": [1]}, topics=["orders"]),
                member("b", {"orders": [0]}, topics=["orders"]),
            ),
        ),
        (8, classic("PreparingRebalance", member("a"), member("b"))),
        (
            9,
            classic(
                "Stable",
                member("a", {"orders": [1]}, topics=["orders"]),
                member("b", {"orders": [0]}, topics=["orders"]),
            ),
        ),
        (12, classic("Empty")),
    )
    joined, swapped, same, emptied = polled(rows).rebalances
    shows(
        joined,
        began_after=at(10),
        began_before=at(21),
        ended_after=at(30),
        ended_before=at(41),
        end_reason="completed",
    )
    shows(
        joined,
        generation=None,
        skipped_generations=None,
        partitions_kept=1,
        partitions_moved=1,
        members_joined=1,
        mode="eager",
        reasons=["member_joined"],
    )
    shows(
        swapped,
        poll=poll(6),
        partitions_moved=2,
        partitions_kept=0,
        began_after=at(50),
        began_before=at(61),
        reasons=["same_members"],
    )
    shows(
        same,
        poll=poll(8),
        partitions_moved=0,
        partitions_kept=2,
        ended_before=at(91),
        reasons=["same_members"],
    )
    shows(emptied, end_reason="emptied", members_left=2, reasons=["member_left", "group_emptied"])
    going_on = polled(rows[:3])
    shows(
        only(going_on.rebalances),
        end_reason=None,
        members=2,
        prev_members=1,
        members_joined=1,
        partitions_kept=None,
        poll=poll(2),
    )
    assert changes(going_on)["b"] == ("joined", [], None)


def test_static_restarts_are_no_rebalances() -> None:
    a = member("a-1", {"orders": [0]}, instance_id="i1", topics=["orders"])
    back = {**a, "member_id": "a-2", "client_host": "/10.0.0.2"}
    told = polled(states((0, classic("Stable", a)), (2, classic("Stable", back))))
    assert told.rebalances == []
    shows(
        only(told.events),
        event="static_restart",
        member_id="a-2",
        prev_member_id="a-1",
        instance_id="i1",
        client_host="/10.0.0.2",
        began_after=at(10),
        began_before=at(21),
        group_type="classic",
    )
    # Back with another subscription, it made the group rebalance.
    told = polled(
        states(
            (0, classic("Stable", a)),
            (2, classic("Stable", {**back, "topics": ["audit", "orders"]})),
        )
    )
    assert told.events == []
    shows(
        only(told.rebalances),
        members_restarted=1,
        members_joined=0,
        members_left=0,
        partitions_kept=1,
        reasons=["subscription_changed"],
    )
    assert only(told.members)["prev_member_id"] == "a-1"


def test_a_static_member_of_an_epoch_group_goes_and_comes_back() -> None:
    a = {**A, "instance_id": "i1"}
    rows = states(
        (0, consumer("Stable", 5, 5, a, B)),
        (1, consumer("Reconciling", 5, 5, {**a, "epoch": -2}, B)),
        (2, consumer("Reconciling", 5, 5, {**a, "member_id": "a-2", "assigned": []}, B)),
        (3, consumer("Stable", 5, 5, {**a, "member_id": "a-2"}, B)),
        (5, consumer("Stable", 6, 6, {**a, "member_id": "a-2", "epoch": 6}, {**B, "epoch": 6})),
    )
    told = polled(rows)
    shows(only(told.events), event="static_restart", poll=poll(2), generation=5, prev_member_id="a")
    shows(
        only(told.rebalances),
        poll=poll(5),
        partitions_kept=4,
        members_restarted=0,
        reasons=["same_members"],
    )
    # So it is where polls begin while it is away, or just back.
    for begin in (1, 2):
        later = copy.deepcopy(rows[begin:])
        for row in later[:-1]:
            row["is_new"] = False
        assert polled(later).rebalances == told.rebalances
    away = polled(states((0, consumer("Reconciling", 5, 5, {**a, "epoch": -2}, B))))
    assert away.rebalances == []


def test_conversions() -> None:
    old = [member("a", {"orders": [0, 1]}), member("b", {"orders": [2, 3]})]
    rows = states(
        (0, classic("Stable", *old)),
        (3, consumer("Stable", 8, 8, {**A, "epoch": 8}, {**B, "epoch": 8})),
        (6, classic("PreparingRebalance", member("a"), member("b"))),
        (8, consumer("Stable", 12, 12, {**A, "epoch": 12}, {**B, "epoch": 12})),
    )
    told = polled(rows)
    there, back, again = told.rebalances
    shows(
        there,
        prev_group_type="classic",
        group_type="consumer",
        generation=8,
        prev_generation=None,
        skipped_generations=None,
    )
    # One side names topics, the other their ids: what moved cannot be told.
    shows(
        there,
        reasons=["assignor_changed", "converted"],
        partitions_kept=None,
        partitions_moved=None,
        members_joined=0,
        end_reason="completed",
    )
    shows(
        back,
        prev_group_type="consumer",
        group_type="classic",
        prev_generation=8,
        generation=None,
        end_reason="converted",
    )
    shows(back, poll=poll(6), began_before=at(61), ended_after=at(70), ended_before=at(81))
    shows(again, poll=poll(8), prev_group_type="classic", generation=12, end_reason="completed")
    assert [(row["event"], row["prev_group_type"], row["group_type"]) for row in told.events] == [
        ("converted", "classic", "consumer"),
        ("converted", "consumer", "classic"),
        ("converted", "classic", "consumer"),
    ]


def test_what_may_not_be_described_is_not_known() -> None:
    hidden = {"group_type": "consumer", "state": "Stable", "members": None}
    rows = states(
        (0, consumer("Stable", 5, 5, A, B)),
        (2, hidden),
        (4, consumer("Stable", 9, 9, {**A, "epoch": 9})),
    )
    told = polled(rows)
    assert (told.rebalances, told.events) == ([], [])


def test_epochs_that_fall_are_not_counted() -> None:
    told = polled(
        states(
            (0, consumer("Stable", 5, 5, A, B)), (2, consumer("Stable", 2, 2, {**A, "epoch": 2}))
        )
    )
    shows(
        only(told.rebalances),
        prev_generation=5,
        generation=2,
        skipped_generations=None,
        members_left=1,
    )


# --- cut anywhere ---

_MEMBERS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True, max_size=3)


@st.composite
def _lives(draw: st.DrawFn) -> list[Row]:
    """A group's rows over a random life: it rebalances, empties, is converted, deleted, made again,
    may not be described.
    """
    seen: list[tuple[int, Row | None]] = []
    number = draw(st.integers(0, 1))
    epoch = 0
    for _ in range(draw(st.integers(1, 12))):
        ids = draw(_MEMBERS)
        kind = draw(st.sampled_from(["consumer", "consumer", "classic", "hidden", "gone"]))
        if kind == "gone":
            state = GONE
        elif kind == "hidden":
            state = {"group_type": "consumer", "state": "Stable", "members": None}
        elif kind == "classic":
            phase = (
                draw(st.sampled_from(["Stable", "PreparingRebalance", "CompletingRebalance"]))
                if ids
                else "Empty"
            )
            state = classic(
                phase,
                *(
                    member(i, {"orders": [ord(i)]} if phase == "Stable" else None, instance_id=i)
                    for i in ids
                ),
            )
        else:
            epoch += draw(st.integers(0, 2))
            at_epoch = [
                member(
                    draw(st.sampled_from([i, f"{i}-2"])),
                    {ORDERS: [ord(i)]},
                    epoch=draw(st.sampled_from([epoch, epoch, -2, epoch - 1])),
                    target={ORDERS: [ord(i)]},
                    instance_id=i,
                )
                for i in ids
            ]
            settled = all(each["epoch"] == epoch for each in at_epoch)
            state = consumer(
                "Empty" if not ids else "Stable" if settled else "Reconciling",
                epoch,
                epoch,
                *at_epoch,
            )
        if (seen and seen[-1][1] == state) or (state is GONE and (not seen or seen[-1][1] is GONE)):
            continue
        seen.append((number, state))
        number += draw(st.integers(1, 3))
    return states(*seen)


def _known_at(rows: list[Row], number: int) -> list[Row]:
    """Silver as it was at a poll."""
    known = copy.deepcopy([row for row in rows if row["first_poll"] <= poll(number)])
    for row in known:
        if row["superseded_poll"] and row["superseded_poll"] > poll(number):
            row.update(
                dict.fromkeys(("superseded_poll", "valid_to", "last_seen_sent_at", "end_reason"))
            )
    return known


@given(_lives(), st.sets(st.integers(0, 36), max_size=6))
def test_rounds_cut_anywhere_make_the_same_tables(rows: list[Row], cuts: set[int]) -> None:
    cut, whole = Rounds(), Rounds()
    done = ""
    for number in [*sorted(cuts), 1000]:
        known = [row | {"is_new": row["first_poll"] > done} for row in _known_at(rows, number)]
        news = [row for row in known if row["is_new"] or (row["superseded_poll"] or "") > done]
        if news:
            cut.take(states=news, log_partition=3)
        done = poll(number)
    whole.take(states=_known_at(rows, 1000), log_partition=3)
    assert cut.sorted() == whole.sorted()
    for row in whole.of(REBALANCES):
        assert row["began_after"] is None or row["began_after"] <= row["began_before"]
        assert (row["ended_before"] is None) == (row["end_reason"] is None) == row["is_live"]
        assert row["ended_before"] is None or row["began_before"] <= row["ended_before"]
    for row in whole.of(REBALANCE_BEGINS):
        assert row["began_after"] is None or row["began_after"] < row["began_before"]


def test_columns_are_those_of_the_tables() -> None:
    told = polled(states((3, consumer("Stable", 5, 5, A, B)), (4, GONE)))
    by_job = {"id", "cluster_id", "cluster", "group_id", "source", "updated_at", "is_live", "part"}
    assert set(told.rebalances[0]) == set(REBALANCES.column_names) - by_job
    of_members = set(REBALANCE_MEMBERS.column_names) - by_job - {"rebalance_id"}
    assert set(told.members[0]) == of_members | {"poll"}
    assert all(set(row) <= set(GROUP_EVENTS.column_names) - by_job for row in told.events)


# --- when rebalances of classic groups began ---


def test_begins_are_stretches_of_states_and_changes_between_two_polls() -> None:
    stable, larger = (
        classic("Stable", member("a", {"t": [0]})),
        classic("Stable", member("a", {"t": [0, 1]})),
    )
    preparing, completing = classic("PreparingRebalance"), classic("CompletingRebalance")
    group = Rounds()
    group.take(
        states=states(
            (0, stable), (2, preparing), (3, completing), (5, stable), (8, larger), (9, preparing)
        )
    )
    assert [
        (row["began_after"], row["began_before"], row["ended_before"])
        for row in group.of(REBALANCE_BEGINS)
    ] == [
        (at(10), at(21), at(51)),
        (at(70), at(81), at(81)),
        (at(80), at(91), None),
    ]


# --- rebalances that go on, and reasons that are not known ---


def test_a_rebalance_that_was_begun_before_what_is_known_has_no_bound() -> None:
    """The state before was one of a rebalance, which had begun who knows when."""
    rows = states(
        (0, classic("PreparingRebalance")),
        (2, classic("CompletingRebalance")),
        (3, classic("Stable")),
    )
    (row,) = polls.begins(rows[1:], None)
    assert row == {"began_after": None, "began_before": at(21), "ended_before": at(31)}


def streams(state: str, has: list[int], target: list[int], epoch: int = 1) -> Row:
    tasks = {
        name: [{"subtopology_id": "0", "partitions": parts}] if parts else []
        for name, parts in (("active_tasks", has), ("target_active_tasks", target))
    }
    return consumer(state, 1, 1, member("a", epoch=epoch, **tasks), type_="streams") | {
        "topology_epoch": 0
    }


@pytest.mark.parametrize(
    ("made", "end_reason"),
    [
        (streams("NotReady", [], []), "completed"),
        (streams("NotReady", [0], []), None),
        (streams("NotReady", [], [], epoch=0), None),
        (streams("Reconciling", [], []), None),
        (streams("Stable", [0], [0]), "completed"),
    ],
    ids=["nothing to assign", "a task to give up", "behind", "reconciling", "stable"],
)
def test_a_streams_group_whose_topics_are_not_there_waits_for_nothing(
    made: Row, end_reason: str | None
) -> None:
    """As its log says: every member is at the epoch."""
    shows(only(polled(states((0, GONE), (1, made), first=-1)).rebalances), end_reason=end_reason)


@pytest.mark.parametrize(
    ("topics", "reason"), [(["orders"], "partitions_changed"), (None, "same_members")]
)
@pytest.mark.parametrize("type_", ["classic", "consumer"])
def test_partitions_tell_no_growth_where_a_subscription_is_not_known(
    type_: str, topics: list[str] | None, reason: str
) -> None:
    def seen(epoch: int, *numbers: int) -> Row:
        a = member("a", {ORDERS: numbers}, epoch=epoch, target={ORDERS: numbers}, topics=topics)
        return classic("Stable", a) if type_ == "classic" else consumer("Stable", epoch, epoch, a)

    shows(
        only(polled(states((0, seen(1, 0, 1)), (2, seen(2, 0, 1, 2)))).rebalances), reasons=[reason]
    )
