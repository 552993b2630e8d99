"""Who tells topics, partitions and their settings: polls, or the controllers' log.

| when | who tells |
|---|---|
| no log is read | polls |
| the log of a new cluster was read | the log |
| polls tell, and the log was read after the last accepted poll | the log takes over |
| the log was silent for `hand_over`, or nobody reads it any more | polls, from a key frame on |

In a migration from ZooKeeper polls tell until the log of the first controllers of KRaft was read.

Some tables have one source at all times (`source`). The memories of both folds keep who told last:
of the log `tells` and `heard_at`, of polls `digest`, `heard` and `heir_of`. Only this file decides
by them.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from jobs.rules.ids import LOG, POLLS
from jobs.rules.log.state import State as LogState
from jobs.rules.silver.acceptance import ANSWERED, outcome
from jobs.rules.silver.state import CONFIGS, Answered, Header, Observation, Poll, State
from schemas import silver
from schemas.silver import ENRICHMENTS
from schemas.table import Table

IN_TURN = frozenset(
    {
        silver.TOPIC_SNAPSHOTS,
        silver.PARTITION_SNAPSHOTS,
        silver.CLUSTER_SNAPSHOTS,
        silver.TOPIC_CONFIGS,
        silver.REASSIGNMENTS,
        silver.PARTITION_ELR,
        silver.HISTORY_SOURCES,
    }
)
"""The tables that polls and the log tell in turn."""


def source(table: Table, *, by_log: bool) -> str:
    """Who tells a table of silver: polls | log. `by_log`: the log tells those of `IN_TURN`."""
    return LOG if table in silver.OF_LOG or (by_log and table in IN_TURN) else POLLS


def is_read(enrichment: str, *, by_log: bool) -> bool:
    """Whether an answer beside a poll tells something. No record of the log has the settings that
    are in the brokers' files.
    """
    return enrichment == CONFIGS or source(ENRICHMENTS[enrichment], by_log=by_log) == POLLS


@dataclass(frozen=True)
class Teller:
    """Who tells in a round.

    `by_log`: the log tells when the round begins. `polls_from`: the poll from which on polls tell
    then; None: the log tells to the end.
    """

    by_log: bool = False
    polls_from: str | None = None

    @property
    def is_log_alone(self) -> bool:
        """Whether no poll of the round tells."""
        return self.by_log and self.polls_from is None

    def is_log(self, poll_id: str) -> bool:
        """Whether the log tells when a poll is taken."""
        return self.by_log and (self.polls_from is None or poll_id < self.polls_from)

    def among(self, polls: Container[str]) -> "Teller":
        """The same for a round that takes no other polls."""
        return self if self.polls_from in polls else replace(self, polls_from=None)

    def halves(
        self, headers: Sequence[Header], read_at: datetime | None
    ) -> tuple[Sequence[Header], Sequence[Header]]:
        """The polls before another may tell, and the others: those from `polls_from` on or, where
        polls tell first, those that were answered after the log was read.
        """
        if self.by_log:
            first = takewhile(lambda header: header["poll_id"] != self.polls_from, headers)
        else:
            first = takewhile(lambda header: read_at is None or _at(header) <= read_at, headers)
        count = len(list(first))
        return headers[:count], headers[count:]


POLLS_ALONE = Teller()


def _at(header: Header) -> datetime:
    """When a poll was answered, or was due."""
    at: datetime = header["received_at"] or header["scheduled_at"]
    return at


def teller(
    state: State,
    log: LogState | None,
    headers: Iterable[Header],
    claimed_id: str | None,
    *,
    read_at: datetime | None,
    has_snapshot: bool,
    hand_over: timedelta | None,
    since: datetime | None = None,
) -> Teller:
    """Who tells in a round that is planned. Polls tell in place of the log from the first good key
    frame on that was answered when the log had been silent for `hand_over`.

    `log`: None before any of it was taken; if no poll was either, the log tells. `read_at`: when
    records that the round takes were read, None where it takes none; `has_snapshot`: there is one
    among them. `hand_over`: None where nobody reads the log any more. `since`: when a run began
    that reads it all the time; its silence before was nobody's.
    """
    is_new = log is None and state.last is None and read_at is not None
    if not (is_new or is_by_log(log)):
        return Teller()
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
            return Teller(by_log=True, polls_from=str(header["poll_id"]))
    return Teller(by_log=True)


def is_by_log(log: LogState | None) -> bool:
    """Whether the log tells."""
    return log is not None and log.tells


# --- from polls to the log ---


def begun(polled: Poll | None, topic_filter: str | None) -> LogState:
    """The memory of a log of which nothing was taken: it tells if no poll was accepted."""
    return LogState(tells=polled is None, topic_filter=topic_filter)


def takes_over(log: LogState, polled: Poll | None, answered: Mapping[str, Poll]) -> bool:
    """Whether the log tells from now on in place of polls: it was read after the last accepted poll
    `polled`, and the last answers beside polls.
    """
    times = [each.at for each in (polled, *answered.values()) if each]
    return not log.tells and log.heard_at is not None and all(at <= log.heard_at for at in times)


def taken_over(state: State) -> State:
    """The memory of polls once the log tells what it can tell."""
    enriched = {
        enrichment: answered
        for enrichment, answered in state.enriched.items()
        if is_read(enrichment, by_log=True)
    }
    return replace(
        state, missing={}, digest=None, topic_digests={}, enriched=enriched, heir_of=None
    )


# --- from the log to polls ---


def handed_over(state: State, log: LogState) -> tuple[State, LogState]:
    """The memories of both once polls tell again. Polls since the log's last observation were not
    asked what they showed of topics, so changes may have come after that one.
    """
    silent = replace(log, tells=False)
    if log.last is None:
        return state, silent
    of_log = [enrichment for enrichment, table in ENRICHMENTS.items() if table in IN_TURN]
    enriched = {**state.enriched, **dict.fromkeys(of_log, Answered(**vars(log.last)))}
    return replace(state, enriched=enriched, heard=None, heir_of=log.last), silent


def inherited(state: State, now: Observation) -> Observation:
    """Where an accepted poll shows topics: after the last observation of the log, if that told
    before.
    """
    return now if state.heir_of is None else Observation(now.poll, state.heir_of)


# --- while either tells ---


def last_digest(state: State, *, by_log: bool) -> bytes | None:
    """The digest of the last accepted poll; None where it showed what was not looked at."""
    return state.heard if by_log else state.digest


def keep_digest(state: State, digest: bytes | None, *, by_log: bool) -> None:
    """Note the digest of an accepted poll."""
    state.digest, state.heard = (None, digest) if by_log else (digest, None)


def settled(
    state: State, log: LogState | None, before: tuple[str | None, datetime | None]
) -> tuple[str | None, datetime | None]:
    """The last observation up to which nothing will change any more, and its time. `before`: the
    same when the round began.
    """
    last = state.settled
    if log is not None and log.tells and log.last is not None:
        return max(log.last.id, last.id if last else ""), log.told_at
    # The log was known further than the poll that the first one to tell again follows.
    if before[0] is not None and before[0] > (last.id if last else ""):
        return before
    return (last.id, last.at) if last else (None, None)
