"""One state of a cluster as a lake has it at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jobs.rules.gold.news import Levels
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import QueryError, moment, shown
from kafka_metadata_history.answers.whatif.losses import loss_of_nodes, loss_of_rack
from kafka_metadata_history.answers.whatif.state import Broker, Cluster, Loss, Partition, Quorum
from metadata_source.kinds import ISR, LEADER, REPLICAS
from metadata_source.text import did_you_mean, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kafka_metadata_history.answers.questions import Ask

Row = dict[str, Any]

LOG: Final = "log"
LOST = BROKER, CONTROLLER, RACK = ("broker", "controller", "rack")
"""What may be lost."""
_AT: Final = (
    "valid_from <= CAST(:at AS TIMESTAMP) AND (valid_to > CAST(:at AS TIMESTAMP) OR valid_to IS "
    "NULL)"
)
_MEANS: Final = (LEADER, REPLICAS, ISR)
"""The facts without which nothing can be said."""


@dataclass(frozen=True)
class Record:
    """`at`: of when the state is. `until`: up to when the cluster is recorded. `gap`: from when to
    when nobody looked, `at` between. `lacks`: sources that tell nothing, a clause each.
    """

    cluster: Cluster
    at: datetime
    until: datetime
    gap: tuple[datetime, datetime] | None = None
    lacks: tuple[str, ...] = ()


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
    reach = _chosen(ask(_sql("clusters", is_current=True)).to_pylist(), cluster)
    name, since, until = reach["cluster"], reach["since"], reach["until"]
    then = until if at is None else moment(at, now)
    if until is None or not (since is None or since <= then) or then > until:
        known = f"{shown(since) if since else '?'} to {shown(until) if until else '?'}"
        raise QueryError(printable(f"--at {shown(then)}: history of {name} is {known}"))

    def rows(of: str) -> list[Row]:
        values = {"cluster": name, "at": then.isoformat()}
        found: list[Row] = ask(with_values(_sql(of, is_current=at is None), values)).to_pylist()
        return found

    facts = rows("facts")
    if not facts:
        raise QueryError(printable(f"--at {shown(then)}: history of {name} has no state then"))
    fact = facts[0]
    if odd := [each for each in fact["not_meaningful"] or () if each.partition(":")[0] in _MEANS]:
        raise QueryError(printable(f"{name}: nobody knows what a loss does there: {odd[0]}"))
    by_log = fact["source"] == LOG
    answered = {row["kind"] for row in rows("answered")}
    has_elr = None if fact["elr_version_level"] is None else fact["elr_version_level"] > 0
    knows = {each: by_log or each in answered for each in ("reassignments", "elr")}
    knows["elr"] = knows["elr"] or has_elr is False
    partitions = [_partition(row, knows) for row in rows("partitions")]
    state = Cluster(
        name,
        _brokers(rows("brokers"), by_log=by_log),
        partitions,
        _quorum(fact, is_asked="quorum" in answered),
        Levels(fact["metadata_version_level"], highest=fact["metadata_version_highest"]),
        has_elr,
        controller_racks,
    )
    if state.quorum and (odd := sorted(controller_racks.keys() - state.quorum.voters)):
        voters = ", ".join(map(str, sorted(state.quorum.voters)))
        raise QueryError(
            printable(f"--controller-rack {odd[0]}: controllers of {name} are {voters}")
        )
    gap = None if by_log or fact["gap_start"] is None else (fact["gap_start"], fact["gap_end"])
    return Record(state, then, until, gap, tuple(_lacks(state, knows)))


def _chosen(clusters: list[Row], cluster: str | None) -> Row:
    names = [row["cluster"] for row in clusters]
    if not names:
        raise QueryError("history is empty: no cluster had a good poll that became history")
    if cluster is None and len(names) > 1:
        raise QueryError(printable(f"history has {', '.join(names)}: name one with --cluster"))
    for row in clusters:
        if cluster in {None, row["cluster"]}:
            return row
    hint = did_you_mean(str(cluster), names, f"history has {', '.join(names)}")
    raise QueryError(printable(f"--cluster {cluster}: history knows no such cluster; {hint}"))


def _sql(name: str, *, is_current: bool) -> str:
    text = (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    return text.replace("{then}", "is_current" if is_current else _AT)


def _partition(row: Row, knows: Mapping[str, bool]) -> Partition:
    def of(question: str, name: str) -> Any:
        return row[name] or ([] if knows[question] else None)

    return Partition(
        row["topic"],
        row["partition"],
        row["leader"],
        row["replicas"],
        row["isr"],
        of("elr", "elr"),
        of("reassignments", "adding_replicas"),
        of("reassignments", "removing_replicas"),
        row["min_insync_replicas"],
        row["unclean_leader_election_enable"],
    )


def _quorum(fact: Row, *, is_asked: bool) -> Quorum | None:
    """The quorum. Who was behind long ago need not be any more."""
    if fact["voters"] is None:
        return None
    behind = fact["voters_behind"] if is_asked else None
    return Quorum(
        fact["controller_id"],
        frozenset(fact["voters"]),
        None if behind is None else frozenset(behind),
    )


def _brokers(rows: Iterable[Row], *, by_log: bool) -> dict[int, Broker]:
    """The brokers. `rows`: the last of a broker counts, which is that of the controllers' log, if
    the log tells: else it may be old.
    """
    found: dict[int, Broker] = {}
    for row in rows:
        if row["source"] == LOG and not by_log:
            continue
        before = found.get(row["broker_id"])
        rack = before.rack if row["rack"] is None and before else row["rack"]
        found[row["broker_id"]] = Broker(rack, row["is_live"], row["is_stopping"])
    return found


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
