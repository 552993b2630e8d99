"""Polls that asked for offsets of groups: visits, as bronze has them."""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import reduce
from operator import itemgetter, or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.rounds.history import KEY, key_column
from jobs.rounds.live import part_column
from jobs.rules.arrow import by_value, rows_of
from jobs.rules.groups.fold_lag import OFFSET_COLUMNS, ClusterKey
from jobs.rules.groups.lag import Visit
from jobs.rules.groups.state import to_micros

_HEADER = (
    "cluster", "cluster_id", "poll_id", "stream", "n", "scheduled_at", "answered_at",
    "topic_filter", "groups_pattern",
)  # fmt: skip
Row = dict[str, Any]


def headers_of(polls: DataFrame, asked: str, left_out: Container[str] = ()) -> dict[str, list[Row]]:
    """The headers of answers that satisfy a condition in SQL, in order, by alias."""
    # What answers tell is left alone: the first look of a run goes over all days of bronze.
    rows = rows_of(polls.where(asked).select(*_HEADER).toArrow())
    kept = (row for row in rows if row["cluster"] not in left_out)
    return by_value(sorted(kept, key=itemgetter("poll_id")), "cluster")


def is_planned(polls: Mapping[str, Iterable[str]]) -> Column:
    """That a poll is one of these, by alias."""
    of_aliases = [
        (F.col("cluster") == alias) & F.col("poll_id").isin(list(ids))
        for alias, ids in polls.items()
    ]
    return reduce(or_, of_aliases, F.lit(False))


def visits_of(
    polls: DataFrame, headers: Sequence[Row]
) -> tuple[dict[ClusterKey, list[Visit]], DataFrame]:
    """The visits of these headers, in order; and what they tell of groups, with KEY."""
    answers = answers_of(polls, headers, "offsets", ("offsets",))
    read_before = F.max(F.expr("array_max(offsets.commit_read_before)")).alias("read_before")
    last = rows_of(answers.groupBy("cluster", "poll_id").agg(read_before).toArrow())
    read = {(row["cluster"], row["poll_id"]): row["read_before"] for row in last}
    visits: dict[ClusterKey, list[Visit]] = {}
    for header in headers:
        # Without any group nothing says when they were listed.
        read_at = read.get((header["cluster"], header["poll_id"])) or header["answered_at"]
        visit = Visit(
            header["poll_id"],
            due=to_micros(header["scheduled_at"]),
            seen=to_micros(header["answered_at"]),
            read=to_micros(read_at),
            topic_filter=header["topic_filter"],
            groups_pattern=header["groups_pattern"],
        )
        visits.setdefault((header["cluster"], header["cluster_id"]), []).append(visit)
    rows = answers.select("cluster", "cluster_id", "poll_id", F.explode("offsets").alias("_of"))
    key = key_column(part_column("_of.group_id")).alias(KEY)
    offsets = rows.select(key, "cluster_id", "poll_id", "_of.*")
    return visits, offsets.select(KEY, "cluster_id", *OFFSET_COLUMNS)


def answers_of(
    polls: DataFrame,
    headers: Sequence[Row],
    record: str,
    columns: Sequence[str],
    of_header: Sequence[str] = (),
) -> DataFrame:
    """The rows of a kind of record that answers have: cluster, poll_id, cluster_id, then these
    times of their headers, and these columns.
    """
    names = ("cluster", "poll_id", "cluster_id", *of_header)
    wanted = [tuple(header[name] for name in names) for header in headers]
    times = "".join(f", {name} timestamp" for name in of_header)
    visits = polls.sparkSession.createDataFrame(
        wanted, f"cluster string, poll_id string, cluster_id string{times}"
    )
    spans: dict[str, list[int]] = defaultdict(list)
    for header in headers:
        spans[header["stream"]].append(header["n"])
    # Of streams and numbers files have statistics.
    within = " OR ".join(
        f"(stream = '{stream}' AND n BETWEEN {min(numbers)} AND {max(numbers)})"
        for stream, numbers in spans.items()
    )
    rows = polls.where(F.col("record") == record).where(within)
    rows = rows.select("cluster", "poll_id", *columns)
    return rows.join(F.broadcast(visits), ["cluster", "poll_id"])
