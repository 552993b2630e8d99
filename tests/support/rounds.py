"""A stage in the dumbest way: folds what is new of a history in rounds, and keeps the rows as
tables would.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jobs.rules.gold.news import GoldInput, GoldResult, Row
from tests.support.silver_rows import History

Stored = dict[str, dict[tuple[Any, ...], Row]]


def fold_in_rounds(
    fold: Callable[..., GoldResult],
    history: History,
    ends: Iterable[int],
    *,
    keys: Mapping[str, tuple[str, ...]],
    is_live: Callable[[str, Row], bool],
    thresholds: object = None,
) -> tuple[dict[str, list[Row]], Any]:
    """The rows by table, and the memory, after a round up to each of the polls numbered `ends`, in
    order.

    `keys`: the key of each table. Each round is folded twice, as if it had been killed, and must
    say the same.
    """
    stored: Stored = {table: {} for table in keys}
    memory, done = None, None
    for end in ends:
        poll = history.polls[end]
        live = {
            table: [row for row in rows.values() if is_live(table, row)]
            for table, rows in stored.items()
        }
        news = GoldInput.of(history.rows, done, poll.poll_id, poll.at)
        folded = fold(memory, live, news, thresholds)
        assert fold(memory, live, news, thresholds) == folded
        for table, rows in folded.rows.items():
            told = {tuple(row[name] for name in keys[table]): row for row in rows}
            assert len(told) == len(rows)
            for key in told.keys() & stored[table].keys():
                assert is_live(table, stored[table][key])
            stored[table] |= told
        memory, done = json.loads(json.dumps(folded.memory)), poll.poll_id
    return {table: list(rows.values()) for table, rows in stored.items()}, memory
