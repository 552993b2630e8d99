"""Things of a cluster as rows of silver, and a cluster from the open rows."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.log.image import Image
from jobs.rules.log.silver import DERIVED, TABLES, TABLES_OF, image_of, levels, registered
from metadata_source.kinds import KAFKA, KINDS
from schemas import silver
from tests.support.cluster_logs import RandomLog, in_effect, rows_of
from tests.support.examples import examples
from tests.support.log_cases import state_of, whole

Row = dict[str, Any]

PARTITION = {
    "topic_id": "id-t",
    "partition_epoch": 12,
    "leader": 2,
    "leader_epoch": 7,
    "replicas": [2, 1, 3],
    "isr": [3, 2],
    "adding_replicas": [3],
    "removing_replicas": [],
    "elr": [],
    "last_known_elr": [],
    "leader_recovery_state": 0,
    "directories": [None, None, None],
}
BROKER = {"broker_epoch": 1, "is_fenced": False, "log_dirs": []}
SHOWN = {
    "topic_id": "id-t",
    "error_code": 0,
    "leader": 2,
    "leader_epoch": 7,
    "replicas": [2, 1, 3],
    "isr": [2, 3],
    "offline_replicas": [],
}


def image(**told: Any) -> Image:
    made = Image({"min.insync.replicas": "2"})
    made.brokers = {number: dict(BROKER) for number in (1, 2, 3)}
    made.features = {"metadata.version": 25, "group.version": 1}
    made.configs[2, "t"] = {"retention.ms": "9", "ssl.key.password": None}
    for name in ("t", "__consumer_offsets"):
        made.topics[name] = {"topic_id": f"id-{name}", "partition_count": 1}
    made.partitions["t", 0] = PARTITION | told
    return made


def state(table: Any, key: tuple[Any, ...], of: Image) -> Row | None:
    """The state of a thing in a table."""
    found = {told: state_of for each in TABLES_OF.values() for told, state_of in each}
    return found[table](of, key)


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({}, {}),
        # LEADER_NOT_AVAILABLE, as Metadata has it.
        ({"leader": -1}, {"leader": -1, "error_code": 5}),
        ({"leader": 0}, {"leader": 0}),
        ({"isr": []}, {"isr": []}),
        ({"replicas": [2, 9, 3]}, {"replicas": [2, 9, 3], "offline_replicas": [9]}),
    ],
)
def test_a_partition_as_a_poll_would_show_it(told: Row, shown: Row) -> None:
    assert state(silver.PARTITION_SNAPSHOTS, ("t", 0), image(**told)) == SHOWN | shown


@pytest.mark.parametrize(
    ("told", "registration", "reassignment", "elr"),
    [
        pytest.param(
            {}, False, {"adding_replicas": [3], "removing_replicas": []}, None, id="it is added to"
        ),
        pytest.param(
            {"adding_replicas": [], "removing_replicas": [9, 1]},
            False,
            {"adding_replicas": [], "removing_replicas": [1, 9]},
            None,
            id="and taken from",
        ),
        pytest.param({"adding_replicas": []}, False, None, None, id="no reassignment"),
        pytest.param(
            {"adding_replicas": [], "leader_recovery_state": 1}, True, None, None, id="RECOVERING"
        ),
        pytest.param(
            {"adding_replicas": [], "elr": [2, 1]},
            False,
            None,
            {"elr": [1, 2], "last_known_elr": []},
            id="an ELR",
        ),
        pytest.param(
            {"adding_replicas": [], "last_known_elr": [1]},
            False,
            None,
            {"elr": [], "last_known_elr": [1]},
            id="a last known ELR",
        ),
    ],
)
def test_what_no_poll_shows_of_a_partition(
    told: Row, registration: bool, reassignment: Row | None, elr: Row | None
) -> None:
    of, key = image(**told), ("t", 0)
    assert state(silver.PARTITION_REGISTRATIONS, key, of) == {
        "topic_id": "id-t",
        "is_recovering": registration,
        "directories": [None, None, None],
    }
    assert state(silver.REASSIGNMENTS, key, of) == reassignment
    assert state(silver.PARTITION_ELR, key, of) == elr
    assert registered(of, key).keys() & {"topic_id", "directories"} == set()


@pytest.mark.parametrize(
    ("table", "key", "expected"),
    [
        (silver.BROKER_REGISTRATIONS, (2,), BROKER),
        (silver.FEATURES, ("group.version",), {"level": 1}),
        (silver.CONFIGS, (2, "t", "retention.ms"), {"value": "9"}),
        # It is set, to what is not kept.
        (silver.CONFIGS, (2, "t", "ssl.key.password"), {"value": None}),
        (
            silver.TOPIC_SNAPSHOTS,
            ("t",),
            {"error_code": 0, "is_internal": False, "topic_id": "id-t", "partition_count": 1},
        ),
        (
            silver.TOPIC_SNAPSHOTS,
            ("__consumer_offsets",),
            {
                "error_code": 0,
                "is_internal": True,
                "topic_id": "id-__consumer_offsets",
                "partition_count": 1,
            },
        ),
    ],
)
def test_things_and_their_states(table: Any, key: tuple[Any, ...], expected: Row) -> None:
    assert state(table, key, image()) == expected


@pytest.mark.parametrize(
    ("table", "key"),
    [
        *((silver.BROKER_REGISTRATIONS, (9,)), (silver.FEATURES, ("kraft.version",))),
        *((silver.CONFIGS, (2, "t", "no")), (silver.CONFIGS, (2, "no", "retention.ms"))),
        *((silver.TOPIC_CONFIGS, ("no",)), (silver.TOPIC_SNAPSHOTS, ("no",))),
        *((silver.PARTITION_SNAPSHOTS, ("t", 9)), (silver.PARTITION_REGISTRATIONS, ("t", 9))),
        *((silver.REASSIGNMENTS, ("t", 9)), (silver.PARTITION_ELR, ("t", 9))),
    ],
)
def test_what_is_not_there_has_no_state(table: Any, key: tuple[Any, ...]) -> None:
    of = image()
    assert state(table, key, of) is None
    assert (2, "no") not in of.configs


def test_settings_of_a_topic_are_those_in_effect() -> None:
    found = state(silver.TOPIC_CONFIGS, ("t",), image())
    assert found is not None
    assert found["min_insync_replicas"] == 2
    assert found["unclean_leader_election_enable"] is None


@pytest.mark.parametrize(
    ("features", "level", "elr"),
    [
        # Before 3.3 metadata.version is in no record.
        ({}, None, 0),
        ({"metadata.version": 25}, 25, 0),
        ({"metadata.version": 25, "eligible.leader.replicas.version": 1}, 25, 1),
    ],
)
def test_levels_of_a_cluster(features: dict[str, int], level: int | None, elr: int) -> None:
    of = Image()
    of.features = features
    told = {
        "metadata_version_level": level,
        "metadata_version_highest": None,
        "elr_version_level": elr,
    }
    assert levels(of, None) == told | {"kind": KAFKA, "not_meaningful": KINDS[KAFKA].reasons}
    # What polls told of the kind stays.
    known = {"kind": "redpanda", "not_meaningful": ["isr"], "metadata_version_level": 7}
    assert levels(of, known) == told | {"kind": "redpanda", "not_meaningful": ["isr"]}


def test_columns_of_no_one_record_are_columns_of_what_is_shown() -> None:
    for table, names in DERIVED.items():
        assert names <= set(table.column_names)
    assert {*DERIVED} <= {*TABLES}


@given(st.randoms(use_true_random=False))
@settings(max_examples=examples(6))
def test_a_cluster_is_in_its_open_rows(chance: random.Random) -> None:
    entries = RandomLog(chance).grow(chance.randint(1, 25))
    told = Image()
    for row in rows_of(in_effect(entries)):
        told.replay(row)
    found = state_of(whole(rows_of(entries)))
    assert found["brokers"] == told.brokers
    assert found["topics"] == told.topics
    assert found["features"] == told.features
    assert found["configs"] == {key: of for key, of in told.configs.items() if of}
    assert found["partitions"].keys() == told.partitions.keys()
    for key, of in found["partitions"].items():
        assert of["directories"] == told.partitions[key]["directories"]
        assert of["partition_epoch"] == told.partitions[key]["partition_epoch"]


def test_where_polls_told_the_topics_the_log_counts_their_partitions_itself() -> None:
    registration = {
        **{name: PARTITION[name] for name in registered(image(), ("t", 0))},
        "topic": "t",
        "topic_id": "id-t",
        "directories": [None] * 3,
        "is_recovering": True,
    }
    live = {
        "silver.partition_registrations": [registration | {"partition": n} for n in (0, 1)],
        "silver.topic_snapshots": [{"topic": "t", "topic_id": "id-t", "partition_count": 9}],
    }
    for tells, count in ((True, 9), (False, 2)):
        found = image_of(live, tells=tells)
        assert found.topics == {"t": {"topic_id": "id-t", "partition_count": count}}
        assert found.names == {"id-t": "t"}
        assert found.partitions["t", 1]["leader_recovery_state"] == 1
