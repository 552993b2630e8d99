"""One cluster's state now: a Metadata answer that a second broker has not contradicted, and the
answers beside it. Writes nothing.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from metadata_source import questions
from metadata_source.enrichment import Answer, subject
from metadata_source.errors import PollError
from metadata_source.options import TopicFilter
from metadata_source.outcomes import OK, outcome_of
from metadata_source.poller import Poller
from metadata_source.quorum import caught_up_lags, described_quorum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.addresses import Address
    from metadata_source.asking import Asking
    from metadata_source.options import Cluster
    from metadata_source.poll import Poll
    from metadata_source.protocol.metadata import ClusterMetadata

ASKED: Final = ("configs", "reassignments", "elr", "fenced")
"""The questions beside Metadata and the quorum."""
_POLLS: Final = 2
"""One broker may lag, and tell an older state. The second poll asks the next broker, and if the two
differ, the poller asks others which is newer."""
_EVERY_TOPIC: Final = TopicFilter()


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The quorum. `lags_ms`: see `caught_up_lags`."""

    leader: int
    voters: frozenset[int]
    lags_ms: Mapping[int, float] | None


@dataclass(frozen=True, slots=True)
class Now:
    """`answers`: by kind, those of ASKED. `outcome`: of the question about the quorum, as in
    `outcomes`; of a good one `quorum`. `poll` is a good one, and `metadata` its answer about every
    topic.
    """

    poll: Poll
    metadata: ClusterMetadata
    answers: Mapping[str, Answer]
    outcome: str
    quorum: CaughtUp | None


def ask_now(cluster: Cluster, request_timeout_ms: int) -> Now:
    """Ask a cluster for its state. Raises PollError if its metadata cannot be had."""
    with Poller(cluster, _EVERY_TOPIC, request_timeout_ms, needs_id=True) as poller:
        for _ in range(_POLLS):
            poll = poller.poll()
            if poll.error_kind is not None or poll.metadata is None:
                raise PollError(poll.error_kind or "protocol", poll.error or "")
            metadata = poll.metadata
        about = subject(ASKED, metadata)
        with closing(poller.asking(request_timeout_ms)) as asking:
            answers = {each.enrichment: each for each in asking.answers(about, poller.answerer)}
            until = time.monotonic() + request_timeout_ms / 1000
            try:
                quorum = _quorum(asking, poller.answerer, until)
            except PollError as error:
                return Now(poll, metadata, answers, outcome_of(error), None)
    return Now(poll, metadata, answers, OK, quorum)


def _quorum(asking: Asking, address: Address, deadline: float) -> CaughtUp:
    told = described_quorum(asking.requester.ask(address, questions.quorum(), deadline))
    voters = frozenset(each.replica_id for each in told.current_voters)
    return CaughtUp(told.leader_id, voters, caught_up_lags(told))
