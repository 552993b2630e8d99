"""The numbers that judge a fleet's run."""

from datetime import UTC, datetime, timedelta

from benchmarks.fleet.headers import asked, holes, seen
from benchmarks.fleet.made_up import fleet

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
    assert good.late == (0, 3, 8, 0.5, 0.5, 0.5)
    assert asked(headers) == {"cluster-001": 3}
    assert holes(headers[2:]) == [("cluster-001", n) for n in (1, 2, 4, 5, 6, 7)]
