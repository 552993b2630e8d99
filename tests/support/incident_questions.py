"""Questions about the known incident: test_incident.py asks DuckDB, tests/spark/test_questions.py
asks Spark.
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
    "incident": None,
    "slo": None,
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
        ) == [(2, 1, 0, 4, 19.9, 10.1), (3, 1, 0, 3, 29.9, 20.1)]


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
        assert columns(rows, "known_lost_min", "known_lost_max") == [(None, None)], "nobody asked"

    def test_leader_skew(self, ask: Ask) -> None:
        rows = ask("leader_skew")
        assert columns(
            rows,
            "broker_id",
            "leads_before",
            "leads_after",
            "preferred_for_after",
            "imbalance_worst",
        ) == [(1, 1, 1, 1, 0.0), (2, 3, 3, 3, 1.0), (3, 1, 1, 1, 1.0)]

    def test_away_from_preferred(self, ask: Ask) -> None:
        rows = ask("away_from_preferred")
        assert columns(
            rows, "broker_id", "since", "until", "led_elsewhere_most", "imbalance_worst"
        ) == [(2, 10.1, 50.1, 3, 1.0), (3, 20.1, 40.1, 1, 1.0)]

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

    def test_availability(self, ask: Ask) -> None:
        """All of it lies in a marked window."""
        told = ("topic", "bad_for", "spent_s_min", "spent_s_max", "not_observed_s")
        rows = ask("availability", slo="99.95")
        assert columns(rows, *told) == [
            (None, "writes", 39.6, 160.4, 0),
            (None, "reads", 19.8, 60.2, 0),
            # Nobody was told the min ISR of __consumer_offsets.
            ("__consumer_offsets", "writes", 0, 40, 0),
            ("clicks", "reads", 9.9, 30.1, 0),
            ("clicks", "writes", 9.9, 30.1, 0),
            ("logs", "reads", 9.9, 30.1, 0),
            ("logs", "writes", 9.9, 30.1, 0),
            ("orders", "writes", 19.8, 60.2, 0),
        ]
        assert columns(rows, "marked_s_min", "marked_s_max") == columns(rows, *told[2:4])
        assert rows[0]["budget_s"] == pytest.approx(0.0005 * 5 * 120)


class Reviews:
    def test_restarts(self, ask: Ask) -> None:
        (restart,) = rows = ask("restarts")
        bounds = ("began_after", "began_before", "ended_after", "ended_before")
        assert columns(rows, *bounds) == [(0.0, 10.1, 50.0, 60.1)]
        assert (restart["brokers"], restart["seconds_min"], restart["seconds_max"]) == (
            [2, 3],
            39.9,
            60.1,
        )
        assert restart["preferred_before"] == 50.1, "broker 2 led again what it should lead"
        assert ask("restarts", broker=3) == rows
        assert ask("restarts", broker=1) == ask("restarts", cluster="other") == []
        assert ask("restarts", since="2026-11-01T12:01:10Z") == []

    def test_restarts_compared(self, ask: Ask) -> None:
        rows = ask("restarts_compared")
        told = ("brokers", "seconds_min", "seconds_max", "out_s_min", "out_s_max")
        assert columns(rows, *told) == [([2, 3], 39.9, 60.1, 49.8, 90.2)]
        assert columns(rows, "usual_seconds_min", "usual_out_s_max") == [(None, None)]
        assert ask("restarts_compared", broker=1) == []

    def test_restart_steps(self, ask: Ask) -> None:
        rows = ask("restart_steps")
        told = ("broker_id", "stop", "began_before", "seconds_min", "seconds_max")
        assert columns(rows, *told) == [
            (2, "not_controlled", 10.1, 19.9, 40.1),
            (3, "controlled", 20.1, 29.9, 50.1),
        ]
        assert columns(rows, "overlap_s_min", "overlap_s_max") == [(9.9, 30.1), (9.9, 30.1)]
        # Two partitions of orders. Nobody was told the min ISR of __consumer_offsets.
        under = ("under_min_isr_s_min", "under_min_isr_s_max")
        assert columns(rows, *under) == [(19.8, None), (19.8, 60.2)]
        assert ask("restart_steps", broker=3) == rows[1:]

    def test_restart_rebalances(self, ask: Ask) -> None:
        rows = ask("restart_rebalances")
        told = ("brokers", "group_id", "rebalances", "reasons", "pause_ms_min", "pause_ms_max")
        assert columns(rows, *told) == [([2, 3], "billing", 1, ["member_left"], 14_000, 24_000)]
        assert ask("restart_rebalances", group="search") == []

    def test_placement(self, ask: Ask) -> None:
        rows = ask("placement")
        told = ("topic", "partition", "finding", "partitions", "replicas", "racks")
        assert columns(rows, *told) == [
            ("clicks", 0, "shared_rack", 1, [2, 3], ["b", "b"]),
            ("logs", 0, "rf_1", 1, [3], ["b"]),
            # There are no more racks.
            ("orders", 0, "too_few_racks", 2, [1, 2, 3], ["a", "b", "b"]),
        ]
        assert {*columns(rows, "began_after", "began_before", "move")} == {(None, 0.1, None)}
        assert columns(ask("placement", broker=1), "topic") == [("orders",)]
        assert columns(ask("placement", topic="logs"), "finding") == [("rf_1",)]

    def test_one_more_loss(self, ask: Ask) -> None:
        rows = ask("one_more_loss")
        told = ("loss", "effect", "seconds_min", "seconds_max", "partitions", "topics", "always")
        # Both brokers of rack b: what lies there alone is always so.
        assert columns(rows, *told) == [
            (
                "broker",
                "offline",
                29.8,
                55.1,
                4,
                ["__consumer_offsets", "clicks", "orders"],
                ["logs"],
            ),
            (
                "rack",
                "offline",
                19.9,
                35.1,
                3,
                ["__consumer_offsets", "orders"],
                ["clicks", "logs"],
            ),
            ("broker", "under_min_isr", 0.0, 15.1, 2, ["orders"], []),
            ("rack", "under_min_isr", 0.0, 0.0, 0, [], ["orders"]),
        ]
        assert columns(ask("one_more_loss", topic="clicks"), "seconds_min")[0] == (9.9,)

    def test_leaders_by_rack(self, ask: Ask) -> None:
        told = ("rack", "brokers_after", "leads_before", "leads_after", "preferred_for_after")
        assert columns(ask("leaders_by_rack"), *told) == [("a", 1, 1, 1, 1), ("b", 2, 4, 4, 4)]
        meanwhile = ask("leaders_by_rack", until="2026-11-01T12:00:30Z")
        assert columns(meanwhile, "rack", "leads_before", "leads_after", "percent_after") == [
            ("a", 1, 3, 100),
            ("b", 4, 0, 0),
        ]

    def test_reassignments(self, ask: Ask) -> None:
        rows = ask("reassignments")
        bounds = ("began_after", "began_before", "ended_after", "ended_before")
        assert columns(rows, "topic", "partition", *bounds) == [("logs", 0, 63, 63, 72, 72)]
        told = ("adding_replicas", "removing_replicas", "outcome", "racks_before", "racks_after")
        assert columns(rows, *told) == [([1], [3], "cancelled", 1, 1)]
        assert ask("reassignments", broker=1) == rows
        assert ask("reassignments", broker=2) == ask("reassignments", topic="orders") == []

    def test_marks(self, ask: Ask) -> None:
        told = ("cluster", "since", "until", "text", "made_by")
        assert columns(ask("marks"), *told) == [(None, -60, 105, "new disks", "operator")]
        assert ask("marks", cluster="prod") == ask("marks")
        assert ask("marks", since="2026-11-01T12:01:46Z", until="2026-11-02") == []

    def test_throttles(self, ask: Ask) -> None:
        told = ("of", "resource_name", "name", "value", "began_before", "reassignments")
        throttle = ("broker", "3", "follower.replication.throttled.rate", "1000", 64.0)
        assert columns(ask("throttles"), *told, "left_since") == [(*throttle, 0, 72.0)]
        running = ask("throttles", until="2026-11-01T12:01:05Z")
        assert columns(running, *told, "left_since") == [(*throttle, 1, None)]
        assert ask("throttles", broker=2) == ask("throttles", topic="orders") == []
