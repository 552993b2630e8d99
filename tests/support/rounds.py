"""Rounds of a fold of gold over a history of silver, in memory."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from jobs.rules.gold.news import GoldInput, GoldResult
from schemas import gold
from tests.support.silver_rows import History
from tests.support.stage import Row, Rows, Stage


def fold_in_rounds(
    fold: Callable[..., GoldResult],
    history: History,
    ends: Iterable[int],
    *,
    keys: Iterable[str],
    is_live: object = None,
    thresholds: object = None,
) -> tuple[dict[str, list[Row]], Any]:
    """The rows by table, and the memory, after a round up to each of the polls numbered `ends`, in
    order. `keys`: the names of the tables, which say themselves which rows are live.
    """

    def of_gold(memory: Any, live: Rows, news: GoldInput) -> tuple[Any, ...]:
        made = fold(memory, live, news, thresholds)
        return made.memory, made.rows

    stage, done = Stage(of_gold, (each for each in gold.TABLES if each.full_name in {*keys})), None
    for end in ends:
        poll = history.polls[end]
        stage.take(GoldInput.of(history.rows, done, poll.poll_id, poll.at))
        done = poll.poll_id
    rows = {table: [*of_table.values()] for table, of_table in stage.tables.items()}
    return rows, stage.memory and json.loads(stage.memory)
