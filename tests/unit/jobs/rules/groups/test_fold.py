"""One group's records in order: records that are missing, taken back, not decoded, without a time;
deleted and converted groups; and random lives, whose coordinators keep their own account.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.fold import fold
from jobs.rules.groups.rows import GroupOutput
from jobs.rules.groups.state import State
from tests.support.examples import examples
from tests.support.group_lives import ACTIONS, CUTS, KINDS, lived
from tests.support.group_records import (
    CONSUMER,
    SHARE,
    Log,
    at,
    classic,
    classic_member,
    gist,
    history,
    shows,
)

ALONE, LOW, HIGH = {"t": [0, 1, 2, 3]}, {"t": [0, 1]}, {"t": [2, 3]}
ALL, LOWER, HIGHER = {"T": [0, 1, 2, 3]}, {"T": [0, 1]}, {"T": [2, 3]}
C, TOMBSTONE = CONSUMER, (2, None, None)
UNKNOWN = (None, None, None, None)


def m(member_id, has=None, owned=None):
    return classic_member(member_id, has=has, owned=owned)


def started():
    """A classic group that was created, and has one member since generation 1."""
    return Log().batch(0, classic(0)).batch(1, classic(1, [m("a", ALONE)]))


def open_one():
    """A cooperative group that rebalances: `a` gave up what `b` is to have."""
    log = Log().batch(0, classic(0)).batch(1, classic(1, [m("a", ALONE)], protocol=TAKING))
    return log.batch(5, classic(2, [m("a", LOW, owned=ALONE), m("b", {})], protocol=TAKING))


TAKING = "cooperative-sticky"
NEXT = classic(9, [m("a", ALONE)])


def stable(epoch, kind=C):
    """A group with epochs in which `a` has everything."""
    now = kind.epoch(epoch), kind.target("a", ALL), kind.target_epoch(epoch)
    return Log().batch(0, kind.member("a"), *now, kind.current("a", epoch, ALL))


EVENTS = {
    # Events of each log (began_after, began_before, offset, detail), and why the last rebalance of
    # before ended.
    "records_lost": (
        open_one().span("lost", 106, 150, seconds=20).batch(21, NEXT),
        [("records_lost", 5, 20, 106, "44 offsets were gone before they could be read")],
        "unknown",
    ),
    "records_lost: they cannot be read": (
        open_one().span("lost", 106, 150, seconds=20, error="crc: not that of the bytes"),
        [("records_lost", 5, 20, 106, "44 offsets cannot be read: crc: not that of the bytes")],
        "unknown",
    ),
    "records_lost: truncated": (
        open_one().span("truncated", 106, 90, seconds=20).batch(21, NEXT),
        [
            (
                *("records_lost", 5, 20, 106),
                "the log ended 16 offsets before what had been read",
            )
        ],
        "unknown",
    ),
    "records_lost: by a clock that is behind": (
        open_one().span("lost", 106, 150, seconds=2),
        [("records_lost", 5, 5, 106, "44 offsets were gone before they could be read")],
        "unknown",
    ),
    "undecoded": (
        open_one().undecoded(6, 2),
        [("undecoded", 6, 6, 106, "version 9 is not known")],
        "unknown",
    ),
    "undecoded: a type that is not known": (
        open_one().undecoded(6, 99),
        [("undecoded", 6, 6, 106, "version 9 is not known")],
        None,
    ),
    "deleted": (open_one().batch(8, TOMBSTONE), [("deleted", 8, 8, 106, None)], "deleted"),
    "records of another type of group": (open_one().batch(8, C.epoch(3)), [], "unknown"),
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
        (lambda log: log.undecoded(3, 2), None),
        (lambda log: log.undecoded(3, 99), 1),
        # A span that had been read.
        (lambda log: log.span("lost", 90, 103, seconds=20), 1),
    ],
    ids=["records_lost", "truncated", "undecoded", "undecoded: of no known type", "known already"],
)
def test_where_records_are_missing_nothing_is_known_of_before(cut_off, prev_generation):
    log = cut_off(started())
    row = history(log.batch(21, classic(2, [m("a", ALONE)]))).rebalances[-1]
    assert row["prev_generation"] == prev_generation
    assert (row["reasons"] is None) == (row["since_previous_ms"] is None) == (not prev_generation)


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
    log = open_one()
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


def test_bounds_stay_in_order_when_a_clock_steps_back():
    log = started().batch(0.5, classic(2, [m("a", ALONE)], state_seconds=0.4))
    log.batch(9, classic(3, [m("a", {"t": [0]}, owned=ALONE), m("b")], protocol=TAKING))
    log.batch(2, classic(4, [m("a", {"t": [0]}), m("b", {"t": [1, 2, 3]})], protocol=TAKING))
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
    as_it_was = C.epoch(5, 0), C.target("a", ALL), C.target_epoch(5), C.current("a", 5, ALL)
    join = C.member("b"), C.epoch(6), C.target("a", LOWER), C.target("b", HIGHER)
    return log.batch(
        9,
        *(TOMBSTONE, C.member("a", protocols=[{"name": "range"}]), *as_it_was, *join),
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
            9, TOMBSTONE, C.member("b"), C.epoch(1), C.target("b", ALL), C.target_epoch(1),
            C.current("b", 1, ALL),
        ),
        ("completed", 1, (0, 1, 0), (1, 0, 0), "member_joined", (0, 0, 4, 0)),
        [("deleted", None, "classic"), ("created", None, "consumer")],
    ),
    "deleted and made again": (
        stable(1).batch(5, *C.gone("a"), C.epoch(2)).batch(9, *C.deleted()).batch(
            20, C.member("b"), C.epoch(1), C.target("b", ALL), C.target_epoch(1),
            C.current("b", 1, ALL),
        ),
        ("completed", 1, (0, 1, 0), (1, 0, 0), "member_joined", (0, 0, 4, 0)),
        [("deleted", None, "consumer"), ("created", None, "consumer")],
    ),
    "deleted while it rebalances": (
        stable(1).batch(5, C.member("b"), C.epoch(2)).batch(
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
    as_it_was = C.epoch(5, 0), C.target("a", ALL), C.target_epoch(5), C.current("a", 5, ALL)
    member = C.member("a", protocols=[{"name": "range"}]), C.partition_metadata({"t": 4})
    now = C.epoch(6, 0), C.target("a", has), C.target_epoch(6), C.current("a", 6, has)
    there = history(log.batch(9, TOMBSTONE, *member, *as_it_was, *now)).rebalances[2]
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
    assert history(Log().batch(9, *records)).names[0] == event


@pytest.mark.parametrize("kind", [C, SHARE])
def test_a_tombstone_of_another_type_of_group_says_nothing(kind):
    log = started().batch(5, *kind.deleted()).batch(6, classic(2, [m("a", ALONE)]))
    told = history(log)
    assert (told.names, told.rebalances[-1]["prev_generation"]) == (["created"], 1)


def test_the_state_says_what_the_table_of_states_asks():
    state, _ = fold(State(), started().rows)
    assert (state.now.group_type, state.known_since) == ("classic", at(0))
    gone, _ = fold(state, started().batch(5, classic(2)).batch(6, TOMBSTONE).rows)
    assert (gone.now.group_type, gone.known_since) == (None, at(0))


def test_rows_of_the_last_batch_may_change_yet():
    """A read may cut it in two."""
    records = C.member("a"), C.epoch(1), C.target("a", ALL), C.target_epoch(1)
    log = Log().batch(0, *records, C.current("a", 1, ALL))
    _, whole = fold(State(), log.rows)
    assert len(whole.recent) == len(whole.rows) == 2
    _, later = fold(State(), log.batch(3, C.current("a", 1, ALL)).rows)
    assert (later.recent, len(later.rows)) == (set(), 2)


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
