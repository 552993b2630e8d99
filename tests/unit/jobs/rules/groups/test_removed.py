"""Time-outs that removed members, where records of groups with epochs tell it."""

from datetime import timedelta

import pytest

from jobs.rules.groups.removed import REBALANCE, SESSION, revoking_since, time_out
from jobs.rules.groups.state import Member
from tests.support.group_records import (
    CONSUMER,
    SHARE,
    STREAMS,
    Kind,
    Log,
    at,
    classic,
    classic_member,
    history,
)

ALL, LOW, HIGH = {"T": [0, 1, 2, 3]}, {"T": [0, 1]}, {"T": [2, 3]}
WAITED = Member(epoch=1, revoking_since=at(0), rebalance_timeout_ms=60_000)


@pytest.mark.parametrize(
    ("member", "seconds", "by"),
    [
        pytest.param(WAITED, 60, REBALANCE, id="rebalance: at its end"),
        pytest.param(WAITED, 300, REBALANCE, id="rebalance: a coordinator that was loaded anew"),
        pytest.param(WAITED, 59.999, None, id="none: it left, or its session ended, before"),
        pytest.param(Member(epoch=-2), 60, SESSION, id="session: it was away"),
        pytest.param(
            Member(epoch=-2, rebalance_timeout_ms=1), 60, SESSION, id="session: away since"
        ),
        pytest.param(Member(epoch=1), 60, None, id="none: nothing was asked of it"),
        pytest.param(
            Member(epoch=1, revoking_since=at(0)), 60, None, id="none: its time-out is not known"
        ),
    ],
)
def test_the_time_out_that_removed_a_member(member, seconds, by):
    assert time_out(member, at(0) + timedelta(seconds=seconds)) == by


@pytest.mark.parametrize(
    ("group_type", "epoch", "state", "is_asked"),
    [
        ("consumer", 3, 1, True),
        ("consumer", 3, 0, False),
        ("consumer", 3, 2, False),
        ("streams", 3, 2, True),
        ("streams", 3, 1, False),
        ("share", 3, 1, False),
        ("consumer", -2, 1, False),
    ],
)
def test_who_is_asked_to_give_something_up(group_type, epoch, state, is_asked):
    since = revoking_since(group_type, epoch, state, at(7))
    assert since == (at(7) if is_asked else None)


def asked(kind: Kind, **member) -> Log:
    """`b` joins at 5 s, and `a` is asked to give up half of what it has at 6 s."""
    a = kind.member("a", rebalance_timeout_ms=10_000, **member)
    log = Log().batch(0, a, kind.epoch(1), kind.target("a", ALL), kind.target_epoch(1))
    log = log.batch(0.5, kind.current("a", 1, ALL))
    targets = kind.target("a", LOW), kind.target("b", HIGH), kind.target_epoch(2)
    waits = kind.current("b", 2, {}, waits=True)
    log = log.batch(5, kind.member("b"), kind.epoch(2), *targets, waits)
    return log.batch(6, kind.current("a", 1, LOW, pending=HIGH))


def alone(log: Log, seconds: float, kind: Kind, epoch: int = 3) -> Log:
    """`a` is removed, and `b` has everything."""
    log = log.batch(seconds, *kind.gone("a"), kind.epoch(epoch))
    has = kind.target("b", ALL), kind.target_epoch(epoch), kind.current("b", epoch, ALL)
    return log.batch(seconds + 1, *has)


@pytest.mark.parametrize("kind", [CONSUMER, STREAMS], ids=lambda kind: kind.name)
@pytest.mark.parametrize(("seconds", "by"), [(16, ["rebalance"]), (15, None)])
def test_a_member_that_gave_nothing_up_in_time(kind, seconds, by):
    """While the rebalance lasts that another member began."""
    log = alone(asked(kind), seconds, kind)
    told = history(log)
    assert [row["removed_by"] for row in told.rebalances] == [None, by]
    assert history(log, range(len(log.rows))) == told


def test_a_member_that_speaks_the_classic_protocol_has_other_time_outs():
    of_classic = [{"name": "range", "subscription": None, "metadata_bytes": None}]
    log = alone(asked(CONSUMER, protocols=of_classic), 16, CONSUMER)
    assert [row["removed_by"] for row in history(log).rebalances] == [None, None]


def at_rest(kind: Kind, **member) -> Log:
    log = asked(kind, **member).batch(7, kind.current("a", 2, LOW))
    return log.batch(8, kind.current("b", 2, HIGH))


def test_a_static_member_that_did_not_come_back_in_time():
    """Its removal begins the rebalance. One that is back has another id, and was not removed."""
    kind, static = CONSUMER, {"instance_id": "x"}
    away = at_rest(kind, **static).batch(20, kind.current("a", -2, LOW))
    log = alone(away, 65, kind)
    told = history(log)
    assert [row["removed_by"] for row in told.rebalances] == [None, None, ["session"]]
    assert told.rebalances[-1]["reasons"] == ["static_member_left"]
    assert history(log, range(len(log.rows))) == told
    away = at_rest(kind, **static).batch(20, kind.current("a", -2, LOW))
    back = kind.member("a2", **static), kind.target("a2", LOW), kind.current("a2", 2, LOW)
    log = away.batch(30, *kind.gone("a"), *back).batch(40, kind.member("c"), kind.epoch(3))
    assert history(log).rebalances[-1]["removed_by"] is None
    assert history(log).state.removed == {}


@pytest.mark.parametrize("kind", [CONSUMER, SHARE, STREAMS], ids=lambda kind: kind.name)
def test_one_that_left_looks_like_one_that_died(kind):
    assert history(alone(at_rest(kind), 65, kind)).rebalances[-1]["removed_by"] is None


def test_the_record_of_a_classic_group_tells_nothing_of_who_is_gone():
    log = Log().batch(0, classic(1, [classic_member("a", has=LOW), classic_member("b", has=HIGH)]))
    rows = history(log.batch(60, classic(2, [classic_member("a", has=ALL)]))).rebalances
    assert [(row["members_left"], row["removed_by"]) for row in rows] == [(0, None), (1, None)]


def test_racks_of_members_and_the_skew_of_what_they_have():
    told = history(at_rest(CONSUMER, rack="east"))
    assert [{id_: row["rack"] for id_, row in rows.items()} for rows in told.members] == [
        {"a": "east"},
        {"a": "east", "b": None},
    ]
    assert [row["assignment_skew"] for row in told.rebalances] == [0, 0]
    # While it lasts, by the target.
    assert history(asked(CONSUMER)).rebalances[-1]["assignment_skew"] == 0
    member = classic_member("a", has={"t": [0, 1, 2]})
    member["subscription"] |= {"rack": "west"}
    log = Log().batch(0, classic(1, [member, classic_member("b", has={"t": [3]})]))
    told = history(log.batch(9, classic(2, [])))
    assert [row["assignment_skew"] for row in told.rebalances] == [2, None], "nobody is left"
    assert {id_: row["rack"] for id_, row in told.members[0].items()} == {"a": "west", "b": None}
    unread = [classic_member("a", bytes_only=True)]
    log = Log().batch(0, classic(1, unread, protocol_type="connect"))
    assert history(log).rebalances[0]["assignment_skew"] is None
