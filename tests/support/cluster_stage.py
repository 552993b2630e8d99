"""Rounds of one cluster in memory, from bronze to gold."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobs.configuration.config import Thresholds
from jobs.rules.round import GOLD, SILVER, STATE, ClusterInput, RoundSettings, fold
from jobs.rules.silver.state import State
from jobs.rules.takes import Take
from schemas import gold, silver
from tests.support.histories import START
from tests.support.stage import Row, Rows, Stage, is_live

TABLES = {table.full_name: table for table in (*silver.TABLES, *gold.TABLES)}
SETTINGS = RoundSettings(frozenset({SILVER, *GOLD}), Thresholds(), START)


class ClusterStage(Stage):
    """Silver and gold of a cluster. `states`: its rows of internal.states, by history."""

    def __init__(self, settings: RoundSettings = SETTINGS) -> None:
        super().__init__(_folded, TABLES.values())
        self.settings = settings
        self.states: dict[str, Row] = {}

    @property
    def state(self) -> State:
        """What silver remembers."""
        kept = self.states.get(SILVER)
        return State() if kept is None else State.from_json(json.loads(kept["memory"]))

    @property
    def done(self) -> str:
        """The poll up to which all histories of gold are done; empty where one is not begun."""
        return min(
            (self.states[each]["done_poll"] if each in self.states else "" for each in GOLD),
            default="",
        )

    @property
    def brought(self) -> dict[str, list[Row]]:
        """Live rows, and rows of silver that gold has not had."""
        done = self.done
        return {
            name: [row for row in of.values() if is_live(TABLES[name], row) or is_later(row, done)]
            for name, of in self.tables.items()
        }

    def not_taken(self, headers: Iterable[Row]) -> list[Row]:
        """The headers of polls that wait, or that no round has taken."""
        state = self.state
        return [
            each
            for each in headers
            if each["poll_id"] in state.waiting or each["n"] > state.seen.get(each["stream"], -1)
        ]

    def make(
        self,
        each: Take,
        said: Sequence[Row],
        *,
        live: Rows | None = None,
        log: Sequence[Row] = (),
        settings: RoundSettings | None = None,
    ) -> None:
        """Make the round of a take. `said`: rows of bronze."""
        given = ClusterInput(
            each.cluster,
            each.claimed_id,
            each.parts,
            said_of(each, said),
            self.brought if live is None else live,
            self.states,
            is_first=each.first_poll is not None,
            kind=each.kind,
            log=log,
            teller=each.teller,
        )
        self.take(given, settings or self.settings)

    def keep(self, rows: Rows) -> None:
        """Keep states beside the tables."""
        self.states |= {row["history"]: row for row in rows.get(STATE, ())}
        super().keep({name: of_table for name, of_table in rows.items() if name != STATE})


def _folded(_: None, live: Rows, given: ClusterInput, settings: RoundSettings) -> tuple[Any, ...]:
    """The fold remembers in rows of internal.states, and finds live rows in `given`."""
    return None, fold(given, settings)


def said_of(each: Take, bronze: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of bronze that a round reads: headers, and records that it asks for."""
    return [
        dict(row)
        for row in bronze
        if row["poll_id"] in each.polls
        and row["record"] in {"poll", "answer", *each.polls[row["poll_id"]]}
    ]


def is_later(row: Row, done: str) -> bool:
    """Whether a row of silver began, or was over, after a poll."""
    return "first_poll" in row and (
        row["first_poll"] > done or (row["superseded_poll"] or "") > done
    )
