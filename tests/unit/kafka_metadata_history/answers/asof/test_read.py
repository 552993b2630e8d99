"""Which clusters a state is read of, and at which time, in DuckDB."""

from datetime import datetime

import pytest

from kafka_metadata_history.answers.asof.read import AsOf, Reach, reaches, time_of
from kafka_metadata_history.answers.questions import QueryError
from schemas import silver
from tests.support.asof_lakes import KNOWN, OTHER, asking, lasting, twice
from tests.support.incident import CLUSTER, at

NOW = at(3600)
assert NOW is not None


def reach(cluster: str, since: float, until: float) -> Reach:
    return Reach(cluster, at(since), at(until))


def time(seconds: float) -> datetime:
    found = at(seconds)
    assert found is not None
    return found


def nobody(sql: str) -> None:
    raise AssertionError(sql)


def test_clusters_whose_history_lacks_the_time_are_left_out_and_named() -> None:
    known = [reach("a", 0, 60), reach("b", 30, 60), Reach("c", None, None)]
    state = AsOf.of(nobody, known, time(10))
    assert (state.cluster, [each.cluster for each in state.left_out]) == ("a", ["b", "c"])
    assert AsOf.of(nobody, known, time(40)).cluster is None
    newest = AsOf.of(nobody, known, None)
    assert [*newest.reach] == ["a", "b"]
    assert newest.at_of("b") == at(60)


def test_a_time_that_no_history_has_is_one_line() -> None:
    known = [reach(f"c{each}", 0, 60) for each in range(7)]
    with pytest.raises(QueryError) as raised:
        AsOf.of(nobody, known, time(61), "T2")
    said = str(raised.value)
    assert said.startswith(
        "T2 2026-11-01 12:01:01Z: history of c0 is 2026-11-01 12:00:00Z to 2026-11-01 12:01:00Z; "
    )
    assert said.endswith("; 2 more clusters")


def test_lines_say_of_when_the_state_is_and_when_nobody_looked() -> None:
    gap = {**CLUSTER, "gap_start": at(11), "gap_end": at(19), "until_poll": "u", "after_poll": "a"}
    other = {
        silver.CLUSTER_SNAPSHOTS: [
            row | OTHER | {"valid_from": at(50)} for row in KNOWN[silver.CLUSTER_SNAPSHOTS]
        ]
    }
    with asking({silver.POLL_GAPS: [gap]} | {}) as ask:
        state = AsOf.of(ask, reaches(ask, None), time(15))
        assert state.lines(time(3600)) == [
            (
                "prod at 2026-11-01 12:00:15Z; the record reaches to 2026-11-01 12:02:00Z, 58 min "
                "ago"
            ),
            "prod: Nobody looked from 2026-11-01 12:00:11Z to 2026-11-01 12:00:19Z.",
        ]
    with asking(twice(), {silver.CLUSTER_SNAPSHOTS: KNOWN[silver.CLUSTER_SNAPSHOTS]}) as ask:
        assert [each.cluster for each in reaches(ask, None)] == ["prod", "test"]
    with asking({**twice(), **other}) as ask:
        state = AsOf.of(ask, reaches(ask, None), time(15))
        assert state.lines(time(3600))[-1].startswith("left out: history of test is ")
        assert {*state.facts} == {"prod"}


def test_a_gap_in_which_the_log_told_is_none() -> None:
    gap = {**CLUSTER, "gap_start": at(11), "gap_end": at(19), "until_poll": "u", "after_poll": "a"}
    by_log = {silver.HISTORY_SOURCES: [lasting(-10, source="log")]}
    with asking({silver.POLL_GAPS: [gap]}, by_log) as ask:
        assert AsOf.of(ask, reaches(ask, None), time(15)).notes() == []


def test_a_time_is_a_duration_before_now_and_none_is_the_newest_state() -> None:
    assert time_of(None, at(10)) is None
    assert time_of("5 seconds", at(10)) == at(5)
