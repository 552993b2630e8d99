"""Many clusters in one stream, some of them sick: each is polled on its beat, whatever the others do."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleet.answers import ERRORS, answering
from benchmarks.fleet.headers import holes, percentile, seen
from benchmarks.fleet.made_up import Member, fleet, manners
from benchmarks.fleet.report import show
from benchmarks.fleet.run import MASTER, polled
from benchmarks.rounds.product import run_once
from metadata_source.datasource import CLUSTERS_PER_TASK
from tests.support.beside import outcomes_of
from tests.support.streams import Stream

BEAT_MS = 10_000
CLUSTERS = CLUSTERS_PER_TASK + 6
SICK = {"closed": 1, "silent": 1, "garbage": 1, "falling": 1}


def options(members: list[Member]) -> dict[str, str]:
    return {"clusters": json.dumps({member.alias: member.options for member in members})}


@pytest.mark.soak
def test_seventy_clusters_of_which_some_are_sick(spark, tmp_path):
    """More than one task; after two batches on the beat others are in the configuration."""
    stream = Stream(spark, tmp_path)
    with answering(behaving := manners(CLUSTERS + 1, SICK)) as servers:
        everyone = fleet(behaving, servers, beat_ms=BEAT_MS, usual_ms=2 * BEAT_MS)
        gone, new = everyone[-2:]
        stream.run_until(2, **options(everyone[:-1]))
        stream.run_once(**options([*everyone[:-2], new]))
    outcomes = outcomes_of(stream.rows().collect())
    headers = [row.asDict(recursive=True) for row in stream.polls()]
    headers = [header | {"asked": outcomes.get((header["cluster"], header["n"]))} for header in headers]
    assert len({header["stream"] for header in headers}) == 1
    assert holes(headers) == []
    again = min(header["n"] for header in headers if header["cluster"] == new.alias)
    beat = next(member.alias for member in everyone if member.interval_ms == BEAT_MS)
    times = {header["n"]: header["scheduled_at"] for header in headers if header["cluster"] == beat}
    for member in everyone:
        own = [header for header in headers if header["cluster"] == member.alias]
        due = [*_due(times, 0, again, member), *_due(times, again, len(times), member)]
        kept = [n for n in due if (member != gone or n < again) and (member != new or n >= again)]
        assert [header["n"] for header in own] == kept, member
        assert {header["interval_ms"] for header in own} == {member.interval_ms}
    found = seen([header for header in headers if header["n"]], everyone)  # workers start with the first one
    assert not found["good"].errors, "they are held up by nobody"
    assert not found["falling"].errors, "history judges its answers"
    for manner in ("closed", "silent", "garbage"):
        assert set(found[manner].errors) <= ERRORS[manner]
        assert found[manner].errors.total() == found[manner].polls
    asked = {header["cluster"] for header in headers if header["asked"]}
    assert asked == {member.alias for member in everyone if member.is_asked and member.manner in {"good", "falling"}}
    # With every second poll of a run. If the first one left a cluster no time, its question stays due.
    quick = [each for each in everyone if each.alias in asked and each.interval_ms == BEAT_MS]
    own = {each.alias: [header for header in headers if header["cluster"] == each.alias] for each in quick}
    assert any("ok" in (header["asked"] or {}).values() for each in own.values() for header in each)
    # On a slow machine the second poll may come so late that the question is due again.
    close = {alias: each[:2] for alias, each in own.items() if each[1]["scheduled_at"] < again_due(each[0])}
    assert all(was_asked(first["asked"]) != bool(second["asked"]) for first, second in close.values()), close


def again_due(header: dict[str, Any]) -> datetime:
    due: datetime = header["scheduled_at"] + timedelta(milliseconds=2 * BEAT_MS)
    return due


def was_asked(outcomes: dict[str, str] | None) -> bool:
    return any("put off" not in outcome for outcome in (outcomes or {}).values())


def _due(times: dict[int, datetime], first: int, end: int, member: Member) -> list[int]:
    """The first number at or after each of a cluster's times, which are counted from the first one."""
    passed = {n: (times[n] - times[first]) // timedelta(milliseconds=member.interval_ms) for n in range(first, end)}
    return [n for n in passed if n == first or passed[n] > passed[n - 1]]


FLEET = 300
CHANGED = 10
SECONDS = 70.0
SLACK_S = 2.5
"""Sick clusters take processor time of the same machine."""
WORKER_MB = 400.0
"""Of a task with a cluster of 100,000 partitions: what is loaded takes 200 MB, an answer of 4.3 MB with its rows some
ten times as much, and a few of them are on their way.
"""
DRIVER_MB = 2_000.0
"""A heap of 1 GB, compiled code, classes and threads."""


@pytest.mark.soak
def test_three_hundred_clusters_of_which_some_are_sick(tmp_path: Path) -> None:
    """Beside a run in which nobody is sick. After a while some leave the configuration, and others come."""
    with answering(manners(FLEET, {})) as servers:
        nobody_sick = fleet(manners(FLEET, {}), servers)
        well = polled(tmp_path / "well", nobody_sick, SECONDS)
    with answering(behaving := manners(FLEET + CHANGED)) as servers:
        everyone = fleet(behaving, servers)
        first, then = everyone[:FLEET], everyone[: FLEET - CHANGED] + everyone[FLEET:]
        before = polled(tmp_path / "sick", first, SECONDS)
        after = polled(tmp_path / "sick", then, SECONDS)
        seconds = run_once(tmp_path / "sick", settings=("--master", MASTER))
    show("nobody is sick", nobody_sick, well)
    show("some are sick", first, before)
    show("some are sick, and others came", then, after)
    print(f"a poll of {FLEET} clusters, and history of all: {seconds:.0f} s")

    # One stream, whose ids sort as it was polled.
    assert len({header["stream"] for header in after.headers}) == 1
    assert holes(after.headers) == []
    due = [header["scheduled_at"] for header in after.headers]
    assert due == sorted(due)
    began = before.headers[-1]["n"]
    of_old, of_new = ({each.alias for each in group} for group in (first, everyone[FLEET:]))
    assert {header["cluster"] for header in after.headers if header["n"] <= began} == of_old
    assert {header["cluster"] for header in after.headers if header["n"] > began + 1} == {each.alias for each in then}
    assert of_new.isdisjoint(header["cluster"] for header in before.headers)

    # Each on its beat, and none held up by another. Workers start with the first poll of a run.
    usual = seen(_since(well.headers, 1), nobody_sick)["good"]
    for members, headers in ((first, _since(before.headers, 1)), (then, _since(after.headers, began + 3))):
        found = seen(headers, members)
        for manner in ("good", "slow", "huge", "falling"):
            assert not found[manner].errors, manner
        good = found["good"]
        assert good.off_beat / good.steps <= usual.off_beat / usual.steps + 0.02
        assert percentile(good.late, 50) <= percentile(usual.late, 50) + SLACK_S
        assert percentile(good.late, 95) <= percentile(usual.late, 95) + SLACK_S
        for manner, words in ERRORS.items():
            assert set(found[manner].errors) <= words
            if manner != "throttling":  # each worker has to be told by the broker
                assert found[manner].errors.total() == found[manner].polls
        assert found["throttling"].errors.total() > 0

    for run in (well, before, after):
        assert 0 < run.memory["worker"].one <= WORKER_MB
        assert 0 < run.memory["driver, Java"].one <= DRIVER_MB


def _since(headers: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
    return [header for header in headers if header["n"] >= first]
