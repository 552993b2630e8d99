"""Visits of one group's offsets, and its rows of lag as rounds of their fold leave them."""

import json
from dataclasses import dataclass, field
from typing import Any

from jobs.rules.groups.group import Group
from jobs.rules.groups.lag import Commit, GroupAnswer, Memory, Visit, fold
from jobs.rules.groups.state import from_micros, to_micros

Row = dict[str, Any]
Key = tuple[str, int]
Said = dict[Key, tuple[int | None, ...]] | None | str
"""Committed offset and end of each partition, and the last stable offset, where that was told;
None: not listed; text: why it could not be told."""

GROUP = Group("id-prod", "prod", "g")
MINUTE = 60_000_000
BEGIN = to_micros(from_micros(0).replace(year=2026))


def visit(number: int, every: int = MINUTE, **filters: str | None) -> Visit:
    """A poll that is answered after a second; commits of the group have been read after another."""
    due = BEGIN + number * every
    return Visit(f"s/{number:012}", due, due + 1_000_000, due + 3_000_000, **filters)


def at(number: int, seconds: int = 2, every: int = MINUTE) -> Any:
    """When the commits had been read of a visit."""
    return from_micros(BEGIN + number * every + seconds * 1_000_000)


@dataclass
class Rounds:
    """The rows and the memory of one group as rounds leave them."""

    memory: str | None = None
    before: Visit | None = None
    lag: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    quiet: int = 0
    """Rounds that had nothing to write."""
    is_simple: bool = False

    def take(self, *said: tuple[Visit, Said]) -> None:
        memory = None if self.memory is None else Memory.from_json(json.loads(self.memory))
        live = next((row for row in self.lag if row["valid_to"] is None), None)
        told = {}
        for each, of_group in said:
            if of_group is not None:
                commits = (
                    None
                    if isinstance(of_group, str)
                    else [Commit(*k, *v) for k, v in sorted(of_group.items())]
                )
                told[each.poll] = GroupAnswer(each.due + 2_000_000, self.is_simple, commits)
        visits = [each for each, _ in said]
        remembered, made = fold(GROUP, memory, live, visits, told=told, before=self.before)
        text = None if remembered is None else json.dumps(remembered.to_json())
        self.quiet += text == self.memory and not made.lag and not made.removed
        self.memory, self.before = text, visits[-1] if visits else self.before
        changed = {row["first_poll"] for row in made.lag}
        kept = [
            row
            for row in self.lag
            if row["valid_to"] is not None or row["first_poll"] not in changed
        ]
        self.lag = sorted([*kept, *made.lag], key=lambda row: row["first_poll"])
        self.removed += made.removed
        assert len({row["first_poll"] for row in self.lag}) == len(self.lag)

    def all(self, *said: Said, every: int = MINUTE) -> "Rounds":
        """One visit after the other, a round each."""
        first = 0 if self.before is None else (self.before.due - BEGIN) // every + 1
        for number, each in enumerate(said, first):
            self.take((visit(number, every), each))
        return self

    def of(self, *names: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in self.lag]

    @property
    def last(self) -> Row:
        return self.lag[-1]


def one(offset: int | None, end: int | None) -> Said:
    return {("t", 0): (offset, end)}
