"""Groups with epochs (consumer, share, streams) and conversions: what shared rules say of their
records, one test a rule.
"""

import pytest

from tests.support.group_records import (
    CONSUMER,
    SHARE,
    STREAMS,
    Kind,
    Log,
    at,
    classic,
    classic_member,
    counts,
    history,
    parts,
)

ALL, LOW, HIGH = {"T": [0, 1, 2, 3]}, {"T": [0, 1]}, {"T": [2, 3]}
C = CONSUMER


def started(kind: Kind = C, **member):
    """A group that was made by the member `a`, which has everything at epoch 1."""
    return Log().batch(
        0,
        kind.member("a", **member),
        kind.epoch(1),
        kind.target("a", ALL),
        kind.target_epoch(1),
        kind.current("a", 1, ALL),
    )


def joining(kind: Kind = C, **member):
    """`b` joins, and waits for what `a` has."""
    return started(kind).batch(
        5,
        kind.member("b", **member),
        kind.epoch(2),
        kind.target("a", LOW),
        kind.target("b", HIGH),
        kind.target_epoch(2),
        kind.current("b", 2, {}, waits=True),
    )


def joined(kind: Kind = C, **member):
    log = joining(kind, **member).batch(6, kind.current("a", 1, LOW, pending=HIGH))
    return log.batch(7, kind.current("a", 2, LOW)).batch(8, kind.current("b", 2, HIGH))


@pytest.mark.parametrize("kind", [CONSUMER, SHARE, STREAMS], ids=lambda kind: kind.name)
def test_a_join_begins_with_the_epoch_and_ends_when_every_member_is_stable_at_it(kind):
    log = joined(kind)
    told = history(log)
    assert told.names == ["created"]
    assert len(told.rebalances) == 2
    row = told.rebalances[1]
    assert (
        row
        | {
            "group_type": kind.name,
            "generation": 2,
            "prev_generation": 1,
            "skipped_generations": 0,
            "began_after": at(5),
            "began_before": at(5),
            "ended_after": at(8),
            "ended_before": at(8),
            "duration_ms_min": 3000,
            "duration_ms_max": 3000,
            "since_previous_ms": 5000,
            "first_offset": 107,
            "members": 2,
            "prev_members": 1,
            "members_joined": 1,
            "members_left": 0,
            "reasons": ["member_joined"],
            "mode": None if kind is SHARE else "cooperative",
            "phases": 1,
            "end_reason": "completed",
            "protocol_type": None,
            "group_leader": None,
        }
        == row
    )
    assert counts(row) == (2, 2, 0, 0)
    b = told.members[1]["b"]
    assert parts(b, "after") == HIGH
    assert (b["after"][0]["topic"] is None) == (kind is not STREAMS)


def test_equal_epochs_are_not_enough():
    told = history(joining().batch(6, C.current("a", 2, LOW)))
    row = told.rebalances[1]
    assert (row["ended_before"], row["end_reason"], row["last_offset"]) == (None, None, 113)
    assert counts(row) == (2, 2, 0, 0)  # by the target
    assert parts(told.members[1]["b"], "after") == HIGH


def test_the_leader_epoch_of_a_rebalance_is_of_the_record_that_ended_it():
    log = joining()
    log.leader_epoch = 5
    log.batch(7, C.current("a", 2, LOW))
    log.leader_epoch = 6
    log.batch(8, C.current("b", 2, HIGH)).batch(9, C.member("c"), C.epoch(3))
    assert [row["ended_leader_epoch"] for row in history(log).rebalances] == [None, 6, None]


def test_nothing_is_said_of_moves_before_there_is_a_target():
    told = history(started().batch(5, C.member("b"), C.epoch(2)))
    assert counts(told.rebalances[1]) == (None, None, None, None)


def of_one_batch(kind, epoch, prev_epoch=None, also=()):
    current = kind.current("a", epoch, ALL, prev_epoch=prev_epoch)
    records = kind.epoch(epoch), kind.target("a", ALL), kind.target_epoch(epoch), current
    return history(Log().batch(0, *also, kind.member("a"), *records))


@pytest.mark.parametrize(("kind", "epoch"), [(CONSUMER, 1), (SHARE, 1), (STREAMS, 1), (STREAMS, 2)])
def test_the_first_epoch_is_no_gap(kind, epoch):
    """That of a streams group of Kafka 4.2 is 2."""
    told = of_one_batch(kind, epoch)
    assert told.names == ["created"]
    (row,) = told.rebalances
    assert (row["skipped_generations"], row["prev_members"], row["members_joined"]) == (0, 0, 1)
    assert counts(row) == (0, 0, 4, 0)


@pytest.mark.parametrize("kind", [CONSUMER, SHARE, STREAMS])
def test_the_first_epoch_is_2_if_its_only_member_comes_from_none(kind):
    """Of groups that Kafka 4.4 makes."""
    told = of_one_batch(kind, 2, prev_epoch=0)
    assert told.names == ["created"]
    (row,) = told.rebalances
    assert (row["skipped_generations"], row["prev_members"], row["members_joined"]) == (0, 0, 1)
    assert counts(row) == (0, 0, 4, 0)


@pytest.mark.parametrize(("prev_epoch", "others"), [(1, []), (0, ["b"])])
@pytest.mark.parametrize("kind", [CONSUMER, SHARE])
def test_a_second_epoch_that_compaction_left_alone_is_not_the_first(kind, prev_epoch, others):
    told = of_one_batch(kind, 2, prev_epoch, [kind.member(other) for other in others])
    assert told.names == []
    (row,) = told.rebalances
    assert (row["prev_generation"], row["prev_members"], row["members_joined"], row["reasons"]) == (
        None,
    ) * 4


def test_an_older_group_is_not_taken_for_a_new_one():
    log = Log().batch(
        0, C.member("a"), C.epoch(3), C.target("a", ALL), C.target_epoch(3), C.current("a", 3, ALL)
    )
    log.batch(
        5, C.member("b"), C.epoch(4), C.target("a", LOW), C.target("b", HIGH), C.target_epoch(4)
    )
    log.batch(6, C.current("a", 4, LOW)).batch(7, C.current("b", 4, HIGH))
    told = history(log)
    assert told.names == []
    first, second = told.rebalances
    assert (first["reasons"], first["prev_generation"], first["members"]) == (None, None, 1)
    assert (second["reasons"], second["prev_generation"], second["members_joined"]) == (
        ["member_joined"],
        3,
        1,
    )


def test_a_member_that_shows_up_late_in_a_group_that_is_not_known_prolongs_what_was_told():
    log = (
        Log()
        .batch(5, C.member("b"), C.epoch(9), C.target_epoch(9), C.current("b", 9, HIGH))
        .batch(7, C.current("a", 9, LOW))
    )
    (row,) = history(log).rebalances
    assert (row["members"], row["ended_before"]) == (2, at(7))


def test_a_static_member_whose_own_record_was_read_late_is_one_member():
    """The assignment was read before the subscription, which has the instance id: still one
    member.
    """
    log = Log().batch(5, C.epoch(9), C.target("a", ALL), C.target_epoch(9), C.current("a", 9, ALL))
    log.batch(
        7,
        C.member("a", ["t", "u"], instance_id="x"),
        C.epoch(10),
        C.target_epoch(10),
        C.current("a", 10, ALL),
    )
    told = history(log)
    row = told.rebalances[1]
    assert (row["members_joined"], row["members_left"], row["prev_members"]) == (0, 0, 1)
    assert [member["change"] for member in told.members[1].values()] == ["stayed"]


def test_overtaken_epochs_belong_to_the_rebalance_that_converged():
    log = joining()
    log.batch(5.5, C.member("c"), C.epoch(3))
    log.batch(6, *C.gone("c"), C.epoch(4))
    log.batch(7, C.target_epoch(4), C.current("a", 4, LOW)).batch(8, C.current("b", 4, HIGH))
    told = history(log)
    row = told.rebalances[1]
    assert (row["prev_generation"], row["generation"], row["skipped_generations"]) == (1, 4, 2)
    assert (row["members"], row["members_joined"], row["members_left"]) == (2, 2, 1)
    assert row["reasons"] == ["member_joined", "member_left"]
    assert told.members[1]["c"]["change"] == "left"
    assert (row["began_before"], row["ended_before"]) == (at(5), at(8))


def test_a_static_member_that_came_restarted_and_went_meanwhile_is_one():
    log = joining().batch(6, C.member("x1", instance_id="x"), C.epoch(3))
    log.batch(
        7,
        *C.gone("x1"),
        C.member("x2", instance_id="x"),
        C.target("x2", {}),
        C.current("x2", 0, {}),
    )
    log.batch(8, *C.gone("x2"), C.epoch(4))
    row, members = history(log).rebalances[1], history(log).members[1]
    assert (row["members_joined"], row["members_left"], row["members"]) == (2, 1, 2)
    assert set(members) == {"a", "b", "x2"}


def test_a_leave_is_a_rebalance_though_its_target_comes_later():
    log = joined().batch(20, *C.gone("b"), C.epoch(3))
    row = history(log).rebalances[2]
    assert (row["ended_before"], row["members_left"], row["members"]) == (None, 1, 1)
    log.batch(21, C.target("a", ALL), C.target_epoch(3), C.current("a", 3, ALL))
    row = history(log).rebalances[2]
    assert (row["began_before"], row["ended_before"], row["reasons"]) == (
        at(20),
        at(21),
        ["member_left"],
    )
    assert counts(row) == (2, 2, 0, 0)


def test_the_straggler_leaving_does_not_complete_what_it_held_up():
    log = joining().batch(6, C.current("a", 2, LOW)).batch(7, *C.gone("b"), C.epoch(3))
    row = history(log).rebalances[1]
    assert (row["ended_before"], row["generation"], row["skipped_generations"]) == (None, 3, 1)


def test_the_last_leave_is_an_epoch_only_and_ends_at_once():
    row = history(started().batch(9, *C.gone("a"), C.epoch(2))).rebalances[1]
    assert (row["end_reason"], row["began_before"], row["ended_before"], row["members"]) == (
        "emptied",
        at(9),
        at(9),
        0,
    )
    assert row["reasons"] == ["member_left", "group_emptied"]
    assert counts(row) == (0, 0, 0, 4)


def test_a_static_leave_and_return_is_an_event_only():
    log = started(instance_id="x").batch(9, C.current("a", -2, ALL))
    log.batch(
        12,
        *C.gone("a"),
        C.member("a2", instance_id="x"),
        C.target("a2", ALL),
        C.current("a2", 1, ALL),
    )
    told = history(log)
    assert len(told.rebalances) == 1
    assert told.names == ["created", "static_restart"]
    event = told.events[1]
    assert (event["prev_member_id"], event["member_id"], event["generation"], event["offset"]) == (
        "a",
        "a2",
        1,
        111,
    )


def test_a_member_whose_record_comes_again_in_a_batch_is_no_restart():
    """A static member may be back under the id that it had: its tombstones come first."""
    log = started(instance_id="x").batch(9, C.current("a", -2, ALL))
    again = C.member("a", instance_id="x"), C.target("a", ALL), C.current("a", 1, ALL)
    assert history(log.batch(12, *C.gone("a"), *again)).names == ["created"]


def test_a_static_member_that_does_not_return_timed_out():
    log = (
        joined(instance_id="x")
        .batch(9, C.current("b", -2, HIGH))
        .batch(60, *C.gone("b"), C.epoch(3))
    )
    told = history(log)
    assert told.names == ["created"]
    assert told.rebalances[2]["reasons"] == ["static_member_left"]


def test_a_static_member_back_with_another_subscription_restarts_in_a_rebalance():
    log = started(instance_id="x").batch(
        12,
        *C.gone("a"),
        C.member("a2", ["t", "u"], instance_id="x"),
        C.target("a2", ALL),
        C.current("a2", 1, ALL),
        C.epoch(2, metadata_hash=2),
        C.target("a2", ALL | {"U": [0]}),
        C.target_epoch(2),
        C.current("a2", 2, ALL | {"U": [0]}),
    )
    told = history(log)
    row = told.rebalances[1]
    assert (
        row["members_restarted"],
        row["members_joined"],
        row["members_left"],
        row["reasons"],
    ) == (
        1,
        0,
        0,
        ["subscription_changed"],
    )
    assert counts(row) == (4, 0, 1, 0)


GROWN = {"T": [0, 1, 2, 3, 4, 5]}


@pytest.mark.parametrize(
    ("metadata_hash", "has", "reason"),
    [
        (2, GROWN, "partitions_changed"),
        (2, LOW, "partitions_changed"),
        (2, ALL, "metadata_changed"),
        (1, ALL, "same_members"),
    ],
    ids=["grew", "made again with less", "another rack", "as before"],
)
def test_a_metadata_hash_that_changed_under_the_same_subscription(metadata_hash, has, reason):
    log = started().batch(
        9, C.epoch(2, metadata_hash), C.target("a", has), C.target_epoch(2), C.current("a", 2, has)
    )
    assert history(log).rebalances[1]["reasons"] == [reason]


def test_whether_partitions_changed_is_not_known_before_there_is_a_target():
    log = started().batch(9, C.epoch(2, 2))
    assert history(log).rebalances[1]["reasons"] == ["metadata_changed"]
    log.batch(10, C.target("a", GROWN), C.target_epoch(2), C.current("a", 2, GROWN))
    assert history(log).rebalances[1]["reasons"] == ["partitions_changed"]


# --- Kafka 3.7 to 4.0, which keep what is known of topics in records of their own, and no hash ---


def grown(*records, has=ALL, **member):
    """`a` has everything of t, in 4 partitions, at epoch 1; at epoch 2, with `records` before it,
    what it `has`.
    """
    log = Log().batch(0, C.member("a", **member), C.partition_metadata({"t": 4}), C.epoch(1, 0))
    log.batch(1, C.target("a", ALL), C.target_epoch(1), C.current("a", 1, ALL))
    return log.batch(9, *records, C.epoch(2, 0)).batch(
        10, C.target("a", has), C.target_epoch(2), C.current("a", 2, has)
    )


@pytest.mark.parametrize(
    ("records", "has", "reason"),
    [
        ([C.partition_metadata({"t": 6})], GROWN, "partitions_changed"),
        ([C.partition_metadata({"t": 6})], ALL, "metadata_changed"),
        ([], ALL, "same_members"),
        ([C.partition_metadata({"t": 4})], ALL, "same_members"),
        (
            [C.member("a", ["t", "u"]), C.partition_metadata({"t": 4, "u": 2})],
            ALL,
            "subscription_changed",
        ),
    ],
    ids=["grew", "nothing was added", "no record", "as before", "another subscription"],
)
def test_partition_metadata_that_changed_under_the_same_subscription(records, has, reason):
    told = history(grown(*records, has=has))
    assert told.names == ["created"]
    assert told.rebalances[1]["reasons"] == [reason]


def test_a_topic_that_grew_while_a_rebalance_went_on():
    log = Log().batch(0, C.member("a"), C.partition_metadata({"t": 4}), C.epoch(1, 0))
    log.batch(1, C.target("a", ALL), C.target_epoch(1), C.current("a", 1, ALL))
    log.batch(5, C.member("b"), C.epoch(2, 0)).batch(
        6, C.partition_metadata({"t": 6}), C.epoch(3, 0)
    )
    log.batch(7, C.target_epoch(3), C.current("a", 3, LOW), C.current("b", 3, {"T": [2, 3, 4, 5]}))
    row = history(log).rebalances[1]
    assert (row["generation"], row["reasons"]) == (3, ["member_joined", "partitions_changed"])


def test_partition_metadata_that_is_first_written_to_a_group_that_was_there_changed():
    """A topic that was not there when members subscribed to it, or of which the records before were
    not read.
    """
    log = Log().batch(
        0, C.member("a"), C.epoch(1, 0), C.target("a", {}), C.target_epoch(1), C.current("a", 1, {})
    )
    log.batch(9, C.partition_metadata({"t": 4}), C.epoch(2, 0))
    log.batch(10, C.target("a", ALL), C.target_epoch(2), C.current("a", 2, ALL))
    assert history(log).rebalances[1]["reasons"] == ["partitions_changed"]


@pytest.mark.parametrize(
    "after", [[(4, None, None), C.epoch(2, 7)], [C.partition_metadata({"t": 4}), C.epoch(2, 0)]]
)
def test_another_version_of_kafka_that_keeps_it_otherwise_tells_no_growth(after):
    before = (
        [C.partition_metadata({"t": 4}), C.epoch(1, 0)] if after[0][2] is None else [C.epoch(1, 7)]
    )
    log = Log().batch(
        0, C.member("a"), *before, C.target("a", ALL), C.target_epoch(1), C.current("a", 1, ALL)
    )
    log.batch(9, *after).batch(10, C.target_epoch(2), C.current("a", 2, ALL))
    assert history(log).rebalances[1]["reasons"] == ["same_members"]


def test_a_pattern_that_matched_anew():
    def resolved(*topics):
        return (16, None, {"regex": "t.*", "topics": list(topics)})

    log = Log().batch(
        0, C.member("a", [], regex="t.*"), C.epoch(1), C.target_epoch(1), C.current("a", 1, {})
    )
    log.batch(1, resolved("t"), C.epoch(2, 2), C.target_epoch(2), C.current("a", 2, ALL))
    log.batch(
        9,
        resolved("t", "t2"),
        C.epoch(3, 3),
        C.target_epoch(3),
        C.current("a", 3, ALL | {"T2": [0]}),
    )
    log.batch(
        20, C.member("b", [], regex="t.*"), C.epoch(4, 3), C.target_epoch(4), C.current("a", 4, ALL)
    ).batch(21, C.current("b", 4, {"T2": [0]}))
    reasons = [row["reasons"] for row in history(log).rebalances]
    assert reasons[1:] == [["partitions_changed"], ["partitions_changed"], ["member_joined"]]


def test_a_pattern_that_nobody_has_any_more_is_no_reason():
    log = started(topics=[], regex="t.*").batch(
        1, (16, None, {"regex": "t.*", "topics": ["t"]}), C.epoch(2), C.target_epoch(2)
    )
    log.batch(2, C.current("a", 2, ALL))
    unresolved = (16, None, None)
    log.batch(
        9, C.member("a", ["t"]), unresolved, C.epoch(3), C.target_epoch(3), C.current("a", 3, ALL)
    )
    log.rows[-4]["regular_expression"] = {"regex": "t.*"}  # a tombstone has what its key tells
    assert history(log).rebalances[2]["reasons"] == ["subscription_changed"]


def test_the_assignor_that_members_ask_for():
    log = started(assignor="uniform").batch(
        9, C.member("a", assignor="range"), C.epoch(2), C.target_epoch(2), C.current("a", 2, ALL)
    )
    rows = history(log).rebalances
    assert [row["assignor"] for row in rows] == ["uniform", "range"]
    assert rows[1]["reasons"] == ["assignor_changed"]


def share_state(made=(), **making):
    """State of one partition of each topic, by id: name."""
    parts = [
        [
            {"topic_id": topic_id, "topic": name, "partitions": [0]}
            for topic_id, name in dict(of).items()
        ]
        for of in (making, made)
    ]
    return (15, None, dict(zip(("initializing", "initialized"), parts, strict=True)))


def wanting_another_topic():
    """A share group whose member wants a second topic, of which state is being made."""
    s, has = SHARE, {"T": [0]}
    log = Log().batch(
        0, s.member("a"), s.epoch(1), s.target("a", has), s.target_epoch(1), s.current("a", 1, has)
    )
    return log.batch(
        10,
        s.member("a", ("t", "u")),
        s.epoch(2, 2),
        s.target_epoch(2),
        s.current("a", 2, has),
        share_state(U="u"),
    )


def test_a_topic_that_nobody_wants_any_more_is_worth_no_epoch_of_a_share_group():
    s, log = SHARE, wanting_another_topic()
    assert history(log).rebalances[1]["ended_before"] is None
    log.batch(10.5, s.member("a"), s.epoch(3), s.target_epoch(3), s.current("a", 3, {"T": [0]}))
    log.batch(11, share_state(made={"U": "u"}))
    for _ in range(2):
        row = history(log).rebalances[1]
        assert (row["generation"], row["skipped_generations"], row["ended_before"]) == (
            3,
            0,
            at(10.5),
        )
        log.batch(86_400, s.member("b"), s.epoch(4), s.target("b", {"T": [0]}), s.target_epoch(4))
    assert len(history(log).rebalances) == 3


@pytest.mark.parametrize("epoch_first", [True, False])
def test_a_topic_that_is_deleted_is_worth_no_epoch_of_a_share_group(epoch_first):
    s, log = SHARE, wanting_another_topic()
    if epoch_first:
        log.batch(11, s.epoch(3, 3), s.target_epoch(3), s.current("a", 3, {"T": [0]}))
    row = history(log.batch(12, share_state())).rebalances[1]
    assert (row["generation"], row["ended_before"]) == (3 if epoch_first else 2, at(12))


def test_state_that_is_made_before_there_is_a_target_is_worth_no_epoch_of_its_own():
    """The target may wait for assignment.interval.ms, and then has what was made meanwhile."""
    s, has = SHARE, {"T": [0], "U": [0]}
    log = Log().batch(0, s.member("a"), s.epoch(1), s.target("a", {"T": [0]}), s.target_epoch(1))
    log.batch(1, s.current("a", 1, {"T": [0]})).batch(
        10, s.member("a", ("t", "u")), s.epoch(2, 2), share_state(U="u")
    )
    log.batch(11, share_state(made={"U": "u"}))
    log.batch(12, s.target("a", has), s.target_epoch(2), s.current("a", 2, has))
    assert history(log).rebalances[1]["ended_before"] == at(12)


def test_the_extra_epoch_for_state_of_a_share_group_is_part_of_the_join():
    s = SHARE
    log = Log().batch(
        0,
        s.member("a"),
        s.epoch(1),
        s.target("a", {}),
        s.target_epoch(1),
        s.current("a", 1, {}),
        share_state(T="t"),
    )
    assert history(log).rebalances[0]["ended_before"] is None
    log.batch(1, share_state(made={"T": "t"}))
    assert history(log).rebalances[0]["ended_before"] is None
    log.batch(3, s.epoch(2), s.target("a", ALL), s.target_epoch(2), s.current("a", 2, ALL))
    told = history(log)
    (row,) = told.rebalances
    assert (row["generation"], row["skipped_generations"], row["ended_before"], row["reasons"]) == (
        2,
        0,
        at(3),
        ["member_joined"],
    )
    assert counts(row) == (0, 0, 4, 0)


def test_a_partition_that_members_of_a_share_group_share_is_kept_where_one_stays():
    s = SHARE
    log = started(s).batch(
        5, s.member("b"), s.epoch(2), s.target("b", ALL), s.target_epoch(2), s.current("b", 2, ALL)
    )
    log.batch(6, s.current("a", 2, {"T": [0, 1, 2]}))
    assert counts(history(log).rebalances[1]) == (3, 1, 0, 0)


def test_a_new_topology_of_a_streams_group():
    s = STREAMS
    log = started(s, topics=None, topology_epoch=1).batch(
        9,
        (23, None, {"epoch": 2}),
        s.member("a", None, topology_epoch=2),
        s.epoch(2, 2),
        s.target_epoch(2),
        s.current("a", 2, ALL),
    )
    row = history(log).rebalances[1]
    assert (row["reasons"], row["protocol_type"]) == (["subscription_changed"], None)


def test_deleted_and_made_again():
    log = started().batch(5, *C.gone("a"), C.epoch(2)).batch(9, *C.deleted())
    log.batch(
        20, C.member("b"), C.epoch(1), C.target("b", ALL), C.target_epoch(1), C.current("b", 1, ALL)
    )
    told = history(log)
    assert told.names == ["created", "deleted", "created"]
    row = told.rebalances[2]
    assert (row["prev_generation"], row["skipped_generations"], row["since_previous_ms"]) == (
        0,
        0,
        None,
    )


def test_lost_records_end_what_went_on_and_the_next_converged_epoch_is_known_again():
    log = joining()
    log.span("lost", log.next_offset, 200, seconds=30)
    log.batch(40, C.member("c"), C.epoch(7), C.target_epoch(7), C.current("c", 7, {})).batch(
        41, C.current("a", 7, LOW)
    )
    log.batch(50, *C.gone("c"), C.epoch(8)).batch(51, C.target_epoch(8), C.current("a", 8, LOW))
    told = history(log)
    assert [row["end_reason"] for row in told.rebalances] == [
        "completed",
        "unknown",
        "completed",
        "completed",
    ]
    assert [row["reasons"] for row in told.rebalances[2:]] == [None, ["member_left"]]
    assert told.names == ["created", "records_lost"]


def test_an_unknown_group_at_a_small_epoch_after_a_loss_is_not_new():
    log = started()
    log.span("lost", log.next_offset, 200, seconds=30)
    log.batch(40, C.member("b"), C.epoch(2), C.target_epoch(2), C.current("b", 2, {}))
    told = history(log)
    assert told.names == ["created", "records_lost"]
    assert told.rebalances[1]["prev_members"] is None


# --- conversions ---


def classic_group(*members):
    return Log().batch(0, classic(0)).batch(1, classic(1, members)).batch(2, classic(5, members))


def upgraded():
    """A consumer of KIP-848 joins a classic group: one batch says the group as it was, and then the
    join.
    """
    log = classic_group(classic_member("a", has={"t": [0, 1, 2, 3]}))
    return log.batch(
        9,
        (2, None, None),
        C.member("a", protocols=[{"name": "range"}]),
        C.epoch(5, 0),
        C.target("a", ALL),
        C.target_epoch(5),
        C.current("a", 5, ALL),
        C.member("b"),
        C.epoch(6),
        C.target("a", LOW),
        C.target("b", HIGH),
        C.target_epoch(6),
        C.current("b", 6, {}, waits=True),
    )


def test_a_conversion_to_the_consumer_protocol_is_followed():
    log = upgraded().batch(10, C.current("a", 6, LOW)).batch(11, C.current("b", 6, HIGH))
    told = history(log)
    assert told.names == ["created", "converted"]
    event = told.events[1]
    assert (event["prev_group_type"], event["group_type"], event["offset"]) == (
        "classic",
        "consumer",
        106,
    )
    row = told.rebalances[2]
    assert (row["group_type"], row["prev_group_type"], row["prev_generation"]) == (
        "consumer",
        "classic",
        5,
    )
    assert (row["generation"], row["skipped_generations"], row["members_joined"]) == (6, 0, 1)
    assert row["reasons"] == ["member_joined", "converted"]
    assert counts(row) == (2, 2, 0, 0)


def test_a_conversion_back_is_followed_with_the_member_that_left():
    log = upgraded().batch(10, C.current("a", 6, LOW)).batch(11, C.current("b", 6, HIGH))
    restated = classic(6, [classic_member("a", has={"t": [0, 1]})])
    log.batch(20, *C.gone("b"), *C.gone("a"), *C.deleted(), restated)
    log.batch(22, classic(7, [classic_member("a", has={"t": [0, 1, 2, 3]})], state_seconds=21.9))
    told = history(log)
    assert told.names == ["created", "converted", "converted"]
    assert len(told.rebalances) == 4
    row = told.rebalances[3]
    assert (row["group_type"], row["prev_group_type"], row["prev_members"]) == (
        "classic",
        "consumer",
        2,
    )
    assert (row["generation"], row["prev_generation"], row["skipped_generations"]) == (7, 6, 0)
    assert row["reasons"] == ["member_left", "converted"]


def test_a_conversion_back_whose_only_record_is_the_next_generation():
    log = joined().batch(
        20,
        *C.gone("b"),
        *C.gone("a"),
        *C.deleted(),
        classic(3, [classic_member("a", has={"t": [0]})]),
    )
    told = history(log)
    row = told.rebalances[2]
    assert (
        row["prev_group_type"],
        row["prev_generation"],
        row["skipped_generations"],
        row["members_left"],
    ) == (
        "consumer",
        2,
        0,
        1,
    )
    assert counts(row) == (None, None, None, None)  # topics by id before, by name after


@pytest.mark.parametrize("has", [ALL, GROWN], ids=["as before", "grew"])
def test_a_conversion_tells_no_change_of_partitions(has):
    """Each protocol has its own way to name them, and to keep what is known of topics."""
    log = classic_group(classic_member("a", has={"t": [0, 1, 2, 3]})).batch(
        9,
        (2, None, None),
        C.member("a", protocols=[{"name": "range"}]),
        C.partition_metadata({"t": 4}),
        C.epoch(5, 0),
        C.target("a", ALL),
        C.target_epoch(5),
        C.current("a", 5, ALL),
        C.epoch(6, 0),
        C.target("a", has),
        C.target_epoch(6),
        C.current("a", 6, has),
    )
    there = history(log).rebalances[2]
    assert (there["partitions_added"], there["reasons"]) == (len(has["T"]) - 4, ["converted"])
    log = joined().batch(
        20, *C.gone("b"), *C.gone("a"), *C.deleted(), classic(2, members := old_members())
    )
    back = history(log.batch(21, classic(3, members))).rebalances[2]
    assert (back["members_left"], back["reasons"]) == (0, ["converted"])


def old_members():
    return [classic_member("a", has={"t": [0, 1]}), classic_member("b", has={"t": [2, 3]})]


def test_a_conversion_before_a_rebalance_completed_ends_it():
    log = joining().batch(
        6,
        *C.gone("b"),
        *C.gone("a"),
        *C.deleted(),
        classic(2, [classic_member("a", has={"t": [0]})]),
    )
    row = history(log).rebalances[1]
    assert (row["end_reason"], row["ended_before"]) == ("converted", at(6))


def test_an_empty_classic_group_that_is_taken_over_starts_afresh():
    log = classic_group(classic_member("a")).batch(5, classic(6))
    log.batch(
        9,
        (2, None, None),
        C.member("b"),
        C.epoch(1),
        C.target("b", ALL),
        C.target_epoch(1),
        C.current("b", 1, ALL),
    )
    told = history(log)
    assert told.names == ["created", "deleted", "created"]
    row = told.rebalances[-1]
    assert (row["prev_group_type"], row["prev_generation"], row["reasons"]) == (
        None,
        0,
        ["member_joined"],
    )


@pytest.mark.parametrize(
    ("protocols", "event"), [([{"name": "range"}], "converted"), (None, "deleted")]
)
def test_a_group_of_which_only_the_tombstone_was_read(protocols, event):
    log = Log().batch(9, (2, None, None), C.member("a", protocols=protocols), C.epoch(5))
    assert history(log).names[0] == event


# --- runs ---


def test_every_cut_gives_the_same():
    log = upgraded().batch(10, C.current("a", 6, LOW)).batch(11, C.current("b", 6, HIGH))
    log.batch(
        20,
        *C.gone("b"),
        *C.gone("a"),
        *C.deleted(),
        classic(6, [classic_member("a", has={"t": [0, 1]})]),
    )
    log.batch(22, classic(7, [classic_member("a", has={"t": [0, 1]})]))
    log.span("lost", log.next_offset, 300, seconds=30)
    log.batch(40, C.member("c"), C.epoch(8), C.target_epoch(8), C.current("c", 8, {})).batch(
        41, C.current("a", 8, LOW)
    )
    whole = history(log)
    for cut in range(len(log.rows)):
        assert history(log, [cut]) == whole
    assert history(log, range(len(log.rows))) == whole
