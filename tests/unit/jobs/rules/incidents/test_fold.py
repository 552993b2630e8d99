"""Incidents: which findings open one, when it is over, which id it keeps, and its events."""

from datetime import timedelta

import pytest

from jobs.configuration.severities import SEVERITIES, Severity
from tests.support.incident_rounds import Rounds, at, finding, left, level, missing


def test_a_broker_that_fails_and_comes_back_is_one_incident() -> None:
    found = [missing(3, 10, 40), left(3, 10, 50), level("under_replicated", (3,), 10, 50)]
    rounds = Rounds().begun().rounds(found, 12, 42, 52, 171)
    row = rounds.incident
    assert (row["kind"], row["class"], row["cause"], row["cause_of"]) == (
        *("broker_missing", "incident"),
        *("broker_down", "3"),
    )
    assert (row["began_after"], row["began_before"]) == (at(8), at(10))
    assert (row["ended_after"], row["ended_before"]) == (at(48), at(50))
    assert row["end_reason"] == "recovered"
    assert (row["brokers"], row["out_of_sync_most"], row["severity"]) == ([3], 10, "info")
    assert rounds.told() == ["opened", "ended"]


def test_it_is_over_only_once_two_quiet_minutes_were_observed() -> None:
    rounds = Rounds().begun()
    made = rounds.round([missing(3, 10, 40)], 42)
    assert rounds.incident["ended_before"] is None
    assert made.due_at == at(40 + 120)
    rounds.round([missing(3, 10, 40)], 159)
    assert rounds.incident["ended_before"] is None
    rounds.round([missing(3, 10, 40)], 160)
    assert rounds.incident["ended_before"] == at(40)


def test_the_same_broker_within_a_quarter_of_an_hour_reopens_it() -> None:
    found = [missing(3, 10, 40), missing(3, 700, 720)]
    rounds = Rounds().begun().rounds(found, 20, 170, 701, 900)
    assert rounds.incident["reopened"] == 1
    assert rounds.told() == ["opened", "ended", "reopened", "ended"]


def test_the_same_broker_later_is_another_one() -> None:
    found = [missing(3, 10, 40), missing(3, 1_000, 1_020)]
    rounds = Rounds().begun().rounds(found, 20, 170, 1_001, 1_200)
    first, second = rounds.incidents
    assert first["id"] != second["id"]
    assert rounds.told() == ["opened", "ended", "opened", "ended"]


def test_nothing_opens_an_incident_but_the_closed_list() -> None:
    found = [
        left(3, 10),
        level("under_replicated", (3,), 10),
        finding("rebalance", 12, group_id="g"),
    ]
    assert not Rounds().begun().rounds(found, 20, 200).incidents


def test_brokers_of_one_rack_are_one_incident() -> None:
    found = [missing(2, 10, rack="b"), missing(3, 18, rack="b"), missing(4, 14, rack="c")]
    first, second = Rounds().begun().rounds(found, 20).incidents
    assert (first["cause"], first["cause_of"], first["brokers"]) == ("rack", "b", [2, 3])
    assert (second["cause"], second["cause_of"]) == ("broker_down", "4")
    assert first["overlaps"] == [second["id"]]
    assert second["overlaps"] == [first["id"]]


def test_brokers_of_one_rack_far_apart_are_two() -> None:
    found = [missing(2, 10, rack="b"), missing(3, 40, rack="b")]
    assert len(Rounds().begun().rounds(found, 50).incidents) == 2


def test_a_rolling_restart_is_one_incident_of_maintenance() -> None:
    found = [
        missing(broker, 300 * broker, 300 * broker + 40, source="log", is_controlled=True)
        for broker in (1, 2, 3)
    ]
    rounds = Rounds().begun().rounds(found, 310, 480, 610, 780, 910, 1_200)
    row = rounds.incident
    assert (row["class"], row["steps"], row["severity"]) == ("maintenance", 3, "info")
    assert (row["began_controlled"], row["is_escalated"]) == (True, False)
    assert (row["cause"], row["cause_sureness"]) == ("controlled_shutdown", "exact")
    assert row["reopened"] == 2


def test_brokers_that_were_killed_one_after_the_other_are_no_restart() -> None:
    found = [
        missing(broker, 300 * broker, 300 * broker + 40, source="log", is_controlled=False)
        for broker in (1, 2)
    ]
    rounds = Rounds().begun().rounds(found, 310, 480, 610, 780)
    assert [row["class"] for row in rounds.incidents] == ["incident", "incident"]


@pytest.mark.parametrize(
    ("found", "until"),
    [
        ([missing(3, 10, source="log", is_controlled=True)], 911),
        (
            [
                missing(3, 10, 40, source="log", is_controlled=True),
                left(3, 10, 40, source="log"),
                level("under_min_isr", (3,), 10, 40),
            ],
            60,
        ),
    ],
    ids=["too long", "under min ISR"],
)
def test_a_controlled_stop_is_escalated(found: list, until: float) -> None:
    row = Rounds().begun().rounds(found, until).incident
    assert (row["class"], row["is_escalated"]) == ("maintenance", True)
    assert row["severity"] == "ticket"


def test_what_lasts_at_the_first_start_is_one_row() -> None:
    rounds = Rounds().rounds([missing(3, 10), missing(5, 100, rack="x")], 200, 210)
    assert rounds.told() == ["baseline"]
    assert rounds.events[0]["detail"] == "2 incidents open"
    assert rounds.events[0]["incident_id"] is None


def test_under_min_isr_is_a_page_after_a_minute_though_nothing_changes() -> None:
    found = [left(3, 10), level("under_min_isr", (3,), 10)]
    rounds = Rounds().begun()
    assert rounds.round(found, 20).due_at == at(70)
    assert rounds.incident["severity"] == "ticket"
    rounds.round(found, 70)
    assert rounds.incident["severity"] == "page"
    assert rounds.told() == ["opened", "worse"]


def test_severities_can_be_configured() -> None:
    table = {**SEVERITIES, "broker_missing": Severity(page=timedelta(seconds=5))}
    assert Rounds(table).begun().rounds([missing(3, 10)], 20).incident["severity"] == "page"


def test_offline_eases_and_ends() -> None:
    found = [missing(3, 10, 60), level("partition_offline", (3,), 10, 30)]
    rounds = Rounds().begun().rounds(found, 20, 35, 190)
    assert rounds.told() == ["opened", "eased", "ended"]
    row = rounds.incident
    assert (row["offline"], row["offline_most"], row["worst_level"]) == (0, 4, "offline")


def test_a_cause_is_revised_when_a_slower_source_says_more() -> None:
    polls = [missing(3, 10, 60)]
    log = [*polls, missing(3, 9, 55, source="log", is_controlled=True)]
    rounds = Rounds().begun().rounds(polls, 20).rounds(log, 30)
    row = rounds.incident
    assert (row["cause"], row["class"]) == ("controlled_shutdown", "maintenance")
    assert row["began_after"] == row["began_before"] == at(9)
    assert rounds.told() == ["opened", "revised"]


def test_two_become_one_when_the_link_is_known() -> None:
    level_alone = [level("under_min_isr", (3,), 12)]
    rounds = Rounds().begun().rounds(level_alone, 20)
    id_ = rounds.incident["id"]
    rounds.rounds([missing(5, 30), *level_alone], 40)
    assert len(rounds.incidents) == 2
    rounds.rounds([missing(5, 30), *level_alone, missing(3, 10), left(3, 11)], 50)
    first, second = rounds.incidents
    assert first["id"] == id_
    assert first["brokers"] == [3]
    assert second["brokers"] == [5]


def test_one_that_another_source_takes_back_is_withdrawn() -> None:
    rounds = Rounds().begun().rounds([missing(3, 10)], 20).rounds([], 30)
    row = rounds.incident
    assert (row["end_reason"], row["ended_before"], row["is_live"]) == ("withdrawn", at(30), False)
    assert rounds.told() == ["opened", "withdrawn"]
    assert not rounds.links


def test_a_broker_that_was_taken_away_is_over_after_a_day() -> None:
    day = 86_400
    rounds = Rounds().begun().rounds([missing(3, 10)], 20, 3_600, day + 9)
    assert rounds.incident["ended_before"] is None
    made = rounds.round([missing(3, 10)], day + 200)
    row = rounds.incident
    assert (row["ended_before"], row["end_reason"]) == (at(day + 10), "removed")
    assert made.due_at is not None
    # And it stays over.
    rounds.rounds([missing(3, 10)], day + 8_000, day + 9_000, 3 * day)
    assert (len(rounds.incidents), rounds.told()[-1]) == (1, "ended")


def test_a_broker_that_isrs_lack_is_missed_for_as_long() -> None:
    found = [missing(3, 10), left(3, 10)]
    rounds = Rounds().begun().rounds(found, 20, 90_000)
    assert rounds.incident["ended_before"] is None


def test_a_long_incident_keeps_what_nobody_reads_again() -> None:
    """Rows of gold that ended more than two hours ago are not there any more."""
    first = [missing(3, 10), left(3, 10), finding("leader_changed", 10, 10, broker_id=3)]
    rounds = Rounds().begun().rounds(first, 20)
    rounds.rounds(first[:2], 9_000)
    assert {row["kind"] for row in rounds.links} == {"broker_missing", "isr_left", "leader_changed"}


def test_a_round_without_news_changes_nothing() -> None:
    found = [missing(3, 10), left(3, 10)]
    rounds = Rounds().begun().rounds(found, 80)
    made = rounds.round(found, 90)
    assert (made.incidents, made.links, made.events) == ([], [], [])


def test_a_group_that_rebalances_for_five_minutes_is_stuck() -> None:
    found = [finding("rebalance", 10, group_id="billing")]
    rounds = Rounds().begun().rounds(found, 20, 309)
    assert not rounds.incidents
    row = rounds.rounds(found, 311).incident
    assert (row["kind"], row["cause"], row["group_ids"]) == ("group_stuck", "group", ["billing"])


def test_a_quorum_that_elects_three_times_in_ten_minutes_flaps() -> None:
    found = [
        finding("controller_elected", second, second, source="log", broker_id=100, brokers=())
        for second in (10, 200, 500)
    ]
    rounds = Rounds().begun().rounds(found, 250)
    assert not rounds.incidents
    assert rounds.rounds(found, 510).incident["kind"] == "quorum_flapping"


def test_a_finding_beside_incidents_has_events_and_overlaps_none() -> None:
    beside = finding("one_in_sync", 10, broker_id=2, topic="orders", partitions=4)
    rounds = Rounds().begun()
    assert rounds.round([beside, missing(3, 20)], 30).due_at == at(20 + 60)
    first = rounds.round([beside, missing(3, 20)], 611)
    assert [row["kind"] for row in first.incidents] == ["one_in_sync", "broker_missing"]
    row, other = rounds.incidents
    assert (row["class"], row["severity"], row["topics"]) == ("finding", "ticket", ["orders"])
    assert (row["overlaps"], other["overlaps"]) == ([], [])
    # The setting, or the placement, is another one: nobody says since when.
    rounds.round([missing(3, 20)], 620)
    row = rounds.incidents[0]
    assert (row["end_reason"], row["ended_after"], row["ended_before"]) == (
        *("recovered", at(611)),
        at(620),
    )
    assert rounds.told() == ["opened", "opened", "worse", "ended"]


def test_replicas_that_share_a_rack_for_ten_minutes_are_a_finding() -> None:
    placed = finding("shared_rack", 10, topic="orders", partitions=4)
    rounds = Rounds().begun()
    assert rounds.round([placed], 500).due_at == at(10 + 600)
    assert not rounds.incidents
    # Another state of a partition is known: the finding is as old as it was.
    later = finding("shared_rack", 300, topic="orders", partitions=3)
    row = rounds.rounds([placed], 620).rounds([later], 640).incident
    assert (row["kind"], row["class"], row["severity"]) == ("shared_rack", "finding", "info")
    assert (row["began_before"], row["ended_before"]) == (at(10), None)
    assert rounds.told() == ["opened"]


def test_a_group_that_is_behind_is_a_finding_after_ten_minutes() -> None:
    states = [
        finding("lag", second, second + 60, within=0, group_id="billing", cause="WARNING")
        for second in range(10, 1_200, 60)
    ]
    rounds = Rounds().begun()
    made = rounds.round(states, 500)
    assert not rounds.incidents
    assert made.due_at == at(10 + 600)
    row = rounds.rounds(states, 620).incident
    assert (row["kind"], row["class"], row["began_before"]) == ("group_behind", "finding", at(10))


def test_a_rebalance_is_looked_at_again_once_it_may_be_stuck() -> None:
    found = [finding("rebalance", 10, group_id="billing")]
    assert Rounds().begun().round(found, 20).due_at == at(310)
