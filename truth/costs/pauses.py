"""Rows of gold.rebalance_cost held against what workers did."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from truth.costs.play import Done
from truth.costs.score import Score

SLACK_MS: Final = 300
"""Records come each 100 ms, and workers may commit a while after the last one, and do one a while
before it is noted: so much less, or more, than history says, a silence may be.
"""

Row = Mapping[str, Any]


def compare(rows: Sequence[Row], done: Sequence[Done], score: Score) -> None:
    """Hold the rows of a group against the records that its workers did, in order of time."""
    of_partition = defaultdict[int, list[Done]](list)
    for each in done:
        of_partition[each.partition].append(each)
    for row in rows:
        _compare(row, of_partition[row["partition"]], score)


def _compare(row: Row, done: Sequence[Done], score: Score) -> None:
    score.rows += 1
    score.recovered += row["lag_back_before"] is not None
    if row["commit_gap_ms"] is None or row["close_reason"] != "recovered":
        return
    at = [each.at for each in done]
    first = max(0, bisect_right(at, row["last_commit_at"]) - 1)
    last = bisect_left(at, row["first_commit_at"])
    within = done[first : last + 1]
    gaps = [(two.at - one.at, one, two) for one, two in pairwise(within)]
    if not gaps:
        score.faults.append(f"{_name(row)}: nobody did anything about its gap")
        return
    silence, before, after = max(gaps, key=lambda gap: gap[0])
    silent = silence // timedelta(milliseconds=1)
    score.longest_ms = max(score.longest_ms, silent)
    if silent > row["pause_ms_max"] + SLACK_MS:
        score.faults.append(
            f"{_name(row)}: silent for {silent} ms, at most {row['pause_ms_max']} by history"
        )
    if row["pause_ms_min"] is not None:
        score.pauses += 1
        if silent < row["pause_ms_min"] - SLACK_MS:
            score.faults.append(
                f"{_name(row)}: silent for {silent} ms, at least {row['pause_ms_min']} by history"
            )
    # Records that the one who comes after does, and that were done already by anyone. If the one
    # before only hung, it does records that it had fetched when it awakes: no log tells that.
    had = {each.offset for each in done if each.at <= before.at}
    has = (each for each in done if each.worker == after.worker)
    again = len(
        {each.offset for each in has if after.at <= each.at <= after.at + timedelta(seconds=5)}
        & had
    )
    score.reprocessed += again
    if row["reprocessed_min"] is not None and again < row["reprocessed_min"]:
        score.faults.append(
            f"{_name(row)}: {again} done again, at least {row['reprocessed_min']} by history"
        )
    if row["reprocessed_max"] is not None and again > row["reprocessed_max"]:
        score.faults.append(
            f"{_name(row)}: {again} done again, at most {row['reprocessed_max']} by history"
        )


def _name(row: Row) -> str:
    return f"{row['topic']}-{row['partition']} at {row['began_before']:%H:%M:%S.%f}"
