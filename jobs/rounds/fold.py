"""The fold of a round: new and live rows meet by key, of large clusters only what differs."""

from typing import Any

from jobs.rounds.history import KEY, Context, History, News, Output
from jobs.rounds.large import LargePartitions
from jobs.rounds.stage import arrow_schema, folded, frame_of, packed, packed_in_arrow, side_by_side
from jobs.rules.arrow import rows_of
from schemas.internal import STATE


def output_of(history: History[Any], context: Context, news: News) -> Output:
    """The rows that the fold of some news makes, in Spark's executors."""
    if not news.keys:
        return Output()
    inputs, large, key = history.read(context, news), None, (history.key,)
    if inputs.large is not None:
        large = LargePartitions(context, inputs.large)
        inputs = large.bring(inputs)
    live = packed_in_arrow(inputs.live, history.key, lambda _, rows: history.keys_of(rows))
    fresh = [
        packed(rows, table, key, [name for name in rows.columns if name != KEY])
        for table, rows in inputs.news
    ]
    beside = [packed(rows, table, key) for table, rows in inputs.others]
    known = side_by_side([frame_of(context.spark, live), *beside])
    made = folded(side_by_side(fresh), known, inputs.tables, inputs.fold, history.key)
    states = rows_of(made.pop(STATE, arrow_schema(STATE).empty_table()))
    commits = () if large is None else large.commit(made)
    states = [row | {"round": None} for row in states]
    return Output(made, commits, states, is_large=large is not None)
