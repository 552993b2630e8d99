"""The contract of a history: which new rows it takes, how they are folded, and how far the history
has come then.

One engine (engine.py) makes all histories. A new one is a class in jobs/histories/, and a line in
the registry there.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.configuration.config import Config
from jobs.configuration.histories import Declared
from jobs.rounds.commit import Commit
from jobs.rounds.large_clusters import LargeClusters
from jobs.rounds.left_out import LeftOut
from jobs.rounds.live import LiveRows, part_of
from jobs.rounds.plan import NewestStates, State, States
from jobs.rounds.stage import Fold
from jobs.rules.memory import loads
from jobs.run.outages import Outages
from schemas.lake import Lake
from schemas.table import PART, Table

KEY = "_key"
"""The column by which new and live rows meet in a fold: a cluster, and a part of it."""


def key_column(part: Column) -> Column:
    """KEY of rows of some cluster, by the part in which live rows lie."""
    return F.concat_ws("/", "cluster", part.cast("string"))


def key_of(cluster: str, id_: str) -> str:
    """KEY of rows of a cluster, by the id by whose hash live rows lie in parts."""
    return f"{cluster}/{part_of(id_)}"


Rows = tuple[Table, DataFrame]
"""Rows of a table, or of some columns of it."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Run:
    """The run that makes histories. `outages`: is shown each poll's header. `since`: when it
    began, if it reads the controllers' log all the time. `makes`: the histories that it makes.
    `writes`: how often its rounds have written each table. `states`: of all histories.
    """

    outages: Outages = field(default_factory=Outages)
    since: datetime | None = None
    makes: set[str] = field(default_factory=set)
    writes: Counter[Table] = field(default_factory=Counter)
    states: NewestStates = field(default_factory=NewestStates)


@dataclass(frozen=True)
class Context:
    """The lake and the states before a round of a history.

    `states`: rows of internal.states by history and alias; those whose round is None are not
    written yet. `live`: the live rows before the round. `left_out`: the clusters whose fold
    fails.
    """

    spark: SparkSession
    config: Config
    live: LiveRows
    states: States
    run: Run
    left_out: LeftOut
    parsed: dict[tuple[str, str], tuple[str, Any]] = field(default_factory=dict)
    """The memory of each history and alias that was read last, so that none is parsed twice."""

    @property
    def lake(self) -> Lake:
        """The lake of the configuration."""
        return self.config.lake

    def memory(self, history: str, cluster: str, of: type[_T]) -> _T | None:
        """The memory that a history has of a cluster; None before its first round."""
        if (row := self.states.get((history, cluster))) is None:
            return None
        if self.parsed.get((history, cluster), ("",))[0] != row["memory"]:
            self.parsed[history, cluster] = row["memory"], loads(of, row["memory"])
        found: _T = self.parsed[history, cluster][1]
        return found


@dataclass(kw_only=True)
class News:
    """The new rows that a round takes.

    `plan`: to make the round again. `rows`: with KEY. `keys`: of the live rows that the fold has to
    see; without any nothing is folded. `fold`: makes rows of both. `clusters`: that are folded.
    `is_due`: the round is made though its fold may change nothing. `is_more`: whether something is
    left for the next round; None: nobody has looked. `says`: for the log.
    """

    plan: Any
    rows: Sequence[Rows] = ()
    keys: Collection[str] = ()
    fold: Fold | None = None
    clusters: Collection[str] = ()
    is_due: bool = False
    is_more: bool | None = None
    says: str = ""


@dataclass(frozen=True)
class Inputs:
    """The rows that a fold gets, by key.

    `news`: all columns but KEY. `live`: rows that are here, `others`: rows that lie beside them, as
    their tables have them. `tables`: that the fold makes rows of. `large`: the large clusters of
    the round; None: there are none.
    """

    fold: Fold
    tables: Sequence[Table]
    news: Sequence[Rows]
    live: Mapping[Table, pa.Table]
    others: Sequence[Rows] = ()
    large: LargeClusters | None = None


@dataclass(frozen=True)
class Output:
    """The rows that a round writes, by table. `commits`: of large tables, whose rows never were on
    the driver. `states`: rows of internal.states that folds have made. `is_large`: frames hold rows
    of large clusters.
    """

    rows: Mapping[Table, pa.Table] = field(default_factory=dict)
    commits: Sequence[Commit] = ()
    states: Sequence[State] = ()
    is_large: bool = False


N = TypeVar("N", bound=News)


class History(ABC, Generic[N]):
    """One history, or several that are made together. Its object knows what it looked at last."""

    declared: ClassVar[Sequence[Declared]]
    """As status, questions and the configuration know it."""
    job: ClassVar[str]
    """The name of the work in a pipeline, for its log."""
    names: Sequence[str]
    """As internal.states has them."""
    woken_by: ClassVar[Collection[Table]] = ()
    """A commit to one of these tables of bronze wakes it; each 90 s it looks anyway."""
    after: ClassVar[Collection[str]] = ()
    """The names of histories that it takes rows of, too: each of their rounds wakes it."""
    tables: Sequence[Table]
    """The tables that it writes."""
    live: Sequence[Table]
    """Those of which its folds see live rows."""
    key: ClassVar[str] = KEY
    """The column by which rows meet in a fold."""
    by: ClassVar[str] = "group_id"
    """The column by whose hash live rows of its tables are cut into parts."""
    plan_type: ClassVar[type]
    """The dataclass of a plan."""
    other_states: ClassVar[Mapping[str, Collection[str]]] = {}
    """Name -> those of other rows of internal.states that its rounds write."""
    needs: ClassVar[Mapping[Table, str]] = {}
    """Table of bronze -> the query for the day of the oldest of its `rows` that the history has not
    taken, by `states`, those of internal.state. Upkeep keeps them.
    """
    needs_silver: ClassVar[Mapping[Table, Collection[str]]] = {}
    """Table of silver -> the names that must have had a row before retention drops it."""
    can_make_again: ClassVar[bool] = False
    """Whether a person can have the history of a cluster computed again."""

    @classmethod
    def wanted(cls, config: Config) -> bool:
        """Whether a pipeline with this configuration makes it."""
        return any(each.clusters(config) for each in cls.declared)

    @abstractmethod
    def due(self, context: Context, now: datetime) -> N | None:
        """The news of the next round; None if there are none."""

    @abstractmethod
    def planned(self, context: Context, plan: Any) -> N:
        """The news of a round that was planned, and not done."""

    def read(self, context: Context, news: N) -> Inputs:
        """The rows that the fold of some news gets: these, and live rows with the same keys."""
        keys = pa.array(sorted(news.keys))
        parts = {int(key.rpartition("/")[2]) for key in news.keys}
        live = {
            table: rows.filter(pc.is_in(self.keys_of(rows), keys))
            for table, rows in context.live.of(self.live, parts).items()
        }
        return Inputs(cast("Fold", news.fold), self.tables, news.rows, live)

    @abstractmethod
    def note(self, context: Context, news: N, output: Output | None) -> Iterable[State]:
        """The rows of internal.states that news change, beside those that folds make. `output`: of
        the round that has taken them; None where no round does, as they say nothing.
        """

    def done(self, context: Context, news: N) -> None:
        """A round has taken the news, and `context` is of after it."""

    def go_back(self, context: Context) -> Iterable[State]:  # noqa: ARG002 - most pass over nobody
        """Look again for what was passed over of clusters left out; the rows of internal.states."""
        return ()

    def check_again(self, context: Context, cluster: str) -> None:
        """Raise LakeError where the history of a cluster cannot be computed again."""

    def forget(self, cluster: str) -> None:
        """A cluster was taken out of the history."""

    def written_by(self, histories: Collection[str]) -> Iterable[Table]:  # noqa: ARG002 - most are one
        """The tables that some histories of those that are made together write."""
        return self.tables

    @classmethod
    def joined(
        cls,
        own: States,  # noqa: ARG003 - most know each cluster apart
        other: States,  # noqa: ARG003
        rows: Mapping[Table, DataFrame],  # noqa: ARG003
    ) -> Iterable[State]:
        """The rows of internal.states of no cluster, once a lake has clusters of another one, too.
        `own`, `other`: the states of both. `rows`: those that are appended.
        """
        return ()

    def waits(self, spark: SparkSession, config: Config) -> bool:  # noqa: ARG002 - most take nothing then
        """Whether something is to be taken though the configuration does not want the history."""
        return False

    @staticmethod
    def keys_of(rows: pa.Table) -> pa.ChunkedArray:
        """The keys of live rows."""
        return pc.binary_join_element_wise(rows["cluster"], rows[PART].cast(pa.string()), "/")
