"""The memory of the fold of the controllers' log of one cluster from round to round, beside its
live rows; and the ids of its observations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from jobs.rules import memory
from jobs.rules.ids import log_id
from jobs.rules.silver.state import Observation, Poll, Row


@dataclass
class State:
    """How far the log of one cluster has become history. Only a fold changes one, of its own.

    `next_offset`: the first record that has not been taken, or that of a BeginTransaction whose end
    is not there yet. `leader_epoch`: that of the last record. `last`: the last observation; its
    times never decrease. `is_whole`: all that there is in the cluster is known, so that records may
    be replayed. It is not before the first snapshot, nor after a part of the log was lost.
    `truncated_at`: when the log was last found to be truncated, by our clock. `after`: begins the
    ids of observations. `run`, `run_at`: id and time of the first of the records up to the last one
    that have one time, offset by offset. A batch of the controllers is atomic, and has one time.
    `controller`: the active controller, None while unknown; `controller_epoch`: its epoch.
    `voters`: by the last VotersRecord, sorted; None while there was none.
    `is_open`: rows from `next_offset` on have to come again, as the end of a transaction was not
    there. `tells`: the log tells the history of topics and partitions, rather than polls.
    `heard_at`: when what was taken of it was read, by our clock, and all was known up to there.
    `topic_filter`: that of the polls then, as in bronze. `static_configs`: what polls had told then
    of the brokers' files (silver.state.State).
    """

    next_offset: int = 0
    leader_epoch: int = 0
    last: Poll | None = None
    is_whole: bool = False
    truncated_at: datetime | None = None
    after: str = ""
    run: str = ""
    run_at: datetime | None = None
    controller: int | None = None
    controller_epoch: int | None = None
    voters: tuple[int, ...] | None = None
    is_open: bool = False
    tells: bool = False
    heard_at: datetime | None = None
    topic_filter: str | None = None
    static_configs: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_cut(self) -> bool:
        """Whether the log was truncated, and nothing of it was taken since."""
        return self.last is not None and not self.is_whole and self.next_offset == 0

    @property
    def told_at(self) -> datetime | None:
        """Nothing up to then will change any more."""
        times = (self.last.at if self.last else None, self.heard_at)
        return max((at for at in times if at is not None), default=None)

    def observation(self, offset: int, at: datetime) -> Observation:
        """The record at `offset`, and the record before it: a change that it brings came at that
        moment.
        """
        at = max(at, self.last.at) if self.last else at
        before = observed(self.after, offset - 1, at) if self.last else None
        return Observation(observed(self.after, offset, at), before)

    def to_json(self) -> Row:
        """The state as JSON can carry it."""
        return cast("Row", memory.to_json(self))

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> "State":
        """The state that `to_json` was called on."""
        return cast("State", memory.from_json(State, plain))


def observed(after: str, offset: int, at: datetime) -> Poll:
    """A record, or the state at it, as a poll with no time between question and answer."""
    return Poll(log_id(after, offset), at, at, 0)
