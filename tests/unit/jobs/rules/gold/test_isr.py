"""The ISR of a partition: who left it and came back, and the levels at which it was meanwhile."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from jobs.rules.gold.isr import effective_min_isr, levels
from jobs.rules.gold.news import Levels
from tests.support.gold_cases import Seen, T, departures, episodes, in_sync, later, led, rows_of
from tests.support.isr_rounds import CHANGES, EPISODES, INCIDENTS
from tests.support.silver_rows import START, Row

# --- levels ---

LEVELS: dict[str, tuple[Row, int | None, str]] = {
    "all in sync": (led(1), 2, ""),
    "under_replicated": (led(1, isr="123", replicas="1234"), 2, "under_replicated"),
    "at_min_isr": (led(1, isr="12"), 2, "at_min_isr under_replicated"),
    "at_min_isr, though nobody is out": (led(1), 3, "at_min_isr"),
    "under_min_isr": (led(1, isr="1"), 2, "under_min_isr under_replicated"),
    "offline: min ISR asks for nothing": (led(-1, isr="1"), 2, "offline under_replicated"),
    "a leader hides behind a missing listener": (
        led(-1, isr="12", error_code=72),
        2,
        "at_min_isr under_replicated",
    ),
    "min ISR is not known": (led(1, isr="12"), None, "at_min_isr? under_min_isr? under_replicated"),
    "offline, and min ISR is not known": (led(-1, isr="12"), None, "offline under_replicated"),
    "the ISR means nothing": (
        led(1) | {"isr": None},
        2,
        "at_min_isr? under_min_isr? under_replicated?",
    ),
    "the ISR means nothing, nobody leads": (
        led(-1) | {"isr": None},
        2,
        "at_min_isr? offline under_min_isr? under_replicated?",
    ),
    "neither ISR nor leader mean anything": (
        led(None) | {"isr": None},
        2,
        "at_min_isr? offline? under_min_isr? under_replicated?",
    ),
    "leaders mean nothing": (led(None), 2, "offline?"),
}
"""A state, the effective min ISR, and the levels; `?`: not known."""


@pytest.mark.parametrize("case", LEVELS)
def test_levels_of_a_state(case: str) -> None:
    state, min_isr, expected = LEVELS[case]
    is_any_out = bool(set(state["replicas"]) - set(state["isr"] or state["replicas"]))
    found = levels(state, min_isr, is_any_out=is_any_out)
    said = sorted(name if at else f"{name}?" for name, at in found.items() if at is not False)
    assert said == expected.split()


@pytest.mark.parametrize(
    ("setting", "level", "highest", "effective"),
    [
        (None, 25, 25, None),
        (3, None, None, 3),
        (4, 15, None, 3),
        (4, 14, 14, 4),
        # Brokers of 3.7 and later whose level was not raised yet: it is their software that counts.
        (4, 14, 15, 3),
        (4, None, 19, 3),
        (4, None, 14, 4),
        # A level says nothing of software that is newer than it.
        (4, 14, None, None),
        (4, None, None, None),
    ],
)
def test_a_min_isr_above_the_number_of_replicas_counts_by_the_software(
    setting: int | None, level: int | None, highest: int | None, effective: int | None
) -> None:
    assert effective_min_isr(setting, 3, Levels(level, highest=highest)) == effective


def test_levels_do_not_exclude_each_other() -> None:
    rows = rows_of(
        Seen("123", min_isr=2), Seen("1", min_isr=2), Seen({T: in_sync("", leader=-1)}, min_isr=2)
    )
    names = ("ended_poll", "brokers_out", "smallest_isr", "min_isr")
    assert episodes(rows, *names) == [
        ("under_min_isr", "s/000000000002", [2, 3], 1, 2),
        ("under_replicated", None, [1, 2, 3], 0, None),
        ("offline", None, [1, 2, 3], 0, None),
    ]


def test_another_min_isr_changes_the_level_of_partitions_that_do_not_change() -> None:
    rows = rows_of(*(Seen("12", min_isr=n) for n in (1, 2, 3, 3, 1)))
    names = ("poll", "ended_poll", "min_isr", "brokers_out")
    assert episodes(rows, *names)[1:] == [
        ("at_min_isr", "s/000000000001", "s/000000000002", 2, [3]),
        ("under_min_isr", "s/000000000002", "s/000000000004", 3, [3]),
    ]


def test_where_min_isr_is_not_known_any_more_an_episode_ends_as_unknown() -> None:
    lost = Seen("12", min_isr=2), Seen("12")
    assert episodes(rows_of(*lost), "end_reason")[0] == ("at_min_isr", "unknown")
    recovered = Seen("12", min_isr=2), Seen("123", min_isr=2)
    assert episodes(rows_of(*recovered), "end_reason")[0] == ("at_min_isr", None)


def test_another_finalized_level_counts_when_the_partition_changes() -> None:
    before = [Seen("123", min_isr=4, level=14, highest=14), Seen("123", min_isr=4, level=15)]
    assert episodes(rows_of(*before), "ended_poll") == [("under_min_isr", None)]
    rows = rows_of(*before, Seen("12", min_isr=4, level=15))
    assert episodes(rows, "ended_poll", "min_isr") == [
        ("under_min_isr", None, 4),
        ("under_replicated", None, None),
    ]
    bounded = rows_of(*before, Seen({T: in_sync("123", epoch=1)}, min_isr=4, level=15))
    assert episodes(bounded, "ended_poll") == [
        ("under_min_isr", "s/000000000002"),
        ("at_min_isr", None),
    ]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


TIMES = ("began_after", "began_before", "ended_after", "ended_before")


def test_a_level_that_a_setting_brought_began_by_the_answer_about_settings() -> None:
    rows = rows_of(*(Seen("1", min_isr=n) for n in (1, 2, 1)))
    assert episodes(rows, *TIMES) == [
        ("at_min_isr", None, at(10.4), at(10.1), at(20.4)),
        ("under_replicated", None, at(10.1), None, None),
        ("under_min_isr", at(10.1), at(20.4), at(20.1), at(30.4)),
        ("at_min_isr", at(20.1), at(30.4), None, None),
    ]


def test_where_a_poll_and_the_answer_beside_it_show_a_change_each_either_may_have_come_last() -> (
    None
):
    rows = rows_of(Seen("123", min_isr=1), Seen("12", min_isr=2))
    assert episodes(rows, *TIMES) == [
        ("at_min_isr", at(10), at(20.4), None, None),
        ("under_replicated", at(10), at(20.1), None, None),
    ]


def test_an_episode_keeps_the_worst_of_the_states_that_it_lasts_for() -> None:
    states = [Seen("123", min_isr=n) for n in (3, 2)] + [
        Seen(each, min_isr=3) for each in ("1", "12", "12")
    ]
    names = ("brokers_out", "smallest_isr", "min_isr")
    assert episodes(rows_of(*states), *names) == [
        ("at_min_isr", [], 3, 3),
        ("under_min_isr", [2, 3], 1, 3),
        ("under_replicated", [2, 3], 1, None),
    ]
    lower = [Seen("1", min_isr=3), Seen("1", min_isr=2)]
    assert episodes(rows_of(*lower), *names)[0] == ("under_min_isr", [2, 3], 1, 3)


# --- who leaves and comes back ---

CHANGES_OF: dict[str, tuple[Sequence[Seen], list[tuple[str, int]]]] = {
    "initially_out": ([Seen("12")], [("initially_out", 3)]),
    "initially_out: not those that a reassignment adds": (
        [Seen("1", adding="3")],
        [("initially_out", 2)],
    ),
    "initially_out: of Confluent, where observers stay out, nobody": (
        [Seen("1", kind="confluent")],
        [],
    ),
    "left": ([Seen("123"), Seen("1")], [("left", 2), ("left", 3)]),
    "left: of Confluent, who was in": (
        [Seen("12", kind="confluent"), Seen("1", kind="confluent")],
        [("left", 2)],
    ),
    "rejoined": ([Seen("123"), Seen("12"), Seen("123")], [("left", 3), ("rejoined", 3)]),
    "rejoined: who was out when first seen": (
        [Seen("12"), Seen("123")],
        [("initially_out", 3), ("rejoined", 3)],
    ),
    "joined: who was added and never left": (
        [Seen("12", adding="3"), Seen("123")],
        [("joined", 3)],
    ),
    "one left and another rejoined": (
        [Seen("12"), Seen("13")],
        [("initially_out", 3), ("left", 2), ("rejoined", 3)],
    ),
    "none: the order of an ISR means nothing": (
        [Seen("123"), Seen({T: in_sync("123") | {"isr": [3, 1, 2]}})],
        [],
    ),
}
"""Value of `change` -> a life, and the changes of brokers."""


@pytest.mark.parametrize("case", CHANGES_OF)
def test_changes_of_an_isr(case: str) -> None:
    polls, expected = CHANGES_OF[case]
    rows = sorted(rows_of(*polls)[CHANGES], key=lambda row: (row["poll"], row["broker_id"]))
    assert [(row["change"], row["broker_id"]) for row in rows] == expected


def test_who_is_out_twice_has_two_absences_and_only_the_last_lasts() -> None:
    rows = rows_of(*map(Seen, ("123", "12", "123", "12")))
    assert departures(rows, "poll", "ended_poll", "end_reason") == [
        ("s/000000000001", "s/000000000002", "rejoined"),
        ("s/000000000003", None, None),
    ]


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


@pytest.mark.parametrize(
    "isrs",
    [("12", "123", "12", "123", "12"), ("123", "12", "123", "13", "123", "12")],
    ids=["who was out at first did not leave then", "another left in between"],
)
def test_departures_of_one_broker_from_one_isr_are_counted(isrs: Sequence[str]) -> None:
    assert departures(rows_of(*map(Seen, isrs)), "is_flapping")[-1] == (False,)


# --- reassignments ---


def test_who_is_no_replica_any_more_left_by_a_reassignment() -> None:
    rows = rows_of(Seen("123"), Seen({T: in_sync("23", "23")}))
    names = ("cause", "end_reason", "ended_poll", "duration_ms_max")
    assert departures(rows, *names) == [("reassignment", "removed", "s/000000000001", 10_100)]
    assert (rows[EPISODES], rows[INCIDENTS]) == ([], [])


def test_who_is_out_and_taken_off_the_list_is_out_no_more() -> None:
    rows = later(Seen("123"), Seen("12"), Seen({T: in_sync("12", "12")}))
    assert departures(rows, "cause", "end_reason", "ended_poll") == [
        ("lagging", "removed", "s/000000000002")
    ]
    assert [row["ended_poll"] for row in rows[INCIDENTS]] == ["s/000000000002"]


def test_a_replica_that_a_reassignment_adds_never_left() -> None:
    rows = rows_of(
        Seen({T: in_sync("12", "12")}),
        Seen({T: in_sync("12", "123")}),
        Seen({T: in_sync("123", "123")}),
    )
    assert [(row["change"], row["broker_id"]) for row in rows[CHANGES]] == [("joined", 3)]
    assert rows[EPISODES] == []


def test_of_a_partition_first_seen_in_a_reassignment_those_that_it_adds_are_not_out() -> None:
    rows = rows_of(Seen("1", adding="3"))
    assert departures(rows, "change", "broker_id", "began_after") == [("initially_out", 2, None)]
    assert departures(rows_of(Seen("1")), "broker_id") == [(2,), (3,)]


@pytest.mark.parametrize(
    "between", [(), (Seen({T: in_sync("1", "321")}),), (Seen({T: in_sync("13", "321")}),)]
)
def test_who_came_and_left_between_two_polls_is_out_once_the_reassignment_that_adds_it_is_over(
    between,
) -> None:
    moved = Seen({T: in_sync("3", "32")})
    rows = later(
        Seen({T: in_sync("1", "1")}),
        *between,
        moved,
        moved,
        Seen({T: in_sync("23", "32", leader=3)}),
    )
    ended, back = (f"s/{n + len(between):012d}" for n in (1, 3))
    assert departures(rows, "broker_id", "poll", "end_reason") == [
        (1, ended, "removed"),
        (2, ended, "rejoined"),
    ]
    (episode,) = (row for row in rows[EPISODES] if row["level"] == "under_replicated")
    assert (episode["brokers_out"], episode["poll"], episode["ended_poll"]) == ([2], ended, back)


def test_who_was_out_already_may_be_what_a_reassignment_removed() -> None:
    rows = rows_of(
        *(Seen({T: in_sync(*each)}) for each in (("12", "12"), ("1", "12"), ("1", "13")))
    )
    assert departures(rows, "broker_id", "end_reason") == [(2, "removed"), (3, None)]
    out_still = [("12", "124"), ("12", "1243"), ("1", "143")]
    rows = rows_of(*(Seen({T: in_sync(*each)}) for each in out_still))
    assert departures(rows, "change", "broker_id", "end_reason") == [
        ("initially_out", 4, None),
        ("left", 2, "removed"),
        ("left", 3, None),
    ]


def test_of_confluent_what_a_reassignment_added_may_be_an_observer() -> None:
    before, after = in_sync("1", "1"), in_sync("3", "32")
    rows = rows_of(Seen({T: before}, kind="confluent"), Seen({T: after}, kind="confluent"))
    assert departures(rows, "broker_id") == [(1,)]


def test_a_reassignment_proves_nothing_of_what_it_adds_unless_it_is_over() -> None:
    lasts = rows_of(Seen({T: in_sync("1", "1")}), Seen({T: in_sync("13", "321")}))
    assert departures(lasts, "broker_id") == []
    cancelled = rows_of(
        Seen({T: in_sync("12", "12")}),
        Seen({T: in_sync("12", "3412")}),
        Seen({T: in_sync("12", "412")}),
    )
    assert departures(cancelled, "broker_id") == []
    another = rows_of(Seen({T: in_sync("12", "12")}), Seen({T: in_sync("3", "34")}, adding="4"))
    assert departures(another, "broker_id") == [(1,), (2,)]


# --- ends ---


def test_where_the_isr_means_nothing_any_more_what_lasts_ends_as_unknown() -> None:
    rows = rows_of(
        Seen("12", min_isr=2), Seen({T: led(1) | {"isr": None}}, min_isr=2, kind="redpanda")
    )
    assert departures(rows, "end_reason", "ended_poll") == [("unknown", "s/000000000001")]
    assert episodes(rows, "end_reason", "ended_poll", "is_live") == [
        ("at_min_isr", "unknown", "s/000000000001", False),
        ("under_replicated", "unknown", "s/000000000001", False),
    ]
    assert [row["ended_poll"] for row in rows[INCIDENTS]] == ["s/000000000001"]


def test_a_topic_that_is_made_again_ends_what_was_before_it_begins() -> None:
    again = {T: in_sync("12", topic_id="id2")}
    rows = rows_of(Seen("12", min_isr=2), Seen(again, min_isr=2))
    assert departures(rows, "change", "topic_id", "end_reason") == [
        ("initially_out", "id1", "recreated"),
        ("initially_out", "id2", None),
    ]
    assert episodes(rows, "topic_id", "end_reason") == [
        ("at_min_isr", "id1", "recreated"),
        ("under_replicated", "id1", "recreated"),
        ("at_min_isr", "id2", None),
        ("under_replicated", "id2", None),
    ]
    assert [
        (row["partitions"], row["partitions_out"], row["ended_poll"]) for row in rows[INCIDENTS]
    ] == [(2, 1, None)]


@pytest.mark.parametrize("reason", ["gone", "unauthorized", "not_polled"])
def test_a_partition_that_ends_ends_what_lasts(reason: str) -> None:
    rows = rows_of(Seen("12"), Seen({}, ends=reason))
    assert departures(rows, "end_reason", "ended_poll") == [(reason, "s/000000000001")]
    assert episodes(rows, "end_reason") == [("under_replicated", reason)]
    assert [row["ended_poll"] for row in rows[INCIDENTS]] == ["s/000000000001"]
