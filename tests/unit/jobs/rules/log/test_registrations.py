"""What a record makes of a partition, or of a broker, and which replicas are offline: Kafka's rules
as tables of cases.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from jobs.rules.log.registrations import (
    broker_of,
    changed,
    listed,
    liveness,
    merged,
    offline_replicas,
    partition_of,
    without_elr,
)
from tests.support.cluster_logs import START, Entry, record, rows_of

Row = dict[str, Any]

A, B, C = "dirAAAAAAAAAAAAAAAAAAA", "dirBAAAAAAAAAAAAAAAAAA", "dirCAAAAAAAAAAAAAAAAAA"
MIGRATING, UNASSIGNED, LOST = None, "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"

# --- partitions ---

PARTITION: Mapping[str, Any] = {
    "topic_id": "t",
    "partition": 0,
    "replicas": [1, 2, 3],
    "isr": [1, 2, 3],
    "adding_replicas": [3],
    "removing_replicas": [1],
    "leader": 1,
    "leader_epoch": 5,
    "partition_epoch": 9,
    "leader_recovery_state": 0,
    "directories": [A, B, C],
    "elr": [2],
    "last_known_elr": [3],
}
UNCHANGED = dict.fromkeys((*PARTITION, "directories"))
ONE_LATER = {"partition_epoch": 10}


@pytest.mark.parametrize(
    ("told", "after"),
    [
        pytest.param({}, {}, id="a change of nothing is a change of the partition"),
        pytest.param({"isr": [1, 2]}, {"isr": [1, 2]}, id="the ISR shrinks"),
        pytest.param({"isr": []}, {"isr": []}, id="nobody is left in the ISR"),
        pytest.param({"leader": 2}, {"leader": 2, "leader_epoch": 6}, id="another leader"),
        pytest.param({"leader": 1}, {"leader_epoch": 6}, id="the same leader in a new epoch"),
        pytest.param({"leader": -1}, {"leader": -1, "leader_epoch": 6}, id="no leader"),
        pytest.param(
            {"leader_recovery_state": 1}, {"leader_recovery_state": 1}, id="it is RECOVERING"
        ),
        pytest.param({"adding_replicas": []}, {"adding_replicas": []}, id="all are added"),
        pytest.param({"removing_replicas": []}, {"removing_replicas": []}, id="all are removed"),
        pytest.param(
            {"replicas": [2, 3], "directories": [B, C]},
            {"replicas": [2, 3], "directories": [B, C]},
            id="replicas with their directories",
        ),
        pytest.param({"elr": []}, {"elr": []}, id="an empty ELR"),
        pytest.param({"last_known_elr": [1]}, {"last_known_elr": [1]}, id="the last known ELR"),
        pytest.param({"directories": [A, B, LOST]}, {"directories": [A, B, LOST]}, id="a lost one"),
        pytest.param({"directories": [None] * 3}, {"directories": [None] * 3}, id="directories go"),
    ],
)
def test_a_change_of_a_partition(told: Row, after: Row) -> None:
    """``PartitionRegistration.merge``: null leaves a field."""
    before = dict(PARTITION)
    assert merged(before, UNCHANGED | told) == {**PARTITION, **ONE_LATER, **after}
    assert before == PARTITION, "rows are replaced"


def test_replicas_that_never_had_directories_have_none_however_many_there_are() -> None:
    """Controllers tell directories with replicas from 3.7-IV2 on."""
    before = {**PARTITION, "directories": [None] * 3}
    after = merged(before, UNCHANGED | {"replicas": [4, 5]})
    assert (after["replicas"], after["directories"]) == ([4, 5], [None, None])


@pytest.mark.parametrize(
    ("told", "known"),
    [
        ({"leader_recovery_state": None}, {"leader_recovery_state": 0}),
        ({"leader_recovery_state": 1}, {"leader_recovery_state": 1}),
        ({"directories": None}, {"directories": [None] * 3}),
        ({"directories": []}, {"directories": [None] * 3}),
        ({"directories": [A, LOST, C]}, {"directories": [A, LOST, C]}),
        ({"elr": None}, {"elr": []}),
        ({"last_known_elr": None}, {"last_known_elr": []}),
    ],
)
def test_a_partition_record_tells_all_of_a_partition(told: Row, known: Row) -> None:
    assert partition_of({**PARTITION, **told}) == {**PARTITION, **known}


@pytest.mark.parametrize(("elr", "last"), [([2], []), ([], [3]), ([2], [3])])
def test_the_elr_is_cleared_as_by_a_change_of_the_partition(elr: Any, last: Any) -> None:
    before = {**PARTITION, "elr": elr, "last_known_elr": last}
    assert without_elr(before) == {**PARTITION, **ONE_LATER, "elr": [], "last_known_elr": []}


def test_where_there_is_no_elr_clearing_it_changes_nothing() -> None:
    before = {**PARTITION, "elr": [], "last_known_elr": []}
    assert without_elr(before) is before


# --- brokers ---

BROKER: Mapping[str, Any] = {
    "broker_epoch": 7,
    "incarnation_id": "i",
    "rack": "r",
    "is_fenced": False,
    "in_controlled_shutdown": False,
    "log_dirs": [A, B],
}
SHUT, FENCED = {**BROKER, "in_controlled_shutdown": True}, {**BROKER, "is_fenced": True}


def broker_change(number: int, version: int | None = None, **told: Any) -> Row:
    """A change of a broker as bronze has it, decoded from its bytes."""
    fields = {"id": 1, "epoch": 7} if number in (7, 8) else {"broker_id": 1, "broker_epoch": 7}
    (row,) = rows_of([Entry(0, 1, START, *record(number, version, **fields, **told))])
    found: Row = row["broker_change"]
    return found


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        pytest.param(BROKER, broker_change(7), FENCED, id="FenceBrokerRecord"),
        pytest.param(FENCED, broker_change(8), BROKER, id="UnfenceBrokerRecord"),
        pytest.param(SHUT, broker_change(8), SHUT, id="unfenced, and in controlled shutdown"),
        pytest.param(BROKER, broker_change(17, fenced=1), FENCED, id="fenced by a change"),
        pytest.param(FENCED, broker_change(17, fenced=-1), BROKER, id="unfenced by a change"),
        pytest.param(FENCED, broker_change(17, fenced=0), FENCED, id="0 leaves it fenced"),
        pytest.param(
            BROKER, broker_change(17, in_controlled_shutdown=1), SHUT, id="controlled shutdown"
        ),
        pytest.param(SHUT, broker_change(17, in_controlled_shutdown=0), SHUT, id="0 leaves it"),
        pytest.param(SHUT, broker_change(17, 0, fenced=1), {**SHUT, "is_fenced": True}, id="v0"),
        pytest.param(BROKER, broker_change(17, log_dirs=[]), BROKER, id="[] leaves directories"),
    ],
)
def test_a_change_of_a_broker(before: Row, change: Row, after: Row) -> None:
    """``ClusterDelta.replay``."""
    assert changed(before, change) == after


def test_directories_of_a_broker_are_those_of_its_last_record_in_order() -> None:
    change = broker_change(17, log_dirs=[b"\6" * 16, b"\5" * 16])
    assert changed(dict(BROKER), change)["log_dirs"] == [
        "BQUFBQUFBQUFBQUFBQUFBQ",
        "BgYGBgYGBgYGBgYGBgYGBg",
    ]
    registered = {**BROKER, "log_dirs": [B, A], "fenced": True}
    assert broker_of(registered) == FENCED
    assert broker_of({**registered, "fenced": None, "log_dirs": None}) == {**BROKER, "log_dirs": []}


@pytest.mark.parametrize(
    ("directory", "broker", "is_offline"),
    [
        pytest.param(A, BROKER, False, id="its directory is online"),
        pytest.param(A, None, True, id="its broker is not registered"),
        pytest.param(A, FENCED, True, id="its broker is fenced"),
        pytest.param(A, SHUT, False, id="its broker shuts down, and serves still"),
        pytest.param(C, BROKER, True, id="its directory is not among those that are online"),
        pytest.param(C, {**BROKER, "log_dirs": []}, False, id="its broker tells no directories"),
        pytest.param(LOST, BROKER, True, id="LOST"),
        pytest.param(LOST, {**BROKER, "log_dirs": []}, True, id="LOST, no directories told"),
        pytest.param(UNASSIGNED, BROKER, False, id="UNASSIGNED"),
        pytest.param(MIGRATING, BROKER, False, id="MIGRATING"),
    ],
)
def test_a_replica_is_offline(
    directory: str | None, broker: Row | None, *, is_offline: bool
) -> None:
    """``KRaftMetadataCache.getOfflineReplicas``, ``DirectoryId.isOnline``."""
    partition = {"replicas": [2, 1], "directories": [A, directory]}
    brokers: dict[int, Row] = {2: dict(BROKER)} | ({} if broker is None else {1: broker})
    assert offline_replicas(partition, brokers) == ([1] if is_offline else [])


def test_offline_replicas_are_sorted() -> None:
    assert offline_replicas({"replicas": [3, 1, 2], "directories": [A] * 3}, {}) == [1, 2, 3]


def test_replicas_depend_on_whether_a_broker_is_fenced_and_on_its_directories() -> None:
    assert liveness(BROKER) == (False, [A, B])
    assert liveness(SHUT) == liveness(BROKER)
    assert liveness({**FENCED, "log_dirs": []}) == liveness(None)


def test_a_broker_that_is_fenced_is_gone_from_the_list_of_brokers() -> None:
    def state(broker: int, begin: str, end: str | None, *, fenced: bool, why: Any = None) -> Row:
        return {
            "broker_id": broker,
            "first_poll": begin,
            "superseded_poll": end,
            "end_reason": why,
            "is_fenced": fenced,
        }

    rows = [
        state(1, "a", "b", fenced=False),
        state(1, "b", "c", fenced=True),
        state(1, "c", "d", fenced=False),
        state(1, "d", "e", fenced=False, why="gone"),
        # Another broker is fenced when this one changes.
        state(2, "a", "c", fenced=False),
        state(2, "c", None, fenced=False),
        state(3, "c", None, fenced=True),
    ]
    assert [(row["broker_id"], row["first_poll"], row["end_reason"]) for row in listed(rows)] == [
        (1, "a", "gone"),
        (1, "c", None),
        (1, "d", "gone"),
        (2, "a", None),
        (2, "c", None),
    ]
