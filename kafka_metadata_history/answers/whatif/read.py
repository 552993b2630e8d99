"""One state of a cluster as a lake has it at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jobs.rules.gold.news import Levels
from kafka_metadata_history.answers.asof.read import FENCED, STOPPING, AsOf, reaches, time_of
from kafka_metadata_history.answers.questions import QueryError, one_of, shown
from kafka_metadata_history.answers.whatif.losses import loss_of_nodes, loss_of_rack
from kafka_metadata_history.answers.whatif.state import Broker, Cluster, Loss, Partition, Quorum
from metadata_source.kinds import ISR, LEADER, REPLICAS
from metadata_source.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.asof.read import Facts, PartitionRow
    from kafka_metadata_history.answers.questions import Ask

LOST = BROKER, CONTROLLER, RACK = ("broker", "controller", "rack")
"""What may be lost."""
_MEANS: Final = (LEADER, REPLICAS, ISR)
"""The facts without which nothing can be said."""


@dataclass(frozen=True)
class Record:
    """`at`: of when the state is. `until`: up to when the cluster is recorded. `gap`: from when to
    when nobody looked, `at` between. `lacks`: sources that tell nothing, a clause each.
    `answered`: by question on which the state depends, when it was answered last, None: not lately.
    """

    cluster: Cluster
    at: datetime
    until: datetime
    gap: tuple[datetime, datetime] | None = None
    lacks: tuple[str, ...] = ()
    answered: Mapping[str, datetime | None] = field(default_factory=dict)


def read_record(
    ask: Ask,
    cluster: str | None,
    at: str | None,
    now: datetime,
    controller_racks: Mapping[int, str],
) -> Record:
    """Read the state of a cluster. `cluster`: None: the only one. `at`: as `moment` takes it, None:
    the newest state.

    Raises QueryError for a cluster or a time that history does not have, and for a kind of cluster
    whose leaders, replicas or ISRs mean nothing.
    """
    known = reaches(ask, cluster)
    name = one_of([each.cluster for each in known], cluster, "history")
    state = AsOf.of(ask, known, time_of(at, now))
    then, fact = state.at_of(name), state.facts.get(name)
    if fact is None:
        raise QueryError(printable(f"--at {shown(then)}: history of {name} has no state then"))
    if odd := [each for each in fact.not_meaningful or () if each.partition(":")[0] in _MEANS]:
        raise QueryError(printable(f"{name}: nobody knows what a loss does there: {odd[0]}"))
    answered, by_log = state.answered[name], fact.by_log
    has_elr = None if fact.elr_version_level is None else fact.elr_version_level > 0
    knows = {each: by_log or each in answered for each in ("reassignments", "elr")}
    knows["elr"] = knows["elr"] or has_elr is False
    found = Cluster(
        name,
        {
            row["broker_id"]: Broker(row["rack"], row["state"] != FENCED, row["state"] == STOPPING)
            for row in state.rows("brokers")
        },
        [_partition(row, knows) for row in state.partitions()],
        _quorum(fact, state.voters_behind.get(name) if "quorum" in answered else None),
        Levels(fact.metadata_version_level, highest=fact.metadata_version_highest),
        has_elr,
        controller_racks,
    )
    if found.quorum and (no_voters := sorted(controller_racks.keys() - found.quorum.voters)):
        voters = ", ".join(map(str, sorted(found.quorum.voters)))
        raise QueryError(
            printable(f"--controller-rack {no_voters[0]}: controllers of {name} are {voters}")
        )
    until = known[0].until
    assert until is not None  # noqa: S101 - its state is known
    needs = ("configs", *(each for each in ("reassignments", "elr") if not by_log))
    needed = {each: answered.get(each) for each in needs if each != "elr" or has_elr is not False}
    return Record(found, then, until, fact.gap, tuple(_lacks(found, knows)), needed)


def _partition(row: PartitionRow, knows: Mapping[str, bool]) -> Partition:
    def of(question: str, brokers: list[int] | None) -> list[int] | None:
        return brokers or ([] if knows[question] else None)

    return Partition(
        row["topic"],
        row["partition"],
        row["leader"],
        row["replicas"],
        row["isr"],
        of("elr", row["elr"]),
        of("reassignments", row["adding_replicas"]),
        of("reassignments", row["removing_replicas"]),
        row["min_insync_replicas"],
        row["unclean_leader_election_enable"],
    )


def _quorum(fact: Facts, behind: Sequence[int] | None) -> Quorum | None:
    """The quorum. `behind`: None if nobody asked lately: who was behind long ago need not be."""
    if fact.voters is None:
        return None
    known = None if behind is None else frozenset(behind)
    return Quorum(fact.controller_id, frozenset(fact.voters), known)


def _lacks(of: Cluster, knows: Mapping[str, bool]) -> Iterable[str]:
    unknown = sum(of.min_isr(each) is None for each in of.partitions)
    if unknown:
        yield f"min ISR of {unknown:,} of {len(of.partitions):,} partitions (`enrich: configs`)"
    if of.has_elr is None:
        yield "whether eligible leader replicas are in force"
    elif not knows["elr"]:
        yield "eligible leader replicas (`enrich: elr`)"
    if not knows["reassignments"]:
        yield "reassignments (`enrich: reassignments`)"
    if of.quorum is None:
        yield "the quorum (`enrich: quorum`)"
    elif of.quorum.behind is None:
        yield "which controllers are caught up"


def loss_of(record: Record, what: str, named: str) -> Loss:
    """Return the loss of `named`: ids, or a rack. Raises QueryError for what the cluster did not
    have.
    """
    of, option = record.cluster, f"--lose {what} {named}"
    if what == RACK:
        racks = {each.rack for each in of.brokers.values() if each.rack is not None}
        racks |= set(of.controller_racks.values())
        if named not in racks:
            raise QueryError(_nobody(option, record, "nobody is in it", "racks are", racks))
        return loss_of_rack(of, named)
    try:
        ids = [int(each) for each in named.split(",")]
    except ValueError as error:
        raise QueryError(printable(f"{option}: ids are whole numbers, as in 3,4")) from error
    if what == CONTROLLER and of.quorum is None:
        raise QueryError(
            printable(f"{option}: the quorum of {of.name} is not known; `enrich: quorum` tells it")
        )
    known = of.quorum.voters if what == CONTROLLER and of.quorum else of.broker_ids
    if unknown := [each for each in ids if each not in known]:
        no_such = f"there was no {what} {unknown[0]}"
        raise QueryError(_nobody(option, record, no_such, f"{what}s are", known))
    return loss_of_nodes(of, ids, controllers=what == CONTROLLER)


def _nobody(option: str, record: Record, why: str, are: str, known: Iterable[object]) -> str:
    some = (
        ", ".join(map(str, sorted(known, key=lambda each: (len(str(each)), str(each))))) or "none"
    )
    return printable(
        f"{option}: {why} in {record.cluster.name} at {shown(record.at)}; {are} {some}"
    )
