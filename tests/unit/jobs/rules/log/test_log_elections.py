"""Changes of leaders as the controllers' log tells them: why, and whether clean; and why brokers
left ISRs.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from jobs.configuration.config import Thresholds
from jobs.rules.gold import isr_shrink, leaders
from jobs.rules.gold.news import BROKERS, GoldInput
from jobs.rules.log.evidence import with_evidence
from jobs.rules.log.registrations import listed
from jobs.rules.log.silver import image_of
from tests.support.cluster_logs import (
    START,
    Entry,
    Row,
    record,
    rows_of,
    rows_of_snapshot,
    snapshot_of,
    span,
)
from tests.support.log_cases import TOPIC_ID, Told, broker, change, directory
from tests.support.log_rounds import LogLake

PARTITIONS = "silver.partition_snapshots"
DIRECTORIES = [directory(number) for number in (1, 2, 3)]
Batch = Sequence[Told]


def beginning(replicas: Sequence[int], level: int = 25) -> list[Batch]:
    partition = record(
        3, partition_id=0, topic_id=TOPIC_ID, replicas=replicas, isr=replicas, removing_replicas=[],
        adding_replicas=[], leader=replicas[0], leader_epoch=0, partition_epoch=0,
        directories=[directory(each) for each in replicas],
    )  # fmt: skip
    return [
        [record(12, name="metadata.version", feature_level=level)],
        [broker(number) for number in (1, 2, 3)],
        [record(2, name="t", topic_id=TOPIC_ID), partition],
    ]


def rows_of_batches(*batches: Batch) -> list[Row]:
    """A batch each second."""
    entries: list[Entry] = []
    for second, batch in enumerate(batches):
        entries += [
            Entry(len(entries) + n, 1, START + timedelta(seconds=second), *each)
            for n, each in enumerate(batch)
        ]
    return rows_of(entries)


def changes_in(lake: LogLake) -> list[Row]:
    assert lake.state is not None
    assert lake.state.last is not None
    rows = lake.rows | {PARTITIONS: with_evidence(lake.rows)}
    news = GoldInput.of(rows, None, lake.state.last.id, lake.state.last.at)
    return list(leaders.fold(None, {}, news).rows["gold.leader_changes"])


def changes(*batches: Batch) -> list[Row]:
    lake = LogLake()
    lake.take(rows_of_batches(*batches))
    return changes_in(lake)


def told(rows: Sequence[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("reason", "unclean", *names)) for row in rows]


FENCE, UNREGISTER = record(7, id=1, epoch=1), record(1, broker_id=1, broker_epoch=1)
SHUTDOWN = record(17, broker_id=1, broker_epoch=1, in_controlled_shutdown=1)
NO_DIRECTORY = record(17, broker_id=1, broker_epoch=1, log_dirs=[b"\5" * 16])


@pytest.mark.parametrize(
    "why", [FENCE, UNREGISTER, SHUTDOWN, NO_DIRECTORY, broker(1, 2, fenced=True)]
)
def test_a_leader_that_could_not_lead_any_more_failed(why: Told) -> None:
    # Nothing of the partition says so: the first replica leads, and the one before is in the ISR
    # again at once.
    found = changes(
        *beginning([3, 1, 2]),
        [change(leader=1)],
        [change(leader=3, isr=[2, 3]), why],
        [change(isr=[1, 2, 3])],
    )
    assert told(found)[1:] == [("failover", "no")]


def test_a_leader_that_could_lead_gave_way_to_the_preferred_one() -> None:
    found = changes(*beginning([3, 1, 2]), [change(leader=1)], [change(leader=3)])
    assert told(found, "changes_min", "changes_max", "changes_hidden", "epoch_semantics") == [
        ("unknown", "no", 1, 1, 0, "exact"),
        ("preferred", "no", 1, 1, 0, "exact"),
    ]
    assert all(row["began_after"] == row["began_before"] for row in found)


def test_a_broker_that_came_back_has_not_failed() -> None:
    back = [record(8, id=1, epoch=1)]
    found = changes(*beginning([3, 1, 2]), [FENCE], back, [change(leader=1)], [change(leader=3)])
    assert told(found)[1:] == [("preferred", "no")]


def test_two_unclean_elections_before_a_recovery_are_both_proven() -> None:
    found = changes(
        *beginning([1, 2, 3]),
        [change(isr=[1])],
        [change(leader=-1), FENCE],
        [change(leader=2, isr=[2], leader_recovery_state=1)],
        # The recovery state is set already: the record says nothing of it.
        [change(leader=3, isr=[3]), record(7, id=2, epoch=1)],
        [change(leader_recovery_state=0)],
        [change(isr=[2, 3])],
        [change(leader=2)],
    )
    assert told(found, "leaderless_ms_min", "leaderless_ms_max") == [
        ("offline", "no", 0, 0),
        ("recovery", "proven", 1_000, 1_000),
        ("failover", "proven", 0, 0),
        ("unknown", "no", 0, 0),
    ]


def test_a_recovery_proves_an_election_to_be_unclean_whoever_leads() -> None:
    found = changes(*beginning([1, 2]), [change(leader=2, leader_recovery_state=1)])
    assert told(found) == [("unknown", "proven")]


def test_a_single_replica_that_is_reassigned_is_no_unclean_election() -> None:
    found = changes(
        *beginning([1]),
        [
            change(
                replicas=[1, 2],
                adding_replicas=[2],
                removing_replicas=[1],
                directories=DIRECTORIES[:2],
            )
        ],
        # The new replica joined the ISR and completed the reassignment in one request.
        [
            change(
                replicas=[2],
                isr=[2],
                leader=2,
                adding_replicas=[],
                removing_replicas=[],
                directories=DIRECTORIES[1:2],
            )
        ],
    )
    assert told(found) == [("reassignment", "no")]


def test_a_reassignment_that_is_cancelled_may_end_in_an_unclean_election() -> None:
    reassigned = change(replicas=[1, 2], adding_replicas=[2], directories=DIRECTORIES[:2])
    cancelled = change(
        replicas=[1],
        isr=[1],
        leader=1,
        adding_replicas=[],
        directories=DIRECTORIES[:1],
        leader_recovery_state=1,
    )
    older = {**cancelled[2], "leader_recovery_state": -1}
    for last in (cancelled, (*cancelled[:2], older)):
        found = changes(*beginning([1]), [reassigned], [change(isr=[2], leader=2)], [last])
        assert told(found)[-1] == ("reassignment", "proven")


def test_a_reassignment_that_lasts_makes_no_election_clean() -> None:
    adding = change(
        replicas=[1, 2], adding_replicas=[2], removing_replicas=[1], directories=DIRECTORIES[:2]
    )
    done = change(
        replicas=[2], adding_replicas=[], removing_replicas=[], directories=DIRECTORIES[1:2]
    )
    found = changes(*beginning([1]), [adding], [change(isr=[2], leader=2), FENCE], [done])
    assert told(found) == [("failover", "proven")]


def test_a_reassignment_that_another_one_replaces_makes_no_election_clean() -> None:
    adding = change(
        replicas=[1, 2], adding_replicas=[2], removing_replicas=[1], directories=DIRECTORIES[:2]
    )
    # Broker 2 leads, which was not in the ISR, while a reassignment lasts still: to broker 3.
    other = change(
        replicas=[2, 3],
        isr=[2],
        leader=2,
        adding_replicas=[3],
        removing_replicas=[],
        directories=DIRECTORIES[1:],
    )
    assert told(changes(*beginning([1]), [adding], [other])) == [("reassignment", "proven")]


def test_an_election_while_a_recovery_lasts_is_clean() -> None:
    found = changes(
        *beginning([1, 2]),
        [change(isr=[1])],
        [change(isr=[2], leader=2, leader_recovery_state=1), FENCE],
        [record(8, id=1, epoch=1)],
        [change(isr=[1, 2])],
        # The same record takes a replica's directory away (UNASSIGNED): the partition is recovering
        # as before.
        [change(leader=1, directories=[DIRECTORIES[0], bytes([0] * 15 + [1])])],
    )
    assert told(found) == [("failover", "proven"), ("preferred", "no")]


def test_a_leader_that_its_own_record_makes_eligible_was_not() -> None:
    found = changes(
        *beginning([1, 2]),
        [change(isr=[1])],
        [change(isr=[], leader=2, eligible_leader_replicas=[2])],
    )
    assert told(found) == [("unknown", "proven")]


def test_a_leader_from_the_elr_is_clean_and_the_last_known_one_is_not() -> None:
    found = changes(
        *beginning([1, 2]),
        [change(isr=[], leader=-1, eligible_leader_replicas=[2], last_known_elr=[1]), FENCE],
        [change(isr=[2], leader=2, eligible_leader_replicas=[], last_known_elr=[])],
        [change(isr=[], leader=-1, eligible_leader_replicas=[], last_known_elr=[2])],
        # An ISR that changes takes nothing from what is known of the ELR.
        [change(isr=[])],
        [change(isr=[2], leader=2, leader_recovery_state=1, last_known_elr=[])],
    )
    assert told(found, "is_last_known_leader") == [
        ("offline", "no", False),
        ("recovery", "no", False),
        ("offline", "no", False),
        ("recovery", "proven", True),
    ]


def test_an_epoch_that_rises_under_one_leader_tells_why() -> None:
    found = changes(
        *beginning([1, 2, 3], level=7),
        [change(isr=[1, 2], leader=1)],
        [change(replicas=[1, 2], leader=1, directories=DIRECTORIES[:2])],
    )
    assert told(found, "changes_max") == [("isr_shrink", "no", 0), ("reassignment", "no", 0)]


def test_what_a_lost_part_of_the_log_hides_is_inferred() -> None:
    rows = rows_of_batches(
        *beginning([1, 2, 3]), [change(isr=[1, 2])], [change(leader=2)], [change(leader=1)]
    )
    then = LogLake()
    then.take(
        rows_of_batches(
            *beginning([1, 2, 3]), [change(isr=[1, 2])], *([change(leader=n)] for n in (2, 1, 2))
        )
    )
    assert then.state is not None
    offset = then.state.next_offset
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(then.live)), offset, 1, START + timedelta(seconds=9)
    )
    lake = LogLake()
    lake.take([*rows[:-2], span("lost", len(rows) - 2, offset), *snapshot])
    evidence = [row for row in with_evidence(lake.rows) if "evidence" in row]
    assert [row["isr"] for row in evidence] == [[1, 2]]
    (row,) = changes_in(lake)
    assert (row["leader"], row["changes_min"], row["changes_hidden"]) == (2, 3, 2)
    assert row["began_after"] < row["began_before"]


def test_numbers_of_what_a_broker_leads_change_once_a_moment() -> None:
    more = [
        record(
            3, partition_id=n, topic_id=TOPIC_ID, replicas=[1, 2], isr=[1, 2], removing_replicas=[],
            adding_replicas=[], leader=1, leader_epoch=0, partition_epoch=0,
            directories=DIRECTORIES[:2],
        )
        for n in range(1, 4)
    ]  # fmt: skip
    moved = [record(5, partition_id=n, topic_id=TOPIC_ID, isr=[2], leader=2) for n in range(4)]
    rows = rows_of_batches(*beginning([1, 2]), more, [*moved, FENCE])
    whole, cut = LogLake(), LogLake()
    whole.take(rows)
    assert whole.state is not None
    cut.take(rows[:-3])
    assert cut.state is not None
    assert cut.state.last is not None
    done, found = cut.state.last.id, {}
    memory, live = None, {}
    for lake, since in ((cut, None), (whole, done)):
        assert lake.state is not None
        assert lake.state.last is not None
        news = GoldInput.of(whole.rows, since, lake.state.last.id, lake.state.last.at)
        folded = leaders.fold(memory, live, news)
        found |= {
            (row["broker_id"], row["poll"]): row for row in folded.rows["gold.leader_balance"]
        }
        memory, live = (
            folded.memory,
            {"gold.leader_balance": [row for row in found.values() if row["valid_to"] is None]},
        )
    numbers = {
        (row["broker_id"], (row["valid_from"] - START).seconds): (
            row["leads"],
            row["led_elsewhere"],
        )
        for row in found.values()
    }
    assert len(numbers) == len(found)
    assert numbers == {(1, 2): (1, 0), (1, 3): (4, 0), (1, 4): (0, 4), (2, 4): (4, 0)}
    assert [row["superseded_poll"] for row in found.values() if row["valid_to"] is None] == [
        None,
        None,
    ]


# --- brokers out of ISRs ---


@pytest.mark.parametrize(
    ("why", "cause"), [(NO_DIRECTORY, "log_dir_failed"), (FENCE, "broker_down")]
)
def test_a_broker_that_stays_registered_and_unfenced_lost_a_log_directory(
    why: Told, cause: str
) -> None:
    # The controller writes the change of the partition first, then that of the broker: in one
    # batch.
    lake = LogLake()
    lake.take(rows_of_batches(*beginning([1, 2, 3]), [change(leader=2, isr=[2, 3]), why]))
    assert lake.state is not None
    assert lake.state.last is not None
    rows = lake.rows | {BROKERS: listed(lake.rows["silver.broker_registrations"])}
    after_all = START + timedelta(days=1)
    news = GoldInput.of(rows, None, lake.state.last.id, after_all)
    (found,) = isr_shrink.fold(None, {}, news, Thresholds(3, timedelta(hours=1))).rows[
        "gold.isr_changes"
    ]
    assert (found["broker_id"], found["cause"]) == (1, cause)
