"""A stage in the dumbest way: folds the controllers' log in rounds, and keeps the rows as tables would."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.rules.log import State, fold, needed
from jobs.rules.log.needed import Needed
from jobs.rules.log.silver import TABLES
from jobs.rules.silver.state import Poll
from schemas import gold

Row = dict[str, Any]

KEYS = {table.full_name: table.key for table in (*TABLES, gold.CONTROLLER_CHANGES)}
NEVER_CHANGE = {gold.CONTROLLER_CHANGES.full_name}
SMALL = {"silver.cluster_snapshots", "silver.features", "silver.broker_registrations"}


class LogLake:
    """Tables of one cluster. `narrowed`: a round is given those live rows alone that it needs."""

    def __init__(self, *, narrowed: bool = False) -> None:
        self.narrowed = narrowed
        self.state: State | None = None
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {table: {} for table in KEYS}

    def take(self, records: Sequence[Row], polled: Poll | None = None) -> None:
        """One round, folded twice, as if it had been killed."""
        live = {table: [row for row in rows.values() if is_open(row)] for table, rows in self.tables.items()}
        if self.narrowed:
            live = narrow(live, needed(records))
        before = None if self.state is None else State.from_json(self.state.to_json())
        folded = fold(before, live, records, polled)
        assert fold(self.state, live, records, polled) == folded
        for table, rows in folded.rows.items():
            told = {tuple(row[name] for name in KEYS[table]): row for row in rows}
            assert len(told) == len(rows)
            for key in told.keys() & self.tables[table].keys():
                assert is_open(self.tables[table][key])
            self.tables[table] |= told
        self.state = folded.state

    @property
    def rows(self) -> dict[str, list[Row]]:
        """All rows by table, in an order of their own."""
        return {table: sorted(rows.values(), key=repr) for table, rows in self.tables.items()}

    @property
    def live(self) -> dict[str, list[Row]]:
        return {table: [row for row in rows if is_open(row)] for table, rows in self.rows.items()}


def is_open(row: Mapping[str, Any]) -> bool:
    return "valid_to" in row and row["valid_to"] is None


def narrow(live: Mapping[str, Sequence[Row]], wanted: Needed) -> dict[str, list[Row]]:
    """The live rows that are wanted, as `Needed` says."""
    of_topic = {row["topic"]: row["topic_id"] for row in live["silver.topic_snapshots"]}
    whole = {topic for topic, id_ in of_topic.items() if wanted.is_all or id_ in wanted.topics or topic in wanted.names}
    partitions = {
        (row["topic"], row["partition"])
        for row in live["silver.partition_snapshots"]
        if row["topic"] in whole
        or (row["topic_id"], row["partition"]) in wanted.partitions
        or not wanted.brokers.isdisjoint(row["replicas"])
    }
    topics = whole | {topic for topic, _ in partitions}
    topics |= {topic for topic, id_ in of_topic.items() if id_ in {id_ for id_, _ in wanted.partitions}}
    if wanted.is_each_topic:
        topics |= of_topic.keys()

    def is_wanted(table: str, row: Row) -> bool:
        if table in SMALL or wanted.is_all:
            return True
        if table == "silver.configs":
            return row["resource_type"] != 2 or row["resource_name"] in topics
        if "partition" in row:
            return (row["topic"], row["partition"]) in partitions
        return row["topic"] in topics

    return {
        table: [row for row in rows if table not in NEVER_CHANGE and is_wanted(table, row)]
        for table, rows in live.items()
    }
