"""Why a broker is out of ISRs, inferred, and which of its absences are one incident."""

from datetime import timedelta

import pytest

from jobs.rules.gold.causes import Broker, cause, due_at, give_sign
from tests.support.gold_cases import Seen, T, departures, in_sync, later, rows_of
from tests.support.isr_rounds import CHANGES, INCIDENTS
from tests.support.silver_rows import START, Row

CASES = {
    "broker_down: it is not listed": ("gone", "12"),
    "broker_down: it lost a leadership as only a broker that failed does": ("failed", "12"),
    "broker_down: fenced, it is offline and not listed": ("gone offline", "12"),
    "broker_down: it was offline, and is back without a restart": ("back offline", "12"),
    "broker_down: though all followers left together and are back": ("back gone together", "1"),
    "log_dir_failed: offline, of a broker that stays listed": ("offline", "12"),
    "log_dir_failed: of a leader, too": ("failed offline", "12"),
    "log_dir_failed: though all followers left together": ("offline together", "1"),
    "leader_stalled: followers of a leader left together and are back": ("back together", "1"),
    "lagging: another follower stayed": ("back together", "12"),
    "lagging: followers left together and are not back": ("together", "1"),
    "lagging: it left alone and is back": ("back", "1"),
    "lagging: no sign": ("", "12"),
}
"""Value of `cause` -> the signs of an absence, and the ISR that broker 1 leads without it."""


@pytest.mark.parametrize("case", CASES)
def test_the_cause_by_all_signs(case: str) -> None:
    signs, isr = CASES[case]
    absence = {"signs": signs.split() or None, "leader": 1, "isr": [int(each) for each in isr]}
    assert cause(absence) == case.partition(":")[0]


@pytest.mark.parametrize(
    ("interval_ms", "seconds"), [(None, 15), (7_500, 15), (7_501, 15.002), (60_000, 120)]
)
def test_signs_count_for_two_polls_or_15_s(interval_ms: int | None, seconds: float) -> None:
    assert due_at(START, interval_ms) == START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("change", "signs"),
    [
        ({}, ["back", "gone"]),
        ({"signs": None}, ["gone"]),
        ({"cause_due_at": START - timedelta(microseconds=1)}, ["back"]),
        ({"cause_due_at": None}, ["back"]),
        ({"cause": "lagging"}, ["back"]),
    ],
    ids=["at the last moment", "the first", "too late", "of no absence", "the cause is decided"],
)
def test_a_sign_counts_until_the_cause_is_due(change: Row, signs: list[str]) -> None:
    absence = {"cause": None, "cause_due_at": START, "signs": ["back"]} | change
    give_sign(absence, "gone", START)
    assert absence["signs"] == signs


def test_each_sign_reaches_absences_that_are_given_none_yet() -> None:
    """Of a broker that fails, the log has a record for each partition."""
    of = {"cause": None, "cause_due_at": START, "signs": [], "replicas": [], "broker_id": 1}
    broker = Broker(absences=[dict(of), dict(of)])
    broker.sign("gone", START)
    broker.absences.append(dict(of))
    broker.sign("gone", START)
    broker.sign("failed", START)
    assert [row["signs"] for row in broker.absences] == [["failed", "gone"]] * 3


# --- the signs that polls give ---


def test_a_controlled_stop_shows_the_broker_listed_for_another_moment() -> None:
    polls = [Seen("123"), Seen("12"), Seen("12", brokers="12")]
    undecided = rows_of(*polls)
    assert departures(undecided, "cause", "signs", "is_live", "rack") == [
        (None, ["gone"], True, "r3")
    ]
    assert departures(later(*polls), "cause", "ended_poll") == [("broker_down", None)]


def test_signs_after_the_look_ahead_do_not_count() -> None:
    polls = [Seen("123"), Seen("12"), Seen("12", wait=20.001, brokers="12")]
    assert departures(rows_of(*polls), "cause", "signs") == [("lagging", [])]
    at_its_end = [Seen("123"), Seen("12"), Seen("12", wait=20, brokers="12")]
    assert departures(rows_of(*at_its_end), "cause", "signs") == [(None, ["gone"])]


def test_a_leader_that_failed_may_be_back_before_it_is_missed() -> None:
    def seen(isr: str, leader: int, epoch: int) -> Seen:
        return Seen({T: in_sync(isr), ("u", 0): in_sync("123", leader=leader, epoch=epoch)})

    assert departures(later(seen("123", 1, 0), seen("23", 2, 1)), "cause", "signs") == [
        ("broker_down", ["failed"])
    ]
    # It lost a preferred leadership to nobody, but its epoch tells that it went and came back.
    assert departures(later(seen("123", 1, 0), seen("23", 1, 2)), "signs") == [(["failed"],)]


def offline(isr: str, broker: int, **more: object) -> dict[tuple[str, int], Row]:
    """Partition T with a replica offline, and one that is in sync, on another directory of its
    broker.
    """
    return {T: in_sync(isr, **more) | {"offline_replicas": [broker]}, ("u", 0): in_sync("321")}


@pytest.mark.parametrize("by_log", [False, True])
def test_a_broker_that_stays_listed_while_a_replica_is_offline_lost_a_log_directory(
    by_log: bool,
) -> None:
    before, after = {T: in_sync("123"), ("u", 0): in_sync("321")}, offline("12", 3)
    rows = later(Seen(before, by_log=by_log), *[Seen(after, by_log=by_log)] * 4)
    assert departures(rows, "topic", "broker_id", "cause", "signs") == [
        ("t", 3, "log_dir_failed", ["offline"])
    ]
    assert [(row["broker_id"], row["causes"]) for row in rows[INCIDENTS]] == [
        (3, ["log_dir_failed"])
    ]


def test_a_leader_whose_log_directory_failed_is_not_down() -> None:
    before = {T: in_sync("123", leader=3), ("u", 0): in_sync("321")}
    rows = later(Seen(before), Seen(offline("12", 3, leader=2, epoch=1)))
    assert departures(rows, "cause", "signs") == [("log_dir_failed", ["failed", "offline"])]


@pytest.mark.parametrize(
    ("polls", "signs"),
    [
        # Fenced: in one image it is offline, and not listed.
        ([Seen(offline("12", 3), brokers="12")], ["gone", "offline"]),
        ([Seen(offline("12", 3)), Seen(offline("12", 3), brokers="12")], ["gone", "offline"]),
        # Its brokers were read from a later image than its topics (KafkaApis), in which it had
        # started again.
        (
            [Seen(offline("12", 3)), Seen({T: in_sync("123"), ("u", 0): in_sync("321")})],
            ["back", "offline"],
        ),
    ],
)
def test_an_offline_replica_of_a_broker_that_goes_or_comes_back_is_of_a_broker_that_was_down(
    polls: list[Seen], signs: list[str]
) -> None:
    rows = later(Seen({T: in_sync("123"), ("u", 0): in_sync("321")}), *polls)
    assert departures(rows, "cause", "signs") == [("broker_down", signs)]


# --- flapping ---


def test_of_a_partition_only_the_departures_that_may_make_the_next_one_flapping_are_kept() -> None:
    flap, over = [Seen("12"), Seen("123")], Seen("123", wait=61)
    rows = rows_of(Seen("123"), *flap, over, *flap, over, *flap, over)
    assert departures(rows, "is_flapping", "is_live") == [
        (False, False),
        (False, True),
        (True, True),
    ]
    # The second is that by which the incident counts the partition.
    often = departures(rows_of(Seen("123"), *flap, over, *flap * 9), "is_live")
    assert often == [(False,), (True,), *[(False,)] * 6, *[(True,)] * 2]


# --- incidents ---


@pytest.mark.parametrize(("seconds", "incidents"), [(59.999, 1), (60, 2)])
def test_absences_less_than_a_minute_apart_are_one_incident(seconds: float, incidents: int) -> None:
    polls = [Seen("123"), Seen("12"), Seen("123"), Seen("12", wait=seconds), Seen("123")]
    found = later(*polls)[INCIDENTS]
    assert len(found) == incidents
    assert [row["partitions"] for row in found] == [1] * incidents
    assert [row["ended_poll"] for row in found][-1] == "s/000000000004"
    lasting = rows_of(*polls[:4])[INCIDENTS]
    assert [row["ended_poll"] for row in lasting][-1] is None
    ended = rows_of(*polls[:3])[INCIDENTS]
    assert [(row["ended_poll"], row["is_live"], row["partitions_out"]) for row in ended] == [
        ("s/000000000002", True, 0)
    ]


def test_an_incident_counts_each_partition_once_however_long_it_lasts() -> None:
    def seen(one: str, other: str, wait: float = 10) -> Seen:
        return Seen({T: in_sync(one), ("u", 0): in_sync(other)}, wait=wait)

    long = [seen("123", "123"), seen("12", "12"), seen("123", "12"), seen("12", "12", wait=100_000)]
    rows = rows_of(*long)
    assert [(row["partitions"], row["partitions_out"]) for row in rows[INCIDENTS]] == [(2, 2)]
    # The row by which the partition was counted is kept, those after it are not.
    again = rows_of(*long, seen("123", "12"), seen("123", "12", wait=1_000))
    of_t = sorted((row["poll"], row["is_live"]) for row in again[CHANGES] if row["topic"] == "t")
    assert [is_live for _, is_live in of_t] == [True, False, False, False]
    assert [(row["partitions"], row["partitions_out"]) for row in again[INCIDENTS]] == [(2, 1)]


def test_a_topic_that_gets_an_id_meanwhile_is_counted_once_and_one_that_is_made_again_twice() -> (
    None
):
    """Topics get ids when their cluster is upgraded to Kafka 2.8."""

    def seen(isr: str, topic_id: str | None, **more: str) -> Seen:
        return Seen({T: in_sync(isr, topic_id=topic_id)}, **more)

    upgraded = [
        seen("123", None),
        seen("12", None),
        seen("12", "A"),
        seen("123", "A"),
        seen("12", "A"),
    ]
    assert [
        (row["partitions"], row["partitions_out"]) for row in rows_of(*upgraded)[INCIDENTS]
    ] == [(1, 1)]
    again = [*upgraded, seen("12", "B", ends="recreated"), seen("123", "B"), seen("12", "B")]
    assert [(row["partitions"], row["partitions_out"]) for row in rows_of(*again)[INCIDENTS]] == [
        (2, 1)
    ]


def test_an_incident_has_the_causes_and_the_worst_level_of_all_its_absences() -> None:
    polls = [
        Seen("123", min_isr=2),
        Seen("12", min_isr=2),
        Seen("1", min_isr=2),
        Seen("1", min_isr=2, wait=30),
    ]
    rows = rows_of(*polls, Seen("1", min_isr=2, brokers="12"))
    by_broker = {row["broker_id"]: row for row in rows[INCIDENTS]}
    assert [by_broker[b]["worst_level"] for b in (2, 3)] == ["under_min_isr"] * 2
    assert [by_broker[b]["causes"] for b in (2, 3)] == [["lagging"]] * 2
    assert by_broker[3]["first_out_before"] < by_broker[2]["first_out_before"]


def test_one_incident_may_have_several_causes() -> None:
    both = {T: in_sync("123"), ("u", 0): in_sync("123")}
    (row,) = later(Seen(both), Seen({T: in_sync("12")} | lost_directory("u")))[INCIDENTS]
    assert row["causes"] == ["lagging", "log_dir_failed"]


def lost_directory(topic: str) -> dict[tuple[str, int], Row]:
    return {(topic, 0): in_sync("12") | {"offline_replicas": [3]}}


def test_a_cause_may_be_decided_after_an_incident_is_over() -> None:
    rows = rows_of(Seen("123"), Seen("12"), Seen("123"))
    assert [(row["ended_poll"], row["causes"]) for row in rows[INCIDENTS]] == [
        ("s/000000000002", [])
    ]
    rows = later(Seen("123"), Seen("12"), Seen("123"))
    assert [(row["causes"], row["is_live"]) for row in rows[INCIDENTS]] == [(["lagging"], False)]


def test_an_incident_waits_for_its_causes_while_another_may_begin() -> None:
    polls = [
        Seen("123"),
        Seen("12", interval_ms=300_000),
        Seen("123"),
        Seen("12", wait=100),
        Seen("123"),
    ]
    before = rows_of(*polls)[INCIDENTS]
    assert sorted((row["poll"], row["is_live"], row["causes"]) for row in before) == [
        ("s/000000000001", True, []),
        ("s/000000000003", True, []),
    ]
    after = later(*polls[:-1], Seen("123", brokers="12", wait=400))[INCIDENTS]
    assert sorted((row["poll"], row["causes"]) for row in after) == [
        ("s/000000000001", ["broker_down"]),
        ("s/000000000003", ["lagging"]),
    ]
