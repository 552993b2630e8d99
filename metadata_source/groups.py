"""Groups of every type: each broker lists those that it coordinates, and describes them.

A broker lists the groups that it coordinates (`coordinators`). If some may be missing, the answer
has no group.

A group is described by the broker that listed it (`group_descriptions`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from kafka.protocol.admin import ListGroupsRequest

from metadata_source.coordinators import Asked, settled_accounts
from metadata_source.group_descriptions import describe, is_simple, listed_group, type_of
from metadata_source.kafka_constants import OFFSETS_TOPIC
from metadata_source.many_brokers import Time, undone
from metadata_source.questions import Question, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from metadata_source.coordinators import Account
    from metadata_source.group_descriptions import Description, Group
    from metadata_source.many_brokers import Broker, Visits

    _Tell: TypeAlias = Callable[
        [Visits, Broker, str | None, Sequence[str], Time], Iterator[tuple[str, Description]]
    ]

_GROUPS_A_REQUEST: Final = 200


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


class _Listed(NamedTuple):
    """The groups that one broker listed, as far as they are described, and which are simple."""

    groups: dict[str, Group]
    simple: frozenset[str]
    """As listed: what is described of a group may be that of none."""
    batches: list[tuple[str | None, list[str]]]


def described(visits: Visits, brokers: Iterable[Broker]) -> Described:
    """Return all groups of the cluster. Raises PollError if some may be missing, and says which
    brokers and partitions.

    Brokers are asked side by side. It takes all of the time that is left.
    """
    accounts = _settled_accounts(visits, brokers, describe, Time.share(visits, 1))
    groups: dict[str, Group] = {}
    for account in accounts:
        for group_id, group in account.answer.groups.items():
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


def _coordinated(accounts: Iterable[Account[_Listed]]) -> list[Coordinated]:
    return [
        Coordinated(
            account.broker,
            {group_id: group["group_type"] for group_id, group in account.answer.groups.items()},
            account.answer.simple,
        )
        for account in accounts
    ]


def _settled_accounts(
    visits: Visits, brokers: Iterable[Broker], tell: _Tell, given: Time
) -> list[Account[_Listed]]:
    """Return the groups that all brokers list. Raises PollError if some may be missing.

    `tell`: of a broker, a type and ids of its groups, what else there is to say of each.
    """

    def listed(broker: Broker) -> _Listed:
        answer = visits.ask(broker.address, _listing(), given.until)
        check(answer.error_code)
        groups = {listed.group_id: listed_group(listed) for listed in answer.groups}
        simple = frozenset(group_id for group_id, group in groups.items() if is_simple(group))
        return _Listed(groups, simple, _batches(answer.groups))

    def with_descriptions(broker: Broker, answer: _Listed) -> _Listed:
        for type_, ids in answer.batches:
            for group_id, description in tell(visits, broker, type_, ids, given):
                answer.groups[group_id] = {**answer.groups[group_id], **description}
        return answer

    asked = Asked(OFFSETS_TOPIC, "groups", listed, with_descriptions)
    return settled_accounts(visits, brokers, asked, given)


def _listing() -> Question:
    return Question(ListGroupsRequest, {"states_filter": [], "types_filter": []})


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
