"""Many clusters in one stream, some of them sick: each is polled on its beat, whatever the others do."""

import json

from benchmarks.fleet.answers import ERRORS, answering
from benchmarks.fleet.headers import holes, seen
from benchmarks.fleet.made_up import Member, fleet, manners
from metadata_source.datasource import CLUSTERS_PER_TASK
from tests.support.streams import Stream

BEAT_MS = 5_000
CLUSTERS = CLUSTERS_PER_TASK + 6
SICK = {"closed": 1, "silent": 1, "garbage": 1, "falling": 1}


def options(members: list[Member]) -> dict[str, str]:
    return {"clusters": json.dumps({member.alias: member.options for member in members})}


def test_seventy_clusters_of_which_some_are_sick(spark, tmp_path):
    """More than one task, and others in the configuration after three batches."""
    stream = Stream(spark, tmp_path)
    with answering(behaving := manners(CLUSTERS + 1, SICK)) as servers:
        everyone = fleet(behaving, servers, beat_ms=BEAT_MS, usual_ms=2 * BEAT_MS)
        gone, new = everyone[-2:]
        stream.run_until(3, **options(everyone[:-1]))
        stream.run_until(6, **options([*everyone[:-2], new]))
    headers = [row.asDict(recursive=True) for row in stream.polls()]
    assert len({header["stream"] for header in headers}) == 1
    assert holes(headers) == []
    again, last = min(header["n"] for header in headers if header["cluster"] == new.alias), headers[-1]["n"]
    for member in everyone:
        own = [header for header in headers if header["cluster"] == member.alias]
        each = member.interval_ms // BEAT_MS
        before, after = range(0, again, each), range(again, last + 1, each)
        assert [header["n"] for header in own] == [
            *(before if member != new else ()),
            *(after if member != gone else ()),
        ], member
        assert {header["interval_ms"] for header in own} == {member.interval_ms}
    found = seen([header for header in headers if header["n"]], everyone)  # workers start with the first one
    assert not found["good"].errors, "they are held up by nobody"
    assert not found["falling"].errors, "history judges its answers"
    for manner in ("closed", "silent", "garbage"):
        assert set(found[manner].errors) <= ERRORS[manner]
        assert found[manner].errors.total() == found[manner].polls
    asked = {header["cluster"] for header in headers if header["enriched"]}
    assert asked == {member.alias for member in everyone if member.is_asked and member.manner in {"good", "falling"}}
    for member in (each for each in everyone if each.alias in asked and each.manner == "good"):
        own = [header for header in headers if header["cluster"] == member.alias and header["n"] < again]
        assert [bool(header["enriched"]) for header in own[1:]] == [n % 2 == 0 for n in range(1, len(own))], member
