"""The active controller of a cluster with ZooKeeper, as polls name it."""

from dataclasses import replace

from jobs.rules.silver.cluster import CONTROLLER, records_to_read
from jobs.rules.silver.enrichments import headers_of
from schemas import silver
from tests.support.bronze_rows import bronze_rows, quorum
from tests.support.histories import Answer
from tests.support.silver_cases import failed, led, poll, rows, taken

STREAMED = {"orders": [led(0, 1, 2, 0)]}


def named(number: int, controller: int | None) -> Answer:
    """An answer of a broker, the same each time but for the controller."""
    return replace(poll(number, None, STREAMED), controller=controller)


def test_it_is_the_one_that_brokers_name() -> None:
    # Under KRaft none counts.
    polls = named(0, 1), named(1, 1), named(2, 3), named(3, None), named(4, -1), named(5, 3)
    found = [
        (row["prev_controller_id"], row["controller_id"], row["prev_sent_at"], row["valid_from"])
        for row in rows(taken(*polls), silver.QUORUM)
    ]
    sent = [each.sent_at for each in polls]
    answered = [each.received_at for each in polls]
    assert found == [
        (None, 1, None, answered[0]),
        (1, 3, sent[1], answered[2]),
        (3, -1, sent[3], answered[4]),
        (-1, 3, sent[4], answered[5]),
    ]


def test_after_a_migration_the_quorum_follows() -> None:
    last = replace(poll(1, None, STREAMED), enriched={"quorum": "ok"})
    last = replace(last, enrichments={"quorum": {(): quorum(3001, 7, 3001, 3002)}})
    before, after = rows(taken(named(0, 1), last), silver.QUORUM)
    assert (before["controller_id"], before["quorum_epoch"], before["voters"]) == (1, None, None)
    assert (after["prev_controller_id"], after["controller_id"]) == (1, 3001)
    assert (after["quorum_epoch"], after["voters"]) == (7, [3001, 3002])


def test_another_one_is_news() -> None:
    polls = [named(0, 1), named(1, 1), named(2, 3), named(3, 3), named(4, 3)]
    polls[3] = failed(polls[3])
    headers = headers_of(bronze_rows("c", polls))[1:]
    found = records_to_read(taken(polls[0]).state, headers)
    assert [each for each, read in found.items() if CONTROLLER in read] == [polls[2].poll_id]
