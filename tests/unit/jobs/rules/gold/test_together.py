"""Brokers that leave ISRs of one leader at one moment: it may be the leader that hung."""

import pytest

from tests.support.gold_cases import Seen, T, departures, history_of, in_sync, later
from tests.support.isr_rounds import CHANGES, folded


def test_followers_of_a_leader_that_hangs_leave_together_and_are_back() -> None:
    rows = later(Seen("123"), Seen("1"), Seen("123"))
    signs = ["back", "together"]
    assert departures(rows, "broker_id", "cause", "signs") == [
        (b, "leader_stalled", signs) for b in (2, 3)
    ]
    alone = later(Seen("123"), Seen("13"), Seen("123"))
    assert departures(alone, "cause", "signs") == [("lagging", ["back"])]
    not_back = later(Seen("123"), Seen("1"), Seen("1"))
    assert departures(not_back, "cause") == [("lagging",)] * 2


def test_followers_of_one_leader_may_leave_in_several_partitions() -> None:
    def seen(one: str, other: str) -> Seen:
        return Seen({T: in_sync(one, "12"), ("u", 0): in_sync(other, "13")})

    rows = later(seen("12", "13"), seen("1", "1"), seen("12", "13"))
    assert departures(rows, "broker_id", "cause") == [(2, "leader_stalled"), (3, "leader_stalled")]


def of_two(one: str, other: str, wait: float = 10) -> Seen:
    """By a record of the controllers' log: two partitions of broker 1, with one follower each."""
    return Seen(
        {T: in_sync(one, "12", leader=1), ("u", 0): in_sync(other, "13", leader=1)},
        wait,
        by_log=True,
    )


@pytest.mark.parametrize(
    ("wait", "cause"),
    [
        # An AlterPartition of both, with one time; and one of the first alone, another of what
        # waited for its answer.
        (0, "leader_stalled"),
        (0.03, "leader_stalled"),
        (0.5, "leader_stalled"),
        (0.501, "lagging"),
    ],
)
def test_the_log_shows_the_followers_of_a_leader_that_hangs_a_record_each(
    wait: float, cause: str
) -> None:
    seen = [
        of_two("12", "13"),
        of_two("1", "13"),
        of_two("1", "1", wait),
        of_two("12", "1", 1),
        of_two("12", "13", 0),
    ]
    assert departures(later(*seen), "broker_id", "cause") == [(2, cause), (3, cause)]
    # In whatever rounds the records are taken.
    rows, _ = folded(history_of(*seen), *range(len(seen)), narrow=True)
    assert {"together" in row["signs"] for row in rows[CHANGES] if row["change"] == "left"} == {
        wait <= 0.5
    }


def test_followers_that_leave_at_one_moment_are_together_if_one_leaves_more_partitions() -> None:
    def seen(u: str, v: str, w: str, wait: float = 0) -> Seen:
        of = {"u": (u, "12"), "v": (v, "12"), "w": (w, "13")}
        partitions = {
            (topic, 0): in_sync(isr, replicas, leader=1) for topic, (isr, replicas) in of.items()
        }
        return Seen(partitions, wait, by_log=True)

    # Broker 2 left u a second before: that is another pass, in which no other broker left.
    rows = later(
        seen("12", "12", "13"),
        seen("1", "12", "13", 10),
        seen("1", "1", "13", 1),
        seen("1", "1", "1"),
    )
    found = departures(rows, "topic", "signs")
    assert found == [("u", []), ("v", ["together"]), ("w", ["together"])]


def test_polls_at_one_time_are_not_one_moment() -> None:
    """A clock that was set back: times of history do not fall."""

    def seen(one: str, other: str, wait: float = 10) -> Seen:
        return Seen(
            {T: in_sync(one, "12", leader=1), ("u", 0): in_sync(other, "13", leader=1)}, wait
        )

    rows = later(seen("12", "13"), seen("1", "13"), seen("1", "1", 0), seen("12", "13", 1))
    assert departures(rows, "cause") == [("lagging",)] * 2


def test_followers_of_two_leaders_that_leave_at_one_moment_are_not_together() -> None:
    def seen(one: str, other: str) -> Seen:
        return Seen({T: in_sync(one, "13"), ("u", 0): in_sync(other, "24")}, brokers="1234")

    rows = later(seen("13", "24"), seen("1", "2"), seen("13", "24"))
    assert departures(rows, "cause", "signs") == [("lagging", ["back"])] * 2


def test_who_was_out_when_a_partition_was_first_seen_left_with_nobody() -> None:
    before = {T: in_sync("13", "13")}
    rows = later(Seen(before), Seen({T: in_sync("1", "13"), ("u", 0): in_sync("1", "12")}))
    assert departures(rows, "change", "signs") == [("initially_out", []), ("left", [])]


def test_one_broker_that_leaves_two_partitions_leaves_alone() -> None:
    def seen(isr: str) -> Seen:
        return Seen({T: in_sync(isr, "12"), ("u", 0): in_sync(isr, "12")})

    rows = later(seen("12"), seen("1"), seen("12"))
    assert departures(rows, "cause", "signs") == [("lagging", ["back"])] * 2
