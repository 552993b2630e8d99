"""Many clusters in one stream, some of them sick: each is polled on its beat, whatever the others do."""

import json

from benchmarks.fleet.answers import ERRORS, answering
from benchmarks.fleet.headers import holes, seen
from benchmarks.fleet.made_up import Member, fleet, manners
from metadata_source.datasource import CLUSTERS_PER_TASK
from tests.support.streams import Stream

BEAT_MS = 3_000
USUAL_MS = 6_000
SICK = {"slow": 1, "closed": 1, "silent": 1, "garbage": 1, "falling": 1}
CLUSTERS = CLUSTERS_PER_TASK + 6


def options(members: list[Member]) -> dict[str, str]:
    return {"clusters": json.dumps({member.alias: member.options for member in members}), "pollsPerBatch": "2"}


def test_seventy_clusters_of_which_some_are_sick(spark, tmp_path):
    """More than one task; two batches, then others in the configuration, and a third."""
    stream = Stream(spark, tmp_path)
    with answering(behaving := manners(CLUSTERS + 1, SICK)) as servers:
        everyone = fleet(behaving, servers, beat_ms=BEAT_MS, usual_ms=USUAL_MS)
        gone, new = everyone[-2], everyone[-1]
        stream.run_until(2, **options([member for member in everyone if member != new]))
        stream.run_until(3, **options([member for member in everyone if member != gone]))
    headers = [row.asDict() for row in stream.polls() if row.n < 6]
    assert len({header["stream"] for header in headers}) == 1
    assert holes(headers) == []
    numbers = {
        member.alias: [header["n"] for header in headers if header["cluster"] == member.alias] for member in everyone
    }
    for member in everyone:
        due = range(6) if member.interval_ms == BEAT_MS else range(0, 6, 2)
        kept = [n for n in due if (n < 4 or member != gone) and (n >= 4 or member != new)]
        assert numbers[member.alias] == kept, member
    assert {(header["cluster"], header["interval_ms"]) for header in headers} == {
        (member.alias, member.interval_ms) for member in everyone
    }
    found = seen(headers, everyone)
    for manner in ("good", "slow", "falling"):
        assert not found[manner].errors, "nobody who answers is held up"
    for manner in ("closed", "silent", "garbage"):
        assert set(found[manner].errors) <= ERRORS[manner] | {"overlapped"}
        assert found[manner].errors.total() == found[manner].polls
