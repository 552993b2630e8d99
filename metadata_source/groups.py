"""Groups of every type: each broker lists those that it coordinates, and describes them.

A broker lists the groups that it coordinates, those of the partitions of ``__consumer_offsets``
that it leads. If brokers that were asked led all partitions of that topic, before and after they
listed and by their own word, all groups are there. Else the answer has no group. If that topic may
not be seen, or does not exist yet, all brokers must have been asked.

A group is described by the broker that listed it (`group_descriptions`).
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kafka.protocol.admin import ListGroupsRequest

from metadata_source.errors import PollError
from metadata_source.group_descriptions import describe, is_simple, listed_group, type_of
from metadata_source.kafka_constants import OFFSETS_TOPIC
from metadata_source.many_brokers import Time, at_addresses, some, undone
from metadata_source.questions import Question, TopicQuestion, check
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from metadata_source.group_descriptions import Description, Group
    from metadata_source.many_brokers import Broker, Visits

    _Tell: TypeAlias = Callable[
        [Visits, Broker, str | None, Sequence[str], Time], Iterator[tuple[str, Description]]
    ]

_GROUPS_A_REQUEST: Final = 200
_LOADING_BEGINS_S: Final = 1.0


class Coordinated(NamedTuple):
    """The groups that a broker listed, each with its type; None before ListGroups v5 (Kafka 3.8).

    `simple`: those that no member ever joined, so that they have no protocol: they only commit
    (Kafka's `isSimpleConsumerGroup`).
    """

    broker: Broker
    groups: dict[str, str | None]
    simple: frozenset[str]


class Described(NamedTuple):
    """The cluster's groups, sorted by id, as mappings that rows of bronze nest, and who coordinates
    them.

    `error` is null of a group that was described. One that may not be (`not_allowed`), or whose
    type has no request that is known here (`not_supported`), has type and state as listed. `failed:
    ...`: its state could not be told this time. `missing` says in one line how many those are, and
    why; None if there are none.
    """

    groups: list[Group]
    missing: str | None
    coordinated: list[Coordinated]


@dataclass(frozen=True, slots=True)
class _Account:
    """The groups that one broker coordinates, and its answers about them and the offsets topic."""

    broker: Broker
    groups: dict[str, Group]
    simple: frozenset[str]
    """As listed: what is described of a group may be that of none."""
    led: frozenset[tuple[int, int]]
    """Partitions of the offsets topic that it led before and after, with leader epochs."""
    partitions: frozenset[int]
    """All that there are; empty if it did not say."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """A broker that did not list its groups."""

    broker: Broker
    error: PollError


def described(visits: Visits, brokers: Iterable[Broker]) -> Described:
    """Return all groups of the cluster. Raises PollError if some may be missing, and says which
    brokers and partitions.

    Brokers are asked side by side. It takes all of the time that is left.
    """
    accounts = _settled_accounts(visits, brokers, describe, Time.share(visits, 1))
    groups: dict[str, Group] = {}
    for account in accounts:
        for group_id, group in account.groups.items():
            # Two brokers list a group that moves meanwhile: one of them describes it.
            if "error" in groups.get(group_id, {"error": None}):
                groups[group_id] = group
    missing = undone(
        (group["error"] for group in groups.values() if "error" in group),
        len(groups),
        "groups could not be described",
    )
    return Described(
        [groups[group_id] for group_id in sorted(groups)], missing, _coordinated(accounts)
    )


def coordinated(visits: Visits, brokers: Iterable[Broker]) -> list[Coordinated]:
    """Return who coordinates which groups, and describe none; else as `described`. It takes a third
    of the time that is left: commits and ends are asked for after it.
    """
    return _coordinated(
        _settled_accounts(visits, brokers, lambda *_: iter(()), Time.share(visits, 3))
    )


def _coordinated(accounts: Iterable[_Account]) -> list[Coordinated]:
    return [
        Coordinated(
            account.broker,
            {group_id: group["group_type"] for group_id, group in account.groups.items()},
            account.simple,
        )
        for account in accounts
    ]


def _settled_accounts(
    visits: Visits, brokers: Iterable[Broker], tell: _Tell, given: Time
) -> list[_Account]:
    """Return what all brokers say, once coordinators that are new have begun to load. Raises
    PollError, as `_accounts`.

    `tell`: of a broker, a type and ids of its groups, what else there is to say of each.
    """
    at = at_addresses(brokers, lambda broker: broker.address)
    accounts = _accounts(visits, at, given, tell)
    if visits.are_new(frozenset[tuple[int, int]]().union(*(account.led for account in accounts))):
        # A broker says that it leads a moment before its coordinator begins to load, and lists
        # nothing until then.
        time.sleep(max(0.0, min(_LOADING_BEGINS_S, given.until - time.monotonic())))
        accounts = _accounts(visits, at, given, tell)
    return accounts


def _accounts(
    visits: Visits, brokers: Iterable[Sequence[Broker]], given: Time, tell: _Tell
) -> list[_Account]:
    """Return what brokers say, a thread a sequence. Raises PollError if groups may be missing."""
    found = side_by_side(
        brokers,
        lambda those: [_account_or_lost(visits, each, given, tell) for each in those],
        "groups",
    )
    answers = list(chain.from_iterable(found))
    accounts = [answer for answer in answers if isinstance(answer, _Account)]
    lost = [answer for answer in answers if isinstance(answer, _Lost)]
    for each in lost:
        if each.error.kind in {"authorization", "unsupported_version"}:
            raise each.error
    partitions = frozenset[int]().union(*(account.partitions for account in accounts))
    unled = partitions.difference(partition for account in accounts for partition, _ in account.led)
    if not unled and (partitions or not lost):
        return accounts
    problems = _problems(lost, given)
    if unled:
        problems.append(
            f"no broker that answered leads {OFFSETS_TOPIC} partitions {some(sorted(unled))}"
        )
    raise PollError(lost[0].error.kind if lost else "broker_error", "; ".join(problems))


def _account_or_lost(visits: Visits, broker: Broker, given: Time, tell: _Tell) -> _Account | _Lost:
    try:
        return _account(visits, broker, given, tell)
    except PollError as error:
        return _Lost(broker, error)


def _account(visits: Visits, broker: Broker, given: Time, tell: _Tell) -> _Account:
    given.check()
    led, partitions = _led(visits, broker, given.until)
    question = Question(ListGroupsRequest, {"states_filter": [], "types_filter": []})
    answer = visits.ask(broker.address, question, given.until)
    check(answer.error_code)
    still_led, still_there = _led(visits, broker, given.until)
    groups = {listed.group_id: listed_group(listed) for listed in answer.groups}
    simple = frozenset(group_id for group_id, group in groups.items() if is_simple(group))
    for type_, ids in _batches(answer.groups):
        for group_id, description in tell(visits, broker, type_, ids, given):
            groups[group_id] = {**groups[group_id], **description}
    return _Account(broker, groups, simple, led & still_led, partitions | still_there)


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
    visits: Visits, broker: Broker, deadline: float
) -> tuple[frozenset[tuple[int, int]], frozenset[int]]:
    """Return the partitions of the offsets topic that a broker leads by its own word, with epochs,
    and all that there are.
    """
    metadata = visits.ask(broker.address, TopicQuestion(OFFSETS_TOPIC), deadline)
    partitions = metadata.partitions.select(["partition", "leader", "leader_epoch"]).to_pylist()
    return (
        frozenset(
            (each["partition"], each["leader_epoch"])
            for each in partitions
            if each["leader"] == broker.broker_id
        ),
        frozenset(each["partition"] for each in partitions),
    )


def _batches(listed: Iterable[Any]) -> list[tuple[str | None, list[str]]]:
    """Return which groups of which type to ask about at once, in a random order: time may end."""
    together: dict[str | None, list[str]] = {}
    for each in listed:
        together.setdefault(type_of(each), []).append(each.group_id)
    batches = [
        (type_, ids[begin : begin + _GROUPS_A_REQUEST])
        for type_, ids in together.items()
        for begin in range(0, len(ids), _GROUPS_A_REQUEST)
    ]
    random.shuffle(batches)
    return batches
