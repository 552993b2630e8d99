"""For how long partitions could not be read or written: the view gold.availability and the question
of its name, in DuckDB. That Spark answers the same is in tests/spark/test_mark.py.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from kafka_metadata_history.answers.questions import text_of
from schemas import gold, silver
from schemas.table import Table
from tests.support.availability import (
    DAY,
    HOUR,
    answered,
    at,
    changed,
    episode,
    lake_of,
    marked,
    setting,
    topic,
)
from tests.support.duckdb_lake import asking
from tests.support.sums_of_time import window

Row = dict[str, Any]
Rows = Mapping[Table, list[Row]]


def days(rows: Rows, name: str = "orders") -> dict[int, Row]:
    """By day from the first on: the view's row of a topic."""
    with asking(lake_of(rows)) as ask:
        found = ask("SELECT * FROM gold.availability ORDER BY day", {})
    first = at(0).date()
    return {(row["day"] - first).days: row for row in found if row["topic"] == name}


def bounds(row: Row, name: str) -> tuple[float | None, float | None]:
    return row[f"{name}_s_min"], row[f"{name}_s_max"]


def test_a_day_without_events_has_nothing_bad() -> None:
    found = days({silver.TOPIC_SNAPSHOTS: [topic(partitions=3)]})
    # The lake is observed from noon on, for a day and a half.
    assert sorted(found) == [0, 1]
    assert bounds(found[0], "partition") == (3 * DAY / 2, 3 * DAY / 2)
    assert bounds(found[1], "partition") == (3 * DAY, 3 * DAY)
    assert {
        bounds(row, f"bad_for_{of}") for row in found.values() for of in ("reads", "writes")
    } == {(0, 0)}
    assert [row["not_observed_s"] for row in found.values()] == [0, 0]


def test_a_topic_counts_from_when_to_when_it_was_there() -> None:
    """It came between 10 s and 20 s, had another partition between 100 s and 110 s, and was gone
    between 500 s and 510 s.
    """
    rows = [
        topic(partitions=1, after=10, since=20, last=100, until=110),
        topic(partitions=2, before=1, after=100, since=110, last=500, until=510, end="gone"),
    ]
    (row,) = days({silver.TOPIC_SNAPSHOTS: rows}).values()
    least = 90 + 2 * 390
    assert bounds(row, "partition") == (least, least + 10 + 10 + 2 * 10)


def test_levels_have_the_bounds_of_episodes() -> None:
    rows: Rows = {
        gold.ISR_EPISODES: [
            episode("offline", (100, 110, 200, 220)),
            episode("under_min_isr", (300, 310, 340, 350)),
            episode("at_min_isr", (400, 410, 500, 510)),
        ]
    }
    row = days(rows)[0]
    assert bounds(row, "bad_for_reads") == (90, 120)
    assert bounds(row, "bad_for_writes") == (90 + 30, 120 + 50)


def test_each_second_counts_once() -> None:
    """Under min ISR, then offline: between the two polls it was one or the other."""
    rows: Rows = {
        gold.ISR_EPISODES: [
            episode("under_min_isr", (100, 110, 200, 210)),
            episode("offline", (200, 210, 300, 310)),
        ]
    }
    row = days(rows)[0]
    assert bounds(row, "bad_for_reads") == (90, 110)
    assert bounds(row, "bad_for_writes") == (180, 210)


def test_an_episode_is_cut_at_midnight_and_one_that_lasts_at_the_last_observation() -> None:
    found = days(
        {gold.ISR_EPISODES: [episode("offline", (DAY / 2 - 60, DAY / 2 - 50, None, None))]}
    )
    assert {day: bounds(row, "bad_for_reads") for day, row in found.items()} == {
        0: (50, 60),
        1: (DAY, DAY),
    }


def test_each_day_has_its_part_of_what_lies_over_midnight() -> None:
    """Between the polls on both sides of midnight it began, or was over."""
    midnight = DAY / 2
    began = episode("offline", (midnight - 20, midnight + 10, midnight + 50, midnight + 60))
    ended = episode("offline", (midnight - 60, midnight - 50, midnight - 10, midnight + 20))
    for of, expected in ((began, [(0, 20), (40, 60)]), (ended, [(40, 60), (0, 20)])):
        found = days({gold.ISR_EPISODES: [of]})
        assert [bounds(row, "bad_for_reads") for row in found.values()] == expected


def test_each_second_counts_once_on_both_sides_of_midnight() -> None:
    """Under min ISR, then offline, then under min ISR; two of the three lie over midnight."""
    midnight = DAY / 2
    rows: Rows = {
        gold.ISR_EPISODES: [
            episode("under_min_isr", (midnight - 100, midnight - 90, midnight + 30, midnight + 40)),
            episode("offline", (midnight - 50, midnight - 40, midnight + 60, midnight + 70)),
            episode("under_min_isr", (midnight + 60, midnight + 70, midnight + 80, midnight + 90)),
        ]
    }
    found = days(rows)
    assert [bounds(row, "bad_for_reads") for row in found.values()] == [(40, 50), (60, 70)]
    assert [bounds(row, "bad_for_writes") for row in found.values()] == [(90, 100), (70, 90)]


def test_an_episode_counts_on_days_after_the_one_in_which_it_began() -> None:
    """It began two days before noon, when nobody observed."""
    found = days({gold.ISR_EPISODES: [episode("offline", (None, -2 * DAY, DAY, DAY))]})
    assert {day: bounds(row, "bad_for_reads") for day, row in found.items()} == {
        0: (DAY / 2, DAY / 2),
        1: (DAY / 2, DAY / 2),
    }


def test_a_topic_counts_on_both_sides_of_midnight() -> None:
    midnight = DAY / 2
    short = topic(
        after=midnight - 20,
        since=midnight - 10,
        last=midnight + 30,
        until=midnight + 45,
        end="gone",
    )
    found = days({silver.TOPIC_SNAPSHOTS: [short]})
    assert [bounds(row, "partition") for row in found.values()] == [(10, 20), (30, 45)]


def test_what_nobody_observed_is_neither_good_nor_bad() -> None:
    """Offline from before a gap of an hour until after it."""
    begin, end = 1000, 1000 + HOUR
    rows: Rows = {
        silver.POLL_GAPS: [answered() | {"gap_start": at(begin), "gap_end": at(end)}],
        gold.ISR_EPISODES: [episode("offline", (980, 990, end + 10, end + 20))],
    }
    row = days(rows)[0]
    assert row["not_observed_s"] == HOUR
    assert bounds(row, "partition") == (DAY / 2 - HOUR, DAY / 2)
    assert bounds(row, "bad_for_reads") == (20, 40)


@pytest.mark.parametrize(("changes_max", "hidden"), [(0, 0), (1, 0), (2, 10), (None, 10)], ids=str)
def test_a_hidden_change_may_have_been_to_no_leader(changes_max: int | None, hidden: int) -> None:
    rows: Rows = {gold.LEADER_CHANGES: [changed(50, 60, changes_max=changes_max)]}
    assert bounds(days(rows)[0], "bad_for_reads") == (0, hidden)
    assert bounds(days(rows)[0], "bad_for_writes") == (0, hidden)


def test_a_hidden_change_within_an_episode_adds_nothing() -> None:
    rows: Rows = {
        gold.ISR_EPISODES: [episode("offline", (50, 60, 100, 110))],
        gold.LEADER_CHANGES: [changed(50, 60, changes_max=3), changed(100, 110, changes_max=2)],
    }
    assert bounds(days(rows)[0], "bad_for_reads") == (40, 60)


def test_without_epochs_nothing_between_polls_is_known() -> None:
    state = answered() | {"topic": "orders", "partition": 0, "first_poll": "p", "leader": 1}
    states = [
        state | {"valid_from": at(0), "valid_to": at(600), "leader_epoch": None},
        state | {"valid_from": at(600), "leader_epoch": 7},
    ]
    assert bounds(days({silver.PARTITION_SNAPSHOTS: states})[0], "bad_for_reads") == (0, 600)


def test_without_a_min_isr_a_replica_that_is_out_may_be_too_few() -> None:
    out = episode("under_replicated", (100, 110, 200, 220))
    known: Rows = {gold.ISR_EPISODES: [out]}
    assert bounds(days(known)[0], "bad_for_writes") == (0, 0)
    assert bounds(days({**known, silver.TOPIC_CONFIGS: []})[0], "bad_for_writes") == (0, 120)


def test_a_min_isr_that_was_known_late_is_not_known_before() -> None:
    """Of an episode in which it became known; after that one nothing is in doubt."""
    outs = [
        episode("under_replicated", (100, 110, 200, 220)),
        episode("under_replicated", (300, 310, 400, 410)),
        episode("under_replicated", (DAY / 2 - 10, DAY / 2 - 5, DAY / 2 + 30, DAY / 2 + 40)),
    ]
    late = days({gold.ISR_EPISODES: outs, silver.TOPIC_CONFIGS: [setting(150)]})
    assert [bounds(row, "bad_for_writes") for row in late.values()] == [(0, 120), (0, 0)]
    never = days({gold.ISR_EPISODES: outs, silver.TOPIC_CONFIGS: [setting(DAY)]})
    assert [bounds(row, "bad_for_writes") for row in never.values()] == [(0, 240), (0, 40)]


@pytest.mark.parametrize(
    ("fact", "nulls"),
    [
        ("leader: of no use", {"reads", "writes"}),
        ("offline: the former one is named", {"reads", "writes"}),
        ("isr: all are in sync", {"writes"}),
        ("reason: not told", set()),
    ],
)
def test_what_means_nothing_has_no_most(fact: str, nulls: set[str]) -> None:
    row = days({silver.CLUSTER_SNAPSHOTS: [answered() | {"not_meaningful": [fact]}]})[0]
    assert {of for of in ("reads", "writes") if row[f"bad_for_{of}_s_max"] is None} == nulls
    assert {of for of in ("reads", "writes") if row[f"marked_bad_for_{of}_s_max"] is None} == nulls


def test_marks_stand_beside_and_take_nothing_away() -> None:
    """Of two windows that overlap each second counts once; a moment has no length."""
    rows: Rows = {
        gold.ISR_EPISODES: [episode("offline", (100, 110, 200, 220))],
        gold.MARKS: [
            marked(0, 150),
            marked(140, 160, cluster="prod"),
            marked(120, None),
            marked(0, 900, cluster="another"),
        ],
    }
    row = days(rows)[0]
    assert bounds(row, "bad_for_reads") == (90, 120)
    assert bounds(row, "marked_bad_for_reads") == (50, 60)
    assert bounds(row, "marked_bad_for_writes") == (50, 60)


def test_a_mark_over_midnight_stands_beside_both_days() -> None:
    midnight = DAY / 2
    lasts = episode("offline", (midnight - 60, midnight - 50, midnight + 100, midnight + 110))
    windows = [
        marked(midnight - 20, midnight + 30),
        marked(midnight - 30, midnight - 10),
        marked(midnight + 20, midnight + 40),
    ]
    found = days({gold.ISR_EPISODES: [lasts], gold.MARKS: windows})
    assert [bounds(row, "marked_bad_for_reads") for row in found.values()] == [(30, 30), (40, 40)]
    assert [bounds(row, "bad_for_reads") for row in found.values()] == [(50, 60), (100, 110)]


# --- the question ---


OFFLINE: Rows = {
    silver.TOPIC_SNAPSHOTS: [topic(partitions=1), topic("clicks", partitions=3)],
    gold.ISR_EPISODES: [episode("offline", (100, 110, 200, 220))],
    gold.MARKS: [marked(0, 150)],
}


def budget(rows: Rows, until: float = 1.5 * DAY, **more: object) -> list[Row]:
    """The rows of the question, from the first day on."""
    with asking(lake_of(rows)) as ask:
        asked = window(0) | {"until": str(at(until))} | more
        return ask(text_of("availability"), asked)


def test_a_budget_is_of_what_somebody_observed() -> None:
    found = budget(OFFLINE, slo="99.95")
    assert [(row["topic"], row["bad_for"]) for row in found] == [
        (None, "reads"),
        (None, "writes"),
        ("orders", "reads"),
        ("orders", "writes"),
    ]
    whole, _, orders, _ = found
    assert whole["budget_s"] == pytest.approx(0.0005 * 4 * 1.5 * DAY)
    assert bounds(whole, "spent") == bounds(orders, "spent") == (90, 120)
    assert bounds(whole, "left") == pytest.approx((whole["budget_s"] - 120, whole["budget_s"] - 90))
    assert bounds(orders, "left")[1] == pytest.approx(0.0005 * 1.5 * DAY - 90)
    assert bounds(whole, "marked") == (40, 50)


def test_a_day_of_which_no_moment_is_asked_is_left_out() -> None:
    midnight = DAY / 2
    for until, seconds in ((midnight, midnight), (midnight + 1, midnight + DAY)):
        whole, *_ = budget(OFFLINE, until=until)
        assert whole["budget_s"] == pytest.approx(0.001 * 4 * seconds)


def test_what_came_after_the_last_observation_is_not_observed() -> None:
    whole, *_ = budget(OFFLINE, until=1.5 * DAY + HOUR)
    assert whole["not_observed_s"] == 4 * HOUR
    assert whole["budget_s"] == pytest.approx(0.001 * 4 * 1.5 * DAY)


def test_of_one_topic() -> None:
    assert {row["topic"] for row in budget(OFFLINE, topic="clicks")} == {None, "clicks"}


def test_the_worst_ten_topics() -> None:
    many = [f"topic {number:02}" for number in range(12)]
    rows: Rows = {
        silver.TOPIC_SNAPSHOTS: [topic(name) for name in many],
        gold.ISR_EPISODES: [
            episode("under_min_isr", (0, 0, 10 + number, 10 + number), name=name)
            for number, name in enumerate(many)
        ],
    }
    found = [row for row in budget(rows) if row["topic"] is not None]
    assert [row["topic"] for row in found] == many[:1:-1]
    assert {row["bad_for"] for row in found} == {"writes"}


def test_what_is_not_known_comes_last() -> None:
    rows = {**OFFLINE, silver.CLUSTER_SNAPSHOTS: [answered() | {"not_meaningful": ["isr: none"]}]}
    assert [(row["topic"], row["bad_for"], *bounds(row, "spent")) for row in budget(rows)] == [
        (None, "reads", 90, 120),
        (None, "writes", 90, None),
        ("orders", "reads", 90, 120),
    ]
