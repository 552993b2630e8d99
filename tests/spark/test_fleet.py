"""Hundreds of clusters in one stream, some of them sick: each is polled on its beat, whatever the
others do.
"""

from pathlib import Path

import pytest

from benchmarks.fleet.answers import ERRORS, answering
from benchmarks.fleet.headers import asked, holes, seen
from benchmarks.fleet.made_up import fleet, manners
from benchmarks.fleet.report import show
from benchmarks.fleet.run import RECORDER, polled
from benchmarks.product import run_once
from benchmarks.results import percentile

FLEET = 300
CHANGED = 10
SECONDS = 70.0
LATE_S = 1.0
"""For 95 of 100 polls: what plays the clusters takes processor time of the same machine."""
RECORDER_MB = 2_000.0
DRIVER_MB = 2_000.0
"""A heap of 1 GB, compiled code, classes and threads."""


@pytest.mark.soak
def test_three_hundred_clusters_of_which_some_are_sick(tmp_path: Path) -> None:
    """Beside a run in which nobody is sick. After a while some leave the configuration, and others
    come.
    """
    with answering(manners(FLEET, {})) as servers:
        nobody_sick = fleet(manners(FLEET, {}), servers)
        well = polled(tmp_path / "well", nobody_sick, SECONDS)
    with answering(behaving := manners(FLEET + CHANGED)) as servers:
        everyone = fleet(behaving, servers)
        first, then = everyone[:FLEET], everyone[: FLEET - CHANGED] + everyone[FLEET:]
        before = polled(tmp_path / "sick", first, SECONDS)
        after = polled(tmp_path / "sick", then, SECONDS)
        seconds = run_once(tmp_path / "sick")
    show("nobody is sick", nobody_sick, well)
    show("some are sick", first, before)
    show("some are sick, and others came", then, after)
    print(f"a poll of {FLEET} clusters, and history of all: {seconds:.0f} s")

    # One stream, in which each cluster's polls are numbered as they were made.
    assert len({header["stream"] for header in after.headers}) == 1
    assert holes(well.headers) == holes(after.headers) == []
    for alias in {each.alias for each in everyone}:
        due = [header["scheduled_at"] for header in after.headers if header["cluster"] == alias]
        assert due == sorted(set(due))
    began = max(header["scheduled_at"] for header in before.headers)
    late = {header["cluster"] for header in after.headers if header["scheduled_at"] > began}
    assert late >= {each.alias for each in then}
    assert {header["cluster"] for header in before.headers} == {each.alias for each in first}

    # Each on its beat, and none held up by another.
    new = [header for header in after.headers if header["scheduled_at"] > began]
    for members, headers in ((nobody_sick, well.headers), (first, before.headers), (then, new)):
        found = seen(headers, members)
        for manner in {"good", "slow", "huge", "falling"} & {*found}:
            assert not found[manner].errors, manner
        good = found["good"]
        assert good.off_beat == 0
        assert percentile(good.late, 0.95) <= LATE_S
        for manner in ERRORS.keys() & found.keys():
            assert set(found[manner].errors) <= ERRORS[manner] | {"overlapped"}
            assert (
                found[manner].errors.total()
                == found[manner].polls - (manner == "throttling") * found[manner].clusters
            ), "a throttled cluster answers once"
        of_members = {
            each.alias for each in members if each.is_asked and each.manner in {"good", "slow"}
        }
        assert of_members <= asked(headers).keys()

    for run in (well, before, after):
        assert 0 < run.memory[RECORDER].all <= RECORDER_MB
        assert 0 < run.memory["driver, Java"].one <= DRIVER_MB
