"""The fold of the controllers' log: what a few records make of history. Random logs are in
test_fold_lives.py, logs that lose a part in test_fold_breaks.py.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs.rules.log.fold import fold
from jobs.rules.log.silver import image_of
from jobs.rules.silver.state import Poll
from metadata_source.options import TopicFilter
from tests.support.cluster_logs import (
    CLUSTER,
    LEADER_CHANGE,
    START,
    Entry,
    record,
    rows_of,
    rows_of_snapshot,
    snapshot_of,
    span,
)
from tests.support.log_cases import (
    BEGINNING,
    PARTITION,
    TOPIC_ID,
    Told,
    a_log,
    broker,
    change,
    config,
    whole,
)
from tests.support.log_rounds import LogLake

PARTITIONS, REGISTRATIONS = "silver.partition_snapshots", "silver.partition_registrations"
TOPICS, TOPIC_CONFIGS = "silver.topic_snapshots", "silver.topic_configs"
CONTROLLERS = "gold.controller_changes"

BEGUN = (1, 0, [1, 2], 1)
"""The first state of the partition: its leader, the leader epoch, the ISR and the second."""
BOUNDS = ("began_after", "began_before")
BEGIN, END, ABORT = record(23), record(24), record(25)


@pytest.mark.parametrize(
    ("more", "states", "partition_epoch"),
    [
        pytest.param([], [BEGUN], 0, id="a partition"),
        pytest.param([(change(isr=[1]), 2)], [BEGUN, (1, 0, [1], 2)], 1, id="the ISR shrinks"),
        pytest.param([(change(isr=[2, 1]), 2)], [BEGUN], 1, id="another order is no other ISR"),
        pytest.param([(change(leader=2), 2)], [BEGUN, (2, 1, [1, 2], 2)], 1, id="another leader"),
        pytest.param([(change(leader=1), 2)], [BEGUN, (1, 1, [1, 2], 2)], 1, id="its epoch rises"),
        pytest.param([(change(leader=-1, isr=[]), 2)], [BEGUN, (-1, 1, [], 2)], 1, id="no leader"),
        pytest.param(
            [(change(eligible_leader_replicas=[2]), 2)], [BEGUN], 1, id="the ELR, no other state"
        ),
        pytest.param(
            [(change(isr=[1]), 2), (change(isr=[1, 2]), 2)],
            [BEGUN, (1, 0, [1], 2), (1, 0, [1, 2], 2)],
            2,
            id="a state of no length is a state",
        ),
        pytest.param(
            [(change(isr=[1]), 5), (change(isr=[1, 2]), 2)],
            [BEGUN, (1, 0, [1], 5), (1, 0, [1, 2], 5)],
            2,
            id="clocks of controllers differ",
        ),
        pytest.param(
            [
                *((change(isr=[1]), 2), (BEGIN, 3), (change(leader=2), 4), (END, 9)),
                (change(isr=[1, 2]), 10),
            ],
            [BEGUN, (1, 0, [1], 2), (2, 1, [1], 9), (2, 1, [1, 2], 10)],
            3,
            id="a transaction is in effect at its end",
        ),
        pytest.param(
            [(BEGIN, 3), (change(leader=2), 4), (ABORT, 9)], [BEGUN], 0, id="an aborted one never"
        ),
        pytest.param([(BEGIN, 3), (change(leader=2), 4)], [BEGUN], 0, id="nor an open one"),
        pytest.param(
            [(record(2, name="t2", topic_id=b"\7" * 16), 2)], [BEGUN], 0, id="another topic"
        ),
    ],
)
def test_states_of_a_partition(
    more: list[tuple[Told, int]], states: list[Any], partition_epoch: int
) -> None:
    lake = whole(a_log(*more))
    found = sorted(lake.rows[PARTITIONS], key=lambda row: row["first_poll"])
    assert [
        (row["leader"], row["leader_epoch"], row["isr"], (row["valid_from"] - START).seconds)
        for row in found
    ] == states
    (registration,) = lake.live[REGISTRATIONS]
    assert registration["partition_epoch"] == partition_epoch


@pytest.mark.parametrize(
    ("offset", "epoch", "is_replayed"),
    [
        pytest.param(3, 5, False, id="it was replayed"),
        pytest.param(4, 4, False, id="of a leader before the last one: the quorum threw it away"),
        pytest.param(4, 5, True, id="the next one"),
        pytest.param(4, 6, True, id="of the next leader"),
        pytest.param(9, 5, True, id="records between have no rows"),
    ],
)
def test_a_record_is_replayed_once(offset: int, epoch: int, *, is_replayed: bool) -> None:
    rows = [row | {"leader_epoch": 5} for row in a_log((change(isr=[1]), 2))]
    lake = whole(rows)
    before = lake.rows
    assert lake.state is not None
    next_offset = lake.state.next_offset
    lake.take(rows_of([Entry(offset, epoch, START + timedelta(seconds=3), *change(leader=2))]))
    assert (lake.rows != before) == is_replayed
    assert lake.state.next_offset == (offset + 1 if is_replayed else next_offset)
    assert lake.state.leader_epoch == (epoch if is_replayed else 5)


def test_a_snapshot_without_its_end_says_nothing_yet() -> None:
    rows = rows_of_snapshot([record(12, name="metadata.version", feature_level=25)], 10, 1, START)
    lake = LogLake()
    lake.take(rows[:-1])
    assert lake.state is not None
    assert lake.state.last is None
    lake.take(rows)
    assert [row["level"] for row in lake.rows["silver.features"]] == [25]


def test_where_polls_told_before_the_log_takes_over_once_it_was_read_later() -> None:
    rows = a_log((change(isr=[1]), 2), (change(isr=[1, 2], leader=2), 3))
    polled = Poll(
        "S/000000000012", START + timedelta(seconds=5), START + timedelta(seconds=4), 2_000
    )
    as_polled = {"first_poll": "S/000000000003", "prev_poll": None, "from_offset": None}
    known = {
        table: [row | as_polled for row in of_table]
        for table, of_table in whole(rows[:4]).live.items()
        if table in (PARTITIONS, TOPICS, TOPIC_CONFIGS, "silver.cluster_snapshots")
    }
    early = fold(None, known, rows, polled)
    assert not early.state.tells
    # The log tells what polls cannot from its begin on, exactly.
    assert early.rows.keys() == {REGISTRATIONS, "silver.features"}
    assert [row["leader_epoch"] for row in early.rows[REGISTRATIONS]] == [1]
    known |= {table: list(of_table) for table, of_table in early.rows.items()}
    quiet = span("read", 5, 6, START + timedelta(seconds=9))
    folded = fold(early.state, known, [quiet], polled)
    assert folded.state.tells
    ended, began = sorted(folded.rows[PARTITIONS], key=lambda row: row["first_poll"])
    assert (ended["last_poll"], ended["last_seen_sent_at"], ended["isr"]) == (
        polled.id,
        polled.sent_at,
        [1],
    )
    assert (began["prev_poll"], began["prev_sent_at"]) == (polled.id, polled.sent_at)
    assert (began["isr"], began["leader"], began["leader_epoch"]) == ([1, 2], 2, 1)
    assert began["valid_from"] == START + timedelta(seconds=9)
    assert polled.id < began["first_poll"] < "S/000000000013"
    assert TOPICS not in folded.rows
    [source] = folded.rows["silver.history_sources"]
    assert (source["source"], source["first_poll"]) == ("log", began["first_poll"])


# --- one thing at a time ---


def test_settings_that_polls_told_held_until_the_last_answer_beside_one() -> None:
    rows = a_log((config(2, "t", "2"), 2))
    tables = (PARTITIONS, TOPICS, TOPIC_CONFIGS, "silver.cluster_snapshots")
    known = {
        table: [row | {"first_poll": "S/000000000003"} for row in of_table]
        for table, of_table in whole(rows[:3]).live.items()
        if table in tables
    }
    polled, beside = (
        Poll(f"S/{number:012}", *[START + timedelta(seconds=second)] * 2, 2_000)
        for number, second in ((12, 5), (11, 4))
    )
    early = fold(None, known, rows, polled)
    known |= {table: list(of_table) for table, of_table in early.rows.items()}
    quiet = span("read", 4, 4, START + timedelta(seconds=9))
    folded = fold(early.state, known, [quiet], polled, answered={"configs": beside})
    ended, began = sorted(folded.rows[TOPIC_CONFIGS], key=lambda row: row["first_poll"])
    assert (ended["last_poll"], ended["min_insync_replicas"]) == (beside.id, None)
    assert (began["prev_poll"], began["min_insync_replicas"]) == (beside.id, 2)
    [source] = folded.rows["silver.history_sources"]
    assert source["prev_poll"] == polled.id


def test_an_open_transaction_holds_up_nothing_before_it() -> None:
    rows = a_log((change(isr=[1]), 2), (record(23), 3), (change(leader=2), 4))
    lake = whole(rows)
    assert len(lake.rows[PARTITIONS]) == 2
    assert lake.state is not None
    assert lake.state.next_offset == 4


def test_a_transaction_that_was_truncated_never_ends() -> None:
    rows = a_log((record(23), 3), (change(leader=2), 4))
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(whole(rows[:3]).live)), 2, 2, START + timedelta(seconds=3)
    )
    lake = whole([*rows, span("truncated", 5, 2), *snapshot])
    assert [row["leader"] for row in lake.rows[PARTITIONS]] == [1]
    assert lake.state is not None
    assert lake.state.next_offset == 2


def test_making_a_topic_is_one_state_of_it() -> None:
    more = [
        record(
            3,
            **{**PARTITION, "partition_id": number},
            topic_id=TOPIC_ID,
            replicas=[1],
            isr=[1],
            leader=1,
        )
        for number in (1, 2)
    ]
    lake = whole(a_log((config(2, "t", "2"), 1), *((each, 1) for each in more)))
    assert [row["partition_count"] for row in lake.rows[TOPICS]] == [3]
    assert [row["min_insync_replicas"] for row in lake.rows[TOPIC_CONFIGS]] == [2]


def test_a_batch_ends_where_a_record_is_between() -> None:
    """It has no row: a NoOpRecord is a batch of its own, of whatever time."""
    partition = record(
        3, **{**PARTITION, "partition_id": 1}, topic_id=TOPIC_ID, replicas=[1], isr=[1], leader=1
    )
    for offset, counts in ((3, [2]), (4, [1, 2])):
        entry = Entry(offset, 1, START + timedelta(seconds=1), *partition)
        rows = whole([*a_log(), *rows_of([entry])]).rows[TOPICS]
        assert sorted(row["partition_count"] for row in rows) == counts


def test_a_broker_that_is_fenced_makes_one_state_of_a_partition_with_its_change() -> None:
    lake = whole(
        a_log(
            (broker(1), 2),
            (broker(2), 2),
            (change(isr=[2], leader=2), 3),
            (record(7, id=1, epoch=1), 3),
        )
    )
    found = [(row["leader"], row["isr"], row["offline_replicas"]) for row in lake.rows[PARTITIONS]]
    assert sorted(found) == [(1, [1, 2], []), (1, [1, 2], [1, 2]), (2, [2], [1])]


def test_a_snapshot_of_what_is_known_is_no_observation() -> None:
    rows = a_log((change(isr=[1]), 2))
    lake = whole(rows)
    before, state = lake.rows, lake.state
    assert state is not None
    snapshot = rows_of_snapshot(
        snapshot_of(image_of(lake.live)), state.next_offset, 1, START + timedelta(seconds=9)
    )
    lake.take(snapshot)
    assert lake.state is not None
    assert (lake.rows, replace(lake.state, heard_at=state.heard_at)) == (before, state)
    # So what is written at the moment of the last record is of that moment still.
    lake.take(rows_of([Entry(4, 1, START + timedelta(seconds=2), *change(isr=[1, 2]))]))
    assert {row["valid_from"] for row in lake.rows[PARTITIONS]} == {
        START + timedelta(seconds=n) for n in (1, 2)
    }


def test_settings_are_those_in_effect() -> None:
    changes = [
        (4, "", "2"),
        (2, "t", "3"),
        (2, "t", None),
        (4, "1", "1"),
        (4, "1", None),
        (4, "", None),
    ]
    lake = whole(a_log(*((config(*each), second) for second, each in enumerate(changes, 2))))
    rows = sorted(lake.rows[TOPIC_CONFIGS], key=lambda row: row["first_poll"])
    # While one broker has another value than the others, which of them counts depends on the
    # leader.
    assert [row["min_insync_replicas"] for row in rows] == [None, 2, 3, 2, None, 2, None]


@pytest.mark.parametrize("narrowed", [False, True])
def test_each_setting_of_a_value_that_is_not_kept_is_a_state(narrowed: bool) -> None:
    lake = LogLake(narrowed=narrowed)
    rows = a_log(
        *((config(4, "", value, "my.password"), n) for n, value in enumerate(("a", "b", "b"), 2)),
        (config(4, "", None, "my.password"), 5),
        (config(4, "", "c", "my.password"), 6),
        *((config(2, "t", value, "retention.ms"), n) for n, value in enumerate(("7", "7", "8"), 7)),
    )
    for row in rows:
        lake.take([row])
    found = sorted(lake.rows["silver.configs"], key=lambda row: row["first_poll"])
    assert [
        (row["name"], row["value"], row["end_reason"], (row["valid_from"] - START).seconds)
        for row in found
    ] == [
        ("my.password", None, None, 2),
        ("my.password", None, None, 3),
        ("my.password", None, "gone", 4),
        ("my.password", None, None, 6),
        # What is set again is the same, if its value is.
        ("retention.ms", "7", None, 7),
        ("retention.ms", "8", None, 9),
    ]


def test_acls_and_quotas_are_events_without_what_they_say() -> None:
    rows = a_log(*((change(isr=[1]), n) for n in range(2, 7)))
    for row, number in zip(rows[-5:], (18, 19, 14, 11, 18), strict=True):
        row |= {"type": number, "partition_change": None}
    rows[-1] |= {"is_control": True}
    found = sorted(whole(rows).rows["gold.access_changes"], key=lambda row: row["poll"])
    assert [
        (row["change"], row["source"], *((row[name] - START).seconds for name in BOUNDS))
        for row in found
    ] == [("acl_added", "log", 2, 2), ("acl_removed", "log", 3, 3), ("quota_changed", "log", 4, 4)]


def settings_told(lake: LogLake) -> list[tuple[int | None, float | None, float]]:
    """Each min.insync.replicas of the one topic, after when and by when it was so, in seconds."""
    rows = sorted(lake.rows[TOPIC_CONFIGS], key=lambda row: row["first_poll"])
    return [
        (
            row["min_insync_replicas"],
            None if row["prev_sent_at"] is None else (row["prev_sent_at"] - START).total_seconds(),
            (row["valid_from"] - START).total_seconds(),
        )
        for row in rows
    ]


def test_a_setting_of_brokers_files_is_as_polls_tell_it_where_no_record_sets_one() -> None:
    rows = a_log((config(2, "t", "3"), 4), (config(2, "t", None), 6))
    # Known before the topic was made.
    lake = LogLake()
    lake.static_configs = {"min.insync.replicas": "2"}
    lake.take(rows)
    assert settings_told(lake) == [(2, 1, 1), (3, 4, 4), (2, 6, 6)]
    # Told by a poll while no record comes: since when it was so, nobody knows. Once.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2"}
    polled = Poll(
        "S/000000000001", START + timedelta(seconds=2), START + timedelta(seconds=2), 2_000
    )
    for _ in range(2):
        lake.take([span("read", 3, 3, START + timedelta(seconds=3))], polled)
    lake.take(rows[3:], polled)
    assert settings_told(lake) == [(None, 1, 1), (2, None, 3), (3, 4, 4), (2, 6, 6)]
    # Told just before a record that changes something else.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2"}
    lake.take(a_log((change(isr=[1]), 5))[3:], polled)
    assert settings_told(lake) == [(None, 1, 1), (2, None, 5)]
    # Told just before a record that sets another one: one state, not two of one moment.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    lake.take(rows[3:4], polled)
    assert settings_told(lake) == [(None, 1, 1), (3, None, 4)]
    # Told just before the record that deletes the topic.
    lake = LogLake()
    lake.take(rows[:3])
    lake.static_configs = {"min.insync.replicas": "2"}
    lake.take(a_log((record(9, topic_id=TOPIC_ID), 5))[3:], polled)
    assert settings_told(lake) == [(None, 1, 1)]


def test_a_setting_of_brokers_files_is_known_with_a_snapshot() -> None:
    """A record after it sets another one at its own moment."""
    lake = LogLake()
    lake.static_configs = {"min.insync.replicas": "2"}
    then = snapshot_of(image_of(whole(a_log()).live))
    snapshot = rows_of_snapshot(then, 3, 1, START + timedelta(seconds=1))
    lake.take([*snapshot, *a_log((config(2, "t", "3"), 4))[3:]])
    assert settings_told(lake) == [(2, None, 1), (3, 4, 4)]


def test_what_was_heard_is_not_unheard() -> None:
    """Whoever reads has another clock now."""
    lake = whole(a_log())
    for second in (9, 5):
        lake.take([span("read", 3, 3, START + timedelta(seconds=second))])
        assert lake.state is not None
        assert lake.state.heard_at == START + timedelta(seconds=9)


def test_topics_that_polls_do_not_ask_for_any_more_are_left_with_the_next_record() -> None:
    """And those that they ask for now come. What polls do not tell is told of all topics."""
    u = record(2, name="u", topic_id=b"\3" * 16)
    partition = record(3, **PARTITION, topic_id=b"\3" * 16, replicas=[3], isr=[3], leader=3)
    lake = LogLake(topic_filter=TopicFilter(topics=("t",)).to_json())
    lake.take(a_log((u, 2), (partition, 2)))
    tables = (TOPICS, PARTITIONS, TOPIC_CONFIGS)
    assert {row["topic"] for table in tables for row in lake.rows[table]} == {"t"}
    assert {row["topic"] for row in lake.live[REGISTRATIONS]} == {"t", "u"}
    lake.topic_filter = TopicFilter(topics=("u",)).to_json()
    lake.take(a_log((u, 2), (partition, 2), (change(isr=[1]), 9))[5:])
    for table in tables:
        ended, began = sorted(lake.rows[table], key=lambda row: row["topic"])
        assert (ended["topic"], ended["end_reason"]) == ("t", "not_polled")
        assert (began["topic"], began["end_reason"]) == ("u", None)
        assert ended["valid_to"] == began["valid_from"] == START + timedelta(seconds=9)
    assert [row["isr"] for row in lake.live[REGISTRATIONS] if row["topic"] == "t"] == [[1]]


def test_controllers_change_with_the_leaders_of_the_log() -> None:
    def elected(controller: int, offset: int, epoch: int) -> Entry:
        at = START + timedelta(seconds=offset)
        return Entry(
            offset, epoch, at, LEADER_CHANGE, 0, {"leader_id": controller}, is_control=True
        )

    lake = whole(rows_of([elected(1, 0, 1), elected(3, 1, 4)]))
    names = (
        "controller_id",
        "controller_epoch",
        "prev_controller_id",
        "prev_controller_epoch",
        "began_after",
    )
    assert [
        tuple(row[name] for name in names)
        for row in sorted(lake.rows[CONTROLLERS], key=lambda r: r["poll"])
    ] == [(1, 1, None, None, None), (3, 4, 1, 1, START + timedelta(seconds=1))]
    assert {row["cluster"] for row in lake.rows[CONTROLLERS]} == {CLUSTER["cluster"]}


def test_a_log_that_begins_in_the_middle_says_nothing_before_a_snapshot() -> None:
    lake = whole(rows_of([Entry(7, 1, START, *BEGINNING[0][0])]))
    assert not any(lake.rows.values())
    assert lake.state is not None
    assert not lake.state.is_whole
