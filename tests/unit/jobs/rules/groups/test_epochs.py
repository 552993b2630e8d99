"""Groups with epochs (consumer, share, streams): what their records tell, by cases."""

import pytest

from tests.support.group_records import (
    CONSUMER,
    SHARE,
    STREAMS,
    Kind,
    Log,
    at,
    counts,
    gist,
    history,
    parts,
    shows,
)

ALL, LOW, HIGH = {"T": [0, 1, 2, 3]}, {"T": [0, 1]}, {"T": [2, 3]}
GROWN = {"T": [0, 1, 2, 3, 4, 5]}
C, S = CONSUMER, SHARE
NONE, UNKNOWN = (None, None, None), (None, None, None, None)
DONE = "completed", 1
KINDS = pytest.mark.parametrize("kind", [CONSUMER, SHARE, STREAMS], ids=lambda kind: kind.name)


def reached(epoch, has=ALL, kind=C, who="a"):
    """The target of an epoch, and `who` has it."""
    return kind.target(who, has), kind.target_epoch(epoch), kind.current(who, epoch, has)


def started(kind: Kind = C, **member):
    """A group that was made by the member `a`, which has everything at epoch 1."""
    return Log().batch(0, kind.member("a", **member), kind.epoch(1), *reached(1, kind=kind))


def joining(kind: Kind = C, **member):
    """`b` joins, and waits for what `a` has."""
    targets = kind.target("a", LOW), kind.target("b", HIGH), kind.target_epoch(2)
    waits = kind.current("b", 2, {}, waits=True)
    return started(kind).batch(5, kind.member("b", **member), kind.epoch(2), *targets, waits)


def joined(kind: Kind = C, **member):
    log = joining(kind, **member).batch(6, kind.current("a", 1, LOW, pending=HIGH))
    return log.batch(7, kind.current("a", 2, LOW)).batch(8, kind.current("b", 2, HIGH))


def overtaken():
    """Before `b` has what it is to have, `c` joins and leaves."""
    log = joining().batch(5.5, C.member("c"), C.epoch(3)).batch(6, *C.gone("c"), C.epoch(4))
    return log.batch(7, C.target_epoch(4), C.current("a", 4, LOW)).batch(8, C.current("b", 4, HIGH))


def older():
    """A group that is older than what was read."""
    return Log().batch(0, C.member("a"), C.epoch(3), *reached(3))


MADE = (*DONE, (0, 1, 0), (1, 0, 0), "member_joined", (0, 0, 4, 0))
BACK = (
    *(*C.gone("a"), C.member("a2", ["t", "u"], instance_id="x"), C.target("a2", ALL)),
    *(C.current("a2", 1, ALL), C.epoch(2, 2), *reached(2, ALL | {"U": [0]}, who="a2")),
)
"""The static member `a` is back under another id, with another subscription."""

WHO_CAME = C.member("b"), C.epoch(2), C.target("b", {}), *reached(2), C.current("b", 2, {})

LAST = {
    # The gist of the last rebalance of each log.
    "completed: it was made": (started(), MADE),
    "completed": (joined(), (*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0))),
    "open: nobody said yet what it has": (
        joining(),
        (None, 1, (1, 2, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0)),
    ),
    "open: equal epochs are not enough": (
        joining().batch(6, C.current("a", 2, LOW)),
        (None, 1, (1, 2, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0)),
    ),
    "open: there is no target": (
        started().batch(5, C.member("b"), C.epoch(2)),
        (None, 1, (1, 2, 0), (1, 0, 0), "member_joined", UNKNOWN),
    ),
    "skipped_generations: epochs were overtaken": (
        overtaken(),
        (*DONE, (1, 4, 2), (2, 1, 0), "member_joined member_left", (2, 2, 0, 0)),
    ),
    "skipped_generations: epochs between": (
        started().batch(5, C.epoch(4), *reached(4)),
        (*DONE, (1, 4, 2), (0, 0, 0), "same_members", (4, 0, 0, 0)),
    ),
    "open: the straggler left": (
        joining().batch(6, C.current("a", 2, LOW)).batch(7, *C.gone("b"), C.epoch(3)),
        (None, 1, (1, 3, 1), (1, 1, 0), "member_joined member_left", UNKNOWN),
    ),
    "open: a leave whose target comes later": (
        joined().batch(20, *C.gone("b"), C.epoch(3)),
        (None, 1, (2, 3, 0), (0, 1, 0), "member_left", UNKNOWN),
    ),
    "member_left": (
        joined().batch(20, *C.gone("b"), C.epoch(3)).batch(21, *reached(3)),
        (*DONE, (2, 3, 0), (0, 1, 0), "member_left", (2, 2, 0, 0)),
    ),
    "emptied": (
        started().batch(9, *C.gone("a"), C.epoch(2)),
        ("emptied", 1, (1, 2, 0), (0, 1, 0), "member_left group_emptied", (0, 0, 0, 4)),
    ),
    "static_member_left: it timed out": (
        joined(instance_id="x")
        .batch(9, C.current("b", -2, HIGH))
        .batch(60, *C.gone("b"), C.epoch(3)),
        (None, 1, (2, 3, 0), (0, 1, 0), "static_member_left", UNKNOWN),
    ),
    "subscription_changed: a static member is back": (
        started(instance_id="x").batch(12, *BACK),
        (*DONE, (1, 2, 0), (0, 0, 1), "subscription_changed", (4, 0, 1, 0)),
    ),
    "subscription_changed: a new topology": (
        started(STREAMS, topics=None, topology_epoch=1).batch(
            9,
            (23, None, {"epoch": 2}),
            STREAMS.member("a", None, topology_epoch=2),
            STREAMS.epoch(2, 2),
            *reached(2, kind=STREAMS),
        ),
        (*DONE, (1, 2, 0), (0, 0, 0), "subscription_changed", (4, 0, 0, 0)),
    ),
    "assignor_changed": (
        started(assignor="uniform").batch(
            9, C.member("a", assignor="range"), C.epoch(2), *reached(2)
        ),
        (*DONE, (1, 2, 0), (0, 0, 0), "assignor_changed", (4, 0, 0, 0)),
    ),
    "same_members: one of several who share a partition stays": (
        started(S)
        .batch(5, S.member("b"), S.epoch(2), *reached(2, kind=S, who="b"))
        .batch(6, S.current("a", 2, {"T": [0, 1, 2]})),
        (*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (3, 1, 0, 0)),
    ),
    "member_left: two rebalances in one batch": (
        started().batch(5, *WHO_CAME, *C.gone("b"), C.epoch(3), *reached(3)),
        (*DONE, (2, 3, 0), (0, 1, 0), "member_left", (4, 0, 0, 0)),
    ),
    # A hash of what the coordinator knows of topics.
    "partitions_changed": (
        started().batch(9, C.epoch(2, 2), *reached(2, GROWN)),
        (*DONE, (1, 2, 0), (0, 0, 0), "partitions_changed", (4, 0, 2, 0)),
    ),
    "metadata_changed: another rack": (
        started().batch(9, C.epoch(2, 2), *reached(2)),
        (*DONE, (1, 2, 0), (0, 0, 0), "metadata_changed", (4, 0, 0, 0)),
    ),
    "metadata_changed: there is no target yet": (
        started().batch(9, C.epoch(2, 2)),
        (None, 1, (1, 2, 0), (0, 0, 0), "metadata_changed", UNKNOWN),
    ),
    "same_members: the hash changed before": (
        started().batch(5, C.epoch(1, 2)).batch(9, C.epoch(2, 2), *reached(2)),
        (*DONE, (1, 2, 0), (0, 0, 0), "same_members", (4, 0, 0, 0)),
    ),
    # Groups that are not known.
    "older than what was read": (older(), (*DONE, (None, 3, None), NONE, None, UNKNOWN)),
    "known once it converged": (
        older()
        .batch(5, C.member("b"), C.epoch(4), C.target("a", LOW), *reached(4, HIGH, who="b"))
        .batch(6, C.current("a", 4, LOW)),
        (*DONE, (3, 4, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0)),
    ),
    "older than what was read: its member was written before": (
        Log().batch(0, C.member("a")).batch(5, C.epoch(1), *reached(1)),
        (*DONE, (None, 1, None), NONE, None, UNKNOWN),
    ),
    "epochs fall: made again, and the tombstone was compacted away": (
        Log().batch(0, C.member("a"), C.epoch(9), *reached(9)).batch(5, C.epoch(4), *reached(4)),
        (*DONE, (None, 4, None), NONE, None, UNKNOWN),
    ),
    "records_lost: a small epoch after them is not the first": (
        started().span("lost", 106, 200, seconds=30).batch(40, C.member("b"), C.epoch(1)),
        (None, 1, (None, 1, None), NONE, None, UNKNOWN),
    ),
    "records_lost: known again once it converged": (
        joining()
        .span("lost", 113, 200, seconds=30)
        .batch(40, C.member("c"), C.epoch(7), C.target_epoch(7), C.current("c", 7, {}))
        .batch(41, C.current("a", 7, LOW))
        .batch(50, *C.gone("c"), C.epoch(8), *reached(8, LOW)),
        (*DONE, (7, 8, 0), (0, 1, 0), "member_left", (2, 0, 0, 0)),
    ),
    "a member whose own record is read late is one member": (
        Log()
        .batch(5, C.epoch(9), *reached(9))
        .batch(7, C.member("a", ["t", "u"], instance_id="x"), C.epoch(10), *reached(10)),
        (*DONE, (9, 10, 0), (0, 0, 0), "same_members", (4, 0, 0, 0)),
    ),
}


@pytest.mark.parametrize("case", LAST)
def test_the_last_rebalance(case):
    log, last = LAST[case]
    assert gist(history(log).rebalances[-1]) == last


@KINDS
def test_a_join_begins_with_the_epoch_and_ends_when_every_member_is_stable_at_it(kind):
    told = history(joined(kind))
    assert (told.names, len(told.rebalances)) == (["created"], 2)
    row = told.rebalances[1]
    assert gist(row) == (*DONE, (1, 2, 0), (1, 0, 0), "member_joined", (2, 2, 0, 0))
    shows(row, began_after=at(5), began_before=at(5), ended_after=at(8), ended_before=at(8))
    shows(row, duration_ms_min=3000, duration_ms_max=3000, since_previous_ms=5000)
    shows(row, group_type=kind.name, mode=None if kind is SHARE else "cooperative")
    shows(row, first_offset=107, last_offset=117, protocol_type=None, group_leader=None)
    b = told.members[1]["b"]
    assert parts(b, "after") == HIGH
    assert (b["after"][0]["topic"] is None) == (kind is not STREAMS)


def test_a_rebalance_that_is_open_is_told_as_far_as_it_has_come():
    told = history(joining().batch(6, C.current("a", 2, LOW)))
    shows(told.rebalances[1], ended_before=None, end_reason=None, last_offset=113)
    assert parts(told.members[1]["b"], "after") == HIGH, "by the target"


def test_a_rebalance_ends_with_the_first_record_that_says_it():
    log = started(S).batch(5, S.epoch(2), *reached(2, kind=S), S.current("a", 2, ALL))
    shows(history(log).rebalances[1], first_offset=106, last_offset=109)


def test_an_empty_pattern_is_none():
    assert history(started(regex="")).rebalances[0]["subscribed"] == ["t"]
    assert history(started(regex="t.*")).rebalances[0]["subscribed"] is None


def test_the_leader_epoch_of_a_rebalance_is_of_the_record_that_ended_it():
    log = joining()
    log.leader_epoch = 5
    log.batch(7, C.current("a", 2, LOW))
    log.leader_epoch = 6
    log.batch(8, C.current("b", 2, HIGH)).batch(9, C.member("c"), C.epoch(3))
    assert [row["ended_leader_epoch"] for row in history(log).rebalances] == [None, 6, None]


def of_one_batch(kind, epoch, prev_epoch=None, also=()):
    current = kind.current("a", epoch, ALL, prev_epoch=prev_epoch)
    records = kind.epoch(epoch), kind.target("a", ALL), kind.target_epoch(epoch), current
    return history(Log().batch(0, *also, kind.member("a"), *records))


@pytest.mark.parametrize(
    ("kind", "epoch", "prev_epoch", "is_made"),
    [
        (CONSUMER, 1, None, True),
        (SHARE, 1, None, True),
        (STREAMS, 1, None, True),
        # Of streams groups of Kafka 4.2.
        (STREAMS, 2, None, True),
        # Of groups that Kafka 4.4 makes: the only member comes from no epoch.
        (CONSUMER, 2, 0, True),
        (SHARE, 2, 0, True),
        (STREAMS, 2, 0, True),
        # The second epoch, which compaction left alone.
        (CONSUMER, 2, 1, False),
        (SHARE, 2, 1, False),
        (CONSUMER, 3, 0, False),
    ],
)
def test_the_first_epoch_is_no_gap(kind, epoch, prev_epoch, is_made):
    told = of_one_batch(kind, epoch, prev_epoch)
    assert told.names == (["created"] if is_made else [])
    (row,) = told.rebalances
    if is_made:
        shows(row, skipped_generations=0, prev_members=0, members_joined=1, counts=(0, 0, 4, 0))
    else:
        shows(row, prev_generation=None, prev_members=None, members_joined=None, reasons=None)


def test_epoch_1_of_nobody_is_not_the_creation():
    """Whoever was its member is compacted away."""
    assert history(Log().batch(0, C.epoch(1))).names == []


def test_epochs_that_fall_end_what_went_on():
    unknown, after = history(joining().batch(9, C.epoch(1))).rebalances[1:]
    shows(unknown, end_reason="unknown", ended_before=at(9), generation=2)
    shows(after, prev_generation=None, generation=1)


def test_epoch_0_without_members_is_the_creation_and_no_rebalance():
    told = history(Log().batch(0, C.epoch(0)).batch(5, C.member("a"), C.epoch(1), *reached(1)))
    assert [(each["event"], each["began_before"]) for each in told.events] == [("created", at(0))]
    assert [gist(row) for row in told.rebalances] == [MADE]


@pytest.mark.parametrize("kind", [CONSUMER, SHARE])
def test_a_second_epoch_with_another_member_is_not_the_first(kind):
    told = of_one_batch(kind, 2, 0, [kind.member("b")])
    assert (told.names, told.rebalances[0]["prev_generation"]) == ([], None)


def test_a_member_that_shows_up_late_in_a_group_that_is_not_known_prolongs_what_was_told():
    late = C.member("b"), C.epoch(9), C.target_epoch(9), C.current("b", 9, HIGH)
    (row,) = history(Log().batch(5, *late).batch(7, C.current("a", 9, LOW))).rebalances
    assert (row["members"], row["ended_before"]) == (2, at(7))


def test_who_came_and_went_while_epochs_were_overtaken():
    told = history(overtaken())
    shows(told.rebalances[1], members=2, began_before=at(5), ended_before=at(8))
    assert told.members[1]["c"]["change"] == "left"
    # A static member that came, restarted and went is one.
    log = joining().batch(6, C.member("x1", instance_id="x"), C.epoch(3))
    x2 = C.member("x2", instance_id="x"), C.target("x2", {}), C.current("x2", 0, {})
    told = history(log.batch(7, *C.gone("x1"), *x2).batch(8, *C.gone("x2"), C.epoch(4)))
    shows(told.rebalances[1], members_joined=2, members_left=1, members=2)
    assert set(told.members[1]) == {"a", "b", "x2"}


def test_a_leave_begins_with_its_epoch():
    log = joined().batch(20, *C.gone("b"), C.epoch(3)).batch(21, *reached(3))
    shows(history(log).rebalances[2], began_before=at(20), ended_before=at(21))
    emptied = history(started().batch(9, *C.gone("a"), C.epoch(2))).rebalances[1]
    shows(emptied, began_before=at(9), ended_before=at(9), members=0)


def test_a_static_leave_and_return_is_an_event_only():
    log = started(instance_id="x").batch(9, C.current("a", -2, ALL))
    back = C.member("a2", instance_id="x"), C.target("a2", ALL), C.current("a2", 1, ALL)
    told = history(log.batch(12, *C.gone("a"), *back))
    assert (len(told.rebalances), told.names) == (1, ["created", "static_restart"])
    shows(told.events[1], prev_member_id="a", member_id="a2", generation=1, offset=111)


def test_a_member_whose_record_comes_again_in_a_batch_is_no_restart():
    """A static member may be back under the id that it had: its tombstones come first."""
    log = started(instance_id="x").batch(9, C.current("a", -2, ALL))
    again = C.member("a", instance_id="x"), C.target("a", ALL), C.current("a", 1, ALL)
    assert history(log.batch(12, *C.gone("a"), *again)).names == ["created"]


# --- Kafka 3.7 to 4.0, which keep what is known of topics in records of their own, and no hash ---


FOUR, SIX = (C.partition_metadata({"t": n}) for n in (4, 6))
WITH_FOUR = FOUR, C.epoch(1, 0)


def grown(*records, has=ALL, before=WITH_FOUR):
    """`a` has everything of t, in 4 partitions, at epoch 1; at epoch 2, with `records` before it,
    what it `has`.
    """
    log = Log().batch(0, C.member("a"), *before).batch(1, *reached(1))
    return log.batch(9, *records, C.epoch(2, 0)).batch(10, *reached(2, has))


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        pytest.param(grown(SIX, has=GROWN), "partitions_changed", id="grew"),
        pytest.param(grown(SIX), "metadata_changed", id="nothing was added"),
        pytest.param(grown(), "same_members", id="no record"),
        pytest.param(grown(FOUR), "same_members", id="as before"),
        pytest.param(
            grown(C.member("a", ["t", "u"]), C.partition_metadata({"t": 4, "u": 2})),
            "subscription_changed",
            id="another subscription",
        ),
        # The topic was not there when members subscribed to it, or the records before were not
        # read.
        pytest.param(
            grown(SIX, has=GROWN, before=[C.epoch(1, 0)]),
            "partitions_changed",
            id="written to a group that was there",
        ),
        # Another version of Kafka keeps it otherwise.
        pytest.param(grown((4, None, None), C.epoch(2, 7)), "same_members", id="a tombstone"),
        pytest.param(grown(SIX, before=[C.epoch(1, 7)]), "same_members", id="a hash before"),
    ],
)
def test_partition_metadata_that_changed_under_the_same_subscription(log, reason):
    told = history(log)
    assert told.names == ["created"]
    assert told.rebalances[1]["reasons"] == [reason]


def test_a_topic_that_grew_while_a_rebalance_went_on():
    log = Log().batch(0, C.member("a"), C.partition_metadata({"t": 4}), C.epoch(1, 0))
    log.batch(1, *reached(1)).batch(5, C.member("b"), C.epoch(2, 0)).batch(6, SIX, C.epoch(3, 0))
    log.batch(7, C.target_epoch(3), C.current("a", 3, LOW), C.current("b", 3, {"T": [2, 3, 4, 5]}))
    reasons = ["member_joined", "partitions_changed"]
    shows(history(log).rebalances[1], generation=3, reasons=reasons)


# --- subscribed patterns ---


def resolved(*topics):
    return (16, None, {"regex": "t.*", "topics": list(topics)})


def test_a_pattern_that_matched_other_topics():
    log = Log().batch(0, C.member("a", [], regex="t.*"), C.epoch(1), *reached(1, {}))
    log.batch(1, resolved("t"), C.epoch(2), *reached(2))
    log.batch(9, resolved("t", "t2"), C.epoch(3), *reached(3, ALL | {"T2": [0]}))
    log.batch(20, C.member("b", [], regex="t.*"), C.epoch(4), C.target("b", {"T2": [0]}))
    log.batch(21, *reached(4), C.current("b", 4, {"T2": [0]}))
    reasons = [row["reasons"] for row in history(log).rebalances]
    assert reasons[1:] == [["partitions_changed"], ["partitions_changed"], ["member_joined"]]


def test_topics_that_a_pattern_matched_are_told_in_any_order():
    log = Log().batch(0, C.member("a", [], regex="t.*"), resolved("t", "t2"), C.epoch(1))
    log.batch(1, *reached(1)).batch(5, resolved("t2", "t"), C.epoch(2), *reached(2))
    assert history(log).rebalances[1]["reasons"] == ["same_members"]


def test_a_pattern_that_nobody_has_any_more_is_no_reason():
    log = started(topics=[], regex="t.*").batch(1, resolved("t"), C.epoch(2), *reached(2))
    log.batch(9, C.member("a", ["t"]), (16, None, None), C.epoch(3), *reached(3))
    # A tombstone has what its key tells.
    log.rows[-5]["regular_expression"] = {"regex": "t.*"}
    told = history(log)
    assert told.rebalances[2]["reasons"] == ["subscription_changed"]
    assert told.state.now.patterns == {}


# --- share groups, of whose partitions state is made (KIP-932) ---


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


ONE, TWO = {"T": [0]}, {"T": [0], "U": [0]}


def wanting_another_topic():
    """A share group whose member wants a second topic, of which state is being made."""
    log = Log().batch(0, S.member("a"), S.epoch(1), *reached(1, ONE, S))
    wants = S.member("a", ("t", "u")), S.epoch(2, 2), S.target_epoch(2), S.current("a", 2, ONE)
    return log.batch(10, *wants, share_state(U="u"))


def test_the_extra_epoch_for_state_of_a_share_group_is_part_of_the_join():
    log = Log().batch(0, S.member("a"), S.epoch(1), *reached(1, {}, S), share_state(T="t"))
    for records in ([share_state(made={"T": "t"})], [S.epoch(2), *reached(2, ALL, S)]):
        assert history(log).rebalances[0]["ended_before"] is None
        log.batch(3, *records)
    (row,) = history(log).rebalances
    assert gist(row) == (*DONE, (0, 2, 0), (1, 0, 0), "member_joined", (0, 0, 4, 0))
    assert row["ended_before"] == at(3)


def test_a_topic_that_nobody_wants_any_more_is_worth_no_epoch():
    log = wanting_another_topic()
    assert history(log).rebalances[1]["ended_before"] is None
    log.batch(10.5, S.member("a"), S.epoch(3), *reached(3, ONE, S))
    log.batch(11, share_state(made={"U": "u"}))
    for _ in range(2):
        row = history(log).rebalances[1]
        shows(row, generation=3, skipped_generations=0, ended_before=at(10.5))
        log.batch(86_400, S.member("b"), S.epoch(4), S.target("b", ONE), S.target_epoch(4))
    assert len(history(log).rebalances) == 3


@pytest.mark.parametrize("epoch_first", [True, False])
@pytest.mark.parametrize("gone", [share_state(), (15, None, None)], ids=["told", "tombstone"])
def test_a_topic_that_is_deleted_is_worth_no_epoch(epoch_first, gone):
    log = wanting_another_topic()
    if epoch_first:
        log.batch(11, S.epoch(3, 3), S.target_epoch(3), S.current("a", 3, ONE))
    row = history(log.batch(12, gone)).rebalances[1]
    assert (row["generation"], row["ended_before"]) == (3 if epoch_first else 2, at(12))


def test_state_that_is_made_before_there_is_a_target_is_worth_no_epoch_of_its_own():
    """The target may wait for assignment.interval.ms, and then has what was made meanwhile."""
    log = Log().batch(0, S.member("a"), S.epoch(1), *reached(1, ONE, S))
    log.batch(10, S.member("a", ("t", "u")), S.epoch(2, 2), share_state(U="u"))
    log.batch(11, share_state(made={"U": "u"})).batch(12, *reached(2, TWO, S))
    row = history(log).rebalances[1]
    assert (row["ended_before"], counts(row)) == (at(12), (1, 0, 1, 0))


def test_state_that_was_made_long_ago_is_worth_no_epoch():
    """An assignor may give a topic to nobody."""
    log = Log().batch(0, S.member("a", ("t", "u")), S.epoch(1), *reached(1, ONE, S))
    log.batch(5, share_state(made={"T": "t", "U": "u"}))
    log.batch(9, S.epoch(2), *reached(2, ONE, S))
    assert history(log).rebalances[1]["ended_before"] == at(9)
