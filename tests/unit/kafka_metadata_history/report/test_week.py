"""Seven days against the seven before."""

from datetime import UTC, datetime

import pytest

from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.report.make import make_report
from kafka_metadata_history.report.week import (
    BAD,
    FIGURES,
    MOST,
    PARTS,
    RECOVERY,
    TOPIC,
    UNSEEN,
    Figure,
    Key,
    Part,
    figures,
    read_week,
    rows,
    week_until,
)
from tests.support.reports import NOW, Lake, asking, text_of

SEEN: dict[Key, Figure] = {("prod", UNSEEN, None): Figure(0, 0, None)}
"""Of a week in which the cluster had topics."""


def shown(
    this: dict[Key, Figure], before: dict[Key, Figure]
) -> dict[tuple[str, str | None], object]:
    return {
        (row["what"], row["of"]): (
            row["week_min"],
            row["week_max"],
            row["before_min"],
            row["before_max"],
        )
        for row in rows(this, before).to_pylist()
    }


@pytest.mark.parametrize(
    ("until", "end"),
    [
        (None, datetime(2026, 11, 2, tzinfo=UTC)),
        ("2026-11-01T23:59:59Z", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-02T00:30:00+01:00", datetime(2026, 11, 1, tzinfo=UTC)),
        ("1 day", datetime(2026, 11, 1, tzinfo=UTC)),
    ],
)
def test_a_week_ends_at_midnight(until: str | None, end: datetime) -> None:
    assert week_until(until, NOW) == end


def test_parts_add_up_and_what_is_not_known_is_no_most() -> None:
    parts = [
        Part(BAD, "for reads", 1, 2, 10),
        Part(BAD, "for reads", 3, 5, 20),
        Part(BAD, "for writes", 1, None, 10),
        Part(BAD, "for writes", 3, 5, None),
        Part("leader changes", None, 1, 1),
    ]
    assert figures(("prod", part) for part in parts) == {
        ("prod", BAD, "for reads"): Figure(4, 7, 30),
        ("prod", BAD, "for writes"): Figure(4, None, 10),
        ("prod", "leader changes", None): Figure(1, 1, None),
    }


def test_time_to_recover_is_a_mean() -> None:
    parts = [Part(RECOVERY, "broker_down", 10, 20, 1), Part(RECOVERY, "broker_down", 20, 40, 2)]
    found = figures(("prod", part) for part in parts)
    assert found == {("prod", RECOVERY, "broker_down"): Figure(15, 30, 3)}
    assert shown(SEEN | found, SEEN)[RECOVERY, "broker_down"] == (15, 30, None, None)


def test_what_did_not_happen_is_zero_unless_nobody_knows() -> None:
    this = SEEN | {("prod", "leader changes", None): Figure(3, 4, None)}
    assert shown(this, SEEN)["leader changes", None] == (3, 4, 0, 0)
    assert shown(this, {})["leader changes", None] == (3, 4, None, None)


def test_quiet_figures_are_left_out() -> None:
    nothing: dict[Key, Figure] = {
        ("prod", BAD, "for reads"): Figure(0, 0, 0),
        ("prod", "rebalances", None): Figure(0, 0, None),
    }
    assert shown(SEEN | nothing, SEEN | nothing).keys() == {(BAD, "for reads"), (UNSEEN, None)}


def test_the_worst_topics_of_this_week() -> None:
    this: dict[Key, Figure] = {
        ("prod", TOPIC, f"topic {number}"): Figure(number, number, 0) for number in range(1, 6)
    }
    before: dict[Key, Figure] = {("prod", TOPIC, "long ago"): Figure(99, 99, 0)}
    assert list(shown(this, before)) == [(TOPIC, f"topic {number}") for number in (5, 4, 3)][:MOST]


def test_the_known_incident(lake: Lake) -> None:
    found = read_week(asking(lake), datetime(2026, 11, 2, tzinfo=UTC), None)
    by = {(row["what"], row["of"]): row for row in found.to_pylist()}
    assert [*dict.fromkeys(what for what, _ in by)] == list(FIGURES)
    reads = by[BAD, "for reads"]
    assert (reads["week_min"], reads["week_max"]) == pytest.approx((19.8, 60.2))
    # Five partitions, from the last poll until midnight.
    assert reads["not_observed_s"] == pytest.approx(5 * (12 * 3600 - 120.1))
    assert {row["before_min"] for row in by.values()} == {None}, "nobody polled the week before"
    mended = by[RECOVERY, "broker_down"]
    assert (mended["week_min"], mended["week_max"]) == pytest.approx((19.9, 40.1))
    assert by["broker incidents", "broker_down"]["week_max"] == 1
    assert by["unclean elections", "proven"]["week_max"] == 1
    assert by["rebalances of group", "billing"]["week_min"] == 9
    later = read_week(asking(lake), datetime(2026, 11, 9, tzinfo=UTC), "prod").to_pylist()
    bad = next(row for row in later if (row["what"], row["of"]) == (BAD, "for reads"))
    assert (bad["week_max"], bad["before_min"]) == (0, pytest.approx(19.8))
    assert bad["not_observed_s"] == 5 * 7 * 86_400


def test_an_unknown_cluster_is_refused(lake: Lake) -> None:
    with pytest.raises(QueryError, match="--cluster elsewhere: history knows no such cluster"):
        read_week(asking(lake), NOW, "elsewhere")


SUMS_OF_SECONDS = {what for what in FIGURES if "seconds" in what or "minutes" in what} - {
    UNSEEN,
    "seconds of pauses",  # a pause lies between two commits of the coordinators' log
}


def test_each_sum_of_seconds_says_what_nobody_observed(lake: Lake) -> None:
    found = read_week(asking(lake), datetime(2026, 11, 2, tzinfo=UTC), None).to_pylist()
    assert {row["what"] for row in found if row["not_observed_s"] is not None} == SUMS_OF_SECONDS
    assert {*PARTS} >= {"availability", "time_at_level", "broker_incidents", "group_stability"}


def test_the_page_has_the_week_of_its_cluster(lake: Lake) -> None:
    ask = asking(lake)
    end = datetime(2026, 11, 2, tzinfo=UTC)
    week = read_week(ask, end, None)
    html = make_report(ask, "7 days", end.isoformat(), {}, NOW, week=week).html
    assert "Seven days against the seven before" in text_of(html)
    assert "mean seconds to recover" in text_of(html)
    assert "mean seconds to recover" not in text_of(
        make_report(ask, "7 days", end.isoformat(), {}, NOW).html
    )
