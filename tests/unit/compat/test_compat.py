"""What is expected of the script on each version, by the rules that Kafka documents, and what the
comparison finds.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from compat import compare, model
from compat.__main__ import main
from compat.compare import Incident, PollSeen, TopicEnd, Window
from compat.model import Move, Outage, Turn
from compat.script import LOG_PARTITIONS
from compat.versions import VERSIONS
from jobs.rules.groups.partition import log_partition
from truth.compare_events import IsrChange, LeaderChange
from truth.groups.history import Rebalance

BY_NAME = {version.name: version for version in VERSIONS}
NEWEST, KRAFT_39 = BY_NAME["4.3.1 KRaft"], BY_NAME["3.9.2 KRaft"]
KRAFT_33, ZOOKEEPER = BY_NAME["3.3.2 KRaft"], BY_NAME["2.8.2 ZooKeeper protocol 2.6"]
START = datetime(2026, 1, 1, tzinfo=UTC)


def turns(version, *keys) -> list[list[Turn]]:
    """What comes of each partition, step by step, where something does."""
    return [
        [each.turns[key] for each in model.expected(version) if key in each.turns] for key in keys
    ]


def test_a_replica_that_leaves_raises_the_epoch_where_the_version_says_so():
    follower = ("orders", 0)
    newest, old = (turns(version, follower)[0] for version in (NEWEST, KRAFT_33))
    assert [turn.raised for turn in newest] == [(0, 0)] * 4
    assert [turn.raised for turn in old] == [(1, 1), (1, 1), (0, 0), (0, 0)]
    assert [turn.is_exact for turn in newest[:2]] == [True, True]
    assert [turn.is_exact for turn in old[:2]] == [False, False]
    assert [turn.reason for turn in old[:2]] == ["isr_shrink", "isr_shrink"]
    assert [sorted(turn.isr) for turn in newest] == [
        [(2, "left", "broker_down")],
        [(3, "left", "broker_down")],
        [(2, "rejoined", None)],
        [(3, "rejoined", None)],
    ]


def test_leaders_go_down_the_replicas_in_sync_and_come_back_by_an_election():
    (moves,) = ([turn.move for turn in of if turn.move] for of in turns(NEWEST, ("orders", 1)))
    assert moves == [Move(2, 3, "failover"), Move(3, 1, "failover"), Move(1, 2, "preferred")]


def test_the_last_replica_in_sync_stays_in_the_isr_or_in_elr():
    with_elr, without = (turns(version, ("single", 0))[0] for version in (NEWEST, KRAFT_39))
    assert [replace(turn.move, unclean=frozenset({"no"})) for turn in with_elr] == [
        turn.move for turn in without
    ]
    assert [turn.move for turn in without] == [Move(2, -1, "offline"), Move(-1, 2, "recovery")]
    assert [sorted(turn.isr) for turn in without] == [[], []]
    assert [sorted(turn.isr) for turn in with_elr] == [
        [(2, "left", "broker_down")],
        [(2, "rejoined", None)],
    ]


def test_a_killed_broker_that_comes_back_may_be_eligible_no_more():
    of_killed, of_stopped = (turns(NEWEST, ("single", number))[0] for number in (1, 0))
    assert [set(turn.move.unclean) for turn in of_killed if turn.move] == [
        {"no"},
        {None, "suspected"},
    ]
    assert [set(turn.move.unclean) for turn in of_stopped if turn.move] == [{"no"}, {None}]
    assert [set(turn.move.unclean) for turn in turns(KRAFT_39, ("single", 1))[0] if turn.move] == [
        {"no"},
        {"no"},
    ]


def test_an_unclean_election_is_proven_where_nothing_else_can_have_elected():
    with_elr, without = (turns(version, ("risky", 0))[0] for version in (NEWEST, KRAFT_39))
    assert [set(turn.move.unclean) for turn in with_elr if turn.move] == [
        {"no"},
        {"no"},
        {"suspected"},
    ]
    assert [set(turn.move.unclean) for turn in without if turn.move] == [{"no"}, {"no"}, {"proven"}]
    assert [sorted(turn.isr) for turn in without][2:] == [
        [(2, "rejoined", None), (3, "left", "broker_down")],
        [(3, "rejoined", None)],
    ]


def test_before_kraft_elects_unclean_the_last_replica_in_sync_is_waited_for():
    (risky,) = turns(KRAFT_33, ("risky", 0))
    moves = [turn.move for turn in risky if turn.move]
    assert moves == [
        Move(2, 3, "failover"),
        Move(3, -1, "offline"),
        Move(-1, 3, "recovery"),
        Move(3, 2, "preferred"),
    ]
    assert [sorted(turn.isr) for turn in risky] == [
        [(2, "left", "broker_down")],
        [],
        [(2, "rejoined", None)],
        [],
    ]


def test_a_controller_that_fails_over_may_raise_epochs_once_more():
    leaderless, led = turns(ZOOKEEPER, ("single", 0), ("orders", 1))
    assert [(turn.move and turn.move.leader, turn.raised) for turn in leaderless] == [
        (-1, (1, 2)),
        (None, (0, 1)),
        (2, (1, 1)),
    ]
    assert [turn.raised for turn in led if turn.move] == [(1, 2), (1, 2), (1, 1)]
    # KRaft takes a broker that stops out twice, one that is killed once.
    assert [turn.raised for turn in turns(KRAFT_33, ("single", 0))[0]] == [(1, 2), (1, 1)]
    assert [turn.raised for turn in turns(KRAFT_33, ("single", 1))[0]] == [(1, 1), (1, 1)]
    assert [turn.raised for turn in turns(KRAFT_39, ("single", 0))[0]] == [(1, 1), (1, 1)]


def test_a_reassignment_is_a_bound_and_raises_more_with_zookeeper():
    for version, raised in ((NEWEST, (1, 1)), (ZOOKEEPER, (2, 4))):
        follower, leader = (of[-1] for of in turns(version, ("moved", 0), ("moved", 1)))
        assert (follower.move, follower.raised, follower.is_exact) == (None, raised, False)
        unclean = {"no", None} if version.has_elr else {"no", "suspected", None}
        move = Move(1, 3, "reassignment", version.zookeeper, frozenset(unclean))
        assert (leader.move, leader.raised) == (move, raised)
        assert sorted(leader.isr, key=str) == [(1, "left", "reassignment"), (3, "joined", None)]


def test_outages_are_of_the_brokers_that_went():
    # __consumer_offsets 4, orders 3, risky 1, moved 2 (of broker 2), reborn 1, events 2; with ELR
    # one of single, too.
    assert model.outages(model.expected(KRAFT_39)) == [
        Outage(2, 13, ("broker_down",), frozenset({"offline"})),
        Outage(3, 11, ("broker_down",), frozenset({"at_min_isr"})),
    ]
    assert model.outages(model.expected(NEWEST)) == [
        Outage(2, 14, ("broker_down",), frozenset({"offline"})),
        Outage(3, 12, ("broker_down",), frozenset({"offline"})),
    ]
    # With ZooKeeper the leaders of the one that is killed may be seen gone.
    assert [each.worst_levels for each in model.outages(model.expected(ZOOKEEPER))] == [
        {"offline"},
        {"at_min_isr", "offline"},
    ]


def test_groups_are_coordinated_by_the_broker_that_is_killed():
    steps = model.expected(NEWEST)
    for group, partition in LOG_PARTITIONS.items():
        assert log_partition(group, 4) == partition
        assert model.coordinator_moves(partition, steps) == [(3, 1), (1, 3)]
    assert [(each.joined, each.left) for each in model.rebalances()] == [
        *((1, 0), (1, 0), (0, 1), (1, 0), (0, 1), (0, 0), (0, 1)),
    ]


# History as it should be, and with one thing wrong.


def windows(version) -> list[Window]:
    """A minute for each step, seen by every broker after half of it."""
    return [
        Window(each, began, began + timedelta(seconds=30), began + timedelta(minutes=1))
        for each, began in (
            (each, START + n * timedelta(minutes=1))
            for n, each in enumerate(model.expected(version))
        )
    ]


def leader_rows(version) -> list[LeaderChange]:
    """The rows that a right history has, each raise of the epoch in one."""
    rows, epochs = [], {}
    for window in windows(version):
        for (topic, partition), turn in window.expected.turns.items():
            raised, before = turn.raised[0], epochs.get((topic, partition), 0)
            epochs[topic, partition] = before + raised
            leader = window.expected.states[topic, partition].leader
            move = turn.move or Move(leader, leader, turn.reason)
            most = raised if turn.move or raised > 1 else 0
            if raised:
                rows.append(
                    LeaderChange(
                        topic=topic,
                        topic_id="id",
                        partition=partition,
                        prev_leader=move.prev_leader,
                        leader=move.leader,
                        prev_leader_epoch=before,
                        leader_epoch=before + raised,
                        changes_min=most if turn.is_exact else int(turn.move is not None),
                        changes_max=most,
                        epoch_semantics="exact" if turn.is_exact else "upper_bound",
                        reason=move.reason,
                        unclean=max(move.unclean, key=str),
                        began_after=window.began_at,
                        began_before=window.began_at + timedelta(seconds=10),
                    )
                )
    return rows


def isr_rows(version) -> list[IsrChange]:
    return [
        IsrChange(
            topic=key[0],
            topic_id="id",
            partition=key[1],
            broker_id=broker,
            change=change,
            cause=cause,
            began_after=window.began_at,
            began_before=window.settled_at,
        )
        for window in windows(version)
        for key, turn in window.expected.turns.items()
        for broker, change, cause in turn.isr
    ]


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_history_that_agrees_has_no_faults(version):
    leaders = compare.compare_leaders(windows(version), leader_rows(version))
    assert leaders.faults == ()
    assert ("exact" in leaders.sure) == version.is_exact
    assert compare.compare_isr(version, windows(version), isr_rows(version)).faults == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"reason": "unknown"},
        {"unclean": "proven"},
        {"leader": 1},
        {"leader_epoch": 9},
        {"epoch_semantics": "upper_bound"},
        {"changes_min": 0},
        {"changes_max": 2},
        {"began_before": START - timedelta(seconds=1)},
        {"began_before": START + timedelta(minutes=12)},
    ],
    ids=str,
)
def test_each_column_of_a_leader_change_counts(wrong):
    rows = leader_rows(NEWEST)
    (n,) = [
        n
        for n, row in enumerate(rows)
        if (row.topic, row.partition, row.leader) == ("orders", 1, 3)
    ]
    assert compare.compare_leaders(
        windows(NEWEST), [*rows[:n], replace(rows[n], **wrong), *rows[n + 1 :]]
    ).faults
    assert compare.compare_leaders(windows(NEWEST), [*rows[:n], *rows[n + 1 :]]).faults
    assert compare.compare_leaders(windows(NEWEST), [*rows, rows[n]]).faults


@pytest.mark.parametrize(
    "wrong", [{"cause": "lagging"}, {"change": "joined"}, {"broker_id": 1}, {"partition": 9}]
)
def test_each_column_of_an_isr_change_counts(wrong):
    first, *others = isr_rows(NEWEST)
    assert compare.compare_isr(NEWEST, windows(NEWEST), [replace(first, **wrong), *others]).faults
    assert compare.compare_isr(NEWEST, windows(NEWEST), others).faults == (
        (
            "stop 2: missing: "
            f"{(first.topic, first.partition, first.broker_id, first.change, first.cause)}"
        ),
    )


def test_incidents_and_topics_that_end():
    for version in (KRAFT_39, ZOOKEEPER):
        wanted = model.outages(model.expected(version))
        for level in wanted[1].worst_levels:
            found = [
                Incident(each.broker_id, each.partitions, each.causes, "offline") for each in wanted
            ]
            found[1] = replace(found[1], worst_level=level)
            assert compare.compare_incidents(wanted, found).faults == ()
            assert compare.compare_incidents(wanted, found[1:]).faults
            for wrong in (
                {"worst_level": "under_min_isr"},
                {"partitions": 1},
                {"causes": ()},
                {"broker_id": 1},
            ):
                assert compare.compare_incidents(
                    wanted, [found[0], replace(found[1], **wrong)]
                ).faults, wrong
    (again,) = (each for each in windows(NEWEST) if each.expected.step.action == "recreate")
    ended = TopicEnd("reborn", "recreated", again.settled_at)
    assert compare.compare_topics(NEWEST, windows(NEWEST), [ended]).faults == ()
    gone = replace(ended, end_reason="gone")
    assert compare.compare_topics(NEWEST, windows(NEWEST), [gone]).faults
    without_ids = compare.compare_topics(ZOOKEEPER, windows(NEWEST), [gone])
    assert (without_ids.faults, without_ids.sure) == ((), "1 bounded")
    assert compare.compare_topics(ZOOKEEPER, windows(NEWEST), []).faults
    assert compare.compare_topics(
        NEWEST, windows(NEWEST), [replace(ended, valid_to=again.ended_at)]
    ).faults


def rebalance_rows() -> list[Rebalance]:
    wanted = model.rebalances()
    blank = dict.fromkeys(Rebalance.__dataclass_fields__)
    return [
        Rebalance(
            **blank
            | {
                "group_id": "g",
                "group_type": "classic",
                "generation": n,
                "prev_generation": n - 1,
                "began_before": START,
                "members_joined": each.joined,
                "members_left": each.left,
                "reasons": tuple(each.reasons),
                "end_reason": "completed" if n < len(wanted) else "emptied",
            }
        )
        for n, each in enumerate(wanted, 1)
    ]


def test_rebalances_are_compared_in_order():
    wanted, rows = model.rebalances(), rebalance_rows()
    right = compare.compare_rebalances("g", wanted, rows)
    assert (right.faults, right.sure) == ((), "7 exact")
    unknown = replace(rows[0], members_joined=None, members_left=None, reasons=None)
    first = compare.compare_rebalances("g", wanted, [unknown, *rows[1:]])
    assert (len(first.faults), first.sure) == (1, "6 exact, 1 unknown")
    for wrong in (
        {"generation": 9},
        {"prev_generation": 0},
        {"end_reason": "emptied"},
        {"reasons": ("same_members",)},
    ):
        assert compare.compare_rebalances(
            "g", wanted, [*rows[:5], replace(rows[5], **wrong), rows[6]]
        ).faults, wrong
    assert compare.compare_rebalances("g", wanted, rows[:-1]).faults


def test_moves_of_coordinators_are_compared_in_order():
    moves = [(3, 1), (1, 3)]
    assert compare.compare_moves(NEWEST, "g", moves, moves).faults == ()
    assert compare.compare_moves(NEWEST, "g", moves, []).faults
    seen_gone = [(3, -1), (-1, 1), (1, 3)]
    assert compare.compare_moves(ZOOKEEPER, "g", moves, seen_gone).faults == ()
    assert compare.compare_moves(NEWEST, "g", moves, seen_gone).faults
    assert compare.compare_moves(ZOOKEEPER, "g", moves, seen_gone[:2]).faults
    assert compare.compare_moves(ZOOKEEPER, "g", [(3, 1)], seen_gone).faults


def test_a_step_that_no_poll_saw_proves_nothing():
    seen = windows(NEWEST)
    polls = [
        PollSeen(each.settled_at, True, {"configs": "ok", "reassignments": "ok"}) for each in seen
    ]
    assert compare.compare_polls(seen, polls, ("reassignments",)).faults == ()
    assert (
        "no good poll"
        in compare.compare_polls(seen, [replace(polls[0], is_good=False), *polls[1:]], ()).faults[0]
    )
    assert "no good poll" in compare.compare_polls(seen, polls[:-1], ()).faults[0]
    refused = replace(polls[0], outcomes={"reassignments": "failed: error 41 (NotControllerError)"})
    assert compare.compare_polls(seen, [refused, *polls[1:]], ("reassignments",)).faults == (
        "reassignments, with all brokers in their places: failed: error 41 (NotControllerError)",
    )
    late = [
        replace(each, outcomes={"groups": "failed: broker 1: no answer in time"}) for each in polls
    ]
    assert compare.compare_polls(seen, late, ("groups",)).faults == (
        "groups, with all brokers in their places: never answered",
    )
    answered = replace(polls[0], outcomes={"groups": "ok"})
    assert compare.compare_polls(seen, [answered, *late[1:]], ("groups",)).faults == ()


def test_a_version_is_asked_for_by_its_name(capsys):
    with pytest.raises(SystemExit):
        main(["--versions", "1.0"])
    assert "2.8.2 ZooKeeper protocol 2.6" in capsys.readouterr().err
    assert len(BY_NAME) == len(VERSIONS)


def test_what_a_version_leaves_open_may_be_unknown():
    rows = leader_rows(ZOOKEEPER)
    (n,) = [n for n, row in enumerate(rows) if row.reason == "reassignment"]
    unknown = [*rows[:n], replace(rows[n], reason="unknown"), *rows[n + 1 :]]
    assert compare.compare_leaders(windows(ZOOKEEPER), unknown).faults == ()
    wrong = [*rows[:n], replace(rows[n], reason="preferred"), *rows[n + 1 :]]
    assert compare.compare_leaders(windows(ZOOKEEPER), wrong).faults
    assert (
        compare.compare_isr(ZOOKEEPER, windows(ZOOKEEPER), isr_rows(ZOOKEEPER)).sure == "52 bounded"
    )


@pytest.mark.parametrize("wrong", [{"reason": "unknown"}, {"changes_max": 1}], ids=str)
def test_an_isr_that_shrinks_is_no_change_of_leader(wrong):
    rows = leader_rows(KRAFT_33)
    n = next(n for n, row in enumerate(rows) if row.reason == "isr_shrink")
    assert compare.compare_leaders(
        windows(KRAFT_33), [*rows[:n], replace(rows[n], **wrong), *rows[n + 1 :]]
    ).faults


@pytest.mark.parametrize("key", [("orders", 1), ("single", 1)])
def test_with_zookeeper_a_leader_that_was_killed_may_be_seen_gone_in_its_epoch(key):
    rows = leader_rows(ZOOKEEPER)
    n = next(
        n for n, row in enumerate(rows) if (row.topic, row.partition, row.prev_leader) == (*key, 3)
    )
    seen = rows[n]
    bounds = {"changes_min": 1, "changes_max": None, "epoch_semantics": "unreliable"}
    gone = replace(seen, leader=-1, leader_epoch=seen.prev_leader_epoch, reason="offline", **bounds)
    moved = int(seen.leader != -1)
    after = replace(
        seen,
        prev_leader=-1,
        reason="recovery" if moved else "unknown",
        changes_min=moved,
        changes_max=moved,
    )
    found = [*rows[:n], gone, after, *rows[n + 1 :]]
    assert compare.compare_leaders(windows(ZOOKEEPER), found).faults == ()
    assert compare.compare_leaders(windows(KRAFT_33), found).faults
    for wrong in (
        {"reason": "failover"},
        {"changes_min": 0},
        {"changes_max": 1},
        {"prev_leader": 1},
    ):
        assert compare.compare_leaders(
            windows(ZOOKEEPER), [*found[:n], replace(gone, **wrong), *found[n + 1 :]]
        ).faults
    assert compare.compare_leaders(windows(ZOOKEEPER), [*found[: n + 1], *found[n + 2 :]]).faults, (
        "nobody leads after it"
    )


def test_with_zookeeper_a_new_controller_may_take_a_dead_leader_away_in_an_epoch_of_its_own():
    rows = leader_rows(ZOOKEEPER)
    n = next(
        n
        for n, row in enumerate(rows)
        if (row.topic, row.partition, row.prev_leader) == ("orders", 1, 3)
    )
    seen = rows[n]
    gone = replace(seen, leader=-1, reason="offline")
    after = replace(
        seen,
        prev_leader=-1,
        reason="recovery",
        prev_leader_epoch=seen.leader_epoch,
        leader_epoch=seen.leader_epoch + 1,
        began_before=seen.began_before + timedelta(seconds=1),
    )
    found = [*rows[:n], gone, after, *rows[n + 1 :]]
    assert compare.compare_leaders(windows(ZOOKEEPER), found).faults == ()
    assert compare.compare_leaders(windows(KRAFT_33), found).faults
    for place, row in ((n, gone), (n + 1, after)):
        for wrong in (
            {"reason": "failover"},
            {"changes_max": 9},
            {"leader": 2},
            {"unclean": "proven"},
        ):
            spoilt = [*found[:place], replace(row, **wrong), *found[place + 1 :]]
            assert compare.compare_leaders(windows(ZOOKEEPER), spoilt).faults, wrong
    raised_again = replace(after, leader_epoch=after.leader_epoch + 1, changes_max=2)
    assert compare.compare_leaders(
        windows(ZOOKEEPER), [*rows[:n], gone, raised_again, *rows[n + 1 :]]
    ).faults


def test_with_zookeeper_a_follower_that_stops_may_be_taken_out_twice():
    rows = leader_rows(ZOOKEEPER)
    n = next(n for n, row in enumerate(rows) if row.reason == "isr_shrink")
    twice = replace(rows[n], leader_epoch=rows[n].leader_epoch + 1, reason="unknown", changes_max=2)
    assert (
        compare.compare_leaders(windows(ZOOKEEPER), [*rows[:n], twice, *rows[n + 1 :]]).faults == ()
    )
    wrong = replace(twice, reason="isr_shrink")
    assert compare.compare_leaders(windows(ZOOKEEPER), [*rows[:n], wrong, *rows[n + 1 :]]).faults
    assert compare.compare_leaders(windows(KRAFT_33), [*rows[:n], twice, *rows[n + 1 :]]).faults


def test_with_zookeeper_polls_may_miss_that_a_follower_was_taken_back_before_it_is_gone():
    rows = leader_rows(ZOOKEEPER)
    n = next(n for n, row in enumerate(rows) if row.reason == "isr_shrink")
    again = {"prev_leader_epoch": rows[n].leader_epoch, "leader_epoch": rows[n].leader_epoch + 1}
    seen = replace(rows[n], **again, began_before=rows[n].began_before + timedelta(seconds=1))
    missed = replace(rows[n], reason="unknown")
    assert (
        compare.compare_leaders(
            windows(ZOOKEEPER), [*rows[:n], missed, seen, *rows[n + 1 :]]
        ).faults
        == ()
    )
    for wrong in (
        [missed],
        [missed, replace(seen, reason="unknown")],
        [rows[n], replace(seen, reason="unknown")],
    ):
        assert compare.compare_leaders(
            windows(ZOOKEEPER), [*rows[:n], *wrong, *rows[n + 1 :]]
        ).faults
    assert compare.compare_leaders(
        windows(KRAFT_33), [*rows[:n], missed, seen, *rows[n + 1 :]]
    ).faults
