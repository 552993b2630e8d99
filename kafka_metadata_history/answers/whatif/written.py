"""The effects of a loss, as text for people and as JSON for programs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_metadata_history.answers.asof.read import nobody_looked
from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.answers.text import as_json as json_lines
from kafka_metadata_history.answers.text import few
from kafka_metadata_history.answers.thresholds import span
from kafka_metadata_history.answers.whatif.losses import controllers_of_no_rack
from kafka_metadata_history.answers.whatif.rules import COORDINATING, ELR, STAYS, UNCLEAN
from metadata_source.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.whatif.losses import QuorumEffect
    from kafka_metadata_history.answers.whatif.read import Record
    from kafka_metadata_history.answers.whatif.rules import Effect, WhatIf

_INDENT: Final = 17


def as_text(found: WhatIf, record: Record, now: datetime) -> str:
    """Return at most 25 lines."""
    lost = [
        f"{what}{'s' if len(ids) > 1 else ''} {few(sorted(ids), 12)}"
        for what, ids in (("broker", found.loss.brokers), ("controller", found.loss.controllers))
        if ids
    ]
    racks = "".join(f"rack {each}: " for each in sorted(found.loss.racks))
    head = [
        f"{record.cluster.name} at {shown(record.at)} without {racks}{' and '.join(lost)}",
        f"The record reaches to {shown(record.until)}, {span(now - record.until)} ago.",
    ]
    if record.gap is not None:
        head.append(nobody_looked(record.gap))
    body = [
        line
        for section in (_replicas, _partitions, _leaders, _others, _quorum, _stop_and_kill)
        for line in section(found)
    ]
    body += [_line("not known", "; ".join(record.lacks))] if record.lacks else []
    return "".join(f"{printable(line)}\n" for line in (*head, "", *body))


def _line(name: str, said: str) -> str:
    return f"{name:{_INDENT}}{said}"


def _names(effects: Sequence[Effect]) -> str:
    return few([each.of.name for each in effects])


def _kinds(name: str, kinds: Sequence[tuple[Sequence[Effect], str]]) -> Iterator[str]:
    """A line for each kind that has partitions, the first with the name."""
    said = [f"{len(of):,} {what}: {_names(of)}" for of, what in kinds if of]
    for number, each in enumerate(said or ["none"]):
        yield _line("" if number else name, each)


def _replicas(found: WhatIf) -> Iterator[str]:
    of, out = len(found.effects), sum(not each.is_in_isr for each in found.effects)
    idle = f", not in the ISR of {out:,}, where nothing changes" if out else ""
    yield _line(
        "replicas", f"of {of:,} of {counted(len(found.cluster.partitions), 'partition')}{idle}"
    )


def _partitions(found: WhatIf) -> Iterator[str]:
    effects = found.effects
    offline = [each for each in effects if each.after.offline]
    new = [each for each in offline if not each.before.offline]
    yield from _kinds(
        "offline",
        [
            ([each for each in new if not each.is_rf1], "new"),
            ([each for each in new if each.is_rf1], "at any loss, as RF is 1"),
            ([each for each in offline if each.before.offline], "already so"),
            ([each for each in effects if each.after.offline is None], "not known"),
        ],
    )
    under = [each for each in effects if each.after.under_min_isr]
    new = [each for each in under if not each.before.under_min_isr]
    unknown = [
        each
        for each in effects
        if each.is_in_isr and each.after.under_min_isr is None and each.after.offline is not None
    ]
    yield from _kinds(
        "under min ISR",
        [
            ([each for each in new if not each.is_at_rf], "new"),
            ([each for each in new if each.is_at_rf], "at any loss, as RF <= min ISR"),
            ([each for each in under if each.before.under_min_isr], "already so"),
            (unknown, "not known"),
        ],
    )
    if unclean := [each for each in effects if each.election.source == UNCLEAN]:
        yield from _kinds("loses data", [(unclean, "by an unclean election")])


def _leaders(found: WhatIf) -> Iterator[str]:
    moving = [each for each in found.effects if each.moves]
    to = Counter(each.election.leader for each in moving).most_common()
    said = few([f"{count:,} to broker {leader}" for leader, count in to], 6)
    yield _line("leaders", f"{len(moving):,} move" + (f": {said}" if said else ""))
    if elr := [each for each in moving if each.election.source == ELR]:
        yield from _kinds("", [(elr, "of them from the ELR")])
    for topic, whose in COORDINATING.items():
        of_topic = [each for each in found.effects if each.of.topic == topic]
        move = sum(bool(each.moves) for each in of_topic)
        none = sum(each.after.offline is True for each in of_topic)
        if move or none:
            lacking = f", {none:,} have none" if none else ""
            yield _line("coordinators", f"of {whose}: {move:,} of {topic} move{lacking}")


def _others(found: WhatIf) -> Iterator[str]:
    def is_live(broker: int) -> bool:
        of = found.cluster.brokers.get(broker)
        return of is not None and of.is_live

    if stalled := [each for each in found.effects if each.stalls]:
        yield from _kinds("reassignments", [(stalled, "cannot end")])
    out = Counter(broker for each in found.effects for broker in each.out)
    said = [
        f"{count:,} on broker {broker} ({'catching up' if is_live(broker) else 'down'})"
        for broker, count in out.most_common()
    ]
    if said:
        yield _line("not in sync", few(said, 4))
    if gone := sorted(each for each in found.loss.brokers if not is_live(each)):
        yield _line("down already", f"broker {few(gone, 12)}")


def _quorum(found: WhatIf) -> Iterator[str]:
    if found.quorum is not None and found.loss.controllers:
        yield _line("quorum", _said(found.quorum))
    if found.loss.racks and (unknown := controllers_of_no_rack(found.cluster)):
        todo = "`controllerRacks` of the configuration"
        yield _line("", f"racks of controllers {few(unknown, 12)} are not known: {todo}")


def _said(of: QuorumEffect) -> str:
    needed, left = of.of.majority, f"{len(of.left)} of {len(of.of.voters)} voters are left"
    if of.is_lost:
        return f"lost{' already' if of.was_lost else ''}: {left}, {needed} are needed"
    kept = "kept" if of.is_lost is False else f"kept if {needed} are caught up"
    return f"{kept}: {left}{'; another one becomes active' if of.elects else ''}"


def _stop_and_kill(found: WhatIf) -> Iterator[str]:
    if led := [each for each in found.effects if each.of.leader in found.loss.brokers]:
        moving = sum(bool(each.moves) for each in led)
        yield _line("stop", f"{moving:,} of {counted(len(led), 'leadership')} move before it goes")
        until = "until broker.session.timeout.ms has passed"
        yield _line("kill", f"{counted(len(led), 'partition')} without a leader {until}")
    if loses := [each for each in found.effects if each.loses_after_kill]:
        yield from _kinds("", [(loses, "may lose data when it comes back (ELR)")])


def as_json(found: WhatIf, record: Record, _: datetime) -> str:
    """Return one object on one line: the loss, and each partition that is not as before."""
    quorum = found.quorum if found.loss.controllers else None
    fields = {
        "cluster": record.cluster.name,
        "at": record.at,
        "until": record.until,
        "gap": record.gap and [*record.gap],
        "brokers": sorted(found.loss.brokers),
        "controllers": sorted(found.loss.controllers),
        "quorum": quorum
        and {
            "voters": sorted(quorum.of.voters),
            "left": sorted(quorum.left),
            "majority": quorum.of.majority,
            "is_lost": quorum.is_lost,
            "was_lost": quorum.was_lost,
            "elects": quorum.elects,
        },
        "partitions": [*_changed(found.effects)],
        "not_known": [*record.lacks],
    }
    return json_lines(pa.Table.from_pylist([fields]))


def _changed(effects: Iterable[Effect]) -> Iterator[dict[str, object]]:
    for each in effects:
        if each.before == each.after and each.election.source == STAYS and not each.stalls:
            continue
        yield {
            "topic": each.of.topic,
            "partition": each.of.partition,
            "leader": each.of.leader,
            "replicas": each.of.replicas,
            "isr": each.of.isr,
            "min_isr": each.min_isr,
            "new_leader": each.election.leader,
            "elected_from": each.election.source,
            "offline": each.after.offline,
            "was_offline": each.before.offline,
            "under_min_isr": each.after.under_min_isr,
            "was_under_min_isr": each.before.under_min_isr,
            "is_rf1": each.is_rf1,
            "is_rf_at_min_isr": each.is_at_rf,
            "loses_data": each.election.source == UNCLEAN,
            "loses_data_after_kill": each.loses_after_kill,
            "reassignment_stalls": each.stalls,
        }


FORMS: Final = {"text": as_text, "json": as_json}
