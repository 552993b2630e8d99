"""Rows of bronze.group_log that say something of rebalances and that no round has taken."""

from collections.abc import Mapping

from pyspark.sql import DataFrame

from jobs.histories.positions import beyond
from jobs.rules.groups.fold_rebalances import Positions
from schemas.bronze import GROUP_LOG, GROUP_LOG_COMMITS

COLUMNS = tuple(each.name for each in GROUP_LOG.columns if each not in GROUP_LOG_COMMITS)
"""Those that rows of commits have for themselves are not even read."""
_OF_REBALANCES = "record NOT IN ('commits', 'marker') AND coalesce(type NOT IN (0, 1), true)"


def new_rows(rows: DataFrame, taken: Mapping[str, Positions]) -> DataFrame:
    """Those of `rows` that are beyond what was taken, by alias, with COLUMNS and the columns of
    `beyond`.
    """
    return beyond(rows.where(_OF_REBALANCES).select(*COLUMNS), taken)
