"""Coordinators of groups, by the leaders of __consumer_offsets that polls show."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.rules.coordinators import coordinators
from metadata_source.kafka_constants import OFFSETS_TOPIC
from schemas.silver import COORDINATORS

Row = dict[str, Any]
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
LISTENER_NOT_FOUND = 72


def at(poll: int) -> datetime:
    return BEGIN + timedelta(seconds=10 * poll)


def state(first: int, leader: int, epoch: int, before: Row | None = None, **more: Any) -> Row:
    """A state of partition 3 that began at a poll, 10 s after the one before."""
    row: Row = {
        "cluster_id": "id-prod",
        "cluster": "prod",
        "topic": OFFSETS_TOPIC,
        "partition": 3,
        "error_code": 0,
        "leader": leader,
        "leader_epoch": epoch,
        "first_poll": f"s/{first:012d}",
        "valid_from": at(first),
        "prev_sent_at": at(first - 1) if before else None,
        "interval_ms": 10_000,
        "end_reason": None,
    }
    names = ("leader", "leader_epoch", "error_code")
    return row | {f"prev_{name}": before[name] if before else None for name in names} | more


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [
        tuple(row[name] for name in ("poll", "prev_leader", "leader", "is_move")) for row in rows
    ]


def test_a_row_for_each_change_of_the_leader_and_none_for_other_changes() -> None:
    first = state(0, 1, 5)
    isr_shrank = state(2, 1, 5, first)
    moved = state(4, 2, 6, isr_shrank)
    lost = state(6, -1, 6, moved, error_code=5)
    rows = coordinators(
        [first, isr_shrank, moved, lost, state(7, 2, 7, lost) | {"topic": "orders"}], ()
    )
    assert shown(rows) == [
        ("s/000000000000", None, 1, False),
        ("s/000000000004", 1, 2, True),
        ("s/000000000006", 2, -1, True),
    ]
    assert {
        name: rows[1][name]
        for name in ("began_after", "began_before", "followed_until", "log_partition")
    } == {"began_after": at(3), "began_before": at(4), "followed_until": at(6), "log_partition": 3}
    assert all(set(row) == set(COORDINATORS.column_names) for row in rows)


def test_a_leader_that_an_answer_hides_has_not_moved() -> None:
    first = state(0, 1, 5)
    hidden = state(1, -1, 5, first, error_code=LISTENER_NOT_FOUND)
    back = state(2, 1, 5, hidden)
    assert shown(coordinators([first, hidden, back], ()))[1:] == [
        ("s/000000000001", 1, -1, False),
        ("s/000000000002", -1, 1, False),
    ]


def test_a_leader_that_an_answer_hides_may_be_another_than_none() -> None:
    lost = state(1, -1, 6, state(0, 1, 5), error_code=5)
    hidden = state(2, -1, 7, lost, error_code=LISTENER_NOT_FOUND)
    assert shown(coordinators([lost, hidden], ())) == [
        ("s/000000000001", 1, -1, True),
        ("s/000000000002", -1, -1, False),
    ]


def test_what_was_told_when_it_began_is_not_told_when_it_ends() -> None:
    over = {"superseded_poll": "s/000000000003", "last_seen_sent_at": at(2), "valid_to": at(3)}
    known = state(0, 1, 5, **over)
    assert coordinators([known], {(3, "s/000000000000")}) == []
    (gone,) = coordinators([known | {"end_reason": "gone"}], {(3, "s/000000000000")})
    assert (gone["poll"], gone["prev_leader"], gone["leader"], gone["is_move"]) == (
        "s/000000000003",
        1,
        None,
        False,
    )
    assert (gone["began_after"], gone["began_before"]) == (at(2), at(3))


@pytest.mark.parametrize(
    ("after", "is_move"),
    [
        (("leader", 2), True),
        (("leader", -1), True),
        (("leader", None), False),
        (("leader_epoch", 9), None),
    ],
    ids=["another leader", "none", "leaders mean nothing any more", "the same, in a later epoch"],
)
def test_a_move_is_of_a_leader_that_was_known_to_one_that_is(
    after: tuple[str, int | None], is_move: bool | None
) -> None:
    """`is_move`: None where there is no row."""
    row = state(1, 1, 6, state(0, 1, 5)) | dict([after])
    assert [each["is_move"] for each in coordinators([row], ())] == (
        [] if is_move is None else [is_move]
    )


def test_an_end_and_a_begin_in_one_poll_are_the_begin() -> None:
    """The topic was made again."""
    over = {"superseded_poll": "s/000000000003", "last_seen_sent_at": at(2), "valid_to": at(3)}
    gone = state(0, 1, 5, **over, end_reason="recreated")
    again = state(3, 2, 0)
    assert shown(coordinators([gone, again], {(3, "s/000000000000")})) == [
        ("s/000000000003", None, 2, False)
    ]


def test_rows_of_each_partition_and_cluster_are_apart() -> None:
    rows = [state(0, 1, 5), state(0, 1, 5) | {"partition": 4}]
    rows += [row | {"cluster_id": "id-other"} for row in rows]
    found = coordinators(rows, {(4, "s/000000000000")})
    assert [(row["cluster_id"], row["log_partition"]) for row in found] == [
        ("id-prod", 3),
        ("id-other", 3),
    ]
