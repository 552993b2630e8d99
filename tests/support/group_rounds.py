"""Groups' tables as rounds of their fold leave them, without Spark."""

from collections.abc import Sequence

from jobs.configuration.config import Thresholds
from jobs.rules.groups.group import Group, fold
from schemas import groups
from tests.support.stage import Row, Rows, Stage

GROUP = Group("id-prod", "prod", "g")


class Rounds(Stage):
    """One group, and the rows of its tables."""

    def __init__(self, thresholds: Thresholds | None = None, group: Group = GROUP) -> None:
        self.group = group

        def of_group(memory: object, live: Rows, **news: object) -> tuple[object, Rows]:
            return fold(group, memory, live, thresholds or Thresholds(), **news)

        super().__init__(of_group, groups.TABLES)

    def take(
        self,
        records: Sequence[Row] = (),
        states: Sequence[Row] = (),
        *,
        read_on: int = 0,
        log_partition: int | None = None,
    ) -> None:
        """Fold what is new; `read_on`: by how many offsets the log was read beyond the last
        record.
        """
        read_to = {
            row["log_partition"]: (row["next_offset"] or row["offset"] + 1) + read_on
            for row in records
        }
        super().take(records=records, read_to=read_to, states=states, log_partition=log_partition)

    def sorted(self) -> dict[str, list[str]]:
        """Every row as text."""
        return {name: sorted(map(repr, rows.values())) for name, rows in self.tables.items()}
