"""Polls and the states that they saw, as plain records: polls from bronze, states from silver."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from truth.chaos import Entry

SETTLING = timedelta(seconds=10)
"""So long after its start, pause or return a broker's answers are not compared."""


_Told = tuple[int, int, frozenset[int]]
"""Leader epoch, leader and ISR of a partition."""


@dataclass(frozen=True, slots=True)
class Poll:
    """One good poll."""

    poll_id: str
    sent_at: datetime
    received_at: datetime
    broker_id: int | None
    interval: timedelta
    accepted: bool
    """False: an epoch in it is lower than one that was known before; or a broker that was not
    listed before alone says it; or it has nothing new, and the next one shows that its broker was
    behind, or may have been: it is no leader any more, out of an ISR, or not listed.
    """
    left_out: str | None
    """Why it proves nothing of silver: paused | started | cut_off (it says that nothing has
    changed, as its broker may have said whatever happened, and no later poll shows that); null for
    nearly all.
    """


@dataclass(frozen=True, slots=True)
class Seen:
    """A row of silver.partition_snapshots: a state from one accepted poll to another."""

    topic: str
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    first_poll: str
    last_poll: str | None
    """Null: to the end."""

    @property
    def key(self) -> tuple[str, int]:
        """Topic id and partition."""
        return self.topic_id, self.partition


@dataclass(frozen=True, slots=True)
class SeenBroker:
    """A row of silver.broker_snapshots: a broker, listed from one accepted poll to another."""

    broker_id: int
    rack: str | None
    first_poll: str
    last_poll: str | None


def polls_of(rows: Iterable[Mapping[str, Any]], journal: Sequence[Entry]) -> list[Poll]:
    """The good polls of one cluster among rows of bronze.metadata_polls, in order."""
    by_poll: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_poll.setdefault(row["poll_id"], []).append(row)
    out = _times_out(journal)
    known: dict[tuple[str, int], int] = {}
    topics: dict[str, dict[tuple[str, int], _Told]] = {}
    before: dict[tuple[str, int], _Told] = {}
    listed: set[int] = set()
    polls: list[Poll] = []
    digest: bytes | None = None
    quiet: int | None = None  # The broker of the last accepted one, if that had nothing new,
    first_quiet = 0  # and the first of the polls in a row in which it said so.
    for poll_id in sorted(by_poll):
        header = next(row for row in by_poll[poll_id] if row["record"] == "poll")
        if header["outcome"] != "ok":
            continue
        if header["is_key_frame"]:
            topics = {}
        _take(topics, [row for row in by_poll[poll_id] if row["record"] == "topic"])
        told = {key: of for partitions in topics.values() for key, of in partitions.items()}
        epochs = {key: epoch for key, (epoch, _, _) in told.items()}
        is_quiet = header["digest"] == digest
        is_old = any(epoch < known.get(key, 0) for key, epoch in epochs.items())
        accepted = not is_old and (is_quiet or not _is_by_unlisted(header, listed))
        if (
            accepted
            and quiet is not None
            and (quiet in _behind(header) or _has_lost(quiet, header, before, told))
        ):
            polls[first_quiet:] = [replace(poll, accepted=False) for poll in polls[first_quiet:]]
        polls.append(
            Poll(
                poll_id=poll_id,
                sent_at=header["sent_at"],
                received_at=_shown_by(header),
                broker_id=header["broker_id"],
                interval=timedelta(milliseconds=header["interval_ms"]),
                accepted=accepted,
                left_out=_why_left_out(out, header, is_quiet=is_quiet),
            )
        )
        if accepted:
            if not (is_quiet and quiet == header["broker_id"]):
                first_quiet = len(polls) - 1
            quiet, digest = header["broker_id"] if is_quiet else None, header["digest"]
            known, before, listed = known | epochs, told, _listed(header)
    return polls


def _shown_by(header: Mapping[str, Any]) -> datetime:
    """By when what a poll showed was so: another broker may have had to confirm it."""
    answered: datetime = header["received_at"]
    same = [told for told in header["witnesses"] or () if told["is_behind"] is False]
    return max(answered, min((told["received_at"] for told in same), default=answered))


def _listed(header: Mapping[str, Any]) -> set[int]:
    return {each["broker_id"] for each in header["brokers"]}


def _is_by_unlisted(header: Mapping[str, Any], listed: set[int]) -> bool:
    """Whether a broker answered that was not listed before, and no other one was heard, though
    there are others.

    Its image may be an old one. Where others hang, as a paused one does, nobody is heard.
    """
    broker = header["broker_id"]
    is_heard = any(told["error_kind"] is None for told in header["witnesses"] or ())
    return (
        bool(listed) and broker not in listed and bool(_listed(header) - {broker}) and not is_heard
    )


def _has_lost(
    broker: int,
    header: Mapping[str, Any],
    before: Mapping[tuple[str, int], _Told],
    now: Mapping[tuple[str, int], _Told],
) -> bool:
    """Whether a broker led, was in sync or was listed before a poll, and is not with it; or leads
    again, in an epoch that leaves room for another leader.
    """
    if broker not in _listed(header):
        return True
    both = [(before[key], now[key]) for key in before.keys() & now.keys()]
    return any(
        (leader == broker and (leader_now != broker or epoch_now >= epoch + 2))
        or (broker in isr and broker not in isr_now)
        for (epoch, leader, isr), (epoch_now, leader_now, isr_now) in both
    )


def _behind(header: Mapping[str, Any]) -> set[int]:
    """The brokers that answered with a poll and are not known to be as far as its answer."""
    heard = [told for told in header["witnesses"] or () if told["error_kind"] is None]
    return {told["broker_id"] for told in heard if told["is_behind"] is not False}


def _take(
    topics: dict[str, dict[tuple[str, int], _Told]], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Bring what is told of each topic up to a poll, whose rows hold topics that changed."""
    for name in {row["topic"] for row in rows}:
        topics[name] = {}
    for row in rows:
        if row["present"] is False:
            topics.pop(row["topic"], None)
            continue
        for partition in row["partitions"] or ():
            if partition["leader_epoch"] is not None and row["topic_id"] is not None:
                key = row["topic_id"], partition["partition"]
                topics[row["topic"]][key] = (
                    partition["leader_epoch"],
                    partition["leader"],
                    frozenset(partition["isr"]),
                )


Outage = tuple[str, datetime, datetime]
"""Why, from, to."""

CUT_OFF = "cut_off"
_ENDED_BY = {"resume": "pause", "rejoin": "isolate"}
_WHY = {"pause": "paused", "isolate": CUT_OFF}


def _times_out(journal: Sequence[Entry]) -> dict[int, list[Outage]]:
    """For each broker the times in which its answers prove nothing: paused, cut off, just back."""
    out: dict[int, list[Outage]] = {}
    begun: dict[tuple[int, str], datetime] = {}
    for entry in journal:
        for broker in entry.nodes:
            if entry.action in _ENDED_BY.values():
                begun.setdefault((broker, entry.action), entry.began_at)
            elif (action := _ENDED_BY.get(entry.action)) and (broker, action) in begun:
                since = begun.pop((broker, action))
                out.setdefault(broker, []).append((_WHY[action], since, entry.ended_at + SETTLING))
            elif entry.action == "start":
                out.setdefault(broker, []).append(
                    ("started", entry.began_at, entry.ended_at + SETTLING)
                )
    return out


def _why_left_out(
    out: Mapping[int, Sequence[Outage]], header: Mapping[str, Any], *, is_quiet: bool
) -> str | None:
    for why, since, until in out.get(header["broker_id"], ()):
        if (
            since <= header["received_at"]
            and header["sent_at"] <= until
            and (is_quiet or why != CUT_OFF)
        ):
            return why
    return None


@dataclass(frozen=True)
class Watch:
    """The accepted polls in order, and which of them lie where."""

    polls: tuple[Poll, ...]
    tolerance: timedelta
    """A broker's answer shows a state that held between `sent_at` less this and `received_at`."""

    @classmethod
    def over(cls, polls: Iterable[Poll], tolerance: timedelta) -> "Watch":
        """Over the accepted polls."""
        return cls(tuple(poll for poll in polls if poll.accepted), tolerance)

    def between(self, first_poll: str, last_poll: str | None) -> Sequence[Poll]:
        """The accepted polls from one to another, both included."""
        start = bisect.bisect_left(self.polls, first_poll, key=lambda poll: poll.poll_id)
        if last_poll is None:
            return self.polls[start:]
        return self.polls[
            start : bisect.bisect_right(self.polls, last_poll, key=lambda poll: poll.poll_id)
        ]

    def certainly_within(self, since: datetime, until: datetime | None) -> Poll | None:
        """The first poll that counts and must show what held from `since` until `until`."""
        start = bisect.bisect_left(
            self.polls, since + self.tolerance, key=lambda poll: poll.sent_at
        )
        for poll in self.polls[start:]:
            if until is not None and poll.received_at >= until:
                return None
            if poll.left_out is None:
                return poll
        return None
