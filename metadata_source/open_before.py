"""Which open transactions answers before told or left out, by producer id: a transactional id has
one at a time, and keeps it while a transaction is open.

Silver ends a transaction that an answer does not list, unless the answer says that it may be open
still. So those that were told before are described first, and an answer that leaves out others
says whether one of these may have been told before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metadata_source.transactions import Listing


@dataclass(slots=True)
class OpenBefore:
    """What answers of one cluster told. For one thread at a time.

    `told`: by the last answer. `_left_out`: those that another recorder's answer may have told, and
    that are left out since; None: nobody knows which. `_begins`: producer id from which on a
    coordinator describes the others.
    """

    told: frozenset[int] = frozenset()
    _left_out: frozenset[int] | None = None
    _begins: dict[int, int] = field(default_factory=dict)

    def in_order(self, coordinator: int, listings: Iterable[Listing]) -> list[Listing]:
        """Return listings in the order in which they are to be described: those that were told
        before, then those that the coordinator was not asked about the last time.
        """
        begin = self._begins.get(coordinator, 0)
        return sorted(
            listings,
            key=lambda each: (
                each.producer_id not in self.told,
                each.producer_id < begin,
                each.producer_id,
            ),
        )

    def leave_out(self, coordinator: int, listings: Sequence[Listing]) -> None:
        """Take those of an order of which the coordinator was not asked."""
        if listings:
            self._begins[coordinator] = listings[0].producer_id
        else:
            self._begins.pop(coordinator, None)

    def may_be_known(self, left_out: frozenset[int]) -> frozenset[int]:
        """Return those of some that are left out that an answer before may have told."""
        if self._left_out is None:
            return left_out
        return left_out & (self.told | self._left_out)

    def take(self, told: frozenset[int], left_out: frozenset[int], *, is_whole: bool) -> None:
        """Take what an answer told and what it did not. `is_whole`: all coordinators listed."""
        self._left_out = self.may_be_known(left_out) if is_whole else None
        self.told = told
