"""Brokers that answer from an old image: which, since when, until when, how far behind.

A poll's header says of other brokers, its witnesses, whether they were behind
(metadata_source/witnesses.py). Images spread within milliseconds, so a broker is stale once it
still shows the older state `STALE_AFTER` after the newer one was seen. An episode ends with the
broker's first answer that is not behind, or when the broker cannot be reached.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.ids import row_id
from jobs.rules.silver.state import Behind, Header, Poll, Row, State

STALE_AFTER = timedelta(seconds=1)
CAUGHT_UP, UNREACHABLE = "caught_up", "unreachable"


def behind_after(header: Header, before: Mapping[int, Behind]) -> dict[int, Behind]:
    """The stale brokers after a good poll, by id: those `before` and those that it finds."""
    behind = dict(before)
    for told in _told(header):
        broker, known = told["broker_id"], behind.get(told["broker_id"])
        if told["is_behind"]:
            lag_ms = told["behind_ms"] or 0
            if known or lag_ms >= STALE_AFTER / timedelta(milliseconds=1):
                far = Behind(told["sent_at"], told["partitions_behind"], told["epochs_behind"])
                behind[broker] = far if known is None else far.beside(known)
        elif told["is_behind"] is False or told["error_kind"]:
            behind.pop(broker, None)
    return behind


def is_told(header: Header, before: Mapping[int, Behind]) -> bool:
    """Whether rows of gold.stale_brokers change with a poll."""
    return _sizes(behind_after(header, before)) != _sizes(before)


class StaleBrokers:
    """Rows of gold.stale_brokers of one cluster: open ones, and those that a round `changed`."""

    def __init__(self, state: State, columns: Row, live: Iterable[Mapping[str, Any]]) -> None:
        self._state, self._columns = state, columns
        self._open = {row["broker_id"]: dict(row) for row in live}
        self.changed: dict[str, Row] = {}

    def take(self, header: Header, poll: Poll) -> None:
        """Take in an accepted poll."""
        state, before = self._state, self._state.behind
        told = {each["broker_id"]: each for each in _told(header)}
        state.behind = behind_after(header, before)
        if _sizes(state.behind) != _sizes(before):
            for broker, far in state.behind.items():
                if broker not in before:
                    self._begin(told[broker], poll)
                self._change(broker, partitions_behind=far.partitions, epochs_behind=far.epochs)
            for broker in before.keys() - state.behind.keys():
                self._end(told[broker], before[broker], poll)
        state.current = {**state.current, **self._known_to_be_current(header, told)}

    def _known_to_be_current(
        self, header: Header, told: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, datetime]:
        """When brokers were asked, by id, for answers that a poll shows not to have been behind.

        One that says that nothing has changed may be behind, until another broker says so too.
        """
        state, found = self._state, {}
        says_the_same, broker = (
            state.digest is not None and header["digest"] == state.digest,
            header["broker_id"],
        )
        if says_the_same and state.last and state.answered_by not in (None, broker):
            found[state.answered_by] = state.last.sent_at
        return found | {
            each: of["sent_at"]
            for each, of in told.items()
            if of["is_behind"] is False and not (says_the_same and each == broker)
        }

    def _begin(self, told: Mapping[str, Any], poll: Poll) -> None:
        broker, after = told["broker_id"], self._state.current.get(told["broker_id"])
        self._open[broker] = {
            "id": row_id(self._columns["cluster_id"], broker, poll.id),
            **self._columns,
            "broker_id": broker,
            "broker": told["broker"],
            "poll": poll.id,
            "began_after": after and min(after, told["received_at"]),
            "began_before": told["received_at"],
            **dict.fromkeys(
                ("ended_poll", "ended_after", "ended_before", "duration_ms_min", "duration_ms_max")
            ),
            "end_reason": None,
            "is_live": True,
        }

    def _change(self, broker: int, **columns: Any) -> None:
        row = self._open[broker]
        row |= columns
        self.changed[row["id"]] = row

    def _end(self, told: Mapping[str, Any], last: Behind, poll: Poll) -> None:
        broker = told["broker_id"]
        row = self._open[broker]
        ended = told["received_at"] or poll.at
        after = max(last.at, row["began_before"])
        ended = max(ended, after)
        self._change(
            broker,
            ended_poll=poll.id,
            ended_after=after,
            ended_before=ended,
            duration_ms_min=(after - row["began_before"]) // timedelta(milliseconds=1),
            duration_ms_max=row["began_after"]
            and (ended - row["began_after"]) // timedelta(milliseconds=1),
            end_reason=UNREACHABLE if told["error_kind"] else CAUGHT_UP,
            is_live=False,
        )
        del self._open[broker]


def _told(header: Header) -> list[Mapping[str, Any]]:
    """The brokers whose ids are known that a good poll asked, as witnesses; who answered it is one
    that is not behind.

    A broker may be asked twice: the last word counts.
    """
    answered = {name: header[name] for name in ("broker_id", "broker", "sent_at", "received_at")}
    told = [*(header["witnesses"] or ()), answered | {"is_behind": False, "error_kind": None}]
    return [each for each in told if each["broker_id"] is not None]


def _sizes(behind: Mapping[int, Behind]) -> dict[int, tuple[int, int]]:
    return {broker: (far.partitions, far.epochs) for broker, far in behind.items()}
