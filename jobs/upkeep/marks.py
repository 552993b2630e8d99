"""Marks of changes and of maintenance, which people make: rows of gold.marks."""

import getpass
import secrets
from datetime import datetime
from typing import TypedDict

from pyspark.sql import SparkSession

from jobs.rounds.commit import append_rows
from jobs.rounds.plan import states_of
from kafka_metadata_history.answers.questions import QueryError, moment, shown
from metadata_source.text import did_you_mean
from schemas.gold import MARKS
from schemas.in_spark import check_tables
from schemas.internal import STATE
from schemas.lake import Lake


class Mark(TypedDict):
    """A row of gold.marks."""

    id: str
    cluster: str | None
    text: str
    since: datetime
    until: datetime | None
    made_at: datetime
    made_by: str


def mark(
    text: str, since: str | None, until: str | None, cluster: str | None, now: datetime
) -> Mark:
    """Make a mark. `since`, `until`: as `moment` takes them before `now`; `cluster`: None is all.

    Raises QueryError for an empty text, and for times that are none, or not in order.
    """
    begin = moment(since, now) if since else now
    end = moment(until, now) if until else None
    if not text.strip():
        raise QueryError("the text of the mark is empty: say what is marked")
    if end is not None and begin > end:
        raise QueryError(f"--since {shown(begin)} is after --until {shown(end)}")
    return {
        "id": f"{now:%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}",
        "cluster": cluster,
        "text": text.strip(),
        "since": begin,
        "until": end,
        "made_at": now,
        "made_by": getpass.getuser(),
    }


def keep(spark: SparkSession, lake: Lake, made: Mark) -> str:
    """Append a mark to the lake, and return the line that says so.

    Raises LakeError for a lake that lacks the table, QueryError for a cluster without history.
    """
    check_tables(spark, lake, (STATE, MARKS))
    cluster = made["cluster"]
    known = sorted({alias for _, alias in states_of(spark, lake) if alias})
    if cluster is not None and cluster not in known:
        hint = did_you_mean(cluster, known, f"there are {', '.join(known) or 'none'}")
        raise QueryError(f"--cluster {cluster}: history knows no such cluster; {hint}")
    append_rows(spark, lake, MARKS, [made])
    ends = "" if made["until"] is None else f" to {shown(made['until'])}"
    return f"marked {cluster or 'all clusters'}, {shown(made['since'])}{ends}: {made['text']}"
