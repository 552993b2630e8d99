"""Brokers out of ISRs, one case at a time: causes, flapping, levels, incidents."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from jobs.rules.ids import log_id
from tests.support.isr_rounds import CHANGES, EPISODES, INCIDENTS, folded, wait_for_ever
from tests.support.silver_rows import (
    CLUSTERS,
    CONFIGS,
    LISTED_BROKERS,
    OF_KAFKA,
    PARTITIONS,
    REASSIGNMENTS,
    START,
    TABLES,
    History,
    Line,
    Poll,
    Row,
)

T = ("t", 0)


def state(
    isr: str,
    replicas: str = "123",
    leader: int | None = None,
    topic_id: str = "id1",
    epoch: int = 0,
) -> Row:
    """A partition, led by the first of its ISR: brokers as digits."""
    return {
        "topic_id": topic_id,
        "error_code": 0 if isr or leader else 5,
        "leader": leader or int((isr or "0")[0]) or -1,
        "leader_epoch": epoch,
        "replicas": [int(each) for each in replicas],
        "isr": sorted(int(each) for each in isr),
        "offline_replicas": [],
    }


@dataclass
class Seen:
    """One partition's ISR, or partitions by topic and number, `wait` seconds after the one before.

    A poll shows it, or a record of the controllers' log.
    """

    partitions: dict[tuple[str, int], Row] | str
    wait: float = 10
    brokers: str = "123"
    adding: str = ""
    min_isr: int | None = None
    level: int | None = 25
    highest: int | None = None
    ends: str = "gone"
    interval_ms: int = 10_000
    by_log: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.partitions, str):
            self.partitions = {T: state(self.partitions)}


def history_of(*polls: Seen) -> History:
    """Polls are answered 100 ms after they were sent; records have one time. Racks are named after
    brokers.
    """
    lines = {
        name: Line(TABLES[name])
        for name in (CLUSTERS, LISTED_BROKERS, CONFIGS, REASSIGNMENTS, PARTITIONS)
    }
    accepted, at = [], START
    for n, seen in enumerate(polls):
        at += timedelta(seconds=seen.wait)
        poll = Poll(f"s/{n:012d}", at + timedelta(milliseconds=100), at, seen.interval_ms)
        if seen.by_log:
            poll = Poll(log_id("", n), at, at, 0)
        accepted.append(poll)
        told = {
            "metadata_version_level": seen.level,
            "metadata_version_highest": seen.highest,
            "elr_version_level": 0,
        }
        lines[CLUSTERS].look(poll, {(): OF_KAFKA | told})
        brokers = {(int(b),): {"host": "h", "port": 9092, "rack": f"r{b}"} for b in seen.brokers}
        lines[LISTED_BROKERS].look(poll, brokers)
        config = {"min_insync_replicas": seen.min_isr, "unclean_leader_election_enable": False}
        lines[CONFIGS].look(poll, {("t",): config} if seen.min_isr is not None else {})
        adding = {"adding_replicas": [int(each) for each in seen.adding], "removing_replicas": []}
        lines[REASSIGNMENTS].look(poll, {T: adding} if seen.adding else {})
        lines[PARTITIONS].look(poll, seen.partitions, lambda _, seen=seen: seen.ends)
    return History({name: line.rows for name, line in lines.items()}, accepted)


def rows_of(*polls: Seen) -> dict[str, list[Row]]:
    """The rows right after the last poll."""
    rows, _ = folded(history_of(*polls), *range(len(polls)))
    return rows


def later(*polls: Seen) -> dict[str, list[Row]]:
    """The rows when all that is due is decided."""
    return wait_for_ever(history_of(*polls))


def departures(rows: dict[str, list[Row]], *names: str) -> list[tuple[object, ...]]:
    found = sorted(rows[CHANGES], key=lambda row: (row["poll"], row["broker_id"]))
    return [
        tuple(row[name] for name in names)
        for row in found
        if row["change"] in {"left", "initially_out"}
    ]


# --- causes ---


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
        return Seen({T: state(isr), ("u", 0): state("123", leader=leader, epoch=epoch)})

    assert departures(later(seen("123", 1, 0), seen("23", 2, 1)), "cause", "signs") == [
        ("broker_down", ["failed"])
    ]
    # It lost a preferred leadership to nobody, but its epoch tells that it went and came back.
    assert departures(later(seen("123", 1, 0), seen("23", 1, 2)), "signs") == [(["failed"],)]


def offline(isr: str, broker: int, **more: object) -> dict[tuple[str, int], Row]:
    """Partition T with a replica offline, and one that is in sync, on another directory of its
    broker.
    """
    return {T: state(isr, **more) | {"offline_replicas": [broker]}, ("u", 0): state("321")}


@pytest.mark.parametrize("by_log", [False, True])
def test_a_broker_that_stays_listed_while_a_replica_is_offline_lost_a_log_directory(
    by_log: bool,
) -> None:
    before, after = {T: state("123"), ("u", 0): state("321")}, offline("12", 3)
    rows = later(Seen(before, by_log=by_log), *[Seen(after, by_log=by_log)] * 4)
    assert departures(rows, "topic", "broker_id", "cause", "signs") == [
        ("t", 3, "log_dir_failed", ["offline"])
    ]
    assert [(row["broker_id"], row["causes"]) for row in rows[INCIDENTS]] == [
        (3, ["log_dir_failed"])
    ]


def test_a_leader_whose_log_directory_failed_is_not_down() -> None:
    before = {T: state("123", leader=3), ("u", 0): state("321")}
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
            [Seen(offline("12", 3)), Seen({T: state("123"), ("u", 0): state("321")})],
            ["back", "offline"],
        ),
    ],
)
def test_an_offline_replica_of_a_broker_that_goes_or_comes_back_is_of_a_broker_that_was_down(
    polls: list[Seen], signs: list[str]
) -> None:
    rows = later(Seen({T: state("123"), ("u", 0): state("321")}), *polls)
    assert departures(rows, "cause", "signs") == [("broker_down", signs)]


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
        return Seen({T: state(one, "12"), ("u", 0): state(other, "13")})

    rows = later(seen("12", "13"), seen("1", "1"), seen("12", "13"))
    assert departures(rows, "broker_id", "cause") == [(2, "leader_stalled"), (3, "leader_stalled")]


def of_two(one: str, other: str, wait: float = 10) -> Seen:
    """By a record of the controllers' log: two partitions of broker 1, with one follower each."""
    return Seen(
        {T: state(one, "12", leader=1), ("u", 0): state(other, "13", leader=1)}, wait, by_log=True
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
            (topic, 0): state(isr, replicas, leader=1) for topic, (isr, replicas) in of.items()
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
        return Seen({T: state(one, "12", leader=1), ("u", 0): state(other, "13", leader=1)}, wait)

    rows = later(seen("12", "13"), seen("1", "13"), seen("1", "1", 0), seen("12", "13", 1))
    assert departures(rows, "cause") == [("lagging",)] * 2


# --- reassignments ---


def test_who_is_no_replica_any_more_left_by_a_reassignment() -> None:
    rows = rows_of(Seen("123"), Seen({T: state("23", "23")}))
    names = ("cause", "end_reason", "ended_poll", "duration_ms_max")
    assert departures(rows, *names) == [("reassignment", "removed", "s/000000000001", 10_100)]
    assert (rows[EPISODES], rows[INCIDENTS]) == ([], [])


def test_who_is_out_and_taken_off_the_list_is_out_no_more() -> None:
    rows = later(Seen("123"), Seen("12"), Seen({T: state("12", "12")}))
    assert departures(rows, "cause", "end_reason", "ended_poll") == [
        ("lagging", "removed", "s/000000000002")
    ]
    assert [row["ended_poll"] for row in rows[INCIDENTS]] == ["s/000000000002"]


def test_a_replica_that_a_reassignment_adds_never_left() -> None:
    rows = rows_of(
        Seen({T: state("12", "12")}), Seen({T: state("12", "123")}), Seen({T: state("123", "123")})
    )
    assert [(row["change"], row["broker_id"]) for row in rows[CHANGES]] == [("joined", 3)]
    assert rows[EPISODES] == []


def test_of_a_partition_first_seen_in_a_reassignment_those_that_it_adds_are_not_out() -> None:
    rows = rows_of(Seen("1", adding="3"))
    assert departures(rows, "change", "broker_id", "began_after") == [("initially_out", 2, None)]
    assert departures(rows_of(Seen("1")), "broker_id") == [(2,), (3,)]


@pytest.mark.parametrize(
    "between", [(), (Seen({T: state("1", "321")}),), (Seen({T: state("13", "321")}),)]
)
def test_who_came_and_left_between_two_polls_is_out_once_the_reassignment_that_adds_it_is_over(
    between,
) -> None:
    moved = Seen({T: state("3", "32")})
    rows = later(
        Seen({T: state("1", "1")}), *between, moved, moved, Seen({T: state("23", "32", leader=3)})
    )
    ended, back = (f"s/{n + len(between):012d}" for n in (1, 3))
    assert departures(rows, "broker_id", "poll", "end_reason") == [
        (1, ended, "removed"),
        (2, ended, "rejoined"),
    ]
    (episode,) = (row for row in rows[EPISODES] if row["level"] == "under_replicated")
    assert (episode["brokers_out"], episode["poll"], episode["ended_poll"]) == ([2], ended, back)


def test_a_reassignment_proves_nothing_of_what_it_adds_unless_it_is_over() -> None:
    lasts = rows_of(Seen({T: state("1", "1")}), Seen({T: state("13", "321")}))
    assert departures(lasts, "broker_id") == []
    cancelled = rows_of(
        Seen({T: state("12", "12")}), Seen({T: state("12", "3412")}), Seen({T: state("12", "412")})
    )
    assert departures(cancelled, "broker_id") == []
    another = rows_of(Seen({T: state("12", "12")}), Seen({T: state("3", "34")}, adding="4"))
    assert departures(another, "broker_id") == [(1,), (2,)]


# --- flapping ---


def test_the_third_departure_within_the_window_is_flapping() -> None:
    flaps = [Seen("123"), *[Seen("12"), Seen("123")] * 3]
    rows = rows_of(*flaps)
    assert departures(rows, "is_flapping") == [(False,), (False,), (True,)]
    assert [row["is_flapping"] for row in rows[CHANGES] if row["change"] == "rejoined"] == [
        None
    ] * 3
    assert not any(row["is_live"] for row in later(*flaps)[CHANGES])


@pytest.mark.parametrize(("seconds", "is_flapping"), [(569.9, True), (570, False)])
def test_a_departure_counts_until_the_window_is_over(seconds: float, is_flapping: bool) -> None:
    rows = rows_of(
        *[Seen("123"), Seen("12"), Seen("123"), Seen("12"), Seen("123"), Seen("12", wait=seconds)]
    )
    assert departures(rows, "is_flapping")[-1] == (is_flapping,)


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
    ended = rows_of(*polls[:3])[INCIDENTS]
    assert [(row["ended_poll"], row["is_live"], row["partitions_out"]) for row in ended] == [
        ("s/000000000002", True, 0)
    ]


def test_an_incident_counts_each_partition_once_however_long_it_lasts() -> None:
    def seen(one: str, other: str, wait: float = 10) -> Seen:
        return Seen({T: state(one), ("u", 0): state(other)}, wait=wait)

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
        return Seen({T: state(isr, topic_id=topic_id)}, **more)

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


# --- levels ---


def levels(rows: dict[str, list[Row]], *names: str) -> list[tuple[object, ...]]:
    found = sorted(rows[EPISODES], key=lambda row: (row["poll"], row["level"]))
    return [(row["level"], *(row[name] for name in names)) for row in found]


def test_levels_do_not_exclude_each_other() -> None:
    rows = rows_of(
        Seen("123", min_isr=2), Seen("1", min_isr=2), Seen({T: state("", leader=-1)}, min_isr=2)
    )
    names = ("ended_poll", "brokers_out", "smallest_isr", "min_isr")
    assert levels(rows, *names) == [
        ("under_min_isr", "s/000000000002", [2, 3], 1, 2),
        ("under_replicated", None, [1, 2, 3], 0, None),
        ("offline", None, [1, 2, 3], 0, None),
    ]


def test_another_min_isr_changes_the_level_of_partitions_that_do_not_change() -> None:
    rows = rows_of(*(Seen("12", min_isr=n) for n in (1, 2, 3, 3, 1)))
    names = ("poll", "ended_poll", "min_isr", "brokers_out")
    assert levels(rows, *names)[1:] == [
        ("at_min_isr", "s/000000000001", "s/000000000002", 2, [3]),
        ("under_min_isr", "s/000000000002", "s/000000000004", 3, [3]),
    ]


def test_where_min_isr_is_not_known_any_more_an_episode_ends_as_unknown() -> None:
    lost = Seen("12", min_isr=2), Seen("12")
    assert levels(rows_of(*lost), "end_reason")[0] == ("at_min_isr", "unknown")
    recovered = Seen("12", min_isr=2), Seen("123", min_isr=2)
    assert levels(rows_of(*recovered), "end_reason")[0] == ("at_min_isr", None)


@pytest.mark.parametrize(
    ("level", "highest", "found"),
    [
        (15, None, "at_min_isr"),
        (14, 14, "under_min_isr"),
        # Brokers of 3.7 and later whose level was not raised yet: it is their software that counts.
        (14, 19, "at_min_isr"),
        (None, 19, "at_min_isr"),
        (None, 14, "under_min_isr"),
        # A level says nothing of software that is newer than it.
        (14, None, None),
        (None, None, None),
    ],
)
def test_a_min_isr_above_the_number_of_replicas_counts_by_the_software(
    level: int | None, highest: int | None, found: str | None
) -> None:
    rows = rows_of(Seen("123", min_isr=4, level=level, highest=highest))
    assert [each for (each,) in levels(rows)] == ([found] if found else [])


def test_another_finalized_level_counts_when_the_partition_changes() -> None:
    before = [Seen("123", min_isr=4, level=14, highest=14), Seen("123", min_isr=4, level=15)]
    assert levels(rows_of(*before), "ended_poll") == [("under_min_isr", None)]
    rows = rows_of(*before, Seen("12", min_isr=4, level=15))
    assert levels(rows, "ended_poll", "min_isr") == [
        ("under_min_isr", None, 4),
        ("under_replicated", None, None),
    ]
    bounded = rows_of(*before, Seen({T: state("123", epoch=1)}, min_isr=4, level=15))
    assert levels(bounded, "ended_poll") == [
        ("under_min_isr", "s/000000000002"),
        ("at_min_isr", None),
    ]


# --- topics ---


def test_a_topic_that_is_made_again_ends_what_was_before_it_begins() -> None:
    again = {T: state("12", topic_id="id2")}
    rows = rows_of(Seen("12", min_isr=2), Seen(again, min_isr=2))
    assert departures(rows, "change", "topic_id", "end_reason") == [
        ("initially_out", "id1", "recreated"),
        ("initially_out", "id2", None),
    ]
    assert levels(rows, "topic_id", "end_reason") == [
        ("at_min_isr", "id1", "recreated"),
        ("under_replicated", "id1", "recreated"),
        ("at_min_isr", "id2", None),
        ("under_replicated", "id2", None),
    ]
    assert [
        (row["partitions"], row["partitions_out"], row["ended_poll"]) for row in rows[INCIDENTS]
    ] == [(2, 1, None)]


@pytest.mark.parametrize("reason", ["gone", "unauthorized", "not_polled"])
def test_a_partition_that_ends_ends_what_goes_on(reason: str) -> None:
    rows = rows_of(Seen("12"), Seen({}, ends=reason))
    assert departures(rows, "end_reason", "ended_poll") == [(reason, "s/000000000001")]
    assert levels(rows, "end_reason") == [("under_replicated", reason)]
    assert [row["ended_poll"] for row in rows[INCIDENTS]] == ["s/000000000001"]
