"""Counts by pattern of transactional ids held against the coordinators' log and producers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from truth.transactions.aborts import CLIENT, causes
from truth.transactions.history import Counts
from truth.transactions.logged import EMPTY, ONGOING, Logged, Record, Transaction
from truth.transactions.written import Act

_NUMBERS = re.compile(r"[\d\-_.:]+$")
_MS = timedelta(milliseconds=1)


def pattern_of(transactional_id: str) -> str:
    """The id without the number at its end: ids here have no uuids."""
    return _NUMBERS.sub("", transactional_id)


@dataclass(frozen=True)
class _Range:
    """A count is so much: at least, at most."""

    least: int
    most: int


def compare_counts(
    acts: Mapping[str, Sequence[Act]], log: Logged, counts: Sequence[Counts]
) -> Iterator[str]:
    """Each pattern has its counts, and no other one has any."""
    found = {each.pattern: each for each in counts}
    for pattern in sorted({pattern_of(each.transactional_id) for each in log.records}):
        row = found.pop(pattern, None)
        if row is None:
            yield f"{pattern}: no counts"
            continue
        yield from (f"{pattern}: {fault}" for fault in _pattern(pattern, acts, log, row))
    yield from (f"{pattern}: counts, and the log has no such id" for pattern in found)


def _pattern(
    pattern: str, acts: Mapping[str, Sequence[Act]], log: Logged, row: Counts
) -> Iterator[str]:
    records = [each for each in log.records if pattern_of(each.transactional_id) == pattern]
    mine = [each for each in log.transactions if pattern_of(each.transactional_id) == pattern]
    done = [each for each in mine if each.completed_at is not None]
    aborted = [each for each in done if each.outcome == "aborted"]
    committed = len(done) - len(aborted)
    by_client = [CLIENT in causes(each, acts.get(each.transactional_id, ())) for each in aborted]
    begun = sum(each.records[0].state == ONGOING for each in mine)
    lasted = [_lasted(each) for each in done]
    completing = [each.completed_at - each.prepared_at for each in done if each.prepared_at]  # type: ignore[operator]
    ids = len({each.transactional_id for each in records})
    wanted = {
        "committed": _Range(committed, committed),
        "completed": _Range(len(done), len(done)),
        # Of those that a client aborts before they have a partition it depends on the cut.
        "begun": _Range(begun, len(mine)),
        "aborted_by_client": _Range(0, sum(by_client)),
        "aborted_by_coordinator": _Range(0, sum(not each for each in by_client)),
        "timed_out": _Range(
            sum(
                each.is_late and not is_client
                for each, is_client in zip(aborted, by_client, strict=True)
            ),
            sum(each.is_late for each in aborted),
        ),
        "epochs_raised": _same(_began_again(records)),
        "producer_ids_given": _same(_given(records)),
        "total_ms": _same(sum(lasted)),
        "longest_ms": _same(max(lasted, default=0)),
        "longest_completing_ms": _Range(0, max((each // _MS for each in completing), default=0)),
        "most_partitions": _same(max((len(each.places) for each in records), default=0)),
        "ids_min": _Range(1, ids),
        "ids_max": _Range(ids, len(records)),
    }
    for name, of in wanted.items():
        has = getattr(row, name) or 0
        if not of.least <= has <= of.most:
            right = str(of.least) if of.least == of.most else f"{of.least} to {of.most}"
            yield f"{name} is {right}, history has {has}"
    has = row.aborted_by_client + row.aborted_by_coordinator + row.aborted_by_unknown
    if has != len(aborted):
        yield f"{len(aborted)} were aborted, history has {has}"
    yield from _of_producers(pattern, acts, row)


def _of_producers(pattern: str, acts: Mapping[str, Sequence[Act]], row: Counts) -> Iterator[str]:
    """Counts against what producers wrote down alone."""
    commits = [
        act
        for of, each in acts.items()
        if pattern_of(of) == pattern
        for act in each
        if act.action == "commit"
    ]
    least = sum(act.is_done for act in commits)
    if not least <= row.committed <= len(commits):
        yield f"{least} to {len(commits)} commits of producers, history has {row.committed}"


def _same(number: int) -> _Range:
    return _Range(number, number)


def _lasted(each: Transaction) -> int:
    assert each.completed_at is not None  # noqa: S101 - the callers' are completed
    return (each.completed_at - each.started_at) // _MS


def _began_again(records: Sequence[Record]) -> int:
    return sum(each.state == EMPTY and each.producer_epoch > 0 for each in records)


def _given(records: Sequence[Record]) -> int:
    """How often an id got another producer id."""
    known: dict[str, int] = {}
    given = 0
    for each in records:
        given += known.get(each.transactional_id) != each.producer_id
        known[each.transactional_id] = each.producer_id
    return given
