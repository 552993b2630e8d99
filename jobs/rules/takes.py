"""The takes of a round: which polls of each cluster, and which of their records have to be read.

A cluster in which nothing happens is not in a round: its polls are noted with its next news, or
after a minute.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.rules.log.state import State as LogState
from jobs.rules.silver.acceptance import ANSWERED, outcome
from jobs.rules.silver.cluster import records_to_read
from jobs.rules.silver.state import Header, State
from metadata_source.kinds import KAFKA

NOTED_AFTER = timedelta(minutes=1)
"""Polls that say nothing new are noted once they have waited for so long."""

PARTITIONS_A_PART = 20_000
PARTITIONS_A_ROUND = 3_000_000
"""Partitions that the answers which a round opens may list in all, of one cluster, where more than
one poll waits.
"""


@dataclass(frozen=True)
class Take:
    """The polls that a round takes of a cluster: poll id -> the kinds of records to read beside its
    header.

    `parts`: into how many its topics are cut. `first_poll`: the first answer of a large cluster,
    the last of the polls. `kind`: of the cluster, as declared.

    `by_log`: the controllers' log tells topics and partitions when the round begins. `told_from`:
    the poll from which on polls tell them then. `log`: the round takes records of the log, too;
    `whole`: and needs all live rows for that. `believe`: a person says that the answers are right
    that wait after these polls.
    """

    cluster: str
    claimed_id: str | None
    polls: Mapping[str, Sequence[str]]
    days: Sequence[str]
    parts: int
    first_poll: str | None = None
    kind: str = KAFKA
    by_log: bool = False
    told_from: str | None = None
    log: bool = False
    whole: bool = False
    believe: bool = False

    @property
    def is_large(self) -> bool:
        """Whether no one task may hold all partitions of the cluster."""
        return self.parts > 1

    @property
    def records(self) -> set[str]:
        """The kinds of records that the round reads."""
        return {record for records in self.polls.values() for record in records}


def take(
    cluster: str,
    state: State,
    parts: int,
    headers: Sequence[Header],
    *,
    claimed_id: str | None,
    most_polls: int,
    kind: str = KAFKA,
    by_log: bool = False,
    told_from: str | None = None,
) -> Take:
    """Take the first of the polls. `headers`: in order, those that no round has taken or that wait
    in `state`.
    """
    wanted = records_to_read(state, headers, claimed_id, kind, told_from if by_log else "")
    told = headers if not by_log or told_from is not None else ()
    largest = max((header["partition_count"] or 0 for header in told), default=0)
    while largest > parts * PARTITIONS_A_PART:
        parts *= 2  # so that it changes seldom
    polls: dict[str, list[str]] = {}
    days: set[str] = set()
    first_poll = None
    opened = fresh = 0
    for header in headers:
        poll_id = header["poll_id"]
        records = sorted(wanted.get(poll_id, ()))
        if poll_id not in state.waiting:
            opened += (header["partition_count"] or 0) if records else 0
            if fresh and (fresh == most_polls or opened > PARTITIONS_A_ROUND):
                break
            fresh += 1
        polls[poll_id] = records
        days.add(str(header["day"]))
        is_first = state.last is None and not by_log
        if parts > 1 and is_first and outcome(header, state.cluster_id or claimed_id) == ANSWERED:
            first_poll = poll_id
            break
    told_from = told_from if told_from in polls else None
    return Take(
        cluster, claimed_id, polls, sorted(days), parts, first_poll, kind, by_log, told_from
    )


def turn(
    state: State,
    log: LogState | None,
    headers: Iterable[Header],
    claimed_id: str | None,
    *,
    read_at: datetime | None,
    has_snapshot: bool,
    hand_over: timedelta | None,
    since: datetime | None = None,
) -> tuple[bool, str | None]:
    """Whether the controllers' log tells topics and partitions when a round begins, and the poll
    from which on polls tell them then: the first good one that shows all topics, and was answered
    when the log had been silent for `hand_over`. None: the log tells on.

    `log`: None before any of it was taken; if no poll was either, the log tells. `read_at`: when
    records that the round takes were read, None where it takes none; `has_snapshot`: there is one
    among them. `hand_over`: None where nobody reads the log any more. `since`: when a run began
    that reads it all the time; its silence before was nobody's.
    """
    is_new = log is None and state.last is None and read_at is not None
    if not (is_new or (log is not None and log.tells)):
        return False, None
    heard_at = None if log is None else log.heard_at
    if read_at is not None and (has_snapshot or log is None or log.is_whole):
        heard_at = max(read_at, heard_at or read_at)
    silent_since = heard_at and max(heard_at, since or heard_at)
    for header in headers:
        if (
            not header["is_key_frame"]
            or outcome(header, state.cluster_id or claimed_id) != ANSWERED
        ):
            continue
        if (
            silent_since is None
            or hand_over is None
            or header["received_at"] - silent_since > hand_over
        ):
            return True, str(header["poll_id"])
    return True, None


def is_due(
    taken: Take,
    state: State,
    headers: Sequence[Header],
    deadlines: Iterable[datetime | None],
    now: datetime,
) -> bool:
    """Whether a cluster has to be in the next round: it has news, something is to be decided, or
    its polls have waited.

    Answers that wait are no news: the next poll decides about them.
    """
    fresh = [header for header in headers if header["poll_id"] not in state.waiting]
    id_ = state.cluster_id or taken.claimed_id
    answered = [header["received_at"] for header in fresh if outcome(header, id_) == ANSWERED]
    return (
        any(taken.polls.get(header["poll_id"]) for header in fresh)
        or bool(answered and (state.missing or state.waiting))
        or any(deadline is not None and deadline < at for deadline in deadlines for at in answered)
        or now - min((header["scheduled_at"] for header in fresh), default=now) > NOTED_AFTER
    )
