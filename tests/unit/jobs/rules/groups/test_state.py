"""The state of a group: what follows from its members, and its way through JSON."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.rules.groups.state import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    WRITTEN_AFTER,
    Gone,
    Member,
    Moment,
    Rebalance,
    Standing,
    State,
    from_json,
    from_micros,
    gathered,
    numbered,
    to_json,
    to_micros,
    written_by,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(seconds=3)
STABLE = Member(epoch=4, state=0)
AWAY_ONE = Member(epoch=-2, state=0, has={"t": [0]}, to_have={"t": [0]})


def at_4(group_type: str = CONSUMER, **members: Member) -> Standing:
    return Standing(group_type, 4, target_epoch=4, members=members)


@pytest.mark.parametrize(
    ("group", "has_converged"),
    [
        pytest.param(at_4(a=STABLE, b=STABLE), True, id="converged"),
        pytest.param(at_4(SHARE, a=STABLE), True, id="converged: share"),
        pytest.param(at_4(STREAMS, a=Member(epoch=4, state=1)), True, id="converged: streams"),
        pytest.param(at_4(STREAMS, a=STABLE), False, id="0 is no state of a streams member"),
        pytest.param(at_4(a=STABLE, b=Member(epoch=3, state=0)), False, id="one is behind"),
        pytest.param(at_4(a=STABLE, b=Member(epoch=4, state=2)), False, id="one waits"),
        pytest.param(
            at_4(a=STABLE, b=AWAY_ONE), True, id="a static one is away, and has what it is to have"
        ),
        pytest.param(
            at_4(a=STABLE, b=replace(AWAY_ONE, has={})), False, id="one that is away lacks some"
        ),
        pytest.param(
            at_4(a=STABLE, b=replace(AWAY_ONE, to_have=None)),
            False,
            id="nobody knows what it lacks",
        ),
        pytest.param(
            at_4(a=Member(epoch=4, state=2), b=AWAY_ONE),
            False,
            id="one waits for what a static one that is away has",
        ),
        pytest.param(replace(at_4(a=STABLE), target_epoch=3), False, id="no target yet"),
        pytest.param(at_4(), False, id="nobody is there"),
    ],
)
def test_a_group_has_converged_when_every_member_is_stable_at_its_epoch(
    group: Standing, has_converged: bool
) -> None:
    assert group.converged is has_converged


def sharing(topics: list[str], to_have: Any, making: dict[str, list[int]]) -> Standing:
    member = Member(topics=topics, to_have=to_have)
    return Standing(SHARE, 4, making=making, names={"T": "t", "U": "u"}, members={"a": member})


@pytest.mark.parametrize(
    ("group", "awaits"),
    [
        pytest.param(sharing(["t"], {"T": [0]}, {"T": [0, 1]}), True, id="one is in no target"),
        pytest.param(sharing(["t"], None, {"T": [0]}), True, id="there is no target"),
        pytest.param(sharing(["t"], {"T": [0, 1]}, {"T": [0, 1]}), False, id="all are in it"),
        pytest.param(sharing(["t"], {"T": [0]}, {"U": [0]}), False, id="nobody wants the topic"),
        pytest.param(sharing(["t"], {"T": [0]}, {}), False, id="no state is made"),
    ],
)
def test_a_share_group_awaits_an_epoch_for_partitions_that_are_in_no_target(
    group: Standing, awaits: bool
) -> None:
    assert group.awaits_epoch is awaits


def test_partitions_that_another_member_is_to_have_are_in_a_target() -> None:
    group = sharing(["t"], {"T": [0]}, {"T": [0, 1]})
    other = Member(topics=[], to_have={"T": [1]})
    assert not replace(group, members=group.members | {"b": other}).awaits_epoch


@pytest.mark.parametrize(
    ("asked", "assignor"),
    [
        (["range", "range", "uniform"], "range"),
        (["uniform", None, None], "uniform"),
        (["range", "uniform"], None),
        ([None], None),
        ([], None),
    ],
)
def test_the_assignor_is_the_one_that_most_members_ask_for(
    asked: list[str | None], assignor: str | None
) -> None:
    members = {str(n): Member(assignor=each) for n, each in enumerate(asked)}
    group = at_4().with_members(members)
    assert (group.assignor, group.mode, group.members) == (assignor, "cooperative", members)


@pytest.mark.parametrize(
    ("group_type", "mode"),
    [(CONSUMER, "cooperative"), (STREAMS, "cooperative"), (SHARE, None), (CLASSIC, None)],
)
def test_the_mode_of_a_group_with_epochs(group_type: str, mode: str | None) -> None:
    assert at_4(group_type).with_members({}).mode == mode


@pytest.mark.parametrize(
    ("group", "subscribed"),
    [
        (at_4(a=Member(topics=["u", "t"]), b=Member(topics=["t"])), ["t", "u"]),
        (at_4(a=Member(topics=["t"]), b=Member()), None),
        (at_4(a=Member(topics=["t"], pattern="t.*")), None),
        (at_4(STREAMS, a=Member(topics=["t"])), None),
        (at_4(), []),
    ],
)
def test_the_topics_of_a_group_are_known_if_those_of_each_member_are(
    group: Standing, subscribed: list[str] | None
) -> None:
    assert group.subscribed == subscribed


def test_at_its_target_each_member_has_what_it_is_to_have_as_far_as_that_is_known() -> None:
    group = at_4(a=Member(has={"T": [0]}, to_have={"T": [1]}), b=Member(has={"T": [2]}))
    assert {each: member.has for each, member in group.at_target.members.items()} == {
        "a": {"T": [1]},
        "b": {"T": [2]},
    }


def test_lists_of_partitions_become_one() -> None:
    """librdkafka's cooperative-sticky assignor writes a topic as often as it gave away some."""
    parts = [
        [{"topic": "t", "partitions": [3, 1]}, {"topic": "t", "partitions": [2, 1]}],
        None,
        [{"topic": "t", "topic_id": "T", "partitions": [0]}],
        [{"topic": None, "topic_id": None, "subtopology_id": "0", "partitions": [5]}],
    ]
    found = gathered(*parts)
    assert found == {"t": [1, 2, 3], "T": [0], "0": [5]}
    assert numbered({"t": [1, 2], "T": [0]}) == {("t", 1), ("t", 2), ("T", 0)}
    assert numbered(None) == set()


def test_a_record_was_written_at_its_time_or_by_when_it_was_read() -> None:
    assert written_by({"timestamp": AT, "read_at": LATER}) == AT
    assert written_by({"timestamp": None, "read_at": LATER}) == LATER
    assert written_by({"read_at": LATER}) == LATER
    record = {"timestamp": LATER, "log_partition": 7, "offset": 9, "leader_epoch": 5}
    assert Moment.of(record) == Moment(LATER, LATER, 7, 9, 5)
    assert Moment.of(record | {WRITTEN_AFTER: AT}) == Moment(LATER, AT, 7, 9, 5)
    assert Moment.of(record | {WRITTEN_AFTER: None}) == Moment(LATER, None, 7, 9, 5)


def test_times_are_microseconds() -> None:
    time = AT + timedelta(microseconds=1)
    assert to_micros(time) == 1_767_225_600_000_001
    assert from_micros(1_767_225_600_000_001) == time


def test_what_members_gave_up_is_withheld() -> None:
    given_up = {"a": {"t": [0], "u": [1]}, "b": {"t": [2]}}
    rebalance = Rebalance(Moment(AT), given_up=given_up)
    assert rebalance.withheld == {("t", 0), ("u", 1), ("t", 2)}


def test_a_rebalance_that_ended_is_open_no_more() -> None:
    rebalance = Rebalance(Moment(AT))
    assert State(rebalance=rebalance).open_rebalance == rebalance
    assert State(rebalance=replace(rebalance, ended=True)).open_rebalance is None
    assert State().open_rebalance is None


@pytest.mark.parametrize(
    "began", [Standing(), Standing("consumer", 4)], ids=["nothing before", "converted"]
)
def test_the_state_goes_through_json_whole(began: Standing) -> None:
    member = Member(
        "x", "c", "/h", ["t"], has=None, to_have={"T": [1]}, by_id=True, epoch=0, state=0
    )
    now = Standing("classic", 5, members={"m": member})
    moment = Moment(LATER, None, 7, 1, 2)
    rebalance = Rebalance(
        moment, began, passed={"n": member}, given_up={"n": {"t": [0]}}, skipped_generations=0
    )
    gone = Gone(moment, began, True, rebalance)
    state = State(7, 9, LATER, True, AT, now=now, began=began, rebalance=rebalance, gone=gone)
    at_rest = replace(state, began=now)
    for each in (state, at_rest, State()):
        assert from_json(json.loads(json.dumps(to_json(each)))) == each
    assert from_json(None) == State()
    assert to_json(at_rest)["began"] == "now", "a group at rest is kept once"
