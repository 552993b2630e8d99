"""Rows of gold.group_lag held against workers' commits and the times of appends."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from truth.costs.play import Committed, Work
from truth.costs.score import Score

Row = Mapping[str, Any]

AT_REST_AFTER: Final = timedelta(seconds=3)
"""The visit before, whose ends give the least lag, was at rest by then: one a second."""


def compare(
    rows: Sequence[Row],
    asked: Mapping[str, Sequence[Row]],
    work: Work,
    rests_from: datetime,
    score: Score,
) -> None:
    """Hold the rows of a group against its workers.

    `asked`: the entries of bronze about its partitions, by poll.
    """
    done = _ends_done(work)
    for row in rows:
        entries = [
            each for each in asked[row["first_poll"]] if each["committed_offset"] is not None
        ]
        if not entries or row["lag_max"] is None:
            continue
        score.lags += 1
        lags = [_lag(each, work, done[each["partition"]], rests_from) for each in entries]
        if None in lags:
            score.faults.append(f"{_name(row)}: nobody made one of its commits")
            continue
        least, most, at_end = map(sum, zip(*filter(None, lags), strict=True))
        if row["lag_min"] is not None and row["lag_min"] > most:
            score.faults.append(
                f"{_name(row)}: a lag of {most} at most, at least {row['lag_min']} by history"
            )
        if not least <= row["lag_max"] <= at_end:
            score.faults.append(
                f"{_name(row)}: a lag of {least} to {at_end}, at most {row['lag_max']} by history"
            )
        if row["valid_from"] >= rests_from + AT_REST_AFTER:
            score.at_rest += 1
            if not least <= row["lag_max"] <= most or row["lag_min"] != row["lag_max"]:
                told = f"{row['lag_min']} to {row['lag_max']}"
                score.faults.append(
                    f"{_name(row)}: at rest a lag of {least} to {most}, {told} by history"
                )


def _lag(
    entry: Row, work: Work, done: Mapping[str, Sequence[Any]], rests_from: datetime
) -> tuple[int, int, int] | None:
    """The least and the most that a partition was behind when its commit was read, and the most
    when the end of its log was; None if no worker committed it.
    """
    begin, end = entry["commit_read_after"], entry["commit_read_before"]
    commits = [each for each in work.committed if each.partition == entry["partition"]]
    may_be = [each.offset for each in _last(commits, begin, end)]
    if not may_be:
        return None
    appended = work.appended[entry["partition"]]
    there = len(appended) if begin >= rests_from else done["ends"][bisect_right(done["at"], begin)]
    at_end = bisect_right(appended, entry["ends_read_before"])
    return (
        max(0, there - max(may_be)),
        max(0, bisect_right(appended, end) - min(may_be)),
        max(0, at_end - min(may_be)),
    )


def _last(commits: Sequence[Committed], begin: datetime, end: datetime) -> list[Committed]:
    """The commits each of which may have been the last one at some time between two."""
    sure = max(
        (each.called for each in commits if each.is_certain and each.over <= begin), default=None
    )
    return [each for each in commits if each.called <= end and (sure is None or each.over >= sure)]


def _ends_done(work: Work) -> Mapping[int, Mapping[str, Sequence[Any]]]:
    """By partition, the times at which records were done, and the log's least end by each."""
    found: dict[int, dict[str, list[Any]]] = {n: {"at": [], "ends": [0]} for n in work.appended}
    for each in work.done:
        of_partition = found[each.partition]
        of_partition["at"].append(each.at)
        of_partition["ends"].append(max(of_partition["ends"][-1], each.offset + 1))
    return found


def _name(row: Row) -> str:
    return f"lag from {row['valid_from']:%H:%M:%S.%f}"
