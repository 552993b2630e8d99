"""What differs between two times, and between the settings of two clusters, in DuckDB."""

from typing import Any

import pytest

from kafka_metadata_history.answers.asof.diff import (
    Difference,
    Row,
    as_rows,
    between_clusters,
    between_times,
    differences,
    folded,
    hidden,
    narrowed,
)
from kafka_metadata_history.answers.asof.read import AsOf, reaches
from kafka_metadata_history.answers.questions import Ask
from schemas import groups, silver
from schemas.table import Table
from tests.support.asof_lakes import KNOWN, OTHER, asking, lasting, twice
from tests.support.incident import at

Told = list[tuple[str, str, str | None, str | None]]


def told(found: list[Difference]) -> Told:
    return [(each.what, each.name, each.before, each.after) for each in found]


def states(ask: Ask, begin: float, end: float | None) -> tuple[AsOf, AsOf]:
    known = reaches(ask, None)
    return AsOf.of(ask, known, at(begin), "T1"), AsOf.of(ask, known, at(end), "T2")


def between(ask: Ask, begin: float, end: float | None) -> Told:
    before, after = states(ask, begin, end)
    rows, _ = between_times(before, after)
    return told(differences(rows, hidden(before), hidden(after)))


def test_the_incident_at_its_worst_and_afterwards() -> None:
    with asking({}) as of:
        assert between(of, 5, 25) == [
            ("broker gone", "2", "listed", None),
            ("broker gone", "3", "listed", None),
            ("rack gone", "b", "b", None),
            ("leads", "1", "1", "3"),
            ("leads", "2", "3", "0"),
            ("leads", "3", "1", "0"),
        ]
        afterwards = between(of, 5, None)
        assert between(of, 25, 25) == []
    assert afterwards == [
        ("feature", "group.version", "1", None),
        ("feature", "metadata.version", "25", "27"),
        ("setting follower.replication.throttled.rate", "broker 3", None, "1000"),
        ("setting interval.ms", "client metrics apps", None, "(not kept, set 2026-11-01 12:01:06)"),
        ("setting retention.ms", "orders", "604800000", "86400000"),
        ("group made", "fresh", None, None),
    ]


def changed(table: Table, before: dict[str, Any], after: dict[str, Any]) -> dict[Table, Any]:
    """A thing that is one way until 10 s after noon, and another way from then on."""
    return {table: [lasting(0, 10, **before), lasting(10, **before | after)]}


TWO = {"replicas": [1, 2]}
OF_NEW = {"topic": "new", "partition": 0}
PARTITION = {**OF_NEW, "error_code": 0, "leader": 1, "isr": [1]}
GROUP = {"group_id": "g", "group_type": "classic", "state": "Stable", "assignor": "range"}
CASES: dict[str, tuple[dict[Table, Any], Told]] = {
    "rack": (
        changed(silver.BROKER_SNAPSHOTS, {"broker_id": 9, "rack": "a"}, {"rack": "b"}),
        [("broker rack", "9", "a", "b")],
    ),
    "address": (
        changed(silver.BROKER_SNAPSHOTS, {"broker_id": 9, "host": "x", "port": 1}, {"port": 2}),
        [("broker address", "9", "x:1", "x:2")],
    ),
    "partitions": (
        changed(
            silver.TOPIC_SNAPSHOTS, {"topic": "t", "partition_count": 3}, {"partition_count": 6}
        ),
        [("topic partitions", "t", "3", "6")],
    ),
    "recreated": (
        changed(silver.TOPIC_SNAPSHOTS, {"topic": "t", "topic_id": "x"}, {"topic_id": "y"}),
        [("topic recreated", "t", "x", "y")],
    ),
    "an id that was not known": (
        changed(silver.TOPIC_SNAPSHOTS, {"topic": "t", "topic_id": None}, {"topic_id": "y"}),
        [],
    ),
    "moved": (
        changed(silver.PARTITION_SNAPSHOTS, PARTITION | TWO, {"replicas": [1, 3]}),
        [("replicas moved", "new-0", "[1, 2]", "[1, 3]")],
    ),
    "order": (
        changed(silver.PARTITION_SNAPSHOTS, PARTITION | TWO, {"replicas": [2, 1]}),
        [("replica order", "new-0", "[1, 2]", "[2, 1]")],
    ),
    "factor": (
        changed(silver.PARTITION_SNAPSHOTS, PARTITION | TWO, {"replicas": [1]}),
        [("replication factor", "new-0", "[1, 2]", "[1]")],
    ),
    "moves still": (
        {
            **changed(silver.PARTITION_SNAPSHOTS, PARTITION | TWO, {"replicas": [1, 2, 3]}),
            silver.REASSIGNMENTS: [
                lasting(10, **OF_NEW, adding_replicas=[3], removing_replicas=[2])
            ],
        },
        [("replicas moved", "new-0", "[1, 2]", "[1, 3]")],
    ),
    "leader alone": (
        changed(silver.PARTITION_SNAPSHOTS, PARTITION | TWO, {"leader_epoch": 2}),
        [],
    ),
    "controller": (
        changed(silver.QUORUM, {"controller_id": 1, "voters": [1, 2]}, {"controller_id": 2}),
        [("quorum active controller", "", "1", "2")],
    ),
    "assignor": (
        changed(silver.GROUP_SNAPSHOTS, GROUP, {"assignor": "sticky"}),
        [("group assignor", "g", "range", "sticky")],
    ),
    "type": (
        changed(silver.GROUP_SNAPSHOTS, GROUP, {"group_type": "consumer"}),
        [("group type", "g", "classic", "consumer")],
    ),
    "setting": (
        changed(
            silver.TOPIC_CONFIGS,
            {"topic": "t", "min_insync_replicas": 1},
            {"min_insync_replicas": 2},
        ),
        [("setting min.insync.replicas", "t", "1", "2")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_difference(case: str) -> None:
    rows, expected = CASES[case]
    with asking(rows) as of:
        assert [each for each in between(of, 5, 12) if each[1] in {"", "9", "t", "new-0", "g"}] == (
            expected
        )


def test_of_a_topic_that_was_made_or_is_gone_nothing_else_is_told() -> None:
    topic = {"topic": "t", "topic_id": "x", "partition_count": 1}
    gone = {
        silver.TOPIC_SNAPSHOTS: [lasting(0, 8, **topic, end_reason="gone")],
        silver.PARTITION_SNAPSHOTS: [lasting(0, 8, **PARTITION | {"topic": "t"}, replicas=[1])],
        silver.TOPIC_CONFIGS: [lasting(0, 8, topic="t", min_insync_replicas=2)],
    }
    hiding = {silver.TOPIC_SNAPSHOTS: [lasting(0, 8, **topic, end_reason="unauthorized")]}
    with asking(gone) as of:
        assert [each for each in between(of, 5, 9) if each[1].startswith("t")] == [
            ("topic deleted", "t", None, None)
        ]
    with asking(hiding) as of:
        assert ("topic not shown", "t", None, None) in between(of, 5, 9)
    made = {silver.TOPIC_SNAPSHOTS: [lasting(7, **topic)]}
    with asking(made) as of:
        assert ("topic made", "t", None, None) in between(of, 5, 9)


def test_a_setting_that_nobody_could_read_at_one_time_is_not_compared() -> None:
    unread = {"topic": "t", "min_insync_replicas": None, "unclean_leader_election_enable": False}
    topic = [lasting(0, topic="t", topic_id="x")]
    read = changed(silver.TOPIC_CONFIGS, unread, {"min_insync_replicas": 2})
    with asking({silver.TOPIC_SNAPSHOTS: topic, **read}) as of:
        assert [each for each in between(of, 5, 12) if each[1] == "t"] == []


def test_a_source_that_begins_between_the_times_is_not_compared() -> None:
    late = {
        table: [row | {"valid_from": max(row["valid_from"], at(40))} for row in KNOWN[table]]
        for table in (silver.FEATURES, silver.BROKER_REGISTRATIONS, silver.TOPIC_CONFIGS)
    }
    none = dict.fromkeys((silver.GROUP_SNAPSHOTS, groups.GROUP_LIVES, groups.REBALANCES), ())
    with asking({}, {**late, **none}) as of:
        rows, lines = between_times(*states(of, 30, 60))
    assert {each.source for each in rows} <= {None}
    assert lines == [
        (
            "prod: not compared: min.insync.replicas, unclean.leader.election.enable (`enrich: "
            "configs`): known from 2026-11-01 12:00:40Z on"
        ),
        (
            "prod: not compared: other settings, features, incarnations (the controllers' log): "
            "known from 2026-11-01 12:00:40Z on"
        ),
        "prod: not compared: groups (`enrich: groups`, or the log of groups)",
    ]


def test_clusters_do_not_mix() -> None:
    with asking(twice()) as of:
        rows, _ = between_times(*states(of, 5, 25))
    found = differences(rows)
    assert [each.cluster for each in found] == ["prod"] * 6 + ["test"] * 6


def test_the_settings_of_two_clusters() -> None:
    other = twice()
    configs = [row | {"min_insync_replicas": 1} for row in other[silver.TOPIC_CONFIGS]]
    more = [
        lasting(0, resource_type=4, resource_name="", name="log.retention.ms", value="1") | OTHER,
        lasting(0, resource_type=4, resource_name="1", name="log.retention.ms", value="2") | OTHER,
    ]
    secret = {"resource_type": 4, "resource_name": "", "name": "ssl.key.password"}
    more += [lasting(1, **secret), lasting(2, **secret) | OTHER]
    alone = lasting(0, topic="alone", min_insync_replicas=7) | OTHER
    rows = {**other, silver.TOPIC_CONFIGS: [*configs, alone]}
    rows[silver.CONFIGS] = [*other[silver.CONFIGS], *more]
    rows[silver.TOPIC_SNAPSHOTS] = [
        *other[silver.TOPIC_SNAPSHOTS],
        lasting(0, topic="alone") | OTHER,
    ]
    with asking(rows) as of:
        first, second = (AsOf.of(of, reaches(of, each), at(20)) for each in ("prod", "test"))
        found, lines = between_clusters(first, second)
    assert told(differences(found)) == [
        ("setting log.retention.ms", "all brokers", None, "1"),
        ("setting min.insync.replicas", "orders", "2", "1"),
    ]
    assert lines == []


def test_settings_that_one_cluster_lacks_are_not_compared() -> None:
    other = twice()
    rows = {**other, silver.CONFIGS: (), silver.FEATURES: (), silver.BROKER_REGISTRATIONS: ()}
    with asking(rows) as of:
        first, second = (AsOf.of(of, reaches(of, each), None) for each in ("prod", "test"))
        found, lines = between_clusters(first, second)
    assert found == []
    assert lines == [
        (
            "not compared: other settings, features, incarnations (the controllers' log): test "
            "lacks them"
        )
    ]


def moved(partition: int, before: str, after: str, topic: str = "t") -> Row:
    return Row("prod", "topic", topic, str(partition), "replicas", None, before, after, True, True)


def test_few_differences_are_told_each_and_many_as_one() -> None:
    few = differences([moved(each, "[1]", "[2]") for each in range(5)])
    assert [each.count for each in folded(few)] == [1] * 5
    alike = differences(
        [
            *(moved(each, "[1]", "[2]", "__own") for each in range(9)),
            *(moved(each, "[1]", "[2]") for each in range(9)),
            *(moved(each, "[3]", "[4]") for each in range(9, 12)),
        ]
    )
    assert [(each.count, each.name, each.before) for each in folded(alike)] == [
        (18, "t-0", "[1]"),
        (3, "t-10", "[3]"),
    ]
    other = differences([moved(each, f"[{each}]", "[99]") for each in range(9)])
    assert [(each.count, each.name) for each in folded(other)] == [(9, "t-0")]
    assert as_rows(folded(other)).column_names[:4] == ["cluster", "what", "count", "name"]


def test_a_topic_a_broker_or_a_group_alone() -> None:
    with asking({}) as of:
        rows, _ = between_times(*states(of, 5, None))
        worst, _ = between_times(*states(of, 5, 25))
    assert {each.name for each in narrowed(rows, {"topic": "orders"})} == {"orders"}
    fresh = narrowed(rows, {"group": "fresh"})
    # One that it had set for itself, too.
    assert {each.kind for each in fresh} == {"group", "setting"}
    assert [each.what for each in differences(fresh)] == ["group made"]
    assert {(each.kind, each.name) for each in narrowed(worst, {"broker": 2})} == {
        ("broker", "2"),
        ("leads", "2"),
    }
