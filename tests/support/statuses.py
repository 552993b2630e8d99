"""The status of a lake with one cluster, as rows of bronze and internal tell it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.configuration.limits import Limits
from jobs.run.unanswered import Asked
from kafka_metadata_history.answers.status import (
    Cluster,
    ClusterLog,
    LakeStatus,
    Waiting,
    clusters_of,
)
from kafka_metadata_history.answers.thresholds import judge

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


S = timedelta(seconds=1)


STREAM = "20261101T110000Z-00000000"


OLDER = "20261101T100000Z-00000000"


HOSTILE = 'pay\\ments "1"\n\x1b[31m\u202e'


def header(
    n: int, kind: str | None = None, *, stream: str = STREAM, late: float = 0, **more: Any
) -> dict[str, Any]:
    """Of a poll that was due ten seconds after the one before, the last one of ten just now."""
    due = NOW - (9 - n) * 10 * S
    times = {
        "scheduled_at": due,
        "sent_at": due + late * S,
        "received_at": None if kind else due + (late + 1) * S,
    }
    outcome = {
        "outcome": "failed" if kind else "ok",
        "error_kind": kind,
        "error": kind and f"{kind} it is",
    }
    outcome |= {"is_visit": False}
    place = {"cluster": "prod", "poll_id": f"{stream}/{n:012d}", "stream": stream, "n": n}
    return place | times | outcome | more


def silver(done: int, **more: Any) -> dict[str, Any]:
    """Its row of internal.clusters, after a poll."""
    at = NOW - (9 - done) * 10 * S + S
    row = {
        "history": "silver",
        "cluster": "prod",
        "taken": {STREAM: done},
        "waiting": None,
        "last_seen_at": at,
    }
    counts = {"refused_polls": 0, "stale_polls": 0}
    return (
        row
        | counts
        | {"done_poll": f"{STREAM}/{done:012d}", "done_at": at, "changed_poll": None}
        | more
    )


HISTORIES = ("silver", "gold", "group log", "rebalance cost", "lag", "incidents")


def waiting(*histories: str, **since: datetime) -> tuple[Waiting, ...]:
    """Of these histories, those up to which something waits `since` a time."""
    return tuple(
        Waiting(each, since.get(each.replace(" ", "_")), f"{each} waits.", each == "silver")
        for each in histories
    )


UP_TO_DATE = waiting(*HISTORIES[:4])


def cluster(
    *headers: dict[str, Any],
    known: tuple[dict[str, Any], ...] = (),
    states: tuple[dict[str, Any], ...] = (),
    gaps: tuple[dict[str, Any], ...] = (),
    logs: list[dict[str, Any]] | None = None,
    followed: tuple[str, ...] = (),
    asked: tuple[str, ...] = (),
) -> Cluster:
    """LakeStatus of the cluster `prod`; another one has rows of all kinds, and is not asked for."""
    others = (
        [header(n, "timeout") | {"cluster": "other"} for n in range(3)],
        [silver(3) | {"cluster": "other"}],
    )
    (found,) = clusters_of(
        {"prod": 10 * S}, headers=[*headers[::-1], *others[0]], clusters=[*known, *others[1]],
        states=states, gaps=gaps, logs=logs, waiting={"prod": UP_TO_DATE}, followed=followed,
        asked=asked,
    )  # fmt: skip
    return found


NO_GROUPS = Asked("groups", 3, NOW - 60 * S, "failed: \x1b[31m")


REFUSED_CONFIGS = Asked("configs", 2, NOW - 60 * S, "not_allowed")


READ = {"cluster": "prod", "read_at": NOW, "lost": 0}


WELL = cluster(*map(header, range(10)), known=(silver(9),), logs=[READ])


def facts(*clusters: Cluster, **more: Any) -> LakeStatus:
    return LakeStatus(
        NOW, "/data/lake", timedelta(hours=1), clusters, **{"upkeep_at": NOW, "rounds": 7} | more
    )


def crossed(each: Cluster, **limits: Any) -> list[tuple[str, str]]:
    found = judge(facts(each), Limits(**limits))
    assert all(one.cluster == "prod" for one in found)
    return [(one.threshold, one.says) for one in found]


BY_LOG = replace(WELL, told_by="log", cluster_log=ClusterLog(NOW - 60 * S, NOW - 300 * S))


NOT_WHOLE = replace(WELL, told_by="polls", cluster_log=ClusterLog(NOW - 60 * S, NOW - 301 * S))
