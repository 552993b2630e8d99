"""History of polls alone against what happened. Polls bound times, and what came and went between
two of them is one rebalance; but where quiet moments were polled, no step between may be missing,
or be another than it was. Steps between which no poll told the group count as one: on a slow
machine polls come late.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from truth.groups.compare import (
    TOLERANCE,
    changed,
    compare_ends,
    compare_figures,
    compare_reasons,
    counts,
    end_reason,
    overtakes,
    reasons_of,
    rounds_of,
)
from truth.groups.happened import Happened
from truth.groups.history import History, Rebalance
from truth.groups.score import Score
from truth.groups.script import WITHOUT_REBALANCE
from truth.groups.storms import compare_storms

_LEAST_SHOWN: Final = 0.5
"""The part of all quiet moments that polls have to tell, or the run proves nothing."""
_MAY_PASS: Final = frozenset({"crash_loop"})
"""Actions that are undone so soon that polls need not see them."""


COMMITTED_WITHIN: Final = timedelta(milliseconds=500)
"""A record has the time at which it was written; the group is so once the record is committed."""


@dataclass(frozen=True)
class Shown:
    """An answer that told all groups: when they were asked for, and when all had been told."""

    sent_at: datetime
    told_by: datetime


@dataclass(frozen=True)
class _Step:
    """A step, or several between which no poll told the group."""

    happened: Happened
    most: int
    """Rebalances that there were, phases among them: polls may show each."""
    is_one: bool = True

    def then(self, other: "_Step") -> "_Step":
        """Both as one."""
        one, last = self.happened, other.happened
        whole = replace(
            last,
            step=one.step + last.step,
            began_at=one.began_at,
            before=one.before,
            calls=one.calls + last.calls,
            passed=one.passed | one.after.keys() - one.before.keys() | last.passed,
        )
        return _Step(whole, self.most + other.most, is_one=False)


def compare_polled(
    happened: Sequence[Happened], history: History, logged: History, polls: Sequence[Shown]
) -> Score:
    """One group's steps against what polls told of it.

    `logged`: what its coordinators' log told.
    """
    group = happened[0].group
    rows = [row for row in history.rebalances if row.group_id == group]
    events = [event for event in history.events if event.group_id == group]
    steps = _between_polls(list(_steps(happened)), polls)
    score = Score(len(steps), len(rows), sum(len(row.people) for row in rows), len(events))
    if len(steps) < len(happened) * _LEAST_SHOWN:
        score.faults.append(
            f"{group}: polls told {len(steps)} of {len(happened)} quiet moments: nothing is "
            "proven by this run"
        )
    wholes = [step.happened for step in steps]
    score.faults += [
        f"nothing was done then: {row}" for row in rows if _step_of(row, wholes) is None
    ]
    for step in steps:
        mine = [row for row in rows if _step_of(row, wholes) is step.happened]
        score.faults += [f"{step.happened}: {fault}" for fault in _step(step, mine, logged)]
    for row in rows:
        score.faults += [f"{row}: {fault}" for fault in compare_figures(row)]
        score.faults += [f"{row}: {fault}" for fault in _bounds(row, logged)]
    score.faults += compare_storms(happened, history)
    created = [event for event in events if event.event == "created"]
    if len(created) != 1:
        score.faults.append(f"{group}: made {len(created)} times")
    return score


def _steps(happened: Sequence[Happened]) -> Iterator[_Step]:
    generation = 0
    for one in happened:
        expected = rounds_of(one, generation)
        last = max([generation, *(each.generation for each in expected or ())])
        # A poll may show an epoch that the log has overtaken.
        most = counts(one, expected)[1] + (overtakes(one) or 0)
        yield _Step(one, most if expected is None else max(last - generation, most))
        generation = last


def _between_polls(steps: Sequence[_Step], polls: Sequence[Shown]) -> list[_Step]:
    """The steps, those as one between which no poll told the group.

    After the last one polls were waited for.
    """
    found = [steps[0]]
    for step in steps[1:]:
        quiet_since, began_at = found[-1].happened.settled_at, step.happened.began_at
        if any(quiet_since <= poll.sent_at and poll.told_by <= began_at for poll in polls):
            found.append(step)
        else:
            found[-1] = found[-1].then(step)
    return found


def _step_of(row: Rebalance, happened: Sequence[Happened]) -> Happened | None:
    """The step in which it began: the first within its bounds that makes a group rebalance."""
    found = [one for one in happened if _meet(row.began_after, row.began_before, one)]
    making = [
        one for one in found if not WITHOUT_REBALANCE.issuperset(deed.action for deed in one.step)
    ]
    return next(iter(making or found), None)


def _meet(after: datetime | None, before: datetime, one: Happened) -> bool:
    """Whether some time within the bounds is of a step."""
    return (
        after is None or after <= one.settled_at + TOLERANCE
    ) and before >= one.began_at - TOLERANCE


def _step(step: _Step, rows: Sequence[Rebalance], logged: History) -> Iterator[str]:
    one = step.happened
    is_seen = _has(one, "before") != _has(one, "after")
    if not is_seen <= len(rows) <= step.most:
        yield (
            f"{len(rows)} rebalances and not {int(is_seen)} to {step.most}: "
            f"{'; '.join(map(str, rows)) or 'none'}"
        )
    if not rows:
        return
    yield from compare_ends(one, rows)
    for change, least, most in (
        ("joined", one.after.keys() - one.before.keys() - set(one.restarted.values()), one.joined),
        ("left", one.before.keys() - one.after.keys() - one.restarted.keys(), one.left),
    ):
        told = changed(change, rows)
        if not least <= set(told) <= most or len(set(told)) < len(told):
            yield f"{change} are {sorted(least)} to {sorted(most)}, history has {sorted(told)}"
    yield from _reasons(step, rows)
    yield from _ends(one, rows)
    if one.kind.group_type != "classic":
        yield from _epoch(one, rows[-1], logged)


def _bounds(row: Rebalance, logged: History) -> Iterator[str]:
    """The log has a begin, where it tells begins, and an end within the bounds that answers gave:
    nothing had begun or ended that an answer showed otherwise, or only after it came.
    """
    of_group = [each for each in logged.rebalances if each.group_id == row.group_id]
    begins = [each.began_before for each in of_group if each.group_type != "classic"]
    ends = [each.ended_before for each in of_group if each.ended_before is not None]
    # Of two phases the first ends with the record by which the log knows that they began.
    ends += [each.stored_before or each.began_before for each in of_group if (each.phases or 1) > 1]
    # Of a share group whose partitions had no state the log tells two epochs as one: one ends and
    # one begins within it.
    spans = [
        (each.began_before, each.ended_before or each.began_before)
        for each in of_group
        if each.group_type == "share" and (each.generation or 0) - (each.prev_generation or 0) > 1
    ]
    if begins and not _has_one(begins, spans, row.began_after, row.began_before):
        yield f"the log has no begin between {row.began_after} and {row.began_before}"
    if row.ended_before is not None and not _has_one(
        ends, spans, row.ended_after, row.ended_before
    ):
        yield f"the log has no end between {row.ended_after} and {row.ended_before}"


def _has_one(
    times: Sequence[datetime],
    spans: Sequence[tuple[datetime, datetime]],
    after: datetime | None,
    before: datetime,
) -> bool:
    return any(_lies_within(at, after, before) for at in times) or any(
        begin <= before and (after is None or end > after - COMMITTED_WITHIN)
        for begin, end in spans
    )


def _lies_within(at: datetime, after: datetime | None, before: datetime) -> bool:
    return (after is None or at > after - COMMITTED_WITHIN) and at <= before


def _has(one: Happened, when: str) -> list[object]:
    """Who has what; of a static member that came back under another id that of the instance."""
    holders = one.before if when == "before" else one.after
    who = [
        (holder.instance_id or holder.member_id, sorted(holder.partitions))
        for holder in holders.values()
    ]
    return sorted(who, key=repr)


def _reasons(step: _Step, rows: Sequence[Rebalance]) -> Iterator[str]:
    one = step.happened
    _, may = reasons_of(one)
    # Of several steps one may undo another.
    kept = [deed for deed in one.step if step.is_one and deed.action not in _MAY_PASS]
    must, _ = reasons_of(replace(one, step=tuple(kept)))
    if one.kind.group_type == "classic" or overtakes(one):
        # A generation that gives up and one that takes may each be seen.
        may = may | {"same_members"}
    if overtakes(one):
        may = may | {"partitions_changed"}
    yield from compare_reasons(must, may, rows)


def _ends(one: Happened, rows: Sequence[Rebalance]) -> Iterator[str]:
    for row in rows:
        wanted = end_reason(one, is_last=row is rows[-1])
        if row.ended_before is None:
            yield f"goes on still: {row}"
        elif row.end_reason != wanted:
            yield f"ended as {row.end_reason} and not {wanted}: {row}"
        elif (
            not _meet(row.ended_after, row.ended_before, one) or row.ended_before < row.began_before
        ):
            yield f"ended out of time: {row}, the step at {one.settled_at:%H:%M:%S.%f}"


def _epoch(one: Happened, row: Rebalance, logged: History) -> Iterator[str]:
    """Epochs are counted, so that polls know which one the group has reached."""
    epochs = [
        each.generation
        for each in logged.rebalances
        if each.group_id == one.group and each.began_before <= one.settled_at + TOLERANCE
    ]
    if epochs and row.generation != epochs[-1]:
        yield f"it reached epoch {epochs[-1]}: {row}"
