"""What polls tell of one group, by cases worked out by hand; and that runs cut anywhere tell what
one run does.
"""

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.rules.groups import polls
from jobs.rules.groups.rows import MEMBER_ROWS
from schemas.groups import REBALANCE_BEGINS, REBALANCES
from tests.support.group_records import gist, shows
from tests.support.group_rounds import Rounds
from tests.support.group_states import (
    AUDIT,
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
from tests.support.polled_lives import known_at, polled_lives

Row = dict[str, Any]
Seen = tuple[int, Row | None]


class Polled(NamedTuple):
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


def changes(told: Polled) -> dict[str, tuple[str, list[Row] | None, list[Row] | None]]:
    return {row["member_id"]: (row["change"], row["before"], row["after"]) for row in told.members}


def parts(topic_id: str, *numbers: int) -> list[Row]:
    return [{"topic": NAMES[topic_id], "topic_id": topic_id, "partitions": list(numbers)}]


def m(id_: str, *numbers: int, epoch: int = 5, target: list[int] | None = None, **more: Any) -> Row:
    """A member of a group with epochs that has these partitions; it has its target if none is
    given.
    """
    to_have = list(numbers) if target is None else target
    more = {"topics": ["orders"], "target": {ORDERS: to_have}} | more
    return member(id_, {ORDERS: list(numbers)}, epoch=epoch, **more)


def o(id_: str, *numbers: int, **more: Any) -> Row:
    """A member of a classic group that has these partitions."""
    return member(id_, {"orders": list(numbers)}, **({"topics": ["orders"]} | more))


A, B = m("a", 0, 1), m("b", 2, 3)
BOTH = consumer("Stable", 5, 5, A, B)
HIDDEN = {"group_type": "consumer", "state": "Stable", "members": None}
X = {**A, "instance_id": "x"}
OLD = classic("Stable", o("a", 0, 1), o("b", 2, 3))
PREPARING = classic("PreparingRebalance", member("a"), member("b"))
NONE, UNKNOWN = (None, None, None), (None, None, None, None)
DONE = ("completed", None)


def of_share(epoch: int, target: int, *members: tuple[str, int]) -> Row:
    made = (member(id_, {ORDERS: [0, 1]}, epoch=at_epoch) for id_, at_epoch in members)
    return consumer("Stable", epoch, target, *made, type_="share")


WAITS = m("c", 1, epoch=7, target=[1, 3])
MANY: list[Seen] = [
    (0, BOTH),
    (2, consumer("Assigning", 6, 5, A, B, m("c", epoch=0))),
    (
        3,
        consumer(
            "Reconciling", 7, 7, m("a", 0, epoch=7), m("b", 2), m("c", 1, epoch=7, target=[1, 3])
        ),
    ),
    (5, consumer("Stable", 7, 7, m("a", 0, epoch=7), m("b", 2, epoch=7), m("c", 1, 3, epoch=7))),
]
"""`c` joins, and an epoch is overtaken."""

CASES: dict[str, tuple[list[Seen], list[tuple[Any, ...]]]] = {
    # The gist of each rebalance that polls tell: end_reason, phases, generations, members, reasons,
    # counts.
    "nothing: as before": ([(0, BOTH), (4, BOTH)], []),
    "nothing: it may have been there for long": ([(0, BOTH)], []),
    "nothing: what may not be described is not known": (
        [(0, BOTH), (2, HIDDEN), (4, consumer("Stable", 9, 9, {**A, "epoch": 9}))],
        [],
    ),
    "member_joined member_left: epochs between two polls are counted": (
        [(0, BOTH), (4, consumer("Stable", 9, 9, {**A, "epoch": 9}, m("c", 2, 3, epoch=9)))],
        [(*DONE, (5, 9, 3), (1, 1, 0), "member_joined member_left", (2, 2, 0, 0))],
    ),
    "same_members: epochs that fall are not counted": (
        [(0, BOTH), (2, consumer("Stable", 2, 2, {**A, "epoch": 2}, {**B, "epoch": 2}))],
        [(*DONE, (5, 2, None), (0, 0, 0), "same_members", (4, 0, 0, 0))],
    ),
    "partitions_changed: a topic grew": (
        [(0, BOTH), (4, consumer("Stable", 6, 6, m("a", 0, 1, 4, epoch=6), {**B, "epoch": 6}))],
        [(*DONE, (5, 6, 0), (0, 0, 0), "partitions_changed", (4, 0, 1, 0))],
    ),
    "partitions_changed: made again with less": (
        [(0, BOTH), (4, consumer("Stable", 6, 6, m("a", 0, epoch=6), {**B, "epoch": 6}))],
        [(*DONE, (5, 6, 0), (0, 0, 0), "partitions_changed", (3, 0, 0, 1))],
    ),
    "emptied": (
        [(0, BOTH), (2, consumer("Empty", 7, 5))],
        [("emptied", None, (5, 7, 1), (0, 2, 0), "member_left group_emptied", (0, 0, 0, 4))],
    ),
    "emptied, then deleted": (
        [(0, BOTH), (2, consumer("Empty", 7, 5)), (6, GONE)],
        [("emptied", None, (5, 7, 1), (0, 2, 0), "member_left group_emptied", (0, 0, 0, 4))],
    ),
    # Kafka deletes no group that has members.
    "deleted: its members had left": (
        [(0, classic("Stable", o("a", 0))), (3, GONE)],
        [("deleted", None, NONE, (0, 1, 0), "member_left group_emptied", UNKNOWN)],
    ),
    "deleted: while it rebalances": (
        [(0, OLD), (2, PREPARING), (3, GONE)],
        [("deleted", None, NONE, (0, 2, 0), "member_left group_emptied", UNKNOWN)],
    ),
    "deleted: nobody was there": ([(0, classic("Empty")), (3, GONE)], []),
    "member_joined: it was made": (
        [(3, BOTH)],
        [(*DONE, (None, 5, None), (2, 0, 0), "member_joined", (0, 0, 4, 0))],
    ),
    "nothing: an empty group was made": ([(3, classic("Empty"))], []),
    "it rebalances at the first poll of all": (
        [(0, consumer("Reconciling", 6, 6, A, B))],
        [(None, None, (None, 6, None), NONE, None, UNKNOWN)],
    ),
    "a share group is stable before its members are": (
        [(0, of_share(1, 1, ("a", 1))), (1, of_share(2, 1, ("a", 1), ("b", 0)))],
        [(None, None, (1, 2, 0), (1, 0, 0), "member_joined", UNKNOWN)],
    ),
    "completed: a share group": (
        [
            *((0, of_share(1, 1, ("a", 1))), (1, of_share(2, 1, ("a", 1), ("b", 0)))),
            (2, of_share(2, 2, ("a", 2), ("b", 2))),
        ],
        [(*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (2, 0, 0, 0))],
    ),
    "open: there is no target yet": (
        MANY[:2],
        [(None, None, (5, 6, 0), (1, 0, 0), "member_joined", UNKNOWN)],
    ),
    "open: not every member has reached the epoch": (
        MANY[:3],
        [(None, None, (5, 7, 1), (1, 0, 0), "member_joined", (2, 2, 0, 0))],
    ),
    "completed: every member has reached the epoch": (
        MANY,
        [(*DONE, (5, 7, 1), (1, 0, 0), "member_joined", (2, 2, 0, 0))],
    ),
    # Classic groups tell no generation, and what members have only while Stable.
    "classic: another assignment": (
        [(0, OLD), (6, classic("Stable", o("a", 2, 3), o("b", 0, 1)))],
        [(*DONE, NONE, (0, 0, 0), "same_members", (0, 4, 0, 0))],
    ),
    "classic: another assignor": (
        [(0, OLD), (6, {**OLD, "assignor": "roundrobin"})],
        [(*DONE, NONE, (0, 0, 0), "assignor_changed", (4, 0, 0, 0))],
    ),
    "classic: it rebalances": (
        [(0, OLD), (2, PREPARING)],
        [(None, None, NONE, (0, 0, 0), "same_members", UNKNOWN)],
    ),
    "classic: it rebalanced, and is as before": (
        [(0, OLD), (2, PREPARING), (3, classic("CompletingRebalance", member("a"))), (4, OLD)],
        [(*DONE, NONE, (0, 0, 0), "same_members", (4, 0, 0, 0))],
    ),
    "classic: member_joined": (
        [(0, classic("Stable", o("a", 0, 1))), (2, PREPARING), (4, OLD)],
        [(*DONE, NONE, (1, 0, 0), "member_joined", (2, 0, 2, 0))],
    ),
    "classic: emptied": (
        [(0, OLD), (12, classic("Empty"))],
        [("emptied", None, NONE, (0, 2, 0), "member_left group_emptied", (0, 0, 0, 4))],
    ),
    "classic: subscription_changed": (
        [
            (0, classic("Stable", o("x-1", 0, instance_id="x"))),
            (2, classic("Stable", o("x-2", 0, instance_id="x", topics=["audit", "orders"]))),
        ],
        [(*DONE, NONE, (0, 0, 1), "subscription_changed", (1, 0, 0, 0))],
    ),
    "converted: one side names topics, the other their ids": (
        [(0, OLD), (3, consumer("Stable", 8, 8, {**A, "epoch": 8}, {**B, "epoch": 8}))],
        [(*DONE, (None, 8, None), (0, 0, 0), "assignor_changed converted", UNKNOWN)],
    ),
    "converted: back, and there again": (
        [(0, BOTH), (6, PREPARING), (8, consumer("Stable", 12, 12, {**A, "epoch": 12}))],
        [
            ("converted", None, (5, None, None), (0, 0, 0), "assignor_changed converted", UNKNOWN),
            (*DONE, (None, 12, None), (0, 1, 0), "member_left assignor_changed converted", UNKNOWN),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_polls_tell(case: str) -> None:
    seen, gists = CASES[case]
    assert [gist(row) for row in polled(states(*seen)).rebalances] == gists


EVENTS: dict[str, tuple[list[Seen], list[tuple[Any, ...]]]] = {
    # Events: their poll, the group's type and the one before.
    "created deleted": (
        [(3, BOTH), (4, GONE), (9, classic("Empty"))],
        [
            ("created", 3, "consumer", None),
            ("deleted", 4, "consumer", None),
            ("created", 9, "classic", None),
        ],
    ),
    "nothing: the first poll of all": ([(0, BOTH)], []),
    "nothing: it may not be described": ([(0, BOTH), (2, HIDDEN), (4, BOTH)], []),
    "created: it may not be described": ([(3, HIDDEN)], [("created", 3, "consumer", None)]),
    "converted": (
        [(0, OLD), (3, BOTH), (6, PREPARING)],
        [("converted", 3, "consumer", "classic"), ("converted", 6, "classic", "consumer")],
    ),
    # Before Kafka 3.8 types are not told: there are only classic groups.
    "nothing: a broker tells the type": ([(0, {**OLD, "group_type": None}), (3, OLD)], []),
    "static_restart": (
        [
            (0, classic("Stable", o("x-1", 0, instance_id="x"))),
            (2, classic("Stable", o("x-2", 0, instance_id="x"))),
        ],
        [("static_restart", 2, "classic", None)],
    ),
}


@pytest.mark.parametrize("case", EVENTS)
def test_events(case: str) -> None:
    seen, events = EVENTS[case]
    found = polled(states(*seen)).events
    assert [
        (each["event"], each["poll"], each["group_type"], each["prev_group_type"]) for each in found
    ] == [(event, poll(number), type_, before) for event, number, type_, before in events]
    for each in found:
        number = int(each["poll"].rpartition("/")[2])
        shows(each, began_after=at(10 * number - 10), began_before=at(10 * number + 1))


BEGINS: dict[str, tuple[list[Seen], list[tuple[int | None, int, int | None]]]] = {
    # When rebalances of a classic group began and ended, seconds: began_after, began_before,
    # ended_before.
    "a stretch of states": (
        [(0, OLD), (2, PREPARING), (3, classic("CompletingRebalance")), (5, OLD)],
        [(10, 21, 51)],
    ),
    "open": ([(0, OLD), (2, PREPARING)], [(10, 21, None)]),
    "a change between two polls": ([(0, OLD), (8, classic("Stable", o("a", 0)))], [(70, 81, 81)]),
    "one after the other": (
        [(0, OLD), (2, PREPARING), (5, OLD), (8, classic("Stable", o("a", 0))), (9, PREPARING)],
        [(10, 21, 51), (70, 81, 81), (80, 91, None)],
    ),
    "it rebalances at the first poll of all": ([(0, PREPARING), (2, OLD)], [(None, 1, 21)]),
    "it was made, and rebalances": ([(3, PREPARING)], [(20, 31, None)]),
    "gone while it rebalances": ([(0, OLD), (2, PREPARING), (4, GONE)], [(10, 21, 41)]),
    "nothing: the first poll of all": ([(0, OLD)], []),
    "nothing: of groups with epochs": ([(0, BOTH), (2, consumer("Reconciling", 6, 6, A))], []),
    "converted while it rebalances": ([(0, OLD), (2, PREPARING), (4, BOTH)], [(10, 21, 41)]),
}


@pytest.mark.parametrize("case", BEGINS)
def test_begins(case: str) -> None:
    seen, begins = BEGINS[case]
    group, by_one = Rounds(), Rounds()
    group.take(states=states(*seen))
    for row in known_by_one(states(*seen)):
        by_one.take(states=row)
    names = ("began_after", "began_before", "ended_before")
    for each in (group, by_one):
        assert [tuple(row[name] for name in names) for row in each.of(REBALANCE_BEGINS)] == [
            tuple(None if time is None else at(time) for time in times) for times in begins
        ]


def known_by_one(rows: list[Row]) -> Iterator[list[Row]]:
    """News of each row: that it began, then that it ended, with the one after."""
    for number, row in enumerate(rows):
        ended = [{**each, "is_new": False} for each in rows[max(0, number - 1) : number]]
        open_ = dict.fromkeys(("superseded_poll", "valid_to", "last_seen_sent_at", "end_reason"))
        yield [*ended, {**row, **open_}]
    if rows[-1]["superseded_poll"]:
        yield [{**rows[-1], "is_new": False}]


def test_a_rebalance_that_was_begun_before_what_is_known_has_no_bound() -> None:
    """The state before was one of a rebalance, which had begun who knows when."""
    rows = states((0, PREPARING), (2, classic("CompletingRebalance")), (3, classic("Stable")))
    (row,) = polls.begins(rows[1:], None)
    assert row == {"began_after": None, "began_before": at(21), "ended_before": at(31)}


def test_what_a_row_of_polls_says() -> None:
    told = polled(states((0, BOTH), (4, consumer("Stable", 9, 9, {**A, "epoch": 9}, m("c", 2, 3)))))
    # One member is behind: it goes on.
    assert only(told.rebalances)["end_reason"] is None
    c = m("c", 2, 3, epoch=9)
    told = polled(states((0, BOTH), (4, consumer("Stable", 9, 9, {**A, "epoch": 9}, c))))
    row = only(told.rebalances)
    shows(row, group_type="consumer", prev_group_type=None, mode="cooperative", assignor="uniform")
    shows(row, poll=poll(4), began_after=at(30), began_before=at(41))
    shows(row, ended_after=at(30), ended_before=at(41), duration_ms_min=0, duration_ms_max=11_000)
    shows(row, members=2, prev_members=2, stickiness=0.5, first_offset=None, group_leader=None)
    assert changes(told) == {
        "a": ("stayed", parts(ORDERS, 0, 1), parts(ORDERS, 0, 1)),
        "b": ("left", parts(ORDERS, 2, 3), []),
        "c": ("joined", [], parts(ORDERS, 2, 3)),
    }
    assert {row["poll"] for row in told.members} == {poll(4)}
    audits = member("b", {AUDIT: [0]}, epoch=5, target={AUDIT: [0]})
    left = consumer("Stable", 5, 5, A, audits), consumer("Stable", 6, 6, {**A, "epoch": 6})
    told = polled(states((0, left[0]), (4, left[1])))
    assert changes(told)["b"] == ("left", parts(AUDIT, 0), [])
    c = member("c", {}, epoch=0, target={AUDIT: [0]})
    told = polled(states((0, BOTH), (2, consumer("Reconciling", 6, 6, A, B, c))))
    assert changes(told)["c"] == ("joined", [], parts(AUDIT, 0)), "by the target"
    emptied = polled(states((0, BOTH), (2, consumer("Empty", 7, 5)), (6, GONE)))
    shows(only(emptied.rebalances), ended_before=at(21), stickiness=0.0, members=0)
    gone = only(polled(states((0, classic("Stable", o("a", 0))), (3, GONE))).rebalances)
    shows(gone, poll=poll(3), began_after=at(20), ended_before=at(31), members=0)
    first = polled(states((0, consumer("Reconciling", 6, 6, A, B))))
    shows(only(first.rebalances), began_after=None, began_before=at(1), members=2)
    assert {row["change"] for row in first.members} == {"unknown"}
    # What may not be described may have begun before.
    begun = polled(states((0, HIDDEN), (2, consumer("Reconciling", 6, 6, A, B))))
    shows(only(begun.rebalances), began_after=None, began_before=at(21))
    row = only(polled(states(*MANY)).rebalances)
    shows(row, poll=poll(2), began_after=at(10), began_before=at(21), ended_after=at(40))
    shows(row, ended_before=at(51), duration_ms_min=19_000, duration_ms_max=41_000)
    going_on = polled(states((0, classic("Stable", o("a", 0, 1))), (2, PREPARING)))
    shows(only(going_on.rebalances), poll=poll(2), members=2, prev_members=1, mode="eager")
    assert changes(going_on)["b"] == ("joined", [], None)


def test_a_static_restart_is_no_rebalance() -> None:
    a = o("a-1", 0, instance_id="i1")
    back = {**a, "member_id": "a-2", "client_host": "/10.0.0.2"}
    told = polled(states((0, classic("Stable", a)), (2, classic("Stable", back))))
    assert told.rebalances == []
    event = only(told.events)
    shows(event, member_id="a-2", prev_member_id="a-1", instance_id="i1")
    shows(event, client_host="/10.0.0.2", group_type="classic")
    # Back with another subscription, it made the group rebalance.
    resubscribed = {**back, "topics": ["audit", "orders"]}
    told = polled(states((0, classic("Stable", a)), (2, classic("Stable", resubscribed))))
    assert (told.events, only(told.members)["prev_member_id"]) == ([], "a-1")


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
    for has, end_reason in (((0, 1), "completed"), ((0,), None)):
        away = m("a", *has, target=[0, 1], epoch=-2, instance_id="i1")
        now = consumer("Reconciling", 6, 6, away, {**B, "epoch": 6})
        told = polled(states((0, consumer("Stable", 5, 5, a, B)), (1, now)))
        shows(only(told.rebalances), generation=6, end_reason=end_reason)


def test_a_conversion_ends_what_is_open() -> None:
    again = consumer("Stable", 12, 12, {**A, "epoch": 12})
    back, there = polled(states((0, BOTH), (6, PREPARING), (8, again))).rebalances
    shows(back, prev_group_type="consumer", group_type="classic", poll=poll(6))
    shows(back, began_before=at(61), ended_after=at(70), ended_before=at(81))
    shows(there, prev_group_type="classic", group_type="consumer", poll=poll(8))


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


# --- cut anywhere ---


@given(polled_lives(), st.sets(st.integers(0, 36), max_size=6))
def test_rounds_cut_anywhere_make_the_same_tables(rows: list[Row], cuts: set[int]) -> None:
    cut, whole = Rounds(), Rounds()
    done = ""
    for number in [*sorted(cuts), 1000]:
        known = [row | {"is_new": row["first_poll"] > done} for row in known_at(rows, number)]
        news = [row for row in known if row["is_new"] or (row["superseded_poll"] or "") > done]
        if news:
            cut.take(states=news, log_partition=3)
        done = poll(number)
    whole.take(states=known_at(rows, 1000), log_partition=3)
    assert cut.sorted() == whole.sorted()
    for row in whole.of(REBALANCES):
        assert row["began_after"] is None or row["began_after"] <= row["began_before"]
        assert (row["ended_before"] is None) == (row["end_reason"] is None) == row["is_live"]
        assert row["ended_before"] is None or row["began_before"] <= row["ended_before"]
    for row in whole.of(REBALANCE_BEGINS):
        assert row["began_after"] is None or row["began_after"] < row["began_before"]
