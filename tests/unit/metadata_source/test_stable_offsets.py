"""Which last stable offsets stand still."""

from metadata_source.stable_offsets import StableOffsets

A, B = ("a", 0), ("b", 0)


def test_a_partition_stands_still_once_two_answers_tell_the_same_offset_below_the_end():
    stable = StableOffsets()
    for told, standing, is_known in (
        ({A: 5, B: 7}, {}, False),
        ({A: 5, B: 8}, {A: 5}, True),
        ({}, {A: 5}, True),  # nothing was told of it
        ({A: 6, B: 8}, {B: 8}, True),
        ({A: 6, B: None}, {A: 6}, True),
        ({B: 8}, {A: 6}, True),  # it was the end in between
    ):
        stable.take(told)
        assert (stable.standing, stable.is_known) == (standing, is_known), told


def test_a_partition_that_is_forgotten_has_to_stand_still_again():
    stable = StableOffsets()
    for standing in ({}, {A: 5}):
        stable.take({A: 5})
        assert stable.standing == standing
    stable.forget([A, B])
    for standing in ({}, {A: 5}):
        stable.take({A: 5})
        assert stable.standing == standing
