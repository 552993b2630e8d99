"""The takes of a round: which polls of each cluster, and which of their records have to be read.

A cluster in which nothing happens is not in a round: its polls are noted with its next news, or
after three minutes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.rules.silver.acceptance import ANSWERED, outcome
from jobs.rules.silver.cluster import records_to_read
from jobs.rules.silver.state import Header, State
from jobs.rules.teller import POLLS_ALONE, Teller
from metadata_source.kinds import KAFKA

NOTED_AFTER = timedelta(minutes=3)
"""News that say nothing are noted once they have waited for so long. A note is two commits. A look
comes 90 s later at most (PAUSE_S), and from five minutes on `status` says that history is behind.
"""

PARTITIONS_A_PART = 20_000
PARTITIONS_A_ROUND = 3_000_000
"""Partitions of one cluster that a round may open in all, where more than one poll waits."""


@dataclass(frozen=True)
class Take:
    """The polls that a round takes of a cluster: poll id -> the kinds of records to read beside its
    header.

    `parts`: into how many its topics are cut. `first_poll`: the first answer of a large cluster,
    the last of the polls. `kind`: of the cluster, as declared.

    `teller`: who tells topics and partitions. `log`: the round takes records of the controllers'
    log, too; `whole`: and needs all live rows for that. `believe`: a person says that the answers
    are right that wait after these polls.
    """

    cluster: str
    claimed_id: str | None
    polls: Mapping[str, Sequence[str]]
    days: Sequence[str]
    parts: int
    first_poll: str | None = None
    kind: str = KAFKA
    teller: Teller = POLLS_ALONE
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
    teller: Teller = POLLS_ALONE,
) -> Take:
    """Take the first of the polls. `headers`: in order, not taken yet or waiting in `state`."""
    wanted = records_to_read(state, headers, claimed_id, kind, teller)
    told = () if teller.is_log_alone else headers
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
        is_first = state.last is None and not teller.by_log
        if parts > 1 and is_first and outcome(header, state.cluster_id or claimed_id) == ANSWERED:
            first_poll = poll_id
            break
    of_round = teller.among(polls)
    return Take(cluster, claimed_id, polls, sorted(days), parts, first_poll, kind, of_round)


def is_due(
    taken: Take,
    state: State,
    headers: Sequence[Header],
    deadlines: Iterable[datetime | None],
    now: datetime,
) -> bool:
    """Whether a cluster has to be in the next round: it has news, more polls than a round takes,
    something is to be decided, or its polls have waited.

    Answers that wait are no news: the next poll decides about them. Of polls that the round leaves
    nobody has looked whether they are news.
    """
    fresh = [header for header in headers if header["poll_id"] not in state.waiting]
    id_ = state.cluster_id or taken.claimed_id
    answered = [header["received_at"] for header in fresh if outcome(header, id_) == ANSWERED]
    return (
        any(taken.polls.get(header["poll_id"]) for header in fresh)
        or any(header["poll_id"] not in taken.polls for header in fresh)
        or bool(answered and (state.missing or state.waiting))
        or any(deadline is not None and deadline < at for deadline in deadlines for at in answered)
        or now - min((header["scheduled_at"] for header in fresh), default=now) > NOTED_AFTER
    )
