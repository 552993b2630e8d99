"""The consumers of the demo: two groups of real clients, whose members come, go and crash."""

import itertools
from collections.abc import Mapping
from typing import Any, Final

from kafka_metadata_history.demo.incident import PARTITIONS, await_state
from local_cluster.members import Member, Members

BILLING: Final = "billing"
SEARCH: Final = "search-index"
GROUPS: Final[Mapping[str, Mapping[str, Any]]] = {
    BILLING: {
        "topics": ("invoices", "orders", "payments"),
        "protocol": "classic",
        "assignor": "cooperative-sticky",
    },
    SEARCH: {"topics": ("catalog", "searches"), "protocol": "consumer"},
}
"""A group of the classic protocol, whose members share the partitions out, and one of KIP-848,
whose coordinator does.
"""


class Consumers:
    """The members of the demo's groups, by group in the order in which they joined."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._numbers = itertools.count(1)
        self._of: dict[str, list[Member]] = {group: [] for group in GROUPS}

    def join(self, group: str) -> None:
        """One member more, and wait until each partition of the group has a member again."""
        client_id = f"{group}-{next(self._numbers)}"
        self._of[group].append(
            self._members.start(group=group, client_id=client_id, **GROUPS[group])
        )
        self._await_shared(group)

    def leave(self, group: str) -> str:
        """The oldest member leaves, and the others take over; return its client id."""
        member = self._of[group].pop(0)
        member.stop()
        self._await_shared(group)
        return member.client_id

    def crash(self, group: str) -> str:
        """Kill the oldest member; return its client id once the others have taken over."""
        member = self._of[group].pop(0)
        member.crash()
        self._await_shared(group)
        return member.client_id

    def await_shared(self) -> None:
        """Wait until each partition of each group has one member."""
        for group in GROUPS:
            self._await_shared(group)

    def _await_shared(self, group: str) -> None:
        partitions = sorted(
            (topic, number) for topic in GROUPS[group]["topics"] for number in range(PARTITIONS)
        )
        await_state(
            f"each partition of {group} has one member",
            lambda: (
                sorted(each for member in self._of[group] for each in member.owned) == partitions
                and all(member.owned for member in self._of[group])
            ),
        )
