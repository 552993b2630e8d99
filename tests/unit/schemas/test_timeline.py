"""What polls tell is in the timeline, and what the controllers' log tells too is there once."""

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_metadata_history.answers.questions import text_of
from schemas import consumption
from schemas.lake import VIEWS
from schemas.table import Table
from tests.support.duckdb_lake import ask, asking, duckdb_lake
from tests.support.incident import NOON
from tests.support.timeline_rows import behind, rows_of_log, rows_of_polls

Row = dict[str, Any]
EVENT = tuple[Any, ...]

OF_POLLS = rows_of_polls()


def timeline(rows: Mapping[Table, list[Row]], *kinds: str) -> list[EVENT]:
    """Events of these kinds: seconds of both bounds, kind, subject, before, after, inference."""
    with duckdb_lake(rows, VIEWS) as lake:
        found = ask(lake, "SELECT * FROM gold.incident_timeline ORDER BY began_before, what, after")
    return [
        (
            *(each and (each - NOON).total_seconds() for each in (row["began_after"], began)),
            row["what"],
            row["topic"] or row["group_id"] or row["broker_id"],
            row["before"],
            row["after"],
            row["inferred"],
        )
        for row in found
        if row["what"] in kinds
        for began in [row["began_before"]]
    ]


def test_racks_and_addresses_that_changed() -> None:
    rack, address = "broker_rack_changed", "broker_address_changed"
    assert timeline(OF_POLLS, rack, address) == [
        (90, 100, rack, 1, "a", "b", None),
        # Known from before it was gone.
        (100, 130, rack, 2, "a", "b", None),
        (190, 200, address, 1, "h:9092", "other:9093", None),
    ]


def test_fenced_brokers() -> None:
    kinds = "broker_fenced", "broker_unfenced", "broker_unregistered"
    fenced, unfenced, unregistered = kinds
    assert timeline(OF_POLLS, *kinds) == [
        (None, 0, fenced, 4, None, None, None),
        (110, 120, fenced, 3, None, None, None),
        (130, 140, fenced, 5, None, None, None),
        (170, 180, unfenced, 3, None, None, None),
        (180, 190, unregistered, 5, None, None, "not listed"),
    ]
    assert timeline(OF_POLLS | rows_of_log(), *kinds) == [
        (None, 0, fenced, 4, None, None, None),
        (115, 115, fenced, 3, None, None, None),
        (130, 140, fenced, 5, None, None, None),
        (175, 175, unfenced, 3, None, None, None),
        (180, 190, unregistered, 5, None, None, "not listed"),
    ]


def test_controllers_and_voters() -> None:
    kinds = "controller_elected", "controller_lost", "quorum_voters_changed"
    kinds += "quorum_observers_changed", "quorum_behind"
    elected, lost, voters, observers, behind = kinds
    first = (None, 0, elected, None, None, "1, epoch 4", None)
    others = [
        (110, 120, voters, None, "{1,2,3}", "{1,2}", None),
        (120, 130, elected, None, "2, epoch 5", "2, epoch 7", None),
        (130, 140, lost, None, "2, epoch 7", "-1, epoch 8", None),
        (140, 150, observers, None, "{4,5}", "{4}", None),
        (150, 160, behind, None, "{}", "{2,4}", None),
    ]
    by_polls = (100, 110, elected, None, "1, epoch 4", "2, epoch 5", None)
    assert timeline(OF_POLLS, *kinds) == [first, by_polls, *others]
    by_log = (105, 105, elected, None, None, "2, epoch 5", None)
    assert timeline(OF_POLLS | rows_of_log(), *kinds) == [first, by_log, *others]


def test_controllers_of_polls_and_of_the_log_are_terms_one_after_the_other() -> None:
    def terms(rows: Mapping[Table, list[Row]]) -> list[EVENT]:
        parameters = {"since": "2026-11-01T11:00:00Z", "until": "2026-11-01T13:00:00Z"}
        with asking(rows) as answers:
            found = answers(text_of("controllers"), parameters | {"cluster": None})
        times = ("began_after", "began_before", "ended_before")
        return [
            (
                *(row[name] for name in ("controller_id", "controller_epoch")),
                *(row[name] and (row[name] - NOON).total_seconds() for name in times),
            )
            for row in found
        ]

    later = [(2, 7, 120, 130, 140), (-1, 8, 130, 140, None)]
    assert terms(OF_POLLS) == [(1, 4, None, 0, 110), (2, 5, 100, 110, 130), *later]
    assert terms(OF_POLLS | rows_of_log()) == [(1, 4, None, 0, 105), (2, 5, 105, 105, 130), *later]


def test_settings_in_effect() -> None:
    kinds = "config_set", "config_changed", "config_removed"
    was_set, changed, removed = kinds
    name, other = "min.insync.replicas", "unclean.leader.election.enable"
    unclean = (100, 110, changed, "orders", f"{other}=false", f"{other}=true", None)
    assert timeline(OF_POLLS, *kinds) == [
        (90, 100, changed, "orders", f"{name}=2", f"{name}=1", None),
        unclean,
    ]
    password, timeout = "all brokers: my.password", "share.session.timeout.ms"
    assert timeline(OF_POLLS | rows_of_log(), *kinds) == [
        (None, 0, was_set, "orders", None, f"{name}=2", None),
        # A change is there, though its value is not.
        (30, 30, was_set, None, None, password, None),
        (40, 40, changed, None, password, password, None),
        (50, 50, removed, None, password, None, None),
        (60, 60, was_set, None, None, password, None),
        (70, 70, was_set, "g", None, timeout, None),
        (80, 80, changed, "g", timeout, f"{timeout}=7", None),
        (90, 90, changed, "g", f"{timeout}=7", f"{timeout}=8", None),
        (95, 95, removed, "orders", f"{name}=2", None, None),
        unclean,
    ]


def test_acls_and_quotas() -> None:
    rows = rows_of_log()
    assert timeline(rows, "acl_added", "acl_removed", "quota_changed") == [
        (85, 85, "acl_added", None, None, None, None),
        (86, 86, "quota_changed", None, None, None, None),
    ]


def test_partitions_and_replicas() -> None:
    kinds = "partitions_added", "replication_factor_changed"
    added, factor = kinds
    assert sorted(timeline(OF_POLLS, *kinds), key=lambda event: event[1:4]) == [
        (90, 100, added, "orders", "2", "4", None),
        (90, 100, factor, "grows", "2", "3", None),
        (90, 100, factor, "shrinks", "3", "1", None),
        (290, 300, factor, "moves and grows", "2", "3", None),
    ]


def test_groups_that_are_behind() -> None:
    began, ended = kinds = "group_behind", "group_behind_no_more"
    assert timeline(OF_POLLS, *kinds) == [
        (50, 60, began, "new", None, "WARNING, lag 10 to 11", None),
        (50, 120, began, "left", "OK", "ERROR, lag 20 to 21", None),
        (110, 120, began, "slow", "OK", "WARNING, lag 20 to 21", None),
        (170, 180, ended, "left", "ERROR", "gone", None),
        (290, 300, ended, "slow", "ERROR", "OK, lag 0 to 1", None),
    ]


@pytest.mark.parametrize("status", ["WARNING", "ERROR"])
def test_rows_of_older_versions_make_no_event(status: str) -> None:
    old = [row | {"prev_burrow_status": None, "prev_seen_at": None} for row in behind("g", status)]
    assert timeline({consumption.GROUP_LAG: old}, "group_behind", "group_behind_no_more") == []
