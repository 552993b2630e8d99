"""The state of clusters, topics, brokers and groups at a time, out of the known incident."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from kafka_metadata_history.answers.asof import show
from kafka_metadata_history.answers.asof.read import AsOf, reaches
from kafka_metadata_history.answers.questions import Ask
from schemas import bronze, silver
from tests.support.asof_lakes import KNOWN, OTHER, answered, asking, lasting, twice
from tests.support.incident import at

Row = dict[str, Any]


def time(seconds: float) -> datetime:
    found = at(seconds)
    assert found is not None
    return found


def state(ask: Ask, seconds: float | None = None) -> AsOf:
    return AsOf.of(ask, reaches(ask, None), at(seconds))


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking({}) as of:
        yield of


def clusters(ask: Ask, seconds: float | None = None) -> list[Row]:
    found: list[Row] = show.clusters(state(ask, seconds), time(3600))[0].to_pylist()
    return found


COUNTS = ("offline", "under_min_isr_min", "under_min_isr_max", "under_replicated", "brokers")


@pytest.mark.parametrize(
    ("seconds", "counts"),
    [
        # The min ISR of __consumer_offsets is not known.
        (5, (0, 0, 1, 0, 3)),
        (15, (0, 0, 1, 4, 2)),
        (25, (2, 2, 3, 4, 1)),
        (None, (0, 0, 1, 0, 3)),
    ],
)
def test_a_cluster_is_as_the_incident_was(
    ask: Ask, seconds: float | None, counts: tuple[int, ...]
) -> None:
    (row,) = clusters(ask, seconds)
    assert tuple(row[each] for each in COUNTS) == counts
    assert (row["cluster"], row["partitions"], row["age_s"]) == ("prod", 5, 3479.9)


def test_what_no_source_tells_is_null_and_named(ask: Ask) -> None:
    rows, lacks = show.clusters(state(ask, 15), time(3600))
    (row,) = rows.to_pylist()
    assert (row["fenced"], row["controller_id"]) == (None, None)
    assert lacks == [
        (
            "prod: not known: min ISR (`enrich: configs`); fenced brokers (`enrich: fenced`); the "
            "controller (`enrich: quorum`)"
        )
    ]


def test_fenced_brokers_and_the_controller_are_known_by_their_answers() -> None:
    quorum = lasting(0, controller_id=3001, quorum_epoch=4, voters=[3001])
    rows = {
        bronze.METADATA_POLLS: [answered("fenced", 10)],
        silver.QUORUM: [quorum],
        silver.FENCED_BROKERS: [lasting(10, 40, broker_id=2, rack="b", host="h", port=1)],
    }
    with asking(rows) as of:
        (row,) = clusters(of, 15)
        broker = show.broker(state(of, 15), 2)[0].to_pylist()
    assert (row["brokers"], row["fenced"], row["controller_id"]) == (2, 1, 3001)
    assert [(each["state"], each["address"]) for each in broker] == [("fenced", "h:1")]


def test_the_worst_cluster_is_the_first() -> None:
    other = twice()
    leaderless = [
        row | {"leader": -1, "error_code": 5} for row in other[silver.PARTITION_SNAPSHOTS]
    ]
    with asking({**other, silver.PARTITION_SNAPSHOTS: leaderless}) as of:
        found = [(row["cluster"], row["offline"]) for row in clusters(of)]
    assert found == [("test", 5), ("prod", 0)]


def test_a_replica_that_is_being_added_is_not_out() -> None:
    adding = lasting(0, topic="orders", partition=0, adding_replicas=[2], removing_replicas=[])
    with asking({silver.REASSIGNMENTS: [adding]}) as of:
        (row,) = clusters(of, 15)
        (first, *_) = show.topic(state(of, 15), "orders")[0].to_pylist()
    assert row["under_replicated"] == 3
    assert first["partition"] == 1, "the worst first"


def test_facts_that_mean_nothing_are_null() -> None:
    odd = [
        row | {"not_meaningful": ["under_replicated: every replica is in it", "offline: why"]}
        for row in KNOWN[silver.CLUSTER_SNAPSHOTS]
    ]
    with asking({}, {silver.CLUSTER_SNAPSHOTS: odd}) as of:
        (row,) = clusters(of, 25)
    assert (row["offline"], row["under_replicated"]) == (None, None)


def test_the_partitions_of_a_topic(ask: Ask) -> None:
    rows, lacks = show.topic(state(ask, 25), "clicks")
    (row,) = rows.to_pylist()
    assert (row["level"], row["leader"], row["isr"], row["replicas"], row["min_isr"]) == (
        "offline",
        -1,
        [3],
        [2, 3],
        1,
    )
    assert row["settings"] == ["min.insync.replicas=1", "unclean.leader.election.enable=true"]
    assert lacks == []
    _, lacks = show.topic(state(ask, 25), "__consumer_offsets")
    assert lacks == ["prod: not known: min ISR and settings (`enrich: configs`)"]


def test_settings_that_somebody_has_set_are_those_then(ask: Ask) -> None:
    def retention(seconds: float) -> str:
        (row, *_) = show.topic(state(ask, seconds), "orders")[0].to_pylist()
        (found,) = (each for each in row["settings"] if each.startswith("retention"))
        return str(found)

    assert retention(25) == "retention.ms=604800000"
    assert retention(70) == "retention.ms=86400000"


def test_a_broker(ask: Ask) -> None:
    (row,) = show.broker(state(ask, 5), 2)[0].to_pylist()
    assert [row[each] for each in ("state", "rack", "leads", "replicates", "isrs_lacking_it")] == [
        "listed",
        "b",
        3,
        4,
        0,
    ]
    (row,) = show.broker(state(ask, 15), 2)[0].to_pylist()
    assert (row["state"], row["rack"], row["isrs_lacking_it"]) == ("not_listed", "b", 4)
    assert row["lacking_in"] == ["__consumer_offsets-0", "clicks-0", "orders-0", "orders-1"]


def test_a_broker_by_the_controllers_log() -> None:
    with asking({}, {silver.HISTORY_SOURCES: [lasting(-10, source="log")]}) as of:
        rows, lacks = show.broker(state(of, 17), 3)
        (found,) = clusters(of, 17)
    (row,) = rows.to_pylist()
    assert (row["state"], row["broker_epoch"], row["since"], lacks) == ("stopping", 13, at(16), [])
    assert (found["brokers"], found["fenced"]) == (2, 2)


def test_what_is_not_there_then_is_said(ask: Ask) -> None:
    rows, lacks = show.broker(state(ask, 5), 4)
    assert (len(rows), lacks) == (
        0,
        ["broker 4 was not there then in prod: history knows it at another time"],
    )


def member(**columns: Any) -> Row:
    return {"member_id": "m", "client_id": "c", "client_host": "/h", **columns}


def test_a_group_as_its_coordinator_described_it() -> None:
    described = lasting(
        0,
        group_id="search",
        group_type="consumer",
        state="Stable",
        group_epoch=7,
        assignor="uniform",
        members=[
            member(assigned=[{"topic": "orders", "topic_id": None, "partitions": [1, 0]}]),
            member(member_id="n", assigned=[]),
        ],
    )
    with asking({}, {silver.GROUP_SNAPSHOTS: [described]}) as of:
        rows, _ = show.group(state(of, 60), "search")
    first, second = rows.to_pylist()
    assert (first["state"], first["members"], first["assignor"]) == ("Stable", 2, "uniform")
    assert (first["assigned"], second["assigned"]) == (["orders: 0, 1"], [])
    assert (first["coordinator"], first["generation"]) == (2, 7)


def test_a_group_by_its_log() -> None:
    with asking({}, {silver.GROUP_SNAPSHOTS: []}) as of:
        lasts = show.group(state(of, 34.5), "billing")[0].to_pylist()
        stable, _ = show.group(state(of, 60), "billing")
        rows = stable.to_pylist()
    assert {row["state"] for row in lasts} == {"rebalancing"}
    assert {row["state"] for row in rows} == {"Stable"}
    assert {row["coordinator"] for row in rows} == {2}
    assert all(row["assigned"] for row in rows)
    assert rows[0]["members"] == len(rows) > 1


def test_lag_is_that_of_then(ask: Ask) -> None:
    def lag(seconds: float) -> tuple[int, int]:
        row = show.group(state(ask, seconds), "billing")[0].to_pylist()[0]
        return row["lag_min"], row["lag_max"]

    assert lag(50) == (0, 0)
    assert lag(119) == (0, 10)


def test_groups_of_two_clusters_are_apart() -> None:
    with asking(twice()) as of:
        found = show.group(state(of, 60), "search")[0].to_pylist()
    assert [row["cluster"] for row in found] == ["prod", OTHER["cluster"]]
