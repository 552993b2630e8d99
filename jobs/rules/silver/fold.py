"""Polls of one cluster -> its history: what changed in the interval tables, and the gaps between polls.

Pure: the same polls give the same rows however they are cut into rounds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobs.rules.silver.acceptance import ANSWERED, outcome
from jobs.rules.silver.cluster import Cluster, Records
from jobs.rules.silver.enrichments import answered_kinds
from jobs.rules.silver.state import Header, Poll, Row, State

TOPIC = "topic"


@dataclass(frozen=True)
class Folded:
    """The result of a cluster's round: its next state, new and ended rows by table, and the polls accepted."""

    state: State
    rows: dict[str, list[Row]]
    polls: list[Poll]


def fold(
    state: State | None,
    live: Mapping[str, Sequence[Mapping[str, Any]]],
    headers: Sequence[Header],
    said: Iterable[Mapping[str, Any]],
    claimed_id: str | None = None,
) -> Folded:
    """Bring the history of one cluster up to some polls.

    `live`: current rows by table. `headers`: rows of bronze with record 'poll' in the order of their ids, those that
    wait among them. `said`: the other rows of those polls, at least those that `records_to_read` names. A topic may be
    left out of `live` and `said` if every answer says of it what the last accepted one said, and so may a partition of
    a topic that is in both.
    `claimed_id`: the cluster id that the alias stands for (acceptance.claims), needed until the state has it.
    """
    state = state or State()
    if not headers:
        return Folded(state, {}, [])
    records: defaultdict[str, Records] = defaultdict(lambda: defaultdict(list))
    for row in said:
        records[row["poll_id"]][row["record"]].append(row)
    taken = _taken(replace(state, cluster_id=state.cluster_id or claimed_id), headers)
    cluster = Cluster(taken, headers[0]["cluster"], live)
    for header in _untaken(state, headers):
        cluster.judge(header, records[header["poll_id"]])
    return Folded(cluster.state, cluster.rows, cluster.accepted)


def records_to_read(
    state: State | None, headers: Sequence[Header], claimed_id: str | None = None
) -> dict[str, set[str]]:
    """Poll id -> the kinds of records of that poll that may say something new; the other arguments as for `fold`.

    The rows of a digest that is still what was accepted last need not be read. After the first digest that differs all
    are: what is the same as before then depends on what is accepted.
    """
    state = state or State()
    accepted = {TOPIC: state.digest, **{kind: answered.digest for kind, answered in state.enriched.items()}}
    differing: set[str] = set()
    wanted: dict[str, set[str]] = {}
    for header in _untaken(state, headers):
        if outcome(header, state.cluster_id or claimed_id) == ANSWERED:
            told = {TOPIC: header["digest"], **answered_kinds(header)}
            differing |= {record for record, digest in told.items() if digest is None or digest != accepted.get(record)}
            if records := differing & told.keys():
                wanted[header["poll_id"]] = records
    return wanted


def _untaken(state: State, headers: Iterable[Header]) -> Iterator[Header]:
    """The polls to judge: not taken before, or waiting. Those of a stream older than one already seen are late."""
    waiting = set(state.waiting)
    for header in headers:
        if header["poll_id"] in waiting or (_is_new(state.seen, header) and not _is_late(state, header)):
            yield header


def _is_new(seen: Mapping[str, int], header: Header) -> bool:
    return bool(header["n"] > seen.get(header["stream"], -1))


def _is_late(state: State, header: Header) -> bool:
    return bool(state.seen) and header["stream"] < max(state.seen)


def _taken(state: State, headers: Iterable[Header]) -> State:
    """The state with these polls counted as taken."""
    seen, late = dict(state.seen), state.late_polls
    due = [state.last_poll_at]
    for header in headers:
        if _is_new(seen, header):
            seen[header["stream"]] = header["n"]
            late += _is_late(state, header)
            due.append(header["scheduled_at"])
    last_poll_at = max((at for at in due if at is not None), default=None)
    return replace(state, seen=seen, late_polls=late, last_poll_at=last_poll_at)
