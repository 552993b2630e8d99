"""Random lives of groups, whose coordinators keep their own account: the fold tells the same, whole
or cut anywhere.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.groups.fold import fold
from jobs.rules.groups.state import State
from tests.support.epoch_group_simulator import ConsumerGroup, ShareGroup
from tests.support.examples import examples
from tests.support.group_records import history
from tests.support.group_simulator import WHAT, ClassicGroup

ACTIONS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(0, 30)), min_size=1, max_size=25)
CUTS = st.lists(st.integers(0, 200), max_size=5)
MAKERS = {
    "eager": lambda partitions: ClassicGroup(partitions, cooperative=False),
    "cooperative": lambda partitions: ClassicGroup(partitions, cooperative=True),
    "cooperative, old": lambda partitions: ClassicGroup(partitions, cooperative=True, old=True),
    "consumer": ConsumerGroup,
    "consumer, busy": lambda partitions: ConsumerGroup(partitions, busy=True),
    "share": ShareGroup,
}


@pytest.mark.parametrize("maker", MAKERS)
@settings(max_examples=examples(15))
@given(partitions=st.integers(1, 7), actions=ACTIONS, cuts=CUTS)
def test_the_fold_tells_what_the_coordinator_lived_through(maker, partitions, actions, cuts):
    group = MAKERS[maker](partitions)
    for action in actions:
        group.do(action)
    group.settle()
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
    assert (
        told.names.count("created")
        == len(told.names) - len(restarts)
        == (1 if group.log.rows else 0)
    )
    for row, members in zip(told.rebalances, told.members, strict=True):
        changes = [member["change"] for member in members.values()]
        assert [changes.count(change) for change in ("left", "restarted")] == [
            row["members_left"],
            row["members_restarted"],
        ]
        assert row["prev_members"] + row["members_joined"] - row["members_left"] == row["members"]
    assert history(group.log, [cut % (len(group.log.rows) + 1) for cut in cuts]) == told
    assert history(group.log, range(len(group.log.rows))) == told


@pytest.mark.parametrize("maker", MAKERS)
@settings(max_examples=examples(30))
@given(partitions=st.integers(1, 4), actions=ACTIONS)
def test_a_rebalance_is_open_while_a_record_that_may_end_it_is_to_come(maker, partitions, actions):
    group, state, read = MAKERS[maker](partitions), State(), 0
    for action in actions:
        group.do(action)
        state, _ = fold(state, group.log.rows[read:])
        read = len(group.log.rows)
        assert (state.open_rebalance is not None) == (group.account is not None)


@pytest.mark.parametrize("maker", MAKERS)
@settings(max_examples=examples(15))
@given(partitions=st.integers(1, 4), actions=ACTIONS, begin=st.integers(0, 200))
def test_of_a_group_that_is_met_in_mid_life_nothing_is_open_once_it_is_at_rest(
    maker, partitions, actions, begin
):
    group = MAKERS[maker](partitions)
    for action in actions:
        group.do(action)
    group.settle()
    rows = group.log.rows[begin % (len(group.log.rows) + 1) :]
    state, told = fold(State(), rows)
    assert state.open_rebalance is None
    assert all(row["ended_before"] is not None for row in told.rows.values() if "event" not in row)
