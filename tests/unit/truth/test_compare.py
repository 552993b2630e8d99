"""The comparison finds whatever is wrong: history made from a small truth, then spoilt in one
place.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from truth.chaos import Entry
from truth.compare import (
    TOLERANCE,
    EpochScore,
    StateScore,
    compare_brokers,
    compare_epochs,
    compare_states,
    tolerance,
)
from truth.compare_isrs import compare_isr_changes
from truth.compare_leaders import compare_leader_changes
from truth.compare_log import LogScore
from truth.dump import Record
from truth.log import truth_of
from truth.model.events import isr_departures, leader_transitions
from truth.model.states import Truth, at_time
from truth.observed import Poll, Seen, SeenBroker, Watch, polls_of
from truth.plain import isr_changes, leader_changes
from truth.report import Verdict, failed_on_nodes, failed_steps

if TYPE_CHECKING:
    from truth.compare_events import IsrChange

START = datetime(2026, 11, 21, 8, tzinfo=UTC)
TOPIC = "AAAAAAAAAAAAAAAAAAAAAA"
LOOK_AHEAD = timedelta(seconds=15)


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def record(at: float, kind: str, **data) -> Record:
    return Record(int(at * 1000), second(at), kind, data)


def change(at: float, **data) -> Record:
    return record(at, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=TOPIC, **data)


def broker(at: float, broker_id: int, fenced: int) -> Record:
    return record(
        at, "BROKER_REGISTRATION_CHANGE_RECORD", brokerId=broker_id, brokerEpoch=1, fenced=fenced
    )


# Polled at 10, 12, 14, ... Broker 1, which leads, dies at 13; it is back at 21 and preferred at 23.
# Broker 3 lags from 30.2 to 30.6, which no poll sees, and from 34.5 to 37. At 41 the leader 1 goes
# and comes back within half a second. At 50.2 broker 4 takes the place of 3.
LOG = [
    *(record(0, "REGISTER_BROKER_RECORD", brokerId=b, rack=None, fenced=False)
      for b in (1, 2, 3, 4)),
    record(1, "TOPIC_RECORD", name="orders", topicId=TOPIC),
    record(1, "PARTITION_RECORD", partitionId=0, topicId=TOPIC, replicas=[1, 2, 3], isr=[1, 2, 3],
           leader=1, leaderEpoch=0),
    change(13, leader=2, isr=[2, 3]),
    broker(13, 1, 1),
    broker(20.5, 1, -1),
    change(21, isr=[1, 2, 3]),
    change(23, leader=1),
    change(30.2, isr=[1, 2]),
    change(30.6, isr=[1, 2, 3]),
    change(34.5, isr=[1, 2]),
    change(37, isr=[1, 2, 3]),
    change(41, leader=2),
    change(41.5, leader=1),
    change(50.2, replicas=[1, 2, 3, 4], addingReplicas=[4], removingReplicas=[3]),
    change(50.4, isr=[1, 2, 4], replicas=[1, 2, 4], addingReplicas=[], removingReplicas=[],
           leader=1),
    record(70, "NO_OP_RECORD"),
]  # fmt: skip


def poll(n: int, sent: float, **more) -> Poll:
    given = {"broker_id": 2, "interval": timedelta(seconds=2), "accepted": True, "left_out": None}
    return Poll(f"s/{n:012d}", second(sent), second(sent + 0.01), **(given | more))


POLLS = [poll(n, 10 + 2 * n) for n in range(26)]


def history(truth: Truth, polls: list[Poll], trail: float = 0) -> list[Seen]:
    """What polls of a broker that is `trail` seconds behind give."""
    rows: list[Seen] = []
    for each in polls:
        at = each.sent_at - timedelta(seconds=trail)
        state = at_time(truth.partitions[TOPIC, 0], at)
        offline = tuple(
            b for b in sorted(state.replicas) if not at_time(truth.brokers[b], at).is_alive
        )
        seen = Seen(
            state.topic, TOPIC, 0, state.leader, state.leader_epoch, state.replicas, state.isr,
            offline, each.poll_id, None,
        )  # fmt: skip
        if rows and replace(rows[-1], first_poll=each.poll_id) == seen:
            continue
        if rows:
            rows[-1] = replace(rows[-1], last_poll=polls[polls.index(each) - 1].poll_id)
        rows.append(seen)
    return rows


@pytest.fixture
def truth() -> Truth:
    return truth_of(LOG)


@pytest.fixture
def watch() -> Watch:
    return Watch.over(POLLS, TOLERANCE)


@pytest.fixture
def rows(truth: Truth) -> list[Seen]:
    return history(truth, POLLS)


def test_true_states_agree(truth, watch, rows):
    score = compare_states(rows, watch, truth)
    assert (score.claims, score.wrong, score.missing, score.late, score.trail) == (
        26,
        [],
        [],
        [],
        [],
    )
    epochs = compare_epochs(rows, truth, shrinks_raise=False)
    assert (epochs.pairs, epochs.transitions, epochs.exact, epochs.wrong) == (4, 4, 3, [])


@pytest.mark.parametrize("offline", [(), (2,), (1, 2)])
def test_a_replica_that_was_not_offline_is_found(truth, watch, rows, offline):
    assert compare_states(rows, watch, truth).offline_wrong == []
    rows[1] = replace(rows[1], offline_replicas=offline)
    score = compare_states(rows, watch, truth)
    assert len(score.offline_wrong) == (4 if 2 in offline else 0) + (4 if 1 not in offline else 0)
    assert score.wrong == []


def listed(*spans: tuple[int, int, int | None]) -> list[SeenBroker]:
    """Broker, first poll and last."""
    return [
        SeenBroker(b, None, POLLS[first].poll_id, None if last is None else POLLS[last].poll_id)
        for b, first, last in spans
    ]


def test_brokers_are_listed_while_they_live(truth, watch):
    others = [(b, 0, None) for b in (2, 3, 4)]
    right = compare_brokers(
        listed((1, 0, 1), (1, 6, None), *others), watch, truth
    )  # fenced from 13 to 20.5
    assert (right.claims, right.wrong, right.late) == (104, [], [])
    early = compare_brokers(listed((1, 0, 0), (1, 6, None), *others), watch, truth)
    assert len(early.wrong) == 1  # at 12 it was alive, and had never not been
    late = compare_brokers(listed((1, 0, None), *others), watch, truth)
    assert (late.wrong, max(late.trail)) == ([], timedelta(seconds=7))
    assert (
        len(
            compare_brokers(
                [*listed((1, 0, None), *others), *listed((9, 3, 3))], watch, truth
            ).wrong
        )
        == 1
    )
    racked = [
        replace(row, rack="z") if row.broker_id == 2 else row
        for row in listed((1, 0, None), *others)
    ]
    assert len(compare_brokers(racked, watch, truth).wrong) == 26


@pytest.mark.parametrize(
    "spoilt",
    [
        {"leader": 3},
        {"leader_epoch": 7},
        {"isr": (2,)},
        {"replicas": (2, 1, 3)},
        {"partition": 9},
        {"topic_id": "B" * 22},
    ],
)
def test_a_state_that_never_was_is_found(truth, watch, rows, spoilt):
    rows[1] = replace(rows[1], **spoilt)
    score = compare_states(rows, watch, truth)
    assert len(score.wrong) == 4  # at 14, 16, 18 and 20
    assert len(score.missing) == (4 if {"partition", "topic_id"} & set(spoilt) else 0)


def test_a_state_that_is_yet_to_come_is_found(truth, watch, rows):
    rows[1] = replace(rows[1], first_poll=POLLS[1].poll_id)  # leader 2 at 12
    rows[0] = replace(rows[0], last_poll=POLLS[0].poll_id)
    assert [text.split(" at ")[1][:14] for text in compare_states(rows, watch, truth).wrong] == [
        "s/000000000001"
    ]


def test_a_state_of_which_nothing_is_said_is_found(truth, watch, rows):
    del rows[1]
    assert len(compare_states(rows, watch, truth).missing) == 4


def test_answers_that_trail_are_measured(truth, watch):
    trailing = compare_states(history(truth, POLLS, trail=0.55), watch, truth)
    assert (trailing.wrong, trailing.late) == ([], [])
    assert trailing.trail == [timedelta(seconds=s) for s in (0.5,)]  # 42 shows what ended at 41.5
    late = compare_states(history(truth, POLLS, trail=2.5), watch, truth)
    assert late.wrong == []
    assert max(late.late) == timedelta(seconds=1.2)  # 52 shows what ended at 50.2
    assert "7 late (at most 1.200 s beyond the tolerance)" in str(late)


def test_answers_that_do_not_count_are_left_out_and_counted(truth, rows):
    rows[1] = replace(rows[1], leader=3)
    polls = [
        replace(each, left_out="paused") if 2 <= n <= 5 else each for n, each in enumerate(POLLS)
    ]
    score = compare_states(rows, Watch.over(polls, TOLERANCE), truth)
    assert (score.claims, score.wrong, dict(score.left_out)) == (22, [], {"paused": 4})


def test_an_epoch_that_rose_without_another_leader_is_found(truth, rows):
    # As a shrink raises it where metadata.version is below 3.6-IV0.
    raising = truth_of([*LOG[:-3], change(41.7, isr=[1, 2], leader=1), *LOG[-3:]])
    rows = history(raising, POLLS)
    assert len(compare_epochs(rows, raising, shrinks_raise=False).wrong) == 1
    assert compare_epochs(rows, raising, shrinks_raise=True).wrong == []


def test_an_unseen_reassignment_is_told_apart(truth, rows):
    moving = change(25.3, replicas=[1, 2, 3, 4], addingReplicas=[4], removingReplicas=[])
    cancelled = change(25.6, replicas=[1, 2, 3], addingReplicas=[], removingReplicas=[], leader=1)
    at = next(i for i, each in enumerate(LOG) if each.at > second(26))
    moved = truth_of([*LOG[:at], moving, cancelled, *LOG[at:]])
    rows = history(moved, POLLS)
    epochs = compare_epochs(rows, moved, shrinks_raise=False)
    assert (len(epochs.moved_between), epochs.wrong) == (1, [])
    watch = Watch.over(POLLS, TOLERANCE)
    told = leader_changes(rows, watch, shrinks_raise=False)
    assert compare_leader_changes(told, rows, watch, moved).faults == []
    exact = [
        replace(each, epoch_semantics="exact", changes_min=1, changes_max=1)
        for each in told
        if each.changes_max < 1
    ]
    assert compare_leader_changes(exact, rows, watch, moved).left_out["unseen_reassignment"] == 2


def test_what_happened_by_the_log(truth):
    assert [
        (t.at, t.before.leader, t.after.leader, t.reason, t.unclean)
        for t in leader_transitions(truth)
    ] == [
        (second(13), 1, 2, "failover", False),
        (second(23), 2, 1, "preferred", False),
        (second(41), 1, 2, None, False),
        (second(41.5), 2, 1, "preferred", False),
    ]
    assert [t.after.leader for t in leader_transitions(truth, second(13), second(41))] == [1, 2]
    assert [(d.broker_id, d.since, d.until, d.cause) for d in isr_departures(truth)] == [
        (1, second(13), second(21), None),
        (3, second(30.2), second(30.6), None),
        (3, second(34.5), second(37), None),
        (3, second(50.4), None, "reassignment"),
    ]


@pytest.mark.parametrize(
    ("change_", "unclean"),
    [
        ({"leader": 3, "isr": [3], "leaderRecoveryState": 1}, True),
        ({"leader": 2}, False),
        # One that follows before the first has recovered leaves no mark of its own.
        ({"leader": 4, "isr": [4]}, True),
    ],
)
def test_unclean_elections(change_, unclean):
    recovering = {"leaderRecoveryState": 1} if change_["leader"] == 4 else {}
    log = [
        *LOG[:6],
        change(30, leader=-1, isr=[2], eligibleLeaderReplicas=[1], **recovering),
        change(31, **change_),
    ]
    last = leader_transitions(truth_of(log))[-1]
    assert (last.reason, last.unclean) == ("recovery", unclean)


@pytest.mark.parametrize(
    ("said", "faults"), [("proven", 0), ("suspected", 0), ("no", 1), (None, 0)]
)
def test_an_unclean_election_must_not_be_called_clean(said, faults):
    log = [
        *LOG[:6], change(30.5, leader=-1, isr=[2]),
        change(36.5, leader=3, isr=[3], leaderRecoveryState=1), LOG[-1],
    ]  # fmt: skip
    unclean = truth_of(log)
    rows, watch = history(unclean, POLLS), Watch.over(POLLS, TOLERANCE)
    changes = [
        replace(each, unclean="no") for each in leader_changes(rows, watch, shrinks_raise=False)
    ]
    assert [each.leader for each in changes] == [-1, 3]
    changes[1] = replace(changes[1], unclean=said)
    score = compare_leader_changes(changes, rows, watch, unclean)
    assert (len(score.misjudged), dict(score.unclean)) == (faults, {said or "unknown": 1})


def test_true_leader_changes_agree(truth, watch, rows):
    score = compare_leader_changes(
        leader_changes(rows, watch, shrinks_raise=False), rows, watch, truth
    )
    assert score.faults == []
    # From 40 to 42 leadership went and came back; at 50.4 the epoch rose and nobody else led.
    assert (score.expected, score.given, score.recall, score.precision, sum(score.slack)) == (
        4,
        4,
        1.0,
        1.0,
        0,
    )
    assert (score.median_width, score.longest_trail) == (2.01, 0)


@pytest.mark.parametrize(
    ("spoilt", "kind"),
    [
        ({"leader": 3}, "extra"),
        ({"prev_leader": 3}, "extra"),
        ({"leader_epoch": 9}, "extra"),
        ({"prev_leader_epoch": 1, "leader_epoch": 2, "prev_leader": 2, "leader": 1}, "missed"),
        ({"changes_min": 2, "changes_max": 2}, "miscounted"),
        ({"changes_min": 0}, "miscounted"),
        ({"reason": "preferred"}, "misjudged"),
        ({"reason": "isr_shrink"}, "misjudged"),
        ({"unclean": "proven"}, "misjudged"),
        ({"began_after": second(14.01)}, "outside"),
        ({"began_before": second(12.99)}, "outside"),
    ],
)
def test_a_wrong_leader_change_is_found(truth, watch, rows, spoilt, kind):
    changes = leader_changes(rows, watch, shrinks_raise=False)
    changes[0] = replace(changes[0], **spoilt)
    score = compare_leader_changes(changes, rows, watch, truth)
    assert kind in {fault.split(":")[0] for fault in score.faults}


# Broker 1 goes and comes back, and an election gives leadership back to it; broker 2, which led
# meanwhile, is well.
REASONS = ["failover", "preferred", "unknown", "unknown"]


def test_reasons_are_unknown_only_where_the_log_leaves_them_so(truth, watch, rows):
    changes = leader_changes(rows, watch, shrinks_raise=False)
    told = [replace(each, reason=reason) for each, reason in zip(changes, REASONS, strict=True)]
    score = compare_leader_changes(told, rows, watch, truth)
    assert (score.faults, score.decided, score.unknown) == ([], 2, 2)
    # From 40 to 42 leadership went and came back, and at 50.4 a reassignment raised the epoch.
    assert score.undecidable == 2
    for index, decided in enumerate(REASONS[:2]):
        lazy = [
            replace(each, reason="unknown") if n == index else each for n, each in enumerate(told)
        ]
        (fault,) = compare_leader_changes(lazy, rows, watch, truth).faults
        assert fault.startswith("needless")
        assert fault.endswith(decided)


@pytest.mark.parametrize("reason", ["failover", "reassignment"])
def test_of_several_changes_one_must_have_the_reason(truth, watch, rows, reason):
    at = next(i for i, each in enumerate(LOG) if each.at == second(41))
    # Both are elections of a preferred replica: a reassignment puts 2 first, and another one 1.
    elected = [
        change(40.5, replicas=[2, 1, 3], isr=[1, 2, 3], leader=2),
        change(41.2, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1),
    ]
    calm = truth_of([*LOG[:at], *elected, *LOG[at + 2 :]])
    rows = history(calm, POLLS)
    changes = leader_changes(rows, watch, shrinks_raise=False)
    index = next(n for n, each in enumerate(changes) if each.began_before == second(42.01))
    changes[index] = replace(changes[index], reason=reason)
    (fault,) = compare_leader_changes(changes, rows, watch, calm).faults
    assert fault.startswith("misjudged")


def test_a_cause_that_is_due_must_be_there(truth, watch, rows):
    told = [
        replace(each, cause={0: "broker_down", 2: "lagging", 4: "reassignment"}.get(n))
        for n, each in enumerate(isr_changes(rows, watch))
    ]
    assert compare_isr_changes(told, watch, truth, look_ahead=LOOK_AHEAD).faults == []
    told[2] = replace(told[2], cause=None)
    assert [
        fault.split(":")[0]
        for fault in compare_isr_changes(told, watch, truth, look_ahead=LOOK_AHEAD).faults
    ] == ["needless"]
    assert compare_isr_changes(told, watch, truth, look_ahead=timedelta(seconds=30)).faults == []


@pytest.mark.parametrize("seconds", [1, 2, 5, 15])
def test_a_poll_never_passes_for_the_one_before_it(seconds):
    assert tolerance(timedelta(seconds=seconds)) < timedelta(seconds=seconds) / 2


def test_a_row_that_rests_on_a_poll_that_proves_nothing_is_found(truth, rows):
    polls = [replace(each, accepted=n != 5) for n, each in enumerate(POLLS)]
    assert rows[1].last_poll == POLLS[5].poll_id
    assert len(compare_states(rows, Watch.over(polls, TOLERANCE), truth).wrong) == 1


def test_a_leader_that_went_and_came_back_is_no_shrink(truth, watch, rows):
    changes = leader_changes(rows, watch, shrinks_raise=False)
    said = [
        replace(each, reason="isr_shrink") for each in changes if each.leader == each.prev_leader
    ]
    score = compare_leader_changes(said, rows, watch, truth)
    assert (len(said), len(score.misjudged)) == (2, 1)


def test_a_leader_change_that_is_not_there_is_missed(truth, watch, rows):
    changes = leader_changes(rows, watch, shrinks_raise=False)[1:]
    assert compare_leader_changes(changes, rows, watch, truth).recall == 0.75


def test_true_isr_changes_agree(truth, watch, rows):
    changes = isr_changes(rows, watch)
    score = compare_isr_changes(changes, watch, truth, look_ahead=None)
    assert score.faults == []
    # Broker 1 left and came back, 3 did and then left, 4 came; what was between 30.2 and 30.6 no
    # poll had to see.
    assert (score.expected, score.given, +score.left_out) == (6, 6, {"between_polls": 2})


@pytest.mark.parametrize(
    ("spoilt_one", "kind"),
    [
        ((0, {"broker_id": 2}), "extra"),
        ((0, {"broker_id": 2}), "missed"),
        ((0, {"change": "joined"}), "missed"),
        ((0, {"partition": 1}), "extra"),
        ((0, {"began_after": second(14.01)}), "outside"),
        ((0, {"cause": "lagging"}), "misjudged"),
        ((0, {"cause": "reassignment"}), "misjudged"),
        ((2, {"cause": "broker_down"}), "misjudged"),
        ((4, {"cause": "lagging"}), "misjudged"),
    ],
)
def test_a_wrong_isr_change_is_found(truth, watch, rows, spoilt_one, kind):
    index, spoilt = spoilt_one
    changes = isr_changes(rows, watch)
    changes[index] = replace(changes[index], **spoilt)
    score = compare_isr_changes(changes, watch, truth, look_ahead=LOOK_AHEAD)
    assert kind in {fault.split(":")[0] for fault in score.faults}


def test_the_right_causes_agree(truth, watch, rows):
    changes = isr_changes(rows, watch)
    causes = [("broker_down", 0), ("leader_stalled", 2), ("reassignment", 4)]
    for cause, index in causes:
        assert changes[index].change == "left"
        changes[index] = replace(changes[index], cause=cause)
    score = compare_isr_changes(changes, watch, truth, look_ahead=LOOK_AHEAD)
    assert (score.faults, score.decided) == ([], 3)


@pytest.mark.parametrize(("polls", "wrong"), [(POLLS, 1), ([*POLLS[:4], *POLLS[10:]], 0)])
def test_a_broker_that_goes_later_is_asked_for_where_a_poll_had_to_show_that(polls, wrong):
    truth = truth_of([broker(18, 1, 1) if each == broker(13, 1, 1) else each for each in LOG])
    watch = Watch.over(polls, TOLERANCE)
    changes = isr_changes(history(truth, polls), watch)
    changes[0] = replace(changes[0], cause="lagging")
    score = compare_isr_changes(changes, watch, truth, look_ahead=LOOK_AHEAD)
    assert (len(score.misjudged), score.decided) == (wrong, wrong)


def test_an_isr_change_that_is_not_there_is_missed(truth, watch, rows):
    changes: list[IsrChange] = isr_changes(rows, watch)
    for index in range(len(changes)):
        score = compare_isr_changes(
            changes[:index] + changes[index + 1 :], watch, truth, look_ahead=LOOK_AHEAD
        )
        assert len(score.missed) == 1


def test_what_happened_before_the_first_poll_and_after_the_last_is_left_out(truth):
    polls = POLLS[4:10]  # 18 to 28
    watch, rows = Watch.over(polls, TOLERANCE), history(truth, polls)
    leaders = compare_leader_changes(
        leader_changes(rows, watch, shrinks_raise=False), rows, watch, truth
    )
    assert (leaders.expected, leaders.faults) == (1, [])
    assert dict(leaders.left_out) == {"before_first_poll": 1, "after_last_poll": 2}


def row(n: int, broker_id: int | None = 1, **more) -> dict:
    """A row of bronze: a header."""
    return {
        "poll_id": f"s/{n:012d}", "record": "poll", "topic": None, "outcome": "ok",
        "is_key_frame": n == 0, "sent_at": second(n), "received_at": second(n + 0.01),
        "interval_ms": 1000, "broker_id": broker_id, "digest": str(n).encode(), "witnesses": None,
        "brokers": [{"broker_id": id_} for id_ in (1, 2)], **more,
    }  # fmt: skip


def topic(n: int, epoch: int, leader: int = 1, **more) -> dict:
    partitions = [{"partition": 0, "leader_epoch": epoch, "leader": leader, "isr": [1]}]
    return {
        "poll_id": f"s/{n:012d}", "record": "topic", "topic": "orders", "topic_id": TOPIC,
        "present": True, "partitions": partitions, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("digest", "is_behind", "accepted"),
    [(b"0", True, False), (b"0", None, False), (b"0", False, True), (b"1", True, True)],
    ids=["behind", "perhaps", "not behind", "with news"],
)
def test_a_broker_that_is_behind_proves_not_that_nothing_changed(digest, is_behind, accepted):
    told = [{"broker_id": 2, "error_kind": None, "is_behind": is_behind}]
    rows = [row(0), topic(0, 3), row(1, 2, digest=digest), row(2, witnesses=told), topic(2, 4)]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, accepted, True]


@pytest.mark.parametrize(
    ("last", "accepted"),
    [
        ((row(2), topic(2, 4)), True),
        ((row(2), topic(2, 5)), False),
        ((row(2), topic(2, 4, leader=2)), False),
        (
            (
                row(2),
                {
                    **topic(2, 3),
                    "partitions": [{"partition": 0, "leader_epoch": 3, "leader": 1, "isr": []}],
                },
            ),
            False,
        ),
        ((row(2, brokers=[{"broker_id": 2}]),), False),
    ],
    ids=["raised", "lost and back", "moved", "shrunk", "not listed"],
)
def test_a_broker_that_lost_something_may_have_been_behind(last, accepted):
    rows = [row(0, 2), topic(0, 3), row(1, 1, digest=b"0"), *last]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, accepted, True]


@pytest.mark.parametrize(
    ("answer", "accepted"),
    [
        ({}, False),
        ({"witnesses": [{"broker_id": 2, "error_kind": "timeout", "is_behind": None}]}, False),
        ({"witnesses": [{"broker_id": 2, "error_kind": None, "is_behind": False}]}, True),
        ({"digest": b"0"}, True),
        ({"brokers": [{"broker_id": 3}]}, True),
        ({"broker_id": 2}, True),
    ],
    ids=["nobody asked", "the other hung", "confirmed", "nothing new", "alone", "listed"],
)
def test_news_of_a_broker_that_was_not_listed_count_where_another_was_heard(answer, accepted):
    """As silver has it (jobs.rules.silver.acceptance): else events would be wanted within bounds
    that no row has.
    """
    rows = [row(0), topic(0, 3), row(1, **{"broker_id": 3, **answer})]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, accepted]


def test_an_answer_that_is_not_accepted_shows_nobody_to_have_been_behind():
    alone = row(2, 3, brokers=[{"broker_id": 3}, {"broker_id": 2}])  # broker 1 is not listed
    assert [poll.accepted for poll in polls_of([row(0), row(1, digest=b"0"), alone], [])] == [
        True,
        True,
        False,
    ]


def test_an_answer_that_is_not_accepted_is_not_what_the_next_one_says_again():
    rows = [
        row(0),
        topic(0, 3),
        row(1, 3),
        topic(1, 4),
        row(2, 2, digest=b"1"),
        row(3, brokers=[{"broker_id": 1}]),
    ]
    assert [poll.accepted for poll in polls_of(rows, [])] == [True, False, True, True]


def test_answers_with_a_lower_epoch_are_not_accepted():
    rows = [
        row(0),
        topic(0, 3),
        row(1),
        topic(1, 5),
        row(2),
        topic(2, 4),
        row(3),
        row(4),
        topic(4, 5),
        row(5, outcome="failed"),
    ]
    assert [each.accepted for each in polls_of(rows, [])] == [True, True, False, False, True]


def test_a_topic_that_is_gone_or_another_lowers_no_epoch():
    other = {"topic_id": "B" * 22}
    rows = [
        row(0),
        topic(0, 3),
        row(1),
        topic(1, 0, present=False),
        row(2),
        topic(2, 0, **other),
        row(3),
        topic(3, 2),
    ]
    assert [each.accepted for each in polls_of(rows, [])] == [True, True, True, False]


def test_a_step_that_failed_is_a_fault():
    journal = [
        Entry("cancel", "cancel", (), second(1), second(2), error) for error in (None, "timed out")
    ]
    assert failed_steps(journal) == ["cancel: timed out"]
    verdict = Verdict(
        "4.3.1", 1, "", StateScore(), StateScore(), EpochScore(), {}, {}, failed_steps(journal)
    )
    assert verdict.faults == ["a step failed: cancel: timed out"]
    stopped = Entry("stop", "stop 1", (1,), second(1), second(2), "it still runs")
    assert failed_on_nodes([*journal, stopped]) == ["stop 1: it still runs"]


def entry(action: str, since: float, until: float, *brokers: int) -> Entry:
    return Entry(action, action, brokers, second(since), second(until), None)


def test_answers_of_brokers_that_were_paused_or_just_started_are_left_out():
    journal = [
        entry("pause", 5, 5.1, 1), entry("resume", 9, 9.1, 1), entry("kill", 5, 5.1, 2),
        entry("start", 12, 15, 2),
    ]  # fmt: skip
    found = polls_of([row(n, broker_id=1) for n in range(30)], journal)
    assert [n for n, each in enumerate(found) if each.left_out == "paused"] == list(range(5, 20))
    found = polls_of([row(n, broker_id=2) for n in range(30)], journal)
    assert [n for n, each in enumerate(found) if each.left_out == "started"] == list(range(12, 26))
    assert all(
        each.left_out is None
        for each in polls_of([row(n, broker_id=3) for n in range(30)], journal)
    )


def test_of_a_broker_that_is_cut_off_answers_that_say_nothing_new_prove_nothing():
    """Unless a later poll shows that it was behind: then they are to be passed over."""
    journal = [entry("isolate", 1.5, 1.6, 1), entry("rejoin", 4.5, 4.6, 1)]
    quiet = [row(n, 1, digest=b"0") for n in range(4)]
    rows = [row(0), topic(0, 3), *quiet[1:], row(4), topic(4, 4)]
    found = polls_of(rows, journal)
    assert [(each.accepted, each.left_out) for each in found] == [
        (True, None), (True, None), (True, "cut_off"), (True, "cut_off"), (True, None),
    ]  # fmt: skip
    lost = polls_of([*rows[:-1], topic(4, 4, leader=2)], journal)
    assert [each.accepted for each in lost] == [True, False, False, False, True]


def test_what_the_history_of_a_log_lacks_or_has_besides_is_a_fault() -> None:
    score = LogScore()
    score.compare("states", [("t", 0, 1)], [("t", 0, 1)])
    assert score.faults == []
    score.compare("states", [("t", 0, 1), ("t", 0, 1), ("t", 0, 3)], [("t", 0, 1), ("t", 0, 2)])
    assert score.faults == [
        "states: something is there twice",
        "states: history lacks ('t', 0, 2)",
        "states: the log lacks ('t', 0, 3)",
    ]
    assert str(score) == "2 states; 3 faults"
