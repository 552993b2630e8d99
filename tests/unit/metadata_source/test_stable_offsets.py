"""Which last stable offsets stand still."""

import pyarrow as pa

from metadata_source.stable_offsets import StableOffsets

A, B = ("a", 0), ("b", 0)
PARTITIONS = pa.table({"topic": ["a", "b"], "partition": [0, 0], "leader": [1, 1]})


def test_a_partition_stands_still_once_two_answers_tell_the_same_offset_below_the_end():
    stable = StableOffsets()
    for told, standing in (
        ({A: 5, B: 7}, {}),
        ({A: 5, B: 8}, {A: 5}),
        ({}, {A: 5}),  # nothing was told of it
        ({A: 6, B: 8}, {B: 8}),
        ({A: 6, B: None}, {A: 6}),
        ({B: 8}, {A: 6}),  # it was the end in between
    ):
        stable.add(told)
        assert stable.standing == standing, told


def test_it_is_known_which_stand_still_once_all_partitions_had_two_rounds():
    stable = StableOffsets()
    for told, standing, is_known in (
        ({A: 5}, {}, False),
        ({B: 7}, {}, False),
        ({A: 5}, {A: 5}, False),
        ({B: 8}, {A: 5}, True),
        ({A: None}, {}, True),
    ):
        part = stable.next_of(PARTITIONS, 1)
        assert part.partitions["topic"].to_pylist() == [name for name, _ in told]
        stable.add_next(part, told, {})
        assert (stable.standing, stable.is_known) == (standing, is_known), told


def test_the_answer_of_a_round_and_one_to_offsets_just_before_are_no_two_answers():
    stable = StableOffsets()
    for standing in ({}, {A: 5}, {A: 5}):
        stable.add_next(stable.next_of(PARTITIONS, 2), {A: 5}, {})
        assert stable.standing == standing
        stable.add({A: 5})
        assert stable.standing == standing
    stable.add({A: 6})
    assert stable.standing == {}


def test_a_round_begins_again_where_partitions_became_fewer():
    stable = StableOffsets()
    stable.add_next(stable.next_of(PARTITIONS, 1), {}, {})
    assert len(stable.next_of(PARTITIONS[:1], 1).partitions) == 1
    stable.add_next(stable.next_of(PARTITIONS[:1], 1), {}, {})
    assert stable.is_known is False


def test_a_round_has_each_partition_though_others_are_deleted_and_brokers_differ_in_order():
    stable, asked = StableOffsets(), []
    names = ["e", "b", "d", "a", "c"]
    for step in range(3):
        left = names[::-1] if step % 2 else names[:]
        partitions = pa.table({"topic": left, "partition": [0] * len(left)})
        part = stable.next_of(partitions, 2)
        found = part.partitions["topic"].to_pylist()
        stable.add_next(part, {(name, 0): 5 for name in found}, {})
        asked += found
        names = [name for name in names if name not in {"a", "b"}]
    assert asked == ["a", "b", "c", "d", "e"]
    assert not stable.is_known
    assert stable.next_of(partitions, 9).partitions["topic"].to_pylist() == ["c", "d", "e"]


def test_of_what_something_is_kept():
    stable = StableOffsets()
    stable.add({A: 5})
    stable.add_next(stable.next_of(PARTITIONS, 2), {B: 5}, {})
    assert stable.partitions == {A, B}
    stable.forget([A, B])
    assert stable.partitions == set()


def test_what_nobody_answered_for_is_unknown_until_two_answers_say_it():
    stable = StableOffsets()
    stable.add_next(stable.next_of(PARTITIONS, 2), {}, {A: "why", B: "why"})
    stable.add({A: 5})
    assert stable.unanswered == {A: "why", B: "why"}
    stable.add({A: 5})
    assert (stable.standing, stable.unanswered) == ({A: 5}, {B: "why"})
    stable.forget([B])
    assert stable.unanswered == {}


def test_a_partition_that_is_forgotten_has_to_stand_still_again():
    stable = StableOffsets()
    for standing in ({}, {A: 5}):
        stable.add({A: 5})
        assert stable.standing == standing
    stable.forget([A, B])
    for standing in ({}, {A: 5}):
        stable.add({A: 5})
        assert stable.standing == standing


def test_what_nobody_answered_for_is_asked_about_again_and_waits_for_no_round():
    stable, asked = StableOffsets(), []
    partitions = pa.table({"topic": [*"abcdefgh"], "partition": [0] * 8, "leader": [1] * 8})
    for _ in range(4):
        part = stable.next_of(partitions, 2)
        names = part.partitions["topic"].to_pylist()
        asked.append("".join(names))
        is_first = len(asked) == 1
        answered = {(name, 0): 5 for name in names if not is_first}
        stable.add_next(part, answered, {A: "why", B: "why"} if is_first else {})
    assert [asked[0], *("".join(sorted(each)) for each in asked[1:])] == [
        "ab",
        "abcd",
        "abef",
        "gh",
    ]
    assert (stable.unanswered, stable.standing) == ({}, {A: 5, B: 5})
    assert not stable.is_known, "one round is over"


def test_of_many_that_nobody_answers_for_some_are_asked_about_again():
    stable = StableOffsets()
    stable.add_next(stable.next_of(PARTITIONS, 2), {}, {A: "why", B: "why"})
    part = stable.next_of(PARTITIONS[1:], 1)
    assert part.partitions["topic"].to_pylist() == ["b"], "a is gone"
    assert part.last is None
