"""How two moments of a group differ: why it rebalanced, who came and went, what moved."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.compare import changes, moves, reasons, skew, tells_subscriptions
from jobs.rules.groups.state import Member, Moment, Rebalance, Standing
from schemas.groups import REASONS
from tests.support.examples import examples
from truth.model import groups as truth

AT = Moment(datetime(2026, 1, 1, tzinfo=UTC))


def member(*numbers: int, topics: tuple[str, ...] = ("t",), **more: Any) -> Member:
    """A member that has these partitions of t."""
    return Member(topics=list(topics), has={"t": list(numbers)} if numbers else {}, **more)


def group(type_: str = "classic", *, has: Any = None, **members: Member) -> Standing:
    return Standing(type_, 1, members=members, **(has or {}))


def why(before: Standing, after: Standing, **of_rebalance: Any) -> list[str]:
    rebalance = Rebalance(AT, before, **of_rebalance)
    went = changes(before.members, after.members)
    return reasons(rebalance, before, after, went, moves(before.members, after.members))


A, B, X = member(0, 1), member(2), member(3, instance_id="x")
GREW, SHRANK = member(0, 1, 2), member(0)
UNTOLD = replace(A, topics=None)
PATTERN = replace(A, topics=[], pattern="t.*")
HASH, OTHER_HASH = {"metadata_hash": 1}, {"metadata_hash": 2}


def consumer(has: Any = None, /, **members: Member) -> Standing:
    return group("consumer", has=has, **members)


def streams(topology_epoch: int | None) -> Standing:
    a = member(0, 1, topology_epoch=topology_epoch)
    return group("streams", a=replace(a, topics=None))


def matched(*topics: str, a: Member = PATTERN) -> Standing:
    return consumer(HASH | {"patterns": {"t.*": ",".join(topics)}}, a=a)


def written(metadata: str | None, a: Member = A) -> Standing:
    """A group of a Kafka that keeps no hash of what is known of topics."""
    return consumer({"partition_metadata": metadata}, a=a)


def shown(value: object) -> str | None:
    """A group in the name of a case: its type, its members."""
    if isinstance(value, Standing):
        return " ".join([value.group_type or "", *value.members])
    return None


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (group(), group(a=A), "member_joined"),
        (group(a=A), group(a=A, b=B), "member_joined"),
        (group(a=A), group(a=A, x=X), "member_joined"),
        (group(a=A, b=B), group(a=A), "member_left"),
        (group(a=A, x=X), group(a=A), "static_member_left"),
        (group(a=A, b=B, x=X), group(a=A), "member_left static_member_left"),
        (group(a=A), group(a=member(0, 1, topics=("t", "u"))), "subscription_changed"),
        (group(x=X), group(x2=replace(X, topics=["u"])), "subscription_changed"),
        (consumer(a=PATTERN), consumer(a=replace(PATTERN, pattern="u")), "subscription_changed"),
        (consumer(a=A), consumer(a=replace(A, pattern="u")), "subscription_changed"),
        (streams(1), streams(2), "subscription_changed"),
        (streams(None), streams(2), "same_members"),
        (group(a=UNTOLD), group(a=A), "same_members"),
        # What members of a classic group have tells of its partitions, if they want what they did.
        (group(a=A), group(a=GREW), "partitions_changed"),
        (group(a=A), group(a=SHRANK), "partitions_changed"),
        (group(a=A, b=B), group(a=member(0), b=member(1, 2)), "same_members"),
        (group(x=X), group(x2=member(3, 4, instance_id="x")), "partitions_changed"),
        (group(a=A), group(a=replace(GREW, topics=["t", "u"])), "subscription_changed"),
        (group(a=UNTOLD), group(a=GREW), "same_members"),
        (group(a=A), group(a=replace(GREW, topics=None)), "same_members"),
        (group(a=replace(A, has=None)), group(a=A), "same_members"),
        (group(a=A), group(a=replace(A, has=None)), "same_members"),
        # The coordinator of a group with epochs keeps a hash of what it knows of its topics.
        (consumer(HASH, a=A), consumer(OTHER_HASH, a=GREW), "partitions_changed"),
        (consumer(HASH, a=A), consumer(OTHER_HASH, a=SHRANK), "partitions_changed"),
        (consumer(HASH, a=A), consumer(OTHER_HASH, a=A), "metadata_changed"),
        (consumer(HASH, a=A), consumer(HASH, a=GREW), "same_members"),
        (consumer(a=A), consumer(HASH, a=GREW), "same_members"),
        (
            consumer(HASH, a=A),
            consumer(OTHER_HASH, a=A, b=replace(B, topics=["u"])),
            "member_joined",
        ),
        (consumer(HASH, a=A), consumer(OTHER_HASH, a=A, b=B), "member_joined partitions_changed"),
        # Kafka 3.7 to 4.0 writes it where it changed.
        (written("4"), written("6", GREW), "partitions_changed"),
        (written("4"), written("6"), "metadata_changed"),
        (written(None), written("4"), "metadata_changed"),
        (written("4"), written("4", GREW), "same_members"),
        (written("4"), written(None), "same_members"),
        (
            consumer(HASH | {"partition_metadata": "4"}, a=A),
            consumer(HASH | {"partition_metadata": "6"}, a=A),
            "same_members",
        ),
        # A pattern matches other topics than before.
        (matched("t"), matched("t", "t2"), "metadata_changed"),
        (matched("t"), matched("t", "t2", a=replace(GREW, pattern="t.*", topics=[])),
         "partitions_changed"),
        (matched("t"), matched("t"), "same_members"),
        (matched("t"), matched("t", "t2", a=replace(PATTERN, pattern="u")), "subscription_changed"),
        (matched("t", a=A), matched("t", "t2", a=A), "same_members"),
        (group(has={"assignor": "range"}, a=A), group(has={"assignor": "sticky"}, a=A),
         "assignor_changed"),
        (group(a=A), group(has={"assignor": "range"}, a=A), "same_members"),
        (group(a=A), group(), "member_left group_emptied"),
        (group(), group(), "group_emptied"),
        (group(a=A), group(a=A), "same_members"),
    ],
    ids=shown,
)  # fmt: skip
def test_why_a_group_rebalanced(before: Standing, after: Standing, reason: str) -> None:
    assert why(before, after) == reason.split()
    assert {*reason.split()} <= {*REASONS}


@pytest.mark.parametrize(
    ("before", "after", "of_rebalance", "reason"),
    [
        # Members that came and went meanwhile.
        (group(a=A), group(a=A), {"passed": {"b": B}}, "member_joined member_left"),
        (group(a=A), group(a=A), {"passed": {"x": X}}, "member_joined static_member_left"),
        # What is given up is not lost.
        (group(a=A), group(a=SHRANK), {"given_up": {"a": {"t": [1]}}}, "same_members"),
        (group(a=A), group(a=SHRANK), {"given_up": {"a": {"t": [7]}}}, "partitions_changed"),
        # Each protocol keeps what it knows of topics in another way.
        (group(a=A), consumer(OTHER_HASH, a=GREW), {"prev_group_type": "classic"}, "converted"),
        (
            group(a=A),
            consumer({"partition_metadata": "4"}, a=A),
            {"prev_group_type": "classic"},
            "converted",
        ),
        (consumer(a=A), group(a=GREW), {"prev_group_type": "consumer"}, "converted"),
    ],
)
def test_why_a_group_rebalanced_in_which_more_happened(
    before: Standing, after: Standing, of_rebalance: dict[str, Any], reason: str
) -> None:
    assert why(before, after, **of_rebalance) == reason.split()


def test_reasons_are_several_and_in_order() -> None:
    before = group(has={"assignor": "range"}, a=A, x=X, c=B)
    after = group(has={"assignor": "sticky"}, b=A, c=replace(B, topics=["u"]))
    found = why(before, after, prev_group_type="consumer")
    assert found == [
        "member_joined",
        "member_left",
        "static_member_left",
        "subscription_changed",
        "assignor_changed",
        "converted",
    ]


@pytest.mark.parametrize(
    ("before", "after", "went"),
    [
        ({"a": A}, {"a": GREW}, [("stayed", "a", "a")]),
        ({"a": A}, {"b": A}, [("left", "a", None), ("joined", None, "b")]),
        ({"x1": X}, {"x2": X}, [("restarted", "x1", "x2")]),
        ({"x1": X}, {"x1": replace(X, instance_id="y")},
         [("left", "x1", None), ("joined", None, "x1")]),
        # An instance id that is another member's id.
        ({"x": A}, {"x": A, "b": X}, [("stayed", "x", "x"), ("joined", None, "b")]),
    ],
)  # fmt: skip
def test_a_member_is_known_by_its_instance_id_else_by_its_member_id(
    before: dict[str, Member], after: dict[str, Member], went: list[tuple[Any, ...]]
) -> None:
    found = [(each.name, each.prev_member_id, each.member_id) for each in changes(before, after)]
    assert sorted(found, key=repr) == sorted(went, key=repr)


UNKNOWN = (None, None, None, None, None)
BY_ID = Member(has={"T": [0]}, by_id=True)


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        # kept, moved, added, lost, stickiness
        ({"a": A}, {"a": A}, (2, 0, 0, 0, 1.0)),
        ({"a": A}, {"a": SHRANK, "b": member(1, 2, 3)}, (1, 1, 2, 0, 0.5)),
        ({"a": A, "b": B}, {"a": A}, (2, 0, 0, 1, 2 / 3)),
        ({"x1": X}, {"x2": X}, (1, 0, 0, 0, 1.0)),
        ({}, {"a": A}, (0, 0, 2, 0, None)),
        ({"a": A}, {}, (0, 0, 0, 2, 0.0)),
        # A partition of a share group has several owners.
        ({"a": A}, {"a": A, "b": A}, (2, 0, 0, 0, 1.0)),
        ({"a": A, "b": A}, {"b": SHRANK}, (1, 0, 0, 1, 0.5)),
        ({"a": A, "b": A}, {"c": A}, (0, 2, 0, 0, 0.0)),
        # What somebody has is not known.
        ({"a": replace(A, has=None)}, {"a": A}, UNKNOWN),
        ({"a": A}, {"a": A, "b": replace(A, has=None)}, UNKNOWN),
        # In a conversion one side names topics, the other their ids.
        ({"a": A}, {"a": BY_ID}, UNKNOWN),
        ({"a": member()}, {"a": BY_ID}, (0, 0, 1, 0, None)),
        ({"a": BY_ID}, {"a": BY_ID}, (1, 0, 0, 0, 1.0)),
    ],
)
def test_how_partitions_moved(
    before: dict[str, Member], after: dict[str, Member], moved: tuple[Any, ...]
) -> None:
    assert tuple(moves(before, after).values()) == moved


@pytest.mark.parametrize(
    ("of", "tells"),
    [
        (group(a=A), True),
        (group(a=A, b=UNTOLD), False),
        (consumer(a=replace(UNTOLD, pattern="t.*")), True),
        (streams(1), True),
    ],
)
def test_whether_each_subscription_is_known(of: Standing, tells: bool) -> None:
    assert tells_subscriptions(of) is tells


@pytest.mark.parametrize(
    ("members", "skewed"),
    [
        ({"a": GREW, "b": B}, 2),
        ({"a": A}, 0),
        ({"a": A, "b": member()}, 2),
        ({}, None),
        ({"a": A, "b": replace(B, has=None)}, None),
        ({"a": member(0, 1), "b": member(0, 1)}, 0),
    ],
)
def test_the_skew_of_an_assignment(members: dict[str, Member], skewed: int | None) -> None:
    assert skew(members) == skewed


@given(st.dictionaries(st.text(), st.dictionaries(st.sampled_from("tu"), st.sets(st.integers()))))
@settings(max_examples=examples(50))
def test_the_skew_is_that_of_the_plain_rule(members: dict[str, dict[str, set[int]]]) -> None:
    of_rules = {
        name: Member(has={topic: sorted(numbers) for topic, numbers in has.items()})
        for name, has in members.items()
    }
    owned = {
        name: [(topic, number) for topic, numbers in has.items() for number in numbers]
        for name, has in members.items()
    }
    assert skew(of_rules) == truth.skew(owned)
