"""The controllers' log: replayed from what DumpLogSegments really printed, and record by record."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from truth.dump import Record, TruthError, records
from truth.log import truth_of
from truth.model.states import Term, at_time, during

DATA = Path(__file__).parent / "data"
START = datetime(2026, 11, 21, 8, tzinfo=UTC)
TOPIC = "AAAAAAAAAAAAAAAAAAAAAA"


def log(*steps: tuple[str, Mapping[str, Any]]) -> list[Record]:
    """Records a second apart."""
    return [
        Record(i, START + timedelta(seconds=i), kind, data) for i, (kind, data) in enumerate(steps)
    ]


def change(**data: Any) -> tuple[str, dict[str, Any]]:
    return "PARTITION_CHANGE_RECORD", {"partitionId": 0, "topicId": TOPIC, **data}


MADE = (
    ("TOPIC_RECORD", {"name": "orders", "topicId": TOPIC}),
    (
        "PARTITION_RECORD",
        {"partitionId": 0, "topicId": TOPIC, "replicas": [3, 1, 2], "isr": [3, 1, 2],
         "leader": 3, "leaderEpoch": 4, "removingReplicas": [], "addingReplicas": []},
    ),
)  # fmt: skip


def states(*changes):
    return truth_of(log(*MADE, *changes)).partitions[TOPIC, 0]


def test_the_epoch_rises_by_one_for_each_record_that_names_a_leader():
    replayed = states(
        change(isr=[1, 2], leader=1),
        change(isr=[2, 1, 3]),
        change(leader=-1, isr=[1]),
        change(leader=-1),
        change(leader=1, leaderRecoveryState=1),
        change(leader=1),
        change(leaderRecoveryState=0),
    )
    assert [(state.leader, state.leader_epoch) for state in replayed] == [
        (3, 4), (1, 5), (1, 5), (-1, 6), (-1, 7), (1, 8), (1, 9), (1, 9)
    ]  # fmt: skip
    assert [state.isr for state in replayed[:4]] == [(1, 2, 3), (1, 2), (1, 2, 3), (1,)]
    assert [state.recovering for state in replayed] == [False] * 5 + [True, True, False]
    assert [state.names_leader for state in replayed] == [
        True,
        True,
        False,
        True,
        True,
        True,
        True,
        False,
    ]


def test_what_a_change_does_not_name_stays_and_an_empty_list_is_none():
    replayed = states(
        change(replicas=[3, 1, 2, 4], addingReplicas=[4], removingReplicas=[2]),
        change(isr=[1, 2, 3, 4]),
        change(replicas=[4, 3, 1], isr=[1, 3, 4], addingReplicas=[], removingReplicas=[]),
        change(eligibleLeaderReplicas=[1], lastKnownElr=[3]),
        change(isr=[4]),
        change(eligibleLeaderReplicas=[]),
    )
    assert [state.replicas for state in replayed] == [(3, 1, 2)] + [(3, 1, 2, 4)] * 2 + [
        (4, 3, 1)
    ] * 4
    assert [state.adding for state in replayed] == [(), (4,), (4,), (), (), (), ()]
    assert [state.removing for state in replayed] == [(), (2,), (2,), (), (), (), ()]
    assert [state.elr for state in replayed] == [(), (), (), (), (1,), (1,), ()]
    assert {state.last_known_elr for state in replayed[4:]} == {(3,)}


def test_clearing_the_elr_is_of_one_topic_or_of_all():
    elr = change(eligibleLeaderReplicas=[1], lastKnownElr=[3])
    assert [state.elr for state in states(elr, ("CLEAR_ELR_RECORD", {"topicName": "other"}))] == [
        (),
        (1,),
    ]
    for name in ("orders", ""):
        last = states(elr, ("CLEAR_ELR_RECORD", {"topicName": name}))[-1]
        assert (last.elr, last.last_known_elr, last.leader_epoch) == ((), (), 4)


def test_a_topic_that_comes_back_under_its_name_is_another():
    again = [(kind, {**data, "topicId": "BBBBBBBBBBBBBBBBBBBBBB"}) for kind, data in MADE]
    truth = truth_of(log(*MADE, ("REMOVE_TOPIC_RECORD", {"topicId": TOPIC}), *again))
    assert [(life.topic, life.deleted_at) for life in truth.topics.values()] == [
        ("orders", START + timedelta(seconds=2)),
        ("orders", None),
    ]
    assert truth.ends_at((TOPIC, 0)) == START + timedelta(seconds=2)


def test_brokers_are_fenced_and_unfenced_by_either_kind_of_record():
    registered = {"brokerId": 1, "rack": "a", "fenced": True}
    truth = truth_of(
        log(
            ("REGISTER_BROKER_RECORD", registered),
            ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 1, "brokerEpoch": 0, "fenced": -1}),
            (
                "BROKER_REGISTRATION_CHANGE_RECORD",
                {"brokerId": 1, "brokerEpoch": 0, "inControlledShutdown": 1},
            ),
            ("BROKER_REGISTRATION_CHANGE_RECORD", {"brokerId": 1, "brokerEpoch": 0, "fenced": 1}),
            ("UNFENCE_BROKER_RECORD", {"id": 1, "epoch": 0}),
            ("FENCE_BROKER_RECORD", {"id": 1, "epoch": 0}),
            ("UNREGISTER_BROKER_RECORD", {"brokerId": 1, "brokerEpoch": 0}),
        )
    )
    assert [state.is_alive for state in truth.brokers[1]] == [
        False,
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert [state.in_controlled_shutdown for state in truth.brokers[1]][:4] == [
        False,
        False,
        True,
        True,
    ]
    assert not truth.brokers[1][-1].registered


def test_states_are_found_by_time():
    replayed = states(change(leader=1), change(leader=2))  # at seconds 1, 2 and 3

    def second(number: float) -> datetime:
        return START + timedelta(seconds=number)

    assert at_time(replayed, second(0.9)) is None
    assert at_time(replayed, second(2)).leader == 1
    assert [state.leader for state in during(replayed, second(0), second(1))] == [3]
    assert [state.leader for state in during(replayed, second(1.5), second(2))] == [3, 1]
    assert [state.leader for state in during(replayed, second(2.1), second(2.2))] == [1]
    assert [state.leader for state in during(replayed, second(2.5), second(9))] == [1, 2]
    assert list(during(replayed, second(0), second(0.5))) == []


BATCH = (
    "baseOffset: {0} lastOffset: {0} count: 1 partitionLeaderEpoch: 1 isControl: false position: 0 "
    "CreateTime: {1} size: 9"
)
LINE = (
    "| offset: {0} CreateTime: {1} keySize: -1 valueSize: 9 sequence: -1 headerKeys: [] payload: "
    "{2}"
)


def printed(*payloads: str) -> list[str]:
    return [
        line
        for offset, payload in enumerate(payloads)
        for line in (
            BATCH.format(offset, 1000 + offset),
            LINE.format(offset, 1000 + offset, payload),
        )
    ]


def payload(kind: str, name: str = "") -> str:
    return f'{{"type":"{kind}","version":0,"data":{{"name":"{name}"}}}}'


def test_an_aborted_transaction_never_happened():
    began, ended, aborted = (
        payload(f"{word}_TRANSACTION_RECORD") for word in ("BEGIN", "END", "ABORT")
    )
    a, b, c, d = (payload("TOPIC_RECORD", name) for name in "abcd")
    read = list(records(printed(a, began, b, aborted, began, c, ended, d)))
    assert [(record.offset, record.data["name"]) for record in read] == [
        (0, "a"),
        (5, "c"),
        (7, "d"),
    ]
    assert read[1].at == datetime(1970, 1, 1, 0, 0, 1, 6000, tzinfo=UTC)  # in effect at its end


def test_no_record_is_in_effect_before_the_one_before_it():
    lines = [
        line.replace("CreateTime: 1001", "CreateTime: 900").replace(
            "CreateTime: 1002", "CreateTime: 5000"
        )
        for line in printed(payload("A"), payload("B"), payload("NO_OP_RECORD"), payload("C"))
    ]
    assert [(record.type, record.at.microsecond) for record in records(lines)] == [
        ("A", 0), ("B", 0), ("NO_OP_RECORD", 0), ("C", 3000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("told", "controller_id"),
    [
        ('LeaderChange: {"version":1,"leaderId":7,"voters":[]}', 7),
        ("controlType: LEADER_CHANGE(2)", None),
    ],
)
def test_a_controller_becomes_the_active_one_amid_a_transaction(told, controller_id):
    began, aborted = (payload(f"{word}_TRANSACTION_RECORD") for word in ("BEGIN", "ABORT"))
    lines = printed(began, payload("TOPIC_RECORD", "lost"), "", aborted)
    lines[4] = lines[4].replace("partitionLeaderEpoch: 1", "partitionLeaderEpoch: 5")
    lines[5] = lines[5].replace("payload: ", told)
    truth = truth_of(records(lines))
    at = datetime(1970, 1, 1, 0, 0, 1, 2000, tzinfo=UTC)
    assert (truth.terms, truth.topics) == ([Term(2, at, 5, controller_id)], {})


def test_a_log_that_a_snapshot_cut_is_refused():
    with pytest.raises(TruthError, match="begins at offset 7: a snapshot cut it"):
        list(records([BATCH.format(7, 1000)]))


@pytest.mark.parametrize(
    "line",
    [
        LINE.format(0, 1000, "not JSON"),
        "| offset: 0 CreateTime: 1000 Error at 0, skipping. Could not read record",
    ],
)
def test_what_was_not_decoded_is_refused(line):
    with pytest.raises(TruthError, match=r"^not (decoded|a record): \| offset: 0"):
        list(records([BATCH.format(0, 1000), line]))


def replayed(version: str):
    """The log of a cluster to which was done: stop and start 1; elect preferred leaders; move
    clicks-0 from [3, 1] to [2, 1]; stop 3, begin to move clicks-0 to [3, 1], cancel that; start 3;
    stop 1, kill 2, start 1, elect unclean, start 2; add clicks-1; delete orders and make it again.
    The one of 3.9.2 (metadata.version 3.5-IV2) is cut after the cancellation.
    """
    return truth_of(records((DATA / f"metadata_log_{version}.txt").read_text().splitlines()))


def leaders(truth, topic: str, partition: int) -> list[tuple]:
    """Leader, epoch, ISR and replicas."""
    return [
        (state.leader, state.leader_epoch, state.isr, state.replicas)
        for (topic_id, number), states in truth.partitions.items()
        for state in states
        if truth.topics[topic_id].topic == topic
        and number == partition
        and truth.topics[topic_id].deleted_at is None
    ]


def test_what_4_3_1_wrote():
    truth = replayed("4.3.1")
    assert (truth.level("metadata.version"), truth.level("eligible.leader.replicas.version")) == (
        30,
        1,
    )
    assert [(life.topic, life.deleted_at is None) for life in truth.topics.values()] == [
        ("orders", False), ("clicks", True), ("orders", True),
    ]  # fmt: skip
    assert leaders(truth, "clicks", 0) == [
        (3, 0, (1, 3), (3, 1)),
        (3, 0, (3,), (3, 1)),  # 1 stops; the shrink leaves the epoch alone
        (3, 0, (1, 3), (3, 1)),
        (3, 0, (1, 3), (2, 1, 3)),
        (2, 1, (1, 2), (2, 1)),
        (2, 1, (1, 2), (3, 1, 2)),
        (
            2,
            2,
            (1, 2),
            (1, 2),
        ),  # cancelled: the epoch rises, and another replica is preferred than before
        (2, 2, (2,), (1, 2)),
        (-1, 3, (), (1, 2)),  # 2 is killed
        (1, 4, (1,), (1, 2)),  # from the ELR: clean
        (1, 4, (1,), (1, 2)),
        (1, 4, (1, 2), (1, 2)),
    ]
    states = truth.partitions[
        next(key for key in truth.partitions if truth.topics[key[0]].topic == "clicks")
    ]
    assert [(state.elr, state.last_known_elr) for state in states[-4:]] == [
        ((1, 2), (2,)),
        ((2,), ()),
        ((), ()),
        ((), ()),
    ]
    assert [(state.adding, state.removing) for state in states[3:7]] == [
        ((2,), (3,)),
        ((), ()),
        ((3,), (2,)),
        ((), ()),
    ]
    assert not any(state.recovering for state in states)
    assert leaders(truth, "clicks", 1) == [(1, 0, (1, 3), (1, 3))]
    assert leaders(truth, "orders", 0) == [(3, 0, (2, 3), (3, 2))]
    assert [state.is_alive for state in truth.brokers[2]] == [False, True, False, False, True]
    assert {broker: states[0].rack for broker, states in truth.brokers.items()} == {
        1: "a",
        2: "b",
        3: "a",
    }
    assert [(c.resource, c.name, c.value) for c in truth.configs if c.resource_type == 2] == [
        ("clicks", "min.insync.replicas", "2")
    ]


def test_what_3_9_2_wrote_below_3_6_iv0():
    truth = replayed("3.9.2")
    assert truth.level("metadata.version") == 11
    assert leaders(truth, "clicks", 0) == [
        (3, 0, (1, 3), (3, 1)),
        (3, 1, (3,), (3, 1)),  # the shrink raises the epoch
        (3, 1, (1, 3), (3, 1)),
        (3, 1, (1, 3), (2, 1, 3)),
        (2, 2, (1, 2), (2, 1)),
        (2, 2, (1, 2), (3, 1, 2)),
        (2, 3, (1, 2), (1, 2)),
    ]
