"""Questions about groups, asked of the known incident."""

import pytest

from tests.support.incident_questions import Ask, columns


class Groups:
    def test_across_racks(self, ask: Ask) -> None:
        """The members of billing tell a rack, that of broker 1."""
        rows = ask("across_racks", group="billing", since="2026-11-01T12:00:30Z")
        told = ("generation", "partitions", "across_racks_min", "across_racks_max")
        assert columns(rows, *told) == [
            *((generation, 2, 0, 0.5) for generation in (15, 16, 17, 18, 19, 20)),
            (14, 2, 0, 0),
        ], "broker 2 leads one of them from 50 s on"
        assert ask("across_racks", group="search") == ask("across_racks", cluster="other") == []

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
        ) == [(20.1, True), (34.2, False)]
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
        # One join of a loop is enough. A member that joined twice has a row, and is no loop.
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
        ) == [("reports", "PreparingRebalance"), ("shop", None)]

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
        ) == [("shop", 106, None), ("reports", 1, None), ("audit", 1, -299.9)]
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
        ] == ("leader_changed", None)
