"""All of one group, from the log and from polls: whatever rounds are cut into, they leave the same
tables.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.configuration.config import Thresholds
from jobs.rules.groups.group import is_over, settled
from schemas import groups
from tests.support.examples import examples
from tests.support.group_lives import ACTIONS, CUTS, KINDS, lived
from tests.support.group_records import CONSUMER, SHARE, Log, at, classic, classic_member, shows
from tests.support.group_rounds import Rounds
from tests.support.group_states import at as described_at
from tests.support.group_states import classic as described
from tests.support.group_states import consumer, member, poll, states

LIMITS = Thresholds(storm=3, crash_loop=2)
TOMBSTONE = (2, None, None)
MADE, JOINED = classic(0), classic(1, [classic_member("a")])

LIVES: dict[str, tuple[list[Any], list[tuple[int, int | None, str]]]] = {
    # What is written each second, and times that the group was there: valid_from, valid_to, type.
    "created": ([[MADE]], [(0, None, "classic")]),
    "no record says that it was made": ([[classic(7)]], [(0, None, "classic")]),
    "emptied: its offsets are kept": ([[MADE], [JOINED], [classic(2)]], [(0, None, "classic")]),
    "deleted": ([[MADE], [JOINED], [TOMBSTONE]], [(0, 2, "classic")]),
    "deleted: only its tombstone was read": ([[TOMBSTONE]], [(0, 0, "classic")]),
    "deleted and made again": (
        [[MADE], [JOINED], [TOMBSTONE], [MADE]],
        [(0, 2, "classic"), (3, None, "classic")],
    ),
    "deleted and made again, no generation 0": (
        [[JOINED], [TOMBSTONE], [JOINED]],
        [(0, 1, "classic"), (2, None, "classic")],
    ),
    "made again: no record says it yet": (
        [[(3, None, None)], [CONSUMER.member("a")]],
        [(0, 0, "consumer"), (1, None, "consumer")],
    ),
    "converted": (
        [
            *([MADE], [JOINED]),
            [TOMBSTONE, CONSUMER.member("a", protocols=[{"name": "range"}]), CONSUMER.epoch(2)],
        ],
        [(0, None, "consumer")],
    ),
}


@pytest.mark.parametrize("case", LIVES)
def test_lives(case: str) -> None:
    batches, lives = LIVES[case]
    log = Log()
    for second, batch in enumerate(batches):
        log.batch(second, *batch)
    whole, by_one = Rounds(), Rounds()
    whole.take(log.rows, read_on=5)
    for row in log.rows:
        by_one.take([row], read_on=5 if row is log.rows[-1] else 0)
    names = ("valid_from", "valid_to", "group_type")
    for rounds in (whole, by_one):
        assert [tuple(row[name] for name in names) for row in rounds.of(groups.GROUP_LIVES)] == [
            (at(begin), None if end is None else at(end), type_) for begin, end, type_ in lives
        ]


def stretches(rows: list[Any], cuts: list[int]) -> Iterator[list[Any]]:
    """The rows, cut at these places."""
    begin = 0
    for end in [*sorted(each % (len(rows) + 1) for each in cuts), len(rows)]:
        if rows[begin:end]:
            yield rows[begin:end]
            begin = end


@pytest.mark.parametrize("has_times", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(12))
@given(life=st.tuples(st.integers(1, 7), ACTIONS), cuts=CUTS, begin=st.just(0) | st.integers(0, 50))
def test_the_log_cut_anywhere_makes_the_same_tables(kind, has_times, life, cuts, begin):
    """`begin`: of a group that is met in mid-life."""
    rows = lived(kind, *life).log.rows[begin:]
    rows = rows if has_times else [row | {"timestamp": None} for row in rows]
    whole, cut, by_one = Rounds(LIMITS), Rounds(LIMITS), Rounds(LIMITS)
    if rows:
        whole.take(rows)
    for stretch in stretches(rows, cuts):
        cut.take(stretch)
    for row in rows:
        by_one.take([row])
    assert cut.sorted() == whole.sorted()
    assert by_one.sorted() == whole.sorted()
    if rows:
        rebalances = whole.of(groups.REBALANCES)
        assert {row["rebalance_id"] for row in whole.of(groups.REBALANCE_MEMBERS)} <= {
            r["id"] for r in rebalances
        }
        assert [life["valid_to"] for life in whole.of(groups.GROUP_LIVES)] == [None]
        assert sum(row["ended_before"] is None for row in rebalances) <= 1


# --- polls tell of a group until its log does ---


def after_polls(*seen, state_seconds):
    """Since when the log has a group that polls showed, and until when polls had it; seconds after
    its record's time.

    `seen`: as of states(); the record is written 100 s after the first poll.
    """
    rounds = Rounds()
    rounds.take(states=states(*seen))
    record = (described_at(0) - at(0)).total_seconds() + 100
    ended = None if state_seconds is None else record + state_seconds
    rounds.take(Log().batch(record, classic(7, [classic_member("a")], state_seconds=ended)).rows)
    lives = {row["source"]: row for row in rounds.of(groups.GROUP_LIVES)}
    times = lives["log"]["valid_from"], lives["polls"]["valid_to"]
    return tuple((each - at(record)).total_seconds() for each in times)


STABLE = described("Stable", member("a", {"t": [0]}))
PREPARING = described("PreparingRebalance", member("a"))


@pytest.mark.parametrize(
    ("seen", "state_seconds", "since"),
    [
        pytest.param([(0, STABLE)], None, 0, id="its first record"),
        pytest.param([(0, STABLE)], -3, -3, id="when the join phase ended"),
        # Polls are answered by a second after the beat.
        pytest.param([(0, STABLE), (9, PREPARING)], -3, -9, id="a rebalance that polls saw begin"),
        pytest.param(
            [(0, STABLE), (9, PREPARING)], -20, -20, id="a join phase that polls saw late"
        ),
        pytest.param([(0, STABLE), (3, PREPARING), (5, STABLE)], -3, -3, id="one that was over"),
    ],
)
def test_since_when_the_log_has_a_group(seen, state_seconds, since):
    assert after_polls(*seen, state_seconds=state_seconds) == (since, since)


UNDESCRIBED: dict[str, tuple[list[Any], list[str], list[Any]]] = {
    # What polls saw, when the group was made, and rebalances: began_after, began_before, joined.
    "first poll of all": ([(0, {}), (4, STABLE)], [], []),
    "a group that is new": ([(3, {}), (4, STABLE)], [poll(4)], [(20, 41, 1)]),
    "a group that is new rebalances": ([(3, {}), (4, PREPARING)], [poll(4)], [(20, 41, 1)]),
    "never described": ([(3, {}), (4, None)], [], []),
    "never described, and made again": (
        [(3, {}), (4, None), (9, STABLE)],
        [poll(9)],
        [(80, 91, 1)],
    ),
}


@pytest.mark.parametrize("case", UNDESCRIBED)
def test_a_group_that_could_not_be_described_yet_says_nothing(case):
    seen, made, told = UNDESCRIBED[case]
    rounds = Rounds()
    rounds.take(states=states(*seen))
    assert [(row["event"], row["poll"]) for row in rounds.of(groups.GROUP_EVENTS)] == [
        ("created", each) for each in made
    ]
    began = {
        (row["began_after"], row["began_before"], row["members_joined"])
        for row in rounds.of(groups.REBALANCES)
    }
    assert began == {
        (described_at(after), described_at(before), joined) for after, before, joined in told
    }
    for row in rounds.of(groups.REBALANCE_BEGINS):
        assert row["began_after"] == described_at(told[0][0])


def test_the_first_of_two_partitions_takes_over_from_polls():
    rounds = Rounds()
    rounds.take(states=states((0, STABLE)))
    record = (described_at(100) - at(0)).total_seconds()
    first = Log(log_partition=57).batch(record, classic(7, [classic_member("a")]))
    second = Log().batch(record + 20, classic(7, [classic_member("a")]))
    rounds.take([*first.rows, *second.rows])
    lives = {row["log_partition"]: row for row in rounds.of(groups.GROUP_LIVES)}
    begins = {partition: row["valid_from"] for partition, row in lives.items()}
    assert begins == {None: described_at(1), 57: described_at(100), 7: described_at(120)}
    assert lives[None]["valid_to"] == described_at(100)


def test_a_life_that_polls_saw_begin_late_ends_as_it_began():
    """By the log, the group's rebalance had begun before polls first showed the group."""
    assert after_polls((0, STABLE), state_seconds=-200) == (-200, -99)


def test_a_rebalance_that_polls_saw_begin_may_have_ended_unseen():
    rounds = Rounds()
    rounds.take(states=states((0, STABLE), (9, PREPARING)))
    rounds.take(Log().batch((described_at(100) - at(0)).total_seconds(), classic(7)).rows)
    of_polls = [row for row in rounds.of(groups.REBALANCES) if row["source"] == "polls"]
    assert len(of_polls) == 1
    began = described_at(91)
    shows(of_polls[0], end_reason="unknown", began_before=began, ended_before=began)
    shows(of_polls[0], ended_after=None, is_live=False)


def test_a_storm_that_polls_saw_grows_no_more_once_the_log_has_the_group():
    rounds = Rounds(LIMITS)
    rounds.take(states=states(*[(2 * n, (STABLE, PREPARING)[n % 2]) for n in range(7)]))
    assert [row["is_live"] for row in rounds.of(groups.REBALANCE_STORMS)] == [True]
    record = (described_at(13) - at(0)).total_seconds() + 100
    rounds.take(Log().batch(record, classic(7, [classic_member("a")])).rows)
    assert [row["is_live"] for row in rounds.of(groups.REBALANCE_STORMS)] == [False]


def test_polls_tell_of_a_group_no_more_once_its_log_does():
    rounds = Rounds()
    rounds.take(Log().batch(0, classic(7, [classic_member("a")])).rows)
    rounds.take(states=states((0, STABLE), (9, PREPARING)))
    assert [row["source"] for row in rounds.of(groups.REBALANCES)] == ["log"]
    assert len(rounds.of(groups.REBALANCE_BEGINS)) == 1, "but for when its rebalances began"


# --- __consumer_offsets gets more partitions: the group hashes to one whose coordinator is new ---


def moved(first, second, *, was=7, is_now=57):
    """The logs of two lives of one group, which overlap: what the first wrote last came after the
    second began.
    """
    for group, partition, shift, later in ((first, was, 5_000, 0), (second, is_now, -100, 0.5)):
        log = group.log
        log.rows = [
            row
            | {
                "log_partition": partition,
                "offset": row["offset"] + shift,
                "timestamp": row["timestamp"] + timedelta(seconds=later),
            }
            for row in log.rows
        ]
    rows = [*first.log.rows, *second.log.rows]
    return sorted(rows, key=lambda row: (row["timestamp"], row["log_partition"], row["offset"]))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(10))
@given(lives=st.tuples(ACTIONS, ACTIONS), cuts=CUTS)
def test_each_partition_that_keeps_a_group_tells_its_own(kind, lives, cuts):
    rows = moved(*(lived(kind, 3, actions) for actions in lives))
    apart = [Rounds(LIMITS), Rounds(LIMITS)]
    for rounds, partition in zip(apart, (7, 57), strict=True):
        if of_partition := [row for row in rows if row["log_partition"] == partition]:
            rounds.take(of_partition)
    cut = Rounds(LIMITS)
    for stretch in stretches(rows, cuts):
        cut.take(stretch)
    for table in (groups.REBALANCES, groups.GROUP_EVENTS, groups.REBALANCE_MEMBERS):
        expected = [repr(row) for rounds in apart for row in rounds.of(table)]
        assert sorted(map(repr, cut.of(table))) == sorted(expected)
    storms = [repr(row) for rounds in apart for row in rounds.of(groups.REBALANCE_STORMS)]
    assert sorted(map(repr, cut.of(groups.REBALANCE_STORMS))) == sorted(storms)
    lives = [(row["log_partition"], row["group_type"]) for row in cut.of(groups.GROUP_LIVES)]
    assert len(lives) == len(set(lives)) == len({row["log_partition"] for row in rows})


def test_a_group_in_another_partition_starts_at_low_offsets():
    first, second = Log(next_offset=5_000), Log(log_partition=57, next_offset=0)
    first.batch(0, classic(0)).batch(1, classic(1, [classic_member("a")]))
    second.batch(20, classic(1, [classic_member("a2")], state_seconds=19)).batch(
        22, classic(2, [classic_member("b")])
    )
    rounds = Rounds()
    rounds.take(first.rows)
    # Only now have all its members timed out where they were.
    rounds.take([*second.rows, *first.batch(45, classic(2)).batch(90, (2, None, None)).rows[2:]])
    found = [
        (row["log_partition"], row["generation"], row["reasons"], row["end_reason"])
        for row in sorted(rounds.of(groups.REBALANCES), key=lambda row: row["began_before"])
    ]
    assert found == [
        (7, 1, ["member_joined"], "completed"),
        (57, 1, ["member_joined"], "completed"),
        (57, 2, ["member_joined", "member_left"], "completed"),
        (7, 2, ["member_left", "group_emptied"], "emptied"),
    ]
    lives = {
        row["log_partition"]: (row["valid_from"], row["valid_to"])
        for row in rounds.of(groups.GROUP_LIVES)
    }
    assert lives == {7: (at(0), at(90)), 57: (at(20), None)}


def test_what_is_lost_of_one_partition_says_nothing_of_the_other():
    first, second = Log(next_offset=5_000), Log(log_partition=57, next_offset=0)
    first.batch(0, classic(0)).batch(1, classic(1, [classic_member("a")]))
    second.batch(20, classic(1, [classic_member("a2")]))
    first.span("lost", first.next_offset, first.next_offset + 10, seconds=30)
    rounds = Rounds()
    rounds.take([*second.rows, *first.rows])
    rounds.take(second.batch(40, classic(2)).rows[1:])
    last = max(rounds.of(groups.REBALANCES), key=lambda row: row["began_before"])
    assert (last["log_partition"], last["prev_generation"], last["reasons"]) == (
        57,
        1,
        ["member_left", "group_emptied"],
    )
    lost = [
        row["log_partition"]
        for row in rounds.of(groups.GROUP_EVENTS)
        if row["event"] == "records_lost"
    ]
    assert lost == [7]


def test_records_are_lost_of_a_group_once_it_is_known():
    made = CONSUMER.member("a"), CONSUMER.epoch(1), CONSUMER.target_epoch(1)
    log, rounds = Log().span("lost", 50, 100, seconds=0).batch(5, *made), Rounds()
    rounds.take(log.rows)
    assert [row["event"] for row in rounds.of(groups.GROUP_EVENTS)] == ["created"]
    rounds.take(log.span("lost", log.next_offset, 150, seconds=9).rows[-1:])
    events = [(row["event"], row["offset"]) for row in rounds.of(groups.GROUP_EVENTS)]
    assert sorted(events) == [("created", 101), ("records_lost", 104)]


def test_a_member_that_is_read_late_prolongs_what_an_earlier_round_told():
    b = CONSUMER.member("b"), CONSUMER.epoch(9), CONSUMER.target_epoch(9)
    log, rounds = Log().batch(5, *b, CONSUMER.current("b", 9, {"T": [0]})), Rounds()
    rounds.take(log.rows)
    rounds.take(log.batch(6, CONSUMER.member("b")).rows[-1:])
    rounds.take(log.batch(7, CONSUMER.current("a", 9, {"T": [1]})).rows[-1:])
    (row,) = rounds.of(groups.REBALANCES)
    shows(row, members=2, ended_before=at(7))


def test_a_life_that_polls_show_is_of_the_type_that_the_group_has_now():
    rounds = Rounds()
    now = consumer("Stable", 8, 8, member("a", {}, epoch=8, target={}))
    rounds.take(states=states((0, STABLE), (3, now)), log_partition=3)
    (life,) = rounds.of(groups.GROUP_LIVES)
    shows(life, group_type="consumer", valid_from=described_at(1), log_partition=3)
    assert {row["log_partition"] for row in rounds.of(groups.REBALANCES)} == {3}


@pytest.mark.parametrize(("apart", "per_hour"), [(2, 3 * 3600 / 4), (0, None)])
def test_a_storm_says_how_often_a_group_rebalances(apart, per_hour):
    log, rounds = Log().batch(0, MADE), Rounds(LIMITS)
    for number in range(3):
        log.batch(1 + apart * number, classic(1 + number, [classic_member("a")]))
    rounds.take(log.rows)
    (storm,) = rounds.of(groups.REBALANCE_STORMS)
    shows(storm, rebalances=3, began_before=at(1), last_before=at(1 + 2 * apart), kind="storm")
    assert storm["per_hour"] == per_hour


def test_what_another_source_has_new_leaves_the_storms_of_a_log():
    log = Log().batch(0, classic(0))
    for generation in range(1, 4):
        log.batch(generation, classic(generation, [classic_member(f"a{generation}")]))
    rounds = Rounds(LIMITS)
    rounds.take(log.rows)
    storms = list(rounds.of(groups.REBALANCE_STORMS))
    assert [row["kind"] for row in storms] == ["storm"]
    rounds.take(states=states((0, described("Stable", member("a3", {"t": [0]})))))
    assert rounds.of(groups.REBALANCE_STORMS) == storms
    rounds.take(Log(log_partition=57).batch(90, classic(9)).rows)
    assert rounds.of(groups.REBALANCE_STORMS) == storms
    written = [row for rows in rounds.written.values() for row in rows]
    assert {row["log_partition"] for row in written if "log_partition" in row} == {57}


def test_a_crash_loop_is_none_if_the_rest_of_a_batch_opens_its_rebalance_again():
    """A read cuts a batch in two; its rest says that an epoch of a share group is to follow."""
    a, b = (SHARE.member(each, ("t", "u"), client_id="app") for each in "ab")
    has = {"T": [0]}

    def stable(who, epoch):
        return SHARE.target(who, has), SHARE.target_epoch(epoch), SHARE.current(who, epoch, has)

    log = Log().batch(0, a, SHARE.epoch(1), *stable("a", 1))
    making = [{"topic_id": "U", "topic": "u", "partitions": [0]}]
    state = (15, None, {"initializing": making, "initialized": []})
    log.batch(5, b, SHARE.epoch(2), *stable("b", 2), SHARE.current("a", 2, has), state)
    rounds = Rounds(LIMITS)
    rounds.take(log.rows[:-1])
    assert [row["kind"] for row in rounds.of(groups.REBALANCE_STORMS)] == ["crash_loop"]
    rounds.take(log.rows[-1:])
    assert rounds.of(groups.REBALANCE_STORMS) == []


def test_a_clock_that_steps_back_makes_no_group_over_earlier():
    rounds = Rounds()
    rounds.take(Log().batch(30, TOMBSTONE).batch(20, TOMBSTONE).rows)
    assert not is_over(json.loads(rounds.memory), at(30))
    log = Log().batch(30, TOMBSTONE)
    rounds = Rounds()
    rounds.take(log.rows)
    rounds.take(log.batch(20, TOMBSTONE).rows[-1:])
    assert not is_over(json.loads(rounds.memory), at(30))


@pytest.mark.parametrize("read_on", [0, 5])
def test_a_group_is_over_once_it_is_gone_and_nothing_was_told_of_it_for_long(read_on) -> None:
    """Its tombstone may be the last record of its log: nobody can tell then that its batch has no
    more.
    """
    log, rounds = Log(), Rounds()
    rounds.take(log.batch(10, classic(1, [classic_member("m1", has={"t": [0]})])).rows)
    assert not is_over(json.loads(rounds.memory), at(10_000)), "it is there, however quiet"
    rounds.take(log.batch(20, classic(2)).rows[-1:])
    assert not is_over(json.loads(rounds.memory), at(10_000)), (
        "it is empty, and its offsets are kept"
    )
    rounds.take(log.batch(30, (2, None, None)).rows[-1:], read_on=read_on)
    assert not is_over(json.loads(rounds.memory), at(30))
    assert is_over(json.loads(rounds.memory), at(31))
    live = {
        table.full_name: [row for row in rounds.of(table) if row.get("is_live")]
        for table in groups.TABLES
    }
    assert any(live.values()) == (read_on == 0)
    for name, rows in settled(live).items():
        assert [row | {"is_live": True} for row in rows] == live[name]
        assert not any(row["is_live"] for row in rows)
    rounds.take(
        log.batch(40, classic(0))
        .batch(41, classic(1, [classic_member("m2", has={"t": [0]})]))
        .rows[-2:]
    )
    assert not is_over(json.loads(rounds.memory), at(10_000)), "it is there again"


def test_a_group_that_polls_tell_of_is_over_once_they_do_not_show_it() -> None:
    shown, second = states((0, STABLE), (50, None)), timedelta(seconds=1)
    there, gone = Rounds(), Rounds()
    there.take(states=[row | {"valid_to": None, "end_reason": None} for row in shown])
    gone.take(states=shown)
    assert not is_over(json.loads(there.memory), shown[0]["valid_to"] + timedelta(days=1))
    assert not is_over(json.loads(gone.memory), shown[0]["valid_to"])
    assert is_over(json.loads(gone.memory), shown[0]["valid_to"] + second)
    # Once its log has it, the log alone says so.
    record = (described_at(100) - at(0)).total_seconds()
    there.take(Log().batch(record, classic(2)).batch(record + 9, TOMBSTONE).rows)
    assert is_over(json.loads(there.memory), described_at(110))
