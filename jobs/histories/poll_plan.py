"""A round of polls and of the controllers' log: its plan, and how far silver and gold are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from jobs.configuration.config import Thresholds
from jobs.rounds.history import Context, News
from jobs.rounds.plan import State
from jobs.rules.round import GOLD, SILVER, RoundSettings
from jobs.rules.silver.state import State as SilverState
from jobs.rules.takes import Take
from schemas import gold, silver
from schemas.internal import STATE

OF_POLLS = {
    SILVER: (*silver.TABLES, gold.STALE_BROKERS, *gold.OF_LOG),
    "isr_shrink": gold.ISR_TABLES,
    "leader_churn": gold.LEADER_TABLES,
}
"""History -> the tables that it writes."""


@dataclass(frozen=True)
class DoneSilver:
    """How far silver of a cluster was when gold was planned, which another job makes."""

    cluster_id: str | None
    done_poll: str | None
    done_at: datetime
    changed_poll: str | None
    parts: int | None

    def row(self, cluster: str) -> State:
        """As internal.states has it."""
        return (
            dict.fromkeys(STATE.column_names) | {"history": SILVER, "cluster": cluster} | vars(self)
        )


@dataclass(frozen=True)
class PollPlan:
    """All that a round takes. `at`: of the round. `log`: first and last version of
    bronze.cluster_log that no round has noted, and `is_rest`: no cluster's records of these are
    left. `silver`: where gold is made alone.
    """

    at: datetime
    histories: tuple[str, ...]
    thresholds: Thresholds
    migrating: tuple[str, ...]
    topic_filter: str | None
    clusters: dict[str, Take]
    log: tuple[int, int] | None = None
    is_rest: bool = True
    silver: dict[str, DoneSilver] = field(default_factory=dict)

    @property
    def settings(self) -> RoundSettings:
        """As the folds see it."""
        histories, migrating = frozenset(self.histories), frozenset(self.migrating)
        return RoundSettings(histories, self.thresholds, self.at, migrating, self.topic_filter)


@dataclass(kw_only=True)
class PollNews(News):
    """`records`: by alias, rows of the controllers' log. `versions`: the first and the last of
    bronze.metadata_polls that appended the polls; None where that is not known, or their files may
    be gone.
    """

    plan: PollPlan
    records: Mapping[str, pa.Table] = field(default_factory=dict)
    versions: tuple[int, int] | None = None


def of_silver(context: Context) -> dict[str, State]:
    """The rows of internal.state of silver, by alias."""
    return {cluster: row for (history, cluster), row in context.states.items() if history == SILVER}


def lacks_gold(context: Context, histories: Iterable[str], cluster: str) -> bool:
    """Whether some history of gold has nothing of silver yet. It is made before more of silver."""
    done = context.states.get((SILVER, cluster), {}).get("done_poll")
    return done is not None and any(
        (history, cluster) not in context.states for history in histories
    )


def gold_behind(context: Context, histories: Iterable[str], cluster: str) -> str | None:
    """Up to which poll gold is done, where silver has rows of later ones; None: it has none."""
    changed = context.states.get((SILVER, cluster), {}).get("changed_poll") or ""
    told = [context.states.get((history, cluster), {}) for history in histories if history in GOLD]
    done = min((each.get("done_poll") or "" for each in told), default=changed)
    return done if changed > done else None


def parts_of(context: Context, cluster: str) -> int:
    """Into how many parts the topics of a cluster are cut, where its live rows lie."""
    return context.states.get((SILVER, cluster), {}).get("parts") or 1


def silver_state(context: Context, cluster: str) -> SilverState:
    """What silver remembers of a cluster; a new state if it has none."""
    return context.memory(SILVER, cluster, SilverState) or SilverState()
