"""What a fleet's run is judged by, and that its clusters answer in their manners. Nothing is
timed.
"""

from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.fleet.answers import ERRORS, HUGE, MANNERS, answering
from benchmarks.fleet.headers import asked, holes, percentile, seen
from benchmarks.fleet.made_up import SICK, fleet, manners
from metadata_source.options import parse
from metadata_source.poller import Poller

BEGIN = datetime(2026, 11, 24, tzinfo=UTC)


def header(
    cluster: str, n: int, *, error_kind: str | None = None, late: float = 0.5, **more: object
) -> dict[str, object]:
    due = BEGIN + n * timedelta(seconds=10)
    sent = None if error_kind else due + timedelta(seconds=late)
    told = {
        "cluster": cluster,
        "n": n,
        "scheduled_at": due,
        "sent_at": sent,
        "error_kind": error_kind,
    }
    return told | {"witnesses": None, "asked": []} | more


def test_polls_are_judged_by_how_their_cluster_behaves():
    members = fleet(["closed", *["good"] * 4], [f"127.0.0.1:{n}" for n in range(1, 6)])
    assert [member.interval_ms for member in members] == [30_000] * 4 + [10_000]
    headers = [header("cluster-000", n, error_kind="unreachable") for n in (0, 3)]
    headers += [header("cluster-001", n, late=n, asked=["reassignments"]) for n in (0, 3, 8)]
    headers += [header("cluster-004", n, witnesses=[{}]) for n in (0, 1, 2)]
    found = seen(headers, members)
    assert (found["closed"].errors, found["closed"].late) == ({"unreachable": 2}, ())
    good = found["good"]
    assert (good.clusters, good.polls, good.errors, good.requests) == (4, 6, {}, 9)
    assert (good.steps, good.off_beat) == (4, 1), "from 3 to 8 are 50 s"
    assert percentile(good.late, 50) == 0.5
    assert percentile([4.0], 95) == 4.0
    assert asked(headers) == {"cluster-001": 3}
    assert holes(headers[2:]) == [("cluster-001", n) for n in (1, 2, 4, 5, 6, 7)]


@pytest.fixture(scope="module")
def servers():
    with answering(MANNERS) as found:
        yield dict(zip(MANNERS, found, strict=True))


@pytest.mark.parametrize("manner", [manner for manner in MANNERS if manner != "slow"])
def test_each_cluster_answers_in_its_manner(servers, manner):
    timeout = "1s" if manner == "silent" else "20s"
    options = parse({"kafka.bootstrap.servers": servers[manner], "requestTimeout": timeout})
    with Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller:
        first = poller.poll()
        if manner not in ERRORS or manner == "throttling":
            assert first.error is None
        else:
            assert first.error_kind in ERRORS[manner]
        if manner == "huge":
            assert first.metadata.partitions.num_rows == HUGE[0] * HUGE[1]
        if manner == "falling":
            epochs = [
                each.metadata.partitions["leader_epoch"][0].as_py()
                for each in (first, poller.poll())
            ]
            assert epochs[1] < epochs[0]
        if manner == "moving":
            tables = [each.metadata.partitions.to_pydict() for each in (first, poller.poll())]
            leaders, epochs = (
                [table[name] for table in tables] for name in ("leader", "leader_epoch")
            )
            assert [old != new for old, new in zip(*leaders, strict=True)].count(True) == 1
            assert sum(epochs[1]) == sum(epochs[0]) + 1
        if manner == "throttling":
            assert poller.poll().error_kind in ERRORS[manner], (
                "it is left alone for longer than a poll may take"
            )


def test_a_fleet_has_every_sick_manner():
    behaving = manners(300)
    assert {manner: behaving.count(manner) for manner in SICK} == dict(SICK)
