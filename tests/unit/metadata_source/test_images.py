"""Which of two answers is older, and how far it is behind."""

from dataclasses import replace

import pyarrow as pa
import pytest

from metadata_source.images import Age, Difference, Image, difference
from metadata_source.protocol.metadata import ClusterMetadata
from tests.support.byte_cluster import made as made_of

PLACES = [(f"broker-{n}", 9092) for n in range(3)]


def made(
    listed: tuple[int, ...] = (0, 1, 2), **topics: list[tuple[int, tuple[int, ...]]]
) -> ClusterMetadata:
    return made_of(PLACES, listed, **topics)


BEFORE = made(orders=[(5, (0, 1, 2)), (3, (1, 2))], audit=[(0, (2,))])
OPPOSITE = {Age.OLDER: Age.NEWER, Age.NEWER: Age.OLDER}


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (BEFORE, Difference(Age.SAME, 0, 0)),
        (made(orders=[(7, (1, 2)), (4, (2,))], audit=[(0, (2,))]), Difference(Age.OLDER, 2, 3)),
        # Leaders moved back and forth: no image of one cluster is older than another and newer too.
        (made(orders=[(6, (1, 2)), (2, (1, 2))], audit=[(0, (2,))]), Difference(Age.UNCLEAR, 2, 1)),
        (made(orders=[(5, (0, 1)), (3, (1, 2))], audit=[(0, (2,))]), Difference(Age.UNCLEAR, 1, 0)),
        # Broker 0, which gives the first answer, is fenced by the second.
        (
            made((1, 2), orders=[(5, (0, 1, 2)), (3, (1, 2))], audit=[(0, (2,))]),
            Difference(Age.OLDER, 0, 0),
        ),
        (
            made((0, 1), orders=[(5, (0, 1, 2)), (3, (1, 2))], audit=[(0, (2,))]),
            Difference(Age.UNCLEAR, 0, 0),
        ),
        (made(orders=[(5, (0, 1, 2)), (3, (1, 2))]), Difference(Age.UNCLEAR, 1, 0)),
        (made(orders=[(5, (0, 1, 2))] * 3, audit=[(0, (2,))]), Difference(Age.OLDER, 2, 2)),
    ],
    ids=["same", "moved", "both", "shrunk", "fenced", "another gone", "topic", "grown"],
)
def test_leader_epochs_tell_and_then_the_list_of_brokers(
    after: ClusterMetadata, found: Difference
) -> None:
    assert difference(BEFORE, 0, after, 1) == found
    assert difference(after, 1, BEFORE, 0) == replace(found, age=OPPOSITE.get(found.age, found.age))


def test_a_topic_that_was_made_again_tells_no_age() -> None:
    again = made(orders=[(0, (0, 1, 2)), (0, (1, 2))], audit=[(0, (2,))])
    ids = pa.array(["another", again.topics["topic_id"][1].as_py()])
    again = replace(again, topics=again.topics.set_column(1, "topic_id", ids))
    assert difference(BEFORE, 0, again, 1) == Difference(Age.UNCLEAR, 4, 0)


def without_ids(topics: pa.Table) -> pa.Table:
    return topics.set_column(1, "topic_id", pa.nulls(len(topics), pa.string()))


def test_a_version_that_tells_no_ids_is_compared_by_names() -> None:
    without = replace(BEFORE, topics=without_ids(BEFORE.topics))
    moved = made(orders=[(6, (0, 1, 2)), (3, (1, 2))], audit=[(0, (2,))])
    assert difference(without, 0, moved, 1).age is Age.OLDER


def test_without_ids_a_fenced_broker_may_show_the_higher_epochs_of_a_topic_made_again() -> None:
    again = made((1, 2), orders=[(0, (0, 1, 2)), (0, (1, 2))], audit=[(0, (2,))])
    assert difference(BEFORE, 0, again, 1).age is Age.NEWER, "the same ids: epochs never fall"
    before, again = (replace(each, topics=without_ids(each.topics)) for each in (BEFORE, again))
    assert difference(before, 0, again, 1).age is Age.UNCLEAR
    assert difference(again, 1, before, 0).age is Age.UNCLEAR
    moved = made((1, 2), orders=[(6, (1, 2)), (3, (1, 2))], audit=[(0, (2,))])
    assert (
        difference(before, 0, replace(moved, topics=without_ids(moved.topics)), 1).age is Age.OLDER
    )


def test_epochs_that_are_not_told_tell_nothing() -> None:
    column = BEFORE.partitions.schema.get_field_index("leader_epoch")
    nulls = BEFORE.partitions.set_column(column, "leader_epoch", pa.nulls(3, pa.int32()))
    assert difference(replace(BEFORE, partitions=nulls), 0, BEFORE, 1).age is Age.UNCLEAR


def test_news_are_topics_that_differ_and_brokers() -> None:
    image = Image.of(BEFORE)
    assert Image.of(BEFORE).news(image) is None
    other = made(orders=[(5, (0, 1, 2)), (3, (1,))], clicks=[(0, (1,))])
    assert sorted(Image.of(other).news(image) or ()) == ["audit", "clicks", "orders"]
    assert Image.of(replace(BEFORE, brokers=made((0, 1)).brokers)).news(image) == []
    turned = BEFORE.brokers.take(pa.array([2, 0, 1]))
    assert Image.of(replace(BEFORE, brokers=turned)).news(image) is None, "in any order"
