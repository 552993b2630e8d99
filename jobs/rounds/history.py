"""The contract of a history: which new rows it takes, how they are folded, and how far the history
has come then.

One engine (engine.py) makes all histories. A new one is a class in jobs/histories/, and a line in
the registry there.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from jobs.configuration.config import Config
from jobs.configuration.histories import Declared
from jobs.rounds.aside import Aside
from jobs.rounds.commit import Commit
from jobs.rounds.live import LiveRows
from jobs.rounds.plan import State, States
from jobs.rounds.stage import Fold, folded, frame_of, packed_in_arrow, side_by_side
from jobs.rules.memory import loads
from jobs.rules.takes import NOTED_AFTER
from jobs.run.outages import Outages
from schemas.lake import Lake
from schemas.table import PART, Table

KEY = "_place"
"""The column by which news and live rows meet in a fold: a cluster, and the part in which its live
rows lie.
"""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Run:
    """The run that makes histories. `outages`: hears of each poll. `since`: when it began, if it
    reads the controllers' log all the time.
    """

    outages: Outages = field(default_factory=Outages)
    since: datetime | None = None


@dataclass(frozen=True)
class Context:
    """The lake and the states before a round of a history.

    `states`: rows of internal.states by history and alias; those whose round is None are not
    written yet. `live`: the live rows before the round. `aside`: the clusters that are left out, as
    their fold fails.
    """

    spark: SparkSession
    config: Config
    live: LiveRows
    states: States
    run: Run
    aside: Aside
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

    `takes`: the plan of the round, to make it again. `rows`: packed, beside KEY. `places`: of the
    live rows that the fold has to see. `fold`: makes rows of both. `clusters`: that are folded.
    `is_due`: the round is made though its fold may change nothing. `is_more`: whether something is
    left for the next round; None: nobody has looked. `says`: for the log.
    """

    takes: Any
    rows: Sequence[DataFrame] = ()
    places: Collection[str] = ()
    fold: Fold | None = None
    clusters: Collection[str] = ()
    is_due: bool = False
    is_more: bool | None = None
    says: str = ""


@dataclass(frozen=True)
class Made:
    """The rows that a round writes, by table, and commits of others, which never were on the
    driver. `states`: rows of internal.states that folds have made.
    """

    rows: Mapping[Table, pa.Table] = field(default_factory=dict)
    others: Sequence[Commit] = ()
    states: Sequence[State] = ()


N = TypeVar("N", bound=News)


class History(ABC, Generic[N]):
    """One history, or several that are made together. An object knows what it looked at last;
    nothing else.
    """

    declared: ClassVar[Sequence[Declared]]
    """As those know it who do not make it."""
    job: ClassVar[str]
    """The name of the work in a pipeline, for its log."""
    names: Sequence[str]
    """As internal.states has them."""
    woken_by: ClassVar[Collection[Table]] = ()
    """A commit to one of these tables of bronze wakes it. If none does, it looks for what is new
    each minute.
    """
    follows: ClassVar[Collection[str]] = ()
    """The names of histories that it takes rows of, too: each of their rounds wakes it."""
    tables: Sequence[Table]
    """The tables that it writes."""
    live: Sequence[Table]
    """Those of which its folds see live rows."""
    by: ClassVar[str] = "group_id"
    """The column by whose hash live rows of its tables are cut into parts."""
    input_type: ClassVar[type]
    """The dataclass of a plan."""
    noted_after: ClassVar[timedelta] = NOTED_AFTER
    """News that say nothing are noted once they have waited for so long."""
    beside: ClassVar[Mapping[str, Collection[str]]] = {}
    """Name -> those of other rows of internal.states that its rounds write."""
    needed: ClassVar[Mapping[Table, str]] = {}
    """Table of bronze -> the query for the day of the oldest of its `rows` that the history has not
    taken, by `states`, those of internal.state. Upkeep keeps them.
    """
    reads: ClassVar[Mapping[Table, Collection[str]]] = {}
    """Table of silver -> the names whose rounds must have had a row before its retention drops
    it.
    """
    can_make_again: ClassVar[bool] = False
    """Whether a person can have the history of a cluster computed again."""

    @classmethod
    def wanted(cls, config: Config) -> bool:
        """Whether a pipeline with this configuration makes it."""
        return any(each.clusters(config) for each in cls.declared)

    @abstractmethod
    def look(self, context: Context, now: datetime) -> N | None:
        """The news of the next round; None if there are none."""

    @abstractmethod
    def again(self, context: Context, taken: Any) -> N:
        """The news of a round that was planned, and not done. `taken`: its plan."""

    @abstractmethod
    def after(self, context: Context, news: N, made: Made | None) -> Iterable[State]:
        """The rows of internal.states that news change, beside those that folds make. `made`: by
        the round that has taken them; None where no round does, as they say nothing.
        """

    def done(self, context: Context, news: N) -> None:
        """A round has taken the news, and `context` is of after it."""

    def go_back(self, context: Context) -> Iterable[State]:  # noqa: ARG002 - most pass over nobody
        """Look again for what was passed over of clusters that were left out; the rows of
        internal.states then.
        """
        return ()

    def check_again(self, context: Context, cluster: str) -> None:
        """Raise LakeError where the history of a cluster cannot be computed again."""

    def forget(self, cluster: str) -> None:
        """A cluster was taken out of the history."""

    def written_by(self, histories: Collection[str]) -> Iterable[Table]:  # noqa: ARG002 - most are one
        """The tables that some histories of those that are made together write."""
        return self.tables

    def is_left(self, spark: SparkSession, config: Config) -> bool:  # noqa: ARG002 - most take nothing then
        """Whether there is something to take though the configuration does not want the history
        (any more).
        """
        return False

    def make(self, context: Context, news: N) -> Made:
        """Fold news and live rows of the same places, in Spark's executors."""
        if news.fold is None or not news.places:
            return Made()
        places = pa.array(sorted(news.places))
        parts = {int(place.rpartition("/")[2]) for place in news.places}
        live = {
            table: rows.filter(pc.is_in(self.places_of(table, rows), places))
            for table, rows in context.live.of(self.live, parts).items()
        }
        packed = frame_of(context.spark, packed_in_arrow(live, KEY, self.places_of))
        return Made(folded(side_by_side(news.rows), packed, self.tables, news.fold, KEY))

    @staticmethod
    def places_of(_: Table, rows: pa.Table) -> pa.ChunkedArray:
        """KEY of live rows."""
        return pc.binary_join_element_wise(rows["cluster"], rows[PART].cast(pa.string()), "/")
