"""One group's records in order: records that are missing, taken back, not decoded, without a time;
deleted and converted groups; and random lives, whose coordinators keep their own account.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.fold import fold
from jobs.rules.groups.rows import GroupOutput
from jobs.rules.groups.state import State
from tests.support.classic_logs import (
    ALONE,
    HIGH,
    LOW,
    TOMBSTONE,
    cooperative,
    m,
    started,
    two_phases,
)
from tests.support.examples import examples
from tests.support.group_lives import ACTIONS, CUTS, KINDS, lived
from tests.support.group_records import CONSUMER, SHARE, Log, at, classic, gist, history, shows

ALL, LOWER, HIGHER = {"T": [0, 1, 2, 3]}, {"T": [0, 1]}, {"T": [2, 3]}
C, UNKNOWN = CONSUMER, (None, None, None, None)
NEXT = classic(9, [m("a", ALONE)])


def at_epoch(epoch, has=ALL, who="a"):
    """An epoch, and `who` has its target."""
    return C.epoch(epoch), C.target(who, has), C.target_epoch(epoch), C.current(who, epoch, has)


EVENTS = {
    # Events of each log (began_after, began_before, offset, detail), and why the last rebalance of
    # before ended.
    "records_lost": (
        two_phases().span("lost", 106, 150, seconds=20).batch(21, NEXT),
        [("records_lost", 5, 20, 106, "44 offsets were gone before they could be read")],
        "unknown",
    ),
    "records_lost: they cannot be read": (
        two_phases().span("lost", 106, 150, seconds=20, error="crc: not that of the bytes"),
        [("records_lost", 5, 20, 106, "44 offsets cannot be read: crc: not that of the bytes")],
        "unknown",
    ),
    "records_lost: of a group that is not known": (
        two_phases().undecoded(6, 2).undecoded(7, 99).span("lost", 110, 150, seconds=20),
        [
            ("undecoded", 6, 6, 106, "version 9 is not known"),
            ("undecoded", 7, 7, 108, "version 9 is not known"),
            ("records_lost", 7, 20, 110, "40 offsets were gone before they could be read"),
        ],
        "unknown",
    ),
    "records_lost: truncated": (
        two_phases().span("truncated", 106, 90, seconds=20).batch(21, NEXT),
        [(*("records_lost", 5, 20, 106), "the log ended 16 offsets before what had been read")],
        "unknown",
    ),
    "records_lost: by a clock that is behind": (
        two_phases().span("lost", 106, 150, seconds=2),
        [("records_lost", 5, 5, 106, "44 offsets were gone before they could be read")],
        "unknown",
    ),
    "undecoded": (
        two_phases().undecoded(6, 2),
        [("undecoded", 6, 6, 106, "version 9 is not known")],
        "unknown",
    ),
    "undecoded: a type that is not known": (
        two_phases().undecoded(6, 99),
        [("undecoded", 6, 6, 106, "version 9 is not known")],
        None,
    ),
    "deleted once": (
        two_phases().batch(8, TOMBSTONE).batch(12, TOMBSTONE),
        [("deleted", 8, 8, 106, None)],
        "deleted",
    ),
    "records of another type of group": (two_phases().batch(8, C.epoch(3)), [], "unknown"),
}


@pytest.mark.parametrize("case", EVENTS)
def test_events(case):
    log, events, end_reason = EVENTS[case]
    told = history(log)
    names = ("event", "began_after", "began_before", "offset", "detail")
    assert [tuple(event[name] for name in names) for event in told.events[1:]] == [
        (event, at(after), at(by), offset, detail) for event, after, by, offset, detail in events
    ]
    assert told.rebalances[1]["end_reason"] == end_reason


@pytest.mark.parametrize(
    ("cut_off", "prev_generation"),
    [
        (lambda log: log.span("lost", log.next_offset, 150, seconds=20), None),
        (lambda log: log.span("truncated", log.next_offset, 90, seconds=20), None),
        (lambda log: log.span("lost", 101, 150, seconds=20), None),
        (lambda log: log.undecoded(3, 2), None),
        (lambda log: log.undecoded(3, 99), 1),
        # A span that had been read.
        (lambda log: log.span("lost", 90, 103, seconds=20), 1),
    ],
    ids=[
        "records_lost",
        "truncated",
        "some of them known already",
        "undecoded",
        "undecoded: of no known type",
        "known already",
    ],
)
def test_where_records_are_missing_nothing_is_known_of_before(cut_off, prev_generation):
    log = cut_off(started())
    row = history(log.batch(21, classic(2, [m("a", ALONE)]))).rebalances[-1]
    assert row["prev_generation"] == prev_generation
    assert (row["reasons"] is None) == (row["since_previous_ms"] is None) == (not prev_generation)


def test_an_open_rebalance_is_told_up_to_the_last_record():
    for cuts in ((), (3,)):
        shows(history(two_phases(), cuts).rebalances[1], end_reason=None, last_offset=104)


def test_after_a_truncation_offsets_go_back():
    log = started().span("truncated", 103, 90, seconds=20).batch(21, classic(5, [m("a", ALONE)]))
    told = history(log)
    assert [row["first_offset"] for row in told.rebalances] == [102, 90]
    assert told.names == ["created", "records_lost"]


def test_of_a_group_that_is_gone_no_records_are_lost():
    log = started().batch(5, classic(2)).batch(9, TOMBSTONE)
    told = history(log.span("lost", log.next_offset, 150, seconds=20).batch(30, classic(0)))
    assert told.names == ["created", "deleted", "created"]


def test_what_was_lost_before_a_group_was_read_is_no_event():
    log = Log().span("lost", 50, 100, seconds=0)
    told = history(
        log.batch(5, C.member("a"), C.epoch(1), C.target_epoch(1), C.current("a", 1, {}))
    )
    assert (told.names, told.rebalances[0]["reasons"]) == ([], None)


@pytest.mark.parametrize("span", [None, "lost", "truncated"])
def test_rows_that_come_again_change_nothing(span):
    log = two_phases()
    if span:
        log.span(span, log.next_offset, log.next_offset + (9 if span == "lost" else -9), seconds=20)
    log.batch(21, NEXT)
    once, _ = fold(State(), log.rows)
    assert fold(once, log.rows) == (once, GroupOutput())


# --- records without a time, and clocks that step back ---


def test_a_record_without_a_time_was_written_after_the_one_before_and_by_when_it_was_read():
    log = Log(has_times=False).batch(1, classic(1, [m("a", ALONE)]))
    log.batch(5, classic(2, [m("a", ALONE)])).batch(9, classic(3)).batch(12, TOMBSTONE)
    told = history(log)
    bounds = ("began_after", "began_before", "ended_after", "ended_before")
    assert [tuple(row[name] for name in bounds) for row in told.rebalances] == [
        (None, at(2), None, at(2)),
        (at(2), at(6), at(2), at(6)),
        (at(6), at(10), at(6), at(10)),
    ]
    durations = [(row["duration_ms_min"], row["duration_ms_max"]) for row in told.rebalances]
    assert durations[:2] == [(0, None), (0, 4000)]
    assert [(each["event"], each["began_after"], each["began_before"]) for each in told.events] == [
        ("created", None, at(2)),
        ("deleted", at(10), at(13)),
    ]
    assert history(log, range(len(log.rows))) == told
    met = history(Log(has_times=False).batch(1, classic(7, [m("a")]))).rebalances[0]
    shows(met, reasons=None, began_before=at(2), ended_after=None, ended_before=at(2))


def test_what_is_read_by_a_clock_that_is_behind_keeps_its_order():
    log = started()
    log.has_times = False
    row = history(log.batch(-60, classic(2, [m("a", ALONE)]))).rebalances[1]
    shows(row, began_after=at(1), began_before=at(1), ended_before=at(1))


def test_records_without_a_time_that_lie_side_by_side_are_no_batch():
    """A group that was taken away is no conversion then."""
    log = Log(has_times=False).batch(1, classic(1, [m("a", ALONE)]))
    assert history(log.batch(5, TOMBSTONE, C.member("a"))).names == ["created", "deleted"]


def test_records_of_one_time_that_do_not_lie_side_by_side_are_no_batch():
    log = started().batch(9, TOMBSTONE).batch(9, C.member("a", protocols=[{"name": "range"}]))
    assert history(log).names == ["created", "deleted"]


def test_bounds_stay_in_order_when_a_clock_steps_back():
    log = started().batch(0.5, classic(2, [m("a", ALONE)], state_seconds=0.4))
    log.batch(9, cooperative(3, m("a", {"t": [0]}, owned=ALONE), m("b")))
    log.batch(2, cooperative(4, m("a", {"t": [0]}), m("b", {"t": [1, 2, 3]})))
    rows = history(log).rebalances
    assert len(rows) == 3
    for row in rows:
        assert row["began_after"] <= row["began_before"] <= row["ended_before"]
        assert row["ended_after"] <= row["ended_before"]
        assert 0 <= row["duration_ms_min"] <= row["duration_ms_max"]
        assert (row["since_previous_ms"] or 0) >= 0
    assert rows[1]["since_previous_ms"] == 0


# --- deleted groups, and conversions (KIP-848) ---


def upgraded():
    """A consumer of KIP-848 joins a classic group at generation 5: one batch says the group as it
    was, and then the join.
    """
    log = started().batch(2, classic(5, [m("a", ALONE)]))
    join = C.member("b"), C.epoch(6), C.target("a", LOWER), C.target("b", HIGHER)
    return log.batch(
        9,
        *(TOMBSTONE, C.member("a", protocols=[{"name": "range"}]), *at_epoch(5), *join),
        *(C.target_epoch(6), C.current("b", 6, {}, waits=True)),
    )


def both():
    return upgraded().batch(10, C.current("a", 6, LOWER)).batch(11, C.current("b", 6, HIGHER))


def back(log, *records, seconds=20):
    """The last consumer leaves a group of `a` and `b`, which is classic then."""
    return log.batch(seconds, *C.gone("b"), *C.gone("a"), *C.deleted(), *records)


SAME_NAMES = (1, 0, 0), "member_joined converted", (2, 2, 0, 0)
LAST = {
    # The gist of the last rebalance, and the events after `created`.
    "converted: upgraded": (
        both(),
        ("completed", 1, (5, 6, 0), *SAME_NAMES),
        [("converted", "classic", "consumer")],
    ),
    "converted: it had members, whatever they speak": (
        started().batch(9, TOMBSTONE, C.member("a"), *at_epoch(2)),
        ("completed", 1, (1, 2, 0), (0, 0, 0), "converted", UNKNOWN),
        [("converted", "classic", "consumer")],
    ),
    # The coordinator was busy: both have one time, and lie side by side.
    "converted: right after a rebalance": (
        started().batch(9, classic(2, [m("a", ALONE)]), TOMBSTONE,
                        C.member("a", protocols=[{"name": "range"}]), *at_epoch(2), *at_epoch(3)),
        ("completed", 1, (2, 3, 0), (0, 0, 0), "converted", (4, 0, 0, 0)),
        [("converted", "classic", "consumer")],
    ),
    "converted: and open": (
        upgraded(),
        (None, 1, (5, 6, 0), *SAME_NAMES),
        [("converted", "classic", "consumer")],
    ),
    "converted: and back": (
        back(both(), classic(6, [m("a", LOW)])).batch(22, classic(7, [m("a", ALONE)])),
        ("completed", 1, (6, 7, 0), (0, 1, 0), "member_left converted", UNKNOWN),
        [("converted", "classic", "consumer"), ("converted", "consumer", "classic")],
    ),
    "converted: and back, said twice": (
        back(both(), classic(6, [m("a", LOW)]))
        .batch(21, classic(6, [m("a", LOW)])).batch(22, classic(7, [m("a", ALONE)])),
        ("completed", 1, (6, 7, 0), (0, 1, 0), "member_left converted", UNKNOWN),
        [("converted", "classic", "consumer"), ("converted", "consumer", "classic")],
    ),
    "converted: back by the next generation alone": (
        back(both(), classic(7, [m("a", {"t": [0]})])),
        ("completed", 1, (6, 7, 0), (0, 1, 0), "member_left converted", UNKNOWN),
        [("converted", "classic", "consumer"), ("converted", "consumer", "classic")],
    ),
    "converted: it ends a rebalance": (
        back(upgraded(), classic(6, [m("a", {"t": [0]})])),
        ("converted", 1, (5, 6, 0), *SAME_NAMES),
        [("converted", "classic", "consumer"), ("converted", "consumer", "classic")],
    ),
    # Kafka converts no group without members.
    "deleted: an empty group is taken over": (
        started().batch(5, classic(6)).batch(
            9, TOMBSTONE, C.member("b"), *at_epoch(1, who="b")
        ),
        ("completed", 1, (0, 1, 0), (1, 0, 0), "member_joined", (0, 0, 4, 0)),
        [("deleted", None, "classic"), ("created", None, "consumer")],
    ),
    "deleted and made again": (
        Log().batch(0, C.member("a"), *at_epoch(1)).batch(5, *C.gone("a"), C.epoch(2))
        .batch(9, *C.deleted()).batch(20, C.member("b"), *at_epoch(1, who="b")),
        ("completed", 1, (0, 1, 0), (1, 0, 0), "member_joined", (0, 0, 4, 0)),
        [("deleted", None, "consumer"), ("created", None, "consumer")],
    ),
    "deleted while it rebalances": (
        Log().batch(0, C.member("a"), *at_epoch(1)).batch(5, C.member("b"), C.epoch(2)).batch(
            9, *C.gone("a"), *C.gone("b"), *C.deleted()
        ),
        ("deleted", 1, (1, 2, 0), (1, 0, 0), "member_joined", UNKNOWN),
        [("deleted", None, "consumer")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LAST)
def test_a_group_that_is_deleted_or_converted(case):
    log, last, events = LAST[case]
    for cuts in ((), range(len(log.rows))):
        told = history(log, cuts)
        assert gist(told.rebalances[-1]) == last
        if events[-1][0] == "created":
            assert told.rebalances[-1]["since_previous_ms"] is None
        assert [
            (each["event"], each["prev_group_type"], each["group_type"]) for each in told.events
        ][1:] == events


def test_what_a_conversion_says():
    told = history(both())
    shows(told.events[1], offset=106, began_before=at(9), generation=5)
    row = told.rebalances[2]
    shows(row, group_type="consumer", prev_group_type="classic", began_before=at(9))
    log = back(both(), classic(6, [m("a", LOW)])).batch(22, classic(7, [m("a", ALONE)]))
    row = history(log).rebalances[3]
    shows(row, group_type="classic", prev_group_type="consumer", prev_members=2, members=1)
    ended = history(back(upgraded(), classic(6, [m("a")]))).rebalances[2]
    shows(ended, end_reason="converted", ended_before=at(20))


@pytest.mark.parametrize("has", [ALL, {"T": [0, 1, 2, 3, 4, 5]}], ids=["as before", "grew"])
def test_a_conversion_tells_no_change_of_partitions(has):
    """Each protocol has its own way to name them, and to keep what is known of topics."""
    log = started().batch(2, classic(5, [m("a", ALONE)]))
    member = C.member("a", protocols=[{"name": "range"}]), C.partition_metadata({"t": 4})
    there = history(log.batch(9, TOMBSTONE, *member, *at_epoch(5), *at_epoch(6, has))).rebalances[2]
    shows(there, partitions_added=len(has["T"]) - 4, reasons=["converted"])
    members = [m("a", LOW), m("b", HIGH)]
    log = back(both(), classic(6, members)).batch(21, classic(7, members))
    shows(history(log).rebalances[3], members_left=0, reasons=["converted"])


@pytest.mark.parametrize(
    ("records", "event"),
    [
        ([TOMBSTONE, C.member("a", protocols=[{"name": "range"}]), C.epoch(5)], "converted"),
        ([TOMBSTONE, C.member("a"), C.epoch(5)], "deleted"),
        ([*C.deleted(), classic(6, [m("a")])], "converted"),
        ([*C.deleted(), classic(6)], "deleted"),
        # As another type of its own kind, a group is no other.
        ([TOMBSTONE, classic(6, [m("a")])], "deleted"),
    ],
)
def test_a_group_of_which_only_the_tombstone_was_read(records, event):
    """Members that speak the classic protocol tell a conversion."""
    told = history(Log().batch(9, *records))
    assert told.names[0] == event
    known = [row["reasons"] is not None for row in told.rebalances]
    assert all(each == (event == "deleted") for each in known)


@pytest.mark.parametrize("kind", [C, SHARE])
def test_a_tombstone_of_another_type_of_group_says_nothing(kind):
    log = started().batch(5, *kind.gone("a"), *kind.deleted())
    told = history(log.batch(6, classic(2, [m("a", ALONE)])))
    assert told.names == ["created"]
    shows(told.rebalances[-1], prev_generation=1, reasons=["same_members"])


def test_the_state_says_what_the_table_of_states_asks():
    state, _ = fold(State(), started().rows)
    assert (state.now.group_type, state.known_since) == ("classic", at(0))
    gone, _ = fold(state, started().batch(5, classic(2)).batch(6, TOMBSTONE).rows)
    assert (gone.now.group_type, gone.known_since) == (None, at(0))


def test_what_a_later_batch_says_of_a_rebalance_that_ended():
    stable = C.epoch(9), C.target_epoch(9), C.current("b", 9, HIGHER)
    log = Log().batch(5, C.member("b"), *stable).batch(7, C.current("a", 9, LOWER))
    # Of a group that is not known, a member that shows up late prolongs it.
    shows(history(log).rebalances[0], members=2, ended_before=at(7))
    part = [{"topic_id": "U", "topic": "u", "partitions": [0]}]
    share = SHARE.member("a", ("t", "u")), SHARE.epoch(1), SHARE.target("a", ALL)
    log = Log().batch(0, *share, SHARE.target_epoch(1), SHARE.current("a", 1, ALL))
    log.batch(5, (15, None, {"initializing": part, "initialized": []}))
    shows(history(log).rebalances[0], ended_before=at(0))


def test_only_the_first_batch_of_a_group_tells_that_it_was_made():
    log = Log().batch(0, C.member("a")).batch(5, C.epoch(1), C.target_epoch(1))
    assert history(log).names == []


def test_rows_of_the_last_batch_may_change_yet():
    """A read may cut it in two."""
    log = Log().batch(0, C.member("a"), *at_epoch(1))
    _, whole = fold(State(), log.rows)
    assert len(whole.recent) == len(whole.rows) == 2
    _, later = fold(State(), log.batch(3, C.current("a", 1, ALL)).rows)
    assert (later.recent, len(later.rows)) == (set(), 2)
    _, lost = fold(State(), log.span("lost", log.next_offset, 150, seconds=20).rows)
    assert (lost.recent, len(lost.rows)) == (set(), 3)


def test_every_cut_gives_the_same():
    log = back(both(), classic(6, [m("a", LOW)])).batch(22, classic(7, [m("a", LOW)]))
    log.span("lost", log.next_offset, 300, seconds=30)
    log.batch(40, C.member("c"), C.epoch(8), C.target_epoch(8), C.current("c", 8, {}))
    log.batch(41, C.current("a", 8, LOWER))
    whole = history(log)
    for cut in range(len(log.rows)):
        assert history(log, [cut]) == whole
    assert history(log, range(len(log.rows))) == whole


# --- random lives ---


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(15))
@given(partitions=st.integers(1, 7), actions=ACTIONS, cuts=CUTS)
def test_the_fold_tells_what_the_coordinator_lived_through(kind, partitions, actions, cuts):
    group = lived(kind, partitions, actions)
    told = history(group.log)
    assert [
        {column: row[column] for column in account}
        for row, account in zip(told.rebalances, group.accounts, strict=True)
    ] == group.accounts
    restarts = [
        (event["prev_member_id"], event["member_id"])
        for event in told.events
        if event["event"] == "static_restart"
    ]
    assert restarts == group.restarts
    created = told.names.count("created")
    assert created == len(told.names) - len(restarts) == bool(group.log.rows)
    for row, members in zip(told.rebalances, told.members, strict=True):
        changes = [member["change"] for member in members.values()]
        assert [changes.count(change) for change in ("left", "restarted")] == [
            row["members_left"],
            row["members_restarted"],
        ]
        assert row["prev_members"] + row["members_joined"] - row["members_left"] == row["members"]
    assert history(group.log, [cut % (len(group.log.rows) + 1) for cut in cuts]) == told
    assert history(group.log, range(len(group.log.rows))) == told


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(30))
@given(partitions=st.integers(1, 4), actions=ACTIONS)
def test_a_rebalance_is_open_while_a_record_that_may_end_it_is_to_come(kind, partitions, actions):
    group, state, read = KINDS[kind](partitions), State(), 0
    for action in actions:
        group.do(action)
        state, _ = fold(state, group.log.rows[read:])
        read = len(group.log.rows)
        assert (state.open_rebalance is not None) == (group.account is not None)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(15))
@given(partitions=st.integers(1, 4), actions=ACTIONS, begin=st.integers(0, 200))
def test_of_a_group_that_is_met_in_mid_life_nothing_is_open_once_it_is_at_rest(
    kind, partitions, actions, begin
):
    group = lived(kind, partitions, actions)
    rows = group.log.rows[begin % (len(group.log.rows) + 1) :]
    state, told = fold(State(), rows)
    assert state.open_rebalance is None
    assert all(row["ended_before"] is not None for row in told.rows.values() if "event" not in row)
