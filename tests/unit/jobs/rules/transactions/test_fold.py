"""Rounds of log partitions: what is due in which of them, and counts that a batch cannot tell."""

import itertools
from datetime import timedelta

import pytest

from jobs.rules.transactions.fold import up_to
from tests.support.incident import NOON
from tests.support.transaction_log import TIMEOUT_MS, Coordinator, Row, counts_of, rows_of
from tests.support.transaction_rounds import Rounds, ms


def batches(made: Coordinator, *cuts: int) -> list[list[Row]]:
    bounds = [0, *cuts, made.offset]
    return [
        [row | {"read_at": ms(made.now)} for row in rows_of(made.log, since, until)]
        for since, until in itertools.pairwise(bounds)
    ]


def timed_out(found: Rounds) -> int:
    return sum(row["timed_out"] for row in found.counts.values())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_one_round", [True, False])
def test_a_time_out_counts_that_is_decided_in_one_batch_and_completed_in_the_next(
    *, version: int, is_one_round: bool
) -> None:
    made, found = Coordinator(version), Rounds()
    for of in ("app-1", "app-2"):
        made.init(of)
        made.add(of)
    made.time_out("app-1")
    made.end("app-2", is_commit=True)
    decided = made.offset
    made.complete("app-1")
    made.complete("app-2")
    both = batches(made, decided)
    assert [counts_of(rows, "timed_out") for rows in both] == [0, 0], "no batch alone can tell"
    for rows in [[*both[0], *both[1]]] if is_one_round else both:
        found.take(rows)
    assert timed_out(found) == 1
    (row,) = found.transactions[:1]
    assert (row["transactional_id"], row["reason"]) == ("app-1", "timed_out")


def test_an_abort_that_a_client_decided_late_is_no_time_out_though_its_batch_cannot_tell() -> None:
    made, found = Coordinator(1), Rounds()
    made.init("app-1")
    made.add("app-1")
    begun = made.offset
    made.now += TIMEOUT_MS + 1
    made.end("app-1", is_commit=False)
    made.complete("app-1")
    first, second = batches(made, begun)
    assert counts_of(second, "timed_out") == 1
    for rows in (first, second):
        found.take(rows)
    assert timed_out(found) == 0


def test_a_partition_is_known_up_to_where_it_or_all_of_the_log_was_read() -> None:
    late = NOON + timedelta(minutes=1)
    until = {("prod", None): NOON, ("prod", 3): late, ("other", 4): late}
    assert [up_to(until, "prod", each) for each in (3, 4)] == [late, NOON]
    assert [up_to(until, "other", each) for each in (3, 4)] == [None, late]
