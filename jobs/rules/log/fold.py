"""The controllers' log of one cluster -> its history: what changed in the interval tables, and who
was the controller.

Pure: the same records give the same rows however they are cut into rounds. A record is one
observation, so states are exact: they end and begin at one moment. States of no length are states,
too. A snapshot is one observation of all that it has; the first states of a cluster have no begin.

Where polls tell the history of topics, records are replayed all the same, and make rows in those
tables alone that nobody else tells. The log tells the topics that polls ask for, so that history is
one whoever tells it; in the tables that nobody else tells it keeps all topics, or a wider filter
would have none of what came before. The log takes over with the first batch that was read after the
last accepted poll: the state at its end is one observation, by our clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import Any

from jobs.rules.gold.bounds import Bounds
from jobs.rules.gold.rows import AccessChange, ControllerChange, VoterChange
from jobs.rules.ids import LOG, log_id, row_id
from jobs.rules.log.image import A_FEATURE, A_PARTITION, A_TOPIC, LIVENESS, SETTINGS, Image, Thing
from jobs.rules.log.records import (
    FIRST_OFFSETS,
    Break,
    Change,
    Open,
    Record,
    Snapshot,
    since_truncation,
    steps,
)
from jobs.rules.log.silver import DERIVED, TABLES, TABLES_OF, image_of, levels, registered
from jobs.rules.log.state import State, observed
from jobs.rules.silver.intervals import Intervals, Key
from jobs.rules.silver.rows import OfCluster
from jobs.rules.silver.state import Observation, Poll, Row
from jobs.rules.silver.topic_lives import GONE, NOT_POLLED, RECREATED, asked_for, is_another
from jobs.rules.teller import begun, source, takes_over
from schemas import gold
from schemas.silver import (
    CLUSTER_SNAPSHOTS,
    ENRICHMENTS,
    HISTORY_SOURCES,
    OF_LOG,
    PARTITION_REGISTRATIONS,
)
from schemas.table import Table

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_OF_TOPIC = (A_TOPIC, A_PARTITION, SETTINGS, LIVENESS)
_KIND_OF = {
    table: kind for kind, tables in TABLES_OF.items() if kind != LIVENESS for table, _ in tables
}


_ACCESS_CHANGES = {14: "quota_changed", 18: "acl_added", 19: "acl_removed"}
"""By type of record."""


@dataclass(frozen=True)
class LogResult:
    """The result of a cluster's round: its next state, which says up to where the log is done, and
    new and ended rows by table.
    """

    state: State
    rows: dict[str, list[Row]]


def fold(
    state: State | None,
    live: Mapping[str, Sequence[Mapping[str, Any]]],
    records: Sequence[Record],
    polled: Poll | None = None,
    topic_filter: str | None = None,
    *,
    answered: Mapping[str, Poll] = MappingProxyType({}),
    static_configs: Mapping[str, str | None] = MappingProxyType({}),
) -> LogResult:
    """Bring the history of one cluster up to some records.

    `records`: rows of bronze.cluster_log in the order in which they were read, from
    `state.next_offset` on at the latest, that of an open transaction among them; those of a
    snapshot are whole, or come again. `live`: the open rows by table, at least those that `needed`
    leaves. `polled`: the last accepted poll; ids of observations sort after it. If there is one and
    `state` is None, polls have told the history so far. `topic_filter`: that of the polls (as in
    bronze: null, or JSON), which holds for what the log tells in their place. `static_configs`:
    what polls told of the brokers' files, which no record tells. Once one of the two is another
    one, all live rows are needed. `answered`: the last answers by enrichment: they came
    after the poll's own.
    """
    state = replace(state or begun(polled, topic_filter))
    if state.truncated_at is not None:
        records = since_truncation(records, state.truncated_at)
    if not records:
        return LogResult(state, {})
    state.after = max(state.after, polled.id if polled else "")
    state.is_open = False
    columns: OfCluster = {
        "cluster_id": records[0]["cluster_id"],
        "cluster": records[0]["cluster"],
    }
    cluster = _Cluster(
        state, columns, live, polled, topic_filter, answered=answered, static_configs=static_configs
    )
    for step in steps(records, is_cut=state.is_cut):
        match step:
            case Change():
                cluster.change(step)
            case Snapshot():
                cluster.observe(step)
            case Break():
                cluster.break_off(step)
            case Open():
                state.is_open = True
    cluster.hear(max(record["read_at"] for record in records))
    return cluster.result()


class _Cluster:
    """A cluster while records are replayed one after the other."""

    def __init__(
        self,
        state: State,
        columns: OfCluster,
        live: Mapping[str, Sequence[Mapping[str, Any]]],
        polled: Poll | None,
        topic_filter: str | None,
        *,
        answered: Mapping[str, Poll],
        static_configs: Mapping[str, str | None],
    ) -> None:
        self._state, self._columns, self._polled = state, columns, polled
        self._answered, self._static_configs = answered, static_configs
        self._last_told: dict[
            Table, Poll
        ] = {}  # By table, where it is another one than the last poll.
        self._is_asked = cache(lambda topic: bool(asked_for(topic_filter, (topic,))))
        self._topic_filter = topic_filter
        self._tables = {
            table: Intervals(table, columns, live.get(table.full_name, ()))
            for table in (*TABLES, HISTORY_SOURCES)
        }
        self._image = (
            image_of(live, state.static_configs, tells=state.tells)
            if state.is_whole
            else Image(state.static_configs)
        )
        self._controllers: list[ControllerChange] = []
        self._access: list[AccessChange] = []
        self._voters: list[VoterChange] = []
        self._is_source = False  # silver.history_sources says that the log tells.

    def result(self) -> LogResult:
        rows: dict[str, list[Any]] = {
            table.full_name: list(of_table.changed.values())
            for table, of_table in self._tables.items()
        }
        rows[gold.CONTROLLER_CHANGES.full_name] = self._controllers
        rows[gold.ACCESS_CHANGES.full_name] = self._access
        rows[gold.VOTER_CHANGES.full_name] = self._voters
        return LogResult(
            self._state, {table: changed for table, changed in rows.items() if changed}
        )

    def change(self, step: Change) -> None:
        """Replay a record of the log, unless it was, or what came before it is not known."""
        state, record = self._state, step.record
        offset, leader_epoch = record["offset"], record["leader_epoch"]
        if state.last is None and offset in FIRST_OFFSETS:
            state.is_whole = True
        if not state.is_whole or offset < state.next_offset or leader_epoch < state.leader_epoch:
            return
        if offset != state.next_offset or step.at != state.run_at:
            state.run, state.run_at = log_id(state.after, offset), step.at
        observation = state.observation(offset, step.at)
        state.last, state.next_offset, state.leader_epoch = (
            observation.poll,
            offset + 1,
            leader_epoch,
        )
        settings, things = self._take_static_configs(), self._image.replay(record)
        self._tell_settings(settings, observation)
        for thing in things:
            self._tell(thing, observation, is_new=_has_hidden_value(record))
        if record["leader_change"] is not None:
            controller = record["leader_change"]["leader"]
            self._controllers.append(self._elected(controller, leader_epoch, observation))
        self._take_voters(record, observation)
        if record["type"] in _ACCESS_CHANGES and not record["is_control"]:
            change = _ACCESS_CHANGES[record["type"]]
            self._access.append(_access_changed(self._columns, change, observation))
        if state.topic_filter != self._topic_filter:
            self._tell_all(observation)

    def observe(self, snapshot: Snapshot) -> None:
        """Take a snapshot that knows more than was replayed as one observation of all there is."""
        state = self._state
        if state.last and snapshot.offset <= state.next_offset:
            return
        at = max(snapshot.at, state.last.at) if state.last else snapshot.at
        observation = Observation(observed(state.after, snapshot.offset - 1, at), state.last)
        state.static_configs = self._static_configs
        self._image = Image(self._static_configs)
        for record in snapshot.records:
            self._image.replay(record)
            self._take_voters(record, observation)
        state.last, state.run, state.run_at = observation.poll, observation.poll.id, None
        state.next_offset, state.leader_epoch, state.is_whole = (
            snapshot.offset,
            snapshot.leader_epoch,
            True,
        )
        self._tell_all(observation)

    def break_off(self, step: Break) -> None:
        """Know nothing more before the next snapshot, unless the log was read beyond the break
        already.

        The log after a truncation has offsets again that were there. From there on ids are made
        after the last one.
        """
        state = self._state
        at = step.truncated_at
        if at is None:
            is_known = step.offset <= state.next_offset
        else:
            is_read_beyond = state.is_whole and step.offset >= state.next_offset
            is_known = is_read_beyond or at <= (state.truncated_at or _LONG_AGO)
        if is_known or state.last is None:
            return
        state.is_whole, state.controller, state.controller_epoch = False, None, None
        if at is not None:
            state.next_offset, state.truncated_at, state.after = 0, at, state.last.id

    def hear(self, read_at: datetime) -> None:
        """Note that all is known up to what was read then; take over if no poll came later."""
        state, polled = self._state, self._polled
        if not state.is_whole or state.last is None:
            return
        state.heard_at = max(read_at, state.heard_at or read_at)
        if takes_over(state, polled, self._answered):
            state.tells = True
            self._take_static_configs()
            self._last_told = {ENRICHMENTS[kind]: each for kind, each in self._answered.items()}
            self._tell_all(self._now(polled))
            self._last_told = {}
        elif settings := self._take_static_configs():
            # No record was replayed since polls told them.
            self._tell_settings(settings, self._now(state.last))

    def _now(self, before: Poll | None) -> Observation:
        """All that is known up to what was read, as an observation by our clock."""
        state = self._state
        # Neither what was read nor what polls showed came later.
        at = max(each for each in (state.heard_at, state.last and state.last.at) if each)
        observation = Observation(observed(state.after, state.next_offset - 1, at), before)
        state.last, state.run, state.run_at = observation.poll, observation.poll.id, None
        return observation

    def _take_static_configs(self) -> frozenset[Thing]:
        """Take in what polls told of the brokers' files; returns settings that may differ by it."""
        if self._state.static_configs == self._static_configs:
            return frozenset()
        self._state.static_configs = self._image.static_configs = self._static_configs
        return frozenset((SETTINGS, (topic,)) for topic in self._image.topics)

    def _tell_settings(self, settings: frozenset[Thing], observation: Observation) -> None:
        """Tell settings of the brokers' files. Since when they are so, nobody knows."""
        for thing in sorted(settings):
            self._tell(thing, replace(observation, is_since_before=False))

    def _tell_all(self, observation: Observation) -> None:
        """Bring all rows up to the image, as the filter has them now."""
        self._state.topic_filter = self._topic_filter
        known = [
            (kind, key) for table, kind in _KIND_OF.items() for key in self._tables[table].open
        ]
        for thing in dict.fromkeys((*known, *self._image.things())):
            self._tell(thing, observation)

    def _tell(self, thing: Thing, observation: Observation, *, is_new: bool = False) -> None:
        """Bring the rows of a thing up to the image. `is_new`: see `Intervals.show`."""
        kind, key = thing
        if self._tells(HISTORY_SOURCES) and not self._is_source:
            self._tables[HISTORY_SOURCES].show((), {"source": LOG}, observation)
            self._is_source = True
        is_asked = kind not in _OF_TOPIC or self._is_asked(key[0])
        for table, state_of in TABLES_OF[kind]:
            if table in OF_LOG or (self._tells(table) and is_asked):
                self._show(table, key, state_of(self._image, key), observation, is_new=is_new)
            elif self._tells(table) and key in self._tables[table].open:
                self._tables[table].end(key, NOT_POLLED, observation)
        if kind == A_PARTITION and key in self._image.partitions:
            # A record of a partition may change nothing but this.
            registrations, told = (
                self._tables[PARTITION_REGISTRATIONS],
                registered(self._image, key),
            )
            row = registrations.open[key]
            if any(row.get(name) != value for name, value in told.items()):
                registrations.amend(key, told)
        elif kind == A_FEATURE and self._tells(CLUSTER_SNAPSHOTS):
            known = self._tables[CLUSTER_SNAPSHOTS].open.get(())
            self._show(CLUSTER_SNAPSHOTS, (), levels(self._image, known), observation)

    def _tells(self, table: Table) -> bool:
        return source(table, by_log=self._state.tells) == LOG

    def _show(
        self,
        table: Table,
        key: Key,
        told: Row | None,
        observation: Observation,
        *,
        is_new: bool = False,
    ) -> None:
        known = self._tables[table]
        if table in self._last_told:
            observation = replace(observation, before=self._last_told[table])
        row = known.open.get(key)
        if told is None:
            if row is not None:
                known.end(key, GONE, observation)
            return
        if row is not None and "topic_id" in told and is_another(told, row):
            known.end(key, RECREATED, observation)
        elif row is not None and row["first_poll"] >= self._state.run and table in DERIVED:
            other = {name: value for name, value in told.items() if row[name] != value}
            if other and other.keys() <= DERIVED[table]:
                known.amend(key, other)
                return
        known.show(key, told, observation, whole=True, is_new=is_new)

    def _elected(self, controller: int, epoch: int, observation: Observation) -> ControllerChange:
        """A LeaderChangeMessage: the controllers have elected one of them."""
        state, poll = self._state, observation.poll
        bounds = _bounds(observation)
        row: ControllerChange = {
            "id": row_id(self._columns["cluster_id"], epoch, poll.id),
            **self._columns,
            "controller_id": controller,
            "controller_epoch": epoch,
            "prev_controller_id": state.controller,
            "prev_controller_epoch": state.controller_epoch,
            **bounds.began,
        }
        state.controller, state.controller_epoch = controller, epoch
        return row

    def _take_voters(self, record: Record, observation: Observation) -> None:
        """Take a VotersRecord, which names all voters; one that names those of before may tell
        other addresses.
        """
        if record["voters"] is None:
            return
        before = self._state.voters
        voters = self._state.voters = tuple(sorted({each["voter_id"] for each in record["voters"]}))
        if before not in {None, voters}:
            self._voters.append(
                {
                    "id": row_id(self._columns["cluster_id"], "voters", observation.poll.id),
                    **self._columns,
                    "voters": [*voters],
                    "prev_voters": [*(before or ())],
                    **_bounds(observation).began,
                }
            )


def _access_changed(columns: OfCluster, change: str, observation: Observation) -> AccessChange:
    """A record of an ACL or of a quota, of which the type is all that is kept."""
    return {
        "id": row_id(columns["cluster_id"], change, observation.poll.id),
        **columns,
        "change": change,
        **_bounds(observation).began,
    }


def _bounds(observation: Observation) -> Bounds:
    poll, before = observation.poll, observation.before
    return Bounds(poll.id, before.at if before else None, poll.at)


def _has_hidden_value(record: Record) -> bool:
    """Whether it sets a configuration whose value is not kept: to another one, for all we know."""
    config = record["config"]
    return config is not None and config["value"] is None and not config["is_removed"]
