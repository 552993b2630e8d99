"""Classic groups: what records of type 2 tell, by cases."""

import pytest

from metadata_source.protocol.group_specs import RECORD_TYPES
from tests.support.classic_logs import (
    ALONE,
    HIGH,
    LOW,
    TOMBSTONE,
    cooperative,
    m,
    started,
    taking,
    two_phases,
)  # fmt: skip
from tests.support.group_records import CONSUMER, Log, at, classic, gist, history, parts, shows
from tests.support.written_groups import written


def after_loss(group):
    """Records of a started group were lost, and then this one was read."""
    return started().span("lost", 103, 150, seconds=20).batch(30, group)


def static(*member_ids):
    return [m(each, {"t": [n]}, instance_id=each[0]) for n, each in enumerate(member_ids)]


RESUBSCRIBED = m("x-2", {"t": [0], "u": [0]}, topics=["t", "u"], instance_id="x")
AGAIN = m("a", LOW, owned={"t": [0, 1, 3]}), m("b", {"t": [2]})
"""`a` joins with what it should have given up."""
TAKEN = cooperative(3, m("a", LOW), m("b", HIGH))
THREE = m("a", {"t": [0]}), m("c", {"t": [2]}), m("d", {"t": [3]})
MORE = {"t": [0, 1, 2, 3, 4]}

CONVERTED = *CONSUMER.gone("a"), *CONSUMER.deleted(), classic(9, [m("a", ALONE)])

NONE = (None, None, None)
UNKNOWN = (None, None, None, None)
DONE = "completed", 1
NEW = (*DONE, (0, 1, 0), (1, 0, 0), "member_joined", (0, 0, 4, 0))

LAST = {
    "completed": (started(), NEW),
    "member_joined": (
        started().batch(5, classic(2, [m("a", LOW), m("b", {"t": [2, 3, 4]})])),
        (*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (2, 2, 1, 0)),
    ),
    "emptied": (
        started().batch(5, classic(2)),
        ("emptied", 1, (1, 2, 0), (0, 1, 0), "member_left group_emptied", (0, 0, 0, 4)),
    ),
    "skipped_generations": (
        started().batch(5, classic(4, [m("a", ALONE)])),
        (*DONE, (1, 4, 2), (0, 0, 0), "same_members", (4, 0, 0, 0)),
    ),
    "static_member_left: it timed out": (
        Log().batch(1, classic(1, static("x-1", "y-1"))).batch(60, classic(2, static("x-1"))),
        (*DONE, (1, 2, 0), (0, 1, 0), "static_member_left", (1, 0, 0, 1)),
    ),
    "subscription_changed: a static member is back under another id": (
        Log().batch(1, classic(1, static("x-1"))).batch(2, classic(2, [RESUBSCRIBED])),
        (*DONE, (1, 2, 0), (0, 0, 1), "subscription_changed", (1, 0, 1, 0)),
    ),
    "assignor_changed": (
        started().batch(5, classic(2, [m("a", ALONE)], protocol="roundrobin")),
        (*DONE, (1, 2, 0), (0, 0, 0), "assignor_changed", (4, 0, 0, 0)),
    ),
    "partitions_changed: the topic grew": (
        started().batch(5, classic(2, [m("a", MORE)])),
        (*DONE, (1, 2, 0), (0, 0, 0), "partitions_changed", (4, 0, 1, 0)),
    ),
    "partitions_changed: an eager group leaves some out, and waits for nothing": (
        started().batch(5, classic(2, [m("a", LOW)])),
        (*DONE, (1, 2, 0), (0, 0, 0), "partitions_changed", (2, 0, 0, 2)),
    ),
    "another protocol has members and no partitions": (
        Log().batch(1, classic(1, [m("w", bytes_only=True)], protocol_type="connect")),
        (*DONE, (0, 1, 0), (1, 0, 0), "member_joined", UNKNOWN),
    ),
    "older than what was read": (
        Log().batch(1, classic(2, [m("a", ALONE)])),
        (*DONE, (None, 2, None), NONE, None, UNKNOWN),
    ),
    # Coordinators of Kafka 3.9 and before write no generation 0.
    "no generation 0": (Log().batch(1, classic(1, [m("a", ALONE)])), NEW),
    "no generation 0, and emptied": (
        Log().batch(1, classic(1)),
        ("emptied", 1, (0, 1, 0), (0, 0, 0), "group_emptied", (0, 0, 0, 0)),
    ),
    "no generation 0, of static members": (
        Log().batch(50, classic(1, static("x-2", "y-1"))),
        (*DONE, (0, 1, 0), (2, 0, 0), "member_joined", (0, 0, 2, 0)),
    ),
    "deleted and made again": (
        started().batch(9, TOMBSTONE).batch(20, classic(0), classic(1, [m("b", ALONE)])),
        NEW,
    ),
    "deleted and made again, no generation 0": (
        started().batch(9, TOMBSTONE).batch(20, classic(3, static("x-1"))),
        (*DONE, (0, 3, 2), (1, 0, 0), "member_joined", (0, 0, 1, 0)),
    ),
    "made again, and the tombstone was compacted away": (
        started().batch(5, classic(8, [m("a", ALONE)])).batch(9, classic(3, [m("b")])),
        (*DONE, (None, 3, None), NONE, None, UNKNOWN),
    ),
    "made again at generation 1, and the tombstone was compacted away": (
        two_phases().batch(9, classic(1, [m("c", ALONE)], state_seconds=8.9)),
        NEW,
    ),
    "converted, and not known": (
        Log().batch(0, CONSUMER.member("a"), CONSUMER.epoch(9)).batch(5, *CONVERTED),
        (*DONE, (None, 9, None), NONE, None, UNKNOWN),
    ),
    "records_lost, and generation 1 may be a restart": (
        after_loss(classic(1, static("x-1"))),
        (*DONE, (None, 1, None), NONE, None, UNKNOWN),
    ),
    "records_lost, and generation 1 of no static member": (
        after_loss(classic(1, [m("b", ALONE)])),
        NEW,
    ),
}


@pytest.mark.parametrize("case", LAST)
def test_the_last_rebalance(case):
    log, last = LAST[case]
    assert gist(history(log).rebalances[-1]) == last


SECOND = {
    "open: something was given up": (
        two_phases(),
        (None, 1, (1, 2, 0), (1, 0, 0), "member_joined", UNKNOWN),
    ),
    "completed in two phases": (
        two_phases().batch(6, TAKEN),
        ("completed", 2, (1, 3, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0)),
    ),
    "skipped_generations between two phases": (
        two_phases().batch(6, cooperative(5, m("a", LOW), m("b", HIGH))),
        ("completed", 2, (1, 5, 2), (1, 0, 0), "member_joined", (2, 2, 0, 0)),
    ),
    "member_left in the second phase": (
        two_phases().batch(6, cooperative(3, m("a", LOW), m("c", HIGH))),
        ("completed", 2, (1, 3, 0), (2, 1, 0), "member_joined member_left", (2, 2, 0, 0)),
    ),
    "completed in three phases": (
        two_phases()
        .batch(6, cooperative(3, *THREE))
        .batch(7, cooperative(4, m("a", {"t": [0]}), m("d", {"t": [1, 2, 3]}))),
        ("completed", 3, (1, 4, 0), (3, 2, 0), "member_joined member_left", (1, 3, 0, 0)),
    ),
    "open: a member joined again with what it should have given up": (
        two_phases().batch(6, cooperative(3, *AGAIN)),
        (None, 2, (1, 3, 0), (1, 0, 0), "member_joined", UNKNOWN),
    ),
    "completed: the member was asked a second time": (
        two_phases()
        .batch(6, cooperative(3, *AGAIN))
        .batch(7, cooperative(4, m("a", LOW), m("b", HIGH))),
        ("completed", 3, (1, 4, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0)),
    ),
    "completed: nobody wants any more what was given up": (
        two_phases().batch(
            6, cooperative(3, m("a", {"t": [0, 1, 2]}), m("b", {"u": [0]}, topics=["u"]))
        ),
        ("completed", 2, (1, 3, 0), (1, 0, 0), "member_joined", (3, 0, 1, 1)),
    ),
    "completed: a client that lost all that it had gives up nothing": (
        taking(m("a", ALONE)).batch(5, cooperative(2, m("a", LOW, owned={}), m("b", {}))),
        (*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (2, 0, 0, 2)),
    ),
    "completed: who left gives up nothing": (
        taking(m("a", LOW), m("b", HIGH)).batch(2, cooperative(2, m("a", LOW))),
        (*DONE, (1, 2, 0), (0, 1, 0), "member_left", (2, 0, 0, 2)),
    ),
    "completed: a leave is one phase": (
        taking(m("a", LOW), m("b", HIGH)).batch(5, cooperative(2, m("a", ALONE, owned=LOW))),
        (*DONE, (1, 2, 0), (0, 1, 0), "member_left", (2, 2, 0, 0)),
    ),
    "completed: made again, and the tombstone was compacted away": (
        two_phases().batch(9, classic(0)),
        (*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (2, 0, 0, 2)),
    ),
    "open: who joins with something under another id gives it up": (
        taking(m("a", ALONE)).batch(5, cooperative(2, m("a2", LOW, owned=ALONE), m("b", {}))),
        (None, 1, (1, 2, 0), (2, 1, 0), "member_joined member_left", UNKNOWN),
    ),
    # Its subscription does not say what it joins with (version 0).
    "completed: a member gave up before it joined what it does not want": (
        taking(m("a", {"t": [0], "u": [0]}, topics=["t", "u"])).batch(
            5, cooperative(2, m("a", {"t": [0]}))
        ),
        (*DONE, (1, 2, 0), (0, 0, 0), "subscription_changed", (1, 0, 0, 1)),
    ),
    "deleted": (
        two_phases().batch(8, TOMBSTONE),
        ("deleted", 1, (1, 2, 0), (1, 0, 0), "member_joined", UNKNOWN),
    ),
}


@pytest.mark.parametrize("case", SECOND)
def test_the_second_rebalance_of_a_cooperative_group(case):
    log, second = SECOND[case]
    for cuts in ((), range(len(log.rows))):
        _, row = history(log, cuts).rebalances
        assert gist(row) == second


@pytest.mark.parametrize(
    ("log", "times", "since_previous_ms"),
    [
        # Of the last rebalance, in seconds: began_after, began_before, ended_after, ended_before.
        # The time of the state is when the join phase ended.
        (started(), (0, 0.99, 1, 1), None),
        (started().batch(5, classic(2, [m("a")], state_seconds=4.9)), (1, 4.9, 5, 5), 3900),
        (started().batch(5, classic(2, [m("a")], state_seconds=6)), (1, 5, 5, 5), 4000),
        (started().batch(5, classic(2, [m("a")], state_seconds=0.5)), (0.5, 0.5, 5, 5), 0),
        (started().batch(5, classic(2)), (1, 5, 5, 5), 4000),
        (started().batch(5, classic(0)).batch(9, classic(1, [m("a")])), (5, 9, 9, 9), None),
        (two_phases(), (1, 4.99, None, None), 3990),
        (two_phases().batch(6, TAKEN), (1, 4.99, 6, 6), 3990),
        (two_phases().batch(9, classic(1, [m("c")], state_seconds=8.9)), (5, 8.9, 9, 9), None),
        # The first record of a group that is older may repeat a generation.
        (Log().batch(1, classic(1, [m("a")], state_seconds=0.99)), (None, 0.99, 1, 1), None),
        (Log().batch(9, classic(7, [m("a")], state_seconds=2)), (None, 2, 2, 9), None),
        (Log().batch(9, classic(7, [m("a")])), (None, 9, 9, 9), None),
        (after_loss(classic(9, [m("a")], state_seconds=29)), (None, 29, 29, 30), None),
        # Restarts of static members do, with when the group became stable.
        (Log().batch(50, classic(1, static("x-2"), state_seconds=1)), (None, 1, None, 50), None),
        (Log().batch(50, classic(7, static("x-2"), state_seconds=1)), (None, 1, None, 50), None),
        (
            started().batch(9, TOMBSTONE).batch(20, classic(3, static("x-1"), state_seconds=19.9)),
            (9, 19.9, 20, 20),
            None,
        ),
    ],
)
def test_when_the_last_rebalance_began_and_ended(log, times, since_previous_ms):
    row = history(log).rebalances[-1]
    names = ("began_after", "began_before", "ended_after", "ended_before")
    assert tuple(row[name] for name in names) == tuple(
        None if each is None else at(each) for each in times
    )
    assert row["since_previous_ms"] == since_previous_ms


CREATED = ("created", 0, 0, 0)
EVENTS = {
    "created": (Log().batch(0, classic(0, protocol_type="")), [CREATED]),
    "created once": (Log().batch(0, classic(0)).batch(2, classic(0)), [CREATED]),
    "created: no generation 0": (
        Log().batch(1, classic(1, [m("a")], state_seconds=0.99)),
        [("created", None, 0.99, 0)],
    ),
    "older than what was read": (Log().batch(1, classic(2, [m("a")])), []),
    "created: the tombstone was compacted away": (
        Log().batch(0, classic(0)).batch(1, classic(1, static("x-1"))).batch(3, classic(0)),
        [CREATED, ("created", 3, 3, 0)],
    ),
    "static_restart": (
        Log().batch(1, classic(1, static("x-1"))).batch(4, classic(1, static("x-2"))),
        [("created", None, 1, 0), ("static_restart", 4, 4, 1)],
    ),
    "a generation that is written again": (
        Log().batch(1, classic(1, [m("a")])).batch(4, classic(1, [m("b")])),
        [("created", None, 1, 0)],
    ),
    "deleted": (
        Log()
        .batch(1, classic(1))
        .batch(9, TOMBSTONE)
        .batch(20, classic(3, static("x-1"), state_seconds=19.9)),
        [("created", None, 1, 0), ("deleted", 9, 9, 1), ("created", 9, 19.9, 0)],
    ),
}


@pytest.mark.parametrize("case", EVENTS)
def test_events(case):
    log, events = EVENTS[case]
    names = ("event", "began_after", "began_before", "generation")
    told = history(log)
    assert (told.rebalances == []) == (events == [CREATED])
    assert [tuple(event[name] for name in names) for event in told.events] == [
        (event, None if after is None else at(after), at(by), generation)
        for event, after, by, generation in events
    ]


def test_what_else_a_row_says():
    whole = {"assignor": "range", "mode": "eager", "group_leader": "a", "group_type": "classic"}
    whole |= {"protocol_type": "consumer", "log_partition": 7, "members": 1, "prev_members": 0}
    left = Log().batch(1, classic(1, [m("a") | {"session_timeout_ms": 9}])).batch(2, classic(2))
    assert [row["silent_ms_max"] for row in history(left).rebalances] == [None, 9]
    shows(history(started()).rebalances[-1], first_offset=102, last_offset=102, **whole)
    emptied = history(started().batch(5, classic(2, protocol_type=""))).rebalances[-1]
    shows(emptied, assignor=None, group_leader=None, mode=None, protocol_type="consumer")
    both = history(two_phases().batch(6, TAKEN))
    shows(both.rebalances[-1], mode="cooperative", first_offset=104, last_offset=106)


def test_a_static_restart_names_both_ids():
    log = Log().batch(0, classic(0)).batch(1, classic(1, static("x-1", "y-1")))
    told = history(log.batch(4, classic(1, static("x-2", "y-1"))))
    assert len(told.rebalances) == 1
    shows(told.events[1], member_id="x-2", prev_member_id="x-1", instance_id="x")
    assert told.events[1]["client_id"] == "client-x-2"
    log.batch(60, classic(2, static("x-2", "y-1")))
    shows(history(log).rebalances[1], prev_members=2, members_joined=0, members_left=0)


def test_what_each_member_had_and_has():
    def members(log):
        return {
            each: (row["change"], parts(row, "before"), parts(row, "after"))
            for each, row in history(log).members[-1].items()
        }

    log = started().batch(5, classic(2, [m("a", LOW), m("b", {"t": [2, 3, 4]})]))
    assert members(log) == {"a": ("stayed", ALONE, LOW), "b": ("joined", {}, {"t": [2, 3, 4]})}
    # Who came in the first phase and left in the second.
    passed = two_phases().batch(6, cooperative(3, m("a", LOW), m("c", HIGH)))
    assert members(passed) == {
        "a": ("stayed", ALONE, LOW),
        "b": ("left", {}, {}),
        "c": ("joined", {}, HIGH),
    }
    older = Log().batch(9, classic(7, [m("a", ALONE)]))
    assert members(older) == {"a": ("unknown", None, ALONE)}
    connect = classic(1, [m("w", bytes_only=True)], protocol="s", protocol_type="connect")
    assert members(Log().batch(1, connect)) == {"w": ("joined", {}, None)}
    unread = Log().batch(1, classic(1, [m("a", bytes_only=True)]))
    assert members(unread) == {"a": ("joined", {}, None)}
    # A leader that assigns nothing to a consumer may send no bytes at all.
    nothing = m("a", bytes_only=True) | {"assignment_bytes": b""}
    assert members(Log().batch(1, classic(1, [nothing]))) == {"a": ("joined", {}, {})}


@pytest.mark.parametrize("unknown", [(1,), (2,), (1, 2)])
def test_a_subscription_whose_bytes_could_not_be_read_is_not_known(unknown):
    log = Log().batch(0, classic(0))
    for generation, has in ((1, ALONE), (2, MORE)):
        a = m("a", has) | ({"subscription": None} if generation in unknown else {})
        log.batch(generation, classic(generation, [a]))
    subscribed = None if 2 in unknown else ["t"]
    shows(history(log).rebalances[1], reasons=["same_members"], subscribed=subscribed)


def test_the_leader_epoch_of_a_rebalance_is_of_the_record_that_ended_it():
    log = two_phases()
    log.leader_epoch = 5
    assert history(log).rebalances[1]["ended_leader_epoch"] is None
    log.batch(6, TAKEN)
    log.leader_epoch = 6
    log.batch(9, cooperative(4, m("a", ALONE)))
    assert [row["ended_leader_epoch"] for row in history(log).rebalances] == [None, 5, 6]
    # The first that is read may repeat what ended before it.
    first = Log(leader_epoch=5).batch(9, cooperative(4, m("a", ALONE)))
    assert history(first).rebalances[0]["ended_leader_epoch"] is None


def test_a_first_phase_without_a_second_completed_as_it_was():
    told = history(two_phases().batch(9, cooperative(3)))
    assert [row["generation"] for row in told.rebalances] == [1, 2, 3]
    row = told.rebalances[1]
    shows(row, end_reason="completed", phases=1, counts=(2, 0, 0, 2))
    shows(row, ended_after=at(5), ended_before=at(5))


@pytest.mark.parametrize(
    ("others", "end_reason"),
    [
        ([m("b", {})], "completed"),
        # Another member gave up something too.
        ([m("a", {"t": [4]}, owned={"t": [4, 5]}), m("b", {})], None),
    ],
)
def test_a_static_member_that_restarts_does_not_join_again_for_what_it_gave_up(others, end_reason):
    """It lets go of everything, and the generation stays: nobody joins until something else
    happens.
    """
    others_before = [m("a", {"t": [4, 5]})] if len(others) > 1 else []
    log = taking(m("x-1", LOW, instance_id="x"), *others_before)
    halved = m("x-1", {"t": [0]}, owned=LOW, instance_id="x")
    log.batch(5, cooperative(2, halved, *others))
    assert history(log).rebalances[1]["end_reason"] is None
    restarted = m("x-2", {"t": [0]}, owned={}, instance_id="x")
    told = history(log.batch(6, cooperative(2, restarted, *others)))
    ended = at(5) if end_reason else None
    shows(told.rebalances[1], end_reason=end_reason, ended_before=ended, phases=1)
    assert told.names == ["created", "static_restart"]


# --- topics that are deleted: the next generation ends a rebalance, unless it takes ---

BOTH = {"t": [0, 1], "u": [0, 1]}


def of_both(member_id, has, owned=None):
    return m(member_id, has, owned, topics=["t", "u"])


def test_a_topic_is_deleted_while_another_joins():
    """A week later `b` leaves: that is a rebalance of its own."""
    log = taking(of_both("a", BOTH, {}))
    log.batch(100, cooperative(2, of_both("a", {"t": [0]}, BOTH), of_both("b", {}, {})))
    second = of_both("a", {"t": [0]}, {"t": [0]}), of_both("b", {"t": [1]}, {})
    log.batch(101, cooperative(3, *second))
    for _ in range(2):
        row = history(log).rebalances[1]
        shows(row, generation=3, phases=2, end_reason="completed", ended_before=at(101))
        shows(row, reasons=["member_joined"], counts=(1, 1, 0, 2))
        log.batch(7 * 86_400, cooperative(4, of_both("a", LOW, {"t": [0]})))
    assert len(history(log).rebalances) == 3


@pytest.mark.parametrize("is_told", [True, False])
def test_a_topic_is_deleted_and_its_partitions_are_given_up(is_told):
    """The second generation, in which nobody gets anything, belongs to the first one's rebalance.

    `is_told`: whether clients say what they join with.
    """
    log = taking(of_both("a", BOTH, {} if is_told else None))
    log.batch(100, cooperative(2, of_both("a", LOW, BOTH if is_told else None)))
    shows(history(log).rebalances[1], ended_before=None, reasons=["same_members"])
    log.batch(101, cooperative(3, of_both("a", LOW, LOW if is_told else None)))
    (_, row) = history(log).rebalances
    shows(row, generation=3, phases=2, ended_before=at(101))
    shows(row, reasons=["partitions_changed"], counts=(2, 0, 0, 2))


# --- assignments ---


@pytest.mark.parametrize(
    ("protocol", "had", "owned", "mode"),
    [
        ("range", ALONE, None, "eager"),
        ("roundrobin", ALONE, None, "eager"),
        ("sticky", ALONE, None, "eager"),
        ("cooperative-sticky", ALONE, None, "cooperative"),
        # Others by whether who joined had some, if it had some and says it.
        ("mine", ALONE, ALONE, "cooperative"),
        ("mine", ALONE, {}, "eager"),
        ("mine", ALONE, None, None),
        ("mine", {}, {}, None),
    ],
)
def test_how_an_assignor_rebalances(protocol, had, owned, mode):
    log = Log().batch(1, classic(1, [m("a", had)], protocol="mine"))
    log.batch(5, classic(2, [m("a", ALONE, owned)], protocol=protocol))
    assert [row["mode"] for row in history(log).rebalances] == [None, mode]
    # Names of assignors are of the consumer's protocol.
    other = classic(1, [m("a", ALONE, owned)], protocol=protocol, protocol_type="mine")
    assert history(Log().batch(1, other)).rebalances[0]["mode"] is None


def test_a_topic_that_an_assignment_names_twice_is_one_topic():
    """As librdkafka's cooperative-sticky assignor writes it."""
    took_over = m("a", LOW)
    took_over["assignment"]["partitions"] = [
        {"topic": "t", "partitions": numbers} for numbers in ([1, 0], [2])
    ]
    log = taking(m("a", LOW), m("b", {"t": [2]})).batch(9, cooperative(2, took_over))
    shows(history(log).rebalances[-1], end_reason="completed", phases=1, counts=(2, 1, 0, 0))


@pytest.mark.parametrize("version", range(RECORD_TYPES[2].value.last_version + 1))
def test_a_group_in_each_version_of_its_record(version):
    """Kafka writes version 0 before 0.10.1, 1 before 2.1, 2 before 2.3, 3 since: by
    inter.broker.protocol.version.
    """
    groups = (1, {"a": [0, 1, 2, 3]}), (2, {"a": [0, 1], "b": [2, 3]}), (3, {"a": [0, 1, 2, 3, 4]})
    told = history(written(version, *groups, (4, {}), None, (2, {"c": [0, 1]})))
    assert told.names == ["created", "deleted", "created"]
    assert [gist(row) for row in told.rebalances] == [
        NEW,
        (*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0)),
        (*DONE, (2, 3, 0), (0, 1, 0), "member_left", (2, 2, 1, 0)),
        ("emptied", 1, (3, 4, 0), (0, 1, 0), "member_left group_emptied", (0, 0, 0, 5)),
        (*DONE, (0, 2, 1), (1, 0, 0), "member_joined", (0, 0, 2, 0)),
    ]
    # The state's timestamp, from version 2 on, is when the join phase ended.
    assert [row["began_before"] for row in told.rebalances[:2]] == (
        [at(-1), at(9)] if version > 1 else [at(0), at(10)]
    )
