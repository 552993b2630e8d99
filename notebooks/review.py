"""A window of one cluster's history, opened for a notebook: questions in SQL, answers as pandas frames.

Questions are those of schemas/queries/ by name, or SQL, and take the same parameters: `:since`, `:until`, `:cluster`,
`:topic`, `:broker`, `:group`.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import chdir
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from jobs.common.config import load
from jobs.common.markers import with_values
from jobs.common.questions import Ask, moment, text_of
from jobs.common.session import spark_session
from kafka_metadata_history.opened import asking
from kafka_metadata_history.report.made import made
from notebooks import colours
from notebooks.spans import Window
from schemas import consumption, gold, groups, internal, silver
from schemas.in_spark import attach
from schemas.lake import Lake

ROOT = Path(__file__).resolve().parent.parent
MOST_ROWS = 20_000
"""More than a picture can show, and little for pandas."""
_NEEDED = (*gold.ISR_TABLES, *gold.LEADER_TABLES, silver.PARTITION_SNAPSHOTS, internal.STATE)
_OF_GROUPS = (*groups.TABLES, *consumption.TABLES, *groups.VIEWS, silver.GROUP_SNAPSHOTS)
_TABLE = re.compile(r"\b(?:bronze|silver|gold)\.\w+")

CLUSTERS = """
WITH happened AS (
  SELECT cluster, count(*) AS events FROM gold.incident_timeline
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  GROUP BY cluster
),

made AS (SELECT cluster, min(done_at) AS known_until FROM internal.state
  WHERE history IN ('isr_shrink', 'leader_churn') GROUP BY cluster),

begun AS (SELECT cluster, greatest(silver_from, gold_from) AS known_from FROM silver.reach)

SELECT cluster, coalesce(events, 0) AS events, known_from, known_until
FROM made LEFT JOIN begun USING (cluster) LEFT JOIN happened USING (cluster)
ORDER BY events DESC, cluster
"""
GAPS = """
SELECT gap_start, gap_end, reason FROM silver.poll_gaps
WHERE cluster = :cluster AND gap_start <= CAST(:until AS TIMESTAMP) AND gap_end >= CAST(:since AS TIMESTAMP)
ORDER BY gap_start
"""
BROKERS = """
SELECT DISTINCT broker_id FROM silver.broker_snapshots WHERE cluster = :cluster
UNION SELECT DISTINCT broker_id FROM gold.leader_balance WHERE cluster = :cluster
"""
GROUP = "SELECT group_id FROM gold.group_lives WHERE cluster = :cluster AND group_id = :group"


class ReviewError(ValueError):
    """Raised for parameters that cannot be meant as they are. One line."""


@dataclass(frozen=True)
class Opened:
    """A lake that was opened."""

    name: str
    tables: Collection[str]
    """Tables and views that the lake has."""
    frame: Callable[[str, Mapping[str, object]], pd.DataFrame]
    """The answer to SQL with these parameters. Says so when it is cut off."""
    ask: Ask
    """The whole answer to SQL."""


@dataclass(frozen=True)
class Framed:
    """A page in a frame of its own within a notebook, where its script and its looks touch nothing else."""

    html: str

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 1000px; border: 0"></iframe>'


@dataclass(frozen=True)
class Review:
    """The lake, the window and all else that notebooks ask and draw with. Without history (`window.known_until` is
    None) each answer is an empty frame.
    """

    lake: Opened
    window: Window
    parameters: Mapping[str, object]
    gaps: pd.DataFrame
    """gap_start, gap_end, reason: where nothing is known; what lies beyond both ends of history too."""
    brokers: Mapping[int, colours.Style]

    def ask(self, query: str, **more: object) -> pd.DataFrame:
        """The answer to a named question or SQL. Says so when it is cut off; empty where the lake lacks
        a table for it.
        """
        sql = text_of(query)
        if self.window.known_until is None or not set(_TABLE.findall(sql)).issubset(self.lake.tables):
            return pd.DataFrame()
        return self.lake.frame(sql, {**self.parameters, **more})

    def report(self) -> Framed | None:
        """The page of `kafka-metadata-history report`; None where nothing is known."""
        if self.window.known_until is None:
            return None
        filters = {name: self.parameters[name] for name in ("cluster", "topic", "broker", "group")}
        since, until = (str(self.parameters[name]) for name in ("since", "until"))
        return Framed(made(self.lake.ask, since, until, filters, datetime.now(UTC)).html)


def open_review(
    lake: str | Mapping[str, str],
    *,
    since: str,
    until: str | None = None,
    cluster: str | None = None,
    topic: str | None = None,
    broker: int | None = None,
    group: str | None = None,
) -> Review:
    """Open a lake (a configuration file *.yaml, a folder or URI, or {"catalog": NAME}); print what is looked at.

    Times as jobs/query.py takes them. Without `cluster` it is the one to which most happened. Raises ReviewError,
    QueryError, ConfigError.
    """
    now = datetime.now(UTC)
    end = moment(until, now) if until else now
    begin = moment(since, end)
    if begin >= end:
        raise ReviewError(f"since {since!r} is not before until {until!r}")
    opened = _open(lake)
    parameters: dict[str, object] = {
        "since": begin.isoformat(),
        "until": end.isoformat(),
        "cluster": cluster,
        "topic": topic,
        "broker": broker,
        "group": group,
        "at_least": None,
    }
    window = Window(_naive(begin), _naive(end))
    print(f"Lake {opened.name}, from {_z(window.since)} to {_z(window.until)}.")
    if missing := [table.full_name for table in _NEEDED if table.full_name not in opened.tables]:
        print(f"Nothing is known here: the lake has no {missing[0]}. Is it the right one, and did its jobs run?")
        return _nothing(opened, window, parameters)
    clusters = opened.frame(CLUSTERS, parameters)
    if clusters.empty:
        print("Nothing is known here: the lake has no history yet.")
        return _nothing(opened, window, parameters)
    chosen = _chosen(clusters, cluster)
    _say(clusters, chosen, window)
    parameters["cluster"] = chosen.cluster
    known = Window(window.since, window.until, chosen.known_until)
    gaps = pd.concat([opened.frame(GAPS, parameters), _beyond(known, chosen.known_from)], ignore_index=True)
    styles = colours.of_brokers(opened.frame(BROKERS, parameters)["broker_id"])
    review = Review(opened, known, parameters, gaps, styles)
    if missing := [table.full_name for table in _OF_GROUPS if table.full_name not in opened.tables]:
        print(f"Nothing is known of groups: the lake has no {missing[0]}. The job rebalance_history makes it.")
    elif group is not None and review.ask(GROUP).empty:
        raise ReviewError(f"cluster {chosen.cluster} has no group {group!r} in gold.group_lives")
    return review


def _open(lake: str | Mapping[str, str]) -> Opened:
    """Open a lake with Spark."""
    # Paths in a configuration and in conf/spark-defaults.conf are relative to the repository's root, as for the jobs.
    with chdir(ROOT):
        opened = _lake(lake)
        spark = _session()
    tables = attach(spark, opened)
    if opened.catalog is not None:
        spark.catalog.setCurrentCatalog(opened.catalog)

    def frame(sql: str, parameters: Mapping[str, object]) -> pd.DataFrame:
        rows = spark.sql(with_values(sql, parameters)).limit(MOST_ROWS + 1).toPandas()
        if len(rows) > MOST_ROWS:
            print(f"More than {MOST_ROWS} rows: the rest is left out. Take a shorter window, or one topic or broker.")
        return rows.head(MOST_ROWS)

    return Opened(str(opened), tables, frame, asking(spark, opened))


def _lake(lake: str | Mapping[str, str]) -> Lake:
    if not isinstance(lake, str):
        return Lake(catalog=lake["catalog"])
    if lake.endswith((".yaml", ".yml")):
        return load(lake).lake
    return Lake(root=lake if ":" in lake else str(Path(lake).expanduser().resolve()))


def _session() -> SparkSession:
    """The session that there is (on Databricks always), or one as the jobs have it."""
    active = SparkSession.getActiveSession()
    if active is not None:
        active.conf.set("spark.sql.session.timeZone", "UTC")
        return active
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", "--properties-file conf/spark-defaults.conf pyspark-shell")
    return spark_session("notebook")


def _nothing(lake: Opened, window: Window, parameters: Mapping[str, object]) -> Review:
    return Review(lake, window, parameters, _beyond(window, None), {})


def _chosen(clusters: pd.DataFrame, cluster: str | None) -> Any:
    if cluster is None:
        return clusters.iloc[0]
    if cluster not in set(clusters["cluster"]):
        raise ReviewError(f"the lake has no cluster {cluster!r}; it has {', '.join(sorted(clusters['cluster'])[:20])}")
    return clusters[clusters["cluster"] == cluster].iloc[0]


def _say(clusters: pd.DataFrame, chosen: Any, window: Window) -> None:
    print(
        f"Cluster {chosen.cluster}: {chosen.events} events; history from {_z(chosen.known_from)} to "
        f"{_z(chosen.known_until)}."
    )
    others = clusters[clusters["cluster"] != chosen.cluster]
    if len(others):
        named = ", ".join(f"{row.cluster} ({row.events} events)" for row in others.head(10).itertuples())
        more = f" and {len(others) - 10} more" if len(others) > 10 else ""
        print(f"Not shown: {named}{more}. The parameter cluster says which.")
    if chosen.known_until <= window.since or chosen.known_from >= window.until:
        print("Nothing is known of this window: history lies outside it.")
    elif not chosen.events:
        print("Nothing happened in this window, as far as polls saw.")


def _beyond(window: Window, known_from: pd.Timestamp | None) -> pd.DataFrame:
    """The ends of the window that history does not reach."""
    begin = window.until if known_from is None else window.clip(known_from)
    rows = [(window.since, begin, "before history"), (window.known_end, window.until, "no history yet")]
    return pd.DataFrame([row for row in rows if row[0] < row[1]], columns=["gap_start", "gap_end", "reason"])


def _naive(at: datetime) -> pd.Timestamp:
    """As toPandas hands times over: UTC, without saying so."""
    return pd.Timestamp(at).tz_convert("UTC").tz_localize(None)


def _z(at: pd.Timestamp) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
