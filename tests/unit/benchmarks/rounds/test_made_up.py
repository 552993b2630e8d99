"""Clusters that are made up, and the rows of bronze that come of them."""

from datetime import timedelta
from itertools import pairwise

from benchmarks.rounds.made_up import MadeUpCluster, MadeUpPoller
from metadata_source.columns.polls import POLLS


def test_a_broker_that_goes_is_out_of_its_share() -> None:
    cluster = MadeUpCluster("c", topics=3, partitions=6, brokers=6)
    cluster.stop(2)
    now = cluster.metadata()
    partitions = now.partitions.to_pylist()
    assert 2 not in now.brokers["broker_id"].to_pylist()
    assert sum(2 in row["replicas"] for row in partitions) == 9
    for row in partitions:
        assert row["isr"] == [broker for broker in row["replicas"] if broker != 2]
        assert row["offline_replicas"] == [broker for broker in row["replicas"] if broker == 2]
        assert row["leader"] == row["isr"][0]
        assert row["leader_epoch"] == (row["replicas"][0] == 2)
    cluster.start(2)
    assert all(
        row["leader"] == row["replicas"][0] for row in cluster.metadata().partitions.to_pylist()
    )
    assert cluster.leader_epoch.sum() == 6


def test_so_many_changes_are_made() -> None:
    cluster = MadeUpCluster("c", topics=2, partitions=20, brokers=5)
    before = cluster.metadata().partitions.to_pylist()
    cluster.change(10)
    after = cluster.metadata().partitions.to_pylist()
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 10
    assert (
        sum(one["leader"] != other["leader"] for one, other in zip(before, after, strict=True)) == 5
    )


def test_rows_are_as_the_recorder_makes_them() -> None:
    poller = MadeUpPoller([MadeUpCluster("c", 4, 3, 5)], timedelta(seconds=2), polls=3)
    first = poller.batch()
    second = poller.batch(lambda cluster, place: cluster.change(2) if place == 1 else None)
    assert first.schema == POLLS
    told = [(row["n"], row["record"]) for row in second.to_pylist()]
    assert [row["n"] for row in first.to_pylist() if row["record"] == "topic"] == [0] * 4
    assert [record for n, record in told if n == 3] == ["poll"]
    assert [record for n, record in told if n == 4] == ["topic"] * 2 + ["poll"]
    assert [record for n, record in told if n == 5] == ["poll"]
    scheduled = [row["scheduled_at"] for row in second.to_pylist() if row["record"] == "poll"]
    assert {later - earlier for earlier, later in pairwise(scheduled)} == {poller.interval}
    polls = [
        row for _ in range(50) for row in poller.batch().to_pylist() if row["record"] == "poll"
    ]
    assert [row["n"] for row in polls if row["is_key_frame"]] == [150], (
        "five minutes after the first one"
    )


def test_a_topic_that_is_made_again_has_another_id_and_begins_again() -> None:
    cluster = MadeUpCluster("made-up", topics=3, partitions=2, brokers=4)
    before = cluster.metadata()
    cluster.change(4)
    cluster.delete(1)
    without = cluster.metadata()
    assert without.topics["topic"].to_pylist() == ["topic-00000", "topic-00002"]
    assert [str(topic) for topic in without.partitions["topic"]] == ["topic-00000"] * 2 + [
        "topic-00002"
    ] * 2
    cluster.stop(1)
    cluster.make_again(1)
    again = cluster.metadata()
    assert again.topics["topic"].to_pylist() == before.topics["topic"].to_pylist()
    same = [
        a == b for a, b in zip(again.topics["topic_id"], before.topics["topic_id"], strict=True)
    ]
    assert same == [True, False, True]
    rows = [row for row in again.partitions.to_pylist() if row["topic"] == "topic-00001"]
    assert [row["leader_epoch"] for row in rows] == [0, 0]
    assert all(1 not in row["isr"] and row["leader"] in row["isr"] for row in rows)
