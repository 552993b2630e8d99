"""What is known of an incident (tests/support/incident.py), question by question: two brokers fail
within 20 s and come back, and what groups do. Whoever answers says how: DuckDB in
tests/unit/kafka_metadata_history/answers/test_incident.py, Spark in tests/spark/test_questions.py.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.incident import NOON

Row = dict[str, Any]
Ask = Callable[..., list[Row]]
"""The rows of a named question; times as seconds after noon."""
PARAMETERS: Mapping[str, object] = {
    "since": "2026-11-01T12:00:05Z",
    "until": "2026-11-01T12:01:40Z",
    "cluster": None,
    "topic": None,
    "broker": None,
    "group": None,
    "at_least": None,
}


def in_seconds(row: Mapping[str, Any]) -> Row:
    """Times as seconds after noon."""
    return {
        name: (value.astimezone(UTC) - NOON).total_seconds()
        if isinstance(value, datetime)
        else value
        for name, value in row.items()
    }


def columns(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


class Isr:
    def test_overview(self, ask: Ask) -> None:
        rows = ask("overview", since="2026-11-01T12:00:05Z", until="2026-11-01T12:00:15Z")
        assert columns(
            rows, "began_after", "began_before", "what", "broker_id", "events", "example"
        ) == [
            (9.0, 9.0, "broker_fenced", 2, 1, None),
            (0.0, 10.1, "broker_gone", 2, 1, None),
            (0.0, 10.1, "coordinator_moved", 1, 5, "audit"),
            (0.0, 10.1, "isr_left", 2, 4, "clicks-0"),
            (0.0, 10.1, "leader_changed", 1, 1, "__consumer_offsets-0"),
            (0.0, 10.1, "leader_changed", 3, 2, "clicks-0"),
        ]
        whole = ask("overview")
        assert sum(row["events"] for row in whole) == len(ask("timeline")), (
            "each event is counted once"
        )
        assert {"recovery", "recovery, unclean proven"} <= {row["inferred"] for row in whole}
        assert {
            row["example"] for row in ask("overview", topic="clicks") if row["what"] == "isr_left"
        } == {"clicks-0"}

    def test_who_left_first(self, ask: Ask) -> None:
        rows = ask("who_left_first")
        assert columns(
            rows,
            "began_after",
            "began_before",
            "broker_id",
            "rack",
            "partitions",
            "topics",
            "causes",
        ) == [
            (0.0, 10.1, 2, "b", 4, ["__consumer_offsets", "clicks", "orders"], ["broker_down"]),
            (10.0, 20.1, 3, "b", 2, ["orders"], ["broker_down"]),
            (30.0, 40.1, 3, "b", 1, ["clicks"], ["lagging"]),
        ]
        assert columns(rows, "shortest_ms_min", "longest_ms_max") == [
            (19_900, 40_100),
            (9_900, 30_100),
            (9_900, 30_100),
        ]
        assert [row["broker_id"] for row in ask("who_left_first", broker=2)] == [2]
        assert ask("who_left_first", cluster="other") == []

    def test_time_at_level(self, ask: Ask) -> None:
        rows = ask("time_at_level", topic="orders")
        assert columns(
            rows,
            "level",
            "partitions",
            "episodes",
            "going_on",
            "smallest_isr",
            "seconds_min",
            "seconds_max",
        ) == [
            ("under_min_isr", 2, 2, 0, 1, 19.8, 60.2),
            ("at_min_isr", 2, 2, 0, 2, 0.0, 30.2),
            ("under_replicated", 2, 2, 0, 1, 39.8, 70.2),
        ]
        (offline,) = (
            row for row in ask("time_at_level", topic="logs") if row["level"] == "offline"
        )
        assert (offline["seconds_min"], offline["seconds_max"]) == (9.9, 30.1)

    def test_one_failure_from_offline(self, ask: Ask) -> None:
        rows = ask("one_failure_from_offline")
        figures = ("topic", "partition", "in_sync", "brokers_out", "began_before", "ended_before")
        # Partitions of orders lacked one broker before: two were in sync.
        assert columns(rows, *figures) == [
            ("__consumer_offsets", 0, 1, [2], 10.1, 40.1),
            ("clicks", 0, 2, [2, 3], 10.1, 60.1),
            ("orders", 0, 1, [2, 3], 20.1, 40.1),
            ("orders", 1, 1, [2, 3], 20.1, 40.1),
        ]
        assert columns(rows, "began_after", "ended_after", "seconds_min", "seconds_max")[2] == (
            10.0,
            30.0,
            9.9,
            30.1,
        )
        assert ask("one_failure_from_offline", topic="orders", until="2026-11-01T12:00:15Z") == []
        assert columns(ask("one_failure_from_offline", broker=3), "topic") == [
            ("clicks",),
            ("orders",),
            ("orders",),
        ]

    def test_broker_incidents(self, ask: Ask) -> None:
        rows = ask("broker_incidents")
        assert columns(
            rows,
            "broker_id",
            "began_after",
            "began_before",
            "ended_before",
            "partitions",
            "causes",
            "worst_level",
        ) == [
            (2, 0.0, 10.1, 40.1, 4, ["broker_down"], "offline"),
            (3, 10.0, 20.1, 60.1, 3, ["broker_down", "lagging"], "under_min_isr"),
        ]
        assert columns(rows, "others_in_rack", "others_elsewhere") == [(1, 0), (1, 0)]
        assert columns(rows, "broker_id", "stop") == [(2, "not_controlled"), (3, "controlled")]

    def test_stale_brokers(self, ask: Ask) -> None:
        rows = ask("stale_brokers")
        assert columns(
            rows, "broker_id", "began_after", "began_before", "ended_before", "end_reason"
        ) == [(2, 10.0, 20.1, 40.1, "caught_up")]
        assert columns(
            rows, "duration_ms_min", "duration_ms_max", "partitions_behind", "epochs_behind"
        ) == [(9_900, 30_100, 4, 3)]
        assert ask("stale_brokers", broker=3) == []

    def test_repeat_offenders(self, ask: Ask) -> None:
        rows = ask("repeat_offenders")
        assert columns(
            rows,
            "broker_id",
            "incidents",
            "going_on",
            "partitions_hit",
            "seconds_min",
            "last_began_before",
        ) == [
            (2, 1, 0, 4, 19.9, 10.1),
            (3, 1, 0, 3, 29.9, 20.1),
        ]


class Log:
    """The controllers' log alone tells these: tests/support/incident_log.py."""

    def test_timeline(self, ask: Ask) -> None:
        told = ("began_before", "what", "topic", "group_id", "broker_id", "before", "after")
        kinds = ("controller_", "config_", "feature_")
        rows = [row for row in ask("timeline") if row["what"].startswith(kinds)]
        retention, throttle = "retention.ms", "follower.replication.throttled.rate"
        assert columns(rows, *told) == [
            (56.0, "config_set", None, "fresh", None, None, "consumer.session.timeout.ms=45000"),
            (62.0, "controller_elected", None, None, None, "3001, epoch 4", "3002, epoch 5"),
            (64.0, "config_set", None, None, 3, None, f"{throttle}=1000"),
            (
                65.0,
                "config_changed",
                "orders",
                None,
                None,
                f"{retention}=604800000",
                f"{retention}=86400000",
            ),
            (66.0, "config_set", None, None, None, None, "client metrics apps: interval.ms"),
            (67.0, "config_set", None, None, None, None, "all brokers: ssl.keystore.password"),
            (68.0, "config_removed", None, None, None, "all brokers: ssl.keystore.password", None),
            (
                75.0,
                "feature_level_changed",
                None,
                None,
                None,
                "metadata.version=25",
                "metadata.version=27",
            ),
            (76.0, "feature_level_changed", None, None, None, "group.version=1", None),
            (93.0, "controller_elected", None, None, None, None, "3001, epoch 8"),
        ]
        assert all(row["began_after"] == row["began_before"] for row in rows), "each is exact"
        begin = [
            row
            for row in ask("timeline", since="2026-11-01T11:00:00Z")
            if row["began_before"] == -3600
        ]
        assert columns(begin, "what", "broker_id", "before", "after", "began_after") == [
            *(
                ("broker_registered", broker, None, f"broker epoch {10 + broker}", None)
                for broker in (1, 2, 3)
            ),
            ("broker_registered", 4, None, "broker epoch 3, fenced", None),
            ("config_set", None, None, f"{retention}=604800000", None),
            ("controller_elected", None, None, "3001, epoch 4", None),
            ("feature_level_changed", None, None, "group.version=1", None),
            ("feature_level_changed", None, None, "metadata.version=25", None),
        ]

    def test_controller_changes(self, ask: Ask) -> None:
        told = (
            "controller_id",
            "controller_epoch",
            "prev_controller_id",
            "began_after",
            "began_before",
            "ended_before",
        )
        first, second = (3001, 4, None, None, -3600.0, 62.0), (3002, 5, 3001, 62.0, 62.0, 93.0)
        third = (3001, 8, None, 93.0, 93.0, None)
        assert columns(ask("controller_changes"), *told) == [first, second, third]
        assert columns(ask("controller_changes", since="2026-11-01T12:01:10Z"), *told) == [
            second,
            third,
        ]
        as_of = ask("controller_changes", until="2026-11-01T12:01:10Z")
        assert columns(as_of, *told) == [first, (*second[:-1], None)]
        assert ask("controller_changes", cluster="other") == []

    def test_broker_states(self, ask: Ask) -> None:
        told = (
            "broker_id",
            "state",
            "began_after",
            "began_before",
            "ended_before",
            "seconds_min",
            "seconds_max",
        )
        fenced = (4, "fenced", None, -3600.0, 91.0, 3691, None)
        # Broker 3 registered while it was fenced: it is one stretch.
        assert columns(ask("broker_states"), *told) == [
            fenced,
            (2, "fenced", 9.0, 9.0, 38.0, 29, 29),
            (3, "controlled_shutdown", 16.0, 16.0, 17.5, 1.5, 1.5),
            (3, "fenced", 17.5, 17.5, 36.25, 18.75, 18.75),
        ]
        as_of = ask(
            "broker_states", since="2026-11-01T12:00:17Z", until="2026-11-01T12:00:20Z", broker=3
        )
        assert columns(as_of, *told) == [
            (3, "controlled_shutdown", 16.0, 16.0, 17.5, 1.5, 1.5),
            (3, "fenced", 17.5, 17.5, None, 2.5, 2.5),
        ]
        assert columns(ask("broker_states", since="2026-11-01T12:00:39Z"), *told) == [fenced]


class Leaders:
    def test_leader_churn(self, ask: Ask) -> None:
        rows = ask("leader_churn")
        counts = (
            "topic",
            "seen",
            "changes_min",
            "changes_max",
            "failover",
            "preferred",
            "offline",
            "recovery",
            "unknown",
        )
        assert columns(rows, *counts) == [
            ("clicks", 3, 3, 3, 1, 0, 1, 1, 0),
            ("orders", 3, 3, 3, 2, 1, 0, 0, 0),
            ("__consumer_offsets", 2, 2, 2, 1, 1, 0, 0, 0),
            ("logs", 2, 2, 2, 0, 0, 1, 1, 0),
        ]
        assert columns(rows, "leaderless_s_min", "leaderless_s_max") == [
            (9.9, 30.1),
            (0.0, 0.0),
            (0.0, 0.0),
            (9.9, 30.1),
        ]

    def test_unclean_elections(self, ask: Ask) -> None:
        rows = ask("unclean_elections")
        assert columns(
            rows,
            "topic",
            "partition",
            "began_before",
            "prev_leader",
            "leader",
            "prev_isr",
            "unclean",
        ) == [("clicks", 0, 40.1, -1, 2, [3], "proven")]

    def test_leader_skew(self, ask: Ask) -> None:
        rows = ask("leader_skew")
        assert columns(
            rows,
            "broker_id",
            "leads_before",
            "leads_after",
            "preferred_for_after",
            "imbalance_worst",
        ) == [
            (1, 1, 1, 1, 0.0),
            (2, 3, 3, 3, 1.0),
            (3, 1, 1, 1, 1.0),
        ]

    def test_away_from_preferred(self, ask: Ask) -> None:
        rows = ask("away_from_preferred")
        assert columns(
            rows, "broker_id", "since", "until", "led_elsewhere_most", "imbalance_worst"
        ) == [
            (2, 10.1, 50.1, 3, 1.0),
            (3, 20.1, 40.1, 1, 1.0),
        ]

    def test_timeline(self, ask: Ask) -> None:
        asked = ask("timeline", topic="clicks")
        rows = [row for row in asked if row["topic"]]
        assert columns(
            rows, "began_before", "what", "broker_id", "before", "after", "inferred"
        ) == [
            (10.1, "isr_left", 2, "{2,3}", "{3}", "broker_down"),
            (10.1, "leader_changed", 3, "2", "3", "failover"),
            (20.1, "leader_changed", -1, "3", "-1", "offline"),
            (40.1, "isr_left", 3, "{3}", "{2}", "lagging"),
            (40.1, "isr_rejoined", 2, "{3}", "{2}", None),
            (40.1, "leader_changed", 2, "-1", "2", "recovery, unclean proven"),
            (60.1, "isr_rejoined", 3, "{2}", "{2,3}", None),
        ]
        brokers = [row for row in ask("timeline") if row["what"].startswith("broker_")]
        others = [row for row in asked if not row["topic"]]
        assert [row for row in others if row["what"].startswith("broker_")] == brokers, (
            "none is left out"
        )
        assert columns(brokers, "began_before", "what", "broker_id", "before", "after") == [
            (9.0, "broker_fenced", 2, None, None),
            (10.1, "broker_gone", 2, "host2:9092", None),
            (16.0, "broker_controlled_shutdown", 3, None, None),
            (17.5, "broker_fenced", 3, "in controlled shutdown", None),
            (20.1, "broker_gone", 3, "host3:9092", None),
            (20.1, "broker_stale", 2, None, "4 partitions, 3 leader epochs behind"),
            (35.0, "broker_registered", 3, "broker epoch 13", "broker epoch 40, fenced"),
            (36.25, "broker_unfenced", 3, None, None),
            (38.0, "broker_unfenced", 2, None, None),
            (40.1, "broker_listed", 2, None, "host2:9092"),
            (40.1, "broker_listed", 3, None, "host3:9092"),
            (40.1, "broker_stale_no_more", 2, None, "caught_up"),
            (91.0, "broker_unregistered", 4, "broker epoch 3", None),
        ]


class Groups:
    def test_rebalances(self, ask: Ask) -> None:
        rows = ask("rebalances")
        assert columns(
            rows,
            "group_id",
            "prev_generation",
            "generation",
            "began_after",
            "began_before",
            "ended_before",
        ) == [
            ("billing", 11, 12, 10.0, 20.1, 27.0),
            ("billing", 12, 14, 30.0, 34.2, 35.3),
            ("billing", 14, 15, 69.5, 72.0, 73.0),
            ("billing", 15, 16, 72.5, 75.0, 76.0),
            ("billing", 16, 17, 75.5, 78.0, 79.0),
            ("search", 4, 5, 80.0, 80.0, 81.2),
            ("billing", 17, 18, 78.5, 81.0, 82.0),
            ("billing", 18, 19, 81.5, 84.0, 85.0),
            ("shop", 2, 3, 85.0, 85.0, None),
            ("billing", 19, 20, 84.5, 87.0, 88.0),
            ("audit", 7, 8, None, 95.0, 95.02),
        ]
        first, *_, audit = rows
        figures = (
            "duration_ms_min",
            "duration_ms_max",
            "reasons",
            "members_joined",
            "members_left",
            "partitions_kept",
            "partitions_moved",
            "stickiness",
        )
        assert columns([first, audit], *figures) == [
            (6_900, 17_000, ["member_left"], 0, 1, 1, 1, 0.5),
            (20, None, ["static_member_left"], 0, 1, 1, 1, 0.5),
        ]
        assert columns(
            ask("rebalances", broker=1), "began_before", "followed_coordinator_move"
        ) == [
            (20.1, True),
            (34.2, False),
        ]
        # Whose members had partitions of the topic.
        assert columns(ask("rebalances", topic="logs"), "group_id", "began_before") == [
            ("search", 80.0)
        ]
        assert columns(ask("rebalances", group="shop"), "began_before") == [(85.0,)]
        assert ask("rebalances", cluster="other") == []

    def test_group_stability(self, ask: Ask) -> None:
        rows = ask("group_stability")
        # The crash loop may have taken from 69.5 to 88 without a break: its time counts once.
        assert columns(
            rows, "group_id", "rebalances", "going_on", "seconds_min", "seconds_max"
        ) == [
            ("billing", 8, 0, pytest.approx(14.0), pytest.approx(40.8)),
            ("shop", 1, 1, 15.0, 15.0),
            ("search", 1, 0, 1.2, 1.2),
            ("audit", 1, 0, 0.02, None),
            ("fresh", 0, 0, 0.0, 0.0),
            ("reports", 0, 0, 0.0, 0.0),
        ]
        billing, *_ = rows
        assert (
            billing["per_hour"],
            billing["percent_min"],
            billing["percent_max"],
        ) == pytest.approx((8 * 3600 / 95, 1400 / 95, 4080 / 95))
        assert columns(
            [billing],
            "reasons",
            "followed_coordinator_moves",
            "storms",
            "crash_loops",
            "skipped_generations",
        ) == [(["member_joined", "member_left"], 1, 1, 1, 0)]
        assert columns(ask("group_stability", group="audit"), "percent_max", "storms") == [
            (None, 0)
        ]
        # Not made yet: it was not stable either.
        before = ask("group_stability", until="2026-11-01T12:00:50Z")
        assert "fresh" not in {row["group_id"] for row in before}

    def test_who_joined_and_left(self, ask: Ask) -> None:
        rows = ask("who_joined_and_left")
        who = (
            "began_before",
            "group_id",
            "generation",
            "change",
            "membership",
            "client_id",
            "client_host",
            "member_id",
        )
        assert columns(rows, *who) == [
            (20.1, "billing", 12, "left", "dynamic", "billing-2", "/10.0.0.2", "b2"),
            (30.0, "audit", 7, "static_restart", "static", "audit", "/10.0.0.4", "a2"),
            (34.2, "billing", 14, "joined", "dynamic", "billing-2", "/10.0.0.2", "b3"),
            (72.0, "billing", 15, "joined", "dynamic", "billing-3", "/10.0.0.3", "c1"),
            (75.0, "billing", 16, "left", "dynamic", "billing-3", "/10.0.0.3", "c1"),
            (78.0, "billing", 17, "joined", "dynamic", "billing-3", "/10.0.0.3", "c2"),
            (80.0, "search", 5, "joined", "dynamic", "search", "/10.0.0.7", "s2"),
            (81.0, "billing", 18, "left", "dynamic", "billing-3", "/10.0.0.3", "c2"),
            (84.0, "billing", 19, "joined", "dynamic", "billing-3", "/10.0.0.3", "c3"),
            (87.0, "billing", 20, "left", "dynamic", "billing-3", "/10.0.0.3", "c3"),
            (95.0, "audit", 8, "left", "static", "audit", "/10.0.0.5", "a9"),
        ]
        left, restarted, joined, *_ = rows
        partitions = ("partitions_before", "partitions_after", "prev_member_id", "instance_id")
        assert columns([left, restarted, joined], *partitions) == [
            (1, 0, None, None),
            (None, None, "a1", "audit-0"),
            (0, 1, None, None),
        ]

    def test_crash_loops(self, ask: Ask) -> None:
        figures = (
            "client_id",
            "client_host",
            "joined",
            "left",
            "member_ids",
            "first_before",
            "last_before",
            "in_crash_loop",
        )
        loop = ("billing-3", "/10.0.0.3", 3, 3, 3, 72.0, 87.0, True)
        assert columns(ask("crash_loops"), *figures) == [loop]
        # One of a loop's joins is enough to tell it; who joined twice is told, and called no loop.
        later = {"since": "2026-11-01T11:45:00Z", "until": "2026-11-01T12:01:13Z"}
        assert columns(ask("crash_loops", **later), *figures) == [
            ("billing-3", "/10.0.0.3", 1, 0, 1, 72.0, 72.0, True),
            ("billing-2", "/10.0.0.2", 2, 1, 2, -600.5, 34.2, False),
        ]
        assert ask("crash_loops", group="audit") == []

    def test_stuck_groups(self, ask: Ask) -> None:
        figures = (
            "group_id",
            "state",
            "began_after",
            "began_before",
            "seconds_min",
            "seconds_max",
            "coordinator",
        )
        # The log has no record of reports, whose rebalance never ended; of shop it has the very
        # begin.
        assert columns(ask("stuck_groups"), *figures) == [
            ("reports", "PreparingRebalance", 20.0, 30.1, 69.9, 80.0, 2),
            ("shop", "Reconciling", 85.0, 85.0, 15.0, 15.0, 2),
        ]
        assert columns(ask("stuck_groups", until="2026-11-01T12:00:25Z"), *figures) == [
            ("billing", "PreparingRebalance", 10.0, 20.1, 4.9, 15.0, 1)
        ]
        assert columns(ask("stuck_groups", at_least=60), "group_id") == [("reports",)]
        assert columns(ask("stuck_groups", at_least=70), "group_id") == []
        assert columns(
            ask("stuck_groups", until="2026-11-01T12:01:26Z", broker=2), "group_id", "state"
        ) == [
            ("reports", "PreparingRebalance"),
            ("shop", None),
        ]

    def test_rebalance_cost(self, ask: Ask) -> None:
        names = ("began_before", "partitions_committed", "pause_ms_min", "pause_ms_max")
        names += (
            "lag_before",
            "lag_peak",
            "lag_back_after",
            "lag_back_before",
            "reprocessed_min",
            "reprocessed_max",
        )
        assert columns(ask("rebalance_cost"), *names) == [
            (20.1, 2, 14_000, 24_000, 22, 100, 40.0, 50.0, 20, 95),
            (34.2, 1, None, None, None, None, None, None, 0, None),
        ]
        assert ask("rebalance_cost", topic="clicks") == ask("rebalance_cost", group="search") == []
        assert len(ask("rebalance_cost", topic="orders", broker=1)) == 2

    def test_slowest_to_recover(self, ask: Ask) -> None:
        names = (
            "topic",
            "partition",
            "began_before",
            "seconds_min",
            "seconds_max",
            "pause_ms_max",
            "pause_unknown",
        )
        assert columns(ask("slowest_to_recover"), *names) == [
            ("orders", 1, 34.2, 65.8, None, None, "no_commit_after"),
            ("orders", 1, 27.0, 13.0, 23.0, 24_000, None),
            ("orders", 0, 27.0, 0.0, 3.0, 5_000, None),
        ]
        assert ask("slowest_to_recover", topic="clicks") == []

    def test_lag(self, ask: Ask) -> None:
        figures = (
            "group_id",
            "burrow_status",
            "lag_min",
            "lag_max",
            "began_after",
            "began_before",
            "seconds_min",
        )
        # Offsets are asked for each minute, 0.1 s after a poll that took 0.1 s.
        assert columns(ask("lag"), *figures) == [
            ("shop", "WARNING", 108, 111, None, -599.8, 699.8),
            ("billing", "OK", 0, 10, 0.1, 60.2, 39.8),
        ]
        assert columns(ask("lag", at_least=40), "group_id") == [("shop",)]
        assert columns(
            ask("lag", group="billing"), "seconds_max", "partitions_without_progress"
        ) == [(99.9, 0)]
        assert columns(
            ask("lag", until="2026-11-01T11:56:30Z"), "group_id", "lag_max", "began_after"
        ) == [
            ("shop", 106, None),
            ("reports", 1, None),
            ("audit", 1, -299.9),
        ]
        assert ask("lag", cluster="another") == []

    def test_lag_around(self, ask: Ask) -> None:
        names = ("began_before", "seconds_after", "lag_min", "lag_max", "reasons")
        rows = columns(ask("lag_around", group="billing", until="2026-11-01T12:01:10Z"), *names)
        # The second rebalance begins before lag is asked for again: the first has none of after it.
        assert [row for row in rows if row[1] > -60] == [
            (27.0, -26.8, 0, 0, ["member_left"]),
            (34.2, -34.0, 0, 0, ["member_joined"]),
            (34.2, 26.0, 0, 10, ["member_joined"]),
        ]
        assert min(row[1] for row in rows) > -360
        assert ask("lag_around", group="search") == []

    def test_after_coordinator_moves(self, ask: Ask) -> None:
        rows = ask("after_coordinator_moves", group="billing")
        move = (
            "began_after",
            "began_before",
            "prev_broker_id",
            "broker_id",
            "move_reason",
            "rebalances",
            "first_began_before",
        )
        assert columns(rows, *move) == [
            (0.0, 10.1, 2, 1, "failover", 1, 20.1),
            (40.0, 50.1, 1, 2, "preferred", 0, None),
        ]
        # What Spark collects of no rows is empty, with DuckDB null.
        assert [row["reasons"] or [] for row in rows] == [["member_left"], []]
        everybody = ask("after_coordinator_moves")
        assert [row["group_id"] for row in everybody if row["rebalances"]] == ["billing"]
        assert len(everybody) == 10

    def test_timeline(self, ask: Ask) -> None:
        told = ("began_after", "began_before", "what", "broker_id", "before", "after", "inferred")
        asked = ask("timeline", group="billing", until="2026-11-01T12:01:12Z")
        others = {row["what"] for row in asked if not row["group_id"]}
        assert {"broker_gone", "broker_listed", "broker_stale", "broker_stale_no_more"} <= others
        assert all(what.startswith(("broker_", "controller_", "config_")) for what in others)
        rows = [row for row in asked if row["group_id"]]
        assert columns(rows, *told) == [
            (0.0, 10.1, "coordinator_moved", 1, "2", "1", None),
            # Files are skipped by the time that the log has: that of its end.
            (10.0, 27.0, "rebalance_began", 1, "generation 11, 2 members", None, "member_left"),
            (
                27.0,
                27.0,
                "rebalance_ended",
                1,
                None,
                "completed, generation 12, 1 member",
                "member_left",
            ),
            (30.0, 34.2, "rebalance_began", 1, "generation 12, 1 member", None, "member_joined"),
            (
                35.3,
                35.3,
                "rebalance_ended",
                1,
                None,
                "completed, generation 14, 2 members",
                "member_joined",
            ),
            (40.0, 50.1, "coordinator_moved", 2, "1", "2", None),
            (None, 72.0, "crash_loop", None, None, "3 rebalances, billing-3, /10.0.0.3", None),
            (69.5, 72.0, "rebalance_began", 2, "generation 14, 2 members", None, "member_joined"),
            (None, 72.0, "storm", None, None, "6 rebalances", None),
        ]
        others = [row for group in ("audit", "fresh") for row in ask("timeline", group=group)]
        assert [row[1:] for row in columns(others, *told) if row[2].startswith("group_")] == [
            (30.0, "group_static_restart", None, "a1", "a2", None),
            (55.0, "group_created", None, None, "share", None),
        ]
        assert columns(ask("timeline", topic="__consumer_offsets", broker=1), "what", "group_id")[
            -1
        ] == (
            "leader_changed",
            None,
        )
