"""Coordinators of one kind, all of them: each broker is asked about what it coordinates.

A broker coordinates what is in the partitions that it leads of a topic of Kafka's own: groups those
of ``__consumer_offsets``, transactional ids those of ``__transaction_state``. If brokers that were
asked led all partitions of that topic, before and after they answered and by their own word,
nothing is missing. Else what the other partitions keep is missing. If that topic may not be seen,
or does not exist yet, all brokers must have been asked.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from metadata_source.errors import PollError
from metadata_source.many_brokers import at_addresses, some
from metadata_source.questions import TopicQuestion
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from metadata_source.many_brokers import Broker, Time, Visits

_LOADING_BEGINS_S: Final = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Account(Generic[T]):
    """What one broker answered, and what it said of the topic."""

    broker: Broker
    answer: T
    led: frozenset[tuple[int, int]]
    """Partitions of the topic that it led before and after, with leader epochs."""
    partitions: frozenset[int]
    """All that there are; empty if it did not say."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[T]):
    """What each coordinator is asked. `topic`: where what it coordinates is kept. `name`: of the
    question, one word. `first`: what must be whole; `then`: what else there is to ask, of what
    `first` answered, whoever coordinates it by then. Both raise PollError.
    """

    topic: str
    name: str
    first: Callable[[Broker], T]
    then: Callable[[Broker, T], T] = lambda _, answer: answer


@dataclass(frozen=True, slots=True)
class _Lost:
    """A broker that did not answer."""

    broker: Broker
    error: PollError


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """What those coordinators answered that did. `error`: why something may be missing, which is
    what `unled` keep, partitions of the topic, of so many `partitions`.
    """

    accounts: list[Account[T]]
    unled: frozenset[int]
    partitions: int
    error: PollError | None


def settled_accounts(
    visits: Visits, brokers: Iterable[Broker], asked: Asked[T], given: Time
) -> list[Account[T]]:
    """Return what all brokers say, once coordinators that are new have begun to load. Raises
    PollError if something may be missing, and says which brokers and partitions.

    Brokers are asked side by side.
    """
    return _settled(visits, brokers, asked, given, _whole).accounts


def settled(visits: Visits, brokers: Iterable[Broker], asked: Asked[T], given: Time) -> Settled[T]:
    """Return what brokers say, else as `settled_accounts`. Raises PollError if nobody answered, or
    it is not known which partitions are missing.
    """
    return _settled(visits, brokers, asked, given, _known)


def _whole(found: Settled[T]) -> Settled[T]:
    if found.error is not None:
        raise found.error
    return found


def _known(found: Settled[T]) -> Settled[T]:
    return found if found.accounts and found.unled else _whole(found)


def _settled(
    visits: Visits,
    brokers: Iterable[Broker],
    asked: Asked[T],
    given: Time,
    checked: Callable[[Settled[T]], Settled[T]],
) -> Settled[T]:
    at = at_addresses(brokers, lambda broker: broker.address)
    found = checked(_accounts(visits, at, asked, given))
    led = frozenset[tuple[int, int]]().union(*(account.led for account in found.accounts))
    if visits.are_new(asked.topic, led):
        # A broker says that it leads a moment before its coordinator begins to load, and lists
        # nothing until then.
        time.sleep(max(0.0, min(_LOADING_BEGINS_S, given.until - time.monotonic())))
        found = checked(_accounts(visits, at, asked, given))
    return found


def _accounts(
    visits: Visits, brokers: Iterable[Sequence[Broker]], asked: Asked[T], given: Time
) -> Settled[T]:
    """Return what brokers say, a thread a sequence. Raises PollError if the user may not ask, or
    one has no such request.
    """
    found = side_by_side(
        brokers,
        lambda those: [_account_or_lost(visits, each, asked, given) for each in those],
        asked.name,
    )
    accounts: list[Account[T]] = []
    lost: list[_Lost] = []
    for each in chain.from_iterable(found):
        if isinstance(each, _Lost):
            lost.append(each)
        else:
            accounts.append(each)
    for each in lost:
        if each.error.kind in {"authorization", "unsupported_version"}:
            raise each.error
    partitions = frozenset[int]().union(*(account.partitions for account in accounts))
    unled = partitions.difference(partition for account in accounts for partition, _ in account.led)
    if not unled and (partitions or not lost):
        return Settled(accounts, unled, len(partitions), None)
    problems = _problems(lost, given)
    if unled:
        problems.append(
            f"no broker that answered leads {asked.topic} partitions {some(sorted(unled))}"
        )
    error = PollError(lost[0].error.kind if lost else "broker_error", "; ".join(problems))
    return Settled(accounts, unled, len(partitions), error)


def _account_or_lost(
    visits: Visits, broker: Broker, asked: Asked[T], given: Time
) -> Account[T] | _Lost:
    try:
        given.check()
        led, partitions = _led(visits, broker, asked.topic, given.until)
        answer = asked.first(broker)
        still_led, still_there = _led(visits, broker, asked.topic, given.until)
        return Account(
            broker, asked.then(broker, answer), led & still_led, partitions | still_there
        )
    except PollError as error:
        return _Lost(broker, error)


def _problems(lost: Iterable[_Lost], given: Time) -> list[str]:
    """Return a line for each thing that is wrong, with the brokers of which it is said."""
    brokers: dict[str, list[Broker]] = {}
    for each in lost:
        brokers.setdefault(given.problem(each.broker, each.error), []).append(each.broker)
    return [
        f"broker{'s' * (len(those) > 1)} {some(those)}: {problem}"
        for problem, those in brokers.items()
    ]


def _led(
    visits: Visits, broker: Broker, topic: str, deadline: float
) -> tuple[frozenset[tuple[int, int]], frozenset[int]]:
    """Return the partitions of a topic that a broker leads by its own word, with epochs, and all
    that there are.
    """
    metadata = visits.ask(broker.address, TopicQuestion(topic), deadline)
    partitions = metadata.partitions.select(["partition", "leader", "leader_epoch"]).to_pylist()
    return (
        frozenset(
            (each["partition"], each["leader_epoch"])
            for each in partitions
            if each["leader"] == broker.broker_id
        ),
        frozenset(each["partition"] for each in partitions),
    )
