"""Rows of gold.rebalance_cost and of gold.group_lag held against what members did and committed."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from truth.groups.score import Score
from truth.model.work import Work

SLACK_MS: Final = 300
"""Records come each 100 ms, and members may commit a while after the last one, and do one a while
before it is noted: so much less, or more, than history says, a silence may be.
"""
AT_REST_AFTER: Final = timedelta(seconds=3)
"""The visit before, whose ends give the least lag, was at rest by then: one a second."""

Row = Mapping[str, Any]


def compare_costs(rows: Sequence[Row], work: Work, score: Score) -> None:
    """Hold the rows of a group's costs against the records that its members did."""
    score.costs += len(rows)
    score.recovered += sum(row["lag_back_before"] is not None for row in rows)
    for row in rows:
        if row["commit_gap_ms"] is not None and row["close_reason"] == "recovered":
            where = f"{row['topic']}-{row['partition']} at {row['began_before']:%H:%M:%S.%f}"
            score.faults += [f"{where}: {fault}" for fault in _pause(row, work, score)]


def _pause(row: Row, work: Work, score: Score) -> list[str]:
    silence = work.silence(row["partition"], row["last_commit_at"], row["first_commit_at"])
    if silence is None:
        return ["nobody did anything about its gap"]
    if row["pause_ms_max"] is None:
        return ["a gap, and no longest pause"]
    silent = silence.lasted // timedelta(milliseconds=1)
    again = work.done_again(silence)
    score.pauses += row["pause_ms_min"] is not None
    score.longest_ms = max(score.longest_ms, silent)
    score.reprocessed += again
    of_pause = row["pause_ms_min"], row["pause_ms_max"]
    return [
        *_bounds(f"silent for {silent} ms", silent, *of_pause, slack=SLACK_MS),
        *_bounds(f"{again} done again", again, row["reprocessed_min"], row["reprocessed_max"]),
    ]


def _bounds(
    told: str, number: int, least: int | None, most: int | None, slack: int = 0
) -> list[str]:
    found = []
    if most is not None and number > most + slack:
        found.append(f"{told}, at most {most} by history")
    if least is not None and number < least - slack:
        found.append(f"{told}, at least {least} by history")
    return found


def compare_lag(
    rows: Sequence[Row], asked: Mapping[str, Sequence[Row]], work: Work, score: Score
) -> None:
    """Hold the rows of a group's lag against its members.

    `asked`: the entries of bronze about its partitions, by poll.
    """
    for row in rows:
        entries = [
            each for each in asked[row["first_poll"]] if each["committed_offset"] is not None
        ]
        if not entries or row["lag_max"] is None:
            continue
        score.lags += 1
        where = f"lag from {row['valid_from']:%H:%M:%S.%f}"
        score.faults += [f"{where}: {fault}" for fault in _lag(row, entries, work, score)]


def _lag(row: Row, entries: Sequence[Row], work: Work, score: Score) -> list[str]:
    read = ("partition", "commit_read_after", "commit_read_before", "ends_read_before")
    lags = [work.lag(*(entry[name] for name in read)) for entry in entries]
    known = [lag for lag in lags if lag is not None]
    if len(known) < len(lags):
        return ["nobody made one of its commits"]
    least = sum(lag.least for lag in known)
    most = sum(lag.most for lag in known)
    by_end = sum(lag.most_by_end for lag in known)
    lag_min, lag_max = row["lag_min"], row["lag_max"]
    found = []
    if lag_min is not None and lag_min > most:
        found.append(f"a lag of {most} at most, at least {lag_min} by history")
    if not least <= lag_max <= by_end:
        found.append(f"a lag of {least} to {by_end}, at most {lag_max} by history")
    if row["valid_from"] >= work.rests_from + AT_REST_AFTER:
        score.at_rest += 1
        if not least <= lag_max <= most or lag_min != lag_max:
            told = f"{lag_min} to {lag_max}"
            found.append(f"at rest a lag of {least} to {most}, {told} by history")
    return found
