"""Rounds that are noted as done, and that a table has lost since: a power cut leaves empty commits.

The commit that notes a round as done names the tables that the round has written. Their own commits
say whether they have it. A fold gives the same rows again from the same plan, and Delta passes over
tables that have the round.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jobs.rounds.commit import MARK
from schemas.internal import STATE
from schemas.lake import TABLES, Lake
from schemas.lost_commits import commits_of
from schemas.table import Table

_NEWEST = 40
"""The newest commits, which a power cut hits: Linux keeps a file in memory for half a minute."""

_OF_ROUND = re.compile(r"round ([0-9]+)(?: wrote (.*))?")
_MERGED = re.compile(MARK)


@dataclass(frozen=True)
class LostRound:
    """A round that is noted as done, and `tables` that lack it. `noted_in`: the version of
    internal.states that noted it. `is_last`: no later round has written to any of these tables.
    """

    round: int
    noted_in: int
    tables: tuple[str, ...]
    is_last: bool


def done_metadata(number: int, tables: Iterable[Table]) -> str:
    """The user metadata of the commit that notes a round as done."""
    return (
        f"round {number} wrote "
        f"{', '.join(sorted(table.full_name for table in tables)) or 'nothing'}"
    )


def lost_rounds(lake: Lake) -> list[LostRound]:
    """The rounds that were noted as done last, and that tables have lost since; in order.

    Only lakes in folders of this machine are looked at: elsewhere a file that is there is whole.
    """
    if not lake.is_folder:
        return []
    noted = {}
    for version, info in commits_of(lake, STATE, _NEWEST):
        found = _OF_ROUND.fullmatch(info.get("userMetadata", ""))
        if found and found[2]:
            noted[int(found[1])] = version, info["timestamp"], found[2].split(", ")
    written = {name for _, _, wrote in noted.values() for name in wrote}
    commits = {
        table.full_name: commits_of(lake, table, _NEWEST)
        for table in TABLES
        if table.full_name in written
    }
    has = {
        name: {number for _, info in of_table if (number := _round_of(info)) is not None}
        for name, of_table in commits.items()
    }
    # Delta forgets old commits, and only the newest ones were looked at.
    since = {
        name: -1 if of_table[-1][0] == 0 else of_table[-1][1].get("timestamp", math.inf)
        for name, of_table in commits.items()
        if of_table
    }
    lost = []
    for number, (version, at, wrote) in sorted(noted.items()):
        lacking = tuple(
            name for name in wrote if since.get(name, math.inf) < at and number not in has[name]
        )
        if lacking:
            is_last = all(number > max(has[name], default=-1) for name in lacking)
            lost.append(LostRound(number, version, lacking, is_last))
    return lost


def _round_of(info: Mapping[str, object]) -> int | None:
    """The round of a commit; None where it is of none."""
    parameters = info.get("operationParameters") or {}
    predicate = parameters.get("predicate", "") if isinstance(parameters, Mapping) else ""
    found = _OF_ROUND.fullmatch(str(info.get("userMetadata", ""))) or _MERGED.search(str(predicate))
    return None if found is None else int(found[1])
