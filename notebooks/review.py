"""A window of one cluster's history, opened for a notebook: questions in SQL, answers as pandas
frames.

Questions are those of schemas/queries/ by name, or SQL, and take the same parameters: `:since`,
`:until`, `:cluster`, `:topic`, `:broker`, `:group`.
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

from jobs.configuration.config import load
from jobs.run.session import spark_session
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import Ask, moment, text_of
from kafka_metadata_history.opened import asking
from kafka_metadata_history.report.make import make_report
from kafka_metadata_history.report.queries import CLUSTERS, SECTIONS
from schemas import consumption, gold, groups, internal, silver, views
from schemas.in_spark import attach
from schemas.lake import Lake

ROOT = Path(__file__).resolve().parent.parent
MOST_ROWS = 20_000
"""More than anybody reads, and little for pandas."""
_NEEDED = (*gold.ISR_TABLES, *gold.LEADER_TABLES, silver.PARTITION_SNAPSHOTS, internal.STATE)
_OF_GROUPS = (
    *views.OF_GROUPS,
    groups.GROUP_LIVES,
    *consumption.TABLES,
    silver.GROUP_SNAPSHOTS,
)
_TABLE = re.compile(r"\b(?:bronze|silver|gold)\.\w+")

CHOICES = f"""
SELECT cluster, events, greatest(silver_from, gold_from) AS known_from, until AS known_until
FROM ({CLUSTERS})
ORDER BY events DESC, cluster
"""  # noqa: S608 - our own
"""As the report orders the clusters: the first one is chosen."""
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
    """A page in a frame of its own within a notebook, where its script and its looks touch nothing
    else, and its policy lets it load nothing: all that it draws with is in it.
    """

    html: str

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 1000px; border: '
            '0"></iframe>'
        )


@dataclass(frozen=True)
class Review:
    """A lake, and what notebooks ask with. If nothing is known of it, answers are empty frames."""

    lake: Opened
    parameters: Mapping[str, object]
    is_known: bool

    def ask(self, query: str, **more: object) -> pd.DataFrame:
        """The answer to a named question or SQL; empty where the lake lacks a table of it."""
        sql = text_of(query)
        if not self.is_known or not set(_TABLE.findall(sql)).issubset(self.lake.tables):
            return pd.DataFrame()
        return self.lake.frame(sql, {**self.parameters, **more})

    def report(self, *sections: str) -> Framed | None:
        """The page of `kafka-metadata-history report`; None where nothing is known.

        `sections`: the names of these figures alone (report/queries.py), in this order.
        """
        if not self.is_known:
            return None
        named = {section.name: section for section in SECTIONS}
        chosen = [named[name] for name in sections or named]
        filters = {name: self.parameters[name] for name in ("cluster", "topic", "broker", "group")}
        since, until = (str(self.parameters[name]) for name in ("since", "until"))
        return Framed(
            make_report(
                self.lake.ask, since, until, filters, datetime.now(UTC), sections=chosen
            ).html
        )


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
    """Open a lake (a configuration file *.yaml, a folder or URI, or {"catalog": NAME}); print what
    is looked at.

    Times as jobs/query.py takes them. Without `cluster` it is the one to which most happened.
    Raises ReviewError, QueryError, ConfigError.
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
        "incident": None,
        "slo": None,
    }
    print(f"Lake {opened.name}, from {_z(_naive(begin))} to {_z(_naive(end))}.")
    if missing := [table.full_name for table in _NEEDED if table.full_name not in opened.tables]:
        print(
            f"Nothing is known here: the lake has no {missing[0]}. Is it the right one, and did "
            "its jobs run?"
        )
        return Review(opened, parameters, is_known=False)
    clusters = opened.frame(CHOICES, parameters)
    if clusters.empty:
        print("Nothing is known here: the lake has no history yet.")
        return Review(opened, parameters, is_known=False)
    chosen = _chosen(clusters, cluster)
    _say(clusters, chosen, *map(_naive, (begin, end)))
    review = Review(opened, {**parameters, "cluster": chosen.cluster}, is_known=True)
    if missing := [table.full_name for table in _OF_GROUPS if table.full_name not in opened.tables]:
        print(
            f"Nothing is known of groups: the lake has no {missing[0]}. The job rebalance_history "
            "makes it."
        )
    elif group is not None and review.ask(GROUP).empty:
        raise ReviewError(f"cluster {chosen.cluster} has no group {group!r} in gold.group_lives")
    return review


def _open(lake: str | Mapping[str, str]) -> Opened:
    """Open a lake with Spark."""
    # Paths in a configuration and in conf/spark-defaults.conf are relative to the repository's
    # root, as for the jobs.
    with chdir(ROOT):
        opened = _lake(lake)
        spark = _session()
    tables = attach(spark, opened)
    if opened.catalog is not None:
        spark.catalog.setCurrentCatalog(opened.catalog)

    def frame(sql: str, parameters: Mapping[str, object]) -> pd.DataFrame:
        rows = spark.sql(with_values(sql, parameters)).limit(MOST_ROWS + 1).toPandas()
        if len(rows) > MOST_ROWS:
            print(
                f"More than {MOST_ROWS} rows: the rest is left out. Take a shorter window, or one "
                "topic or broker."
            )
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
    os.environ.setdefault(
        "PYSPARK_SUBMIT_ARGS", "--properties-file conf/spark-defaults.conf pyspark-shell"
    )
    return spark_session("notebook")


def _chosen(clusters: pd.DataFrame, cluster: str | None) -> Any:
    if cluster is None:
        return clusters.iloc[0]
    if cluster not in set(clusters["cluster"]):
        raise ReviewError(
            f"the lake has no cluster {cluster!r}; it has "
            f"{', '.join(sorted(clusters['cluster'])[:20])}"
        )
    return clusters[clusters["cluster"] == cluster].iloc[0]


def _say(clusters: pd.DataFrame, chosen: Any, since: pd.Timestamp, until: pd.Timestamp) -> None:
    print(
        f"Cluster {chosen.cluster}: {chosen.events} events; history from {_z(chosen.known_from)} "
        f"to {_z(chosen.known_until)}."
    )
    others = clusters[clusters["cluster"] != chosen.cluster]
    if len(others):
        named = ", ".join(
            f"{row.cluster} ({row.events} events)" for row in others.head(10).itertuples()
        )
        more = f" and {len(others) - 10} more" if len(others) > 10 else ""
        print(f"Not shown: {named}{more}. The parameter cluster says which.")
    if chosen.known_until <= since or chosen.known_from >= until:
        print("Nothing is known of this window: history lies outside it.")
    elif not chosen.events:
        print("Nothing happened in this window, as far as polls saw.")


def _naive(at: datetime) -> pd.Timestamp:
    """As toPandas hands times over: UTC, without saying so."""
    return pd.Timestamp(at).tz_convert("UTC").tz_localize(None)


def _z(at: pd.Timestamp) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
