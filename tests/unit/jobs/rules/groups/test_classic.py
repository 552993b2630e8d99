"""Classic groups: what shared rules say of type 2 records, one test a rule."""

import json
from dataclasses import replace

import pytest

from jobs.rules.groups.fold import fold
from jobs.rules.groups.rows import GroupOutput
from jobs.rules.groups.state import (
    Gone,
    Member,
    Moment,
    Rebalance,
    Standing,
    State,
    from_json,
    to_json,
    to_micros,
)
from metadata_source.protocol.group_records import decode_records
from metadata_source.protocol.group_specs import ASSIGNMENT, RECORD_TYPES, SUBSCRIPTION
from schemas.groups import GROUP_EVENTS, REBALANCE_MEMBERS, REBALANCES
from tests.support.group_messages import embedded, key_bytes, value_bytes
from tests.support.group_records import Log, at, classic, classic_member, counts, history, parts

ALONE = {"t": [0, 1, 2, 3]}


def started(**options):
    """A group that was created, and has one member since generation 1."""
    log = Log().batch(0, classic(0, protocol_type=""))
    return log.batch(1, classic(1, [classic_member("a", has=ALONE)], state_seconds=0.99, **options))


def test_generation_0_without_members_is_the_creation_and_no_rebalance():
    told = history(Log().batch(0, classic(0, protocol_type="")))
    assert (told.names, told.rebalances) == (["created"], [])
    event = told.events[0]
    assert (event["began_after"], event["began_before"], event["offset"], event["generation"]) == (
        at(0),
        at(0),
        100,
        0,
    )


def test_each_completed_rebalance_is_one_row_with_its_times():
    told = history(started())
    (row,) = told.rebalances
    assert (
        row
        | {
            "generation": 1,
            "prev_generation": 0,
            "skipped_generations": 0,
            "members": 1,
            "prev_members": 0,
            "members_joined": 1,
            "members_left": 0,
            "members_restarted": 0,
            "reasons": ["member_joined"],
            "began_after": at(0),
            "began_before": at(0.99),
            "ended_after": at(1),
            "ended_before": at(1),
            "end_reason": "completed",
            "duration_ms_min": 10,
            "duration_ms_max": 1000,
            "assignor": "range",
            "mode": "eager",
            "phases": 1,
            "group_leader": "a",
            "group_type": "classic",
            "protocol_type": "consumer",
            "log_partition": 7,
            "since_previous_ms": None,
            "stickiness": None,
        }
        == row
    )
    assert counts(row) == (0, 0, 4, 0)


def test_who_may_have_died_had_been_silent_for_a_session_at_most():
    a, b, c = (
        classic_member(name) | {"session_timeout_ms": timeout}
        for name, timeout in (("a", 6_000), ("b", 45_000), ("c", 9))
    )
    log = (
        Log()
        .batch(1, classic(1, [a, b, c], state_seconds=0.9))
        .batch(60, classic(2, [c], state_seconds=50))
    )
    joined, left = history(log).rebalances
    assert (joined["silent_ms_max"], left["silent_ms_max"]) == (None, 45_000)


def test_rows_have_the_columns_that_the_log_alone_can_give():
    told = history(started().batch(2, classic(2, [])))
    of_others = {
        "id",
        "cluster",
        "cluster_id",
        "group_id",
        "source",
        "updated_at",
        "is_live",
        "part",
    }
    assert set(told.rebalances[0]) == set(REBALANCES.column_names) - of_others
    assert set(told.members[0]["a"]) == set(REBALANCE_MEMBERS.column_names) - of_others - {
        "rebalance_id"
    }
    assert set(told.events[0]) == set(GROUP_EVENTS.column_names) - of_others


def test_who_joined_and_what_moved():
    log = started().batch(
        5,
        classic(
            2,
            [classic_member("a", has={"t": [0, 1]}), classic_member("b", has={"t": [2, 3, 4]})],
            state_seconds=4.9,
        ),
    )
    told = history(log)
    row = told.rebalances[1]
    assert (row["members_joined"], row["members_left"], row["members"], row["prev_members"]) == (
        1,
        0,
        2,
        1,
    )
    assert counts(row) == (2, 2, 1, 0)
    assert row["stickiness"] == pytest.approx(0.5)
    assert row["since_previous_ms"] == 3900
    members = told.members[1]
    assert (members["a"]["change"], members["b"]["change"]) == ("stayed", "joined")
    assert (parts(members["a"], "before"), parts(members["a"], "after")) == (ALONE, {"t": [0, 1]})
    assert (parts(members["b"], "before"), parts(members["b"], "after")) == ({}, {"t": [2, 3, 4]})


def test_a_gap_of_generations_counts_those_that_never_completed():
    told = history(started().batch(5, classic(4, [classic_member("a", has=ALONE)])))
    row = told.rebalances[1]
    assert (row["prev_generation"], row["generation"], row["skipped_generations"]) == (1, 4, 2)
    assert row["reasons"] == ["same_members"]


def test_everybody_gone_is_a_rebalance_that_ended_as_emptied():
    told = history(started().batch(5, classic(2)))
    row = told.rebalances[1]
    assert (row["end_reason"], row["members"], row["members_left"]) == ("emptied", 0, 1)
    assert row["reasons"] == ["member_left", "group_emptied"]
    assert (row["assignor"], row["group_leader"], row["mode"]) == (None, None, None)
    assert counts(row) == (0, 0, 0, 4)
    assert told.members[1]["a"]["after"] == []


def test_a_static_restart_is_an_event_and_its_time_out_a_rebalance():
    first = classic_member("x-1", has={"t": [0]}, instance_id="x")
    again = classic_member("x-2", has={"t": [0]}, instance_id="x")
    log = (
        Log()
        .batch(0, classic(0))
        .batch(1, classic(1, [first, classic_member("a", has={"t": [1]})], state_seconds=0.9))
    )
    log.batch(4, classic(1, [again, classic_member("a", has={"t": [1]})], state_seconds=0.9))
    told = history(log)
    assert len(told.rebalances) == 1
    assert told.names == ["created", "static_restart"]
    event = told.events[1]
    assert (event["member_id"], event["prev_member_id"], event["instance_id"]) == (
        "x-2",
        "x-1",
        "x",
    )
    assert (event["client_id"], event["generation"]) == ("client-x-2", 1)
    log.batch(60, classic(2, [classic_member("a", has={"t": [0, 1]})]))
    row = history(log).rebalances[1]
    assert (row["reasons"], row["members_left"], row["members_restarted"]) == (
        ["static_member_left"],
        1,
        0,
    )
    assert counts(row) == (1, 1, 0, 0)


def test_a_static_member_back_under_another_id_in_a_new_generation_is_the_same_owner():
    first = classic_member("x-1", has={"t": [0, 1]}, instance_id="x")
    again = classic_member("x-2", ["t", "u"], has={"t": [0, 1], "u": [0]}, instance_id="x")
    told = history(
        Log().batch(0, classic(0)).batch(1, classic(1, [first])).batch(2, classic(2, [again]))
    )
    row = told.rebalances[1]
    assert (row["members_joined"], row["members_left"], row["members_restarted"]) == (0, 0, 1)
    assert row["reasons"] == ["subscription_changed"]
    assert counts(row) == (2, 0, 1, 0)
    assert told.members[1]["x-2"]["change"] == "restarted"
    assert told.members[1]["x-2"]["prev_member_id"] == "x-1"


def test_reasons_are_several_and_in_order():
    log = started().batch(
        5,
        classic(
            2, [classic_member("b", has=ALONE), classic_member("c", has={})], protocol="roundrobin"
        ),
    )
    assert history(log).rebalances[1]["reasons"] == [
        "member_joined",
        "member_left",
        "assignor_changed",
    ]


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [([0, 1, 2, 3, 4], "partitions_changed"), ([0, 1, 2, 3], "same_members")],
)
def test_a_topic_that_grew_shows_where_nothing_else_changed(partitions, reason):
    told = history(started().batch(5, classic(2, [classic_member("a", has={"t": partitions})])))
    assert told.rebalances[1]["reasons"] == [reason]


@pytest.mark.parametrize("unknown", [(1,), (2,), (1, 2)])
def test_partitions_tell_no_growth_where_a_subscription_is_not_known(unknown):
    """Its bytes could not be read: it may have changed."""
    log = Log().batch(0, classic(0))
    for generation, has in ((1, ALONE), (2, {"t": [0, 1, 2, 3, 4]})):
        a = classic_member("a", has=has)
        log.batch(
            generation,
            classic(generation, [a | {"subscription": None} if generation in unknown else a]),
        )
    row = history(log).rebalances[1]
    assert (row["reasons"], counts(row)) == (["same_members"], (4, 0, 1, 0))
    assert row["subscribed"] == (None if 2 in unknown else ["t"])


# --- cooperative ---


def cooperative(generation, *members, at_seconds=None):
    return classic(generation, members, protocol="cooperative-sticky", state_seconds=at_seconds)


def two_phases():
    log = Log().batch(0, classic(0)).batch(1, cooperative(1, classic_member("a", has=ALONE)))
    log.batch(
        5,
        cooperative(
            2,
            classic_member("a", has={"t": [0, 1]}, owned=ALONE),
            classic_member("b", has={}),
            at_seconds=4.99,
        ),
    )
    return log


def test_a_cooperative_rebalance_in_two_phases_is_one_row():
    log = two_phases()
    open_row = history(log).rebalances[1]
    assert (
        open_row["ended_before"],
        open_row["end_reason"],
        open_row["phases"],
        open_row["generation"],
    ) == (
        None,
        None,
        1,
        2,
    )
    assert counts(open_row) == (None, None, None, None)
    log.batch(
        6,
        cooperative(
            3, classic_member("a", has={"t": [0, 1]}), classic_member("b", has={"t": [2, 3]})
        ),
    )
    told = history(log)
    assert len(told.rebalances) == 2
    row = told.rebalances[1]
    assert (
        row["phases"],
        row["generation"],
        row["prev_generation"],
        row["skipped_generations"],
    ) == (2, 3, 1, 0)
    assert (row["began_before"], row["ended_before"], row["mode"]) == (
        at(4.99),
        at(6),
        "cooperative",
    )
    assert (row["members_joined"], row["reasons"]) == (1, ["member_joined"])
    assert counts(row) == (2, 2, 0, 0)
    assert (row["first_offset"], row["last_offset"]) == (104, 106)


def test_the_leader_epoch_of_a_rebalance_is_of_the_record_that_ended_it():
    log = two_phases()
    log.leader_epoch = 5
    log.batch(
        6,
        cooperative(
            3, classic_member("a", has={"t": [0, 1]}), classic_member("b", has={"t": [2, 3]})
        ),
    )
    log.leader_epoch = 6
    log.batch(9, cooperative(4, classic_member("a", has=ALONE)))
    assert [row["ended_leader_epoch"] for row in history(log).rebalances] == [None, 5, 6]


def test_no_leader_epoch_is_told_where_no_one_record_ended_a_rebalance():
    log = two_phases()
    log.leader_epoch = 5
    assert history(log).rebalances[1]["ended_leader_epoch"] is None  # goes on
    log.span("lost", log.next_offset, 150, seconds=20).batch(
        21, cooperative(9, classic_member("a", has=ALONE))
    )
    cut_off, first_read = history(log).rebalances[1:]
    # The first that is read may repeat, after a move, what ended before it.
    assert (cut_off["ended_leader_epoch"], first_read["ended_leader_epoch"]) == (None, None)


def test_a_member_that_leaves_in_the_second_phase_belongs_to_the_same_row():
    log = two_phases().batch(
        6,
        cooperative(
            3, classic_member("a", has={"t": [0, 1]}), classic_member("c", has={"t": [2, 3]})
        ),
    )
    told = history(log)
    row = told.rebalances[1]
    assert (
        row["phases"],
        row["members_joined"],
        row["members_left"],
        row["members"],
        row["prev_members"],
    ) == (
        2,
        2,
        1,
        2,
        1,
    )
    assert row["reasons"] == ["member_joined", "member_left"]
    assert {each: member["change"] for each, member in told.members[1].items()} == {
        "a": "stayed",
        "b": "left",
        "c": "joined",
    }


def test_phases_follow_each_other_as_long_as_something_was_given_up():
    log = two_phases().batch(
        6,
        cooperative(
            3,
            classic_member("a", has={"t": [0]}),
            classic_member("c", has={"t": [2]}),
            classic_member("d", has={"t": [3]}),
        ),
    )
    log.batch(
        7,
        cooperative(
            4, classic_member("a", has={"t": [0]}), classic_member("d", has={"t": [1, 2, 3]})
        ),
    )
    told = history(log)
    row = told.rebalances[1]
    assert (
        row["phases"],
        row["generation"],
        row["members"],
        row["members_joined"],
        row["members_left"],
    ) == (
        3,
        4,
        2,
        3,
        2,
    )
    assert {each for each, member in told.members[1].items() if member["change"] == "left"} == {
        "b",
        "c",
    }


def test_a_member_that_joins_again_with_what_it_should_have_given_up_is_asked_a_second_time():
    log = two_phases().batch(
        6,
        cooperative(
            3,
            classic_member("a", has={"t": [0, 1]}, owned={"t": [0, 1, 3]}),
            classic_member("b", has={"t": [2]}),
        ),
    )
    assert history(log).rebalances[1]["end_reason"] is None
    log.batch(
        7,
        cooperative(
            4, classic_member("a", has={"t": [0, 1]}), classic_member("b", has={"t": [2, 3]})
        ),
    )
    told = history(log)
    assert len(told.rebalances) == 2
    row = told.rebalances[1]
    assert (row["phases"], row["generation"], row["ended_before"], row["reasons"]) == (
        3,
        4,
        at(7),
        ["member_joined"],
    )
    assert counts(row) == (2, 2, 0, 0)


def test_what_was_given_up_of_a_topic_that_nobody_wants_any_more_is_not_waited_for():
    log = two_phases().batch(
        6,
        cooperative(
            3,
            classic_member("a", has={"t": [0, 1, 2]}),
            classic_member("b", has={"u": [0]}, topics=["u"]),
        ),
    )
    (_, row) = history(log).rebalances
    # Nobody gave up anything in it, so nobody joins again.
    assert (row["end_reason"], row["phases"]) == ("completed", 2)
    log.batch(7, cooperative(4, classic_member("a", has={"u": [0, 1]}, topics=["u"])))
    assert [row["phases"] for row in history(log).rebalances[1:]] == [2, 1]


# --- cooperative, and topics deleted: the next generation ends a rebalance, unless it takes ---

BOTH = {"t": [0, 1], "u": [0, 1]}


def of_both(member_id, has, owned=None):
    return classic_member(member_id, ["t", "u"], has, owned=owned)


def test_a_topic_is_deleted_while_another_joins():
    """A week later `b` leaves: that is a rebalance of its own."""
    log = Log().batch(0, classic(0)).batch(1, cooperative(1, of_both("a", BOTH, {})))
    log.batch(100, cooperative(2, of_both("a", {"t": [0]}, BOTH), of_both("b", {}, {})))
    log.batch(
        101, cooperative(3, of_both("a", {"t": [0]}, {"t": [0]}), of_both("b", {"t": [1]}, {}))
    )
    for _ in range(2):
        row = history(log).rebalances[1]
        assert (row["generation"], row["phases"], row["end_reason"], row["ended_before"]) == (
            3,
            2,
            "completed",
            at(101),
        )
        assert (row["reasons"], counts(row)) == (["member_joined"], (1, 1, 0, 2))
        log.batch(7 * 86_400, cooperative(4, of_both("a", {"t": [0, 1]}, {"t": [0]})))
    assert len(history(log).rebalances) == 3


@pytest.mark.parametrize("is_told", [True, False])
def test_a_topic_is_deleted_and_its_partitions_are_given_up(is_told):
    """The second generation, in which nobody gets anything, belongs to the first one's rebalance.

    `is_told`: whether clients say what they join with.
    """
    log = (
        Log()
        .batch(0, classic(0))
        .batch(1, cooperative(1, of_both("a", BOTH, {} if is_told else None)))
    )
    log.batch(100, cooperative(2, of_both("a", {"t": [0, 1]}, BOTH if is_told else None)))
    row = history(log).rebalances[1]
    assert (row["ended_before"], row["reasons"]) == (None, ["same_members"])
    log.batch(101, cooperative(3, of_both("a", {"t": [0, 1]}, {"t": [0, 1]} if is_told else None)))
    (_, row) = history(log).rebalances
    assert (row["generation"], row["phases"], row["ended_before"]) == (3, 2, at(101))
    assert (row["reasons"], counts(row)) == (["partitions_changed"], (2, 0, 0, 2))


def test_a_client_that_lost_all_it_had_gives_up_nothing_when_it_joins_again():
    log = (
        Log()
        .batch(0, classic(0))
        .batch(1, cooperative(1, classic_member("a", has=ALONE, owned={})))
    )
    log.batch(
        5,
        cooperative(
            2, classic_member("a", has={"t": [0, 1]}, owned={}), classic_member("b", has={})
        ),
    )
    assert history(log).rebalances[1]["end_reason"] == "completed"


def test_a_static_member_that_restarts_does_not_join_again_for_what_it_gave_up():
    """It lets go of everything, and the generation stays: nobody joins until something else
    happens.
    """
    log = (
        Log()
        .batch(0, classic(0))
        .batch(1, cooperative(1, classic_member("x-1", has=ALONE, instance_id="x")))
    )
    halved = classic_member("x-1", has={"t": [0, 1]}, owned=ALONE, instance_id="x")
    log.batch(5, cooperative(2, halved, classic_member("b", has={})))
    assert history(log).rebalances[1]["end_reason"] is None
    restarted = classic_member("x-2", has={"t": [0, 1]}, owned={}, instance_id="x")
    told = history(log.batch(6, cooperative(2, restarted, classic_member("b", has={}))))
    row = told.rebalances[1]
    assert (row["end_reason"], row["ended_before"], row["phases"], counts(row)) == (
        "completed",
        at(5),
        1,
        (2, 0, 0, 2),
    )
    assert told.names == ["created", "static_restart"]


def test_what_a_member_that_left_had_is_not_waited_for():
    log = Log().batch(0, classic(0))
    log.batch(
        1, cooperative(1, classic_member("a", has={"t": [0]}), classic_member("b", has={"t": [1]}))
    )
    row = history(log.batch(2, cooperative(2, classic_member("a", has={"t": [0]})))).rebalances[1]
    assert (row["end_reason"], counts(row)) == ("completed", (1, 0, 0, 1))


def test_a_first_phase_without_a_second_completed_as_it_was():
    told = history(two_phases().batch(9, cooperative(3)))
    assert [row["generation"] for row in told.rebalances] == [1, 2, 3]
    assert (told.rebalances[1]["end_reason"], told.rebalances[1]["ended_before"]) == (
        "completed",
        at(5),
    )
    assert (told.rebalances[1]["phases"], counts(told.rebalances[1])) == (1, (2, 0, 0, 2))


def test_a_cooperative_leave_is_one_phase():
    log = Log().batch(0, classic(0))
    log.batch(
        1,
        cooperative(
            1, classic_member("a", has={"t": [0, 1]}), classic_member("b", has={"t": [2, 3]})
        ),
    )
    log.batch(5, cooperative(2, classic_member("a", has=ALONE, owned={"t": [0, 1]})))
    row = history(log).rebalances[1]
    assert (row["phases"], row["end_reason"], counts(row)) == (1, "completed", (2, 2, 0, 0))


def test_an_eager_group_that_leaves_partitions_out_is_not_open():
    log = started().batch(5, classic(2, [classic_member("a", has={"t": [0, 1]})]))
    row = history(log).rebalances[1]
    assert (row["end_reason"], counts(row), row["reasons"]) == (
        "completed",
        (2, 0, 0, 2),
        ["partitions_changed"],
    )


def test_a_foreign_assignor_is_cooperative_where_members_kept_what_they_had():
    log = started(protocol="mine")
    assert history(log).rebalances[0]["mode"] is None
    kept = history(
        log.batch(5, classic(2, [classic_member("a", has=ALONE, owned=ALONE)], protocol="mine"))
    )
    assert kept.rebalances[1]["mode"] == "cooperative"
    gave_up = history(
        log.batch(6, classic(3, [classic_member("a", has=ALONE, owned={})], protocol="mine"))
    )
    assert gave_up.rebalances[2]["mode"] == "eager"


# --- coordinators of Kafka 3.9 and before, which write no generation 0 ---


def static(*member_ids):
    return [
        classic_member(each, has={"t": [n]}, instance_id=each[0])
        for n, each in enumerate(member_ids)
    ]


def test_generation_1_is_the_creation_too_where_no_generation_0_is_written():
    log = Log().batch(1, classic(1, [classic_member("a", has=ALONE)], state_seconds=0.99))
    told = history(log)
    (event,), (row,) = told.events, told.rebalances
    assert (event["event"], event["generation"], event["offset"]) == ("created", 0, 100)
    assert (event["began_after"], event["began_before"]) == (None, at(0.99))
    assert (row["prev_generation"], row["skipped_generations"], row["prev_members"]) == (0, 0, 0)
    assert (row["members_joined"], row["members_left"], row["reasons"]) == (1, 0, ["member_joined"])
    assert (row["began_after"], row["began_before"]) == (None, at(0.99))
    assert (row["ended_after"], row["ended_before"], row["since_previous_ms"]) == (
        at(1),
        at(1),
        None,
    )
    assert counts(row) == (0, 0, 4, 0)
    assert told.members[0]["a"]["change"] == "joined"


def test_generation_1_without_members_was_emptied_before_its_first_rebalance_completed():
    told = history(Log().batch(1, classic(1)))
    assert told.names == ["created"]
    (row,) = told.rebalances
    assert (row["end_reason"], row["prev_members"], row["reasons"]) == (
        "emptied",
        0,
        ["group_emptied"],
    )


def test_a_group_whose_tombstone_was_read_starts_from_nothing_at_any_generation():
    log = started().batch(5, classic(2)).batch(9, (2, None, None))
    told = history(log.batch(20, classic(3, static("x-1"), state_seconds=19.9)))
    assert told.names == ["created", "deleted", "created"]
    event, row = told.events[2], told.rebalances[2]
    assert (event["began_after"], event["began_before"], event["generation"]) == (
        at(9),
        at(19.9),
        0,
    )
    assert (row["prev_generation"], row["skipped_generations"], row["prev_members"]) == (0, 2, 0)
    assert (row["members_joined"], row["reasons"], row["since_previous_ms"]) == (
        1,
        ["member_joined"],
        None,
    )
    assert (row["began_after"], row["ended_after"], row["ended_before"]) == (at(9), at(20), at(20))


def test_a_later_generation_that_is_read_first_tells_nothing_of_before():
    told = history(Log().batch(1, classic(2, [classic_member("a", has=ALONE)])))
    assert told.names == []
    assert (told.rebalances[0]["prev_generation"], told.rebalances[0]["reasons"]) == (None, None)


def test_generation_1_of_static_members_that_is_read_first_may_repeat_itself():
    """A restart writes a generation again. Who is in it does not change, only when it ended is left
    open.
    """
    log = Log()
    log.leader_epoch = 5
    told = history(log.batch(50, classic(1, static("x-2", "y-1"), state_seconds=1)))
    assert told.names == ["created"]
    (row,) = told.rebalances
    assert (row["members_joined"], row["reasons"], row["prev_generation"]) == (
        2,
        ["member_joined"],
        0,
    )
    # The time of the state in a repetition is when the group became stable, a moment after the
    # generation's record.
    assert (row["ended_after"], row["ended_before"], row["ended_leader_epoch"]) == (
        None,
        at(50),
        None,
    )


def test_an_event_tells_why_records_cannot_be_read():
    for error, detail in (
        (None, "48 offsets were gone before they could be read"),
        ("crc: not that of the bytes", "48 offsets cannot be read: crc: not that of the bytes"),
    ):
        log = Log().batch(1, classic(1, static("x-1")))
        told = history(log.span("lost", log.next_offset, 150, seconds=20, error=error))
        assert [row["detail"] for row in told.events if row["event"] == "records_lost"] == [detail]


def test_generation_1_after_a_loss_is_a_new_life_unless_static_members_may_repeat_it():
    for members, names, reasons in (
        (
            [classic_member("b", has=ALONE)],
            ["created", "records_lost", "created"],
            ["member_joined"],
        ),
        (static("x-2"), ["created", "records_lost"], None),
    ):
        log = Log().batch(1, classic(1, static("x-1")))
        told = history(
            log.span("lost", log.next_offset, 150, seconds=20).batch(30, classic(1, members))
        )
        assert (told.names, told.rebalances[1]["reasons"]) == (names, reasons)


def written(version, *groups):
    """Rows of a group's records, ten seconds apart, as a coordinator writes them in this version.

    `groups`: generation, and member -> partitions of t; None is a tombstone.
    """
    said = {"topics": ["t"], "user_data": None, "owned_partitions": []}
    of_all = {
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout": 60_000,
        "session_timeout": 10_000,
    }
    of_all |= {
        "group_instance_id": None,
        "subscription": embedded(SUBSCRIPTION, min(version, 1), said),
    }
    values = []
    for n, group in enumerate(groups):
        generation, members = group or (0, {})
        value = {
            "protocol_type": "consumer",
            "generation": generation,
            "protocol": "range" if members else None,
            "leader": next(iter(members), None),
            "current_state_timestamp": to_micros(at(10 * n - 1)) // 1000,
            "members": [
                {"member_id": each, **of_all, "assignment": assigned(has)}
                for each, has in members.items()
            ],
        }
        values.append(None if group is None else value_bytes(2, version, value))
    rows = decode_records([key_bytes(2, {"group": "g"})] * len(values), values).to_pylist()
    of_log = {
        "record": "record",
        "log_partition": 7,
        "next_offset": None,
        "leader_epoch": 0,
        "read_at": at(100),
    }
    return [row | of_log | {"offset": 2 * n, "timestamp": at(10 * n)} for n, row in enumerate(rows)]


def assigned(partitions):
    parts = [{"topic": "t", "partitions": partitions}]
    return embedded(ASSIGNMENT, 0, {"assigned_partitions": parts, "user_data": None})


@pytest.mark.parametrize("version", range(RECORD_TYPES[2].value.last_version + 1))
def test_a_group_in_each_version_of_its_record(version):
    """Kafka writes version 0 before 0.10.1, 1 before 2.1, 2 before 2.3, 3 since: by
    inter.broker.protocol.version.
    """
    told = history(
        written(
            version,
            (1, {"a": [0, 1, 2, 3]}),
            (2, {"a": [0, 1], "b": [2, 3]}),
            (3, {"a": [0, 1, 2, 3]}),
            (4, {"a": [0, 1, 2, 3, 4, 5]}),
            (5, {}),
            None,
            (2, {"c": [0, 1, 2, 3, 4, 5]}),
        )
    )
    assert told.names == ["created", "deleted", "created"]
    names = (
        "prev_generation",
        "generation",
        "skipped_generations",
        "members_joined",
        "members_left",
        "reasons",
    )
    assert [tuple(row[name] for name in names) for row in told.rebalances] == [
        (0, 1, 0, 1, 0, ["member_joined"]),
        (1, 2, 0, 1, 0, ["member_joined"]),
        (2, 3, 0, 0, 1, ["member_left"]),
        (3, 4, 0, 0, 0, ["partitions_changed"]),
        (4, 5, 0, 0, 1, ["member_left", "group_emptied"]),
        (0, 2, 1, 1, 0, ["member_joined"]),
    ]
    # The state's timestamp, from version 2 on, is when the join phase ended.
    assert [row["began_before"] for row in told.rebalances[:2]] == (
        [at(-1), at(9)] if version > 1 else [at(0), at(10)]
    )


# --- records without a time ---


def test_a_record_without_a_time_was_written_after_the_one_before_and_by_when_it_was_read():
    log = Log(has_times=False).batch(1, classic(1, [classic_member("a", has=ALONE)]))
    log.batch(5, classic(2, [classic_member("a", has=ALONE)])).batch(9, classic(3)).batch(
        12, (2, None, None)
    )
    told = history(log)
    assert told.names == ["created", "deleted"]
    bounds = ("began_after", "began_before", "ended_after", "ended_before")
    assert [tuple(row[name] for name in bounds) for row in told.rebalances] == [
        (None, at(2), None, at(2)),
        (at(2), at(6), at(2), at(6)),
        (at(6), at(10), at(6), at(10)),
    ]
    assert [(row["duration_ms_min"], row["duration_ms_max"]) for row in told.rebalances[:2]] == [
        (0, None),
        (0, 4000),
    ]
    assert [(event["began_after"], event["began_before"]) for event in told.events] == [
        (None, at(2)),
        (at(10), at(13)),
    ]
    assert history(log, range(len(log.rows))) == told


def test_of_a_group_that_is_met_without_times_the_end_is_not_known_to_be_when_it_was_read():
    log = Log(has_times=False).batch(1, classic(7, [classic_member("a", has=ALONE)]))
    (row,) = history(log).rebalances
    assert (row["reasons"], row["began_before"], row["ended_after"], row["ended_before"]) == (
        None,
        at(2),
        None,
        at(2),
    )


def test_what_is_read_by_a_clock_that_is_behind_keeps_its_order():
    log = started()
    log.has_times = False
    log.batch(-60, classic(2, [classic_member("a", has=ALONE)]))
    row = history(log).rebalances[1]
    assert (row["began_after"], row["began_before"], row["ended_before"]) == (at(1), at(1), at(1))


def test_records_without_a_time_that_lie_side_by_side_are_no_batch():
    """A group that was taken away is no conversion then."""
    log = Log(has_times=False).batch(1, classic(1, [classic_member("a", has=ALONE)]))
    log.batch(
        5, (2, None, None), (5, "a", {"instance_id": None, "client_id": "c", "client_host": "/h"})
    )
    log.rows[-1]["member"] |= {
        "topics": ["t"],
        "regex": None,
        "topology_epoch": None,
        "assignor": None,
    }
    assert history(log).names == ["created", "deleted"]


def test_made_again_at_generation_1_where_the_tombstone_was_compacted_away():
    log = two_phases().batch(9, classic(1, [classic_member("c", has=ALONE)], state_seconds=8.9))
    told = history(log)
    assert told.names == ["created", "created"]
    assert (told.rebalances[1]["end_reason"], told.rebalances[1]["phases"]) == ("completed", 1)
    row = told.rebalances[2]
    assert (row["prev_generation"], row["members_joined"], row["members_left"]) == (0, 1, 0)
    assert (row["began_after"], row["since_previous_ms"]) == (at(5), None)


# --- what is not known ---


def test_other_protocols_have_members_and_no_partitions():
    members = [classic_member("w", bytes_only=True)]
    told = history(
        Log()
        .batch(0, classic(0))
        .batch(1, classic(1, members, protocol="sessioned", protocol_type="connect"))
    )
    row = told.rebalances[0]
    assert (row["protocol_type"], row["assignor"], row["mode"], row["members"]) == (
        "connect",
        "sessioned",
        None,
        1,
    )
    assert counts(row) == (None, None, None, None)
    assert told.members[0]["w"]["after"] is None


def test_of_a_group_that_is_older_than_what_was_read_nothing_is_known_from_before():
    told = history(Log().batch(9, classic(7, [classic_member("a", has=ALONE)], state_seconds=2)))
    (row,) = told.rebalances
    unknown = (
        "prev_generation",
        "skipped_generations",
        "prev_members",
        "members_joined",
        "members_left",
        "members_restarted",
        "reasons",
    )
    assert [row[column] for column in unknown] == [None] * 7
    assert counts(row) == (None, None, None, None)
    assert (row["began_after"], row["began_before"], row["ended_after"], row["ended_before"]) == (
        None,
        at(2),
        at(2),
        at(9),
    )
    member = told.members[0]["a"]
    assert (member["change"], member["before"], parts(member, "after")) == ("unknown", None, ALONE)


def test_lost_records_end_what_went_on_and_what_follows_has_no_before():
    log = two_phases()
    log.span("lost", log.next_offset, 150, seconds=20).batch(
        21, cooperative(9, classic_member("a", has=ALONE))
    )
    told = history(log)
    cut_off, after = told.rebalances[1:]
    assert (cut_off["end_reason"], cut_off["ended_after"], cut_off["ended_before"]) == (
        "unknown",
        at(5),
        at(20),
    )
    assert (after["prev_generation"], after["reasons"], after["since_previous_ms"]) == (
        None,
        None,
        None,
    )
    event = told.events[-1]
    assert (event["event"], event["began_after"], event["began_before"], event["offset"]) == (
        "records_lost",
        at(5),
        at(20),
        106,
    )
    assert event["detail"] == "44 offsets were gone before they could be read"


def test_after_a_truncation_offsets_go_back():
    log = started()
    log.span("truncated", log.next_offset, 90, seconds=20).batch(
        21, classic(5, [classic_member("a", has=ALONE)])
    )
    told = history(log)
    assert [(row["first_offset"], row["prev_generation"]) for row in told.rebalances] == [
        (102, 0),
        (90, None),
    ]
    assert told.names == ["created", "records_lost"]


@pytest.mark.parametrize("span", [None, "lost", "truncated"])
def test_rows_that_come_again_change_nothing(span):
    log = two_phases()
    if span:
        log.span(span, log.next_offset, log.next_offset + (9 if span == "lost" else -9), seconds=20)
    log.batch(21, cooperative(9, classic_member("a", has=ALONE)))
    once, _ = fold(State(), log.rows)
    assert fold(once, log.rows) == (once, GroupOutput())


def test_an_undecoded_record_is_told_and_the_group_unknown_until_the_next():
    log = started().undecoded(3, 2).batch(5, classic(4, [classic_member("a", has=ALONE)]))
    told = history(log)
    assert (told.names, told.events[1]["detail"]) == (
        ["created", "undecoded"],
        "version 9 is not known",
    )
    assert told.rebalances[1]["prev_generation"] is None


def test_a_record_of_an_unknown_type_leaves_the_group_as_known_as_it_was():
    log = started().undecoded(3, 99).batch(5, classic(2, [classic_member("a", has=ALONE)]))
    told = history(log)
    assert told.names == ["created", "undecoded"]
    assert told.rebalances[1]["prev_generation"] == 1


def test_a_group_deleted_and_made_again_starts_afresh():
    log = started().batch(5, classic(2)).batch(9, (2, None, None))
    log.batch(20, classic(0)).batch(21, classic(1, [classic_member("b", has=ALONE)]))
    told = history(log)
    assert told.names == ["created", "deleted", "created"]
    row = told.rebalances[2]
    assert (row["prev_generation"], row["skipped_generations"], row["reasons"]) == (
        0,
        0,
        ["member_joined"],
    )
    assert (row["since_previous_ms"], row["began_after"]) == (None, at(20))


def test_made_again_where_the_tombstone_was_compacted_away():
    log = (
        started()
        .batch(5, classic(8, [classic_member("a", has=ALONE)]))
        .batch(9, classic(3, [classic_member("b")]))
    )
    row = history(log).rebalances[2]
    assert (row["prev_generation"], row["skipped_generations"]) == (None, None)


def test_a_tombstone_ends_what_went_on():
    told = history(two_phases().batch(8, (2, None, None)))
    assert (told.rebalances[1]["end_reason"], told.rebalances[1]["ended_before"]) == (
        "deleted",
        at(8),
    )
    assert told.names[-1] == "deleted"


def test_bounds_stay_in_order_when_a_clock_steps_back():
    log = started().batch(0.5, classic(2, [classic_member("a", has=ALONE)], state_seconds=0.4))
    log.batch(9, cooperative(3, classic_member("a", has={"t": [0]}), classic_member("b")))
    log.batch(
        2,
        cooperative(
            4, classic_member("a", has={"t": [0]}), classic_member("b", has={"t": [1, 2, 3]})
        ),
    )
    rows = history(log).rebalances
    assert len(rows) == 3
    for row in rows:
        assert row["began_after"] <= row["began_before"] <= row["ended_before"]
        assert row["ended_after"] <= row["ended_before"]
        assert 0 <= row["duration_ms_min"] <= row["duration_ms_max"]
        assert (row["since_previous_ms"] or 0) >= 0
    assert rows[1]["since_previous_ms"] == 0


def test_the_state_says_what_the_table_of_states_asks():
    state, _ = fold(State(), started().rows)
    assert (state.now.group_type, state.known_since) == ("classic", at(0))
    gone, _ = fold(state, started().batch(5, classic(2)).batch(6, (2, None, None)).rows)
    assert gone.now.group_type is None
    assert gone.known_since == at(0)


@pytest.mark.parametrize(
    "began", [Standing(), Standing("consumer", 4)], ids=["nothing before", "converted"]
)
def test_the_state_goes_through_json_whole(began):
    member = Member(
        "x", "c", "/h", ["t"], has=None, to_have={"T": [1]}, by_id=True, epoch=0, state=0
    )
    now = Standing("classic", 5, members={"m": member})
    moment = Moment(at(3), None, 7, 1, 2)
    rebalance = Rebalance(
        moment, began, passed={"n": member}, given_up={"n": {"t": [0]}}, skipped_generations=0
    )
    gone = Gone(moment, began, True, rebalance)
    state = State(7, 9, at(4), True, at(1.5), now=now, began=began, rebalance=rebalance, gone=gone)
    for each in (state, replace(state, began=now), State()):
        assert from_json(json.loads(json.dumps(to_json(each)))) == each


def test_a_topic_that_an_assignment_names_twice_is_one_topic():
    """As librdkafka's cooperative-sticky assignor writes it."""
    both = classic_member("a", has={"t": [0, 1]})
    took_over = classic_member("a", has={"t": [0, 1]})
    took_over["assignment"]["partitions"] = [
        {"topic": "t", "partitions": [1, 0]},
        {"topic": "t", "partitions": [2]},
    ]
    log = started().batch(
        2, classic(1, [both, classic_member("b", has={"t": [2]})], protocol="cooperative-sticky")
    )
    told = history(log.batch(9, classic(2, [took_over], protocol="cooperative-sticky")))
    last = told.rebalances[-1]
    assert (
        last["end_reason"],
        last["phases"],
        last["partitions_kept"],
        last["partitions_moved"],
    ) == (
        "completed",
        1,
        2,
        1,
    )
