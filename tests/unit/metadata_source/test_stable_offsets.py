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
        stable.take(told)
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
        (topic,) = stable.next_of(PARTITIONS, 1)["topic"].to_pylist()
        assert {topic} == {name for name, _ in told}
        stable.take_next(PARTITIONS, 1, told, {})
        assert (stable.standing, stable.is_known) == (standing, is_known), told


def test_the_answer_of_a_round_and_one_to_offsets_just_before_are_no_two_answers():
    stable = StableOffsets()
    for standing in ({}, {A: 5}, {A: 5}):
        stable.take_next(PARTITIONS, 2, {A: 5}, {})
        assert stable.standing == standing
        stable.take({A: 5})
        assert stable.standing == standing
    stable.take({A: 6})
    assert stable.standing == {}


def test_a_round_begins_again_where_partitions_became_fewer():
    stable = StableOffsets()
    stable.take_next(PARTITIONS, 1, {}, {})
    assert stable.next_of(PARTITIONS[:1], 1).num_rows == 1
    stable.take_next(PARTITIONS[:1], 1, {}, {})
    assert stable.is_known is False


def test_a_round_has_each_partition_though_others_are_deleted_and_brokers_differ_in_order():
    stable, asked = StableOffsets(), []
    names = ["e", "b", "d", "a", "c"]
    for step in range(3):
        left = names[::-1] if step % 2 else names[:]
        partitions = pa.table({"topic": left, "partition": [0] * len(left)})
        found = stable.next_of(partitions, 2)["topic"].to_pylist()
        stable.take_next(partitions, 2, {(name, 0): 5 for name in found}, {})
        asked += found
        names = [name for name in names if name not in {"a", "b"}]
    assert asked == ["a", "b", "c", "d", "e"]
    assert not stable.is_known
    assert stable.next_of(partitions, 9)["topic"].to_pylist() == ["c", "d", "e"]


def test_of_what_something_is_kept():
    stable = StableOffsets()
    stable.take({A: 5})
    stable.take_next(PARTITIONS, 2, {B: 5}, {})
    assert stable.partitions == {A, B}
    stable.forget([A, B])
    assert stable.partitions == set()


def test_what_could_not_be_told_is_unknown_until_two_answers_tell_it():
    stable = StableOffsets()
    stable.take_next(PARTITIONS, 2, {}, {A: "why", B: "why"})
    stable.take({A: 5})
    assert stable.untold == {A: "why", B: "why"}
    stable.take({A: 5})
    assert (stable.standing, stable.untold) == ({A: 5}, {B: "why"})
    stable.forget([B])
    assert stable.untold == {}


def test_a_partition_that_is_forgotten_has_to_stand_still_again():
    stable = StableOffsets()
    for standing in ({}, {A: 5}):
        stable.take({A: 5})
        assert stable.standing == standing
    stable.forget([A, B])
    for standing in ({}, {A: 5}):
        stable.take({A: 5})
        assert stable.standing == standing
