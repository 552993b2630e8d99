"""The report's own queries: every event of a figure, and those that a topic narrows."""

from typing import Any

import pytest

from kafka_metadata_history.answers import questions
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.report import queries
from schemas import groups
from schemas.lake import VIEWS
from tests.support.duckdb_lake import duckdb_lake
from tests.support.known_rows import known_rows
from tests.support.report_pages import rows_of
from tests.support.reports import WINDOW, Lake, asking
from tests.support.timeline_rows import rows_of_log, rows_of_polls


def test_each_event_of_the_incident_is_in_the_page(lake: Lake, page: str) -> None:
    """Each row of the timeline that a figure is about has a row behind a mark; times by their upper
    bounds.
    """
    window = f"began_before BETWEEN '{WINDOW[0]}' AND '{WINDOW[1]}'"
    timeline = lake.execute(
        "SELECT what, topic || '-' || partition, group_id, broker_id, epoch_ms(began_before), "
        "coalesce(topic, group_id, 'broker ' || broker_id, 'cluster') FROM gold.incident_timeline "
        f"WHERE {window}"
    ).fetchall()
    found = {
        (section, subject, round(end))
        for section in ("brokers", "isrs", "leaders", "groups", "coordinators", "settings")
        for _, subject, _, began, _, ended, *_ in rows_of(page, section)
        for end in (began, ended)
        if end is not None
    }
    subjects = {
        "isr_left": ("brokers", 1),
        "isr_rejoined": ("brokers", 1),
        "broker_gone": ("brokers", 3),
        "broker_listed": ("brokers", 3),
        "broker_stale": ("brokers", 3),
        "broker_stale_no_more": ("brokers", 3),
        "broker_controlled_shutdown": ("brokers", 3),
        "broker_fenced": ("brokers", 3),
        "broker_unfenced": ("brokers", 3),
        "broker_registered": ("brokers", 3),
        "broker_unregistered": ("brokers", 3),
        "controller_elected": ("settings", 5),
        "feature_level_changed": ("settings", 5),
        "config_set": ("settings", 5),
        "config_changed": ("settings", 5),
        "config_removed": ("settings", 5),
        "leader_changed": ("leaders", 1),
        "rebalance_began": ("groups", 2),
        "rebalance_ended": ("groups", 2),
        "storm": ("groups", 2),
        "crash_loop": ("groups", 2),
        "coordinator_moved": ("coordinators", 2),
    }
    happened = {row[0] for row in timeline}
    assert happened - subjects.keys() == {
        *("group_static_restart", "group_created"),
        *("reassignment_began", "reassignment_ended"),
        "transaction_stuck_no_more",
    }
    lost = [
        row
        for row in timeline
        if row[0] in subjects
        and (
            subjects[row[0]][0],
            f"broker {row[3]}" if subjects[row[0]][1] == 3 else row[subjects[row[0]][1]],
            row[4],
        )
        not in found
    ]
    assert lost == []


def test_what_polls_and_the_log_tell_beside_incidents_is_drawn() -> None:
    parameters = dict.fromkeys(("topic", "broker", "group")) | {"cluster": "prod"}
    parameters |= {"since": WINDOW[0], "until": "2026-11-01T13:00:00Z"}
    kinds = {
        queries.BROKERS: {
            *("broker_rack_changed", "broker_address_changed", "broker_fenced", "broker_unfenced"),
            *("broker_unregistered", "broker_listed", "broker_gone", "broker_registered"),
        },
        queries.SETTINGS: {
            *("controller_elected", "controller_lost", "quorum_voters_changed"),
            *("quorum_observers_changed", "quorum_behind"),
            *("config_set", "config_changed", "config_removed", "acl_added", "quota_changed"),
            *("partitions_added", "replication_factor_changed"),
        },
        queries.LAG: {"group_behind", "group_behind_no_more"},
    }
    with duckdb_lake(rows_of_polls() | rows_of_log(), VIEWS) as lake:
        for section, expected in kinds.items():
            sql = with_values(queries.limited(queries.query_of(section)), parameters)
            drawn = asking(lake)(sql).to_pylist()
            of_timeline = lake.execute(
                "SELECT count(*) FROM gold.incident_timeline WHERE list_contains(?, what) "
                "AND began_after IS NOT NULL",
                [[*expected]],
            ).fetchall()
            assert {row["kind"] for row in drawn} == expected - {"broker_registered"}
            assert len({row["id"] for row in drawn}) == len(drawn) == of_timeline[0][0]


@pytest.mark.parametrize(
    ("subscribed", "before", "after", "is_about_it"),
    [
        # Its subscription could not be read: what members had, or have, tells.
        (None, None, [("orders", [0])], True),
        (None, [("orders", [0])], [], True),
        (None, [("orders", [])], [("clicks", [1])], True),
        (None, None, None, False),
        # Nobody has a partition of what they subscribe to.
        (["orders"], None, None, True),
        (["orders"], [], [("clicks", [1])], True),
        (["clicks"], [("orders", [0])], [], True),
        (["clicks"], [("clicks", [0])], [("clicks", [0, 1])], False),
        (None, [(None, [0])], None, False),
    ],
)
def test_rebalances_of_a_topic_are_the_same_in_the_report_and_in_the_query(
    subscribed: list[str] | None,
    before: list[tuple[str | None, list[int]]] | None,
    after: list[tuple[str | None, list[int]]] | None,
    is_about_it: bool,
) -> None:
    def had(parts: list[tuple[str | None, list[int]]] | None) -> list[dict[str, Any]] | None:
        topics = [
            {"topic": topic, "topic_id": None, "partitions": numbers}
            for topic, numbers in parts or ()
        ]
        return None if parts is None else topics

    known = known_rows()
    (rebalance,) = (row for row in known[groups.REBALANCES] if row["id"] == "search-5")
    member = next(
        row for row in known[groups.REBALANCE_MEMBERS] if row["rebalance_id"] == "search-5"
    )
    told = {
        groups.REBALANCES: [rebalance | {"subscribed": subscribed}],
        groups.REBALANCE_MEMBERS: [member | {"before": had(before), "after": had(after)}],
        groups.REBALANCE_STORMS: [],
    }
    parameters = {
        "since": WINDOW[0],
        "until": WINDOW[1],
        "cluster": "prod",
        "topic": "orders",
        "broker": None,
    }
    expected = ["search"] if is_about_it else []
    with duckdb_lake(known | told, VIEWS) as made_of:
        asked = [
            asking(made_of)(
                with_values(queries.limited(sql), parameters | {"group": None})
            ).to_pylist()
            for sql in (
                questions.text_of("rebalances"),
                queries.query_of(queries.GROUPS),
                queries.LARGEST_OF_GROUPS,
            )
        ]
    rebalances, drawn, largest = asked
    assert [row["group_id"] for row in rebalances] == [row["lane"] for row in drawn] == expected
    assert [row["thing"] for row in largest] == [
        f"group {group}: 1 rebalance" for group in expected
    ]
