"""Which open transactions answers before had or left out: by producer id, of which a transactional
id has one as long as a transaction is open; those that hang by their partition.

Silver ends a transaction that an answer does not list, unless the answer says that it may be open
still. So those of the answer before are asked about first, all others by turns, and an answer that
leaves out others says whether one of these may have been in an answer before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Key = TypeVar("Key", int, tuple[str, int])
Item = TypeVar("Item")


@dataclass(slots=True)
class OpenBefore(Generic[Key]):
    """What answers of one cluster had. For one thread at a time.

    `open`: by the last answer. `_left_out`: those that another recorder's answer may have had, and
    that are left out since; None: nobody knows which. `_begins`: of each place the key from which
    on the others are asked about.
    """

    open: frozenset[Key] = frozenset()
    _left_out: frozenset[Key] | None = None
    _begins: dict[int, Key] = field(default_factory=dict)

    def in_order(
        self, items: Iterable[Item], key: Callable[[Item], Key], place: int = 0
    ) -> list[Item]:
        """Return items in the order in which they are to be asked about: those of the answer
        before, then those that were left out the last time. `place`: of what is left out together,
        as a coordinator.
        """
        begin = self._begins.get(place)

        def rank(item: Item) -> tuple[bool, bool, Key]:
            each = key(item)
            return each not in self.open, begin is not None and each < begin, each

        return sorted(items, key=rank)

    def leave_out(self, keys: Sequence[Key], place: int = 0) -> None:
        """Note those of an order that were not asked about."""
        if keys:
            self._begins[place] = keys[0]
        else:
            self._begins.pop(place, None)

    def may_be_known(self, left_out: frozenset[Key]) -> frozenset[Key]:
        """Return those of some that are left out that an answer before may have had."""
        if self._left_out is None:
            return left_out
        return left_out & (self.open | self._left_out)

    def add(self, answered: frozenset[Key], left_out: frozenset[Key], *, is_whole: bool) -> None:
        """Note the transactions of an answer, and those that it left out. `is_whole`: it knows all
        of these.
        """
        self._left_out = self.may_be_known(left_out) if is_whole else None
        self.open = answered
